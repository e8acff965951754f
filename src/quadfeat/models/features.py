"""The feature map as a scikit-learn transformer, and the rules by their names in the literature."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import check_is_fitted, validate_data

from quadfeat._utils import random
from quadfeat._utils import validation as check
from quadfeat._utils.array_api import follows_input, to_numpy
from quadfeat._utils.fitted import changing, on_snapshot, snapshot
from quadfeat._utils.random import child, generator
from quadfeat._utils.validation import Array
from quadfeat.auto import budget
from quadfeat.auto.budget import Select
from quadfeat.auto.selection import EVALUATIONS, N_ROWS, Candidate, Sample, Selection, choose
from quadfeat.data.blocks import is_dask
from quadfeat.data.sampling import RowSample
from quadfeat.engine import core
from quadfeat.engine.core import (
    CompiledMap,
    FusedMap,
    compile_map,
    farthest,
    largest_magnitude,
    n_threads,
)
from quadfeat.io import checks, register
from quadfeat.io.pickles import VersionedState
from quadfeat.kernels import Kernel, as_kernel
from quadfeat.maps import kernel_error as accuracy
from quadfeat.maps.kernel_error import KernelError
from quadfeat.maps.reweighting import reweight
from quadfeat.rules import (
    Rule,
)
from quadfeat.rules.nodes import Nodes
from quadfeat.rules.presets import NAMED, as_rule

__all__ = ["QuadratureFeatures", "transform_into"]

# What the estimate of the error at the end of a fit may cost: entries of features, and pairs.
ENTRIES_AT_FIT = 2**22
PAIRS_AT_FIT = (200, 10_000)


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
        if is_dask(X):
            from quadfeat.data import distributed

            with changing(self):
                return distributed.fit_map(self, X, sample_weight)
        sample_weight = to_numpy(sample_weight, "sample_weight")
        table = check.check_matrix(X, "X", estimator=self)
        weights = None if sample_weight is None else check.check_weights(sample_weight, table)
        kernel = as_kernel(self.kernel).resolve_on(table, weights)
        present = table if weights is None or weights.all() else table[weights > 0]
        with changing(self):
            return self._fit_on(X, kernel, present, lambda: RowSample.of(table, N_ROWS, weights))

    def _fit_on(
        self, X: Any, kernel: Kernel, table: Any, sample: Callable[[], RowSample]
    ) -> QuadratureFeatures:
        """Fit to what has the columns of ``X``.

        ``table`` has its rows, or enough of them to tell the error of the map; ``sample`` returns
        those by which the rule is chosen.
        """
        check.check_flag(self.reweight, "reweight")
        # An earlier fit is replaced as a whole or not at all.
        draft = copy.copy(self)
        draft.__dict__ = {k: v for k, v in vars(self).items() if not k.endswith("_")}
        validate_data(draft, X, skip_check_array=True)
        draft.kernel_ = kernel
        rng = generator(self.random_state)
        if isinstance(self.n_components, str):
            draft._fit_to_tolerance(table, sample, rng)
        else:
            if self.tol is not None:
                raise ValueError(
                    f"tol={self.tol!r} has nothing to act on, since n_components="
                    f"{self.n_components!r} is given: use n_components='auto', or tol=None."
                )
            n_components = check.check_count(self.n_components, "n_components")
            selection = draft._select(n_components, sample, rng)
            draft._draw(selection, n_components, table, rng)
            draft.approximation_error_ = draft._first_error(table, child(rng))
            draft.n_components_bound_ = None
        self.__dict__ = draft.__dict__
        return self

    def _select(
        self, n_components: int, sample: Callable[[], RowSample], rng: np.random.Generator
    ) -> Selection:
        """Return the rule for a number of columns: chosen by the data, or as given."""
        if self._chooses_rule():
            return choose(Sample.from_rows(sample(), self.kernel_), n_components, child(rng))
        return Selection.given(clone(as_rule(self.rule)))

    def _chooses_rule(self) -> bool:
        """Return whether the rule is to be chosen by the data."""
        if isinstance(self.rule, str):
            return check.check_choice(self.rule, "rule", ("auto", *NAMED)) == "auto"
        return False

    def _draw(
        self, selection: Selection, n_components: int, X: Any, rng: np.random.Generator
    ) -> None:
        """Draw the nodes of the selected rule, and fit their weights if that is wanted."""
        self.rule_, self.candidates_, self.why_ = selection
        before = rng.bit_generator.state
        nodes = self.rule_.draw(X.shape[1], n_components, self.kernel_, rng)
        states = States(before, rng.bit_generator.state)
        self._reweighted = False
        if self.reweight:
            result = reweight(nodes, self.kernel_, X, child(rng))
            nodes, self._reweighted = result.nodes, result.kept
            kept = "were kept" if result.kept else "were not kept"
            self.why_ += (
                f" Weights fitted to the data {kept}, since the error on pairs held out was "
                f"{result.error_after:.3g} with them and {result.error_before:.3g} without."
            )
        self._replace_nodes(nodes, n_components, states)

    def _replace_nodes(self, nodes: Nodes, n_components: int, states: States) -> None:
        """Take these nodes, drawn by a generator between these states."""
        self.nodes_ = nodes
        self.n_components_ = self._n_features_out = n_components
        self._states = states
        self._compiled: dict[Any, tuple[Nodes, Any]] = {}  # see _kept

    def _fit_to_tolerance(
        self, X: Any, chosen: Callable[[], RowSample], rng: np.random.Generator
    ) -> None:
        """Draw maps of more and more columns until one has an error below the tolerance."""
        check.check_choice(self.n_components, "n_components", ("auto",))
        if self.tol is None:
            raise ValueError(
                "n_components='auto' needs to know how small an error is small enough: give tol, "
                "such as tol=0.05, or n_components as a number."
            )
        tol = check.check_positive(self.tol, "tol")
        looking = child(rng)
        sample = Sample.from_rows(chosen(), self.kernel_)
        if self._chooses_rule():
            select: Select = partial(choose, sample, rng=looking)
        else:
            select = partial(budget.given, clone(as_rule(self.rule)), sample, rng=looking)
        n_components = budget.smallest(select, tol)
        while True:
            selection = select(n_components)
            self._draw(selection, n_components, X, rng)
            error = self._kernel_error(
                X, norm="frobenius", n_pairs=self._default_pairs(), confidence=0.95, rng=looking
            )
            assert error.high is not None
            if error.high <= tol:
                break
            n_components = budget.more(n_components, error.high, tol)
        self.approximation_error_ = error
        self.n_components_bound_ = budget.paper_bound(sample, tol)
        said = (
            ""
            if self.n_components_bound_ is None
            else f" The paper's bound asks for {self.n_components_bound_} columns to have an "
            f"absolute error below {tol:g} on all pairs, with probability 0.95."
        )
        self.why_ = (
            f"{n_components} columns have a relative error of {error}, below tol={tol:g}. "
            f"{self.why_}{said}"
        )

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
            from quadfeat.data import distributed

            return distributed.transform(self, X)
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
        return self._kernel_error(
            X,
            norm=norm,
            n_pairs=self._default_pairs() if n_pairs is None else n_pairs,
            confidence=confidence,
            rng=generator(random_state),
        )

    def _kernel_error(self, X: Any, **options: Any) -> KernelError:
        """Return the error on validated ``X``."""
        return accuracy.estimate(
            self._written, self.kernel_, X, n_columns=self._n_features_out, **options
        )

    def _default_pairs(self) -> int:
        """Return how many pairs to look at if the user does not say."""
        affordable = accuracy.EVALUATIONS // self.kernel_.evaluations_per_pair
        return min(accuracy.N_PAIRS, max(1000, affordable))

    def _first_error(self, X: Any, rng: np.random.Generator) -> KernelError:
        """Return an estimate from as many pairs as a fit can afford."""
        # A row in a group of so many has that many pairs to itself.
        per_row = (accuracy.LARGEST_GROUP - 1) / 2
        affordable = min(
            int(ENTRIES_AT_FIT / self._n_features_out * per_row),
            EVALUATIONS // self.kernel_.evaluations_per_pair,
        )
        n_pairs = int(np.clip(affordable, *PAIRS_AT_FIT))
        return self._kernel_error(X, norm="frobenius", n_pairs=n_pairs, confidence=0.95, rng=rng)

    @on_snapshot
    def fingerprint(self) -> str:
        """Return a text that is the same for maps with the same features, and only for them.

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
        nodes, kernel = self.nodes_, self.kernel_
        structure = nodes.directions.structure() or {"matrix": nodes.directions.dense()}
        parts = {
            **structure,
            "factor": kernel.input_factor(self.n_features_in_),
            "radii": nodes.radii,
            "amplitudes": nodes.amplitudes(kernel),
            "origin": (nodes.has_origin_column, nodes.origin_feature(kernel)),
            "layout": (nodes.reflected, nodes.last_is_single, nodes.phase),
            "phi": kernel.nonlinearity.name,
        }
        text = hashlib.sha256()
        for name, value in sorted(parts.items()):
            content = value if isinstance(value, str) else np.ascontiguousarray(value).tobytes()
            text.update(name.encode())
            text.update(content.encode() if isinstance(content, str) else content)
        return text.hexdigest()

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "nodes_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _features(self, X: Any) -> Array:
        """Return the features as an array, whatever ``set_output`` says."""
        return self._written(self._validated(X))

    def _written(self, X: Any) -> Array:
        """Return the features of validated ``X`` in an array of their own."""
        out = np.empty((X.shape[0], self._n_features_out), dtype=X.dtype)
        self._write(X, out)
        return out

    def _validated(self, X: Any) -> Any:
        """Return ``X`` as an array of the right width; ``_write`` sees to that it is finite."""
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

    def _write(self, X: Any, out: Array) -> None:
        """Write the features of validated ``X`` into ``out``."""
        threads = n_threads(self.n_jobs)
        if not sparse.issparse(X):
            near = self._compiled_map(X.dtype, far=False)
            # The core looks at the entries as it comes to them; nearly always that is all.
            if isinstance(near, FusedMap) and near.write_within(
                X, out, threads, self._range_of_core(X.dtype)
            ):
                return
        compiled = self._compiled_map(X.dtype, far=self._reaches_far(X))
        compiled.write(X, out, threads)

    def _compiled_map(self, dtype: Any, *, far: bool) -> CompiledMap:
        """Return what computes features of this dtype, made when first asked for."""
        far = far or core.CORE == "numpy"  # to which nothing is far
        compiled: CompiledMap = self._kept(
            (dtype, far), lambda nodes: compile_map(nodes, self.kernel_, dtype, far=far)
        )
        return compiled

    def _range_of_core(self, dtype: Any) -> float:
        """Return how large entries of ``X`` may be for the native core to be right on them."""

        def compute(nodes: Nodes) -> float:
            argument = self._largest_argument(nodes, 1.0, dtype)
            limit = farthest(self.kernel_, dtype)
            # A little less than where _reaches_far begins, which decides on what is beyond; the
            # root where features grow as the square of arguments, and leave the range before.
            for largest in (limit, np.sqrt(limit)) if argument > 0 else ():
                entry = min(0.999 * largest / argument, float(np.finfo(dtype).max))
                if self._largest_argument(nodes, entry, dtype) < np.inf:
                    return entry
            return 0.0

        largest: float = self._kept((dtype, "range"), compute)
        return largest

    def _kept(self, key: tuple[Any, ...], compute: Callable[[Nodes], Any]) -> Any:
        """Return what is computed from the nodes, which is done when it is first asked for."""
        cache, nodes = self._compiled, self.nodes_
        made_for, kept = cache.get(key, (None, None))
        if kept is None or made_for is not nodes:  # another thread may have fitted anew
            kept = compute(nodes)
            cache[key] = nodes, kept
        return kept

    _needs = (
        "nodes_",
        "kernel_",
        "rule_",
        "n_components_",
        "_n_features_out",
        "_states",
        "_compiled",
    )

    saved_attributes = (
        "n_features_in_",
        "feature_names_in_",
        "kernel_",
        "rule_",
        "candidates_",
        "why_",
        "approximation_error_",
        "n_components_",
        "n_components_bound_",
        "nodes_",
        "_n_features_out",
        "_states",
        "_reweighted",
        "_sklearn_output_config",
    )
    unsaved_attributes = ("_compiled",)

    def check_consistency(self) -> None:
        if not hasattr(self, "nodes_"):
            return
        d = check.check_count(self.n_features_in_, "n_features_in_")
        n_components = check.check_count(self.n_components_, "n_components_")
        kernel, nodes = self.kernel_, self.nodes_
        checks.check_kind(kernel, Kernel, "kernel_")
        kernel.input_factor(d)
        kernel.nonlinearity, kernel.spectrum  # noqa: B018  # complain about parameters
        checks.check_kind(self.rule_, Rule, "rule_")
        checks.check_kind(nodes, Nodes, "nodes_")
        nodes.check_fits(kernel, d)
        n_columns = nodes.n_columns(kernel)
        checks.expect(
            n_columns == n_components == self._n_features_out,
            f"nodes_ have {n_columns} columns, and n_components_ is {n_components}",
        )
        checks.check_kind(self._states, States, "_states")
        checks.check_flag(self._reweighted, "_reweighted")
        checks.check_kind(self.why_, str, "why_")
        checks.check_kind(self.candidates_, tuple, "candidates_")
        for candidate in self.candidates_:
            checks.check_kind(candidate, Candidate, "an item of candidates_")
        if hasattr(self, "approximation_error_"):  # a map that has grown has none
            checks.check_kind(self.approximation_error_, KernelError, "approximation_error_")
        if self.n_components_bound_ is not None:
            check.check_count(self.n_components_bound_, "n_components_bound_")
        checks.check_column_names(self)
        if not hasattr(self, "_compiled"):  # after loading
            self._compiled = {}

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
        argument = self._largest_argument(self.nodes_, largest, X.dtype)
        if argument == np.inf:
            way_out = "rescale X" if X.dtype == np.float64 else "rescale X or pass it as float64"
            raise ValueError(
                f"X has entries as large as {largest:.3g}, whose features under "
                f"{check.one_line(self.kernel_)} are beyond the range of {X.dtype}: {way_out}."
            )
        return argument > farthest(self.kernel_, X.dtype)

    def _largest_argument(self, nodes: Nodes, largest: float, dtype: Any) -> float:
        """Return a bound of arguments for entries up to ``largest``, infinite beyond the range."""
        factor = float(np.max(self.kernel_.input_factor(self.n_features_in_)))
        with np.errstate(over="ignore"):
            # |w.x| <= |w| |x| <= |w| sqrt(d) max|x|, with an allowance for a node's rounding.
            reach = 2.0 * max(1.0, nodes.longest) * np.sqrt(self.n_features_in_)
            argument = float(np.float64(largest) * factor * reach)
            value = self.kernel_.nonlinearity.largest(argument)
            feature = value * float(nodes.amplitudes(self.kernel_).max())
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
    if not isinstance(features, QuadratureFeatures):
        raise TypeError(f"features={features!r} is not valid: give a fitted QuadratureFeatures.")
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out is a {type(out).__name__}: give a numpy.ndarray.")
    features = snapshot(features)
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


@register
class States(NamedTuple):
    """The states of a generator before and after it has drawn the nodes of a map."""

    before: Any
    after: Any

    def check_consistency(self) -> None:
        for state in self:
            random.check_state(state)
