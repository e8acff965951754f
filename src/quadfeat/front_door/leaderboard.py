"""The table of candidates with their validated losses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

import numpy as np

from quadfeat.front_door import cells
from quadfeat.io import checks, register

HEADER = ("candidate", "share", "{loss}", "+-", "{score}", "fit s", "predict s", "note")


@register
class LeaderboardRow(NamedTuple):
    """A candidate and its result.

    Attributes
    ----------
    name : str
    share : float
        The share of the candidate in the final model, between 0 and 1.
    loss : float
        The loss on held-out rows, which ranks the candidates; NaN if it was left out.
    standard_error : float
        The standard error of the loss; NaN if it is unknown.
    score : float
        R2 or accuracy on held-out rows.
    n_rows : int
        Number of held-out rows.
    fit_seconds, predict_seconds : float
        Wall-clock time to fit, and to predict the held-out rows.
    note : str
        Details of the model, or why the candidate was left out.
    estimator : estimator or None
        An unfitted estimator with the parameters that were found. Fit it to all rows to get the
        model of this candidate.
    """

    name: str
    share: float = 0.0
    loss: float = float("nan")
    standard_error: float = float("nan")
    score: float = float("nan")
    n_rows: int = 0
    fit_seconds: float = float("nan")
    predict_seconds: float = float("nan")
    note: str = ""
    estimator: Any = None

    def check_consistency(self) -> None:
        """Raise an error if this row is not valid; see ``quadfeat.io.register``."""
        for text in (self.name, self.note):
            checks.check_kind(text, str, "text of a row of leaderboard_")
        for number in (self.share, *self[2:5], *self[6:8]):
            checks.check_kind(number, (float, int), "number of a row of leaderboard_")

    @property
    def took_part(self) -> bool:
        """Whether the candidate was fitted."""
        return self.share > 0 or bool(np.isfinite(self.loss))


@register
@dataclass(frozen=True)
class Leaderboard:
    """The candidates from best to worst, then those that were left out.

    It is a sequence of rows, so ``pandas.DataFrame(model.leaderboard_)`` works.

    Attributes
    ----------
    rows : tuple of LeaderboardRow
    loss_name, score_name : str

    Examples
    --------
    >>> near = LeaderboardRow("neighbors", 1.0, 0.123, 0.01, 0.877, 500, 2.0, 0.1)
    >>> late = LeaderboardRow("more features", note="no time was left")
    >>> print(Leaderboard((near, late), "1 - R2", "R2"))
    candidate      share  1 - R2      +-      R2  fit s  predict s  note
    neighbors       1.00  0.1230  0.0100  0.8770    2.0       0.10
    more features                                                   left out: no time was left
    """

    rows: tuple[LeaderboardRow, ...]
    loss_name: str
    score_name: str

    def check_consistency(self) -> None:
        """Raise an error if a part is not valid; see ``quadfeat.io.register``."""
        checks.check_kind(self.rows, tuple, "rows of leaderboard_")
        for row in self.rows:
            checks.check_kind(row, LeaderboardRow, "item of leaderboard_")
        for name in (self.loss_name, self.score_name):
            checks.check_kind(name, str, "name of leaderboard_")

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[LeaderboardRow]:
        return iter(self.rows)

    @overload
    def __getitem__(self, place: int) -> LeaderboardRow: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[LeaderboardRow, ...]: ...

    def __getitem__(self, place: int | slice) -> Any:
        return self.rows[place]

    def cells(self) -> list[tuple[str, ...]]:
        """Return the table as text, the header first."""
        header = tuple(one.format(loss=self.loss_name, score=self.score_name) for one in HEADER)
        return [header, *(_cells(row) for row in self.rows)]

    def __str__(self) -> str:
        return cells.as_text(self.cells(), left=(0, len(HEADER) - 1))

    __repr__ = __str__

    def as_html(self) -> str:
        """Return the table in HTML."""
        return cells.as_html(self.cells())

    _repr_html_ = as_html


def _cells(row: LeaderboardRow) -> tuple[str, ...]:
    if not row.took_part:
        return (row.name, *[""] * 6, f"left out: {row.note}")
    return (
        row.name,
        f"{row.share:.2f}",
        *(_number(one, 4) for one in (row.loss, row.standard_error, row.score)),
        _number(row.fit_seconds, 1),
        _number(row.predict_seconds, 2),
        row.note,
    )


def _number(value: float, places: int) -> str:
    """Return a number as text; empty if it is unknown."""
    return "" if np.isnan(value) else f"{value:.{places}f}"
