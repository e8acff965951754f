"""The page of a study: what was found, the figures, the tables, and how to get them again.

This module gathers the facts; ``templates/report.html`` words them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from quadfeat.apps.reporting import page
from quadfeat.apps.reporting.drawing import Picture
from quadfeat.apps.study import plots, summary
from quadfeat.apps.study.experiments import HEADLINE
from quadfeat.apps.study.methods import KERNELS, METHODS, RBF_SAMPLER
from quadfeat.apps.study.runner import Outcome

TIE_PERCENT = 2  # errors that differ by less are a tie


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
    errors = by_name.get("kernel-error")
    scores = by_name.get("accuracy")
    times = by_name.get("walltime")
    frames = {
        **_kernel_error_tables(errors),
        "best_scores": None if scores is None else summary.best_scores(scores),
        "accuracies": scores,
        "complexity": None if times is None else _complexity(times),
        "methods": _methods(),
        "left_out": _left_out(outcomes),
    }
    return page.render(
        __package__,
        agreement=None if errors is None else _agreement(errors),
        winners=[] if errors is None else _winners(errors),
        tie_percent=TIE_PERCENT,
        accuracy=None if scores is None else _accuracy(scores),
        speed=None if times is None else _speed(times),
        n_failed=sum(outcome.failed is not None for outcome in outcomes),
        pictures=drawn,
        tables={
            name: None if frame is None else page.table(frame) for name, frame in frames.items()
        },
        citation=summary.CITATION,
        remarks=[] if errors is None else summary.remarks(errors),
        about=about,
    )


def _agreement(errors: pd.DataFrame) -> dict[str, int] | None:
    """Return how many of the errors published for the paper's method ours agree with."""
    known = summary.agreement(errors)
    ours = known[known["method"] == HEADLINE]
    if ours.empty:
        return None
    return {"agree": int(ours["agree"].iloc[0]), "of": int(ours["of"].iloc[0])}


def _winners(errors: pd.DataFrame) -> list[dict[str, Any]]:
    """Return for each kernel which methods have the smallest error, and on how many data sets."""
    best = summary.winners(errors)
    if best.empty:
        return []
    found = []
    for kernel, part in best.groupby("kernel", sort=False):
        plain = np.exp(np.log(part["G / best"].dropna()).mean())
        found.append(
            {
                "kernel": KERNELS[str(kernel)],
                "datasets": len(part),
                "counts": part["best"].value_counts().to_dict(),
                "ties": int((part["second / best"] < 1 + TIE_PERCENT / 100).sum()),
                "plain": plain if np.isfinite(plain) else None,
            }
        )
    return found


def _accuracy(scores: pd.DataFrame) -> dict[str, Any]:
    """Return how far the best map is below the exact machine."""
    best = summary.best_scores(scores)
    return {"gap": (best["exact"] - best["score"]).median(), "pairs": len(best)}


def _speed(times: pd.DataFrame) -> dict[str, Any] | None:
    """Return how the time of scikit-learn's map compares with that of the paper's."""
    d = times["d"].max()
    widest = times[times["d"] == d].set_index("method")["seconds"]
    if not {"B-map", RBF_SAMPLER} <= set(widest.index):
        return None
    return {"d": d, "ratio": widest[RBF_SAMPLER] / widest["B-map"]}


def _kernel_error_tables(errors: pd.DataFrame | None) -> dict[str, pd.DataFrame | None]:
    """Return the tables of kernel errors; None for those without rows."""
    names = ("winners", "agreement", "published", "kernel_errors")
    tables: dict[str, pd.DataFrame | None] = dict.fromkeys(names)
    if errors is None:
        return tables
    keys = ["dataset", "kernel", "method", "n", "mean"]
    best = summary.winners(errors)
    if len(best):
        tables["winners"] = best
    known = errors[errors["published"].notna()]
    if len(known):
        tables["agreement"] = summary.agreement(errors)
        columns = [*keys, "se", "sd_maps", "sd_rows", "published", "z", "verdict"]
        tables["published"] = known[columns]
    tables["kernel_errors"] = errors[[*keys, "low", "high", "sd_maps", "sd_rows", "runs"]]
    return tables


def _complexity(times: pd.DataFrame) -> pd.DataFrame:
    measured = summary.exponents(times)
    claimed = [
        (METHODS[name].time, METHODS[name].space) if name in METHODS else ("d^2", "d^2")
        for name in measured["method"]
    ]
    return pd.DataFrame(
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


def _methods() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "name": [method.name for method in METHODS.values()],
            "what": [method.title for method in METHODS.values()],
            "in the paper": ["yes" if method.in_paper else "" for method in METHODS.values()],
        }
    )


def _left_out(outcomes: Sequence[Outcome]) -> pd.DataFrame | None:
    """Return the cells that were skipped or failed, and why."""
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
        return None
    table = pd.DataFrame(rows)
    keys = ["experiment", "data set", "kernel", "method", "reason"]
    grouped = table.groupby(keys, sort=False)["n"].apply(lambda n: ", ".join(map(str, n)))
    return grouped.reset_index()
