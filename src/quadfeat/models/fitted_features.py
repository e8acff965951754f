"""The attributes of a fitted transformer: kernel, nodes and approximation error."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from quadfeat._utils import validation as check
from quadfeat._utils.array_api import follows_input
from quadfeat._utils.columns import check_finite
from quadfeat._utils.fitted import on_snapshot
from quadfeat._utils.lazy import cached_property
from quadfeat._utils.memory import too_large
from quadfeat._utils.random import generator
from quadfeat._utils.validation import Array
from quadfeat.kernels import Kernel
from quadfeat.maps import kernel_error
from quadfeat.maps.kernel_error import KernelError
from quadfeat.maps.kernel_map import KernelMap
from quadfeat.models.estimator import KernelEstimator
from quadfeat.rules import Rule
from quadfeat.rules.nodes import Nodes


class FittedFeatures(KernelEstimator):
    """Base class with the attributes of a fitted transformer, and its approximation error."""

    map_: KernelMap
    n_jobs: int | None

    @property
    def kernel_(self) -> Kernel:
        """The kernel with a numeric scale."""
        return self.map_.kernel

    @property
    def nodes_(self) -> Nodes:
        """The drawn nodes."""
        return self.map_.nodes

    @property
    def rule_(self) -> Rule:
        """The rule that drew the nodes."""
        origin = self.map_.origin
        assert origin is not None
        return origin.rule

    @property
    def n_components_(self) -> int:
        """Number of output columns."""
        return self.map_.n_columns

    @cached_property
    def approximation_error_(self) -> KernelError:
        """The relative error of this map on the data in ``fit``, estimated on first use."""
        held: dict[str, Any] = self.__dict__
        pending = held.get("_pending_error")
        if pending is None:
            if "approximation_error_" in held:  # another thread was faster
                known: KernelError = held["approximation_error_"]
                return known
            check_is_fitted(self)
            raise AttributeError(
                "approximation_error_ is not available, because grow() had no data: call "
                "kernel_error(X)."
            )
        error: KernelError = held.setdefault("approximation_error_", pending.estimated())
        held.pop("_pending_error", None)
        return error

    _n_features_out = n_components_  # the name that scikit-learn expects

    @follows_input
    @on_snapshot
    def approximate_kernel(self, X: Any, Y: Any = None) -> Array:
        """Estimate the Gram matrix of the kernel.

        The estimate is ``transform(X) @ transform(Y).T``. A rule with ``origin="signed"`` adds a
        constant that is not a feature and makes the estimate unbiased.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples_X, n_features)
        Y : array-like or sparse matrix of shape (n_samples_Y, n_features), default=None
            ``None`` means ``X``.

        Returns
        -------
        ndarray of shape (n_samples_X, n_samples_Y)
        """
        left = self._features(X)
        right = left if Y is None else self._features(Y)
        with np.errstate(over="ignore", invalid="ignore"):
            gram = left @ right.T
        gram += self.nodes_.origin_correction(self.kernel_)
        return check.check_range(gram, self.kernel_)

    @on_snapshot
    def kernel_error(
        self,
        X: Any,
        *,
        norm: str = "frobenius",
        n_pairs: int | None = None,
        confidence: float = 0.95,
        random_state: Any = None,
    ) -> KernelError:
        """Estimate the approximation error of the kernel on this data.

        Compare ``transform(X) @ transform(X).T`` with ``kernel_(X)`` on sampled pairs of rows,
        without forming either matrix. The diagonal is weighted as in the full matrix.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        norm : {"frobenius", "rms", "max"}, default="frobenius"
            ``"frobenius"`` is the Frobenius norm of the difference relative to that of the kernel
            matrix. ``"rms"`` is the root mean square of the difference, and ``"max"`` its largest
            absolute value.
        n_pairs : int, default=None
            Number of pairs to compare. If it covers all pairs, the result is exact. The default is
            100,000, or fewer for a kernel that is slow to compute. Rows are drawn in groups, and
            all pairs within a group are compared, so that few features have to be computed. If a
            few rows dominate the kernel matrix, the interval is too short: use more pairs. An
            example is an arc-cosine kernel of rows with very different norms.
        confidence : float, default=0.95
            Confidence of the interval, or of the quantile for ``"max"``.
        random_state : int, numpy.random.Generator, RandomState or None, default=None
            Seed or generator that draws the pairs.

        Returns
        -------
        KernelError
            The estimate ``value`` with the interval from ``low`` to ``high``, or with a
            ``quantile`` for ``"max"``.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from quadfeat import QuadratureFeatures
        >>> X = load_digits().data
        >>> features = QuadratureFeatures(n_components=512, random_state=0).fit(X)
        >>> error = features.kernel_error(X, random_state=0)
        >>> error.low < error.value < error.high < 0.1
        True
        """
        X = self._validated(X)
        check_finite(X)
        n_pairs = kernel_error.default_pairs(self.kernel_) if n_pairs is None else n_pairs
        pairs = kernel_error.Pairs.of(X, n_pairs, generator(random_state))
        return kernel_error.estimate(self._threaded(), pairs, norm=norm, confidence=confidence)

    @on_snapshot
    def fingerprint(self) -> str:
        """Return a hash that identifies the features of this map.

        Two maps have the same fingerprint if and only if they compute the same features. It
        depends on the nodes and the kernel, but not on library versions or the number of threads.
        Use it to compare maps that were fitted on different machines.

        Examples
        --------
        >>> from quadfeat import QuadratureFeatures
        >>> maps = [QuadratureFeatures(random_state=seed).fit([[0.0], [1.0]]) for seed in (1, 1, 2)]
        >>> first, second, third = (one.fingerprint() for one in maps)
        >>> first == second, first == third
        (True, False)
        """
        check_is_fitted(self)
        return self.map_.fingerprint()

    def _threaded(self) -> KernelMap:
        """Return the map, set to the current ``n_jobs``."""
        return self.map_.with_jobs(self.n_jobs)

    def _features(self, X: Any) -> Array:
        """Return the features as an array, regardless of ``set_output``."""
        X = self._validated(X)  # before map_ is used, because it checks that the map is fitted
        try:
            return self._threaded().columns(X)
        except MemoryError as error:
            n_bytes = X.shape[0] * self.n_components_ * X.dtype.itemsize
            way_out = "Transform fewer rows at once, or use fewer components."
            what = f"the features of {X.shape[0]:,} rows"
            raise too_large(self.n_components_, n_bytes, what, way_out, error) from error
