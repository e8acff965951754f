r"""Errors of rows left out, for a path of alphas, and which of the alphas they allow.

Criteria such as GCV and the evidence average over all rows. A few rows far from all others, which
alone determine their own predictions, hardly count in them, but count as much as others in the
errors of new rows. Small alphas are then much worse than these criteria suggest. Leave-one-out
errors reveal this, although only a few rows contribute. So a criterion chooses among the alphas
that these errors allow:

- The smallest one is the alpha nearest to 1 whose error exceeds the least one by at most one
  standard error of their difference, row by row. Among tied alphas the one nearest to 1 is the
  safest: small alphas extrapolate more, and large ones confuse classes before squared errors show
  it.
- The largest one is the largest alpha whose error is within 2 % of the least one. This also bounds
  the smallest one, for tables with few rows.
- An alpha below 1 has to be better than 1 by more than two standard errors, and the error must not
  rise by more than 2 % on the way from 1 to it. Otherwise a chance minimum on few rows, next to
  alphas with huge errors, could be chosen.

The numbers come from ``benchmarks/alpha.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadfeat._utils.validation import Float64Array
from quadfeat.solvers.ridge import AlphaPath

# See above.
STANDARD_ERRORS = 1.0
CLEAR_ERRORS = 2.0
WITHIN = 0.02

# In sums for standard errors, squared errors are at most this many variances of the targets: an
# outlier must not hide what all other rows tell.
MOST = 9.0

# Rounding of alphas, relative to them, and the largest that stands for 1 if there is none.
ROUNDING = 1e-9
ABOUT_ONE = 2.0

# Number of alphas for which products of errors are summed, which takes time of the order of its
# square.
MOST_PLACES = 128


@dataclass(frozen=True)
class LeftOutCurve:
    """Sums over rows of their squared errors when left out, for several alphas.

    Attributes
    ----------
    weight, squared_weight : float
        Sums of the weights of rows, and of their squares.
    sums : array of shape (n_alphas,)
        Weighted squared errors, a mean over outputs. Infinite where a row alone determines its
        prediction.
    linear : array of shape (n_places,)
    products : array of shape (n_places, n_places)
        Sums of squared weights times errors, and times the products of errors for two alphas, all
        within a limit. On long paths, only every k-th alpha is stored and represents its neighbors.
    unit : float
        The unit of squared errors.
    plain : array of shape (n_alphas,) or None
        The same as ``sums`` for outputs in their own units, which users see; None if equal.
    """

    weight: float
    squared_weight: float
    sums: Float64Array
    linear: Float64Array
    products: Float64Array
    unit: float
    plain: Float64Array | None = None

    @classmethod
    def of(
        cls, squares: Float64Array, weights: Any, unit: float, plain: Float64Array | None = None
    ) -> LeftOutCurve:
        """Sum the squared errors of rows, shape (n_rows, n_alphas), which are in some unit."""
        weights = np.ones(len(squares)) if weights is None else weights
        with np.errstate(invalid="ignore"):  # rows of weight 0 with infinite errors
            plain = None if plain is None else weights[weights > 0] @ plain[weights > 0]
        squares, weights = squares[weights > 0], weights[weights > 0]
        some = squares[:, :: _stride(squares.shape[1])]
        scaled = weights[:, None] * np.fmin(some, MOST)
        return cls(
            float(weights.sum()),
            float(weights @ weights),
            weights @ squares,
            weights @ scaled,
            scaled.T @ scaled,
            unit,
            plain,
        )

    def merged(self, other: LeftOutCurve) -> LeftOutCurve:
        """Return the sums over the rows of both."""
        return LeftOutCurve(
            self.weight + other.weight,
            self.squared_weight + other.squared_weight,
            self.sums + other.sums,
            self.linear + other.linear,
            self.products + other.products,
            self.unit,
            None if self.plain is None or other.plain is None else self.plain + other.plain,
        )

    @property
    def means(self) -> Float64Array:
        """The mean squared error for each alpha."""
        with np.errstate(over="ignore"):
            return self.sums / self.weight * self.unit

    def at(self, place: int) -> tuple[float, float, float]:
        """Return three sums for one alpha: of ``w e``, of ``w^2 e`` and of ``w^2 e^2``.

        ``w`` are weights and ``e`` squared errors. The last two sums are those of the nearest alpha
        for which products were summed.
        """
        near = int(self._nearest(np.array([place]))[0])
        return (
            float(self.sums[place]) * self.unit,
            float(self.linear[near]) * self.unit,
            float(self.products[near, near]) * self.unit**2,
        )

    def _nearest(self, places: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return which sums of products stand for alphas at some places."""
        stride = _stride(len(self.sums))
        return np.minimum((places + stride // 2) // stride, len(self.linear) - 1)

    def standard_errors(self, best: int | None = None) -> Float64Array:
        """Return the standard error of each mean minus the smallest, or another one, row by row."""
        errors = self.sums / self.weight
        best = int(np.argmin(errors)) if best is None else best
        at = self._nearest(np.arange(len(errors)))
        with np.errstate(invalid="ignore", over="ignore"):  # infinite errors
            differences = (self.linear[at] - self.linear[at[best]]) / self.squared_weight
            squares = (
                np.diagonal(self.products)[at]
                - 2.0 * self.products[at[best], at]
                + self.products[at[best], at[best]]
                - 2.0 * differences * (self.linear[at] - self.linear[at[best]])
                + differences**2 * self.squared_weight
            )
            return np.sqrt(np.maximum(squares, 0.0)) / self.weight * self.unit

    def allowed(self, alphas: Float64Array) -> NDArray[np.bool_]:
        """Return which alphas, in ascending order, are safe to choose."""
        errors = self.means
        best = int(np.argmin(errors))
        if not np.isfinite(errors[best]):
            return np.ones(len(errors), dtype=bool)
        one = int(np.searchsorted(alphas, 1.0 - ROUNDING))  # the first one that is not below 1
        has_one = one < len(alphas) and alphas[one] <= ABOUT_ONE
        if has_one:
            best = self._safe_best(errors, one)
        with np.errstate(invalid="ignore"):  # infinite errors
            excess = errors - errors[best]
            near = excess <= WITHIN * errors[best]
            tied = near & (excess <= STANDARD_ERRORS * self.standard_errors(best))
        places = np.arange(len(errors))
        if has_one and best > one:
            lowest = int(places[tied & (places >= one)].min(initial=best))
        else:
            lowest = max(best, int(places[tied].max(initial=best)))
            lowest = min(lowest, one) if has_one else lowest
        return np.asarray((places >= lowest) & (near | (places == lowest)))

    def is_no_worse_than_one(self, alphas: Float64Array) -> NDArray[np.bool_]:
        """Return which alphas, in ascending order, have errors no larger than those of 1."""
        one = int(np.searchsorted(alphas, 1.0 - ROUNDING))
        if one == len(alphas):
            return np.ones(len(alphas), dtype=bool)
        return np.asarray(self.means <= self.means[one])

    def _safe_best(self, errors: Float64Array, one: int) -> int:
        """Return the place of the least error, below a given place only if that is clearly better.

        Places below it are out of reach if the error rises on the way to them: behind a rise, other
        minima come and go with the rounding of the Gram matrix.
        """
        limited = self.linear[self._nearest(np.arange(len(errors)))] / self.squared_weight
        down = limited[: one + 1][::-1]
        rises = down > (1.0 + WITHIN) * np.minimum.accumulate(down)
        in_reach = np.ones(len(errors), dtype=bool)
        in_reach[: one + 1] = ~np.logical_or.accumulate(rises)[::-1]
        best = int(np.argmin(np.where(in_reach, errors, np.inf)))
        if best >= one:
            return best
        gain = (limited[one] - limited[best]) * self.unit
        return best if gain > CLEAR_ERRORS * self.standard_errors(best)[one] else one

    def onto(self, path: AlphaPath) -> AlphaPath:
        """Return a path with these errors."""
        sums = self.sums if self.plain is None else self.plain
        with np.errstate(over="ignore"):
            loo = sums / self.weight * self.unit
        return replace(path, loo=loo, loo_error=self.standard_errors())


def _stride(n_alphas: int) -> int:
    """Return the distance between places of a path whose products are summed."""
    return -(-n_alphas // MOST_PLACES)


def once(weights: Any) -> Any:
    """Return the weight to leave out of each row: one copy, or a row of less weight as a whole."""
    return None if weights is None else np.minimum(weights, 1.0)
