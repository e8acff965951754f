r"""Leave-one-out errors along a path of alphas, and the alphas that they allow.

GCV and the evidence are averages over all rows. A few rows of high leverage, which determine their
own predictions, hardly change them. But similar rows in new data have large errors, so small alphas
can be much worse than these criteria suggest. Leave-one-out errors show this. A criterion may
therefore choose only among the alphas that the leave-one-out errors allow:

- The lower limit is the alpha nearest to 1 whose error exceeds the smallest error by at most one
  standard error of their paired difference, or by at most 0.5%. Among tied alphas, the one nearest
  to 1 is the safest. Smaller alphas extrapolate more, and a few new rows far from all others can
  cost more than 0.5%: without this tie, R2 on one of 20 splits of protein was .016 below that of
  alpha 1. Larger ones misclassify rows before squared errors increase.
- The upper limit is the largest alpha whose error is within 2% of the smallest error. The lower
  limit must satisfy this too, since standard errors are large on tables with few rows.
- An alpha below 1 must be better than 1 by more than two standard errors, and the error must not
  rise by more than 2% between 1 and that alpha. This rejects chance minima on few rows, next to
  alphas with huge errors.

The constants were measured by ``benchmarks/alpha.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadfeat._utils.validation import Float64Array
from quadfeat.solvers.moments import RightHandSide
from quadfeat.solvers.ridge import AlphaPath

# The limits in the docstring of this module.
STANDARD_ERRORS = 1.0
PRACTICALLY_TIED = 0.005
CLEAR_ERRORS = 2.0
WITHIN = 0.02

# For standard errors, squared errors are clipped at this many variances of the targets. Otherwise
# a single outlier would hide a difference that all other rows show.
LARGEST_SQUARE = 25.0

# Relative rounding error of alphas, and the largest alpha that can take the role of 1 in a path
# that does not contain 1.
ROUNDING = 1e-9
ABOUT_ONE = 2.0

# Largest number of alphas whose errors are multiplied pairwise. The time grows with its square.
MOST_PAIRED = 128


@dataclass(frozen=True)
class LeftOutCurve:
    """Sums of squared leave-one-out errors over rows, for several alphas.

    Attributes
    ----------
    weight, squared_weight : float
        The sum of the weights, and the sum of their squares.
    sums : array of shape (n_alphas,)
        Weighted sums of squared errors, averaged over outputs. Infinite if a row alone determines
        its prediction.
    linear : array of shape (n_paired,)
        Sums of ``w^2 e``, with weights ``w`` and clipped squared errors ``e``.
    products : array of shape (n_paired, n_paired)
        Sums of ``w^2 e e'`` for each pair of alphas. On long paths, only every k-th alpha is stored
        and represents its neighbors.
    unit : float
        The unit of squared errors.
    plain : array of shape (n_alphas,) or None
        The same as ``sums``, but with outputs in their original units; None if ``sums`` has these
        units.
    n_skipped : int, default=0
        The errors of this many alphas, the smallest, were not computed. Here they are infinite.
    """

    weight: float
    squared_weight: float
    sums: Float64Array
    linear: Float64Array
    products: Float64Array
    unit: float
    plain: Float64Array | None = None
    n_skipped: int = 0

    @classmethod
    def of(
        cls, squares: Float64Array, weights: Any, unit: float, plain: Float64Array | None = None
    ) -> LeftOutCurve:
        """Sum the squared errors of rows, shape (n_rows, n_alphas), given in a unit."""
        weights = np.ones(len(squares)) if weights is None else weights
        with np.errstate(invalid="ignore"):  # 0 * inf
            plain = None if plain is None else weights[weights > 0] @ plain[weights > 0]
        squares, weights = squares[weights > 0], weights[weights > 0]
        some = squares[:, :: _stride(squares.shape[1])]
        scaled = weights[:, None] * np.fmin(some, LARGEST_SQUARE)
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
        """Return the sums over both sets of rows."""
        return LeftOutCurve(
            self.weight + other.weight,
            self.squared_weight + other.squared_weight,
            self.sums + other.sums,
            self.linear + other.linear,
            self.products + other.products,
            self.unit,
            None if self.plain is None or other.plain is None else self.plain + other.plain,
        )

    def is_final(self, alphas: Float64Array) -> bool:
        """Return whether alphas below the given ones, which ascend, cannot be chosen.

        This is the case if errors rise between 1 and the smallest alpha.
        """
        one = int(np.searchsorted(alphas, 1.0 - ROUNDING))
        is_known = one < len(alphas) and alphas[one] <= ABOUT_ONE
        return is_known and bool(self._rises(one).any())

    def extended(self, n_skipped: int) -> LeftOutCurve:
        """Return the curve for more alphas, whose errors were not computed and are infinite."""
        if n_skipped == 0:
            return self
        n_alphas = n_skipped + len(self.sums)
        assert n_alphas <= MOST_PAIRED
        skipped = np.full(n_skipped, np.inf)
        # The sums of clipped errors are the largest ones.
        linear = np.full(n_alphas, LARGEST_SQUARE * self.squared_weight)
        products = np.full((n_alphas, n_alphas), LARGEST_SQUARE**2 * self.squared_weight)
        linear[n_skipped:] = self.linear
        products[n_skipped:, n_skipped:] = self.products
        return replace(
            self,
            sums=np.concatenate([skipped, self.sums]),
            linear=linear,
            products=products,
            plain=None if self.plain is None else np.concatenate([skipped, self.plain]),
            n_skipped=n_skipped,
        )

    @property
    def means(self) -> Float64Array:
        """The mean squared error for each alpha."""
        with np.errstate(over="ignore"):
            return self.sums / self.weight * self.unit

    def at(self, index: int) -> tuple[float, float, float]:
        """Return the sums of ``w e``, ``w^2 e`` and ``w^2 e^2`` for one alpha.

        Here ``w`` are the weights and ``e`` the squared errors. The last two sums come from the
        nearest alpha in ``products``, and their errors are in ``unit``.
        """
        near = int(self._nearest(np.array([index]))[0])
        return (
            float(self.sums[index]) * self.unit,
            float(self.linear[near]),
            float(self.products[near, near]),
        )

    def _nearest(self, indices: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the indices into ``products`` that represent alphas of the path."""
        stride = _stride(len(self.sums))
        return np.minimum((indices + stride // 2) // stride, len(self.linear) - 1)

    def standard_errors(self, best: int | None = None) -> Float64Array:
        """Return standard errors of paired differences to the smallest mean, or to ``best``."""
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
        """Return a mask of the ascending alphas that are safe to choose."""
        errors = self.means
        best = int(np.argmin(errors))
        if not np.isfinite(errors[best]):
            return np.ones(len(errors), dtype=bool)
        one = int(np.searchsorted(alphas, 1.0 - ROUNDING))  # the first alpha >= 1
        has_one = one < len(alphas) and alphas[one] <= ABOUT_ONE
        if has_one:
            best = self._safe_best(errors, one)
        with np.errstate(invalid="ignore"):  # infinite errors
            excess = errors - errors[best]
            near = excess <= WITHIN * errors[best]
            slack = np.fmax(
                STANDARD_ERRORS * self.standard_errors(best), PRACTICALLY_TIED * errors[best]
            )
            tied = near & (excess <= slack)
        indices = np.arange(len(errors))
        if has_one and best > one:
            lowest = int(indices[tied & (indices >= one)].min(initial=best))
        else:
            lowest = max(best, int(indices[tied].max(initial=best)))
            lowest = min(lowest, one) if has_one else lowest
        return np.asarray((indices >= lowest) & (near | (indices == lowest)))

    def is_no_worse_than_one(self, alphas: Float64Array) -> NDArray[np.bool_]:
        """Return a mask of the alphas whose errors are at most that of alpha 1."""
        one = int(np.searchsorted(alphas, 1.0 - ROUNDING))
        if one == len(alphas):
            return np.ones(len(alphas), dtype=bool)
        return np.asarray(self.means <= self.means[one])

    def _safe_best(self, errors: Float64Array, one: int) -> int:
        """Return the place of the least error, considering lower places only if clearly better.

        Places below it are out of reach if the error rises on the way to them: behind a rise, other
        minima come and go with the rounding of the Gram matrix.
        """
        limited = self._limited()
        in_reach = np.ones(len(errors), dtype=bool)
        in_reach[: one + 1] = ~np.logical_or.accumulate(self._rises(one))[::-1]
        gains = (limited[one] - limited) * self.unit
        clear = gains > CLEAR_ERRORS * self.standard_errors(one)
        safe = in_reach & (clear | (np.arange(len(errors)) >= one))
        return int(np.argmin(np.where(safe, errors, np.inf)))

    def _limited(self) -> Float64Array:
        """Return the means of the clipped squared errors."""
        return self.linear[self._nearest(np.arange(len(self.sums)))] / self.squared_weight

    def _rises(self, one: int) -> NDArray[np.bool_]:
        """Return where errors have risen, from the alpha at ``one`` down to the smallest one."""
        down = self._limited()[: one + 1][::-1]
        return np.asarray(down > (1.0 + WITHIN) * np.minimum.accumulate(down))

    def onto(self, path: AlphaPath) -> AlphaPath:
        """Return a copy of a path that includes these errors."""
        sums = self.sums if self.plain is None else self.plain
        with np.errstate(over="ignore"):
            loo = sums / self.weight * self.unit
        errors = self.standard_errors()
        loo[: self.n_skipped] = errors[: self.n_skipped] = np.nan
        return replace(path, loo=loo, loo_error=errors)


def _stride(n_alphas: int) -> int:
    """Return the step between alphas whose errors are multiplied pairwise."""
    return -(-n_alphas // MOST_PAIRED)


def weight_of_one_copy(weights: Any) -> Any:
    """Return the weight of one copy of each row: 1, or the whole weight if that is smaller."""
    return None if weights is None else np.minimum(weights, 1.0)


def left_out_curve(
    system: RightHandSide,
    leverage: Float64Array,
    fitted: Callable[[int, float], Float64Array],
    Y: Float64Array,
    weights: Any = None,
    amounts: Any = None,
) -> LeftOutCurve:
    """Return the curve of the leave-one-out errors of rows.

    Parameters
    ----------
    system : RightHandSide
    leverage : array of shape (n_rows, n_alphas)
        The leverage of each row without that of the intercept. It is overwritten.
    fitted : callable
        Takes the index of an output and a scale. Returns the fitted values minus their mean,
        divided by the scale, shape (n_rows, n_alphas).
    Y : array of shape (n_rows, n_outputs)
    weights, amounts : array of shape (n_rows,), default=None
        The weights of the rows, and the weight to leave out of each. By default, leave out one
        copy: a weight of 1, or the whole row if its weight is smaller.
    """
    leverage += 1.0 / system.weight if system.intercept else 0.0
    amounts = weight_of_one_copy(weights) if amounts is None else amounts
    if amounts is not None:
        leverage *= amounts[:, None]
    # Divide by the variance of the targets, so that squares of squares do not overflow.
    with np.errstate(over="ignore"):
        unit = float(np.mean(system.squares / system.weight))
    unit = unit if np.isfinite(unit) and unit > 0 else 1.0
    total = np.zeros(leverage.shape)
    plain = np.zeros(leverage.shape) if Y.shape[1] > 1 else None
    for output, target in enumerate(Y.T):
        # Scale each target by its standard deviation, so that all targets count equally.
        scale = np.sqrt(system.squares[output] / system.weight)
        scale = scale if np.isfinite(scale) and scale > 0 else np.sqrt(unit)
        residual = ((target - system.target_means[output]) / scale)[:, None]
        residual = residual - fitted(output, float(scale))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            errors = residual / (1.0 - leverage)
            squares = np.where(leverage < 1.0, errors**2, np.inf)
            total += squares
            if plain is not None:
                plain += squares * (scale**2 / unit)
    with np.errstate(over="ignore", invalid="ignore"):
        plain = None if plain is None else plain / Y.shape[1]
        return LeftOutCurve.of(total / Y.shape[1], weights, unit, plain)
