"""Test ParquetBlocks: its repr, the input that it rejects at once, and models that read it."""

import importlib.metadata
import pickle
import re
import sys
import time

import numpy as np
import pandas as pd
import pyarrow
import pytest

from quadfeat import (
    KernelRegressor,
    LocalGaussianProcess,
    ParquetBlocks,
    QuadratureRidge,
    QuadratureRidgeClassifier,
)

N_ROWS = 600


def frame():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((N_ROWS, 3)), columns=["a", "b", "c"])
    table["y"] = np.sin(table["a"]) + table["b"]
    table["weight"] = rng.uniform(0.5, 2.0, N_ROWS)
    table["label"] = np.where(table["y"] > 0, "high", "low")
    return table


@pytest.fixture
def path(tmp_path):
    frame().drop(columns="label").to_parquet(tmp_path / "table.parquet")
    return tmp_path / "table.parquet"


@pytest.fixture
def mixed(tmp_path):
    """Return a file with columns of strings, dates and categories besides numbers."""
    table = frame().assign(
        city="Oslo",
        day=pd.Timestamp("2024-01-01"),
        size=pd.Categorical(["small", "large"] * (N_ROWS // 2)),
        flag=True,
        count=np.arange(N_ROWS),
    )
    table.to_parquet(tmp_path / "mixed.parquet")
    return tmp_path / "mixed.parquet"


def ridge(**options):
    return QuadratureRidge("gaussian", n_components=30, alpha=0.1, random_state=0, **options)


class TestRepr:
    def test_shows_what_is_read(self, path):
        blocks = ParquetBlocks(path, target="y", sample_weight="weight", rows_per_block=100)
        assert repr(blocks) == (
            f"ParquetBlocks({str(path)!r}, target='y', sample_weight='weight', "
            "rows_per_block=100): 600 rows, 3 columns in X"
        )
        assert blocks.n_rows == N_ROWS

    def test_leaves_defaults_out(self, path):
        assert repr(ParquetBlocks(path, ["y", "a"], columns=["b"])) == (
            f"ParquetBlocks({str(path)!r}, target=['y', 'a']): 600 rows, 1 column in X"
        )

    def test_of_a_file_that_is_gone(self, path):
        blocks = ParquetBlocks(path, "y")
        path.unlink()
        assert repr(blocks).endswith(": no such file, 4 columns in X")


class TestMemory:
    def test_reading_stays_within_a_row_group(self, tmp_path):
        # PyArrow reads in threads: give them the time to read ahead.
        table = pd.DataFrame(np.random.default_rng(0).random((1_000_000, 2)), columns=["x", "y"])
        table.to_parquet(tmp_path / "table.parquet", row_group_size=50_000)
        before = pyarrow.total_allocated_bytes()
        blocks = iter(ParquetBlocks(tmp_path, target="y", rows_per_block=50_000))
        next(blocks)
        time.sleep(0.3)
        assert pyarrow.total_allocated_bytes() - before < 0.5 * table.memory_usage().sum()


class TestPaths:
    def test_that_do_not_exist(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"path='.*tabel.parquet' does not exist: pass"):
            ParquetBlocks(tmp_path / "tabel.parquet", "y")

    def test_wildcards(self, path):
        pattern = str(path.parent / "*.parquet")
        with pytest.raises(FileNotFoundError, match="Wildcards are not supported"):
            ParquetBlocks(pattern, "y")

    def test_of_other_files(self, tmp_path):
        (tmp_path / "table.csv").write_text("a,y\n1,2\n")
        with pytest.raises(ValueError, match=r"path='.*table.csv' cannot be read as Parquet"):
            ParquetBlocks(tmp_path / "table.csv", "y")

    def test_of_an_empty_folder(self, tmp_path):
        with pytest.raises(ValueError, match=r"path=.* has no Parquet files"):
            ParquetBlocks(tmp_path, "y")

    @pytest.mark.parametrize("path", [3, None, ["a.parquet", 3]], ids=str)
    def test_of_invalid_types(self, path):
        with pytest.raises(TypeError, match=r"path=.* is not valid: pass the path of a Parquet"):
            ParquetBlocks(path, "y")


class TestColumns:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"target": "weigth"}, r"target='weigth' is not a col.* Did you mean 'weight'\?"),
            ({"target": ["y", "z"]}, "target='z' is not a column of .*Its columns are 'a', 'b'"),
            ({"target": "y", "columns": ["a", "d"]}, "columns='d' is not a column"),
            ({"target": "y", "sample_weight": "w"}, "sample_weight='w' is not a column"),
            ({"target": "y", "columns": ["a", "y"]}, r"columns=\['a', 'y'\] contains 'y', which"),
        ],
        ids=str,
    )
    def test_missing_or_repeated_names_are_reported_at_once(self, path, options, message):
        with pytest.raises(ValueError, match=message):
            ParquetBlocks(path, **options)

    @pytest.mark.parametrize("target", [3, ["y", 3], []], ids=str)
    def test_targets_that_are_not_names(self, path, target):
        with pytest.raises(TypeError, match=r"target=.* is not valid: pass the name of a column"):
            ParquetBlocks(path, target)

    def test_files_without_targets_give_data_frames(self, path):
        blocks = ParquetBlocks(path, target=None, columns=["a", "b", "c"], rows_per_block=250)
        parts = list(blocks)
        assert [len(part) for part in parts] == [250, 250, 100]
        assert list(parts[0].columns) == ["a", "b", "c"]
        model = ridge().fit(frame()[["a", "b", "c"]].astype("float32"), frame()["y"])
        found = np.concatenate([model.predict(part) for part in parts])
        whole = model.predict(frame()[["a", "b", "c"]].astype("float32"))
        np.testing.assert_allclose(found, whole, rtol=1e-6)
        assert "target=None" in repr(blocks)

    def test_files_without_targets_cannot_be_fitted_to(self, path):
        blocks = ParquetBlocks(path, target=None, columns=["a", "b"], rows_per_block=250)
        with pytest.raises(TypeError, match=r"X yields DataFrame of shape \(250, 2\): .* target"):
            ridge().fit(blocks)

    def test_blocks_are_predicted_one_at_a_time(self, path):
        model = ridge().fit(ParquetBlocks(path, "y"))
        for target, item in (("y", "X, y"), (None, "X")):
            with pytest.raises(TypeError, match=rf"model\.predict\(X\) for {item} in blocks"):
                model.predict(ParquetBlocks(path, target))

    def test_weights_need_targets(self, path):
        with pytest.raises(ValueError, match="sample_weight='weight' has no effect"):
            ParquetBlocks(path, target=None, sample_weight="weight")

    def test_a_tuple_of_targets(self, path):
        _, y = next(iter(ParquetBlocks(path, ("y", "a"))))
        np.testing.assert_array_equal(y, frame()[["y", "a"]])

    def test_a_string_instead_of_a_list(self, path):
        with pytest.raises(TypeError, match=r"columns='a' is not valid: pass a list, \['a'\]"):
            ParquetBlocks(path, "y", columns="a")

    def test_without_numbers_are_reported_with_a_fix(self, mixed):
        with pytest.raises(ValueError, match="X needs numbers, but these columns") as caught:
            ParquetBlocks(mixed, "label")
        message = str(caught.value)
        for name in ("city", "day", "size"):
            assert f"{name!r} (" in message
        suggested = re.search(r"pass exclude=(\[.*?\])", message)[1]
        assert suggested == "['city', 'day', 'size']"
        blocks = ParquetBlocks(mixed, "label", exclude=["city", "day", "size"])
        assert next(iter(blocks))[0].shape == (N_ROWS, 7)

    def test_without_numbers_among_chosen_ones(self, mixed):
        with pytest.raises(ValueError, match=r"leave them out, pass columns=\['a'\]; or convert"):
            ParquetBlocks(mixed, "label", columns=["a", "city"])

    def test_without_numbers_keep_what_was_excluded(self, mixed):
        with pytest.raises(ValueError, match=r"pass exclude=\['a', 'city', 'day', 'size'\]; or"):
            ParquetBlocks(mixed, "label", exclude="a")

    def test_many_without_numbers_are_shortened(self, tmp_path):
        table = pd.DataFrame({f"text{k}": ["a"] for k in range(40)})
        table = table.assign(y=1.0, **{f"x{k}": [1.0] for k in range(40)})
        table.to_parquet(tmp_path / "wide.parquet")
        with pytest.raises(
            ValueError, match=r"and 28 more\. To leave them out, pass columns= with"
        ):
            ParquetBlocks(tmp_path, "y")

    def test_of_weights_without_numbers(self, mixed):
        with pytest.raises(ValueError, match="sample_weight='city' is a column of type"):
            ParquetBlocks(mixed, "y", columns=["a"], sample_weight="city")

    def test_none_with_numbers(self, tmp_path):
        pd.DataFrame({"text": ["a"], "y": [1.0]}).to_parquet(tmp_path / "t.parquet")
        with pytest.raises(ValueError, match="has no numeric column for X"):
            ParquetBlocks(tmp_path, "y")


class TestExclude:
    @pytest.mark.parametrize(
        ("exclude", "expected"),
        [
            ("a", ["b", "c", "weight"]),
            (["a", "weight"], ["b", "c"]),
            (("c",), ["a", "b", "weight"]),
            ([], ["a", "b", "c", "weight"]),
            (["a", "a"], ["b", "c", "weight"]),
        ],
        ids=str,
    )
    def test_leaves_columns_out(self, path, exclude, expected):
        blocks = ParquetBlocks(path, "y", exclude=exclude)
        X, y = next(iter(blocks))
        assert X.columns.tolist() == expected
        np.testing.assert_array_equal(y, frame()["y"])
        assert ridge().fit(blocks).feature_names_in_.tolist() == expected

    def test_without_a_target(self, path):
        for exclude, expected in (("y", ["a", "b", "c", "weight"]), (["y", "weight"], [*"abc"])):
            (X,) = ParquetBlocks(path, None, exclude=exclude)
            assert X.columns.tolist() == expected

    def test_an_index_that_was_stored(self, tmp_path):
        frame().drop(columns="label").set_index("a").to_parquet(tmp_path / "t.parquet")
        (found,) = ParquetBlocks(tmp_path, "y", exclude=["a", "b"])
        assert found[0].columns.tolist() == ["c", "weight"]

    def test_is_shown(self, path):
        assert repr(ParquetBlocks(path, "y", exclude=["a", "weight"])) == (
            f"ParquetBlocks({str(path)!r}, target='y', exclude=['a', 'weight']): "
            "600 rows, 2 columns in X"
        )

    def test_survives_a_pickle(self, path):
        again = pickle.loads(pickle.dumps(ParquetBlocks(path, "y", exclude="a")))
        assert next(iter(again))[0].columns.tolist() == ["b", "c", "weight"]
        assert again.exclude == "a"

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"exclude": "weigth"}, r"exclude='weigth' is not a column of.* mean 'weight'\?"),
            ({"exclude": ["a", "z"]}, "exclude='z' is not a column of .*Its columns are 'a', 'b'"),
            ({"exclude": "y"}, "exclude='y' contains 'y', which is a target or a weight"),
            (
                {"exclude": ["a", "weight"], "sample_weight": "weight"},
                r"exclude=\['a', 'weight'\] contains 'weight', which is a target or a weight",
            ),
            ({"exclude": ["a"], "columns": ["b"]}, r"exclude=\['a'\] has no effect with columns="),
            ({"exclude": ["a", "b", "c", "weight"]}, "has no numeric column for X"),
        ],
        ids=str,
    )
    def test_bad_names(self, path, options, message):
        with pytest.raises(ValueError, match=message):
            ParquetBlocks(path, "y", **options)

    @pytest.mark.parametrize("exclude", [3, ["a", 3], {"a": 1}], ids=str)
    def test_of_invalid_types(self, path, exclude):
        with pytest.raises(TypeError, match=r"exclude=.* is not valid: pass the name of a column"):
            ParquetBlocks(path, "y", exclude=exclude)


class TestMissingPackages:
    @pytest.mark.parametrize("module", ["pandas", "pyarrow", "pyarrow.dataset"])
    def test_are_named_as_pip_knows_them(self, monkeypatch, path, module):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(ImportError, match="ParquetBlocks needs the package") as caught:
            ParquetBlocks(path, "y")
        package = module.partition(".")[0]
        assert f"pip install {package}," in str(caught.value)
        extra = re.search(r"pip install 'quadfeat\[(.*)\]'", str(caught.value))[1]
        metadata = importlib.metadata.metadata("quadfeat")
        assert extra in metadata.get_all("Provides-Extra")
        assert importlib.metadata.version(package)


class TestModels:
    def test_read_the_rows_each_time(self, path):
        blocks = ParquetBlocks(path, "y", columns=list("abc"), rows_per_block=250)
        assert [len(X) for X, _ in blocks] == [250, 250, 100]
        again = pickle.loads(pickle.dumps(blocks))
        assert repr(again) == repr(blocks)
        for (X, y), (other, targets) in zip(blocks, again, strict=True):
            pd.testing.assert_frame_equal(X, other)
            np.testing.assert_array_equal(y, targets)

    def test_score(self, path):
        table = frame()
        blocks = ParquetBlocks(path, "y", columns=list("abc"), rows_per_block=250)
        model = ridge().fit(blocks)
        X = table[list("abc")].astype(np.float32)
        assert model.score(blocks) == pytest.approx(model.score(X, table["y"]), rel=1e-6)
        weighted = ParquetBlocks(path, "y", columns=list("abc"), sample_weight="weight")
        expected = model.score(X, table["y"], table["weight"])
        assert model.score(weighted) == pytest.approx(expected, rel=1e-6)

    def test_score_of_labels(self, mixed):
        blocks = ParquetBlocks(mixed, "label", columns=list("abc"), rows_per_block=250)
        model = QuadratureRidgeClassifier("gaussian", n_components=30, random_state=0).fit(blocks)
        table = frame()
        expected = model.score(table[list("abc")].astype(np.float32), table["label"])
        assert model.score(blocks) == pytest.approx(expected)

    def test_progress_has_a_total(self, path, capfd):
        blocks = ParquetBlocks(path, "y", columns=list("abc"), rows_per_block=250)
        ridge(verbose=True).fit(blocks)
        assert "fit: [########################] 100%, 600 of 600 rows" in capfd.readouterr().err


class TestSeveralFiles:
    @pytest.fixture
    def files(self, tmp_path):
        table = frame().drop(columns=["label", "weight"])
        paths = [tmp_path / f"{name}.parquet" for name in "pqr"]
        for path, rows in zip(paths, np.split(np.arange(N_ROWS), 3), strict=True):
            table.iloc[rows].to_parquet(path)
        return paths

    def test_a_list_holds_out_a_file(self, files):
        blocks, rest = ParquetBlocks(files[:2], "y"), ParquetBlocks(files[2], "y")
        assert blocks.n_rows == 400
        assert repr(blocks).startswith(f"ParquetBlocks({[str(path) for path in files[:2]]!r}")
        X = np.concatenate([X for X, _ in blocks])
        np.testing.assert_allclose(X, frame()[["a", "b", "c"]][:400], rtol=1e-6)
        model = ridge().fit(blocks)
        assert model.score(rest) > 0.9

    def test_files_and_folders_with_other_types(self, files, tmp_path):
        (tmp_path / "folder").mkdir()
        table = pd.read_parquet(files[1])
        table.astype("float32").to_parquet(tmp_path / "folder" / "single.parquet")
        blocks = ParquetBlocks([files[0], tmp_path / "folder"], "y")
        X = np.concatenate([X for X, _ in blocks])
        np.testing.assert_allclose(X[200:], table[["a", "b", "c"]], rtol=1e-6)

    def test_bad_lists(self, files, tmp_path):
        with pytest.raises(TypeError, match=r"path=\[\] is not valid"):
            ParquetBlocks([], "y")
        with pytest.raises(FileNotFoundError, match=r"none\.parquet' does not exist"):
            ParquetBlocks([files[0], tmp_path / "none.parquet"], "y")
        (tmp_path / "empty").mkdir()
        with pytest.raises(ValueError, match="empty' has no Parquet files"):
            ParquetBlocks([files[0], tmp_path / "empty"], "y")

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    @pytest.mark.parametrize("solver", ["normal", "cg"])
    def test_a_value_that_is_not_finite(self, files, bad, solver):
        table = pd.read_parquet(files[1])
        table.loc[table.index[5], "b"] = bad
        table.to_parquet(files[1])
        message = f"column 'b' holds .* values, first in '{files[1]}'"
        with pytest.raises(ValueError, match=message):
            ridge(solver=solver).fit(ParquetBlocks(files, "y"))
        model = ridge().fit(ParquetBlocks(files[0], "y"))
        with pytest.raises(ValueError, match=message):
            model.score(ParquetBlocks(files, "y"))

    def test_advice_for_missing_values(self, files):
        table = pd.read_parquet(files[1])
        table.loc[table.index[5], "b"] = np.nan
        table.to_parquet(files[1])
        message = "KernelRegressor needs complete rows: .*when the files are written, or in a gener"
        for blocks in (ParquetBlocks(files, "y"), [(table[["a", "b"]], table["y"])]):
            with pytest.raises(ValueError, match=message) as raised:
                KernelRegressor().fit(blocks)
            assert "TableEncoder" not in str(raised.value)
            assert "'Parquet files larger than memory'" in str(raised.value)

    @pytest.mark.parametrize(
        ("bad", "text"), [(np.nan, "NaN: 2 of 600 rows have no target"), (np.inf, "an infinite")]
    )
    def test_targets_that_are_not_finite(self, files, bad, text):
        table = pd.read_parquet(files[1])
        table.loc[table.index[[5, 9]], "y"] = bad
        table.to_parquet(files[1])
        message = f"y contains .*{text}.*, first in '{files[1]}'. KernelRegressor .*: drop these"
        with pytest.raises(ValueError, match=message):
            KernelRegressor().fit(ParquetBlocks(files, "y", rows_per_block=150))

    def test_labels_that_are_missing(self, files):
        for path in files:
            table = pd.read_parquet(path).assign(label="low")
            table.loc[table.index[3], "label"] = None
            table.to_parquet(path)
        message = f"3 of 600 rows have no target, first in '{files[0]}'. QuadratureRidgeClassifier"
        blocks = ParquetBlocks(files, "label", columns=["a", "b"])
        with pytest.raises(ValueError, match=message):
            QuadratureRidgeClassifier("gaussian").fit(blocks)

    @pytest.mark.parametrize(
        ("lost", "options", "way_out"),
        [
            ("b", {}, r"leave out the file, or pass exclude=\['b'\]"),
            ("b", {"exclude": "c"}, r"pass exclude=\['c', 'b'\]"),
            ("b", {"columns": ["a", "b"]}, "pass columns= without it"),
            ("y", {}, "or leave out the file"),
        ],
    )
    def test_a_file_that_lacks_a_column(self, files, lost, options, way_out):
        pd.read_parquet(files[1]).drop(columns=lost).to_parquet(files[1])
        message = f"the file '{files[1]}' has no column '{lost}', which other .*{way_out}"
        for given in (files, files[0].parent):
            with pytest.raises(ValueError, match=message):
                ParquetBlocks(given, "y", **options)
        assert ParquetBlocks(files, "a", columns=["c"]).n_rows == 600


@pytest.mark.filterwarnings("error")
def test_methods_that_need_a_table(path):
    blocks = ParquetBlocks(path, "y", rows_per_block=100)
    model = ridge().fit(blocks)
    for method in (model.predict, model.predict_interval, model.features_.transform):
        with pytest.raises(TypeError, match=r"ParquetBlocks, which yields blocks .* in blocks"):
            method(blocks)
    for estimator in (model, KernelRegressor(), LocalGaussianProcess()):
        owner = type(estimator).__name__
        message = f"y is given beside X, which is a Parquet.* Omit y, as in fit.* pass {owner} a"
        with pytest.raises(TypeError, match=message):
            estimator.fit(blocks, np.ones(N_ROWS))
    with pytest.raises(TypeError, match="Set target= of ParquetBlocks, and omit y"):
        model.fit(ParquetBlocks(path, None), np.ones(N_ROWS))
    found = np.concatenate([model.predict(X) for X, _ in blocks])
    np.testing.assert_allclose(found, model.predict(frame()[["a", "b", "c", "weight"]]), rtol=1e-3)
