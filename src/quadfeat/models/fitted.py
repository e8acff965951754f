"""The attributes of fitted models: the map, the solution, and values that depend on them."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from quadfeat._utils import validation as check
from quadfeat._utils.fitted import on_snapshot
from quadfeat._utils.validation import Float64Array
from quadfeat.kernels import Kernel
from quadfeat.learning.candidates import Choice, KernelCandidate
from quadfeat.maps.base import FeatureMap
from quadfeat.models.estimator import KernelEstimator
from quadfeat.solvers.posterior import Posterior
from quadfeat.solvers.ridge import AlphaPath
from quadfeat.solvers.targets import Targets


def own_map(features: Any) -> FeatureMap | None:
    """Return the attribute ``map_`` of a fitted transformer, with its number of threads.

    Return None if the transformer has no ``map_``, or if it is not a feature map.
    """
    held: Any = getattr(features, "map_", None)
    if not hasattr(held, "normal_multiply"):
        return None
    found: FeatureMap = held.with_jobs(getattr(features, "n_jobs", None))
    return found


class FittedModel(KernelEstimator):
    """Base class with the attributes and decision values of a fitted model."""

    allows_auto_kernel = True
    features_: Any
    _solution: Any
    _transformer_map: FeatureMap
    _choice: Choice

    @property
    def map_(self) -> FeatureMap:
        """The map from rows to features."""
        own = own_map(self.features_)
        return self._transformer_map if own is None else own

    @property
    def why_(self) -> str:
        """The reason for the kernel, in a few sentences."""
        check_is_fitted(self)
        return self._chosen().why

    @property
    def candidates_(self) -> tuple[KernelCandidate, ...]:
        """The kernels that were tried, the chosen one first."""
        check_is_fitted(self)
        return self._chosen().candidates

    def _chosen(self) -> Choice:
        return getattr(self, "_choice", Choice("The kernel was given."))

    @property
    def kernel_(self) -> Kernel:
        """The kernel of the map."""
        return self._kernel_map("kernel_").kernel

    @property
    def metric_(self) -> Float64Array:
        """The matrix M of the squared distance (x - y)' M (x - y) in the kernel."""
        found = self._kernel_map("metric_")
        return found.kernel.metric_for(found.n_features_in)

    def _kernel_map(self, what: str) -> Any:
        check_is_fitted(self)
        if not hasattr(self.map_, "kernel"):
            raise AttributeError(
                f"{what} is not available, because {check.one_line(self.features_)} has no kernel. "
                "Use features=QuadratureFeatures(), or set kernel instead of features."
            )
        return self.map_

    def _targets(self) -> Targets:
        """Return the encoding of targets as columns."""
        raise NotImplementedError

    def _solved(self) -> Any:
        """Return the solution, with the map and the targets that it needs on first use."""
        self._check_fitted()
        self._solution.complete(self.map_, self._targets())
        return self._solution

    def _decisions(self, X: Any) -> Float64Array:
        """Return the outputs for validated rows, shape (n_rows, n_outputs)."""
        self._check_fitted()
        solution, features = self._solution, self.map_
        solution.complete(features, self._targets())
        return features.predict(X, solution.coefficients, solution.intercept)

    def _posterior(self, what: str) -> Posterior:
        """Return the posterior; raise an error that names ``what`` if the solver has none."""
        solution = self._solved()
        if not solution.has_posterior:
            raise AttributeError(solution.reason_against(what))
        found: Posterior = solution.posterior
        return found

    @property
    @on_snapshot
    def alpha_(self) -> float:
        """The penalty that was used."""
        alpha: float = self._solved().alpha
        return alpha

    @property
    @on_snapshot
    def path_(self) -> AlphaPath | None:
        """The alphas that were tried and their criteria; None for a fixed alpha."""
        path: AlphaPath | None = getattr(self._solved(), "path", None)
        return self._posterior("path_").path if path is None else path

    @property
    @on_snapshot
    def log_marginal_likelihood_(self) -> float:
        """The log evidence at ``alpha_``, maximized over signal variances and summed."""
        return self._posterior("log_marginal_likelihood_").log_evidence

    @property
    @on_snapshot
    def gram_dtype_(self) -> str:
        """The dtype of the Gram matrix of the features."""
        self._posterior("gram_dtype_")
        dtype: str = self._solution.dtype
        return dtype

    @property
    @on_snapshot
    def n_iter_(self) -> int:
        """Number of conjugate gradient steps; 1 for ``solver="normal"``."""
        check_is_fitted(self)
        n_iter: int = self._solution.n_iter
        return n_iter

    @property
    @on_snapshot
    def solver_error_(self) -> float:
        """An upper bound on the relative error of fitted values; 0 for ``solver="normal"``.

        It includes the rounding error of predictions in the dtype of the rows.
        """
        check_is_fitted(self)
        error: float = self._solution.error
        return error
