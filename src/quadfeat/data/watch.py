"""Progress and checkpoints of a pass over rows, and of a whole fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quadfeat.data.blocks import Block
from quadfeat.data.checkpoints import Checkpoint
from quadfeat.data.progress import Progress

# Returns the entries of a checkpoint. Collecting them may take long, so it is called only if a
# checkpoint is written.
Kept = Callable[[], dict[str, Any]]


class Watch:
    """Shows the progress of one pass and writes its checkpoints.

    Parameters
    ----------
    checkpoint : Checkpoint, default=None
        Where to write the state of the pass; None writes nothing.
    state : dict, default=None
        The state that an earlier process has written: the pass resumes from it.
    extra : dict, default=None
        Entries to write with the state.
    verbose : bool, default=False
        Show progress on standard error.
    what : str, default="fit"
        The name of the pass.
    """

    def __init__(
        self,
        checkpoint: Checkpoint | None = None,
        state: dict[str, Any] | None = None,
        extra: dict[str, Any] | None = None,
        *,
        verbose: bool = False,
        what: str = "fit",
    ) -> None:
        self.checkpoint = Checkpoint(None, {}) if checkpoint is None else checkpoint
        self.kept = state
        self.extra = extra or {}
        self.n_done: int = 0 if state is None else state["n_done"]
        self._progress = Progress(verbose, what)

    @property
    def keeps_state(self) -> bool:
        """Whether the state of the pass is written."""
        return self.checkpoint.path is not None

    def begin(self, n_rows: int | None, kept: Kept) -> None:
        """Begin a pass over ``n_rows`` rows; None means that their number is not known."""
        self._progress.total = n_rows
        self._progress.start_at(self.n_done)
        if self.n_done > 0:
            self._progress.show_resumed()
        elif self.checkpoint.path is not None:
            self.checkpoint.begin(self._state(kept()))

    def pass_over(self, block: Block) -> None:
        """Record rows that an earlier process has added."""
        self.checkpoint.add(block)
        # Restart the clock, since reading these rows again says nothing about the time left.
        self._progress.start_at(self.n_done)

    def check_resumed(self) -> None:
        """Raise an error if an earlier process has added other rows."""
        self.checkpoint.check_resumed()

    def add(self, block: Block, kept: Kept) -> None:
        """Record rows that were added, and write a checkpoint if one is due."""
        self._progress.add(block.n_rows)
        self.checkpoint.add(block)
        if self.checkpoint.is_due():
            self.checkpoint.offer(self._state(kept()))

    def explain_loss(self, interrupt: KeyboardInterrupt) -> None:
        """Say in an interrupt of a stream how the next fit can keep its rows."""
        if self.checkpoint.path is None and self._progress.rows > 0:
            interrupt.args = (
                f"the {self._progress.rows:,} rows so far are lost. QuadratureRidge and its "
                'classifier keep them with checkpoint="fit.quadfeat", and fit resumes if you call '
                "it again.",
            )

    def keep_interrupted(self, kept: Kept, interrupt: KeyboardInterrupt) -> None:
        """Write the state after Ctrl-C, and say so in the interrupt."""
        n_rows = self._progress.rows
        if self.keeps_state and n_rows > self.n_done and self.checkpoint.keep(self._state(kept())):
            interrupt.args = (
                f"checkpoint={str(self.checkpoint.path)!r} keeps the {n_rows:,} rows so far. Call "
                "fit again with the same data to resume.",
            )

    def finish(self, n_rows: int = 0) -> None:
        """End the pass; ``n_rows`` is the number of rows that other processes have added."""
        self._progress.add(n_rows)
        self._progress.finish()

    def _state(self, kept: dict[str, Any]) -> dict[str, Any]:
        return {**self.extra, **kept, "n_done": self._progress.rows}


class RowWatch(Watch):
    """Records rows only, for solvers that write checkpoints themselves.

    At the end of the pass it raises an error if an earlier process has read other rows.
    """

    keeps_state = False

    def begin(self, n_rows: int | None, kept: Kept) -> None:
        """Do nothing: the solver writes the first checkpoint."""

    def check_resumed(self) -> None:
        """Do nothing: :meth:`finish` checks the rows."""

    def add(self, block: Block, kept: Kept) -> None:
        self.checkpoint.add(block)

    def finish(self, n_rows: int = 0) -> None:
        self.checkpoint.check_resumed()


class Work:
    """Progress and checkpoints of a fit, which may be interrupted and resumed.

    Parameters
    ----------
    checkpoint : Checkpoint
    state : dict or None
        The state that an earlier process has written.
    extra : dict
        Entries to write with every state.
    verbose : bool
        Show progress on standard error.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        state: dict[str, Any] | None,
        extra: dict[str, Any],
        *,
        verbose: bool,
    ) -> None:
        self.checkpoint = checkpoint
        self.state = state
        self.extra = extra
        self.verbose = verbose

    @classmethod
    def silent(cls) -> Work:
        """Return a ``Work`` that shows no progress and writes no checkpoints."""
        return cls.without_checkpoints(verbose=False)

    @classmethod
    def without_checkpoints(cls, *, verbose: bool) -> Work:
        """Return a ``Work`` that writes no checkpoints."""
        return cls(Checkpoint(None, {}), None, {}, verbose=verbose)

    def watch(self, state: dict[str, Any] | None = None) -> Watch:
        """Return a watch for one pass, which resumes from ``state`` if it is given."""
        return Watch(self.checkpoint, state, self.extra, verbose=self.verbose)

    def progress(self, what: str) -> Watch:
        """Return a watch that only shows the progress of another pass."""
        return Watch(verbose=self.verbose, what=f"fit, {what}")

    def row_watch(self) -> RowWatch:
        """Return a watch that records rows only."""
        return RowWatch(self.checkpoint)

    def show(self, text: str) -> None:
        """Print a line of progress, if ``verbose`` is set."""
        Progress(self.verbose, "fit").show_line(text)

    def begin(self, kept: dict[str, Any]) -> None:
        """Write the first checkpoint."""
        self.checkpoint.begin({**self.extra, **kept})

    def offer(self, kept: dict[str, Any]) -> None:
        """Write a checkpoint if one is due."""
        self.checkpoint.offer({**self.extra, **kept})
