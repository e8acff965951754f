"""The base class of the front door: validate the rows, and fit."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import Any, TypeVar

import numpy as np
from sklearn.metrics import check_scoring, get_scorer_names
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted

from quadfeat._utils import validation as check
from quadfeat._utils.array_api import to_numpy
from quadfeat._utils.columns import (
    NotFiniteError,
    check_finite,
    is_stream,
    reject_path,
    reject_targets_of_stream,
    validate_data,
)
from quadfeat._utils.fitted import changing
from quadfeat._utils.random import checked_state, generator
from quadfeat._utils.targets import check_targets_finite
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.data.blocks import is_dask
from quadfeat.front_door.candidates import Candidate, Setting
from quadfeat.front_door.decision import Outcome
from quadfeat.front_door.entrants import candidates_of
from quadfeat.front_door.explained import LEARNED, Explained
from quadfeat.front_door.fitting import fit_stream, fit_table
from quadfeat.front_door.forecasts import Judge
from quadfeat.front_door.preparation import Table, needs_encoder
from quadfeat.front_door.splits import checked_groups
from quadfeat.front_door.timing import Timer
from quadfeat.models.intervals import Scores
from quadfeat.models.keywords import explain_fit_keywords
from quadfeat.tables.reading import read_table

Self = TypeVar("Self", bound="FrontDoor")


class FrontDoor(Explained):
    """Base class of ``KernelRegressor`` and ``KernelClassifier``."""

    time_limit: Any
    candidates: Any
    blend: Any
    scoring: Any
    cv: Any
    refit: Any
    random_state: Any
    n_jobs: Any
    verbose: Any

    # Methods that differ between regression and classification.

    is_regression: bool

    @abstractmethod
    def _checked_targets(self, y: Any) -> Array:
        """Validate targets, and set the attributes that describe them."""

    @abstractmethod
    def _judge(self, y: Array, weights: Float64Array) -> Judge:
        """Return the judge for held-out targets."""

    def _weights(self, y: Array, weights: Float64Array | None) -> Float64Array | None:
        """Return the weights of rows, with those of classes."""
        return weights

    def _scores_of(self, outcome: Outcome) -> Scores | None:
        """Return what prediction intervals need from the held-out rows."""
        return None

    def _for_stream(self, model: Any) -> Any:
        """Return a model for a stream, whose targets are not known beforehand."""
        return model

    def _adopt(self, model: Any) -> None:
        """Take the attributes of columns and targets from a model that was fitted to a stream.

        The names of columns move here: the model gets arrays for prediction.
        """
        self.n_features_in_ = model.n_features_in_
        if hasattr(model, "feature_names_in_"):
            self.feature_names_in_ = model.feature_names_in_
            del model.feature_names_in_  # it gets arrays from now on

    # Fitting.

    @explain_fit_keywords
    def fit(
        self: Self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> Self:
        """Find the best model for a table, and fit it.

        Parameters
        ----------
        X : data frame, array-like or sparse matrix of shape (n_samples, n_features), or blocks
            The training rows. Data frames of pandas and polars, and arrays of objects, may have
            categories, text, dates, booleans and missing values. Streams such as
            :class:`ParquetBlocks` and Dask collections have to contain numbers. They are fitted
            without a contest, because only features serve them.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets. None for a stream of blocks.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights. They weight the held-out losses too.
        groups : array-like of shape (n_samples,), default=None
            Rows of one group, such as the measurements of one patient, are held out together. They
            are also passed to the splitter ``cv``.

        Returns
        -------
        object
            The fitted model.
        """
        chosen = self._check_parameters()
        reject_path(X)
        reject_targets_of_stream(X, y, type(self).__name__)
        with changing(self):
            draft = self._blank()
            timer = Timer(self.time_limit, type(self).__name__ if self.verbose else "")
            is_lazy = is_dask(X) or is_stream(X)
            if is_lazy and groups is not None:
                raise ValueError(
                    "groups has no effect on a stream, because none of its rows are held out. "
                    "Remove it."
                )
            try:
                if is_lazy:
                    setting = draft._setting()
                    found = fit_stream(draft, chosen, X, y, sample_weight, setting, timer)
                    draft._adopt(found.mixture.models[0])
                else:
                    table = draft._table(X, y, sample_weight, groups)
                    found = fit_table(draft, chosen, table, draft._setting(), timer)
            except NotFiniteError as error:
                raise error.named(type(self).__name__) from None
            draft._answer = found
            self.__dict__ = draft.__dict__
        return self

    def _check_parameters(self) -> tuple[Candidate, ...]:
        """Raise an error if a parameter is not valid; return the candidates."""
        if self.time_limit is not None:
            check.check_positive(self.time_limit, "time_limit")
        for name in ("blend", "refit"):
            check.check_flag(getattr(self, name), name)
        check.check_verbose(self.verbose)
        check.check_n_jobs(self.n_jobs)
        self._check_scoring()
        return candidates_of(self.candidates)

    def _check_scoring(self) -> None:
        """Raise an error if ``scoring`` is not a scorer of scikit-learn."""
        given = self.scoring
        if isinstance(given, str) and given not in get_scorer_names():
            suggestion = check.did_you_mean(given, get_scorer_names())
            raise ValueError(
                f"scoring={given!r} is not valid."
                + (suggestion or " sklearn.metrics.get_scorer_names() lists the names.")
            )
        if given is None or isinstance(given, str):
            return
        if not callable(given):
            raise TypeError(
                f"scoring={check.one_line(given)} is not valid: pass the name of a score of "
                "scikit-learn, a callable such as make_scorer(...), or None."
            )
        check_scoring(self, given)  # rejects metrics, which are not scorers

    def _blank(self: Self) -> Self:
        """Return an unfitted copy to work on, so that a failed fit leaves this model unchanged."""
        draft = copy.copy(self)
        draft.__dict__ = {
            name: value
            for name, value in vars(self).items()
            if not name.endswith("_") and name not in LEARNED
        }
        return draft

    def _setting(self) -> Setting:
        """Return the settings of all candidates. A generator advances by one draw."""
        state = self.random_state
        checked_state(state)
        is_seed = isinstance(state, (int, np.integer)) and not isinstance(state, bool)
        seed = int(state) if is_seed else int(generator(state).integers(2**31))
        return Setting(self.is_regression, seed, self.n_jobs)

    def _table(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> Table:
        """Validate the rows, their targets, weights and groups."""
        X, y = to_numpy(X, "X"), to_numpy(y, "y")
        encodes = needs_encoder(X)
        if encodes:
            X = read_table(X, owner=type(self).__name__).X
            validate_data(self, X, y, skip_check_array=True)
        else:
            X = validate_data(
                self,
                X,
                accept_sparse="csr",
                dtype=check.FLOAT_DTYPES,
                ensure_all_finite=False,
                **({"y": None} if y is None else {}),
            )
            check_finite(X)
            X = check.without_duplicates(X)
        check_targets_finite(y)
        y = self._checked_targets(y)
        check_consistent_length(X, y)
        weights = None
        if sample_weight is not None:
            weights = check.check_weights(
                to_numpy(sample_weight, "sample_weight"), np.empty((len(y), 1))
            )
        weights = self._weights(y, weights)
        if groups is not None:
            groups = checked_groups(groups)
            check_consistent_length(X, groups)
        return Table(X, y, weights, groups, encodes)

    def _numbers(self, X: Any) -> Any:
        """Return rows for prediction as numbers."""
        check_is_fitted(self)
        reject_path(X)
        X = to_numpy(X, "X")
        if self._answer.encoder is not None:
            return self._answer.encoder.transform_for(self, X)
        X = validate_data(
            self,
            X,
            accept_sparse="csr",
            dtype=check.FLOAT_DTYPES,
            ensure_all_finite=False,
            reset=False,
        )
        check_finite(X)
        return check.without_duplicates(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.target_tags.required = True
        return tags
