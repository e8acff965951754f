"""Classification with a Gaussian process on the nearest rows."""

from __future__ import annotations

from typing import Any

from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from quadfeat._utils import validation as check
from quadfeat._utils.array_api import follows_input
from quadfeat._utils.available import available_if
from quadfeat._utils.columns import check_finite
from quadfeat._utils.fitted import on_snapshot
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.data.rows import Rows
from quadfeat.engine.threads import n_threads
from quadfeat.io import checks, register
from quadfeat.kernels import Kernel
from quadfeat.models.base import can_add_rows
from quadfeat.models.class_targets import ClassTargetsMixin
from quadfeat.models.keywords import explain_keywords
from quadfeat.models.local_fitting import Table, gathered
from quadfeat.models.local_labels import LabeledTable
from quadfeat.models.local_model import LocalModel
from quadfeat.models.scores import BlockScoreMixin
from quadfeat.neighbors.classes import ClassFit
from quadfeat.neighbors.fit import LocalFit
from quadfeat.neighbors.goals import ClassGoal
from quadfeat.neighbors.rows import DistinctRows
from quadfeat.solvers.calibration import Calibration
from quadfeat.solvers.summaries import check_classes
from quadfeat.solvers.targets import Labels

__all__ = ["LocalGaussianProcessClassifier"]


@register(model=True)
class LocalGaussianProcessClassifier(
    BlockScoreMixin, ClassTargetsMixin, ClassifierMixin, LocalModel
):
    r"""Classification with a Gaussian process on the nearest rows, for narrow kernels.

    The model predicts a target for each class with Gaussian process regression on the nearest rows:
    1 for rows of the class and -1 for other rows. Two classes share one target. It predicts the
    class with the largest value. The lengthscales, the noise and the number of neighbors minimize
    the leave-one-out log loss.

    Parameters
    ----------
    kernel : Kernel or str, default="auto"
        ``"auto"`` learns a lengthscale for each column with several families of kernels, and
        selects one by leave-one-out log loss. Other values are as in
        :class:`LocalGaussianProcess`.
    gamma, n_neighbors, alpha, lengthscales, search, time_limit, n_jobs, verbose
        As in :class:`LocalGaussianProcess`.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, which multiply the sample weights. ``"balanced"`` gives all classes
        the same total weight. It needs all rows at once, in memory or in a Dask collection.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    kernel_, alpha_, n_neighbors_, recall_, why_, jitter_
        As in :class:`LocalGaussianProcess`.
    candidates_ : tuple of KernelCandidate
        The kernels that were tried, with leave-one-out log losses. ``n_columns`` of a candidate is
        its number of neighbors.
    temperature_ : float
        The temperature of the probabilities; see :meth:`predict_proba`.
    loo_decisions_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
        Decision values for the training rows of positive weight, each without the row and its
        copies.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    See Also
    --------
    LocalGaussianProcess : Regression.
    QuadratureRidgeClassifier : For wide kernels, and for more rows than fit in memory.

    Notes
    -----
    The model keeps all training rows, and its pickles and files contain them. Prediction takes time
    of order ``n_neighbors ** 3`` for each row. One Cholesky factor serves all classes.

    The likelihood of a Gaussian process is not a good criterion for classes: it prefers kernels
    that find many rows without any noise. On the letter dataset, learning with the log loss instead
    raises the accuracy from 0.90 to above 0.97.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import train_test_split
    >>> from quadfeat import LocalGaussianProcessClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> model = LocalGaussianProcessClassifier().fit(X_train, y_train)
    >>> round(model.score(X_test, y_test), 2)
    0.97
    """

    @explain_keywords
    def __init__(
        self,
        kernel: Kernel | str = "auto",
        *,
        gamma: Any = None,
        n_neighbors: int | str = "auto",
        alpha: float | str = "auto",
        lengthscales: str | None = None,
        class_weight: Any = None,
        search: str = "auto",
        time_limit: float | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            kernel,
            gamma=gamma,
            n_neighbors=n_neighbors,
            alpha=alpha,
            lengthscales=lengthscales,
            search=search,
            time_limit=time_limit,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.class_weight = class_weight

    _fit_kind = ClassFit
    _solution: ClassFit

    saved_attributes: tuple[str, ...] = (*LocalModel.saved_attributes, "classes_")

    def _table(self, rows: Rows) -> Table:
        """Return rows from any source in one table, with a target for each class."""
        return self._encoded(gathered(self._weighted(rows), LabeledTable))

    def _extended(self, before: LocalFit, rows: Rows) -> Table:
        """Return the rows of an earlier fit together with more rows."""
        new = self._weighted(rows).each(LabeledTable.of, LabeledTable.merged)
        return self._encoded(LabeledTable.of_fit(before, self.classes_).merged(new))

    def _encoded(self, found: LabeledTable) -> Table:
        """Return rows with a target for each class, and store the classes."""
        if getattr(self, "_declared", False):
            Labels(self.classes_).check_declared(found.classes)
            found = found.with_classes(self.classes_)
        self.classes_ = found.classes
        return found.encoded()

    def _goal(self, rows: DistinctRows) -> ClassGoal:
        """Return what the search for settings optimizes."""
        return ClassGoal(rows)

    def _check_outputs(self, n_outputs: int) -> None:
        """Raise an error if the model is not for this number of outputs."""
        check_classes(self.classes_, "classes_")
        expected = 1 if len(self.classes_) == 2 else len(self.classes_)
        checks.expect(n_outputs == expected, f"there are {n_outputs} outputs")
        checks.check_flag(getattr(self, "_declared", False), "_declared")
        checks.check_kind(getattr(self, "_balanced", {}), dict, "_balanced")
        checks.check_kind(self._solution, ClassFit, "_solution")

    @available_if(can_add_rows)
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> LocalGaussianProcessClassifier:
        """Add rows to the rows of earlier calls.

        The first call learns the kernel, the noise and the number of neighbors. Later calls keep
        them, so the first batch should be a large random sample of the rows. As long as there are
        fewer than 50 different rows, or only one class, each call learns again from all rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), default=None
            All classes, in the first call. By default, any batch may contain new classes.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        LocalGaussianProcessClassifier
            This model.
        """
        return self._add(X, y, sample_weight, self._declaration(classes))

    def _decisions(self, X: Any) -> Float64Array:
        check_finite(X)
        solution = self._solved()
        return solution.predict(check.to_dense_float64(X), n_threads(self.n_jobs)).mean

    @property
    @on_snapshot
    def loo_decisions_(self) -> Float64Array:
        """Decision values for the training rows, each without the row and its copies."""
        solution = self._solved()
        self._check_classes()
        decisions = solution.left_out(every=True).mean
        return decisions[:, 0] if len(self.classes_) == 2 else decisions

    @follows_input
    @on_snapshot
    def predict_proba(self, X: Any) -> Array:
        """Compute the probability of each class.

        Decision values are divided by a temperature, and the softmax converts them to
        probabilities. For two classes, this is the logistic function of twice the scaled decision
        value. The temperature maximizes the likelihood of up to 4096 distinct training rows, given
        their leave-one-out decision values. If class frequencies improve the likelihood by more
        than chance, a share of their logarithms is added before the softmax.

        :meth:`predict` returns the class with the largest decision value. It is also the most
        likely class, unless class frequencies are added, which favors frequent classes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return self._probabilities(X)

    def _calibrated(self) -> Calibration:
        check_is_fitted(self)
        self._check_classes()
        return self._solution.calibrated()
