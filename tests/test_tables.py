"""Test ``TableEncoder``: kinds of columns, encodings, mean targets, errors, and files."""

import datetime as dt
import os
import pickle
import subprocess
import sys
import warnings
from dataclasses import replace
from decimal import Decimal

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, TargetEncoder
from sklearn.utils.estimator_checks import parametrize_with_checks

from quadfeat import QuadratureRidge, TableEncoder, load, save
from quadfeat.tables.columns import read, read_as

N = 400
rng = np.random.default_rng(0)


def mixed(n_rows=N, seed=0):
    """Return a frame with a column of each kind."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=n_rows),
            "count": rng.integers(0, 9, n_rows),
            "sold": rng.random(n_rows) < 0.5,
            "color": pd.Categorical(rng.choice(["red", "green", "blue"], n_rows)),
            "grade": pd.Categorical(
                rng.choice(["low", "mid", "high"], n_rows),
                categories=["low", "mid", "high"],
                ordered=True,
            ),
            "side": rng.choice(["left", "right"], n_rows),
            "month": rng.choice([f"month {k:02}" for k in range(12)], n_rows),
            "street": rng.choice([f"street {k}" for k in range(60)], n_rows),
            "name": [f"name {k}" for k in range(n_rows)],
            "seen": pd.date_range("2020-01-01", periods=n_rows, freq="7h"),
            "day": pd.date_range("2020-01-01", periods=n_rows, freq="D").strftime("%Y-%m-%d"),
            "took": pd.to_timedelta(rng.random(n_rows), unit="s"),
            "empty": [None] * n_rows,
        }
    )
    frame.loc[::7, "size"] = np.nan
    frame.loc[::9, ["color", "seen"]] = None
    frame.loc[::8, "street"] = None
    return frame


def targets(frame, seed=0):
    """Return targets that depend on the street."""
    effects = np.random.default_rng(5).normal(size=60)
    street = frame["street"].fillna("street 0").str.removeprefix("street ").astype(int)
    return effects[street] + np.random.default_rng(seed).normal(size=len(frame))


KINDS = {
    "size": "number",
    "count": "number",
    "sold": "number",
    "color": "category",
    "grade": "rank",
    "side": "category",
    "month": "category and mean target",
    "street": "mean target",
    "name": "all values differ",
    "seen": "date",
    "day": "date",
    "took": "number",
    "empty": "no values",
}


@parametrize_with_checks([TableEncoder(), TableEncoder(2, min_frequency=1, random_state=None)])
def test_every_check_of_scikit_learn(estimator, check):
    check(estimator)


def test_no_check_is_skipped_or_expected_to_fail():
    # The array API check needs SCIPY_ARRAY_API before SciPy is imported, so start a new process.
    script = """
from sklearn.utils.estimator_checks import check_estimator
from quadfeat import TableEncoder
for r in check_estimator(TableEncoder(), on_skip=None):
    print(r["check_name"], r["status"])
"""
    environment = os.environ | {"SCIPY_ARRAY_API": "1"}
    run = [sys.executable, "-c", script]
    done = subprocess.run(run, env=environment, capture_output=True, text=True, check=True)
    results = done.stdout.splitlines()
    assert len(results) > 30
    assert [result for result in results if not result.endswith(" passed")] == []


def test_it_needs_no_data_frame_library():
    script = """
import sys
sys.modules.update(dict.fromkeys(["pandas", "polars", "pyarrow", "dask"]))  # no import finds them
from quadfeat import TableEncoder
rows = [["a", 1.0, "2020-01-01"], ["b", None, "2020-01-02"]]
print(*TableEncoder().fit_transform(rows).shape)
"""
    run = [sys.executable, "-c", script]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", "6"]


class TestKinds:
    def test_each_column_is_encoded_by_its_kind(self):
        frame = mixed()
        encoder = TableEncoder().fit(frame, targets(frame))
        assert dict(zip(frame, encoder.kinds_, strict=True)) == KINDS
        assert np.isfinite(encoder.transform(frame)).all()

    def test_outputs_know_their_column(self):
        frame = mixed()
        encoder = TableEncoder().fit(frame, targets(frame))
        names = encoder.get_feature_names_out()
        inputs = frame.columns[encoder.input_of_output_]
        assert len(names) == len(set(names)) == encoder.transform(frame).shape[1]
        assert all(name.startswith(column) for name, column in zip(names, inputs, strict=True))
        assert set(inputs) == set(frame.columns) - {"empty", "name"}
        expected = ["color_blue", "color_green", "color_red", "color_(missing)", "grade"]
        assert_array_equal(names[4:9], expected)

    def test_polars_and_objects_are_read_as_pandas(self):
        frame = mixed().drop(columns="grade")  # polars has no ordered categories
        y = targets(frame)
        encoder = TableEncoder().fit(frame, y)
        for table in (pl.from_pandas(frame), pl.from_pandas(frame.astype({"color": object}))):
            other = clone(encoder).fit(table, y)
            assert other.kinds_ == encoder.kinds_
            assert_array_equal(other.transform(table), encoder.transform(frame))
            assert_array_equal(encoder.transform(table), encoder.transform(frame))
        objects = frame.to_numpy(dtype=object)
        other = clone(encoder).fit(objects.tolist(), y)
        assert other.kinds_ == encoder.kinds_
        assert_allclose(other.transform(objects), encoder.transform(frame), atol=1e-6)
        assert other.get_feature_names_out()[0] == "x0"

    @pytest.mark.parametrize(
        ("column", "kind"),
        [
            (pd.array([1, None, 3], dtype="Int64"), "number"),
            (pd.array([True, None, False], dtype="boolean"), "number"),
            (pd.array([1.5, None, 2], dtype="Float32"), "number"),
            (pd.array([1, None, 3], dtype="int64[pyarrow]"), "number"),
            (pd.array([Decimal("1.5"), None], dtype=pd.ArrowDtype(pa.decimal128(5, 2))), "number"),
            (pd.arrays.SparseArray([0.0, np.nan, 1.0]), "number"),
            (pd.array([dt.timedelta(1), None], dtype="duration[us][pyarrow]"), "number"),
            (pd.array([dt.date(2020, 1, 1), None], dtype="date32[pyarrow]"), "date"),
            (pd.array([dt.datetime(2020, 1, 1), None], dtype="timestamp[us][pyarrow]"), "date"),
            (pd.period_range("2020-01", periods=3, freq="M"), "date"),
            (pd.array(["a", None], dtype="string"), "text"),
            (pd.array(["a", None], dtype="string[pyarrow]"), "text"),
            (pd.Categorical(["a", None]), "text"),
            (pd.Categorical([1, None]), "text"),
            (pd.interval_range(0, 3), "text"),
        ],
        ids=lambda value: str(getattr(value, "dtype", value)),
    )
    def test_dtypes_of_pandas(self, column, kind):
        found = read(pd.Series(column))
        assert found.kind == kind
        assert_array_equal(found.missing, pd.isna(column))

    @pytest.mark.parametrize(
        ("column", "kind"),
        [
            (pl.Series([1, None]), "number"),
            (pl.Series([True, None]), "number"),
            (pl.Series([Decimal("1.1"), None]), "number"),
            (pl.Series([dt.timedelta(1), None]), "number"),
            (pl.Series([dt.date(2020, 1, 1), None]), "date"),
            (pl.Series([dt.time(12, 30), None]), "date"),
            (pl.Series([dt.datetime(2020, 1, 1), None]), "date"),
            (pl.Series(["a", None]), "text"),
            (pl.Series(["a", None], dtype=pl.Categorical), "text"),
            (pl.Series(["a", None], dtype=pl.Enum(["b", "a"])), "text"),
            (pl.Series([[1], None]), "text"),
        ],
        ids=lambda value: str(getattr(value, "dtype", value)),
    )
    def test_dtypes_of_polars(self, column, kind):
        found = read(column)
        assert found.kind == kind
        assert_array_equal(found.missing, [False, True])

    def test_missing_objects(self):
        gone = [None, np.nan, pd.NA, pd.NaT, float("nan"), np.datetime64("NaT"), "", "  "]
        for values, kind in (([1.0], "number"), ([dt.date(2020, 1, 1)], "date"), (["a"], "text")):
            column = np.array([*values, *gone], dtype=object)
            if kind != "text":
                column = column[:-2]  # blanks are text
            found = read(column)
            assert found.kind == kind
            assert_array_equal(found.missing, np.arange(len(column)) > 0)

    def test_numerals_are_numbers_in_arrays_of_text_only(self):
        text = np.array([["a", "1.5"], ["b", "2"]])
        assert TableEncoder().fit(text).kinds_ == ["category", "number"]
        assert TableEncoder().fit(text.astype(object)).kinds_ == ["category", "category"]
        assert TableEncoder().fit(np.array([["07"], ["08"]])).kinds_ == ["category"]

    def test_equal_levels_of_other_types_are_one(self):
        frame = pd.DataFrame({"code": pd.Categorical([1, 2, 3, 2])})
        encoder = TableEncoder().fit(frame)
        for column in ([1, 2, 3, 2], [1.0, 2.0, 3.0, 2.0], ["1", "2", "3", "2"]):
            found = encoder.transform(pd.DataFrame({"code": column}))
            assert_array_equal(found, encoder.transform(frame))

    def test_float32_is_kept(self):
        X = rng.normal(size=(9, 2)).astype(np.float32)
        frame = pd.DataFrame(X, columns=["a", "b"])
        for table in (X, frame, pl.from_pandas(frame)):
            assert TableEncoder().fit_transform(table).dtype == np.float32
        assert TableEncoder().fit_transform(frame.assign(b=1)).dtype == np.float64


class TestNumbers:
    def test_numbers_do_not_change(self):
        X = rng.normal(size=(20, 3))
        assert_array_equal(TableEncoder().fit_transform(X), X)

    def test_missing_values_become_the_median_and_an_indicator(self):
        X = np.array([[1.0], [np.nan], [3.0], [10.0]])
        found = TableEncoder().fit_transform(X)
        assert_array_equal(found, [[1, 0], [3, 1], [3, 0], [10, 0]])

    def test_rare_or_repeated_indicators_are_left_out(self):
        X = rng.normal(size=(1000, 3))
        X[:100, :2] = np.nan
        X[:9, 2] = np.nan
        encoder = TableEncoder().fit(X)
        assert_array_equal(encoder.get_feature_names_out(), ["x0", "x0_missing", "x1", "x2"])
        encoder = TableEncoder(min_frequency=9).fit(X)
        assert encoder.get_feature_names_out()[-1] == "x2_missing"

    def test_values_that_are_missing_later_become_the_median(self):
        encoder = TableEncoder().fit([[1.0, 1], [2.0, 2], [6.0, 3]])
        assert_array_equal(encoder.transform([[None, None]]), [[2, 2]])

    def test_durations_are_seconds(self):
        column = np.array([dt.timedelta(hours=1), None, np.timedelta64(5, "m")], dtype=object)
        assert_array_equal(read(column).values, [3600, np.nan, 300])

    def test_ordered_categories_are_ranks(self):
        frame = mixed()
        encoder = TableEncoder().fit(frame[["grade"]])
        expected = OrdinalEncoder(categories=[["low", "mid", "high"]])
        assert_array_equal(
            encoder.transform(frame[["grade"]]), expected.fit_transform(frame[["grade"]])
        )
        # Later tables may hold plain text. Unknown levels are missing.
        later = pd.DataFrame({"grade": ["high", "low", "none"]})
        assert_array_equal(encoder.transform(later)[:2, 0], [2, 0])
        assert encoder.transform(later)[2, 0] == frame["grade"].cat.codes.median()


class TestCategories:
    def test_it_agrees_with_scikit_learn(self):
        frame = mixed()[["color", "side"]].astype(object).fillna("none")
        levels = OneHotEncoder(drop="if_binary", sparse_output=False)
        assert_array_equal(TableEncoder().fit_transform(frame), levels.fit_transform(frame))

    def test_unknown_levels_are_equally_far_from_all(self):
        encoder = TableEncoder().fit([["a", "x"], ["b", "y"], ["c", "x"]])
        known = encoder.transform([["a", "x"], ["b", "x"], ["c", "x"], ["a", "y"]])
        unknown = encoder.transform([["new", "new"], [None, None]])
        for row in unknown:
            distances = np.linalg.norm(known - row, axis=1)
            assert_allclose(distances, distances[0])

    def test_rare_levels_share_an_output(self):
        column = np.repeat(np.array(["a", "b", "c", "d", "e"], dtype=object), [400, 400, 190, 6, 4])
        encoder = TableEncoder().fit(column[:, None])
        expected = ["x0_a", "x0_b", "x0_c", "x0_(rare)"]
        assert_array_equal(encoder.get_feature_names_out(), expected)
        found = encoder.transform([["d"], ["e"], ["new"], ["a"]])
        assert_array_equal(found, [[0, 0, 0, 1]] * 3 + [[1, 0, 0, 0]])
        encoder = TableEncoder(min_frequency=5).fit(column[:, None])
        assert_array_equal(encoder.get_feature_names_out(), ["x0_a", "x0_b", "x0_c", "x0_d"])

    def test_frequent_missing_values_are_a_level(self):
        encoder = TableEncoder().fit(np.array([["a"], ["b"], [None], ["b"]], dtype=object))
        assert_array_equal(encoder.get_feature_names_out(), ["x0_a", "x0_b", "x0_(missing)"])
        assert_array_equal(encoder.transform([[None]]), [[0, 0, 1]])

    def test_without_targets_the_most_frequent_levels_have_outputs(self):
        column = np.repeat([f"k{k:02}" for k in range(40)], np.arange(1, 41))[:, None]
        encoder = TableEncoder(5).fit(column)
        expected = [f"x0_k{k}" for k in range(35, 40)] + ["x0_(rare)"]
        assert_array_equal(encoder.get_feature_names_out(), expected)

    def test_a_constant_column_is_harmless(self):
        found = TableEncoder().fit_transform([["a", 1], ["a", 1], ["a", 1]])
        assert_array_equal(found, [[1, 1]] * 3)

    def test_the_order_of_rows_does_not_matter(self):
        frame = mixed().drop(columns=["name", "street"])
        shuffled = frame.sample(frac=1, random_state=0)
        one, other = TableEncoder(2).fit(frame), TableEncoder(2).fit(shuffled)
        assert_array_equal(one.get_feature_names_out(), other.get_feature_names_out())
        assert_array_equal(one.transform(frame), other.transform(frame))


class TestMeanTargets:
    street = mixed(4000)[["street"]]
    y = targets(street)

    def test_means_are_shrunk_by_the_best_linear_prediction(self):
        # Levels with 50 and with 4 rows; variances 4 between and 1 within levels.
        rng = np.random.default_rng(1)
        sizes = np.tile([50, 4], 300)
        effects = rng.normal(0, 2, 600)
        level = np.repeat(np.arange(600), sizes)
        y = effects[level] + rng.normal(0, 1, len(level))
        frame = pd.DataFrame({"level": level.astype(str)})
        encoder = TableEncoder().fit(frame, y)
        found = encoder.transform(pd.DataFrame({"level": np.arange(600).astype(str)}))[:, 0]
        means = np.bincount(level, y) / sizes
        ideal = y.mean() + sizes / (sizes + 1 / 4) * (means - y.mean())
        assert_allclose(found, ideal, atol=0.03 * np.abs(means).max())

    def test_large_levels_agree_with_scikit_learn(self):
        other = TargetEncoder(smooth=0.0, target_type="continuous").fit(self.street, self.y)
        found = TableEncoder().fit(self.street, self.y).transform(self.street)
        assert np.corrcoef(found[:, 0], other.transform(self.street)[:, 0])[0, 1] > 0.999

    def test_training_rows_do_not_see_their_own_targets(self):
        # Random targets: the encoded training rows must not predict them.
        rng = np.random.default_rng(2)
        frame = pd.DataFrame({"code": rng.integers(0, 400, 2000).astype(str)})
        correlations = []
        for seed in range(20):
            y = np.random.default_rng(seed).normal(size=2000)
            encoded = TableEncoder().fit_transform(frame, y)[:, 0]
            own = TableEncoder().fit(frame, y).transform(frame)[:, 0]
            if np.ptp(own) > 0:  # by chance, levels seem to differ
                assert np.corrcoef(own, y)[0, 1] > 0.3
                correlations.append(np.corrcoef(encoded, y)[0, 1])
        assert len(correlations) > 5
        assert abs(np.mean(correlations)) < 4 / np.sqrt(2000 * len(correlations))

    def test_changing_one_target_does_not_change_its_own_row(self):
        before = TableEncoder().fit_transform(self.street, self.y)
        changed = self.y.copy()
        changed[3] += 100.0
        after = TableEncoder().fit_transform(self.street, changed)
        # All rows move with the overall mean. Relative to that, only the other folds move.
        fold = np.random.default_rng(0).permutation(4000) % 5
        inside = np.flatnonzero(fold == fold[3])
        unshrunk = (before - before[3])[inside], (after - after[3])[inside]
        assert_allclose(*unshrunk, atol=0.01)
        assert np.abs((after - before) - (after - before)[3]).max() > 0.5

    def test_cross_fitting_uses_the_seed(self):
        one = TableEncoder().fit_transform(self.street, self.y)
        assert_array_equal(TableEncoder().fit_transform(self.street, self.y), one)
        other = TableEncoder(random_state=1)
        assert (other.fit_transform(self.street, self.y) != one).any()
        expected = TableEncoder().fit(self.street, self.y).transform(self.street)
        assert_array_equal(other.transform(self.street), expected)

    def test_classes_have_their_frequencies(self):
        labels = np.where(self.y > 0, "yes", "no")
        encoder = TableEncoder().fit(self.street, labels)
        assert_array_equal(encoder.get_feature_names_out(), ["street_mean_yes"])
        assert 0 < encoder.transform(self.street).min() < encoder.transform(self.street).max() < 1
        three = np.digitize(self.y, [-1, 1])
        encoder = TableEncoder().fit(self.street, three)
        names = [f"street_mean_{label}" for label in range(3)]
        assert_array_equal(encoder.get_feature_names_out(), names)
        # Levels are shrunk by a share for each class, so sums are only close to 1.
        assert_allclose(encoder.transform(self.street).sum(axis=1), 1, atol=0.1)

    def test_several_targets_have_an_output_each(self):
        both = np.column_stack([self.y, -2 * self.y])
        found = TableEncoder().fit_transform(self.street, both)
        assert_allclose(found[:, 1], -2 * found[:, 0])
        assert_allclose(found[:, :1], TableEncoder().fit_transform(self.street, self.y))

    def test_categories_of_medium_size_have_levels_and_a_mean(self):
        frame = mixed()[["month"]]
        y = np.sin(frame["month"].str.removeprefix("month ").astype(int)) + rng.normal(size=N)
        levels = OneHotEncoder(sparse_output=False).fit_transform(frame)
        encoder = TableEncoder()
        found = encoder.fit_transform(frame, y)
        assert_array_equal(found[:, :-1], levels)
        assert_array_equal(encoder.get_feature_names_out()[-2:], ["month_month 11", "month_mean"])
        # The output of the mean is that of a column with many levels, for training rows and others.
        alone = TableEncoder(5)
        assert_array_equal(found[:, -1:], alone.fit_transform(frame, y))
        assert_array_equal(encoder.transform(frame)[:, -1:], alone.transform(frame))
        assert_array_equal(TableEncoder().fit_transform(frame), levels)

    def test_counts_are_numbers(self):
        counts = np.round(50 + 10 * self.y).astype(int)
        encoder = TableEncoder().fit(self.street, counts)
        assert_array_equal(encoder.get_feature_names_out(), ["street_mean"])

    def test_unknown_levels_have_the_overall_mean(self):
        encoder = TableEncoder().fit(self.street, self.y)
        new = encoder.transform(pd.DataFrame({"street": ["new", None]}))
        assert new[0, 0] == pytest.approx(self.y.mean())
        gone = self.y[self.street["street"].isna()].mean()
        assert new[1, 0] == pytest.approx(gone, abs=0.05)

    def test_targets_that_are_not_finite_are_an_error(self):
        y = self.y.copy()
        y[0] = np.nan
        with pytest.raises(ValueError, match="y contains NaN"):
            TableEncoder().fit(self.street, y)


class TestDates:
    def test_trend_and_positions(self):
        dates = pd.to_datetime(
            ["2023-01-01", "2024-07-02 12:00", "2024-12-31 18:00"], format="ISO8601"
        )
        encoder = TableEncoder().fit(pd.DataFrame({"on": dates}))
        found = dict(
            zip(
                encoder.get_feature_names_out(),
                encoder.transform(pd.DataFrame({"on": dates})).T,
                strict=True,
            )
        )
        assert_allclose(found["on_years"], [-1.5, 0, 0.5], atol=0.01)
        assert_allclose(found["on_year_sin"], [0, 0, 0], atol=0.02)
        assert_allclose(found["on_year_cos"], [1, -1, 1], atol=0.02)
        angle = 2 * np.pi * np.array([6, 1, 1]) / 7  # Sunday, Tuesday, Tuesday
        assert_allclose(found["on_week_sin"], np.sin(angle))
        assert_array_equal(found["on_weekend"], [1, 0, 0])
        assert_allclose(found["on_day_sin"], [0, 0, -1], atol=1e-12)
        assert_allclose(found["on_day_cos"], [1, -1, 0], atol=1e-12)

    @pytest.mark.parametrize(
        ("freq", "parts"),
        [
            ("YS", ["years", "week_sin", "week_cos", "weekend"]),
            ("7D", ["years", "year_sin", "year_cos"]),
            ("D", ["years", "year_sin", "year_cos", "week_sin", "week_cos", "weekend"]),
        ],
    )
    def test_only_parts_that_vary_have_outputs(self, freq, parts):
        frame = pd.DataFrame({"on": pd.date_range("2020-01-01", periods=90, freq=freq)})
        found = TableEncoder().fit(frame).get_feature_names_out()
        assert_array_equal(found, [f"on_{part}" for part in parts])

    def test_missing_dates_are_in_the_center(self):
        frame = pd.DataFrame({"on": pd.date_range("2020-01-01", periods=99, freq="7h")})
        frame.loc[::3] = None
        found = TableEncoder().fit_transform(frame)
        assert_array_equal(found[::3, :-1], np.zeros((33, found.shape[1] - 1)))
        assert_array_equal(found[:, -1], np.arange(99) % 3 == 0)

    def test_the_calendar_is_that_of_the_time_zone(self):
        local = pd.date_range("2020-01-01", periods=99, freq="D", tz="Asia/Tokyo")
        plain = pd.DataFrame({"on": local.tz_localize(None)})
        aware = pd.DataFrame({"on": local})
        expected = TableEncoder().fit_transform(plain)
        assert "on_day_sin" not in TableEncoder().fit(aware).get_feature_names_out()
        for table in (aware, pl.from_pandas(aware), aware.astype(object)):
            assert_array_equal(TableEncoder().fit_transform(table), expected)

    @pytest.mark.parametrize(
        "text",
        [
            "2024-02-29",
            "2024-02-29T13:45",
            "2024-02-29 13:45:10.123456",
            "2024-02-29T13:45:10.123456789+0100",
        ],
    )
    def test_iso_text_is_a_date(self, text):
        column = np.array([text, None, "2020-01-01"], dtype=object)
        expected = np.datetime64(text[:26].replace(" ", "T"), "us")
        assert read(column).values[0] == expected
        assert_array_equal(read(column).missing, [False, True, False])

    @pytest.mark.parametrize(
        "text", ["2023-02-29", "24-02-28", "2024", "01/02/2024", "2024-01-011", "soon"]
    )
    def test_other_text_is_not(self, text):
        assert read(np.array([text, "2020-01-01"], dtype=object)).kind == "text"

    def test_times_have_a_position_in_the_day(self):
        frame = pl.DataFrame({"at": [dt.time(0), dt.time(6), dt.time(18)]})
        encoder = TableEncoder().fit(frame)
        assert_array_equal(encoder.get_feature_names_out(), ["at_day_sin", "at_day_cos"])
        assert_allclose(encoder.transform(frame), [[0, 1], [1, 0], [-1, 0]], atol=1e-12)


class TestLookalikes:
    @pytest.mark.parametrize(
        ("values", "kind"),
        [
            ([f"{day}/12/2023" for day in range(1, 31)], "dates"),
            ([f"12/{day}/23 08:15" for day in range(1, 31)], "dates"),
            ([f"{day}.01.2023" for day in range(1, 31)], "dates"),
            ([f"2023/01/{day:02d}" for day in range(1, 31)], "dates"),
            ([f"{day} Jan 2024" for day in range(1, 31)], "dates"),
            ([f"January {day}, 2024" for day in range(1, 31)], "dates"),
            ([f"{k},5" for k in range(30)], "numbers"),
            ([f"{k},234.50" for k in range(1, 31)], "numbers"),
            ([f"$ {k}" for k in range(30)], "numbers"),
            ([f"-{k} %" for k in range(30)], "numbers"),
        ],
    )
    def test_text_that_is_not_read_as_what_it_looks_like_warns(self, values, kind):
        frame = pd.DataFrame({"size": np.arange(60.0), "when": values * 2})
        with pytest.warns(UserWarning, match=f"Column 'when' of X is text .* like {kind}") as found:
            TableEncoder(max_categories=20).fit(frame, frame["size"])
        assert len(found) == 1
        assert "'mean target'" in str(found[0].message)

    @pytest.mark.parametrize(
        "values",
        [
            [f"{k:05d}" for k in range(30)],  # codes
            [f"{k}.13.7.{k}" for k in range(30)],
            [f"02139-{k:04d}" for k in range(30)],
            [f"{k}/40/2023" for k in range(13, 43)],
            [f"{k}/12/2023" for k in range(1, 30)] + ["unknown"],
            [f"level {k}" for k in range(30)],
            ["1,5", "2,5"] * 15,  # few levels, which get an output each
        ],
    )
    def test_other_text_does_not_warn(self, values):
        frame = pd.DataFrame({"size": np.arange(60.0), "when": values * 2})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            TableEncoder().fit(frame, frame["size"])


class TestTables:
    def test_columns_are_found_by_name(self):
        frame = mixed()
        encoder = TableEncoder().fit(frame, targets(frame))
        expected = encoder.transform(frame)
        assert_array_equal(encoder.transform(frame[frame.columns[::-1]]), expected)
        other = pl.from_pandas(frame.astype({"grade": str}))
        assert_array_equal(encoder.transform(other[other.columns[::-1]]), expected)

    def test_missing_unknown_and_duplicate_names(self):
        frame = mixed()[["size", "count", "color"]]
        encoder = TableEncoder().fit(frame)
        with pytest.raises(ValueError, match="X lacks the column 'color', 'size', which"):
            encoder.transform(frame[["count"]])
        renamed = frame.rename(columns={"color": "Color"})
        with pytest.raises(ValueError, match=r"lacks the column 'color', .* mean 'Color'\? Rename"):
            encoder.transform(renamed)
        renamed = frame.rename(columns={"color": "COLOUR"})
        with pytest.raises(ValueError, match=r"lacks the column 'color', .* mean 'COLOUR'\?"):
            encoder.transform(renamed)
        renamed = frame.rename(columns={"color": "other"})
        with pytest.raises(ValueError, match=r"lacks the column 'color', .*fitted with\. Add the"):
            encoder.transform(renamed)
        with pytest.raises(ValueError, match=r"X has the column 'extra', .* not fitted with"):
            encoder.transform(frame.assign(extra=1))
        twice = frame.set_axis(["size", "count", "size"], axis=1)
        for method in (TableEncoder().fit, encoder.transform):
            with pytest.raises(ValueError, match="several columns with the name 'size'"):
                method(twice)

    def test_an_array_after_a_frame_is_read_by_position(self):
        frame = mixed()[["size", "side"]]
        encoder = TableEncoder().fit(frame)
        with pytest.warns(UserWarning, match="X does not have valid feature names"):
            found = encoder.transform(frame.to_numpy())
        assert_array_equal(found, encoder.transform(frame))
        encoder = TableEncoder().fit(frame.to_numpy())
        with pytest.raises(ValueError, match="X has 1 features, but TableEncoder is expecting 2"):
            encoder.transform(np.zeros((3, 1)))

    @pytest.mark.parametrize(
        ("fitted", "given", "message"),
        [
            ([1.0, 2.0], ["3", "x"], "column 'a' of X contains 'x', but it contained numbers"),
            ([dt.date(2020, 1, 1)] * 2, ["soon", None], "contains 'soon', but it contained dates"),
            ([1.0, 2.0], [dt.date(2020, 1, 1)] * 2, "contains '2020-01-01.*contained numbers"),
            (["2020-01-01"] * 2, [1.0, 2.0], "contains '1.0', but it contained dates"),
        ],
    )
    def test_a_column_keeps_its_kind(self, fitted, given, message):
        encoder = TableEncoder().fit(pd.DataFrame({"a": fitted}))
        with pytest.raises(ValueError, match=message):
            encoder.transform(pd.DataFrame({"a": given}))

    def test_text_of_the_right_kind_is_converted(self):
        assert_array_equal(read_as("number", np.array(["1.5", None], dtype=object)).values[0], 1.5)
        dates = read_as("date", np.array(["2020-01-01", None], dtype=object))
        assert_array_equal(dates.values[0], np.datetime64("2020-01-01"))
        assert read_as("date", np.array([None, None], dtype=object)).is_empty

    def test_infinite_numbers_are_an_error_with_the_name(self):
        frame = pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, np.inf]})
        with pytest.raises(ValueError, match="column 'b' holds such values"):
            TableEncoder().fit(frame)
        with pytest.raises(ValueError, match="column 'b' holds such values"):
            TableEncoder().fit(frame.iloc[:1]).transform(frame)

    def test_a_table_without_information_is_an_error(self):
        frame = pd.DataFrame({"a": [None] * 40, "b": [f"name {k}" for k in range(40)]})
        with pytest.raises(ValueError, match="X has no column to learn from"):
            TableEncoder().fit(frame)

    def test_tables_that_are_not_in_memory(self):
        lazy = pl.LazyFrame({"a": [1]})
        with pytest.raises(TypeError, match="X is a lazy LazyFrame"):
            TableEncoder().fit(lazy)
        with pytest.raises(TypeError, match=r"map_partitions\(encoder.transform\)"):
            TableEncoder().fit(dd.from_pandas(mixed(), npartitions=2))
        with pytest.raises(TypeError, match="yields blocks of rows"):
            TableEncoder().fit(iter([(np.zeros((2, 2)), np.zeros(2))]))

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"max_categories": 1}, "max_categories=1 is not valid"),
            ({"min_frequency": 0}, "min_frequency=0 is not valid"),
            ({"min_frequency": "often"}, "min_frequency='often' is not known"),
            ({"random_state": "x"}, "random_state='x' is not valid"),
        ],
    )
    def test_wrong_parameters(self, parameters, message):
        with pytest.raises(ValueError, match=message):
            TableEncoder(**parameters).fit(mixed())

    def test_a_failed_fit_changes_nothing(self):
        frame = mixed()[["size", "side"]]
        encoder = TableEncoder().fit(frame)
        with pytest.raises(ValueError, match="no column"):
            encoder.fit(pd.DataFrame({"a": [None]}))
        assert encoder.kinds_ == ["number", "category"]

    def test_output_names_are_unique(self):
        frame = pd.DataFrame({"a": ["b", "c", "d"], "a_b": [1, 2, 3]})
        found = TableEncoder().fit(frame).get_feature_names_out()
        assert_array_equal(found, ["a_b", "a_c", "a_d", "a_b_2"])

    def test_column_names_that_are_not_text(self):
        frame = pd.DataFrame({0: [1.0, 2.0], 1: ["a", "b"]})
        encoder = TableEncoder().fit(frame)
        assert_array_equal(encoder.get_feature_names_out(), ["x0", "x1_b"])
        assert_array_equal(encoder.transform(frame), [[1, 0], [2, 1]])

    @pytest.mark.parametrize("library", ["pandas", "polars"])
    def test_set_output(self, library):
        frame = mixed()
        encoder = TableEncoder().set_output(transform=library)
        found = encoder.fit_transform(frame, targets(frame))
        assert type(found).__module__.startswith(library)
        assert_array_equal(found.columns, encoder.get_feature_names_out())

    def test_partitions_of_dask(self):
        frame = mixed().drop(columns="took")
        encoder = TableEncoder().set_output(transform="pandas").fit(frame, targets(frame))
        partitions = dd.from_pandas(frame, npartitions=4)
        meta = encoder.transform(frame.iloc[:1])
        found = partitions.map_partitions(encoder.transform, meta=meta)
        assert_array_equal(found.compute(scheduler="synchronous"), encoder.transform(frame))

    def test_blocks_of_rows_agree_with_the_table(self):
        frame = mixed()
        encoder = TableEncoder().fit(frame, targets(frame))
        expected = encoder.transform(frame)
        for start in range(0, N, 37):
            part = frame.iloc[start : start + 37]
            assert_array_equal(encoder.transform(part), expected[start : start + 37])

    def test_models_take_its_result(self):
        frame, new = mixed(seed=1), mixed(seed=2)
        y, y_new = targets(frame), targets(new, seed=1)
        for model in (LinearRegression(), QuadratureRidge("gaussian", n_components=64, alpha=1.0)):
            pipe = make_pipeline(TableEncoder(), model).fit(frame, y)
            assert pipe.score(new, y_new) > 0.15


class TestFiles:
    def test_files_and_pickles(self, tmp_path):
        frame = mixed()
        encoder = TableEncoder(25).set_output(transform="pandas").fit(frame, targets(frame))
        expected = encoder.transform(frame)
        save(encoder, tmp_path / "encoder")
        for copy in (load(tmp_path / "encoder"), pickle.loads(pickle.dumps(encoder))):
            pd.testing.assert_frame_equal(copy.transform(frame), expected)
            assert repr(copy) == repr(encoder)
            assert copy.kinds_ == encoder.kinds_
        save(TableEncoder(7), tmp_path / "unfitted")
        assert load(tmp_path / "unfitted").max_categories == 7

    def test_forged_files_are_rejected(self, tmp_path):
        frame = mixed()
        fitted = TableEncoder().fit(frame, targets(frame))
        kinds = {kind: number for number, kind in enumerate(fitted.kinds_)}

        def forged(kind, **changes):
            encodings = list(fitted.encodings_)
            encodings[kinds[kind]] = replace(encodings[kinds[kind]], **changes)
            encoder = clone(fitted).fit(frame, targets(frame))
            encoder.encodings_ = tuple(encodings)
            return encoder

        changes = [
            ("number", {"median": np.nan}, "median of encodings_ is nan"),
            ("number", {"has_indicator": 2}, "has_indicator of encodings_ is 2"),
            ("category", {"levels": ("a", "a")}, "levels of encodings_ occur twice"),
            ("category", {"levels": [1]}, "levels of encodings_ are not strings"),
            ("rank", {"ranks": None}, "ranks of encodings_ is a NoneType"),
            ("mean target", {"means": np.zeros((3, 1))}, r"means of encodings_ has shape \(3, 1\)"),
            ("category and mean target", {"mean": None}, "mean of encodings_ is a NoneType"),
            ("category and mean target", {"one_hot": 1}, "one_hot of encodings_ is a int"),
            ("mean target", {"names": (1,)}, "names of encodings_ are not strings"),
            ("date", {"parts": ("century",)}, r"parts of encodings_ are \('century',\)"),
            ("date", {"origin": 0.5}, "origin of encodings_ is a float"),
            ("no values", {"reason": 1}, "reason of encodings_ is a int"),
        ]
        for kind, change, message in changes:
            with pytest.raises(ValueError, match=message):
                save(forged(kind, **change), tmp_path / "forged")
        short = clone(fitted).fit(frame, targets(frame))
        short.encodings_ = short.encodings_[:-1]
        with pytest.raises(ValueError, match="encodings_ are for 12 columns, not 13"):
            save(short, tmp_path / "forged")


def test_the_diagram_of_notebooks():
    frame = mixed()
    for encoder in (TableEncoder(), TableEncoder().fit(frame, targets(frame))):
        assert "TableEncoder" in encoder._repr_html_()
