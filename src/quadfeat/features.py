"""The feature map as a scikit-learn transformer, and the rules by their names in the literature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils import assert_all_finite, check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from quadfeat import _validation as check
from quadfeat._core import CompiledMap, compile_map, farthest, largest_magnitude, n_threads
from quadfeat._validation import Array
from quadfeat.kernels import Kernel, as_kernel
from quadfeat.rotations import Haar, Hadamard
from quadfeat.rules import (
    Fastfood,
    GaussHermite,
    MonteCarlo,
    QuasiMonteCarlo,
    Rule,
    SphericalRadial,
)

__all__ = ["QuadratureFeatures", "transform_into"]


def _rom() -> Rule:
    return SphericalRadial(
        directions="orthoplex", tilt=0.0, radii="constant", rotation=Hadamard(rounds=3)
    )


# Rules by the names that the literature uses. SORF and ROM are the same matrix.
_NAMED: dict[str, Callable[[], Rule]] = {
    "sr33": SphericalRadial,
    "rff": MonteCarlo,
    "orf": lambda: SphericalRadial(directions="orthoplex", tilt=0.0, rotation=Haar()),
    "rom": _rom,
    "sorf": _rom,
    "halton": lambda: QuasiMonteCarlo(sequence="halton"),
    "sobol": lambda: QuasiMonteCarlo(sequence="sobol"),
    "gauss-hermite": GaussHermite,
    "fastfood": Fastfood,
}


def as_rule(rule: Rule | str) -> Rule:
    """Return the rule that a name stands for, or the rule itself.

    Examples
    --------
    >>> as_rule("rff")
    MonteCarlo()
    """
    return check.object_or_name(rule, "rule", Rule, _NAMED)  # type: ignore[type-abstract]


class QuadratureFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Explicit features whose inner products approximate a kernel.

    ``transform(X) @ transform(Y).T`` is close to ``kernel(X, Y)``, so that a linear model on the
    features is a kernel machine. The nodes of the features come from a quadrature rule for the
    kernel's integral: by default the spherical-radial rule of degree (3, 3) of Munkhoeva et al.,
    turned by butterfly matrices.

    Parameters
    ----------
    kernel : Kernel or str, default="gaussian"
        What is approximated: an object from :mod:`quadfeat.kernels`, or the name of one with
        default parameters: ``"gaussian"`` (or ``"rbf"``), ``"laplacian"``, ``"matern12"``,
        ``"matern32"``, ``"matern52"``, ``"rational-quadratic"``, ``"arccos0"``, ``"arccos1"``,
        ``"arccos2"``.
    n_components : int, default=1024
        Number of columns of the result, exactly. The Gaussian kernel with ``rule="sr33"`` is at its
        best with whole blocks: ``2 n (d + 1) + 1`` for some ``n``.
    rule : Rule or str, default="sr33"
        Where the nodes go: an object from :mod:`quadfeat.rules`, or a name from the literature:
        ``"sr33"``, ``"rff"``, ``"orf"``, ``"rom"``, ``"sorf"``, ``"halton"``, ``"sobol"``,
        ``"gauss-hermite"``, ``"fastfood"``.
    random_state : int, numpy.random.Generator, RandomState or None, default=None
        The same int gives the same nodes, given the same versions of NumPy and SciPy.
    n_jobs : int or None, default=None
        Threads that share the rows in :meth:`transform`, as in scikit-learn: ``None`` is 1 and
        ``-1`` is all. BLAS, which multiplies by large dense matrices of nodes, and a function of
        the user's have their own ways. Does not change the result.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel with ``"scale"`` and ``"auto"`` turned into numbers; ``kernel_(X, Y)`` is the
        exact Gram matrix.
    rule_ : Rule
        The rule that was used.
    nodes_ : Nodes
        The drawn nodes. Immutable.
    n_features_in_ : int
        Number of columns seen in :meth:`fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns seen in :meth:`fit`, if they had any.

    See Also
    --------
    transform_into : The same as ``transform``, into an array that is there already.
    sklearn.kernel_approximation.RBFSampler : ``rule="rff"`` with the Gaussian kernel only.

    Notes
    -----
    Columns come node by node: for stationary kernels the cosine and the sine of a node, for
    arc-cosine kernels the node and its reflection. A column that is left over is a single cosine
    at a random phase, or a node without its reflection. The column of the origin, if the rule
    has one, is the last.

    References
    ----------
    Munkhoeva, Kapushev, Burnaev, Oseledets. "Quadrature-based features for kernel approximation".
    NeurIPS 2018.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import RidgeClassifier
    >>> from sklearn.model_selection import train_test_split
    >>> from sklearn.pipeline import make_pipeline
    >>> from quadfeat import QuadratureFeatures
    >>> X, y = load_digits(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> model = make_pipeline(QuadratureFeatures(random_state=0), RidgeClassifier(alpha=0.1))
    >>> round(model.fit(X_train, y_train).score(X_test, y_test), 2)
    0.99
    """

    def __init__(
        self,
        kernel: Kernel | str = "gaussian",
        *,
        n_components: int = 1024,
        rule: Rule | str = "sr33",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.rule = rule
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> QuadratureFeatures:
        """Resolve the kernel on the data and draw the nodes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Only its width matters, and its variance for ``"scale"``.
        y : ignored
            There for pipelines.

        Returns
        -------
        QuadratureFeatures
            The fitted map.
        """
        table = check_array(
            X, accept_sparse="csr", dtype=check.FLOAT_DTYPES, estimator=self, input_name="X"
        )
        n_components = check.check_count(self.n_components, "n_components")
        rule = clone(as_rule(self.rule))
        kernel = as_kernel(self.kernel).resolve(table)
        nodes = rule.draw(table.shape[1], n_components, kernel, _generator(self.random_state))
        # Nothing can fail any more: an earlier fit is replaced as a whole or not at all.
        validate_data(self, X, skip_check_array=True)
        self.nodes_ = nodes
        self.kernel_ = kernel
        self.rule_ = rule
        self._n_features_out = n_components
        self._compiled: dict[Any, tuple[Any, CompiledMap]] = {}  # see _compiled_map
        return self

    def transform(self, X: Any) -> Array:
        """Return the features.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            float32 for float32 input, otherwise float64.
        """
        return self._features(X)

    def approximate_kernel(self, X: Any, Y: Any = None) -> Array:
        """Return the rule's estimate of the Gram matrix.

        That is ``transform(X) @ transform(Y).T``, plus the constant of the origin where the rule
        has one that is not a column (``origin="signed"``); with it the estimate is unbiased.

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

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "nodes_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _features(self, X: Any) -> Array:
        """Return the features as an array, whatever ``set_output`` says."""
        X = self._validated(X)
        out = np.empty((X.shape[0], self._n_features_out), dtype=X.dtype)
        self._write(X, out)
        return out

    def _validated(self, X: Any) -> Any:
        """Return ``X`` as an array of the right width; ``_write`` sees to that it is finite."""
        check_is_fitted(self)
        X = validate_data(
            self,
            X,
            accept_sparse="csr",
            dtype=check.FLOAT_DTYPES,
            ensure_all_finite=False,
            reset=False,
        )
        return check.without_duplicates(X)

    def _write(self, X: Any, out: Array) -> None:
        """Write the features of validated ``X`` into ``out``."""
        compiled = self._compiled_map(X.dtype, far=self._reaches_far(X))
        compiled.write(X, out, n_threads(self.n_jobs))

    def _compiled_map(self, dtype: Any, *, far: bool) -> CompiledMap:
        """Return what computes features of this dtype, made when first asked for."""
        cache, nodes = self._compiled, self.nodes_
        made_for, compiled = cache.get((dtype, far), (None, None))
        if compiled is None or made_for is not nodes:  # another thread may have fitted anew
            compiled = compile_map(nodes, self.kernel_, dtype, far=far)
            cache[dtype, far] = nodes, compiled
        return compiled

    def __getstate__(self) -> dict[str, Any]:
        # What can be computed again is not worth pickling.
        return super().__getstate__() | ({"_compiled": {}} if hasattr(self, "_compiled") else {})

    def _reaches_far(self, X: Any) -> bool:
        """Return whether arguments may be too large for the native core.

        Refuses data that are not finite, or on which a feature would overflow the dtype.
        """
        largest = largest_magnitude(X)
        if not np.isfinite(largest):
            assert_all_finite(X, estimator_name=type(self).__name__, input_name="X")
        argument = self._largest_argument(largest, X.dtype)
        if argument == np.inf:
            way_out = "rescale X" if X.dtype == np.float64 else "rescale X or pass it as float64"
            raise ValueError(
                f"X has entries as large as {largest:.3g}, whose features under "
                f"{check.one_line(self.kernel_)} are beyond the range of {X.dtype}: {way_out}."
            )
        return argument > farthest(self.kernel_, X.dtype)

    def _largest_argument(self, largest: float, dtype: Any) -> float:
        """Return a bound of arguments for entries up to ``largest``, infinite beyond the range."""
        factor = float(np.max(self.kernel_.input_factor(self.n_features_in_)))
        with np.errstate(over="ignore"):
            # |w.x| <= |w| |x| <= |w| sqrt(d) max|x|, with an allowance for a node's rounding.
            reach = 2.0 * max(1.0, self.nodes_.longest) * np.sqrt(self.n_features_in_)
            argument = float(np.float64(largest) * factor * reach)
            value = self.kernel_.nonlinearity.largest(argument)
            feature = value * float(self.nodes_.amplitudes(self.kernel_).max())
        in_range = max(argument, value, feature) <= float(np.finfo(dtype).max)
        return argument if in_range else float("inf")


def transform_into(features: QuadratureFeatures, X: Any, out: Array) -> Array:
    """Write the features of ``X`` into an array that is there already.

    Saves the allocation (and for large arrays most of the page faults) of a fresh result in
    loops over batches.

    Parameters
    ----------
    features : QuadratureFeatures
        A fitted map.
    X : array-like or sparse matrix of shape (n_samples, n_features)
    out : ndarray of shape (n_samples, n_components)
        Writable, of the dtype that ``features.transform(X)`` would have, in any memory order, not
        overlapping ``X``.

    Returns
    -------
    ndarray
        ``out``.

    Examples
    --------
    >>> import numpy as np
    >>> from quadfeat import QuadratureFeatures, transform_into
    >>> X = np.random.default_rng(0).standard_normal((1000, 8))
    >>> features = QuadratureFeatures(n_components=64, random_state=0).fit(X)
    >>> buffer = np.empty((100, 64))
    >>> for rows in np.split(X, 10):
    ...     Z = transform_into(features, rows, buffer)
    >>> Z is buffer
    True
    """
    if not isinstance(features, QuadratureFeatures):
        raise TypeError(f"features={features!r} is not valid: give a fitted QuadratureFeatures.")
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out is a {type(out).__name__}: give a numpy.ndarray.")
    X = features._validated(X)
    expected = (X.shape[0], features._n_features_out)
    if out.shape != expected or out.dtype != X.dtype:
        raise ValueError(
            f"out has shape {out.shape} and dtype {out.dtype}: give an array of shape {expected} "
            f"and dtype {X.dtype}, such as a slice of a larger buffer."
        )
    if not out.flags.writeable:
        raise ValueError("out is read-only: give an array that can be written to.")
    if _overlap(out, X.data if sparse.issparse(X) else X):
        raise ValueError("out overlaps X in memory: give an array of its own.")
    features._write(X, out)
    return out


def _overlap(a: Array, b: Array) -> bool:
    """Return whether two arrays have memory in common, or may have if that is hard to tell."""
    try:
        return np.shares_memory(a, b, max_work=100_000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _generator(random_state: Any) -> np.random.Generator:
    """Return a generator: of its own for an int, seeded by it for a RandomState."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    legacy = check_random_state(random_state)  # None is the global one, as in scikit-learn
    if random_state is None or isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(legacy.randint(0, 2**32, size=4, dtype=np.uint32))
    return np.random.default_rng(random_state)
