"""What goes on beside a pass over rows: progress that is shown, checkpoints that are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quadfeat.data.blocks import Block
from quadfeat.data.checkpoints import Checkpoint
from quadfeat.data.progress import Progress

# Returns what a checkpoint is to keep, which may take long to put together.
Kept = Callable[[], dict[str, Any]]


class Watch:
    """Watches over one pass.

    Parameters
    ----------
    checkpoint : Checkpoint, default=None
        Where to keep the state of the pass; None keeps nothing.
    state : dict, default=None
        What an earlier process has kept: the pass goes on from there.
    beside : dict, default=None
        What a checkpoint keeps beside the state.
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
        """Begin a pass over so many rows, if that is known."""
        self._progress.total = n_rows
        self._progress.start_at(self.n_done)
        if self.n_done == 0 and self.checkpoint.path is not None:
            self.checkpoint.begin(self._state(kept()))

    def pass_over(self, block: Block) -> None:
        """Take note of rows that an earlier process has added."""
        self.checkpoint.add(block)

    def check_resumed(self) -> None:
        """Raise an error if an earlier process has added other rows."""
        self.checkpoint.check_resumed()

    def add(self, block: Block, kept: Kept) -> None:
        """Take note of rows that were added."""
        self._progress.add(block.n_rows)
        self.checkpoint.add(block)
        if self.checkpoint.is_due():
            self.checkpoint.offer(self._state(kept()))

    def finish(self, n_rows: int = 0) -> None:
        """End the pass, with rows that were added elsewhere."""
        self._progress.add(n_rows)
        self._progress.finish()

    def _state(self, kept: dict[str, Any]) -> dict[str, Any]:
        return {**self.beside, **kept, "n_done": self._progress.rows}


class RowWatch(Watch):
    """Takes note of rows only, for work that keeps its state in another way.

    At the end, the rows have to be those that an earlier process has seen.
    """

    def begin(self, n_rows: int | None, kept: Kept) -> None:
        """Do nothing: there is no state to keep."""

    def check_resumed(self) -> None:
        """Do nothing: not before the end."""

    def add(self, block: Block, kept: Kept) -> None:
        self.checkpoint.add(block)

    def finish(self, n_rows: int = 0) -> None:
        self.checkpoint.check_resumed()


class Work:
    """A fit that may be interrupted and resumed.

    Parameters
    ----------
    checkpoint : Checkpoint
    state : dict or None
        What an earlier process has kept.
    beside : dict
        What is kept with every state.
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

    def watch(self, state: dict[str, Any] | None = None) -> Watch:
        """Return what watches over a pass that goes on from a state."""
        return Watch(self.checkpoint, state, self.beside, verbose=self.verbose)

    def row_watch(self) -> RowWatch:
        """Return what takes note of rows only."""
        return RowWatch(self.checkpoint)

    def begin(self, kept: dict[str, Any]) -> None:
        """Write a first state."""
        self.checkpoint.begin({**self.beside, **kept})

    def offer(self, kept: dict[str, Any]) -> None:
        """Write a state, if the last file is old enough."""
        self.checkpoint.offer({**self.beside, **kept})
