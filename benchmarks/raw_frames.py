"""Score models on data frames as they come: text, dates, categories and missing values.

The frames are made from the tables bike and adult in ``QUADFEAT_DATA``. Bike has one column of ISO
text in place of year, month, day, weekday and hour, names of weather and season, and 5% missing
values in three columns. Adult has its eight columns of text, with missing values where the
original file has question marks. QuadratureRidge and LocalGaussianProcess run after a TableEncoder,
which KernelRegressor contains. HistGradientBoosting gets the same columns, with its own support
for categories and missing values, and year, month, weekday and hour of a date as integers.

    QUADFEAT_DATA=folder python benchmarks/raw_frames.py [--out docs/measured]

The table of docs/cli.md is a sample of bike:

    QUADFEAT_DATA=folder python benchmarks/raw_frames.py --frames . --tables bike --rows 2000
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from contest import data, scores
from quadfeat import (
    KernelClassifier,
    KernelRegressor,
    LocalGaussianProcess,
    LocalGaussianProcessClassifier,
    QuadratureRidge,
    QuadratureRidgeClassifier,
    TableEncoder,
)
from quadfeat._utils.validation import Array
from tables import Table, circumstances

FIRST_DAY = "2011-01-01"
SEASONS = ("winter", "spring", "summer", "fall")
WEATHERS = ("clear", "mist", "rain", "storm")
MISSING_SHARE = 0.05
ADULT_NUMBERS = ("age", "fnlwgt", "ednum", "gain", "loss", "hours")


class Raw(NamedTuple):
    """A data frame with its targets."""

    frame: pd.DataFrame
    y: Array
    is_regression: bool
    target: str


def bike() -> Raw:
    """Return the hours of two years, one row each, with the number of rented bikes."""
    file = data.read("bike")
    numbers = pd.DataFrame(file["X"], columns=file["columns"])
    # Rows are in order, and each day has a row.
    day = (numbers["weekday"].diff().fillna(0) != 0).cumsum()
    hours = pd.Timestamp(FIRST_DAY) + pd.to_timedelta(24 * day + numbers["hr"], unit="h")
    if not (hours.dt.month == numbers["mnth"]).all():
        raise ValueError("the rows of bike are not in the order of the original file")
    weather = np.array(WEATHERS, dtype=object)[numbers["weathersit"].astype(int) - 1]
    frame = pd.DataFrame(
        {
            "hour": hours.dt.strftime("%Y-%m-%d %H:%M"),
            "season": pd.Categorical.from_codes(numbers["season"].astype(int) - 1, SEASONS),
            "holiday": numbers["holiday"] == 1,
            "workingday": numbers["workingday"] == 1,
            "weather": weather,
            **{name: numbers[name] for name in ("temp", "atemp", "hum", "windspeed")},
        }
    )
    rng = np.random.default_rng(0)
    for name in ("weather", "hum", "windspeed"):
        frame.loc[rng.random(len(frame)) < MISSING_SHARE, name] = None
    return Raw(frame, file["y"].astype(np.float64), True, "count")


def adult() -> Raw:
    """Return people of the census of 1994, and whether they earn more than 50,000 dollars."""
    file = data.read("adult")
    numbers = pd.DataFrame(file["X"], columns=file["columns"])
    frame = numbers[list(ADULT_NUMBERS)].copy()
    for name in dict.fromkeys(str(column).partition("_")[0] for column in numbers):
        if name not in ADULT_NUMBERS:
            part = numbers.filter(regex=f"^{name}_")
            levels = part.columns.str.removeprefix(f"{name}_")
            text = levels.to_numpy(dtype=object)[part.to_numpy().argmax(axis=1)]
            frame[name] = np.where(text == "?", None, text)
    return Raw(frame, file["y"], False, "income")


FRAMES = {"bike": bike, "adult": adult}


class ForTrees:
    """Prepare a frame for HistGradientBoosting: parts of dates, and categories."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.levels = {
            name: pd.CategoricalDtype(sorted(frame[name].dropna().unique()))
            for name in frame.select_dtypes(["object", "string", "category"])
            if name != "hour"
        }

    def __call__(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the prepared frame."""
        frame = frame.astype(self.levels)
        if "hour" in frame:
            hours = pd.to_datetime(frame.pop("hour"))
            for part in ("year", "month", "day_of_week", "hour"):
                frame[part] = getattr(hours.dt, part)
        return frame


def models(is_regression: bool) -> dict[str, Any]:
    """Return the models to compare, by name. None has a time limit, so loads do not matter."""
    if is_regression:
        ours: list[Any] = [QuadratureRidge(random_state=0), LocalGaussianProcess()]
        whole: Any = KernelRegressor(time_limit=None)
    else:
        ours = [QuadratureRidgeClassifier(random_state=0), LocalGaussianProcessClassifier()]
        whole = KernelClassifier(time_limit=None)
    parts = {type(one).__name__: make_pipeline(TableEncoder(), one) for one in ours}
    return parts | {type(whole).__name__: whole}


def scored(model: Any, X: Any, y: Array, X_test: Any, y_test: Array) -> scores.Scores:
    """Fit a model; return its scores on the test rows, and its CPU seconds."""
    start = time.process_time()
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
        if y.dtype.kind == "f":
            found = scores.of_values(y_test, model.predict(X_test))
        else:
            found = scores.of_classifier(model, X_test, y_test)
    return found | {"seconds": time.process_time() - start}


def write(raw: Raw, path: Path, n_rows: int | None) -> None:
    """Write a frame with its targets, or a random sample of its rows, for ``quadfeat compare``."""
    frame = raw.frame.assign(**{raw.target: raw.y})
    path.parent.mkdir(parents=True, exist_ok=True)
    frame.sample(n_rows, random_state=0).to_csv(path, index=False)


def main() -> None:
    """Print a table, and write it if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tables", nargs="+", choices=list(FRAMES), default=list(FRAMES))
    parser.add_argument("--rows", type=int, help="fit to a random sample of the training rows")
    parser.add_argument("--only", help="fit only models whose name contains this text")
    parser.add_argument("--out", type=Path, help="folder for CSV files")
    parser.add_argument("--frames", type=Path, help="only write the frames to this folder, as CSV")
    options = parser.parse_args()
    if options.frames is not None:
        for name in options.tables:
            write(FRAMES[name](), options.frames / f"{name}.csv", options.rows)
        return
    table = Table("raw-frames", ["table", "model", "score", "log loss", "CPU s"])
    table.start("R2 or accuracy on the test rows of the usual split")
    for name in options.tables:
        raw = FRAMES[name]()
        train, test = data.rows(name, 0, data.read(name))
        if options.rows is not None:
            train = np.random.default_rng(0).permutation(train)[: options.rows]
        X, X_test = raw.frame.iloc[train], raw.frame.iloc[test]
        prepare = ForTrees(raw.frame)
        rows = (raw.y[train], raw.y[test])
        kind = (
            HistGradientBoostingRegressor if raw.is_regression else HistGradientBoostingClassifier
        )
        trees = kind(categorical_features="from_dtype", random_state=0)
        found = {"HistGradientBoosting": (trees, prepare(X), prepare(X_test))}
        found |= {label: (one, X, X_test) for label, one in models(raw.is_regression).items()}
        for label, (model, given, unseen) in found.items():
            if options.only is not None and options.only not in label:
                continue
            one = scored(model, given, rows[0], unseen, rows[1])
            score = one["r2" if raw.is_regression else "accuracy"]
            loss = f"{one['log_loss']:.4f}" if "log_loss" in one else ""
            table.add(name, label, f"{score:.4f}", loss, f"{one['seconds']:.1f}")
    if options.out is not None:
        table.write(options.out)
        circumstances("raw-frames-circumstances", "python benchmarks/raw_frames.py").write(
            options.out
        )


if __name__ == "__main__":
    main()
