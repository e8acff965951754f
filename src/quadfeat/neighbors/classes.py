"""Classes as targets of a Gaussian process on nearest rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from quadfeat._utils.validation import Float64Array
from quadfeat.io import checks, register
from quadfeat.neighbors.fit import LocalFit
from quadfeat.solvers.calibration import Calibration, best_calibration


def encoded(codes: NDArray[np.intp], n_classes: int) -> Float64Array:
    """Return a column for each class, 1 for its rows and -1 for others; one for two classes.

    Examples
    --------
    >>> encoded(np.array([0, 1, 1]), 2)[:, 0]
    array([-1.,  1.,  1.])
    """
    if n_classes == 2:
        return np.where(codes[:, None] == 1, 1.0, -1.0)
    found = np.full((len(codes), n_classes), -1.0)
    found[np.arange(len(codes)), codes] = 1.0
    return found


def codes_of(Y: Float64Array) -> NDArray[np.intp]:
    """Return the indices of two or more classes; the inverse of :func:`encoded`."""
    return (Y[:, 0] > 0).astype(np.intp) if Y.shape[1] == 1 else Y.argmax(axis=1)


@register
@dataclass(frozen=True, eq=False)
class ClassFit(LocalFit):
    """A fit whose targets are classes; see :func:`encoded`.

    Attributes
    ----------
    known : Calibration or None
        The calibration of probabilities, once it is computed.
    """

    known: Calibration | None = None

    def check_consistency(self) -> None:
        """Raise an error if the parts do not fit together; see ``quadfeat.io.register``."""
        super().check_consistency()
        if self.known is not None:
            checks.check_kind(self.known, Calibration, "known of _solution")
            expected, found = max(2, self.n_outputs), len(self.known.bias)
            checks.expect(found == expected, f"there are {expected} classes and {found} biases")

    def with_rows(self, X: Float64Array, Y: Float64Array, weights: Float64Array) -> ClassFit:
        """Return a fit with other rows and the same settings."""
        return replace(self, X=X, Y=Y, weights=weights, known=None)

    def calibrated(self) -> Calibration:
        """Return the calibration of probabilities. It is computed on first use."""
        if self.known is None:
            vars(self)["known"] = self._calibration()
        assert self.known is not None
        return self.known

    def _calibration(self) -> Calibration:
        codes, weights = codes_of(self.Y), self.weights
        amounts = np.bincount(codes, weights, max(2, self.n_outputs)).astype(np.float64)
        if self.rows.size < 2:
            decisions = np.broadcast_to(self.center, self.Y.shape)
            return best_calibration(decisions, codes, weights, amounts)
        found = self.left_out()
        return best_calibration(found.mean, codes[found.rows], weights[found.rows], amounts)
