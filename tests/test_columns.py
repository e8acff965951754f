"""Test errors about tables with text, missing or infinite values: they name the columns."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import has_fit_parameter

from quadfeat import (
    KernelClassifier,
    KernelRegressor,
    LocalGaussianProcess,
    QuadratureFeatures,
    QuadratureRidge,
    QuadratureRidgeClassifier,
    TableEncoder,
    transform_into,
)

rng = np.random.default_rng(0)
X = rng.standard_normal((60, 8))
y = X[:, 0]
FRAME = pd.DataFrame(X, columns=list("abcdefgh"))

MODELS = {
    "QuadratureRidge": QuadratureRidge("gaussian", alpha=1.0, n_components=16, random_state=0),
    "QuadratureRidgeClassifier": QuadratureRidgeClassifier(
        "gaussian", alpha=1.0, n_components=16, random_state=0
    ),
    "QuadratureFeatures": QuadratureFeatures(n_components=16, random_state=0),
}
METHODS = ("predict", "predict_proba", "predict_interval", "sample_y", "transform", "kernel_error")
estimators = pytest.mark.parametrize("name", MODELS)


def poisoned(*columns, value=np.nan):
    table = FRAME.copy()
    for row, column in enumerate(columns):
        table.loc[row, column] = value
    return table


def calls(name, table):
    """Yield each method of an estimator that takes rows, called with a table."""
    model, targets = MODELS[name], (y > 0 if name.endswith("Classifier") else y)
    rows = FRAME if isinstance(table, pd.DataFrame) else X
    yield lambda: model.fit(table, targets)
    for method in METHODS:
        fitted = model.fit(rows, targets)
        if hasattr(fitted, method):
            yield lambda fitted=fitted, method=method: getattr(fitted, method)(table)


@estimators
def test_missing_values_in_a_frame(name):
    for call in calls(name, poisoned("b", "g")):
        with pytest.raises(ValueError, match="contains NaN") as raised:
            call()
        assert str(raised.value) == (
            f"Input X contains NaN: columns 'b', 'g' hold missing values. {name} needs complete "
            "rows: impute the values first, for example with TableEncoder in a pipeline."
        )


@estimators
def test_missing_values_in_an_array(name):
    for make in (np.array, sparse.csr_array):
        for call in calls(name, make(poisoned("c").to_numpy())):
            with pytest.raises(ValueError, match=f"column 2 holds missing values. {name} needs"):
                call()


@estimators
def test_infinite_values(name):
    for call in calls(name, poisoned("h", value=np.inf)):
        with pytest.raises(ValueError, match=r"infinity.*: column 'h' holds such .* drop"):
            call()


def test_missing_and_infinite_values():
    table = poisoned("h", value=np.inf)
    table.loc[3, "a"] = np.nan
    with pytest.raises(ValueError, match=r"'a' holds missing values.*'h' holds such values"):
        MODELS["QuadratureRidge"].fit(table, y)


def test_at_most_five_columns():
    with pytest.raises(ValueError, match="columns 'a', 'b', 'c', 'd', 'e' and 3 more hold"):
        MODELS["QuadratureRidge"].fit(poisoned(*FRAME.columns), y)


@pytest.mark.parametrize("kernel", ["auto", "matern32"])
def test_kernels_that_are_learned(kernel):
    with pytest.raises(ValueError, match=r"column 'b' holds missing values. QuadratureRidge needs"):
        QuadratureRidge(kernel, lengthscales="ard").fit(poisoned("b"), y)


def test_partial_fit():
    model = QuadratureRidge("gaussian", alpha=1.0, n_components=16, random_state=0)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"column 'b' holds missing values. QuadratureRidge"):
            model.partial_fit(poisoned("b"), y)
        model.partial_fit(FRAME, y)


def test_names_of_an_earlier_fit_are_not_used():
    features = QuadratureFeatures(n_components=16, random_state=0).fit(FRAME)
    with pytest.raises(ValueError, match="column 1 holds"):
        features.fit(poisoned("b").to_numpy())


def test_a_step_of_a_pipeline_is_named_by_itself():
    inner = make_pipeline(StandardScaler(), QuadratureFeatures(n_components=16))
    with pytest.raises(ValueError, match="QuadratureFeatures needs complete rows"):
        QuadratureRidge(features=inner).fit(poisoned("b"), y)


def test_transform_into():
    features = QuadratureFeatures(n_components=16, random_state=0).fit(FRAME)
    with pytest.raises(ValueError, match=r"column 'b' holds .* QuadratureFeatures needs"):
        transform_into(features, poisoned("b"), np.empty((60, 16)))


@estimators
@pytest.mark.parametrize("dtype", [object, "category", "string"])
def test_text(name, dtype):
    table = FRAME.assign(color=pd.Series([None, "7", "green"] * 20, dtype=dtype))
    targets = y > 0 if name.endswith("Classifier") else y
    with pytest.raises(ValueError, match=f"column 'color' holds text, such as 'green'. {name} "):
        MODELS[name].fit(table, targets)
    with pytest.raises(ValueError, match="column 8 holds text, such as 'green'"):
        MODELS[name].fit(table.astype(object).to_numpy(), targets)


def test_text_in_predict():
    model = MODELS["QuadratureRidge"].fit(FRAME, y)
    table = FRAME.astype({"b": object, "d": object})
    table.loc[7, ["b", "d"]] = "?"
    with pytest.raises(ValueError, match=r"columns 'b', 'd' hold text, such as '\?'"):
        model.predict(table)


def test_text_in_polars_and_lists():
    polars = pytest.importorskip("polars")
    table = polars.DataFrame({"size": [1.0, 2.0], "color": ["red", "green"]})
    with pytest.raises(ValueError, match="column 'color' holds text, such as 'red'"):
        MODELS["QuadratureRidge"].fit(table, [0.0, 1.0])
    with pytest.raises(ValueError, match="column 1 holds text, such as 'red'"):
        MODELS["QuadratureRidge"].fit([[1.0, "red"], [2.0, "green"]], [0.0, 1.0])


def test_other_values_that_are_not_numbers():
    day = pd.Timestamp("2024-01-01")
    for table in (FRAME.assign(day=day), FRAME.assign(day=pd.Series([day] * 60, dtype=object))):
        with pytest.raises(TypeError, match=r"column 'day' holds values of type .*: convert the"):
            MODELS["QuadratureRidge"].fit(table, y)
    table = FRAME.assign(size=pd.Series([pd.NA, 1.0] * 30, dtype=object))
    with pytest.raises(ValueError, match="column 'size' holds missing values"):
        MODELS["QuadratureRidge"].fit(table, y)


def test_errors_that_do_not_concern_columns_name_none():
    with pytest.raises(ValueError, match=r"^y holds text, such as 'high'"):
        MODELS["QuadratureRidge"].fit(X, ["high"] * 60)
    with pytest.raises(ValueError, match="Expected 2D array"):
        MODELS["QuadratureRidge"].fit(X[0], y)


@pytest.mark.parametrize("kind", [np.array, pd.Series, list])
@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (np.nan, "y contains NaN: 2 of 60 rows have no target"),
        (np.inf, "y contains infinity: 2 of 60 rows have an infinite target"),
    ],
)
@estimators
def test_targets_that_are_not_finite(name, bad, text, kind):
    if name == "QuadratureFeatures":
        return
    targets = (y > 0).astype(float)
    targets[[3, 7]] = bad
    with pytest.raises(ValueError, match=f"{text}. {name} needs a target .* drop these rows from"):
        MODELS[name].fit(FRAME, kind(targets))


@pytest.mark.parametrize("lost", [None, np.nan, pd.NA])
def test_labels_that_are_missing(lost):
    labels = np.array(["a", "b"] * 30, dtype=object)
    labels[3] = lost
    for model in (QuadratureRidgeClassifier("gaussian"), KernelClassifier()):
        with pytest.raises(ValueError, match="1 of 60 rows has no target"):
            model.fit(FRAME, labels)
        with pytest.raises(ValueError, match="1 of 60 rows has no target"):
            model.fit(FRAME, pd.Series(labels, dtype="category"))


def test_missing_targets_come_before_text():
    frame = FRAME.assign(city="Oslo")
    for model in (KernelRegressor(), MODELS["QuadratureRidge"], QuadratureRidgeClassifier()):
        with pytest.raises(ValueError, match=r"requires y to be passed.* as in fit\(X, y\)"):
            model.fit(frame)


def test_paths():
    model = KernelRegressor(None, candidates=["features"]).fit(FRAME[:30], y[:30])
    for method in (model.fit, model.predict, model.predict_interval, TableEncoder().fit):
        with pytest.raises(TypeError, match=r"string or path 'houses.csv', but rows are needed"):
            method("houses.csv")


def test_unknown_arguments_of_fit():
    for model in (KernelRegressor(), QuadratureRidge(), LocalGaussianProcess()):
        owner = type(model).__name__
        message = rf"^{owner}.fit has no argument 'target'.*ParquetBlocks\('folder', target='y'"
        with pytest.raises(TypeError, match=message):
            model.fit("folder", target="y")
        with pytest.raises(TypeError, match=rf"^{owner}.fit has no .* mean 'sample_weight'\?"):
            model.fit(FRAME, y, sample_weights=y)
        assert has_fit_parameter(model, "sample_weight")


def test_errors_can_be_sent_to_other_processes():
    with pytest.raises(ValueError, match="contains NaN") as raised:
        MODELS["QuadratureRidge"].fit(poisoned("b"), y)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)
