"""Test that the cost of ``quadfeat compare`` is proportional to columns, rows and folds."""

import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("typer", reason="needs quadfeat[study]")

from quadfeat.apps.compare import columns, contest, output, snippet
from quadfeat.apps.compare.columns import Column
from quadfeat.apps.compare.contest import Problem
from quadfeat.apps.compare.contestants import LINEAR
from quadfeat.apps.compare.snippet import Recipe
from quadfeat.apps.compare.table import Table, load
from quadfeat.apps.reporting.terminal import console

MOST_GROWTH = 1.3  # exponent: 1 if proportional, 2 if each column is searched for


class Name(str):
    """A column name that counts how often names are hashed or compared."""

    __slots__ = ()
    uses = 0

    def __hash__(self):
        Name.uses += 1
        return super().__hash__()

    def __eq__(self, other):
        Name.uses += 1
        return super().__eq__(other)


def wide_table(n_columns, kind, tmp_path):
    """Return a table with many columns, whose names count how often they are compared."""
    rng = np.random.default_rng(0)
    names = [Name(f"column {k}") for k in range(n_columns)]
    values = rng.random((12, n_columns)) if kind == "number" else np.tile([["a"], ["b"]], (6, 1))
    frame = pd.DataFrame(
        np.broadcast_to(values, (12, n_columns)), columns=pd.Index(names, dtype=object)
    )
    described = [Column(name, kind, (name,), 0) for name in names]
    target = np.linspace(0.0, 1.0, 12)
    return Table(
        tmp_path / "wide.csv",
        ['table = pd.read_csv("wide.csv")'],
        "y",
        "regression",
        described,
        frame,
        target,
        names[1::2],
        False,
        False,
        False,
        False,
        len(target),
        [],
    )


def prepare(table):
    Problem(table.rows, table.y, "r2", folds=3).fold(0)


def write_snippet(table):
    snippet.build(table, Recipe(LINEAR, alpha=1.0))


def describe(table):
    columns.describe(table.rows, table.y, columns.row_numbers(table.rows))


def introduce(table):
    output.introduce(table, console)


def exponent(costs, sizes):
    return np.log(costs[1] / costs[0]) / np.log(sizes[1] / sizes[0])


@pytest.mark.parametrize("kind", ["number", "category"])
@pytest.mark.parametrize("work", [prepare, write_snippet, describe, introduce])
def test_names_are_looked_up_a_constant_number_of_times(work, kind, tmp_path):
    sizes, uses = (50, 400), []
    for size in sizes:
        table = wide_table(size, kind, tmp_path)
        Name.uses = 0
        work(table)
        uses.append(max(Name.uses, size))
    assert exponent(uses, sizes) < MOST_GROWTH, uses


def seconds(work):
    """Return the smallest processor time of several calls, each long enough to measure."""
    best = np.inf
    for _ in range(5):
        start, calls = time.process_time(), 0
        while time.process_time() - start < 0.02:
            work()
            calls += 1
        best = min(best, (time.process_time() - start) / calls)
    return best


def test_processor_time_is_proportional_to_columns(tmp_path):
    sizes = (500, 8000)
    tables = [
        replace(wide_table(2, "number", tmp_path), unused=[f"column {k}" for k in range(size)])
        for size in sizes
    ]
    times = [seconds(lambda table=table: write_snippet(table)) for table in tables]
    assert exponent(times, sizes) < 1.5, times


def test_a_table_is_split_once_for_all_folds(monkeypatch):
    calls = []

    class Counted(contest.KFold):
        def split(self, *arguments):
            calls.append(arguments)
            return super().split(*arguments)

    monkeypatch.setattr(contest, "KFold", Counted)
    frame = pd.DataFrame({"x": np.arange(40.0)})
    problem = Problem(frame, np.arange(40.0), "r2", folds=20)
    tested = [problem.fold(k).y_test for k in range(20)]
    assert len(calls) == 1
    np.testing.assert_array_equal(np.sort(np.concatenate(tested)), np.arange(40.0))


def test_few_of_many_unused_columns_are_printed(tmp_path, capsys):
    frame = pd.DataFrame(np.nan, index=range(20), columns=[f"c{k}" for k in range(500)])
    frame["x"], frame["y"] = np.linspace(0.5, 3.0, 20), np.linspace(0.0, 1.0, 20)
    frame.to_csv(tmp_path / "t.csv", index=False)
    introduce(load(tmp_path / "t.csv", "y"))
    printed = capsys.readouterr().out
    assert "Not used: 'c0', 'c1', 'c2' and 497 more (no values)." in printed
    assert printed.count("\n") < 5
