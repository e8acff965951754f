r"""What a ridge model has to know of its rows: the second moments of features and targets.

With features :math:`Z`, targets :math:`Y` and weights :math:`w` these are the products of the
columns of :math:`[Z, Y, 1]`, weighted: the normal equations, with or without an intercept, and the
sums of squares. They are sums over rows, so that those of two tables add up to those of both, in
any order, and their size does not depend on the number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import blas

from quadfeat._utils.validation import Float64Array, check_count
from quadfeat.io import UPPER_TRIANGLE, checks, register

# Columns of a matrix that are multiplied by a vector at once.
COLUMNS_PER_PANEL = 512

# The spectral norm of a rounding error E is at most about this many times |E v| / |v| for a random
# vector v: 2 to 5 for float32 products, more for wide kernels (benchmarks/gram_error.py).
NORM_PER_PROBE = 8.0

# Targets are shifted again when their mean is this many standard deviations away: what cancels then
# is a hundredth of what float64 resolves.
DRIFT = 10.0

# Targets have to vary by more than this many times the spacing of float64 at their mean.
LEAST_SPREAD = 2.0


@register
@dataclass(frozen=True)
class Moments:
    """Second moments of rows.

    Attributes
    ----------
    products : array of shape (n_components + n_outputs + 1,) * 2
        Products of the columns of features, targets and ones. Of the symmetric matrix only the
        upper triangle; in Fortran order.
    shift : array of shape (n_outputs,)
        Numbers that were subtracted from the targets, so that large ones do not cancel.
    n_rows : int
    control : array of shape (n_components,)
        The product of ``Z' W Z`` with the vector ``probe(n_components)``, summed in float64. Its
        difference to the product of the matrix itself measures how precise the matrix is.
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
        return cls(np.zeros((width, width), order="F"), shift, 0, np.zeros(n_components))

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
        with np.errstate(over="ignore", invalid="ignore"):  # sums may be beyond the range
            product = symmetric_product(self.products[:d, :d], vector)
            error = float(np.linalg.norm(product - self.control))
        return NORM_PER_PROBE * error / np.sqrt(d)

    def _borders(self, transform: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Return the products of features and targets ``[Y, 1] @ transform``, and of targets.

        Both with a last column for ones.
        """
        d = self.n_components
        whole = np.zeros((self.n_outputs + 1, transform.shape[1] + 1))
        whole[:, :-1], whole[-1, -1] = transform, 1.0
        corner = np.triu(self.products[d:, d:])
        corner += np.triu(corner, 1).T
        # Transforms have two entries a column, so that this is of the order of the corner.
        few = sparse.csr_array(whole)
        with np.errstate(over="ignore", invalid="ignore"):  # which callers check
            return self.products[:d, d:] @ few, few.T @ (corner @ few)

    def with_outputs(self, transform: Float64Array, shift: Float64Array) -> Moments:
        """Return the moments for targets ``[Y, 1] @ transform``, that is linear ones of these.

        Parameters
        ----------
        transform : array of shape (n_outputs + 1, n_new_outputs)
            Of targets ``Y`` that are shifted.
        shift : array of shape (n_new_outputs,)
            The shift that the new targets are declared to have.
        """
        d = self.n_components
        products = np.zeros((d + len(shift) + 1,) * 2, order="F")
        products[:d, :d] = self.products[:d, :d]
        products[:d, d:], corner = self._borders(transform)
        products[d:, d:] = np.triu(corner)
        return Moments(products, shift, self.n_rows, self.control)

    def shifted(self, shift: Float64Array) -> Moments:
        """Return the same moments with other numbers subtracted from the targets."""
        if np.array_equal(shift, self.shift):
            return self
        return replace(self, products=self.products.copy(order="F")).shift_in_place(shift)

    def shift_in_place(self, shift: Float64Array) -> Moments:
        """Return the moments with another shift, in the same array."""
        d, step = self.n_components, self.shift - shift
        products = self.products
        sums, target_sums, weight = products[:d, -1], products[d:-1, -1], self.weight
        products[:d, d:-1] += np.multiply.outer(sums, step)
        cross = np.multiply.outer(target_sums, step)
        products[d:-1, d:-1] += np.triu(cross + cross.T + weight * np.multiply.outer(step, step))
        products[d:-1, -1] += weight * step
        return replace(self, shift=shift)

    def target_means(self) -> Float64Array:
        """Return the means of the shifted targets; zeros if no row has a weight."""
        d = self.n_components
        means: Float64Array = self.products[d:-1, -1] / (self.weight or 1.0)
        return means

    def joint_shift(self, means: Float64Array, squares: Float64Array, weight: float) -> Any:
        """Return the shift for these rows and others.

        It stays as it is while the joint mean is within ``DRIFT`` standard deviations, and becomes
        the joint mean where batches have drifted away.

        Parameters
        ----------
        means, squares : array of shape (n_outputs,)
            Of the others: the means of the targets less this shift, and the sums of squares about
            their own means.
        weight : float
        """
        d, own = self.n_components, self.target_means()
        total = self.weight + weight
        if total == 0:
            return self.shift
        share = weight / total
        joint = own + share * (means - own)
        with np.errstate(over="ignore", invalid="ignore"):  # beyond the range nothing is shifted
            spread = np.diagonal(self.products)[d:-1] - self.weight * own**2 + squares
            spread = spread + self.weight * share * (means - own) ** 2
            drifted = joint**2 * total > DRIFT**2 * np.maximum(spread, 0.0)
        return np.where(drifted, self.shift + joint, self.shift) if drifted.any() else self.shift

    def merged(self, other: Moments) -> Moments:
        """Return the moments of the rows of both."""
        if other.products.shape != self.products.shape:
            raise ValueError(
                f"the moments of {self.n_components} features and {self.n_outputs} targets cannot "
                f"be added to those of {other.n_components} and {other.n_outputs}: fit both models "
                "to the same columns and targets."
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
        """Return the normal equations, of centered features and targets for an intercept.

        Parameters
        ----------
        intercept : bool
        transform : array of shape (n_outputs + 1, n_new_outputs), default=None
            Targets are ``[Y, 1] @ transform``; by default those that were given.
        """
        if transform is None:
            transform = np.eye(self.n_outputs + 1, self.n_outputs)
        of_shift = self.shift @ transform[:-1]
        # With an intercept the shift is never added back: next to it targets would cancel.
        transform = transform.copy()
        transform[-1] += 0.0 if intercept else of_shift
        offset = of_shift if intercept else np.zeros_like(of_shift)
        d = self.n_components
        sides = Sides.of(*self._borders(transform), intercept=intercept, offset=offset)
        matrix = np.array(self.products[:d, :d], order="F")
        if intercept:
            matrix = blas.dsyr(-sides.weight, sides.feature_means, a=matrix, overwrite_a=1)
        return NormalEquations(**vars(sides), matrix=matrix, gram_error=self.gram_error())


@dataclass(frozen=True)
class Sides:
    """Ridge regression with all rows summed up, but for the matrix of products of features.

    Attributes
    ----------
    right : array of shape (n_components, n_outputs)
    squares : array of shape (n_outputs,)
        Sums of squares of the targets, about the mean if there is an intercept.
    weight : float
    feature_means : array of shape (n_components,)
        Zeros without an intercept.
    target_means : array of shape (n_outputs,)
        The intercept where all features are at their means.
    intercept : bool
        Whether features and targets are centred.
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
    ) -> Sides:
        """Center for an intercept.

        Parameters
        ----------
        borders, corner : array
            Products of features and targets, and of targets with each other; a column of ones is
            the last of the targets.
        intercept : bool
        offset : array of shape (n_outputs,)
            Numbers to add to the means of the targets.
        """
        right, sums, weight = borders[:, :-1], borders[:, -1], float(corner[-1, -1])
        if weight == 0:
            raise ValueError("all rows have weight 0: give a positive weight to at least one.")
        squares, target_sums = np.diagonal(corner)[:-1], corner[:-1, -1]
        if not intercept:
            return cls(right, squares, weight, np.zeros(len(sums)), np.zeros(len(squares)), False)
        with np.errstate(over="ignore", invalid="ignore"):  # which callers check
            means = target_sums / weight
            right = right - np.multiply.outer(sums, means)
            squares = np.maximum(squares - weight * means**2, 0.0)
        target_means = means + offset
        _check_spread(np.sqrt(squares / weight), target_means)
        return cls(right, squares, weight, sums / weight, target_means, True)

    def checked(self) -> Sides:
        """Return this, if it is finite."""
        if not (np.isfinite(self.right).all() and np.isfinite(self.squares).all()):
            raise ValueError(
                "products of features and targets, with their weights, are beyond the range of "
                "numbers: rescale y or sample_weight, or pass X as float64."
            )
        return self

    @property
    def degrees(self) -> float:
        """How many degrees of freedom the rows have beside the intercept."""
        return self.weight - self.intercept


@dataclass(frozen=True)
class NormalEquations(Sides):
    """Normal equations: ``(matrix + alpha I) coefficients = right``.

    Attributes
    ----------
    matrix : array of shape (n_components, n_components)
        The upper triangle, in Fortran order. Solvers may write on it.
    gram_error : float
        The spectral norm of the rounding error of the matrix, estimated.
    """

    matrix: Float64Array
    gram_error: float


def _check_spread(deviations: Float64Array, means: Float64Array) -> None:
    """Reject targets that differ by no more than their rounding; equal ones are fine."""
    spacing = np.spacing(np.abs(means))
    for output in np.flatnonzero((deviations > 0) & (deviations < LEAST_SPREAD * spacing)):
        raise ValueError(
            f"y has a mean of {means[output]:.6g} and, with sample_weight, a standard deviation of "
            f"{deviations[output]:.2g}, and float64 resolves {spacing[output]:.2g} there: too few "
            "values are left to fit. Subtract a constant from y where it is still known precisely, "
            "or give weights that differ less."
        )


def symmetric_product(upper: Float64Array, vector: Float64Array) -> Float64Array:
    """Return the product of a symmetric matrix, given by its upper triangle, with a vector."""
    result = np.zeros_like(vector)
    for start in range(0, len(upper), COLUMNS_PER_PANEL):  # no copy of the whole matrix
        panel = slice(start, start + COLUMNS_PER_PANEL)
        above, corner = upper[:start, panel], np.triu(upper[panel, panel])
        result[:start] += above @ vector[panel]
        result[panel] += above.T @ vector[:start]
        result[panel] += corner @ vector[panel] + np.triu(corner, 1).T @ vector[panel]
    return result


def control_of(products: Float64Array, shift: Float64Array) -> Float64Array:
    """Return ``Moments.control`` of products whose rounding error is not known, as if exact."""
    d = len(products) - len(shift) - 1
    return symmetric_product(products[:d, :d], probe(d))


@lru_cache(maxsize=8)
def probe(n_components: int) -> Float64Array:
    """Return the vector by which the precision of a Gram matrix is measured, always the same."""
    vector = np.random.default_rng(0).standard_normal(n_components)
    vector.setflags(write=False)
    return vector
