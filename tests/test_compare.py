"""Test ``quadfeat compare``: reading tables, choosing a model, terminal output, report and code."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

pytest.importorskip("typer", reason="needs quadfeat[study]")

from sklearn.datasets import make_circles
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from browser import assert_accessible, assert_needs_no_network, pages
from quadfeat import TableEncoder
from quadfeat import load as load_model
from quadfeat.apps.compare import contest, fitting
from quadfeat.apps.compare.contest import Cell, Problem
from quadfeat.apps.compare.contestants import CONTESTANTS, EXACT, LINEAR, MODEL, RBF_SAMPLER
from quadfeat.apps.compare.table import load
from quadfeat.apps.reporting.errors import CommandError
from tables import FAST_COMMAND, command, people, run_script, save

SMALL = ["--components", "32", "--folds", "2", "--jobs", "1"]


KINDS = ["csv", "parquet", "csv.gz"]


class TestTable:
    @pytest.mark.parametrize("kind", KINDS)
    def test_every_kind_of_column(self, tmp_path, kind):
        table = load(save(people(), tmp_path / f"people.{kind}"), "buys")
        kinds = {column.name: column.kind for column in table.columns}
        assert kinds == {
            "number": "row numbers",
            "name": "all values differ",
            "age": "number",
            "city": "category",
            "member": "number" if kind != "parquet" else "category",
            "joined": "date",
            "country": "category",
            "empty": "no values",
        }
        assert table.task == "classification"
        assert len(table.y) == len(table.rows) == 236
        assert "number" not in table.rows
        assert "Dropped 4 rows without a target." in table.remarks
        fold = Problem(table.rows, table.y, "accuracy", folds=3).fold(0)
        assert np.isfinite(fold.X_train).all()
        n_outputs = sum(len(column.outputs) for column in table.columns)
        assert fold.X_train.shape[1] == fold.X_test.shape[1] == n_outputs

    def test_parquet_and_csv_are_read_alike(self, tmp_path):
        tables = [load(save(people(), tmp_path / f"people.{one}"), "buys") for one in KINDS[:2]]
        described = [
            [(column.name, column.missing) for column in table.columns] for table in tables
        ]
        assert described[0] == described[1]
        assert_array_equal(tables[0].y, tables[1].y)

    def test_types_that_only_parquet_has(self, tmp_path):
        n = 40
        frame = pd.DataFrame(
            {
                "whole": pd.array([None, *range(3, n + 2)], dtype="Int64"),
                "flag": pd.array([None, *[True, False, True] * 13], dtype="boolean"),
                "kind": pd.Categorical(["a", "b", None, "a"] * 10),
                "when": pd.date_range("2020-01-01", periods=n, tz="Europe/Zurich"),
                "list": [[1, 2]] * n,
                "y": np.linspace(0, 1, n),
            }
        )
        table = load(save(frame, tmp_path / "types.parquet"), "y")
        kinds = {column.name: column.kind for column in table.columns}
        expected = {"whole": "row numbers", "flag": "number", "kind": "category", "when": "date"}
        assert kinds == {**expected, "list": "category"}

    @pytest.mark.parametrize("separator", [";", "\t", "|"])
    def test_other_separators_and_question_marks(self, tmp_path, separator):
        path = tmp_path / "table.csv"
        rows = [f"{k % 7}{separator}{'?' if k == 3 else k / 7}" for k in range(40)]
        path.write_text("\n".join([f"a{separator}y", *rows]))
        table = load(path, "y")
        assert (table.task, len(table.y)) == ("regression", 39)
        assert any("'?'" in remark for remark in table.remarks)

    def test_npz(self, tmp_path):
        X, y = make_circles(60, random_state=0)
        np.savez(tmp_path / "a.npz", X=X, y=y, other=X[:, 0])
        table = load(tmp_path / "a.npz", None)
        assert (table.target, table.task, table.rows.shape) == ("y", "classification", (60, 2))
        assert load(tmp_path / "a.npz", "other").task == "regression"

    @pytest.mark.parametrize(
        ("target", "task"),
        [
            (["a", "b"] * 20, "classification"),
            ([True, False] * 20, "classification"),
            ([3, 4, 5, 6] * 10, "classification"),
            ([3.0, 4.0, None, 6.0] * 10, "classification"),
            (list(range(40)), "regression"),
            (np.linspace(0, 1, 40), "regression"),
        ],
    )
    def test_the_task_follows_from_the_target(self, tmp_path, target, task):
        frame = pd.DataFrame({"x": np.random.default_rng(0).random(40), "y": target})
        assert load(save(frame, tmp_path / "t.csv"), "y").task == task

    def test_the_task_can_be_chosen(self, tmp_path):
        frame = pd.DataFrame({"x": np.random.default_rng(0).random(40), "y": [3, 4, 5, 6] * 10})
        assert load(save(frame, tmp_path / "t.csv"), "y", task="regression").task == "regression"

    def test_a_sample_of_many_rows_is_reported(self, tmp_path):
        rng = np.random.default_rng(0)
        path = save(pd.DataFrame({"x": rng.random(500), "y": rng.random(500)}), tmp_path / "t.csv")
        table = load(path, "y", max_rows=100)
        assert len(table.y) == 100
        assert any("100 of 500 rows" in remark for remark in table.remarks)
        assert_array_equal(table.y, load(path, "y", max_rows=100).y)
        assert (table.y != load(path, "y", max_rows=100, seed=1).y).any()

    def test_rivals_get_columns_that_were_encoded_by_training_rows(self):
        frame = pd.DataFrame({"x": [1.0, None, 3.0, 900.0] * 10})
        fold = Problem(frame, np.linspace(0, 1, 40), "r2", folds=2).fold(0)
        assert_array_equal(fold.train.index.union(fold.test.index), np.arange(40))
        expected = make_pipeline(TableEncoder(), StandardScaler()).fit(fold.train)
        assert_array_equal(fold.X_test, expected.transform(fold.test))


NOISE = np.random.default_rng(0).random(40)


class TestBadInput:
    @pytest.mark.parametrize(
        ("frame", "target", "message"),
        [
            ({"Price": NOISE, "x": NOISE}, "prise", r"Did you mean 'Price'\?"),
            ({"x": NOISE, "y": NOISE}, None, "--target is missing"),
            ({"x": [], "y": []}, "y", "no rows"),
            ({"x": [1.0], "y": [2.0]}, "y", "1 row "),
            ({"y": NOISE}, "y", "only the target"),
            ({"x": NOISE, "y": 1.5}, "y", "constant, 1.5"),
            ({"x": NOISE, "y": np.nan}, "y", "missing in all 40 rows"),
            ({"x": NOISE, "y": "a"}, "y", "only one class"),
            ({"x": NOISE, "y": [f"c{k}" for k in range(40)]}, "y", "40 classes in 40 rows"),
            ({"x": np.nan, "y": NOISE}, "y", "no column to learn from"),
            ({"x": range(40), "y": NOISE}, "y", "'x' has row numbers"),
            ({"x": [*NOISE[1:], np.inf], "y": NOISE}, "y", "'x' has infinite values"),
            ({"x": NOISE, "y": [*NOISE[1:], np.inf]}, "y", "'y' has infinite values"),
        ],
    )
    def test_tables_that_cannot_be_learned(self, tmp_path, frame, target, message):
        index = None if any(np.size(value) != 1 for value in frame.values()) else [0]
        path = save(pd.DataFrame(frame, index=index), tmp_path / "t.csv")
        with pytest.raises(CommandError, match=message):
            load(path, target)

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("a.csv", b"", "is empty"),
            ("a.csv", b"a,y\n1,2\n1,2,3,4\n", "cannot read"),
            ("a.csv", "a,y\nZ\u00fcrich,2\n".encode("latin-1"), "UTF-8"),
            ("a.csv.gz", b"no gzip", "cannot read"),
            ("a.parquet", b"no parquet", "cannot read"),
            ("a.npz", b"no archive", "not an NPZ file"),
            ("a.npz", b"PK\x03\x04 broken", "not an NPZ file"),
            ("a.xls", b"", "suffix '.xls'"),
            ("table", b"", "no suffix"),
        ],
    )
    def test_files_that_cannot_be_read(self, tmp_path, name, content, message):
        if name.endswith("parquet"):
            pytest.importorskip("pyarrow")
        (tmp_path / name).write_bytes(content)
        with pytest.raises(CommandError, match=message) as caught:
            load(tmp_path / name, "y")
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            ({"x": np.ones((40, 2)), "y": NOISE}, "no array 'X'"),
            ({"X": np.ones((40, 2)), "labels": NOISE}, "no array 'y'; it has X, labels"),
            ({"X": np.ones((40, 2, 2)), "y": NOISE}, "Save a matrix"),
            ({"X": np.ones((40, 2)), "y": NOISE[:5]}, "save 40 targets"),
            ({"X": np.ones((40, 2)), "y": np.array([None] * 40)}, "cannot read"),
        ],
    )
    def test_archives_without_the_right_arrays(self, tmp_path, arrays, message):
        np.savez(tmp_path / "a.npz", **arrays)
        with pytest.raises(CommandError, match=message):
            load(tmp_path / "a.npz", None)

    def test_without_pyarrow(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        (tmp_path / "a.parquet").write_bytes(b"")
        with pytest.raises(CommandError, match=r"pip install 'quadfeat\[study\]'"):
            load(tmp_path / "a.parquet", "y")

    def test_regression_of_strings(self, tmp_path):
        frame = pd.DataFrame({"x": NOISE, "y": ["a", "b"] * 20})
        with pytest.raises(CommandError, match="--task classification"):
            load(save(frame, tmp_path / "t.csv"), "y", task="regression")

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--target", "buy"], "Did you mean 'buys'?"),
            (["--target", "buys", "--task", "clasification"], "Did you mean 'classification'?"),
            (["--target", "buys", "--scoring", "r2"], "--scoring r2 is not for classification"),
            (["--target", "buys", "--folds", "1"], "--folds 1 is not valid"),
            (["--target", "buys", "--out", "/dev/null/x"], "cannot write to"),
        ],
    )
    def test_errors_are_one_line(self, tmp_path, arguments, message):
        path = save(people(), tmp_path / "people.csv")
        done = command(path, "--out", tmp_path / "out", *arguments)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert done.stderr.startswith("quadfeat: error: ")
        assert message in done.stderr
        assert not (tmp_path / "out").exists()


def circles(n=400, **settings):
    """Return a problem that no linear model can solve."""
    X, y = make_circles(n, noise=0.1, factor=0.5, random_state=0)
    frame = pd.DataFrame(X, columns=["a", "b"])
    return Problem(frame, y, "accuracy", **{"folds": 3, "components": 64, **settings})


class TestContest:
    def test_the_same_rows_for_any_number_of_jobs(self):
        problem = circles(120, folds=2, components=8)
        cells = [cell for cell in contest.cells_of(problem) if cell.contestant != MODEL]
        numbers = ["score", "alpha", "gamma", "failed"]
        one, two = (
            pd.DataFrame(contest.run(problem, cells, jobs)).sort_values(
                list(contest.NAME), ignore_index=True
            )[[*contest.NAME, *numbers]]
            for jobs in (1, 2)
        )
        pd.testing.assert_frame_equal(one, two)
        assert (one["failed"] == "").all()

    def test_another_seed_gives_other_scores(self):
        cell = Cell(RBF_SAMPLER, 0)
        scores = {seed: contest.run_cell(circles(seed=seed, components=4), cell) for seed in (0, 1)}
        assert scores[0]["auc"] != scores[1]["auc"]

    @pytest.mark.parametrize(("rows", "expected"), [(10_000, 64), (60, 40)])
    def test_at_most_one_feature_for_each_row(self, rows, expected):
        assert circles(rows).n_components == expected

    def test_rare_classes_do_not_warn(self):
        problem = circles(60)
        problem.y = problem.y.copy()
        problem.y[0] = 7
        row = contest.run_cell(problem, Cell(LINEAR, 0))
        assert row["failed"] == ""

    def test_exact_kernel_ridge_respects_its_limit_of_rows(self):
        row = contest.run_cell(circles(exact_rows=50), Cell(EXACT, 0))
        assert (row["train_rows"], row["failed"]) == (50, "")
        assert row["score"] > 0.8


@pytest.fixture(scope="module")
def kernel_wins(tmp_path_factory):
    """Return the folder of a comparison that a kernel model wins, and its output."""
    folder = tmp_path_factory.mktemp("people")
    save(people(300), folder / "people.csv")
    done = command(folder / "people.csv", "--target", "buys", "--out", folder / "out", *SMALL)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


@pytest.fixture(scope="module")
def as_json(kernel_wins, tmp_path_factory):
    """Return the folder of the same comparison run again with ``--json``, and its output."""
    folder, out = kernel_wins[0], tmp_path_factory.mktemp("again")
    done = command(
        folder / "people.csv", "--target", "buys", "--out", out, "--json", *SMALL, draw=False
    )
    assert done.returncode == 0, done.stderr
    return out, done


def count(journal):
    """Return the number of lines of a file."""
    return journal.read_text().count("\n")


def result_of(folder):
    return json.loads((folder / "run.json").read_text())["result"]


class TestCommand:
    def test_where_a_kernel_wins(self, kernel_wins):
        folder, text = kernel_wins
        result = result_of(folder / "out")
        assert result["recommendation"]["contestant"] != LINEAR
        assert any("is better than the linear model" in line for line in result["conclusions"])
        assert "Not used: 'number' (row numbers)." in text
        page = (folder / "out" / "report.html").read_text()
        for column in ("training, CPU s", "AUC", "log loss", "share, %", "loss"):
            assert f"<button>{column}</button>" in page
        for name in ("scores", "cost"):
            for kind, start in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
                assert (folder / "out" / f"{name}.{kind}").read_bytes().startswith(start)

    def test_the_leaderboard_of_the_kernel_model(self, kernel_wins):
        folder, text = kernel_wins
        (place,) = result_of(folder / "out")["leaderboard"]
        assert (place["candidate"], place["share"], place["folds"]) == ("neighbors", 1.0, 2)
        assert 0 < place["standard_error"] < place["loss"] < np.log(2)
        rows = pd.read_csv(folder / "out" / "leaderboard.csv")
        assert rows["fold"].tolist() == [0, 1]
        assert place["loss"] == pytest.approx(rows["loss"].mean())
        told = " ".join(text.split())
        assert "Inside the kernel model share log loss ± fit s" in told
        assert f"neighbors 100% {place['loss']:.4f} {place['standard_error']:.4f}" in told
        page = (folder / "out" / "report.html").read_text()
        assert f">{place['loss']:.4f}</td>" in page

    def test_the_script_saves_the_model(self, kernel_wins, tmp_path):
        folder = kernel_wins[0]
        script = (folder / "out" / "model.py").read_text()
        lines = script.split("\n\n")[1].splitlines()
        assert sum("print(" not in line and "dropna" not in line for line in lines) == 5
        scope, printed = run_script(folder, script)
        assert "neighbors" in printed
        saved = load_model(folder / "model.quadfeat")
        assert_array_equal(
            saved.predict_proba(scope["X"]), scope["model"].predict_proba(scope["X"])
        )
        assert saved.score(scope["X"], scope["y"]) > 0.75

    def test_the_summary_fits_a_small_terminal(self, kernel_wins):
        folder, text = kernel_wins
        summary = text[text.index("  Model (higher is better)") :].splitlines()
        assert len(summary) < 24
        paths = ("Script", "Report")
        assert all(len(line) <= 80 or line.startswith(paths) for line in text.splitlines())
        labels = [line.split("  ")[0] for line in summary if line[:1].isalpha()]
        assert labels[0] == "Use"
        assert labels[-2:] == ["Script", "Report"]
        assert "\x1b" not in text  # no colors in a file
        result = result_of(folder / "out")
        (row,) = [line for line in summary if line.startswith(">")]
        assert result["recommendation"]["title"] in row
        assert f"{result['recommendation']['score']:.4f}" in row
        for name in {model["contestant"] for model in result["models"]}:
            assert any(CONTESTANTS[name].title in line for line in summary)

    def test_the_recommendation_comes_with_interval_rival_and_code(self, kernel_wins):
        folder, text = kernel_wins
        found = result_of(folder / "out")["recommendation"]
        low, high = found["interval"]
        assert low <= found["score"] <= high <= 1.0
        assert found["rival"]["contestant"] != found["contestant"]
        told = " ".join(text.split())
        assert f"95% interval {low:.4f} to {high:.4f}." in told
        probability = found["probability_better_than_rival"]
        assert 0.0 <= probability <= 1.0
        assert "paired over 2 folds" in told
        for line in found["definition"]:
            assert " ".join(line.split()) in told
        assert found["class"] in (folder / "out" / "model.py").read_text()

    def test_json_and_nothing_else_on_stdout(self, kernel_wins, as_json):
        folder, (out, done) = kernel_wins[0], as_json
        found = json.loads(done.stdout)
        assert "predict buys" in done.stderr
        assert found["seed"] == 0
        assert all((out / name).exists() for name in found["files"])
        expected = result_of(folder / "out")
        for key in ("task", "scoring", "best", "higher_is_better", "folds"):
            assert found["result"][key] == expected[key]
        assert found["result"]["recommendation"]["score"] == expected["recommendation"]["score"]

    def test_the_same_seed_gives_the_same_result(self, kernel_wins, as_json):
        first, again = kernel_wins[0] / "out", as_json[0]
        one, two = (pd.read_csv(out / "scores.csv") for out in (first, again))
        times = ["fit_cpu_seconds", "predict_cpu_seconds", "peak_memory_mb"]
        pd.testing.assert_frame_equal(one.drop(columns=times), two.drop(columns=times))
        assert (first / "model.py").read_text() == (again / "model.py").read_text()

    def test_where_a_linear_model_will_do(self, tmp_path):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((300, 5))
        y = X @ [1.0, -2.0, 0.5, 0.0, 3.0] + rng.standard_normal(300)
        np.savez(tmp_path / "line.npz", X=X, y=y)
        done = command(tmp_path / "line.npz", "--out", tmp_path / "out", *SMALL, draw=False)
        assert done.returncode == 0, done.stderr
        told = " ".join(done.stdout.split())
        assert "Use The linear model: R² 0.9" in told
        assert "This table does not need a kernel." in told
        page = (tmp_path / "out" / "report.html").read_text()
        assert "Use the linear model to predict y: R² 0.9" in page
        assert "from quadfeat import KernelRegressor, save" in page  # the alternative
        script = (tmp_path / "out" / "model.py").read_text()
        assert "Ridge(alpha=" in script
        assert float(run_script(tmp_path, script)[1]) > 0.9

    def test_a_model_that_fails_on_a_fold_is_named(self, tmp_path, monkeypatch):
        fit_default = fitting.fit_default

        def fail_once(X, *arguments, **settings):
            if "first" not in seen:
                seen.append("first")
                raise ValueError("out of luck")
            return fit_default(X, *arguments, **settings)

        seen = []
        monkeypatch.setattr(fitting, "fit_default", fail_once)
        path = save(people(120), tmp_path / "people.csv")
        done = command(path, "--target", "buys", "--out", tmp_path / "out", *SMALL, draw=False)
        assert done.returncode == 0, done.stderr
        told = " ".join(done.stdout.split())
        assert (
            "Warning 1 fit failed. The first: the kernel model (quadfeat), fold 1: ValueError: "
            "out of luck" in told
        )
        result = result_of(tmp_path / "out")
        assert MODEL not in [model["contestant"] for model in result["models"]]
        assert "Kernel model (quadfeat)" not in told
        assert len(done.stdout[done.stdout.index("  Model (") :].splitlines()) < 24

    def test_a_parquet_file_with_a_balanced_score(self, tmp_path):
        save(people(240), tmp_path / "people.parquet")
        chosen = ["--target", "buys", "--scoring", "balanced-accuracy", "--out", tmp_path / "out"]
        chosen += ["--time-limit", "0"]
        done = command(tmp_path / "people.parquet", *chosen, *SMALL, draw=False)
        assert done.returncode == 0, done.stderr
        assert "balanced accuracy" in done.stdout
        script = (tmp_path / "out" / "model.py").read_text()
        assert 'class_weight="balanced"' in script
        page = (tmp_path / "out" / "report.html").read_text()
        assert "time_limit=None" in page  # of the recommended model, or of the alternative
        rows = pd.read_csv(tmp_path / "out" / "scores.csv")
        assert_array_equal(rows["score"], rows["balanced_accuracy"])

    def test_an_interrupted_run_continues(self, tmp_path, monkeypatch):
        save(people(150), tmp_path / "people.csv")
        arguments = ["people.csv", "--target", "buys", *SMALL[:-1], "2"]  # two processes
        running = subprocess.Popen(
            [sys.executable, "-c", FAST_COMMAND, "compare", *arguments],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # the workers get the signal too, as from a terminal
            # Background processes ignore Ctrl-C, and so do the processes they start.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        journal = tmp_path / "compare" / "unfinished.jsonl"
        while running.poll() is None and not (journal.exists() and count(journal) > 4):
            time.sleep(0.02)
        os.killpg(running.pid, signal.SIGINT)
        _, errors = running.communicate()
        assert running.returncode == 130
        stopped = re.search(r"Stopped. (\d+) of (\d+) fits are saved in compare. Run the", errors)
        kept, total = map(int, stopped.groups())
        assert 4 <= kept < total
        assert "Traceback" not in errors
        assert [path.name for path in (tmp_path / "compare").iterdir()] == ["unfinished.jsonl"]

        fitted = []
        run_cell = contest.run_cell

        def counted(problem, cell):
            fitted.append(cell)
            return run_cell(problem, cell)

        monkeypatch.setattr(contest, "run_cell", counted)
        arguments = ["--target", "buys", "--out", tmp_path / "compare", *SMALL]
        done = command(tmp_path / "people.csv", *arguments, draw=False)
        assert done.returncode == 0, done.stderr
        assert len(fitted) == total - kept
        assert not journal.exists()

    def test_an_interrupt_before_the_first_fit_leaves_nothing(self, tmp_path, monkeypatch):
        def stop(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr(contest, "run", stop)
        path = save(people(100), tmp_path / "people.csv")
        done = command(path, "--target", "buys", "--out", tmp_path / "new" / "out", *SMALL)
        assert done.returncode == 130
        assert "Stopped. No fit was finished" in done.stderr
        assert [path.name for path in tmp_path.iterdir()] == ["people.csv"]


class TestReport:
    def test_it_needs_no_network(self, kernel_wins):
        assert_needs_no_network(kernel_wins[0] / "out" / "report.html")

    def test_everyone_can_use_it(self, kernel_wins):
        assert_accessible(kernel_wins[0] / "out" / "report.html")

    def test_in_a_browser(self, kernel_wins):
        out = kernel_wins[0] / "out"
        for page in pages(out / "report.html"):
            figures = page.locator("svg.plot:visible")
            assert figures.count() == 2
            for figure in figures.all():
                assert figure.bounding_box()["width"] > 250
                assert len(figure.get_attribute("aria-label")) > 50
            button = page.locator("button.copy").first
            button.click()
            page.wait_for_function(
                "button => button.textContent !== 'Copy'", arg=button.element_handle()
            )
            code = page.locator(".code code").first.text_content()
            assert code == (out / "model.py").read_text()
