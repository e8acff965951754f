"""Reject targets that are missing or infinite, and count the rows that have them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from quadfeat._utils.array_api import to_numpy
from quadfeat._utils.columns import NotFiniteError, is_stream

DROP = "drop these rows from X and y"
DROP_FROM_BLOCKS = "drop these rows when the files are written, or in a generator"


class NotFiniteTargetsError(NotFiniteError):
    """Some targets are NaN or infinite.

    Attributes
    ----------
    n_missing, n_infinite : int
        Number of rows with NaN or no value, and with infinity.
    n_rows : int
        Number of all rows, or of those in the block.
    what : str
        What these rows are, ``"rows"`` or ``"rows of a block"``.
    owner : str or None
        The class that the user has called.
    place : str
        The first file with such a target, if there are files.
    advice : str
        How to drop the rows.
    """

    names_of_fields = ("n_missing", "n_infinite", "n_rows", "what", "owner", "place", "advice")
    n_missing: int
    n_infinite: int
    n_rows: int
    what: str
    place: str
    advice: str

    def within_source(self, rows: Any, *, is_lazy: bool) -> NotFiniteTargetsError:
        if hasattr(rows, "targets_not_finite"):
            n_missing, n_infinite, n_rows, place = rows.targets_not_finite()
            counts = {"n_missing": n_missing, "n_infinite": n_infinite, "n_rows": n_rows}
            return self.changed(**counts, place=place, advice=DROP_FROM_BLOCKS)
        if is_lazy:
            return self.changed(what="rows of a block")
        if is_stream(rows):
            return self.changed(what="rows of a block", advice=DROP_FROM_BLOCKS)
        return self

    def __str__(self) -> str:
        owner = "quadfeat" if self.owner is None else self.owner
        place = f", first in {self.place}" if self.place else ""
        counts = (
            (self.n_missing, "NaN", "no target"),
            (self.n_infinite, "infinity", "an infinite target"),
        )
        sentences = [
            f"Input y contains {value}: {count:,} of {self.n_rows:,} {self.what} "
            f"{'has' if count == 1 else 'have'} {what}{place}."
            for count, value, what in counts
            if count
        ]
        sentences.append(f"{owner} needs a target for each row: {self.advice}.")
        return " ".join(sentences)


def check_targets_finite(y: Any) -> None:
    """Raise an error with the number of rows if targets are missing or infinite.

    Examples
    --------
    >>> try:
    ...     check_targets_finite([1.0, float("nan"), 2.0])
    ... except ValueError as error:
    ...     print(str(error).partition(". ")[0])
    Input y contains NaN: 1 of 3 rows has no target
    """
    missing, infinite = not_finite_rows(y)
    if missing.any() or infinite.any():
        counts = int(missing.sum()), int(infinite.sum()), len(missing)
        raise NotFiniteTargetsError(*counts, "rows", None, "", DROP)


def not_finite_rows(y: Any) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return masks of the rows with a missing target, and of those with an infinite one.

    Targets that are no array of one or two dimensions are left to other checks.
    """
    none = np.zeros(0, dtype=bool)
    if y is None or sparse.issparse(y):
        return none, none
    try:
        values = np.asarray(to_numpy(y, "y"))
    except ValueError:  # rows of different lengths
        return none, none
    if values.dtype.kind not in "fO" or values.ndim not in (1, 2):
        return none, none
    if values.dtype.kind == "f":
        if np.isfinite(values).all():  # the usual case, for speed
            return none, none
        missing, infinite = np.isnan(values), np.isinf(values)
    else:
        missing = np.fromiter(map(_is_missing, values.flat), bool, values.size)
        infinite = np.fromiter(map(_is_infinite, values.flat), bool, values.size)
    rows = [mask.reshape(len(values), -1).any(axis=1) for mask in (missing, infinite)]
    return rows[0], rows[1]


def _is_missing(value: Any) -> bool:
    """Return whether an object is None, NaN or ``pandas.NA``."""
    if value is None or type(value).__name__ == "NAType":
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def _is_infinite(value: Any) -> bool:
    return isinstance(value, (float, np.floating)) and bool(np.isinf(value))
