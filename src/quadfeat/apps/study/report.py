"""One self-contained page: what was found, the figures, the tables, and how to get them again."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from quadfeat.apps.reporting import page
from quadfeat.apps.reporting.drawing import Picture
from quadfeat.apps.study import plots, summary
from quadfeat.apps.study.experiments import HEADLINE
from quadfeat.apps.study.methods import KERNELS, METHODS, RBF_SAMPLER
from quadfeat.apps.study.runner import Outcome

TITLE = "quadfeat: the study"
HEADING = "Quadrature-based features, studied again"
INTRODUCTION = (
    "The experiments of <cite>Quadrature-based features for kernel approximation</cite> "
    "(Munkhoeva, Kapushev,\nBurnaev, Oseledets, 2018), run by quadfeat on this machine."
)

TIE = 1.02  # ratio of errors below which the first has not really won


def pictures(tables: dict[str, pd.DataFrame]) -> list[Picture]:
    """Return the figures that there are rows for."""
    found = []
    if "kernel-error" in tables:
        found.append(
            Picture(
                "kernel-error",
                "Error of the kernel",
                "Relative error of the kernel matrix in the Frobenius norm against n, for "
                "2 n (d + 1) nodes; bands are 95 % intervals of the mean over draws of rows and "
                "maps. Circles are the errors that the authors published for their method, B.",
                plots.kernel_error,
                summary.kernel_errors(tables["kernel-error"]),
            )
        )
    if "accuracy" in tables:
        found.append(
            Picture(
                "accuracy",
                "Accuracy of a linear machine on the features",
                "Accuracy (classification) or R2 (regression) on test rows against n, one standard "
                "error up and down. The dotted line is the exact kernel machine, trained on a "
                "subsample.",
                plots.accuracy,
                summary.accuracies(tables["accuracy"]),
            )
        )
    if "walltime" in tables:
        found.append(
            Picture(
                "walltime",
                "Time of the map",
                "Time of the explicit map on one thread, best of several, and the size of its "
                "pickled state, against the width d of the data.",
                plots.walltime,
                tables["walltime"],
            )
        )
    return found


def build(outcomes: Sequence[Outcome], drawn: Sequence[Picture], about: dict[str, Any]) -> str:
    """Return the page."""
    by_name = {picture.name: picture.table for picture in drawn}
    body = [_headlines(by_name, outcomes)]
    body += [page.figure(picture, about["command"]) for picture in drawn]
    if "kernel-error" in by_name:
        body += _kernel_error_tables(by_name["kernel-error"])
    if "accuracy" in by_name:
        best = page.table(summary.best_scores(by_name["accuracy"]))
        body.append(page.section("The best map against the exact machine", best))
        note = "<p>Converged is the share of machines that met their tolerance.</p>"
        body.append(page.section("Accuracy, cell by cell", note + page.table(by_name["accuracy"])))
    if "walltime" in by_name:
        body.append(
            page.section("Complexity, claimed and measured", _complexity(by_name["walltime"]))
        )
    body.append(page.section("The methods", page.table(_methods())))
    body.append(page.section("What was not run, and why", _left_out(outcomes)))
    body.append(page.section("Where this ran, and how to run it again", page.provenance(about)))
    return page.build(TITLE, HEADING, INTRODUCTION, body)


def _headlines(tables: dict[str, pd.DataFrame], outcomes: Sequence[Outcome]) -> str:
    """Return the summary on top."""
    lines = []
    if "kernel-error" in tables:
        table = tables["kernel-error"]
        known = summary.agreement(table)
        ours = known[known["method"] == HEADLINE]
        if len(ours):
            agree, of = int(ours["agree"].iloc[0]), int(ours["of"].iloc[0])
            lines.append(
                f"Of the {of} errors that the authors published for their method and that were run "
                f"here, <b>{agree} agree</b> within three combined standard errors."
            )
        best = summary.winners(table)
        for kernel, part in best.groupby("kernel", sort=False) if len(best) else ():
            counts = part["best"].value_counts()
            who = ", ".join(f"{escape(str(name))} ({count})" for name, count in counts.items())
            factor = np.exp(np.log(part["G / best"].dropna()).mean())
            ties = int((part["second / best"] < TIE).sum())
            who += f"; {ties} of these are ties within 2 %" if ties else ""
            versus = f" Plain random features have {factor:.1f} times the best error."
            lines.append(
                f"<b>{escape(KERNELS[str(kernel)])} kernel</b>: smallest error, by data sets out "
                f"of {len(part)}: {who}.{versus if np.isfinite(factor) else ''}"
            )
    if "accuracy" in tables:
        best = summary.best_scores(tables["accuracy"])
        gap = (best["exact"] - best["score"]).median()
        lines.append(
            f"<b>Accuracy</b>: the best map's score is {gap:.3f} below the exact kernel machine's "
            f"in median over {len(best)} pairs of data set and kernel (negative: above; the exact "
            "one sees a subsample)."
        )
    if "walltime" in tables:
        times = tables["walltime"]
        widest = times[times["d"] == times["d"].max()].set_index("method")["seconds"]
        if {"B-map", RBF_SAMPLER} <= set(widest.index):
            ratio = widest[RBF_SAMPLER] / widest["B-map"]
            lines.append(
                f"At d = {times['d'].max()} scikit-learn's RBFSampler takes {ratio:.1f} times as "
                "long as the paper's map, on one thread."
            )
    failed = sum(outcome.failed is not None for outcome in outcomes)
    if failed:
        lines.append(f"<b>{failed} cell(s) failed</b>: see the list below.")
    if not lines:
        lines.append("Too few methods were run to compare them: see the tables.")
    return page.summary(lines)


def _kernel_error_tables(table: pd.DataFrame) -> list[str]:
    parts = []
    best = summary.winners(table)
    if len(best):
        text = "<p>Errors at equal n, in geometric mean over the n that all methods ran.</p>"
        parts.append(page.section("Who wins where", text + page.table(best)))
    known = table[table["published"].notna()]
    if len(known):
        text = f"<p>Published: {escape(summary.CITATION)}. A cell agrees within three combined "
        text += "standard errors: ours (widened where draws are few), theirs, and the spread over "
        text += "the choice of rows, which the authors drew once.</p>"
        said = "".join(f"<li>{escape(remark)}</li>" for remark in summary.remarks(table))
        text += page.table(summary.agreement(table)) + f"<ul>{said}</ul>"
        parts.append(page.section("Agreement with the published errors", text))
        columns = ["dataset", "kernel", "method", "n", "mean", "se", "sd_maps", "sd_rows"]
        columns += ["published", "z", "verdict"]
        parts.append(
            page.section("Ours and the published, cell by cell", page.table(known[columns]))
        )
    columns = ["dataset", "kernel", "method", "n", "mean", "low", "high", "sd_maps", "sd_rows"]
    parts.append(
        page.section("Error of the kernel, cell by cell", page.table(table[[*columns, "runs"]]))
    )
    return parts


def _complexity(rows: pd.DataFrame) -> str:
    measured = summary.exponents(rows)
    claimed = [
        (METHODS[name].time, METHODS[name].space) if name in METHODS else ("d^2", "d^2")
        for name in measured["method"]
    ]
    table = pd.DataFrame(
        {
            "method": measured["method"],
            "time, claimed": [time for time, _ in claimed],
            "time, measured d^": measured["time"],
            "space, claimed": [space for _, space in claimed],
            "space, measured d^": measured["space"],
            "d from": measured["from"],
            "d to": measured["to"],
        }
    )
    text = "<p>For 4 (d + 1) features of one row; fitted to the widths given. Random features are "
    text += "bound by memory, not arithmetic, where their matrix leaves the caches.</p>"
    return text + page.table(table)


def _methods() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "name": [method.name for method in METHODS.values()],
            "what": [method.title for method in METHODS.values()],
            "in the paper": ["yes" if method.in_paper else "" for method in METHODS.values()],
        }
    )


def _left_out(outcomes: Sequence[Outcome]) -> str:
    rows = [
        {
            "experiment": outcome.cell.experiment,
            "data set": outcome.cell.dataset,
            "kernel": outcome.cell.kernel,
            "method": outcome.cell.method,
            "n": outcome.cell.n,
            "reason": f"failed: {outcome.failed}" if outcome.failed else outcome.skipped,
        }
        for outcome in outcomes
        if outcome.failed or outcome.skipped
    ]
    if not rows:
        return "<p>Everything was run.</p>"
    table = pd.DataFrame(rows)
    keys = ["experiment", "data set", "kernel", "method", "reason"]
    grouped = table.groupby(keys, sort=False)["n"].apply(lambda n: ", ".join(map(str, n)))
    return page.table(grouped.reset_index())
