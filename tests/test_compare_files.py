"""Test ``quadfeat compare`` with unusual file names and with files that cannot be written."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("typer", reason="needs quadfeat[study]")

from quadfeat.apps.compare import cli, contest, fitting, journal, report
from quadfeat.apps.compare.table import load
from quadfeat.apps.reporting import files
from quadfeat.apps.reporting.errors import CommandError
from quadfeat.apps.reporting.text import encoded, printable, quoted, shell_quoted
from tables import FAST, FAST_COMMAND, without_figures

NAME = os.fsdecode(b"caf\xe9\n1")  # neither UTF-8 nor one line
SMALL = {"components": 8, "folds": 2, "jobs": 1}
ODD = ["a\0b", "tab\t", "two\nlines", "\x1b[31m", "\x9b31m", "\u2028", "\ud800", "it's", 'a"b\\n']


def frame(n=40):
    rng = np.random.default_rng(0)
    return pd.DataFrame({"a": rng.random(n), "b": rng.random(n), "y": rng.random(n)}).round(3)


def odd_path(folder, suffix):
    path = folder / (NAME + suffix)
    try:
        path.touch()
    except OSError:
        pytest.skip("this file system does not allow such names")
    return path


def command(*arguments, **environment):
    options = [f"--{key.replace('_', '-')}={value}" for key, value in SMALL.items()]
    return subprocess.run(
        [sys.executable, "-c", FAST_COMMAND, "compare", *map(os.fsencode, arguments), *options],
        capture_output=True,
        env={**os.environ, **environment},
        check=False,
    )


class TestText:
    @pytest.mark.parametrize("text", [*ODD, NAME])
    def test_anything_can_be_printed_written_and_quoted(self, text):
        assert len(printable(text).splitlines()) == 1
        assert encoded(printable(text)).decode() == printable(text)
        assert eval(quoted(text)) == text
        assert encoded(quoted(text)).decode() == quoted(text)
        assert len(str(CommandError(f"cannot read {text}.")).splitlines()) == 1

    @pytest.mark.parametrize("text", ["plain", "größe", "naïve\u200dname", "価格\u3000円", "🙂"])
    def test_printable_text_is_unchanged(self, text):
        assert printable(text) == text
        assert quoted(text) == f'"{text}"'

    @pytest.mark.parametrize("text", [NAME, "it's\n", "a b", "tab\\t\x01"])
    def test_a_shell_reads_the_same_name(self, text):
        bash = subprocess.run(
            ["bash", "-c", f"printf %s {shell_quoted(text)}"], capture_output=True, check=False
        )
        if bash.returncode == 127:
            pytest.skip("bash is not installed")
        assert bash.stdout == os.fsencode(text)


class TestNames:
    def test_a_name_that_is_not_utf8(self, tmp_path):
        path, out = odd_path(tmp_path, ".csv"), tmp_path / (NAME + "-out")
        frame().to_csv(path, index=False)
        # No terminal supports fewer characters.
        done = command(path, "--target", "y", "--out", out, PYTHONIOENCODING="ascii")
        assert done.returncode == 0, done.stderr
        assert {file.name for file in out.iterdir()} == set(report.FILES)
        assert rb"caf\xe9\n1.csv" in done.stdout
        assert "caf\\xe9\\n1.csv" in (out / "report.html").read_text("utf-8")
        assert "$'" in (out / "run.json").read_text("ascii")
        model = subprocess.run(
            [sys.executable, "-W", "error", out / "model.py"], cwd=tmp_path, check=True
        )
        assert model.returncode == 0

    def test_a_parquet_file_with_such_a_name(self, tmp_path, monkeypatch):
        pytest.importorskip("pyarrow")
        path = odd_path(tmp_path, ".parquet")
        with path.open("wb") as file:
            frame().to_parquet(file)
        table = load(path, "y")
        monkeypatch.chdir(tmp_path)
        scope = {"pd": pd}
        exec("\n".join(table.code), scope)
        pd.testing.assert_frame_equal(scope["table"], frame())

    @pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz", ".gone"])
    def test_errors_about_such_a_file_are_one_line(self, tmp_path, suffix):
        if suffix == ".parquet":
            pytest.importorskip("pyarrow")
        with pytest.raises(CommandError, match=r"caf\\xe9\\n1") as caught:
            load(odd_path(tmp_path, suffix), "y")
        assert len(str(caught.value).splitlines()) == 1

    @pytest.mark.parametrize("make", [str, Path])
    def test_a_nul_in_a_path(self, make):
        with pytest.raises(CommandError, match=r"'a\\x00b.csv' .* NUL character"):
            load(make("a\0b.csv"), "y")
        with pytest.raises(CommandError, match=r"'a\\x00b'.* NUL character"):
            files.make_folder(Path("a\0b"))

    def test_a_nul_in_the_output_folder(self, tmp_path):
        frame().to_csv(tmp_path / "t.csv", index=False)
        with pytest.raises(CommandError, match="NUL character"):
            cli.compare(tmp_path / "t.csv", "y", out=tmp_path / "a\0b", **SMALL)

    def test_a_name_that_is_too_long(self):
        with pytest.raises(CommandError, match="too long"):
            load(Path("a" * 300 + ".csv"), "y")

    def test_tables_in_memory(self):
        with pytest.raises(TypeError, match=r"type DataFrame. .*\.to_parquet\("):
            load(frame(), "y")
        polars = pytest.importorskip("polars")
        with pytest.raises(TypeError, match=r"type LazyFrame. .*\.sink_parquet\("):
            load(polars.LazyFrame({"a": [1.0], "y": [2.0]}), "y")
        with pytest.raises(TypeError, match=r"type DataFrame. .*\.write_parquet\("):
            load(polars.DataFrame({"a": [1.0], "y": [2.0]}), "y")

    def test_a_path_may_be_a_string(self, tmp_path):
        frame().to_csv(tmp_path / "t.csv", index=False)
        assert load(str(tmp_path / "t.csv"), "y").path == tmp_path / "t.csv"


@pytest.fixture
def no_contest(monkeypatch):
    """Fail if a model is fitted."""
    monkeypatch.setattr(contest, "run", lambda *_: pytest.fail("a model was fitted"))


class TestEarly:
    """Files that cannot be written are reported before any model is fitted."""

    def compare(self, folder, out):
        frame().to_csv(folder / "t.csv", index=False)
        with pytest.raises(CommandError) as caught:
            cli.compare(folder / "t.csv", "y", out=out, **SMALL)
        assert len(str(caught.value).splitlines()) == 1
        return str(caught.value)

    @pytest.mark.parametrize("name", [*report.FILES, journal.FILE])
    def test_a_folder_in_place_of_a_file(self, tmp_path, no_contest, name):
        (tmp_path / "out" / name).mkdir(parents=True)
        assert "it is a folder" in self.compare(tmp_path, tmp_path / "out")
        assert [path.name for path in (tmp_path / "out").iterdir()] == [name]

    def test_a_file_in_place_of_the_folder(self, tmp_path, no_contest):
        (tmp_path / "out").touch()
        assert "cannot write to" in self.compare(tmp_path, tmp_path / "out")
        assert "cannot write to" in self.compare(tmp_path, tmp_path / "out" / "deeper")

    def test_a_full_disk(self, tmp_path, no_contest, monkeypatch):
        def fail(_):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(files.os, "fsync", fail)
        message = self.compare(tmp_path, tmp_path / "new" / "out")
        assert "No space left on device" in message
        assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]

    @pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs POSIX")
    def test_no_room_for_a_report(self, tmp_path):
        resource = pytest.importorskip("resource")
        frame().to_csv(tmp_path / "t.csv", index=False)
        done = subprocess.run(
            [sys.executable, "-m", "quadfeat", "compare", "t.csv", "--target", "y"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
        )
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "cannot write to" in done.stderr
        assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


class TestAll:
    """All other files are written if one of them fails."""

    def test_the_others_are_written(self, tmp_path):
        (tmp_path / "out" / "taken").mkdir(parents=True)

        def fail():
            raise UnicodeEncodeError("utf-8", "a", 0, 1, "no such thing")

        contents = {"first": lambda: b"1", "bad": fail, "taken": lambda: b"2", "last": lambda: b"3"}
        problems = files.write_all(tmp_path / "out", contents)
        assert (tmp_path / "out" / "first").read_bytes() == b"1"
        assert (tmp_path / "out" / "last").read_bytes() == b"3"
        assert any("bad" in problem and "no such thing" in problem for problem in problems)
        spare = Path(problems[-1].removeprefix("Saved in ").split(" instead")[0])
        assert (spare / "taken").read_bytes() == b"2"
        (spare / "taken").unlink()
        spare.rmdir()

    def test_no_problems_on_success(self, tmp_path):
        assert files.write_all(tmp_path, {"a": lambda: b"1"}) == []

    @pytest.fixture
    def fast(self, monkeypatch):
        for name, value in FAST.items():
            monkeypatch.setitem(fitting.MODEL_SETTINGS, name, value)
        with without_figures():
            yield

    def test_a_failed_page_does_not_affect_other_files(self, tmp_path, monkeypatch, capsys, fast):
        frame().to_csv(tmp_path / "t.csv", index=False)

        def fail(*_):
            raise RuntimeError("no page today")

        monkeypatch.setattr(report, "build", fail)
        with pytest.raises(CommandError, match=r"report\.html: RuntimeError: no page today"):
            cli.compare(tmp_path / "t.csv", "y", out=tmp_path / "out", **SMALL)
        written = {path.name for path in (tmp_path / "out").iterdir()}
        assert written == set(report.FILES) - {"report.html"}
        assert "How sure" in capsys.readouterr().out

    def test_scores_are_kept_if_the_verdict_fails(self, tmp_path, monkeypatch, fast):
        frame().to_csv(tmp_path / "t.csv", index=False)

        def fail(*_):
            raise RuntimeError("no verdict today")

        monkeypatch.setattr(cli, "_find", fail)
        with pytest.raises(RuntimeError, match="no verdict today"):
            cli.compare(tmp_path / "t.csv", "y", out=tmp_path / "out", **SMALL)
        assert len(pd.read_csv(tmp_path / "out" / "scores.csv")) > 10

    def test_a_failed_contest_leaves_no_folder(self, tmp_path, monkeypatch):
        frame().to_csv(tmp_path / "t.csv", index=False)

        def fail(*_):
            raise CommandError("no model could be fitted")

        monkeypatch.setattr(contest, "run", fail)
        with pytest.raises(CommandError, match="no model"):
            cli.compare(tmp_path / "t.csv", "y", out=tmp_path / "new" / "out", **SMALL)
        assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]
