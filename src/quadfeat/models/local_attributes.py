"""The attributes that a fit of a model on the nearest rows has found."""

from __future__ import annotations

from sklearn.utils.validation import check_is_fitted

from quadfeat.kernels import Kernel
from quadfeat.learning.candidates import Choice, KernelCandidate
from quadfeat.models import local_predictions as predictions
from quadfeat.models.estimator import KernelEstimator
from quadfeat.neighbors.fit import LocalFit


class LocalAttributes(KernelEstimator):
    """Base class with the public attributes of fitted models on the nearest rows."""

    _solution: LocalFit
    _choice: Choice

    def _solved(self) -> LocalFit:
        """Return the result of the fit."""
        check_is_fitted(self)
        return self._solution

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_solution")

    @property
    def kernel_(self) -> Kernel:
        """The kernel, with its scale."""
        return self._solved().kernel

    @property
    def alpha_(self) -> float:
        """The ratio of the noise variance of a row of weight 1 to the signal variance."""
        return self._solved().alpha

    @property
    def n_neighbors_(self) -> int:
        """The number of neighbors."""
        solution = self._solved()
        return min(solution.n_neighbors, solution.rows.size)

    @property
    def recall_(self) -> float:
        """The share of the nearest training rows that the search finds; 1 if it is exact."""
        return float(self._solved().process.recall)

    @property
    def jitter_(self) -> float:
        """The largest number added to the diagonal of a kernel matrix, relative to its mean."""
        return float(predictions.calibrated(self, "jitter_").calibration.jitter.max())

    @property
    def why_(self) -> str:
        """The reason for the kernel, in a few sentences."""
        check_is_fitted(self)
        return self._choice.why

    @property
    def candidates_(self) -> tuple[KernelCandidate, ...]:
        """The kernels that were tried, the chosen one first."""
        check_is_fitted(self)
        return self._choice.candidates
