"""Maps and models on Dask arrays and data frames, whose blocks are used where they are.

A fit sends the map, a few kilobytes, to the blocks, and gets back one summary of the rows: those
of the blocks are added up in a tree. Conjugate gradients
do the same for each product. What a dead worker had is computed again, by Dask itself. Predictions
and features are Dask arrays, computed when they are asked for.

Any scheduler of Dask's serves. A map that is not given fitted takes a pass over the rows of its
own, and conjugate gradients one for each step: ``X.persist()`` pays if rows are slow to come by.
Each running task holds a matrix of products, ``8 * n_components ** 2`` bytes. Progress is shown by
Dask's own bar or dashboard.

Examples
--------
>>> import dask
>>> import dask.array as da
>>> from quadfeat import QuadratureRidge
>>> rng = da.random.default_rng(0)
>>> X = rng.uniform(-3, 3, (20_000, 2), chunks=(5000, 2))
>>> y = da.sin(X[:, 0]) * X[:, 1] + 0.1 * rng.standard_normal(20_000, chunks=5000)
>>> with dask.config.set(scheduler="synchronous"):
...     model = QuadratureRidge(n_components=256, random_state=0).fit(X, y)
...     error = (model.predict(X) - y).std().compute()
>>> round(float(error), 2)
0.1
"""

from __future__ import annotations

import copy
import functools
import operator
import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import dask
import dask.array as da
import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import check_is_fitted, validate_data

from quadfeat._utils import validation as check
from quadfeat._utils.fitted import snapshot
from quadfeat._utils.lazy import cached_property
from quadfeat._utils.random import restored
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.auto.selection import N_ROWS
from quadfeat.data.blocks import Block, Source, is_dask
from quadfeat.data.checkpoints import Checkpoint
from quadfeat.data.progress import Progress
from quadfeat.data.sampling import RangedSample, RowSample
from quadfeat.kernels import Kernel, Spread, as_kernel
from quadfeat.models.base import Coefficients, QuadratureModel
from quadfeat.models.features import QuadratureFeatures
from quadfeat.rules.nodes import Nodes
from quadfeat.solvers.moments import Moments, rows_per_block
from quadfeat.solvers.posterior import Spectral
from quadfeat.solvers.summaries import Summary, amounts_of, class_indices
from quadfeat.solvers.systems import Residuals, System, sum_pairs

Model = TypeVar("Model", bound=QuadratureModel)

# How many results are added up in one task.
FAN_IN = 8

# Rows that a map is fitted to: so many, but not more entries.
SAMPLE_ROWS = (1024, 4096)
SAMPLE_ENTRIES = 2**21

# Nodes of more bytes travel as the seed that drew them, with this many numbers to tell them by.
NODES_UP_TO = 2**15
TRACE = 64


# What is sent to workers.


class Seed(NamedTuple):
    """A fitted map without its nodes, and a few of their projections to tell them by."""

    features: QuadratureFeatures
    trace: Float64Array


class Parcel:
    """A fitted map, and the model that it belongs to, small when they are pickled.

    Many nodes travel as the seed that drew them, and are drawn again where they are used.

    Parameters
    ----------
    features : QuadratureFeatures or None
        None where the map is not fitted yet.
    model : QuadratureModel, default=None
    """

    def __init__(self, features: QuadratureFeatures | None, model: Any = None) -> None:
        self.features = features
        self._model = copy.copy(model)
        if model is not None:  # one map is enough
            self._model.features = None
            vars(self._model).pop("features_", None)

    @cached_property
    def features(self) -> QuadratureFeatures | None:
        """The map."""
        assert self._seed is not None
        features, nodes = copy.copy(self._seed.features), _drawn_again(self._seed.features)
        if not np.allclose(_trace(nodes), self._seed.trace, rtol=1e-6):
            raise RuntimeError(
                "a worker draws other nodes than those of the fitted map: install the same "
                "versions of quadfeat, NumPy and SciPy everywhere."
            )
        features._replace_nodes(nodes, features.n_components_, features._states)
        return features

    @property
    def model(self) -> Any:
        """The model, in a copy that may be written on."""
        model = copy.copy(self._model)
        if self.features is not None:
            model.features_ = self.features
        return model

    @cached_property
    def _seed(self) -> Seed | None:
        """What to send in place of the nodes, if that is smaller and draws the same ones."""
        features = self.features
        if features is None or len(pickle.dumps(features.nodes_)) <= NODES_UP_TO:
            return None
        again = copy.copy(features)
        again._replace_nodes(_drawn_again(features), features.n_components_, features._states)
        if again.fingerprint() != features.fingerprint():  # it has grown, or has other weights
            return None
        del again.nodes_
        return Seed(again, _trace(features.nodes_))

    def __getstate__(self) -> dict[str, Any]:
        kept = {"features": self.features} if self._seed is None else {}
        return {"_model": self._model, "_seed": self._seed} | kept


def _drawn_again(features: QuadratureFeatures) -> Nodes:
    """Return what the rule of a fitted map draws from the seed it has drawn from."""
    return features.rule_.draw(
        features.n_features_in_,
        features.n_components_,
        features.kernel_,
        restored(features._states.before),
    )


def _trace(nodes: Nodes) -> Float64Array:
    """Return numbers that are the same for the same nodes, and hardly for others."""
    projections: Float64Array = nodes.arguments(np.ones((1, nodes.directions.d)))[0]
    return projections[:: -(-len(projections) // TRACE)].copy()


# What there is to compute on.


@dataclass(frozen=True)
class Table:
    """A Dask array or data frame, with targets and weights, in delayed blocks.

    Attributes
    ----------
    blocks : list of tuples
        Of rows, targets and weights.
    columns : array or data frame
        Without rows.
    dtype : dtype
        In which features are made.
    """

    blocks: list[tuple[Any, Any, Any]]
    columns: Any
    dtype: Any

    @classmethod
    def of(cls, X: Any, y: Any = None, sample_weight: Any = None) -> Table:
        """Cut targets and weights like the rows."""
        columns, dtype = columns_of(X), dtype_of(X)
        blocks = _delayed_blocks(X)
        beside = [
            _beside(values, name, X, blocks)
            for name, values in (("y", y), ("sample_weight", sample_weight))
        ]
        return cls(list(zip(blocks, *beside, strict=True)), columns, dtype)

    def total(
        self, function: Callable[..., Any], add: Callable[[Any, Any], Any], *arguments: Any
    ) -> Any:
        """Return, delayed, the results of a function of each block added up in a tree.

        The function takes rows, targets, weights and the further arguments, which are sent once; it
        returns None for no rows.
        """
        sent = [dask.delayed(argument, traverse=False) for argument in arguments]
        task, join = dask.delayed(function, pure=False), dask.delayed(_added_up, pure=False)
        parts = [task(*block, *sent) for block in self.blocks]
        while True:
            parts = [
                join(add, parts[start : start + FAN_IN]) for start in range(0, len(parts), FAN_IN)
            ]
            if len(parts) == 1:
                return parts[0]


def _added_up(add: Callable[[Any, Any], Any], parts: list[Any]) -> Any:
    """Return the sum of results, of which those of empty blocks are None."""
    found = [part for part in parts if part is not None]
    return functools.reduce(add, found) if found else None


def computed(*totals: Any) -> Any:
    """Compute totals in one pass over the rows."""
    found = dask.compute(*totals)
    if any(total is None for total in found):
        raise ValueError("X has no rows: give at least one block that has some.")
    return found


def columns_of(X: Any) -> Any:
    """Return a table without rows that has the columns of a Dask collection."""
    if isinstance(X, da.Array):
        if X.ndim != 2 or np.isnan(X.shape[1]):
            raise ValueError(
                f"X has shape {X.shape}: give a matrix, whose number of columns is known."
            )
        return np.empty((0, X.shape[1]))
    if not hasattr(type(X), "map_partitions") or X.ndim != 2:
        raise TypeError(f"X is a {type(X).__name__}: give a Dask array, or a Dask data frame.")
    return X._meta


def dtype_of(X: Any) -> Any:
    """Return the dtype in which the features of a Dask collection are made."""
    dtypes = [X.dtype] if isinstance(X, da.Array) else list(X.dtypes)
    return np.dtype(np.float32 if all(one == np.float32 for one in dtypes) else np.float64)


def _delayed_blocks(values: Any) -> list[Any]:
    """Return the blocks of rows."""
    if isinstance(values, da.Array):
        whole = values.rechunk({1: -1}) if values.ndim == 2 else values
        return list(whole.to_delayed().ravel())
    return list(values.to_delayed())


def _sizes(values: Any) -> tuple[int, ...] | None:
    """Return the numbers of rows of the blocks, if they are known."""
    if not isinstance(values, da.Array) or np.isnan(values.chunks[0]).any():
        return None
    return tuple(values.chunks[0])


def _beside(values: Any, name: str, X: Any, blocks: list[Any]) -> list[Any]:
    """Return the blocks of targets or weights that belong to those of ``X``."""
    if values is None or np.ndim(values) == 0:
        return [values] * len(blocks)
    sizes = _sizes(X)
    if not is_dask(values):
        if sizes is None:
            sizes = dask.compute(*(dask.delayed(len)(block) for block in blocks))
        values = np.asarray(values)
        _check_lengths(sizes, len(values), name)
        parts = np.split(values, np.cumsum(sizes)[:-1])
        return [dask.delayed(part, traverse=False) for part in parts]
    others = _sizes(values)
    if sizes is not None and others is not None:
        _check_lengths(sizes, sum(others), name)
        values = values.rechunk({0: sizes})
    found = _delayed_blocks(values)
    if len(found) != len(blocks):
        raise ValueError(
            f"X has {len(blocks)} blocks and {name} has {len(found)}, of sizes that are not known: "
            "take both from one data frame, or make their sizes known by compute_chunk_sizes() of "
            "an array or to_dask_array(lengths=True) of a data frame."
        )
    return found


def _check_lengths(sizes: tuple[int, ...], n_rows: int, name: str) -> None:
    if sum(sizes) != n_rows:
        raise ValueError(
            f"X has {sum(sizes)} rows and {name} has {n_rows}: give one for each row of X."
        )


# What is computed of a block, where it is.


@dataclass(frozen=True)
class Survey:
    """What a map has to know of rows to be fitted to them."""

    spread: Spread
    sample: RowSample

    @classmethod
    def of(cls, X: Any, weights: Float64Array | None) -> Survey:
        """Look at validated rows."""
        size = int(np.clip(SAMPLE_ENTRIES // X.shape[1], *SAMPLE_ROWS))
        return cls(Spread.of(X, weights), RowSample.of(X, size, weights))

    def merged(self, other: Survey) -> Survey:
        """Return that of the rows of both."""
        return Survey(self.spread.merged(other.spread), self.sample.merged(other.sample))


@dataclass(frozen=True)
class Outputs:
    """What a model has to know of its targets beforehand.

    Attributes
    ----------
    summary : Summary
        Of no rows, but with all classes.
    weight : float
        The sum of the weights of the rows.
    labels, amounts : array or None
        Of a classifier: the classes, and how often they occur.
    """

    summary: Summary
    weight: float
    labels: Array | None = None
    amounts: Float64Array | None = None

    def merged(self, other: Outputs) -> Outputs:
        """Return that of the rows of both."""
        # The shift of the targets is that of rows that count.
        first, second = (self, other) if self.weight > 0 else (other, self)
        summary, weight = first.summary.merged(second.summary), self.weight + other.weight
        if self.labels is None:
            return Outputs(summary, weight)
        classes = summary.classes
        assert classes is not None
        amounts = np.zeros(len(classes))
        for one in (self, other):
            assert one.labels is not None
            assert one.amounts is not None
            amounts[class_indices(one.labels, classes)] += one.amounts
        return Outputs(summary, weight, classes, amounts)


def _block(X: Any, y: Any, weights: Any, model: QuadratureModel) -> Block | None:
    """Return validated rows; None if there are none."""
    n_rows = X.shape[0]
    for name, values in (("y", y), ("sample_weight", weights)):
        if np.ndim(values) > 0 and values.shape[0] != n_rows:
            raise ValueError(
                f"a block of X has {n_rows} rows and that of {name} beside it has "
                f"{values.shape[0]}: take both from one data frame, or give arrays of the same "
                "chunks."
            )
    return model._weighted(model._validated(X, y, weights, part=True)) if n_rows else None


def survey_rows(X: Any, y: Any, weights: Any, features: QuadratureFeatures) -> Survey | None:
    """Look at rows that a map is to be fitted to."""
    if X.shape[0] == 0:
        return None
    X = check.check_matrix(X, "X", estimator=features)
    return Survey.of(X, None if weights is None else check.check_weights(weights, X, part=True))


def survey_block(X: Any, y: Any, weights: Any, parcel: Parcel) -> Survey | None:
    """Look at rows that the map of a model is to be fitted to."""
    block = _block(X, y, weights, parcel.model)
    if block is None:
        return None
    assert_all_finite(block.X, estimator_name=QuadratureFeatures.__name__, input_name="X")
    return Survey.of(block.X, block.weights)


def look_at_targets(X: Any, y: Any, weights: Any, parcel: Parcel) -> Outputs | None:
    """Return what the targets of a block tell."""
    model = parcel.model
    block = _block(X, y, weights, model)
    if block is None:
        return None
    summary = model._start(block, 0)
    weight = float(X.shape[0] if block.weights is None else block.weights.sum())
    if summary.classes is None:
        return Outputs(summary, weight)
    return Outputs(summary, weight, *amounts_of(block.y, block.weights))


def telling_rows(
    X: Any, y: Any, weights: Any, parcel: Parcel, summary: Summary
) -> RangedSample | None:
    """Return rows of a block of which to learn lengthscales."""
    model = parcel.model
    block = _block(X, y, weights, model)
    return None if block is None else model._telling_rows(block, summary)


def summarise(X: Any, y: Any, weights: Any, parcel: Parcel, dtype: str) -> Summary | None:
    """Return the summary of a block, with products of features in a dtype."""
    model = parcel.model
    block = _block(X, y, weights, model)
    if block is None:
        return None
    start = model._start(block, model.features_.n_components_)
    size = rows_per_block(len(start.moments.products), dtype)
    summary: Summary = model._summed(_source(block).blocks(size), start, dtype)
    return summary


def leave_one_out(
    X: Any,
    y: Any,
    weights: Any,
    parcel: Parcel,
    summary: Summary,
    spectral: Spectral,
    alphas: Float64Array,
    dtype: str,
) -> Float64Array | None:
    """Return the part of a block in the errors of rows left out."""
    model = parcel.model
    block = _block(X, y, weights, model)
    if block is None:
        return None
    return spectral.leave_one_out(alphas, model._once_more(_source(block), summary, dtype))


def border_products(
    X: Any, y: Any, weights: Any, parcel: Parcel, summary: Summary
) -> tuple[Float64Array, Float64Array] | None:
    """Return the part of a block in ``System.borders``."""
    model = parcel.model
    block = _block(X, y, weights, model)
    return None if block is None else model._system([block], summary).borders()


def normal_product(
    X: Any, y: Any, weights: Any, parcel: Parcel, summary: Summary, vectors: Float64Array
) -> Float64Array | None:
    """Return the part of a block in ``System.multiply``."""
    model = parcel.model
    block = _block(X, y, weights, model)
    return None if block is None else model._system([block], summary).multiply(vectors)


def residuals_of_rows(
    X: Any,
    y: Any,
    weights: Any,
    parcel: Parcel,
    summary: Summary,
    coefficients: Float64Array,
    intercept: Float64Array,
) -> Residuals | None:
    """Return the part of a block in ``System.residuals``."""
    model = parcel.model
    block = _block(X, y, weights, model)
    if block is None:
        return None
    system: System = model._system([block], summary)
    return system.residuals(coefficients, intercept)


def _source(block: Block) -> Source:
    return Source([block], block.X.shape[0], repeatable=True)


# Fitting.


class DaskSystem(System):
    """Rows in the blocks of a Dask collection.

    Parameters
    ----------
    table : Table
    parcel : Parcel
        With the model and its map.
    summary : Summary
        Of any rows, with all classes.
    """

    def __init__(self, table: Table, parcel: Parcel, summary: Summary) -> None:
        self.table = table
        self.parcel = parcel
        self.summary = summary
        self.shift = parcel.model._system([], summary).shift

    def borders(self) -> tuple[Float64Array, Float64Array]:
        total = self.table.total(border_products, _sum_of_pairs, self.parcel, self.summary)
        borders, corner = computed(total)[0]
        check.check_any_weight(corner[-1, -1])
        return borders, corner

    def multiply(self, vectors: Float64Array) -> Float64Array:
        total = self.table.total(
            normal_product, operator.add, self.parcel, self.summary, np.ascontiguousarray(vectors)
        )
        product: Float64Array = computed(total)[0]
        return product

    def residuals(self, coefficients: Float64Array, intercept: Float64Array) -> Residuals:
        total = self.table.total(
            residuals_of_rows,
            Residuals.merged,
            self.parcel,
            self.summary,
            np.ascontiguousarray(coefficients),
            intercept,
        )
        found: Residuals = computed(total)[0]
        return found


def _sum_of_pairs(left: Any, right: Any) -> Any:
    return sum_pairs([left, right])


def fit_map(features: QuadratureFeatures, X: Any, sample_weight: Any) -> QuadratureFeatures:
    """Fit a map to a Dask collection; see ``QuadratureFeatures.fit``."""
    kernel = as_kernel(features.kernel)
    table = Table.of(X, None, sample_weight)
    blank = QuadratureFeatures()  # a name for messages is all it is needed for
    survey: Survey = computed(table.total(survey_rows, Survey.merged, blank))[0]
    return _fitted(features, kernel, table, survey)


def _fitted(
    features: QuadratureFeatures, kernel: Kernel, table: Table, survey: Survey
) -> QuadratureFeatures:
    """Fit a map to what is known of the rows; its nodes are those of a fit to all rows here."""
    check.check_any_weight(survey.spread.size)
    resolved = kernel.resolve_for(table.columns.shape[1], survey.spread.deviation)
    rows = survey.sample.rows.astype(table.dtype)
    return features._fit_on(table.columns, resolved, rows, lambda: survey.sample.first(N_ROWS))


def fit(model: Model, X: Any, y: Any, sample_weight: Any = None) -> Model:
    """Fit a model to a Dask collection; see ``QuadratureRidge.fit``.

    Parameters
    ----------
    model : QuadratureRidge or QuadratureRidgeClassifier
    X : dask.array.Array or dask.dataframe.DataFrame of shape (n_samples, n_features)
    y : Dask array, series or data frame, or array-like
        Where the sizes of blocks are known, blocks of any size; otherwise as many as of ``X``.
    sample_weight : Dask array or series, or array-like, default=None

    Returns
    -------
    object
        The model.
    """
    if model.checkpoint is not None:
        raise ValueError(
            f"checkpoint={str(model.checkpoint)!r} has nothing to act on, since X is in blocks of "
            "Dask's, which computes again what was lost: leave it out."
        )
    draft = model._blank()
    given = {"y": None} if y is None else {}  # which is complained about
    validate_data(draft, columns_of(X), skip_check_array=True, **given)
    if is_regressor(draft):
        draft._checked_targets(np.empty((1,) * np.ndim(y)))  # whether there is one output
    table = Table.of(X, y, sample_weight)
    outputs = _fit_map_of(draft, table)
    parcel = Parcel(draft.features_, draft)
    if draft._solver(Source((), None, repeatable=True)) == "cg":
        if outputs is None:
            outputs = computed(table.total(look_at_targets, Outputs.merged, parcel))[0]
        draft._describe(outputs.summary)
        system = DaskSystem(table, parcel, outputs.summary)
        draft._iterate(system, table.dtype, Checkpoint(None, {}), None)
        draft._unshift(outputs.summary)
    else:
        _fit_normal(draft, table, parcel)
    if is_classifier(draft):
        draft._check_all_classes()
    model.__dict__ = draft.__dict__
    return model


def _fit_map_of(draft: QuadratureModel, table: Table) -> Outputs | None:
    """Give a model its map, fitted, and weights of classes that depend on how many rows they have.

    Returns what is known of the targets, if anything had to be.
    """
    d = table.columns.shape[1]
    features = draft._usable_features(d)
    fitted = features is not None and features.__sklearn_is_fitted__()
    balanced = getattr(draft, "class_weight", None) == "balanced"
    kernel = as_kernel(draft.kernel if features is None else features.kernel)
    parcel = Parcel(None, draft)
    outputs: Outputs | None = None
    if balanced:  # all else depends on the weights of classes
        outputs = computed(table.total(look_at_targets, Outputs.merged, parcel))[0]
        draft._balance(outputs.labels, outputs.amounts)
        parcel = Parcel(None, draft)
    totals = {}
    if not fitted:
        totals["survey"] = table.total(survey_block, Survey.merged, parcel)
    if outputs is None and draft.lengthscales is not None:
        totals["outputs"] = table.total(look_at_targets, Outputs.merged, parcel)
    found = dict(zip(totals, computed(*totals.values()), strict=True))
    outputs = found.get("outputs", outputs)
    if not fitted:
        survey = found["survey"]
        if draft.lengthscales is not None:
            assert outputs is not None
            total = table.total(telling_rows, RangedSample.merged, parcel, outputs.summary)
            kernel = draft._learnt_kernel(computed(total)[0], d)
        if features is None:
            features = draft._new_features(kernel)
        # The map of a model has no names of columns, wherever its rows are.
        unnamed = replace(table, columns=np.empty((0, d)))
        features = _fitted(features, kernel, unnamed, survey)
    assert features is not None
    draft.features_ = features
    draft._fitted_with = draft._parameters_of_all_rows()
    return outputs


def _fit_normal(draft: QuadratureModel, table: Table, parcel: Parcel) -> None:
    """Sum up the rows, then solve the normal equations."""
    _sum_up(draft, table, parcel, draft.gram_dtype)
    if draft._needs_precision():
        del draft._solution  # two matrices of products would be in memory
        _sum_up(draft, table, parcel, "float64")
    draft._solution.coefficients  # noqa: B018  # errors and warnings belong into fit


def _sum_up(draft: QuadratureModel, table: Table, parcel: Parcel, dtype: str) -> None:
    """Give a model the summary of all rows, with products of features in a dtype."""
    progress = Progress(bool(draft.verbose), "fit")
    summary: Summary = computed(table.total(summarise, Summary.merged, parcel, dtype))[0]
    progress.add(summary.moments.n_rows)
    progress.finish()
    check.check_any_weight(summary.moments.weight)
    targets = replace(summary, moments=Moments.empty(0, summary.moments.shift), rows=None)

    def left_out(spectral: Spectral, alphas: Float64Array) -> Float64Array:
        # The matrix of the system is no more.
        light = replace(spectral, system=replace(spectral.system, matrix=np.empty((0, 0))))
        total = table.total(leave_one_out, operator.add, parcel, targets, light, alphas, dtype)
        errors: Float64Array = computed(total)[0]
        return errors

    draft._settle(summary, dtype, left_out)


# Features and predictions.


def transform(features: QuadratureFeatures, X: Any) -> Any:
    """Return the features of a Dask collection as a Dask array."""
    check_is_fitted(features)
    return _mapped(_features_of, features, Parcel(features), X, (features.n_components_,))


def predict(model: QuadratureModel, X: Any, *, return_std: bool = False) -> Any:
    """Return the predicted targets as a Dask array; with ``return_std`` also their deviations.

    For deviations a matrix of ``n_components ** 2`` numbers is sent to each worker.
    """
    check_is_fitted(model)
    model = snapshot(model)
    n_outputs = len(model._solution.intercept)
    shape = () if model._one_output else (n_outputs,)
    if not return_std:
        return _predicted(model, "predict", X, shape)
    model._posterior("return_std").checked_noise_variance()  # errors belong here
    parcel = Parcel(model.features_, model)
    both = _mapped(_mean_and_deviation, model, parcel, X, (2, *shape), np.float64)
    return both[:, 0], both[:, 1]


def apply(model: Any, method: str, X: Any) -> Any:
    """Return what a method of a classifier returns, as a Dask array."""
    check_is_fitted(model)
    model._check_classes()
    if method == "predict":
        return _predicted(model, method, X, (), model.classes_.dtype)
    n_classes = len(model.classes_)
    if method == "decision_function":
        return _predicted(model, method, X, () if n_classes == 2 else (n_classes,))
    return _predicted(model, method, X, (n_classes,), temperature=model.temperature_)


def _predicted(
    model: Any,
    method: str,
    X: Any,
    shape: tuple[int, ...],
    dtype: Any = np.float64,
    temperature: float | None = None,
) -> Any:
    """Return what a method of a model returns, from no more of it than that takes."""
    light, solution = copy.copy(model), model._solution
    light._solution = Coefficients(solution.coefficients, solution.intercept, temperature)
    parcel = Parcel(model.features_, light)
    return _mapped(functools.partial(_result, method), model, parcel, X, shape, dtype)


def _mapped(
    function: Callable[[Parcel, Any], Array],
    estimator: Any,
    parcel: Parcel,
    X: Any,
    shape: tuple[int, ...],
    dtype: Any = None,
) -> Any:
    """Return a function of each block, with results of this shape for each row."""
    validate_data(estimator, columns_of(X), reset=False, skip_check_array=True)
    meta: Array = np.empty((0, *shape), dtype=dtype_of(X) if dtype is None else dtype)
    task = functools.partial(_of_rows, function, meta)
    sent = dask.delayed(parcel, traverse=False)
    if not isinstance(X, da.Array):
        # Not map_partitions, which in some versions hands on what is delayed as it is.
        delayed = dask.delayed(task, pure=False)
        parts = [
            da.from_delayed(delayed(block, sent), (np.nan, *shape), meta=meta)
            for block in _delayed_blocks(X)
        ]
        return da.concatenate(parts, allow_unknown_chunksizes=True)
    X = X.rechunk({1: -1})
    axes: dict[str, Any] = {"drop_axis": 1}
    if shape:
        chunks = (X.chunks[0], *((size,) for size in shape))
        axes = {"chunks": chunks, "new_axis": list(range(2, len(chunks)))}
    return X.map_blocks(task, sent, dtype=meta.dtype, meta=meta, **axes)


def _of_rows(
    function: Callable[[Parcel, Any], Array], empty: Array, X: Any, parcel: Parcel
) -> Array:
    """Return the result for a block, which may have no rows."""
    if X.shape[0] == 0:
        return empty
    return function(parcel, X).astype(empty.dtype, copy=False)


def _features_of(parcel: Parcel, X: Any) -> Array:
    assert parcel.features is not None
    return parcel.features._features(X)


def _result(method: str, parcel: Parcel, X: Any) -> Array:
    result: Array = getattr(parcel.model, method)(X)
    return result


def _mean_and_deviation(parcel: Parcel, X: Any) -> Array:
    return np.stack(parcel.model.predict(X, return_std=True), axis=1)
