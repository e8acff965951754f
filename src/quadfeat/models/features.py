"""The feature map as a scikit-learn transformer."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import check_is_fitted, validate_data

from quadfeat._utils import validation as check
from quadfeat._utils.array_api import follows_input, to_numpy
from quadfeat._utils.fitted import changing, on_snapshot, snapshot
from quadfeat._utils.random import generator
from quadfeat._utils.validation import Array
from quadfeat.auto import Candidate
from quadfeat.auto.drawing import Drawing
from quadfeat.data.blocks import Block, is_dask
from quadfeat.data.rows import ArrayRows, Rows
from quadfeat.io import checks, register
from quadfeat.io.pickles import VersionedState
from quadfeat.kernels import Kernel, as_kernel
from quadfeat.maps import kernel_error
from quadfeat.maps.kernel_error import KernelError
from quadfeat.maps.quadrature import Origin, QuadratureMap
from quadfeat.maps.survey import View, view_of
from quadfeat.rules import Rule
from quadfeat.rules.nodes import Nodes

__all__ = ["QuadratureFeatures", "transform_into"]


@register(model=True)
class QuadratureFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, VersionedState):
    r"""Explicit features whose inner products approximate a kernel.

    ``transform(X) @ transform(Y).T`` is close to ``kernel(X, Y)``, so that a linear model on the
    features is a kernel machine. The nodes of the features come from a quadrature rule for the
    kernel's integral: by default the one that is best on a sample of the data, such as the
    spherical-radial rules of Munkhoeva et al., turned by butterfly matrices.

    Parameters
    ----------
    kernel : Kernel or str, default="gaussian"
        What is approximated: an object from :mod:`quadfeat.kernels`, or the name of one with
        default parameters: ``"gaussian"`` (or ``"rbf"``), ``"laplacian"``, ``"matern12"``,
        ``"matern32"``, ``"matern52"``, ``"rational-quadratic"``, ``"arccos0"``, ``"arccos1"``,
        ``"arccos2"``.
    n_components : int or "auto", default=1024
        Number of columns of the result, exactly. ``"auto"`` is the fewest whose error is below
        ``tol``. The Gaussian kernel with ``rule="sr33"`` is at its best with whole blocks:
        ``2 n (d + 1) + 1`` for some ``n``.
    tol : float, default=None
        For ``n_components="auto"``: how large the error may be, relative to the kernel matrix in
        the Frobenius norm. The drawn map is checked to meet it on the data, at 95 % confidence.
    rule : Rule or str, default="auto"
        Where the nodes go. ``"auto"`` is the rule with the smallest error on a sample of the data
        that :meth:`fit` sees; otherwise an object from :mod:`quadfeat.rules`, or a name from the
        literature: ``"sr33"``, ``"rff"``, ``"orf"``, ``"rom"``, ``"sorf"``, ``"halton"``,
        ``"sobol"``, ``"gauss-hermite"``, ``"fastfood"``.
    reweight : bool, default=False
        Fit the weights of the nodes to the kernel on a sample of the data, by non-negative least
        squares, and keep them if they are better on rows that had no part in it. Pays where columns
        are few and the data lies in few dimensions. At most 2048 nodes.
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
        The rule that was used. Given as ``rule`` with the same seed it may draw other nodes, since
        choosing it took random numbers too.
    candidates_ : tuple of Candidate
        What ``rule="auto"`` has considered, from the best to the worst: tuples of the rule, its
        expected relative error, the standard error of that, and how it was found. Only the rule
        itself, or nothing, where it was given. ``pandas.DataFrame(features.candidates_)`` is a
        table of them.
    why_ : str
        Why this rule and number of columns, in a sentence or two.
    approximation_error_ : KernelError
        The relative error of this map on the data that :meth:`fit` saw, estimated from a sample of
        pairs of rows; see :meth:`kernel_error`.
    n_components_ : int
        Number of columns.
    n_components_bound_ : int or None
        With ``n_components="auto"``: how many columns the paper's bound asks for; None for kernels
        that it does not speak of, and where a number was given.
    nodes_ : Nodes
        The drawn nodes. Immutable.
    map_ : QuadratureMap
        The map itself: kernel and nodes, and products with the features of rows. Immutable.
    n_features_in_ : int
        Number of columns seen in :meth:`fit`.
    feature_names_in_ : ndarray of shape (n_features,)
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
        n_components: int | str = 1024,
        tol: float | None = None,
        rule: Rule | str = "auto",
        reweight: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.tol = tol
        self.rule = rule
        self.reweight = reweight
        self.random_state = random_state
        self.n_jobs = n_jobs

    @follows_input
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> QuadratureFeatures:
        """Resolve the kernel on the data, choose the rule and draw the nodes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            What a kernel with ``"scale"`` looks at; ``rule="auto"`` and ``approximation_error_``
            look at a sample of it. Of Dask arrays and data frames a sample is gathered.
        y : ignored
            There for pipelines.
        sample_weight : array-like of shape (n_samples,), default=None
            How often each row counts: in the variance of a kernel with ``"scale"``, and in the
            errors by which ``rule="auto"`` chooses. A row of weight 0 might as well not be there.
            All others count alike in ``reweight``, ``tol`` and ``approximation_error_``.

        Returns
        -------
        QuadratureFeatures
            The fitted map.
        """
        with changing(self):
            columns, rows = self._rows(X, sample_weight)
            return self.fit_to(columns, view_of(rows))

    def _rows(self, X: Any, sample_weight: Any) -> tuple[Any, Rows]:
        """Return something that has the columns of ``X``, and the rows."""
        if is_dask(X):
            from quadfeat.data.dask import DaskRows

            rows = DaskRows.of(X, None, sample_weight, read_rows)
            return rows.columns, rows
        return X, ArrayRows(read_rows(X, None, sample_weight, estimator=self))

    def fit_to(self, columns: Any, view: View, kernel: Kernel | None = None) -> QuadratureFeatures:
        """Fit the map to what is known of rows.

        Parameters
        ----------
        columns : array or data frame
            Has the columns of the rows.
        view : View
        kernel : Kernel, default=None
            In place of the parameter ``kernel``.
        """
        check.check_flag(self.reweight, "reweight")
        kernel = as_kernel(self.kernel) if kernel is None else kernel
        deviation = view.deviation if kernel.depends_on_deviation() else 1.0
        # An earlier fit is replaced as a whole or not at all.
        draft = copy.copy(self)
        draft.__dict__ = {k: v for k, v in vars(self).items() if not k.endswith("_")}
        validate_data(draft, columns, skip_check_array=True)
        resolved = kernel.resolve_for(view.table.shape[1], deviation)
        rng = generator(self.random_state)
        drawing = Drawing(resolved, self.rule, self.reweight, view, rng, self.n_jobs)
        if isinstance(self.n_components, str):
            drawn = drawing.within(self._tolerance())
        else:
            if self.tol is not None:
                raise ValueError(
                    f"tol={self.tol!r} has nothing to act on, since n_components="
                    f"{self.n_components!r} is given: use n_components='auto', or tol=None."
                )
            n_components = check.check_count(self.n_components, "n_components")
            drawn = drawing.with_columns(n_components)
        draft.map_ = drawn.map.with_jobs(None)
        draft.candidates_, draft.why_ = drawn.candidates, drawn.why
        draft.approximation_error_ = drawn.error
        draft.n_components_bound_ = drawn.bound
        self.__dict__ = draft.__dict__
        return self

    def _tolerance(self) -> float:
        """Return the tolerance of ``n_components="auto"``."""
        check.check_choice(self.n_components, "n_components", ("auto",))
        if self.tol is None:
            raise ValueError(
                "n_components='auto' needs to know how small an error is small enough: give tol, "
                "such as tol=0.05, or n_components as a number."
            )
        return check.check_positive(self.tol, "tol")

    # What is known of the map.

    @property
    def kernel_(self) -> Kernel:
        """The kernel, with numbers as its scale."""
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
        """Number of columns."""
        return self.map_.n_columns

    _n_features_out = n_components_  # as scikit-learn calls it

    @follows_input
    @on_snapshot
    def transform(self, X: Any) -> Any:
        """Return the features.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            float32 for float32 input, otherwise float64. A Dask array for Dask's collections; under
            scikit-learn's ``array_api_dispatch``, an array of the library of ``X``.
        """
        if is_dask(X):
            from quadfeat.data.dask import columns_of, map_blocks

            check_is_fitted(self)
            validate_data(self, columns_of(X), reset=False, skip_check_array=True)
            return map_blocks(QuadratureFeatures._features, self, X, (self.n_components_,), None)
        return self._features(X)

    @follows_input
    @on_snapshot
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
        """Estimate how far this map is from its kernel on this data.

        Compares ``transform(X) @ transform(X).T`` with ``kernel_(X)`` on sampled pairs of rows,
        pairs of a row with itself apart from the others, without forming either matrix.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        norm : {"frobenius", "rms", "max"}, default="frobenius"
            The Frobenius norm of the difference relative to that of the kernel matrix; the root
            mean square of the difference; or its largest entry.
        n_pairs : int, default=None
            How many pairs to look at; where that is enough for all of them the result is exact. By
            default 100,000, or fewer for a kernel that takes long to compute. Rows are drawn in
            groups, and all pairs of a group are looked at, so that it takes the features of fewer
            rows than pairs. Where few rows make up most of the kernel matrix (as for arc-cosine
            kernels of rows with very different lengths) the interval is too short: give more.
        confidence : float, default=0.95
            Of the interval, or of the quantile that comes with ``"max"``.
        random_state : int, numpy.random.Generator, RandomState or None, default=None
            What draws the pairs.

        Returns
        -------
        KernelError
            With ``value``, ``low`` and ``high``; ``quantile`` for ``"max"``.

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
        assert_all_finite(X, estimator_name=type(self).__name__, input_name="X")
        return kernel_error.of_map(
            self._threaded(),
            X,
            norm=norm,
            n_pairs=kernel_error.default_pairs(self.kernel_) if n_pairs is None else n_pairs,
            confidence=confidence,
            rng=generator(random_state),
        )

    @on_snapshot
    def fingerprint(self) -> str:
        """Return a string that is the same for maps with the same features, and only for them.

        Tells whether two maps, fitted in different places, are the same. Features are functions of
        the nodes and the kernel; versions of libraries and numbers of threads have no part in it.

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

    def __sklearn_is_fitted__(self) -> bool:
        return "map_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _threaded(self) -> QuadratureMap:
        """Return the map with the threads that are wanted now."""
        return self.map_.with_jobs(self.n_jobs)

    def _features(self, X: Any) -> Array:
        """Return the features as an array, whatever ``set_output`` says."""
        return self._threaded().columns(self._validated(X))

    def _validated(self, X: Any) -> Any:
        """Return ``X`` as an array of the right width; the map sees to that it is finite."""
        check_is_fitted(self)
        if self._is_as_fitted(X):
            return X
        X = validate_data(
            self,
            to_numpy(X, "X"),
            accept_sparse="csr",
            dtype=check.FLOAT_DTYPES,
            ensure_all_finite=False,
            reset=False,
        )
        return check.without_duplicates(X)

    def _is_as_fitted(self, X: Any) -> bool:
        """Return whether ``X`` is an array of which scikit-learn would find nothing to say.

        To hear so from it takes as long as a small transform.
        """
        return (
            type(X) is np.ndarray
            and X.ndim == 2
            and X.dtype in check.FLOAT_DTYPES
            and X.dtype.isnative
            and X.shape[0] > 0
            and X.shape[1] == self.n_features_in_
            and not hasattr(self, "feature_names_in_")
        )

    # Pickles and files.

    _needs = ("map_", "n_features_in_")
    saved_attributes = (
        "n_features_in_",
        "feature_names_in_",
        "map_",
        "candidates_",
        "why_",
        "approximation_error_",
        "n_components_bound_",
        "_sklearn_output_config",
    )

    def check_consistency(self) -> None:
        """Raise an error if what was fitted does not fit together."""
        if "map_" not in vars(self):
            return
        d = check.check_count(self.n_features_in_, "n_features_in_")
        checks.check_kind(self.map_, QuadratureMap, "map_")
        expected = self.map_.n_features_in
        checks.expect(d == expected, f"n_features_in_ is {d}, and map_ is for {expected} columns")
        checks.check_kind(self.map_.origin, Origin, "origin of map_")
        checks.check_kind(self.why_, str, "why_")
        checks.check_kind(self.candidates_, tuple, "candidates_")
        for candidate in self.candidates_:
            checks.check_kind(candidate, Candidate, "an item of candidates_")
        if hasattr(self, "approximation_error_"):  # a map that has grown has none
            checks.check_kind(self.approximation_error_, KernelError, "approximation_error_")
        if self.n_components_bound_ is not None:
            check.check_count(self.n_components_bound_, "n_components_bound_")
        checks.check_column_names(self)

    @staticmethod
    def migrate(attributes: dict[str, Any], found_format: int) -> dict[str, Any]:
        """Put the kernel and nodes of older formats into a map."""
        if found_format >= 3 or "nodes_" not in attributes:
            return attributes
        older = dict(attributes)
        missing = [name for name in ("kernel_", "rule_", "_states") if name not in older]
        if missing:
            raise ValueError(
                "this QuadratureFeatures was written by an early version of quadfeat and has no "
                f"{', '.join(missing)}: fit it again."
            )
        before, after = older.pop("_states")
        origin = Origin(older.pop("rule_"), before, after, older.pop("_reweighted", False))
        older["map_"] = QuadratureMap(older.pop("kernel_"), older.pop("nodes_"), origin)
        for name in ("n_components_", "_n_features_out", "_compiled"):
            older.pop(name, None)
        return older


@register
class States(NamedTuple):
    """The states of a generator before and after a draw, in formats before 3."""

    before: Any
    after: Any


def read_rows(
    X: Any, y: Any, sample_weight: Any, *, part: bool = False, estimator: Any = None
) -> Block:
    """Return validated rows of a map, which have no targets."""
    X = check.check_matrix(
        X, "X", estimator=QuadratureFeatures() if estimator is None else estimator
    )
    sample_weight = to_numpy(sample_weight, "sample_weight")
    weights = None if sample_weight is None else check.check_weights(sample_weight, X, part=part)
    return Block(X, None, weights)


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
        overlapping ``X``. If ``X`` is refused for its entries, a part of it may be written.

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
    check.check_kind(
        features,
        QuadratureFeatures,
        f"features={features!r} is not valid: give a fitted QuadratureFeatures.",
    )
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out is a {type(out).__name__}: give a numpy.ndarray.")
    features = snapshot(features)
    X = features._validated(X)
    expected = (X.shape[0], features.n_components_)
    if out.shape != expected or out.dtype != X.dtype:
        raise ValueError(
            f"out has shape {out.shape} and dtype {out.dtype}: give an array of shape {expected} "
            f"and dtype {X.dtype}, such as a slice of a larger buffer."
        )
    if not out.flags.writeable:
        raise ValueError("out is read-only: give an array that can be written to.")
    if _overlap(out, X.data if sparse.issparse(X) else X):
        raise ValueError("out overlaps X in memory: give an array of its own.")
    features._threaded().write(X, out)
    return out


def _overlap(a: Array, b: Array) -> bool:
    """Return whether two arrays have memory in common, or may have if that is hard to tell."""
    try:
        return np.shares_memory(a, b, max_work=100_000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True
