"""The scikit-learn transformer that fits a feature map and applies it."""

from __future__ import annotations

from typing import Any

from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from quadfeat._utils import validation as check
from quadfeat._utils.array_api import follows_input, to_numpy
from quadfeat._utils.columns import NotFiniteError, names_of_frame
from quadfeat._utils.fitted import changing, on_snapshot, snapshot
from quadfeat._utils.memory import too_large
from quadfeat._utils.random import generator
from quadfeat.data.blocks import Block, is_dask
from quadfeat.data.rows import ArrayRows, Rows
from quadfeat.io import register
from quadfeat.kernels import Kernel
from quadfeat.maps.survey import View, view_of
from quadfeat.models import saved_features
from quadfeat.models.fitted_features import FittedFeatures
from quadfeat.models.given_kernel import given_kernel
from quadfeat.models.keywords import explain_keywords
from quadfeat.models.narrow_kernels import warn_of_narrow_kernel
from quadfeat.models.raw_columns import warn_of_raw_columns
from quadfeat.rules import Rule

__all__ = ["QuadratureFeatures"]


@register(model=True)
class QuadratureFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, FittedFeatures):
    r"""Map rows to features whose inner products approximate a kernel.

    ``transform(X) @ transform(Y).T`` is close to ``kernel(X, Y)``, so a linear model on the
    features is a kernel machine. A quadrature rule for the kernel's integral draws the nodes of
    the features. By default, :meth:`fit` selects the most accurate rule on a sample of the data,
    such as a spherical-radial rule of Munkhoeva et al., rotated by butterfly matrices.

    Parameters
    ----------
    kernel : Kernel or str, default="gaussian"
        The kernel to approximate: an object from :mod:`quadfeat.kernels`, or the name of one with
        default parameters: ``"gaussian"`` (or ``"rbf"``), ``"laplacian"``, ``"matern12"``,
        ``"matern32"``, ``"matern52"``, ``"rational-quadratic"``, ``"arccos0"``, ``"arccos1"``,
        ``"arccos2"``. ``set_params(kernel__gamma=0.1)`` also works with a name.
    gamma : float, {"scale", "auto"} or array of shape (n_features,), default=None
        Shorthand for ``kernel=Gaussian(gamma)``, as in ``RBFSampler``. It also sets the ``gamma``
        of ``kernel="laplacian"``. None leaves the kernel as it is.
    n_components : int or "auto", default=1024
        Number of output columns. ``"auto"`` uses the fewest columns whose error is below ``tol``.
        The Gaussian kernel with ``rule="sr33"`` is most accurate with complete blocks:
        ``2 n (d + 1) + 1`` columns for an integer ``n``.
    tol : float, default=None
        For ``n_components="auto"``: the largest error relative to the kernel matrix, in the
        Frobenius norm. The map meets it on the data with 95% confidence.
    rule : Rule or str, default="auto"
        The rule that draws the nodes. ``"auto"`` selects the rule with the smallest error on a
        sample of the data. Otherwise an object from :mod:`quadfeat.rules`, or a name from the
        literature: ``"sr33"``, ``"rff"``, ``"orf"``, ``"rom"``, ``"sorf"``, ``"halton"``,
        ``"sobol"``, ``"gauss-hermite"``, ``"fastfood"``.
    reweight : bool, default=False
        Fit the weights of the nodes to the kernel on a sample of the data, by non-negative least
        squares. The fitted weights are kept only if they are better on other rows. This helps with
        few columns and data near a low-dimensional set, for which ``Nystroem`` is the rival. At
        most 2048 nodes.
    random_state : int, numpy.random.Generator, RandomState or None, default=None
        The seed. The same int gives the same nodes with the same versions of NumPy and SciPy.
    n_jobs : int or None, default=None
        Number of threads. ``None`` means as many as BLAS may use: all processors of the process,
        within the limits of threadpoolctl, ``OMP_NUM_THREADS`` and similar variables, and an
        enclosing joblib or Dask worker. ``1`` means one thread and ``-1`` all processors; see
        "Threads" in the user guide. BLAS, which multiplies large dense matrices of nodes, and
        user-defined functions ignore ``n_jobs``. It does not change the result.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel with numbers in place of ``"scale"`` and ``"auto"``; ``kernel_(X, Y)`` is the
        exact Gram matrix.
    rule_ : Rule
        The rule that was used. Passed as ``rule`` with the same seed, it may draw other nodes,
        because selecting a rule also consumes random numbers.
    candidates_ : tuple of Candidate
        The rules that ``rule="auto"`` compared, from best to worst: tuples of the rule, its
        expected relative error, the standard error of this estimate, and the estimation method. If
        ``rule`` was given, the tuple has at most this rule.
        ``pandas.DataFrame(features.candidates_)`` shows the rules as a table.
    why_ : str
        The reason for this rule and number of columns, in a sentence or two.
    approximation_error_ : KernelError
        The relative error of this map on the data in :meth:`fit`, estimated from a sample of pairs
        of rows; see :meth:`kernel_error`. It is estimated when it is first read, pickled or saved.
        Until then, this object keeps the up to 1344 rows of the sample.
    n_components_ : int
        Number of output columns.
    n_components_bound_ : int or None
        With ``n_components="auto"``: the number of columns that the paper's bound requires. None
        for kernels that the bound does not cover, and if ``n_components`` is a number.
    nodes_ : Nodes
        The drawn nodes. Immutable.
    map_ : KernelMap
        The map: the kernel, the nodes, and products with the features of rows. Immutable.
    n_features_in_ : int
        Number of columns seen in :meth:`fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns seen in :meth:`fit`, if they are all strings.

    See Also
    --------
    transform_into : Write the features into an existing array.
    sklearn.kernel_approximation.RBFSampler : Random features of the Gaussian kernel.

    Notes
    -----
    Columns are ordered by node. For stationary kernels, each node has a cosine and a sine column.
    For arc-cosine kernels, a node and its reflection have one column each. If one column remains,
    it is a cosine with a random phase, or a node without its reflection. If the rule has a column
    for the origin, it comes last.

    A kernel with one scale for all columns depends on their units. :meth:`fit` warns if one column
    dominates the squared distances between rows, as often happens with raw data. Standardize the
    columns, or pass a kernel with a scale for each column.

    A narrow kernel needs many columns. With ``rule="auto"`` and at least 64 columns, :meth:`fit`
    warns if their expected error is larger than that of zeros.

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

    @explain_keywords
    def __init__(
        self,
        kernel: Kernel | str = "gaussian",
        *,
        gamma: Any = None,
        n_components: int | str = 1024,
        tol: float | None = None,
        rule: Rule | str = "auto",
        reweight: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.n_components = n_components
        self.tol = tol
        self.rule = rule
        self.reweight = reweight
        self.random_state = random_state
        self.n_jobs = n_jobs

    @follows_input
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> QuadratureFeatures:
        """Compute the scale of the kernel, select the rule and draw the nodes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            A kernel with ``"scale"`` uses the variance of all rows. ``rule="auto"`` and
            ``approximation_error_`` use a sample of rows, which is gathered from Dask collections.
        y : ignored
            Present for API consistency.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows for the scale of the kernel and for the errors that ``rule="auto"``
            compares. Rows of weight 0 are ignored. All other rows count equally for ``reweight``,
            ``tol`` and ``approximation_error_``.

        Returns
        -------
        QuadratureFeatures
            The fitted map.
        """
        with changing(self):
            try:
                columns, rows = self._rows(X, sample_weight)
                self.fit_to(columns, view_of(rows, given_kernel(self).projection))
            except NotFiniteError as error:
                raise error.within(self, names_of_frame(X)) from None
            warn_of_narrow_kernel(self)
        return self

    def _rows(self, X: Any, sample_weight: Any) -> tuple[Any, Rows]:
        """Return an object with the columns of ``X``, and the source of the rows."""
        if is_dask(X):
            from quadfeat.data.dask import DaskRows

            rows = DaskRows.of(X, None, sample_weight, read_rows)
            return rows.columns, rows
        return X, ArrayRows(read_rows(X, None, sample_weight, estimator=self))

    def fit_to(self, columns: Any, view: View, names: Any = None) -> QuadratureFeatures:
        """Fit the map to a view of rows.

        Parameters
        ----------
        columns : array or data frame
            An object with the columns of the rows. Its rows are not used.
        view : View
            The rows.
        names : array of str, default=None
            Column names for warnings, if ``columns`` has none.
        """
        from quadfeat.auto.drawing import Drawing  # not needed before a fit

        check.check_flag(self.reweight, "reweight")
        check.check_n_jobs(self.n_jobs)
        kernel = given_kernel(self)
        deviation = view.deviation if kernel.depends_on_deviation() else 1.0
        # Work on a copy, so that a failed fit leaves this object unchanged.
        draft = snapshot(self)
        draft.__dict__ = {
            k: v for k, v in vars(self).items() if not k.endswith("_") and k != "_pending_error"
        }
        validate_data(draft, columns, skip_check_array=True)
        resolved = kernel.resolve_for(view.table.shape[1], deviation)
        warn_of_raw_columns(resolved, view, getattr(draft, "feature_names_in_", names))
        rng = generator(self.random_state)
        drawing = Drawing(resolved, self.rule, self.reweight, view, rng, self.n_jobs)
        if isinstance(self.n_components, str):
            drawn = drawing.within(self._tolerance())
        else:
            if self.tol is not None:
                raise ValueError(
                    f"tol={self.tol!r} has no effect, because n_components="
                    f"{self.n_components!r} is fixed. Use n_components='auto' or tol=None."
                )
            n_components = check.check_count(self.n_components, "n_components")
            try:
                drawn = drawing.with_columns(n_components)
            except MemoryError as error:
                # All rules but the structured ones store a number for each node and column.
                n_bytes = n_components // 2 * view.table.shape[1] * 8
                way_out = "Use fewer, such as the default of 1024."
                raise too_large(n_components, n_bytes, "its nodes alone", way_out, error) from error
        draft.map_ = drawn.map.with_jobs(None)
        draft.candidates_, draft.why_ = drawn.candidates, drawn.why
        if drawn.error is None:
            draft._pending_error = drawn.pending
        else:
            draft.approximation_error_ = drawn.error
        draft.n_components_bound_ = drawn.bound
        self.__dict__ = draft.__dict__
        return self

    def _tolerance(self) -> float:
        """Return the tolerance for ``n_components="auto"``."""
        check.check_choice(self.n_components, "n_components", ("auto",), "a positive integer")
        if self.tol is None:
            raise ValueError(
                "n_components='auto' needs a tolerance. Set tol, such as tol=0.05, or set "
                "n_components to an integer."
            )
        return check.check_positive(self.tol, "tol")

    @follows_input
    @on_snapshot
    def transform(self, X: Any) -> Any:
        """Compute the features of rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            float32 for float32 input, otherwise float64. A lazy Dask array if ``X`` is a Dask
            collection. With scikit-learn's ``array_api_dispatch``, an array of the library of
            ``X``.
        """
        if is_dask(X):
            from quadfeat.data.dask import columns_of, map_blocks

            check_is_fitted(self)
            validate_data(self, columns_of(X), reset=False, skip_check_array=True)
            return map_blocks(QuadratureFeatures._features, self, X, (self.n_components_,), None)
        return self._features(X)

    def __sklearn_is_fitted__(self) -> bool:
        return "map_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    # Attributes in pickles and files.

    needed_attributes = ("map_", "n_features_in_")
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

    unsaved_attributes = ("_pending_error",)

    def before_saving(self) -> None:
        """Estimate the error, so that pickles and files have it, but no rows of the data."""
        if "_pending_error" in vars(self):
            self.approximation_error_  # noqa: B018

    def __getstate__(self) -> dict[str, Any]:
        self.before_saving()
        state = super().__getstate__()
        state.pop("_pending_error", None)
        return state

    def check_consistency(self) -> None:
        """Raise an error if the fitted attributes are inconsistent."""
        if "map_" in vars(self):
            saved_features.check(self)

    @staticmethod
    def migrate(attributes: dict[str, Any], found_format: int) -> dict[str, Any]:
        """Convert the attributes of an older format."""
        return saved_features.migrated(attributes, found_format)


def read_rows(
    X: Any, y: Any, sample_weight: Any, *, part: bool = False, estimator: Any = None
) -> Block:
    """Validate rows without targets, and return them as a block."""
    X = check.check_matrix(
        X, "X", estimator=QuadratureFeatures() if estimator is None else estimator
    )
    sample_weight = to_numpy(sample_weight, "sample_weight")
    weights = None if sample_weight is None else check.check_weights(sample_weight, X, part=part)
    return Block(X, None, weights)
