"""Test how ``quadfeat compare`` detects number formats, separators and encodings."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

pytest.importorskip("typer", reason="needs quadfeat[study]")

from quadfeat.apps.compare import snippet
from quadfeat.apps.compare.contestants import LINEAR
from quadfeat.apps.compare.table import load
from quadfeat.apps.reporting.errors import CommandError

RNG = np.random.default_rng(0)
VALUES = RNG.uniform(-50, 50, 40).round(2)
LARGE = RNG.integers(1, 5_000_000, 40)
TARGET = np.linspace(0, 1, 40).round(3)


def write(path, columns, separator=",", encoding="utf-8"):
    """Write columns of strings, quoted where necessary."""
    frame = pd.DataFrame({name: list(values) for name, values in columns.items()})
    frame.to_csv(path, index=False, sep=separator, encoding=encoding)
    return path


def with_comma(values):
    return [f"{value}".replace(".", ",") for value in values]


def kinds(table):
    return {column.name: column.kind for column in table.columns}


def said(table, *parts):
    return any(all(part in remark for part in parts) for remark in table.remarks)


def run_code(table, monkeypatch):
    """Return the table that the generated code reads in the folder of the file."""
    monkeypatch.chdir(table.path.parent)
    scope = {"pd": pd}
    exec("\n".join(table.code), scope)
    return scope["table"]


class TestNumbers:
    @pytest.mark.parametrize("separator", [";", "\t", "|", ","])
    def test_decimal_commas(self, tmp_path, monkeypatch, separator):
        columns = {"x": with_comma(VALUES), "y": with_comma(TARGET)}
        table = load(write(tmp_path / "t.csv", columns, separator), "y")
        assert table.task == "regression"
        assert_allclose(table.rows["x"], VALUES)
        assert_allclose(table.y, TARGET)
        assert said(table, "'x', 'y'", "commas are read as decimal marks", "--decimal .")
        assert_allclose(run_code(table, monkeypatch)["x"], VALUES)

    @pytest.mark.parametrize(
        ("separator", "decimal", "thousands"), [(",", ".", ","), (";", ",", "."), ("\t", ".", ",")]
    )
    def test_thousands(self, tmp_path, monkeypatch, separator, decimal, thousands):
        written = [f"{value:,}".replace(",", thousands) for value in LARGE]
        columns = {"x": written, "z": [f"{v}".replace(".", decimal) for v in VALUES], "y": TARGET}
        columns["y"] = [f"{v}".replace(".", decimal) for v in TARGET]
        table = load(write(tmp_path / "t.csv", columns, separator), "y")
        assert_allclose(table.rows["x"], LARGE)
        assert_allclose(table.rows["z"], VALUES)
        assert said(table, "'x'", "thousands separators")
        assert_allclose(run_code(table, monkeypatch)["x"], LARGE)

    def test_both_in_one_number(self, tmp_path):
        amounts = RNG.uniform(1000, 5e6, 40).round(2)
        german = [f"{v:,.2f}".translate(str.maketrans(",.", ".,")) for v in amounts]
        table = load(write(tmp_path / "t.csv", {"x": german, "y": with_comma(TARGET)}, ";"), "y")
        assert_allclose(table.rows["x"], amounts)

    @pytest.mark.parametrize(
        ("separator", "columns", "expected"),
        [
            # Only the separator decides.
            (",", {"x": ["1,234", "5,678"]}, [1234, 5678]),
            (";", {"x": ["1,234", "5,678"]}, [1.234, 5.678]),
            # Numbers below 1000 without a comma: thousands.
            (";", {"x": ["1,234", "950"]}, [1234, 950]),
            # Numbers above 1000 without a comma: decimals.
            (",", {"x": ["1,234", "9500"]}, [1.234, 9500]),
            # Other columns decide.
            (";", {"x": ["1,234", "5,678"], "z": ["0,5", "2,25"]}, [1.234, 5.678]),
            (";", {"x": ["1,234", "5,678"], "z": ["0.5", "2.25"]}, [1234, 5678]),
            (",", {"x": ["1,234", "5,678"], "z": ["0,5", "2,25"]}, [1.234, 5.678]),
            (";", {"x": ["1.234", "5.678"], "z": ["0,5", "2,25"]}, [1234, 5678]),
        ],
    )
    def test_ambiguous_numbers(self, tmp_path, monkeypatch, separator, columns, expected):
        columns = {name: values * 20 for name, values in columns.items()}
        path = write(tmp_path / "t.csv", {**columns, "y": ["a", "b", "b", "a"] * 10}, separator)
        table = load(path, "y")
        assert_allclose(table.rows["x"].iloc[:2], expected)
        assert said(table, "ambiguous", columns["x"][0], f"{expected[0]}")
        frame = run_code(table, monkeypatch)
        assert_allclose(frame["x"].iloc[:2], expected)

    def test_the_option_overrides_the_detection(self, tmp_path):
        path = write(tmp_path / "t.csv", {"x": ["1,234", "5,678"] * 20, "y": ["a", "b"] * 20}, ";")
        assert_allclose(load(path, "y", decimal=".").rows["x"].iloc[:2], [1234, 5678])
        assert_allclose(load(path, "y", decimal=",").rows["x"].iloc[:2], [1.234, 5.678])

    def test_points_and_commas_in_one_file(self, tmp_path, monkeypatch):
        columns = {
            "latitude": [f"{v:.4f}" for v in np.abs(VALUES) + 1],
            "x": with_comma(VALUES),
            "y": with_comma(TARGET),
        }
        table = load(write(tmp_path / "t.csv", columns, ";"), "y")
        assert_allclose(table.rows["latitude"], np.abs(VALUES) + 1)
        assert_allclose(table.rows["x"], VALUES)
        assert said(table, "'latitude' uses decimal points")
        assert_allclose(run_code(table, monkeypatch)["latitude"], np.abs(VALUES) + 1)

    @pytest.mark.parametrize(
        "values",
        [
            ["1,2,3", "2,3"],  # lists
            ["192.168.100.101", "192.168.100.102"],
            ["08,001", "08,002"],
            ["12.05.2020", "13.05.2020"],
            ["2020.100", "2020.200.300"],
            ["1,234 m", "2,345 m"],
            ["1,23,456", "2,34,567"],
            ["v1,2", "v1,3"],
            [",", "1,2"],
        ],
    )
    @pytest.mark.parametrize("separator", [",", ";"])
    def test_text_stays_text(self, tmp_path, monkeypatch, values, separator):
        columns = {
            "x": values * 20,
            "z": [f"{v:,.2f}" for v in RNG.uniform(1000, 5e6, 40)],
            "y": TARGET,
        }
        table = load(write(tmp_path / "t.csv", columns, separator), "y")
        assert kinds(table) == {"x": "category", "z": "number"}
        assert table.rows["x"].iloc[:2].tolist() == values
        assert run_code(table, monkeypatch)["x"].iloc[:2].tolist() == values

    def test_text_stays_text_beside_decimal_commas(self, tmp_path, monkeypatch):
        columns = {
            "address": ["10.0.0.1", "10.0.0.2"] * 20,
            "day": ["12.05.2020", "13.05.2020"] * 20,
            "list": ["1,2,3", "2,3,1"] * 20,
            "amount": [f"{v:,.2f}".translate(str.maketrans(",.", ".,")) for v in LARGE / 7],
            "y": with_comma(TARGET),
        }
        table = load(write(tmp_path / "t.csv", columns, ";"), "y")
        categories = dict.fromkeys(["address", "day", "list"], "category")
        assert kinds(table) == {**categories, "amount": "number"}
        assert table.rows["address"].iloc[0] == "10.0.0.1"
        frame = run_code(table, monkeypatch)
        assert frame["day"].iloc[0] == "12.05.2020"
        assert_allclose(frame["amount"], (LARGE / 7).round(2))
        script = snippet.build(table, snippet.Recipe(LINEAR, alpha=1.0))
        subprocess.run([sys.executable, "-W", "error", "-c", script], cwd=tmp_path, check=True)

    def test_numbers_that_do_not_fit_are_mentioned(self, tmp_path):
        columns = {"x": ["1,5", "3,1"] * 20, "z": VALUES, "y": TARGET}
        table = load(write(tmp_path / "t.csv", columns), "y")
        assert kinds(table)["x"] == "category"
        assert said(table, "'x' is read as categories", "'1,5'", "--decimal ,")

    def test_missing_values(self, tmp_path):
        columns = {"x": with_comma(VALUES), "y": with_comma(TARGET)}
        columns["x"][3], columns["x"][5], columns["y"][7] = "", "?", "NA"
        table = load(write(tmp_path / "t.csv", columns, ";"), "y")
        expected = np.where(np.isin(np.arange(40), [3, 5]), np.nan, VALUES)
        assert_allclose(table.rows["x"], np.delete(expected, 7))

    def test_plain_numbers_need_no_remark(self, tmp_path):
        path = write(tmp_path / "t.csv", {"x": VALUES, "n": LARGE, "y": TARGET})
        table = load(path, "y")
        assert table.remarks == []
        assert table.code == ['table = pd.read_csv("t.csv")']


class TestSeparators:
    @pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
    @pytest.mark.parametrize("name", ["price, EUR", "a;b", "c|d", "tab\tbed", 'say "hi"'])
    def test_names_may_contain_other_separators(self, tmp_path, separator, name):
        path = tmp_path / "t.csv"
        names = [name if separator not in name else f'"{name}"', "y"]
        if '"' in name:
            names[0] = '"say ""hi"""'
        rows = [separator.join([f"{a}", f"{b}"]) for a, b in zip(VALUES, TARGET, strict=True)]
        path.write_text("\n".join([separator.join(names), *rows]))
        table = load(path, "y")
        assert [column.name for column in table.columns] == [name]
        assert_allclose(table.rows[name], VALUES)

    def test_a_separator_by_option(self, tmp_path):
        path = write(tmp_path / "t.csv", {"x": VALUES, "y": TARGET}, ":")
        assert_allclose(load(path, "y", separator=":").rows["x"], VALUES)
        with pytest.raises(CommandError, match="not a column"):
            load(path, "y")

    def test_options_for_text_files_only(self, tmp_path):
        np.savez(tmp_path / "a.npz", X=VALUES[:, None], y=TARGET)
        with pytest.raises(CommandError, match=r"--decimal ',' is for text files only"):
            load(tmp_path / "a.npz", None, decimal=",")


class TestEncodings:
    @pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
    def test_byte_order_marks(self, tmp_path, monkeypatch, encoding):
        columns = {"größe": with_comma(VALUES), "y": with_comma(TARGET)}
        table = load(write(tmp_path / "t.csv", columns, ";", encoding), "y")
        assert_allclose(table.rows["größe"], VALUES)
        assert_allclose(run_code(table, monkeypatch)["größe"], VALUES)

    @pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "latin-1"])
    def test_other_encodings_are_rejected(self, tmp_path, encoding):
        columns = {"größe": VALUES, "y": TARGET}
        with pytest.raises(CommandError, match="UTF-8") as caught:
            load(write(tmp_path / "t.csv", columns, ";", encoding), "y")
        assert str(caught.value).isprintable()

    @pytest.mark.parametrize("content", [b"", b"\n\n", b"\xef\xbb\xbf", b"\xff\xfe", b"   \n"])
    def test_empty_files(self, tmp_path, content):
        (tmp_path / "t.csv").write_bytes(content)
        with pytest.raises(CommandError) as caught:
            load(tmp_path / "t.csv", "y")
        assert str(caught.value).isprintable()


class TestNames:
    def test_names_that_are_not_strings(self, tmp_path, monkeypatch):
        pytest.importorskip("pyarrow")
        frame = pd.DataFrame({0: VALUES, 1: TARGET})
        frame.to_parquet(tmp_path / "t.PARQUET")
        table = load(tmp_path / "t.PARQUET", "1")
        assert_allclose(table.rows["0"], VALUES)
        assert_allclose(run_code(table, monkeypatch)["0"], VALUES)

    def test_repeated_names(self, tmp_path, monkeypatch):
        (tmp_path / "t.csv").write_text(
            "x,x,y\n" + "\n".join(f"{v},{2 * v},{t}" for v, t in zip(VALUES, TARGET, strict=True))
        )
        table = load(tmp_path / "t.csv", "y")
        assert_allclose(table.rows["x.1"], 2 * VALUES)
        run_code(table, monkeypatch)

    def test_repeated_names_in_parquet(self, tmp_path):
        pa = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        repeated = pa.table([VALUES, VALUES, TARGET], names=["x", "x", "y"])
        parquet.write_table(repeated, tmp_path / "t.parquet")
        with pytest.raises(CommandError) as caught:
            load(tmp_path / "t.parquet", "y")
        assert "x" in str(caught.value)
