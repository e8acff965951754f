"""The attributes of fitted models: the map, the solution, and values derived from them."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted, validate_data

from quadfeat._utils import validation as check
from quadfeat._utils.fitted import on_snapshot
from quadfeat._utils.validation import Float64Array
from quadfeat.io.pickles import VersionedState
from quadfeat.maps.base import FeatureMap
from quadfeat.solvers.posterior import Posterior
from quadfeat.solvers.ridge import AlphaPath


def own_map(features: Any) -> FeatureMap | None:
    """Return the feature map ``map_`` of a fitted transformer, with its number of threads.

    Return None if it has none, or its ``map_`` is something else.
    """
    held: Any = getattr(features, "map_", None)
    if not hasattr(held, "normal_multiply"):
        return None
    found: FeatureMap = held.with_jobs(getattr(features, "n_jobs", None))
    return found


class FittedModel(VersionedState):
    """Base class with the attributes and decisions of a fitted model."""

    features_: Any
    _solution: Any
    _transformer_map: FeatureMap

    @property
    def map_(self) -> FeatureMap:
        """The map from rows to columns."""
        own = own_map(self.features_)
        return self._transformer_map if own is None else own

    def _rows(self, X: Any) -> Any:
        """Validate rows for prediction."""
        check_is_fitted(self)
        X = validate_data(
            self,
            X,
            reset=False,
            accept_sparse="csr",
            dtype=check.FLOAT_DTYPES,
            ensure_all_finite=False,
        )
        return check.without_duplicates(X)

    def _decisions(self, X: Any) -> Float64Array:
        """Return the values of the outputs at validated rows, shape (n_rows, n_outputs)."""
        solution = self._solution
        return self.map_.predict(X, solution.coefficients, solution.intercept)

    def _posterior(self, what: str) -> Posterior:
        """Return the posterior; raise an error for ``what`` if the solver has none."""
        check_is_fitted(self)
        if not self._solution.has_posterior:
            raise AttributeError(self._solution.reason_against(what))
        found: Posterior = self._solution.posterior
        return found

    @property
    @on_snapshot
    def alpha_(self) -> float:
        """The penalty that was used."""
        check_is_fitted(self)
        alpha: float = self._solution.alpha
        return alpha

    @property
    @on_snapshot
    def path_(self) -> AlphaPath | None:
        """The alphas that were tried and their criteria; None for a fixed alpha."""
        return self._posterior("path_").path

    @property
    @on_snapshot
    def log_marginal_likelihood_(self) -> float:
        """The log evidence at ``alpha_``, signal variances profiled out, summed over outputs."""
        return self._posterior("log_marginal_likelihood_").log_evidence

    @property
    @on_snapshot
    def gram_dtype_(self) -> str:
        """The dtype of the products of features."""
        self._posterior("gram_dtype_")
        dtype: str = self._solution.dtype
        return dtype

    @property
    @on_snapshot
    def n_iter_(self) -> int:
        """Number of steps of conjugate gradients; 1 for ``solver="normal"``."""
        check_is_fitted(self)
        n_iter: int = self._solution.n_iter
        return n_iter

    @property
    @on_snapshot
    def solver_error_(self) -> float:
        """A bound on the error of fitted values, relative to the targets; 0 for ``"normal"``.

        It includes the rounding of predictions in the dtype of the rows.
        """
        check_is_fitted(self)
        error: float = self._solution.error
        return error
