"""The page of a comparison."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from html import escape
from typing import Any

import pandas as pd

from quadfeat.apps.compare import findings, plots
from quadfeat.apps.compare.contest import CHOICE_COMPONENTS, CHOICE_ROWS, ERROR_ROWS, MAPS, OURS
from quadfeat.apps.compare.findings import Findings
from quadfeat.apps.compare.machines import PENALTIES
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
        "run.json": lambda: encoded(json.dumps(about, indent=2)),
        "report.html": lambda: encoded(build(found, drawn, about)),
        **{f"scores.{kind}": partial(drawn.render, "light", kind) for kind in FIGURES},
    }


def picture(found: Findings) -> Picture:
    """Return the figure."""
    return Picture(
        "scores",
        "Scores by features and by time",
        f"Mean {found.score_name} on test rows over {found.problem.folds} folds, one standard "
        "error up and down, against the number of features and against the time to train and "
        "predict on one thread. A level that lies far off is not shown.",
        plots.scores,
        found.table,
    )


def build(found: Findings, drawn: Picture, about: dict[str, Any]) -> str:
    """Return the page."""
    source, name = found.source, printable(found.source.path.name)
    sections = [
        page.summary(
            [f"<b>{escape(line)}</b>" for line in findings.recommendation(found)[:1]]
            + [escape(line) for line in findings.recommendation(found)[1:]]
            + [escape(line) for line in findings.comparisons(found)]
        ),
        page.section("To paste", _snippets(found)),
        page.figure(drawn, about["command"]),
        page.section("At equal numbers of features", _contest(found)),
        page.section("In equal time", _equal_time(found)),
        page.section("The kernels that were tried", _kernels(found)),
        page.section("The rules that were tried", _rules(found)),
        page.section("What was done to the columns", _columns(found)),
        page.section("How this was measured", _protocol(found)),
        page.section("Where this ran, and how to run it again", page.provenance(about)),
    ]
    rows, width = source.rows.shape
    introduction = (
        f"{escape(name)}: {rows} rows, {width} columns to learn from, "
        f"{source.task} of <b>{escape(printable(source.target))}</b>."
    )
    return page.build(f"quadfeat: {name}", "What to use on this table", introduction, sections)


def _snippets(found: Findings) -> str:
    chosen, ours = found.verdict.key, found.verdict.ours
    text = "<p>Run it in the folder of the file.</p>" + page.code(found.snippet(chosen))
    if chosen[0] != OURS:
        text += f"<p>The same with {escape(found.named(ours))}:</p>"
        text += page.code(found.snippet(ours))
    return text


def _contest(found: Findings) -> str:
    note = (
        "<p>± is the standard error of the mean over the folds. The error of the kernel is that of "
        f"the map's inner products on up to {ERROR_ROWS} test rows, relative, in the Frobenius "
        "norm. The exact kernel machine sees "
        f"{int(found.table['train_rows'].min())} rows at most; the others "
        f"{int(found.table['train_rows'].max())}.</p>"
    )
    return note + page.table(findings.equal_size_table(found), found.formats)


def _equal_time(found: Findings) -> str:
    note = (
        "<p>What each reaches in the time that quadfeat takes to train and predict with "
        f"D = {found.verdict.ours[1]}. Between numbers of features that were tried, time is taken "
        "for a power of D and the score for linear in its logarithm.</p>"
    )
    return note + page.table(findings.equal_time_table(found), found.formats)


def _kernels(found: Findings) -> str:
    note = (
        f"<p>With quadfeat, up to {CHOICE_COMPONENTS} features and {CHOICE_ROWS} training rows, "
        "on the folds of the contest. The best one is given to all that can have it; "
        "RBFSampler has the best Gaussian one.</p>"
    )
    return note + page.table(findings.kernel_table(found), found.formats)


def _rules(found: Findings) -> str:
    note = (
        f"<p>Error of the kernel {escape(repr(found.kernel))} with up to {CHOICE_COMPONENTS} "
        f"features. Chosen: <b>{escape(found.rule)}</b>, which is "
        f"<code>{escape(found.rule_in_full)}</code>. Another than the default one is "
        "chosen only if its error is less by two standard errors.</p>"
    )
    return note + page.table(findings.rule_table(found))


def _columns(found: Findings) -> str:
    columns = found.source.columns
    table = pd.DataFrame(
        {
            "column": [printable(column.name) for column in columns],
            "taken for": [column.kind for column in columns],
            "missing": [column.missing for column in columns],
            "what was done": [column.treatment for column in columns],
        }
    )
    said = "".join(f"<li>{escape(remark)}</li>" for remark in found.source.remarks)
    return (f"<ul>{said}</ul>" if said else "") + page.table(table)


def _protocol(found: Findings) -> str:
    problem = found.problem
    stratified = "" if problem.scoring == "r2" else "stratified "
    penalties = ", ".join(f"{alpha:g}" for alpha in PENALTIES)
    return (
        f"<p>Cross-validation in {problem.folds} shuffled {stratified}folds, the same for all. "
        "Columns are prepared on training rows alone. All features go to the same "
        "ridge regression, whose penalty is chosen for each contestant and fold among "
        f"{penalties} on training rows that are held out; the time of that choice is part of the "
        "time to train. Every fit runs on one thread, several side by side. "
        "What to use is the simplest that comes within one standard error of the highest score. "
        "A contestant is called better or worse if the mean of its differences, fold by fold, is "
        "farther from zero than one standard error: with few folds, such a difference "
        "may still be chance. The kernel was chosen on the same rows, which favours "
        f"{', '.join(MAPS)} and the exact kernel a little over the linear model.</p>"
    )
