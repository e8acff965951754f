"""The page of a comparison, and the files beside it.

This module gathers the facts; ``templates/report.html`` words them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd

from quadfeat.apps.compare import findings, plots
from quadfeat.apps.compare.boosting import boosters
from quadfeat.apps.compare.contest import CHOICE_COMPONENTS, CHOICE_ROWS, ERROR_ROWS, MAPS, MODEL
from quadfeat.apps.compare.findings import Findings
from quadfeat.apps.compare.machines import PENALTIES
from quadfeat.apps.compare.snippet import LARGE, can_stream
from quadfeat.apps.reporting import page
from quadfeat.apps.reporting.drawing import Picture
from quadfeat.apps.reporting.text import encoded, printable

FIGURES = ("png", "svg", "pdf")
FILES = (
    "scores.csv",
    *(f"scores.{kind}" for kind in FIGURES),
    "model.py",
    "run.json",
    "report.html",
)


def files(found: Findings, about: dict[str, Any]) -> dict[str, Callable[[], bytes]]:
    """Return how to make each file but the scores, those that are most needed first."""
    drawn = picture(found)
    return {
        "model.py": lambda: encoded(found.snippet(found.verdict.key)),
        "run.json": lambda: encoded(json.dumps({**about, "result": found.summary()}, indent=2)),
        "report.html": lambda: encoded(build(found, drawn, about)),
        **{f"scores.{kind}": partial(drawn.render, "light", kind) for kind in FIGURES},
    }


def picture(found: Findings) -> Picture:
    """Return the figure."""
    return Picture(
        "scores",
        "Scores by features and by time",
        f"Mean {found.score_name} ({found.metric.direction}) on test rows over "
        f"{found.problem.folds} folds, one standard error up and down, against the number of "
        "features and against the CPU seconds to train and predict. Contestants without a number "
        "of features are levels. A level that lies far off is not shown.",
        partial(plots.scores, found.score_name),
        found.table,
    )


def build(found: Findings, drawn: Picture, about: dict[str, Any]) -> str:
    """Return the page."""
    source, problem = found.source, found.problem
    n_rows, n_columns = source.rows.shape
    chosen, ours = found.verdict.key, found.verdict.ours
    other = ours if chosen[0] == MODEL else found.verdict.alone
    train_rows = found.table["train_rows"]
    return page.render(
        __package__,
        name=printable(source.path.name),
        n_rows=n_rows,
        n_columns=n_columns,
        task=source.task,
        target=printable(source.target),
        metric=found.metric,
        cautions=findings.cautions(found),
        recommendation=findings.recommendation(found),
        comparisons=findings.comparisons(found),
        code=found.snippet(chosen),
        other_code=found.snippet(other) if other != chosen else None,
        other_name=found.named(other),
        streams=chosen[0] == MODEL and can_stream(source),
        large=LARGE,
        our_components=ours[1],
        picture=drawn,
        error_rows=ERROR_ROWS,
        fewest_train_rows=int(train_rows.min()),
        most_train_rows=int(train_rows.max()),
        choice_components=CHOICE_COMPONENTS,
        choice_rows=CHOICE_ROWS,
        kernel=repr(found.kernel),
        rule=found.rule,
        rule_in_full=found.rule_in_full,
        remarks=source.remarks,
        tables=_tables(found),
        n_folds=problem.folds,
        stratified=found.metric.task == "classification",
        boosters=" and ".join(boosters()),
        memory_measured=found.memory_measured,
        penalties=", ".join(f"{alpha:g}" for alpha in PENALTIES),
        maps=", ".join(MAPS),
        about=about,
    )


def _tables(found: Findings) -> dict[str, page.Table]:
    columns = found.source.columns
    treatment = pd.DataFrame(
        {
            "column": [printable(column.name) for column in columns],
            "taken for": [column.kind for column in columns],
            "missing": [column.missing for column in columns],
            "what was done": [column.treatment for column in columns],
        }
    )
    return {
        "equal_size": page.table(findings.equal_size_table(found), found.formats),
        "equal_time": page.table(findings.equal_time_table(found), found.formats),
        "kernels": page.table(findings.kernel_table(found), found.formats),
        "rules": page.table(findings.rule_table(found)),
        "columns": page.table(treatment),
    }
