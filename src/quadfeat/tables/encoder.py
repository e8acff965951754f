"""The transformer that turns a table with columns of any kind into a matrix of numbers."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import TransformerMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from quadfeat._utils import validation as check
from quadfeat._utils.array_api import to_numpy
from quadfeat._utils.columns import NotFiniteColumnsError
from quadfeat._utils.fitted import changing, snapshot
from quadfeat._utils.random import generator
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.io import checks, register
from quadfeat.io.pickles import VersionedState
from quadfeat.tables.choosing import FEW_LEVELS, encodings_of, has_many_levels
from quadfeat.tables.columns import Column, read, read_as
from quadfeat.tables.encodings import ColumnEncoding
from quadfeat.tables.lookalikes import lookalikes
from quadfeat.tables.reading import Table, read_table
from quadfeat.tables.targets import N_FOLDS, MeanTargets

Self = TypeVar("Self", bound="TableEncoder")

# By default, a level is rare if it occurs in fewer rows, or in a smaller share of the rows. So are
# missing values.
RARE_ROWS, RARE_SHARE = 10, 0.01

KIND_WORDS = {"number": "numbers", "date": "dates", "text": "text"}


@register(model=True)
class TableEncoder(TransformerMixin, VersionedState):
    """Turn a table with text, categories, dates and missing values into numbers for kernels.

    Each column is encoded by what it holds. Nothing is scaled.

    ==============================  =============================================================
    column                          outputs
    ==============================  =============================================================
    numbers, booleans, durations    the number, durations in seconds. Missing values become the
                                    median, and an output says where, unless they are rare
    category or text                one output for each level; rare levels share one. Missing
                                    values are a level. Two levels make one output. More than 10
                                    levels have another output, the mean target of a level
    text with many levels           the mean target alone; without targets, one output for each of
                                    the most frequent levels
    ordered category of pandas      the rank
    date, time or ISO text          years since the median date, and sine and cosine of the
                                    position in the year, the week and the day, as far as they vary
    ==============================  =============================================================

    Columns without any value, and columns of text in which all values differ, have no outputs.

    Parameters
    ----------
    max_categories : int, default=30
        Text and categories with more levels are encoded by mean targets alone. Without targets, at
        most this many levels have their own output.
    min_frequency : int or "auto", default="auto"
        Levels and missing values in fewer rows are rare. ``"auto"`` means 10 rows, or 1% of the
        rows if that is less.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the folds in which training rows are encoded by mean targets.

    Attributes
    ----------
    encodings_ : tuple
        The encoding of each input column.
    kinds_ : list of str
        How each input column is encoded: ``"number"``, ``"category"``, ``"mean target"``,
        ``"category and mean target"``, ``"rank"``, ``"date"``, ``"no values"``, or
        ``"all values differ"``.
    input_of_output_ : array of shape (n_outputs,)
        The position of the input column of each output.
    n_features_in_ : int
        Number of input columns.
    feature_names_in_ : array of str
        Names of the input columns, if ``X`` was a data frame.

    See Also
    --------
    sklearn.compose.ColumnTransformer : Choose the encoding of each column yourself.

    Notes
    -----
    The columns of a data frame are found by name, so their order does not matter after
    :meth:`fit`. Unknown levels count as rare; if no level is rare, they are equally far from all
    levels. Columns keep their kind: text in a column of numbers is an error. Text that only looks
    like dates or numbers, such as ``31/12/2023`` or ``1,234.50``, stays text, and :meth:`fit`
    warns.

    Mean targets are shrunk to the mean of all rows, by an analysis of variance.
    :meth:`fit_transform` encodes each training row by targets of other rows (cross-fitting), so a
    model that is trained on its result does not see its own targets. ``fit(X, y).transform(X)``
    does not protect from that.

    Examples
    --------
    >>> from quadfeat import TableEncoder
    >>> rows = [["red", 1.5, "2024-01-31"], ["blue", 2.5, "2024-02-01"], ["red", 3.0, None]]
    >>> encoder = TableEncoder().fit(rows)
    >>> encoder.kinds_
    ['category', 'number', 'date']
    >>> encoder.get_feature_names_out().tolist()
    ['x0_red', 'x1', 'x2_years', 'x2_year_sin', 'x2_year_cos', 'x2_week_sin', 'x2_week_cos',
    'x2_missing']
    >>> encoder.transform([["green", None, None]])
    array([[0.5, 2.5, 0. , 0. , 0. , 0. , 0. , 1. ]])
    """

    def __init__(
        self,
        max_categories: int = 30,
        *,
        min_frequency: int | str = "auto",
        random_state: Any = 0,
    ) -> None:
        self.max_categories = max_categories
        self.min_frequency = min_frequency
        self.random_state = random_state

    def fit(self: Self, X: Any, y: Any = None) -> Self:
        """Learn how to encode each column.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            The table: a data frame of pandas or polars, an array, or a list of rows.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            Targets for text with many levels. Floating-point numbers are averaged; text, booleans
            and integers with up to 30 different values are classes.

        Returns
        -------
        TableEncoder
            The fitted encoder.
        """
        self._learn(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Learn how to encode each column, and encode the training rows by cross-fitting.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            The table.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            Targets.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs)
            float32 if all columns are float32, otherwise float64.
        """
        return self._training_matrix(*self._learn(X, y))

    def fit_transform_part(
        self: Self, X: Any, y: Any, rows: NDArray[np.intp]
    ) -> tuple[Self, Array]:
        """Return a copy that has seen the targets of some rows only, and these rows encoded.

        All such copies have the same outputs. So parameters of a model that were learned on one
        part, such as lengthscales, fit the encoding of another part, or of all rows.

        Parameters
        ----------
        X : data frame or array-like of shape (n_part, n_features)
            Some of the rows that this encoder was fitted to.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            The targets that this encoder was fitted to.
        rows : int array of shape (n_part,)
            The positions of the rows.

        Returns
        -------
        TableEncoder
            The copy.
        ndarray of shape (n_part, n_outputs)
            The rows, encoded as by :meth:`fit_transform`.
        """
        check_is_fitted(self)
        table = read_table(X, getattr(self, "feature_names_in_", None))
        columns = _read_again(self.encodings_, table, type(self).__name__)
        uses_targets = any(hasattr(one, "encode_training") for one in self.encodings_)
        targets = MeanTargets.of(y).rows(rows) if uses_targets else None
        part = copy.copy(self)
        pairs = zip(self.encodings_, columns, strict=True)
        part.encodings_ = tuple(one.relearned(column, targets) for one, column in pairs)
        return part, part._training_matrix(table, columns, targets)

    def _training_matrix(
        self, table: Table, columns: Sequence[Column], targets: MeanTargets | None
    ) -> Array:
        """Return the training rows, encoded by cross-fitting."""
        n_rows = table.n_rows
        folds = generator(self.random_state).permutation(n_rows) % N_FOLDS

        def encoded(encoding: ColumnEncoding, column: Column) -> Float64Array:
            if targets is not None and hasattr(encoding, "encode_training"):
                return np.asarray(encoding.encode_training(column, targets, folds))
            return encoding.encode(column)

        parts = map(encoded, self.encodings_, columns)
        return _matrix(parts, n_rows, len(self.input_of_output_), table.dtype)

    def transform(self, X: Any) -> Array:
        """Encode the rows of a table.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            The table. A data frame may have its columns in another order than in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs)
            float32 if all columns are float32, otherwise float64.
        """
        return self.transform_for(self, X)

    def transform_for(self, owner: Any, X: Any) -> Array:
        """Encode the rows of a table for a model that contains this encoder.

        Parameters
        ----------
        owner : estimator
            The fitted model. Errors and warnings name its class. It has the same columns.
        X : data frame or array-like of shape (n_samples, n_features)
            The table.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs)
            The same as :meth:`transform`.
        """
        check_is_fitted(self)
        name, held = type(owner).__name__, snapshot(self)
        table = read_table(X, getattr(held, "feature_names_in_", None), name)
        validate_data(snapshot(owner), table.X, reset=False, skip_check_array=True)
        columns = _read_again(held.encodings_, table, name)
        _check_finite(columns, table, name)
        parts = (
            encoding.encode(column)
            for encoding, column in zip(held.encodings_, columns, strict=True)
        )
        return _matrix(parts, table.n_rows, len(held.input_of_output_), table.dtype)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the outputs.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the input columns. By default ``feature_names_in_``, or ``x0``, ``x1`` and so
            on.

        Returns
        -------
        ndarray of str
            A name starts with that of its input column.
        """
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        found: list[str] = []
        for name, encoding in zip(names, self.encodings_, strict=True):
            found += [f"{name}{suffix}" for suffix in encoding.suffixes()]
        return np.array(_unique(found), dtype=object)

    @property
    def kinds_(self) -> list[str]:
        """How each input column is encoded."""
        check_is_fitted(self)
        return [encoding.kind for encoding in self.encodings_]

    @property
    def input_of_output_(self) -> NDArray[np.intp]:
        """The position of the input column of each output."""
        check_is_fitted(self)
        widths = [len(encoding.suffixes()) for encoding in self.encodings_]
        return np.repeat(np.arange(len(widths)), widths)

    def _learn(self, X: Any, y: Any) -> tuple[Table, list[Column], MeanTargets | None]:
        """Fit the encodings; return the table, its columns, and the targets if they are used."""
        most = check.check_count(self.max_categories, "max_categories", 2)
        generator(self.random_state)  # raises an error if it is not valid
        table, y = read_table(X), to_numpy(y, "y")
        least = self._fewest_rows(table.n_rows)
        draft = copy.copy(self)
        draft.__dict__ = {k: v for k, v in vars(self).items() if not k.endswith("_")}
        validate_data(draft, table.X, skip_check_array=True)
        if y is not None:
            check_consistent_length(table.X, y)
        columns = [read(column) for column in table.columns]
        _check_finite(columns, table, type(self).__name__)
        is_used = y is not None and any(has_many_levels(c, min(most, FEW_LEVELS)) for c in columns)
        targets = MeanTargets.of(y) if is_used else None
        draft.encodings_ = encodings_of(columns, most, least, targets)
        if not len(draft.input_of_output_):
            raise ValueError(
                "X has no column to learn from: each column is empty, or is text in which all "
                "values differ."
            )
        for one in lookalikes(columns):
            check.warn_user(
                f"Column {table.label(one.position)} of X is text that looks like {one.kind}, such "
                f"as {one.example!r}, and is encoded as "
                f"{draft.encodings_[one.position].kind!r}. {one.way_out}"
            )
        with changing(self):
            self.__dict__ = draft.__dict__
        return table, columns, targets

    def _fewest_rows(self, n_rows: int) -> int:
        """Return the smallest number of rows of a level that is not rare."""
        if isinstance(self.min_frequency, str):
            check.check_choice(self.min_frequency, "min_frequency", ("auto",), "a positive integer")
            return max(1, min(RARE_ROWS, int(RARE_SHARE * n_rows)))
        return check.check_count(self.min_frequency, "min_frequency")

    def __sklearn_is_fitted__(self) -> bool:
        return "encodings_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    # Attributes in pickles and files.

    needed_attributes = ("encodings_", "n_features_in_")
    saved_attributes = (
        "encodings_",
        "n_features_in_",
        "feature_names_in_",
        "_sklearn_output_config",
    )

    def check_consistency(self) -> None:
        """Raise an error if the fitted attributes are inconsistent."""
        if "encodings_" not in vars(self):
            return
        checks.check_kind(self.encodings_, tuple, "encodings_")
        for encoding in self.encodings_:
            checks.check_kind(encoding, ColumnEncoding, "an item of encodings_")
        n_columns = len(self.encodings_)
        checks.expect(
            n_columns == self.n_features_in_,
            f"encodings_ are for {n_columns} columns, not {self.n_features_in_}",
        )
        checks.check_column_names(self)


def _read_again(encodings: Sequence[ColumnEncoding], table: Table, owner: str) -> list[Column]:
    """Return the columns of a table, each of the kind that its encoding takes."""
    columns = []
    for position, encoding in enumerate(encodings):
        try:
            columns.append(read_as(encoding.reads, table.columns[position]))
        except ValueError as error:
            raise ValueError(
                f"column {table.label(position)} of X contains {error}, but it contained "
                f"{KIND_WORDS[encoding.reads]} when {owner} was fitted. Convert it."
            ) from None
    return columns


def _matrix(
    parts: Iterable[Float64Array], n_rows: int, n_outputs: int, dtype: type[np.floating[Any]]
) -> Array:
    """Return the encoded columns side by side."""
    out, start = np.empty((n_rows, n_outputs), dtype=dtype), 0
    for part in parts:
        stop = start + part.shape[1]
        out[:, start:stop] = part
        start = stop
    return out


def _check_finite(columns: Sequence[Column], table: Table, owner: str) -> None:
    """Raise an error that names the columns with infinite numbers."""
    infinite = tuple(
        position
        for position, column in enumerate(columns)
        if column.kind == "number" and np.isinf(column.values).any()
    )
    if infinite:
        raise NotFiniteColumnsError.in_columns((), infinite, "float64", "X", owner, table.names)


def _unique(names: Sequence[str]) -> list[str]:
    """Return names with a number after those that occur a second time.

    Examples
    --------
    >>> _unique(["a", "b", "a"])
    ['a', 'b', 'a_2']
    """
    taken = set(names)
    found: list[str] = []
    seen: set[str] = set()
    for name in names:
        number, new = 1, name
        while new in seen or (new != name and new in taken):
            number += 1
            new = f"{name}_{number}"
        seen.add(new)
        found.append(new)
    return found
