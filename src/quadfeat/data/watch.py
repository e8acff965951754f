"""Progress and checkpoints of a pass over rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quadfeat.data.blocks import Block
from quadfeat.data.checkpoints import Checkpoint
from quadfeat.data.progress import Progress

# Returns the state for a checkpoint. That may take long: it is called only if one is written.
Kept = Callable[[], dict[str, Any]]


class Watch:
    """Shows the progress of one pass and writes its checkpoints.

    Parameters
    ----------
    checkpoint : Checkpoint, default=None
        Where to write the state of the pass; None writes nothing.
    state : dict, default=None
        The state that an earlier process has written: the pass resumes from it.
    beside : dict, default=None
        Entries that a checkpoint holds besides the state.
    verbose : bool, default=False
        Show progress on standard error.
    """

    def __init__(
        self,
        checkpoint: Checkpoint | None = None,
        state: dict[str, Any] | None = None,
        beside: dict[str, Any] | None = None,
        *,
        verbose: bool = False,
    ) -> None:
        self.checkpoint = Checkpoint(None, {}) if checkpoint is None else checkpoint
        self.kept = state
        self.beside = beside or {}
        self.n_done: int = 0 if state is None else state["n_done"]
        self._progress = Progress(verbose, "fit")

    def begin(self, n_rows: int | None, kept: Kept) -> None:
        """Begin a pass over ``n_rows`` rows, or None if their number is not known."""
        self._progress.total = n_rows
        self._progress.start_at(self.n_done)
        if self.n_done == 0 and self.checkpoint.path is not None:
            self.checkpoint.begin(self._state(kept()))

    def pass_over(self, block: Block) -> None:
        """Record rows that an earlier process has added."""
        self.checkpoint.add(block)

    def check_resumed(self) -> None:
        """Raise an error if an earlier process has added other rows."""
        self.checkpoint.check_resumed()

    def add(self, block: Block, kept: Kept) -> None:
        """Record rows that were added."""
        self._progress.add(block.n_rows)
        self.checkpoint.add(block)
        if self.checkpoint.is_due():
            self.checkpoint.offer(self._state(kept()))

    def finish(self, n_rows: int = 0) -> None:
        """End the pass; ``n_rows`` is the number of rows that other processes have added."""
        self._progress.add(n_rows)
        self._progress.finish()

    def _state(self, kept: dict[str, Any]) -> dict[str, Any]:
        return {**self.beside, **kept, "n_done": self._progress.rows}


class RowWatch(Watch):
    """Records rows only, for solvers that write their states themselves.

    At the end it raises an error if an earlier process has seen other rows.
    """

    def begin(self, n_rows: int | None, kept: Kept) -> None:
        """Do nothing: there is no state to write."""

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
    beside : dict
        Entries that are written with every state.
    verbose : bool
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        state: dict[str, Any] | None,
        beside: dict[str, Any],
        *,
        verbose: bool,
    ) -> None:
        self.checkpoint = checkpoint
        self.state = state
        self.beside = beside
        self.verbose = verbose

    @classmethod
    def silent(cls) -> Work:
        """Return work without progress and without checkpoints."""
        return cls(Checkpoint(None, {}), None, {}, verbose=False)

    def watch(self, state: dict[str, Any] | None = None) -> Watch:
        """Return the watch of a pass, which resumes from a state if there is one."""
        return Watch(self.checkpoint, state, self.beside, verbose=self.verbose)

    def row_watch(self) -> RowWatch:
        """Return a watch that records rows only."""
        return RowWatch(self.checkpoint)

    def begin(self, kept: dict[str, Any]) -> None:
        """Write the first state."""
        self.checkpoint.begin({**self.beside, **kept})

    def offer(self, kept: dict[str, Any]) -> None:
        """Write a state, if the last file is old enough."""
        self.checkpoint.offer({**self.beside, **kept})
