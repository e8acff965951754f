"""The page of a study.

This module gathers figures and tables; ``templates/report.html`` arranges them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pandas as pd

from quadfeat.apps.reporting import page
from quadfeat.apps.reporting.drawing import Picture
from quadfeat.apps.study import plots, summary
from quadfeat.apps.study.experiments import NO_BLOCKS
from quadfeat.apps.study.findings import Findings, title
from quadfeat.apps.study.methods import (
    AUTO,
    CONTESTANTS,
    KERNEL_SVM,
    KERNELS,
    METHODS,
    PAPER_RULE,
    PLAIN,
)
from quadfeat.apps.study.runner import Outcome

BADGES = {AUTO: "default of quadfeat", PAPER_RULE: "the paper"}
RATIO, SCORE, PERCENT = ".2f", ".3f", "+.1f"


def pictures(found: Findings) -> list[Picture]:
    """Return the figures of all experiments that ran, the most important first."""
    drawn = []
    if found.relative is not None and len(found.relative):
        drawn.append(_relative_error(found))
    if found.errors is not None:
        drawn.append(_kernel_error(found.errors))
        if found.errors["published"].notna().any():
            drawn.append(_agreement(found))
    if found.scores is not None:
        drawn.append(_accuracy(found.scores))
    if found.times is not None:
        drawn.append(_walltime(found.times))
    return drawn


def _relative_error(found: Findings) -> Picture:
    assert found.relative is not None
    assert found.baseline is not None
    base = title(found.baseline)
    draw, narrow = plots.screens(partial(plots.relative_error, found.baseline))
    by_kernel = summary.ratios_by_kernel(found.relative)
    read = [
        f"{KERNELS[row.kernel]}, {title(row.method)}: {row.ratio:.2f}"
        for row in by_kernel.itertuples()
    ]
    return Picture(
        "relative-error",
        "Error of the kernel matrix",
        f"Error of the kernel matrix at the same number of features, divided by that of {base}. "
        "A large marker, and the number beside it, is the geometric mean over datasets; a small "
        "dot is one dataset.",
        draw,
        found.relative,
        narrow=narrow,
        alt=f"Dot plot of kernel errors relative to {base}, smaller is better. {'; '.join(read)}.",
        source="kernel-error",
    )


def _kernel_error(errors: pd.DataFrame) -> Picture:
    draw, narrow = plots.screens(plots.kernel_error)
    circles = ""
    if errors["published"].notna().any():
        circles = " Circles are the errors that the authors published for their rule."
    return Picture(
        "kernel-error",
        "Error against the number of features",
        "Relative error of the kernel matrix in the Frobenius norm, with 95% intervals of the "
        "mean over samples of rows and maps. A map has 2 n (d + 1) nodes for rows of d columns."
        + circles,
        draw,
        errors,
        narrow=narrow,
        alt="Line plots of the kernel error against n, one for each dataset and kernel. The table "
        "“All kernel errors” has the same numbers.",
    )


def _agreement(found: Findings) -> Picture:
    assert found.errors is not None
    draw, narrow = plots.screens(plots.agreement)
    counts = [
        f"{title(row.method)}: {row.agree} of {row.of} agree"
        for row in found.agreement.itertuples(index=False)
    ]
    return Picture(
        "agreement",
        "Agreement with the published errors",
        "Measured error divided by the published one. A dot is one dataset, kernel and n. A hollow "
        "dot differs by more than three combined standard errors.",
        draw,
        found.errors,
        narrow=narrow,
        alt=f"Dot plot of measured to published errors. {'; '.join(counts)}.",
        source="kernel-error",
    )


def _accuracy(scores: pd.DataFrame) -> Picture:
    draw, narrow = plots.screens(plots.accuracy)
    runs = int(scores["runs"].max())
    return Picture(
        "accuracy",
        "Accuracy of a linear model on the features",
        f"Accuracy (classification) or R² (regression) on test rows at the largest n, mean over "
        f"{runs} splits, with one standard error. The kernel SVM uses the kernel itself.",
        draw,
        scores,
        narrow=narrow,
        alt="Dot plots of test scores, one for each dataset, with a row for each method. The table "
        "“All scores” has the same numbers.",
    )


def _walltime(times: pd.DataFrame) -> Picture:
    draw, narrow = plots.screens(plots.walltime)
    return Picture(
        "walltime",
        "Time and memory of the map",
        "Time of the explicit map on one thread, best of several, and size of its pickled state, "
        "against the number of columns of the data.",
        draw,
        times,
        narrow=narrow,
        alt="Line plots of the time per row and of the size of the state against d. The table "
        "“Growth with the dimension” has the fitted powers of d.",
    )


def build(found: Findings, drawn: Sequence[Picture], about: dict[str, Any]) -> str:
    """Return the page."""
    by_name = {picture.name: picture for picture in drawn}
    names = ("kernel-error", "agreement", "accuracy", "walltime")
    return page.render(
        __package__,
        headline=found.headline(),
        bullets=found.bullets(),
        hero=drawn[0] if drawn else None,
        pictures={
            name: by_name[name] if name in by_name and by_name[name] is not drawn[0] else None
            for name in names
        },
        methods=_methods(found),
        tables=_tables(found),
        n_runs=0 if found.scores is None else int(found.scores["runs"].max()),
        citation=summary.CITATION,
        tie_percent=summary.TIE_PERCENT,
        remarks=[] if found.errors is None else summary.remarks(found.errors),
        next_steps=found.next_steps(about),
        about=about,
    )


def term(method: str) -> Any:
    """Return the full name of a method with its explanation."""
    if method not in CONTESTANTS:
        return method
    contestant = CONTESTANTS[method]
    return page.Term(contestant.title, contestant.explanation, f"method-{method}")


def _methods(found: Findings) -> list[dict[str, Any]]:
    """Describe every method that was run or planned."""
    planned = {outcome.cell.method for outcome in found.outcomes}
    methods = [contestant for name, contestant in CONTESTANTS.items() if name in planned]
    return [
        {
            "anchor": f"method-{contestant.name}",
            "title": contestant.title,
            "explanation": contestant.explanation,
            "code": METHODS[contestant.name].code if contestant.name in METHODS else "",
            "alias": METHODS[contestant.name].alias
            if contestant.name in METHODS and METHODS[contestant.name].in_paper
            else "",
            "highlighted": BADGES.get(contestant.name, ""),
        }
        for contestant in methods
    ]


def _tables(found: Findings) -> dict[str, page.Table | None]:
    """Return the tables of the page; None for those without rows."""
    frames = {
        "winners": _winners(found),
        "agreement": _agreement_table(found),
        "published": _published(found.errors),
        "errors": _errors(found.errors),
        "selected": _selected(found),
        "scores": _scores(found.scores),
        "growth": _growth(found.times),
        "not_run": _not_run(found.outcomes),
    }
    return {
        name: None if frame is None or frame.empty else page.table(frame, FORMATS)
        for name, frame in frames.items()
    }


def _winners(found: Findings) -> pd.DataFrame | None:
    best = found.winners
    if best.empty:
        return None
    frame = pd.DataFrame(
        {
            "dataset": best["dataset"],
            "kernel": best["kernel"].map(KERNELS),
            "smallest error": best["best"].map(term),
            "error": best["error"],
            "tied with": ["; ".join(map(title, tied)) for tied in best["tied"]],
        }
    )
    for name in (AUTO, PAPER_RULE, PLAIN):
        ratios = best[f"{name} / best"]
        if ratios.notna().any():
            frame[f"{title(name)} / smallest"] = ratios
    return frame


# Formats by column name, so that a column has the same decimals in all tables.
FORMATS = {
    **{f"{title(name)} / smallest": RATIO for name in (AUTO, PAPER_RULE, PLAIN)},
    **{title(name): SCORE for name in (AUTO, PAPER_RULE, KERNEL_SVM)},
    "test score": SCORE,
    "validation score": SCORE,
    "standard error of the score": SCORE,
    "converged": RATIO,
    "z": "+.2f",
    "median difference, %": PERCENT,
    "time, measured power of d": RATIO,
    "memory, measured power of d": RATIO,
}


def _agreement_table(found: Findings) -> pd.DataFrame:
    return found.agreement.assign(method=found.agreement["method"].map(term))


def _named(frame: pd.DataFrame) -> dict[str, Any]:
    """Return the columns that name a cell."""
    return {
        "dataset": frame["dataset"],
        "kernel": frame["kernel"].map(KERNELS),
        "method": frame["method"].map(term),
        "n": frame["n"],
    }


def _published(errors: pd.DataFrame | None) -> pd.DataFrame | None:
    if errors is None:
        return None
    known = errors[errors["published"].notna()]
    return pd.DataFrame(
        {
            **_named(known),
            "error": known["mean"],
            "published": known["published"],
            "standard error": known["se"],
            "SD over maps": known["sd_maps"],
            "SD over rows": known["sd_rows"],
            "z": known["z"],
            "verdict": known["verdict"],
        }
    )


def _errors(errors: pd.DataFrame | None) -> pd.DataFrame | None:
    if errors is None:
        return None
    return pd.DataFrame(
        {
            **_named(errors),
            "error": errors["mean"],
            "lower bound": errors["low"],
            "upper bound": errors["high"],
            "SD over maps": errors["sd_maps"],
            "SD over rows": errors["sd_rows"],
            "runs": errors["runs"].astype(int),
        }
    )


def _selected(found: Findings) -> pd.DataFrame | None:
    selected = found.selected
    if found.scores is None or selected.empty:
        return None
    frame = pd.DataFrame(
        {
            "dataset": selected["dataset"],
            "kernel": selected["kernel"].map(KERNELS),
            "selected by validation": selected["selected"].map(term),
            "test score": selected["score"],
        }
    )
    for name in (AUTO, PAPER_RULE, KERNEL_SVM):
        if selected[name].notna().any():
            frame[title(name)] = selected[name]
    return frame


def _scores(scores: pd.DataFrame | None) -> pd.DataFrame | None:
    if scores is None:
        return None
    return pd.DataFrame(
        {
            **_named(scores),
            "test score": scores["mean"],
            "standard error of the score": scores["se"],
            "validation score": scores["validation"],
            "splits": scores["runs"],
            "converged": scores["converged"],
        }
    )


def _growth(times: pd.DataFrame | None) -> pd.DataFrame | None:
    if times is None:
        return None
    measured = summary.exponents(times)
    claimed = [
        METHODS[name].growth if name in METHODS else ("d²", "d²") for name in measured["method"]
    ]
    return pd.DataFrame(
        {
            "method": measured["method"].map(term),
            "time, claimed": [time for time, _ in claimed],
            "time, measured power of d": measured["time"],
            "memory, claimed": [space for _, space in claimed],
            "memory, measured power of d": measured["space"],
            "d from": measured["from"],
            "d to": measured["to"],
        }
    )


def _not_run(outcomes: Sequence[Outcome]) -> pd.DataFrame | None:
    """Return the cells that were skipped or failed, a row for each reason."""
    found: dict[tuple[str, ...], list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.failed or outcome.skipped:
            cell = outcome.cell
            reason = f"failed: {outcome.failed}" if outcome.failed else str(outcome.skipped)
            kernel = KERNELS.get(cell.kernel, cell.kernel)
            key = (cell.experiment, title(cell.method), kernel, reason)
            found.setdefault(key, []).append(outcome)
    rows = []
    for (experiment, method, kernel, reason), same in found.items():
        blocks = sorted({outcome.cell.n for outcome in same} - {NO_BLOCKS})
        row = {
            "experiment": experiment,
            "method": method,
            "kernel": kernel,
            "dataset or d": ", ".join(dict.fromkeys(outcome.cell.dataset for outcome in same)),
            "n": "" if experiment == "walltime" else ", ".join(map(str, blocks)),
            "reason": reason,
        }
        rows.append(row)
    return pd.DataFrame(rows) if rows else None
