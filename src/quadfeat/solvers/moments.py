r"""Second moments of features and targets: all that ridge regression needs to know of its rows.

For features :math:`Z`, targets :math:`Y` and weights :math:`w`, the moments are the weighted
products of the columns of :math:`[Z, Y, 1]`. They determine the normal equations, with or without
an intercept. Moments are sums over rows, so moments of two tables can be added, and their size does
not depend on the number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import blas

from quadfeat._utils.memory import too_large
from quadfeat._utils.validation import Float64Array, check_count
from quadfeat.io import UPPER_TRIANGLE, checks, register

# Number of columns of a matrix that are multiplied by a vector at once.
COLUMNS_PER_PANEL = 512

# The spectral norm of a rounding error E is at most about this many times |E v| / |v| for a random
# vector v. Measured ratios are 2 to 5 for float32, and larger for wide kernels
# (benchmarks/gram_error.py).
NORM_PER_PROBE = 8.0

# Shift targets again when their mean is this many standard deviations from the shift. Cancellation
# then costs at most two decimal digits of float64.
DRIFT = 10.0

# Smallest standard deviation of targets, in units of the spacing of float64 at their mean.
LEAST_SPREAD = 2.0

# If sums of squares of targets are below the first number, they may have lost digits or be zero. If
# sums of products are above the second number, equal targets have cancelled instead.
LEAST_SQUARES = 1e-290
LEAST_PRODUCT = 1e-100


@register
@dataclass(frozen=True)
class Moments:
    """Second moments of features and targets.

    Attributes
    ----------
    products : array of shape (n_components + n_outputs + 1,) * 2
        Weighted products of the columns of features, targets and ones: the upper triangle of a
        symmetric matrix, in Fortran order.
    shift : array of shape (n_outputs,)
        Numbers that were subtracted from the targets, to avoid cancellation.
    n_rows : int
    control : array of shape (n_components,)
        The product of ``Z' W Z`` with the vector ``probe(n_components)``, computed in float64. Its
        difference from the product of the stored matrix measures the error of the matrix.
    """

    products: Float64Array = field(metadata=UPPER_TRIANGLE)
    shift: Float64Array
    n_rows: int
    control: Float64Array

    def check_consistency(self) -> None:
        checks.check_array(self.shift, (np.size(self.shift),), np.float64, "shift of _solution")
        checks.expect(self.n_outputs >= 1, "shift of _solution has no entries")
        width, name = len(self.products), "products of _solution"
        checks.check_array(self.products, (width, width), np.float64, name)
        checks.expect(self.products.flags.f_contiguous, f"{name} are not in Fortran order")
        check_count(self.n_rows, "n_rows of _solution", 0)
        checks.check_array(self.control, (self.n_components,), np.float64, "control of _solution")

    @staticmethod
    def migrate(attributes: dict[str, Any], found_format: int) -> dict[str, Any]:
        if found_format < 2:
            control = control_of(attributes["products"], attributes["shift"])
            return attributes | {"control": control}
        return attributes

    @classmethod
    def empty(cls, n_components: int, shift: Float64Array) -> Moments:
        """Return the moments of no rows."""
        width = n_components + len(shift) + 1
        try:
            products = np.zeros((width, width), order="F")
        except MemoryError as error:
            way_out = "Use solver='cg', or fewer components."
            what = "the products of features"
            raise too_large(n_components, 8 * width**2, what, way_out, error) from error
        return cls(products, shift, 0, np.zeros(n_components))

    @property
    def n_outputs(self) -> int:
        """Number of targets."""
        return len(self.shift)

    @property
    def n_components(self) -> int:
        """Number of features."""
        return len(self.products) - self.n_outputs - 1

    @property
    def weight(self) -> float:
        """The sum of the weights."""
        return float(self.products[-1, -1])

    @property
    def target_totals(self) -> Float64Array:
        """Weighted sums of the targets, shape (n_outputs,)."""
        return self.products[self.n_components : -1, -1] + self.shift * self.weight

    @property
    def target_variances(self) -> Float64Array:
        """Weighted variances of the targets, shape (n_outputs,)."""
        corner = self.products[self.n_components :, self.n_components :]
        means = corner[:-1, -1] / self.weight
        return np.asarray(np.maximum(np.diagonal(corner)[:-1] / self.weight - means**2, 0.0))

    def gram_error(self) -> float:
        """Estimate the spectral norm of the rounding error of ``Z' W Z``."""
        d = self.n_components
        if d == 0:
            return 0.0
        vector = probe(d)
        with np.errstate(over="ignore", invalid="ignore"):  # sums may overflow
            product = symmetric_product(self.products[:d, :d], vector)
            error = float(np.linalg.norm(product - self.control))
        return NORM_PER_PROBE * error / np.sqrt(d)

    def _borders(self, transform: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Return the products of features with targets, and of targets with each other.

        The targets are ``[Y, 1] @ transform``, followed by a column of ones.
        """
        d = self.n_components
        whole = np.zeros((self.n_outputs + 1, transform.shape[1] + 1))
        whole[:, :-1], whole[-1, -1] = transform, 1.0
        corner = np.triu(self.products[d:, d:])
        corner += np.triu(corner, 1).T
        # Transforms have at most two nonzeros per column, so a sparse product is fast.
        few = sparse.csr_array(whole)
        with np.errstate(over="ignore", invalid="ignore"):  # callers check this
            return self.products[:d, d:] @ few, few.T @ (corner @ few)

    def with_outputs(self, transform: Float64Array, shift: Float64Array) -> Moments:
        """Return the moments for the linear combinations ``[Y, 1] @ transform`` of targets.

        Parameters
        ----------
        transform : array of shape (n_outputs + 1, n_new_outputs)
            The matrix for shifted targets ``Y``.
        shift : array of shape (n_new_outputs,)
            The shift of the new targets.
        """
        d = self.n_components
        products = np.zeros((d + len(shift) + 1,) * 2, order="F")
        products[:d, :d] = self.products[:d, :d]
        products[:d, d:], corner = self._borders(transform)
        products[d:, d:] = np.triu(corner)
        return Moments(products, shift, self.n_rows, self.control)

    def shifted(self, shift: Float64Array) -> Moments:
        """Return the same moments with a different shift of the targets."""
        if np.array_equal(shift, self.shift):
            return self
        return replace(self, products=self.products.copy(order="F")).shift_in_place(shift)

    def shift_in_place(self, shift: Float64Array) -> Moments:
        """Return the moments with a different shift, written to the same array."""
        d, step = self.n_components, self.shift - shift
        products = self.products
        sums, target_sums, weight = products[:d, -1], products[d:-1, -1], self.weight
        products[:d, d:-1] += np.multiply.outer(sums, step)
        cross = np.multiply.outer(target_sums, step)
        products[d:-1, d:-1] += np.triu(cross + cross.T + weight * np.multiply.outer(step, step))
        products[d:-1, -1] += weight * step
        return replace(self, shift=shift)

    def target_means(self) -> Float64Array:
        """Return the means of the shifted targets; zeros if the total weight is 0."""
        d = self.n_components
        means: Float64Array = self.products[d:-1, -1] / (self.weight or 1.0)
        return means

    def joint_shift(self, means: Float64Array, squares: Float64Array, weight: float) -> Any:
        """Return the shift for these rows and more rows.

        The shift does not change while the joint mean is within ``DRIFT`` standard deviations of
        it. Otherwise, the new shift is the joint mean.

        Parameters
        ----------
        means, squares : array of shape (n_outputs,)
            Statistics of the other rows: the means of their targets minus this shift, and the sums
            of squares about their means.
        weight : float
            The total weight of the other rows.
        """
        d, own = self.n_components, self.target_means()
        total = self.weight + weight
        if total == 0:
            return self.shift
        share = weight / total
        joint = own + share * (means - own)
        with np.errstate(over="ignore", invalid="ignore"):  # on overflow, keep the shift
            spread = np.diagonal(self.products)[d:-1] - self.weight * own**2 + squares
            spread = spread + self.weight * share * (means - own) ** 2
            drifted = joint**2 * total > DRIFT**2 * np.maximum(spread, 0.0)
        return np.where(drifted, self.shift + joint, self.shift) if drifted.any() else self.shift

    def merged(self, other: Moments) -> Moments:
        """Return the moments of both sets of rows combined."""
        if other.products.shape != self.products.shape:
            raise ValueError(
                f"a model with {self.n_components} features and {self.n_outputs} targets cannot be "
                f"merged with one that has {other.n_components} and {other.n_outputs}. Fit both "
                "models with the same map and the same number of targets."
            )
        means, d = other.target_means(), self.n_components
        squares = np.diagonal(other.products)[d:-1] - other.weight * means**2
        shift = self.joint_shift(means + (other.shift - self.shift), squares, other.weight)
        left, right = self.shifted(shift), other.shifted(shift)
        return Moments(
            left.products + right.products,
            shift,
            self.n_rows + other.n_rows,
            self.control + other.control,
        )

    def normal_equations(
        self, *, intercept: bool, transform: Float64Array | None = None
    ) -> NormalEquations:
        """Return the normal equations; with an intercept, features and targets are centered.

        Parameters
        ----------
        intercept : bool
        transform : array of shape (n_outputs + 1, n_new_outputs), default=None
            The targets are ``[Y, 1] @ transform``; by default ``Y``.
        """
        if transform is None:
            transform = np.eye(self.n_outputs + 1, self.n_outputs)
        of_shift = self.shift @ transform[:-1]
        # With an intercept, do not add the shift back, since that would cause cancellation.
        transform = transform.copy()
        transform[-1] += 0.0 if intercept else of_shift
        offset = of_shift if intercept else np.zeros_like(of_shift)
        d = self.n_components
        borders, corner = self._borders(transform)
        right_side = RightHandSide.of(borders, corner, intercept=intercept, offset=offset)
        matrix = np.array(self.products[:d, :d], order="F")
        if intercept:
            means = right_side.feature_means
            matrix = blas.dsyr(-right_side.weight, means, a=matrix, overwrite_a=1)
        return NormalEquations(**vars(right_side), matrix=matrix, gram_error=self.gram_error())


@dataclass(frozen=True)
class RightHandSide:
    """The normal equations without their matrix.

    Attributes
    ----------
    right : array of shape (n_components, n_outputs)
    squares : array of shape (n_outputs,)
        Sums of squares of the targets, about their means if there is an intercept.
    weight : float
    feature_means : array of shape (n_components,)
        Zeros without an intercept.
    target_means : array of shape (n_outputs,)
        The prediction at the means of the features; zeros without an intercept.
    intercept : bool
        Whether features and targets are centered.
    """

    right: Float64Array
    squares: Float64Array
    weight: float
    feature_means: Float64Array
    target_means: Float64Array
    intercept: bool

    @classmethod
    def of(
        cls,
        borders: Float64Array,
        corner: Float64Array,
        *,
        intercept: bool,
        offset: Float64Array | float = 0.0,
    ) -> RightHandSide:
        """Return the right-hand side, centered if there is an intercept.

        Parameters
        ----------
        borders, corner : array
            Products of features with targets, and of targets with each other. The last target is a
            column of ones.
        intercept : bool
        offset : array of shape (n_outputs,)
            Numbers to add to the means of the targets.
        """
        right, sums, weight = borders[:, :-1], borders[:, -1], float(corner[-1, -1])
        if weight == 0:
            raise ValueError("all rows have weight 0. Pass at least one row a positive weight.")
        squares, target_sums = np.diagonal(corner)[:-1], corner[:-1, -1]
        if not intercept:
            return cls(right, squares, weight, np.zeros(len(sums)), np.zeros(len(squares)), False)
        with np.errstate(over="ignore", invalid="ignore"):  # callers check this
            means = target_sums / weight
            right = right - np.multiply.outer(sums, means)
            squares = np.maximum(squares - weight * means**2, 0.0)
        target_means = means + offset
        _check_spread(np.sqrt(squares / weight), target_means)
        return cls(right, squares, weight, sums / weight, target_means, True)

    def checked(self) -> RightHandSide:
        """Return this object; raise an error if it is not finite."""
        if not (np.isfinite(self.right).all() and np.isfinite(self.squares).all()):
            raise ValueError(
                "the weighted products of features and targets overflow. Rescale y or "
                "sample_weight, or pass X as float64."
            )
        self.check_underflow()
        return self

    def check_underflow(self) -> None:
        """Raise an error if targets differ, but their squares are below the range of float64."""
        largest = np.abs(self.right).max(axis=0)
        small = (largest > 0) & (largest < LEAST_PRODUCT) & (self.squares < LEAST_SQUARES)
        for output in np.flatnonzero(small):
            raise ValueError(
                f"y is so small (about {largest[output] / self.weight:.2g}) that the weighted sums "
                "of squares of the targets underflow. Multiply y by a large number, or "
                "sample_weight if it is as small."
            )

    @property
    def degrees(self) -> float:
        """Degrees of freedom: the total weight, minus 1 if there is an intercept."""
        return self.weight - self.intercept


@dataclass(frozen=True)
class NormalEquations(RightHandSide):
    """Normal equations: ``(matrix + alpha I) coefficients = right``.

    Attributes
    ----------
    matrix : array of shape (n_components, n_components)
        The upper triangle, in Fortran order. Solvers may overwrite it.
    gram_error : float
        An estimate of the spectral norm of the rounding error of the matrix.
    """

    matrix: Float64Array
    gram_error: float


def _check_spread(deviations: Float64Array, means: Float64Array) -> None:
    """Reject targets that differ only by rounding errors; equal targets are valid."""
    spacing = np.spacing(np.abs(means))
    for output in np.flatnonzero((deviations > 0) & (deviations < LEAST_SPREAD * spacing)):
        raise ValueError(
            f"the weighted standard deviation of y is {deviations[output]:.2g}, too close to the "
            f"resolution {spacing[output]:.2g} of float64 at the mean {means[output]:.6g}. "
            "Subtract a constant from y before converting it to float64, or use weights that "
            "differ less."
        )


def symmetric_product(upper: Float64Array, vector: Float64Array) -> Float64Array:
    """Multiply a symmetric matrix, given by its upper triangle, by a vector."""
    result = np.zeros_like(vector)
    for start in range(0, len(upper), COLUMNS_PER_PANEL):  # avoid a copy of the whole matrix
        panel = slice(start, start + COLUMNS_PER_PANEL)
        above, corner = upper[:start, panel], np.triu(upper[panel, panel])
        result[:start] += above @ vector[panel]
        result[panel] += above.T @ vector[:start]
        result[panel] += corner @ vector[panel] + np.triu(corner, 1).T @ vector[panel]
    return result


def control_of(products: Float64Array, shift: Float64Array) -> Float64Array:
    """Return ``Moments.control`` for products of unknown precision, as if they were exact."""
    d = len(products) - len(shift) - 1
    return symmetric_product(products[:d, :d], probe(d))


@lru_cache(maxsize=8)
def probe(n_components: int) -> Float64Array:
    """Return the fixed random vector that measures the precision of a Gram matrix."""
    vector = np.random.default_rng(0).standard_normal(n_components)
    vector.setflags(write=False)
    return vector
