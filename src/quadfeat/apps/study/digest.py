"""The findings of a study as a short page of Markdown, to keep with a project's documents."""

from __future__ import annotations

from typing import Any

import pandas as pd

from quadfeat.apps.reporting import page
from quadfeat.apps.study import summary
from quadfeat.apps.study.findings import Findings, title
from quadfeat.apps.study.methods import AUTO, CONTESTANTS, KERNELS, METHODS, PAPER_RULE, PLAIN


def build(found: Findings, about: dict[str, Any]) -> str:
    """Return the page."""
    parts = [
        "# The study",
        f"**{found.headline()}**",
        "\n".join(f"- {line}" for line in found.bullets()),
        f"Command: `{about['command']}`. quadfeat {about['quadfeat']}, {about['cpu']}, seed "
        f"{about['seed']}. `report.html` has figures, intervals, all measurements, and those that "
        "were not run.",
        "## The methods",
        _markdown(_methods(found)),
    ]
    if not found.winners.empty:
        parts += [
            "## Who wins where",
            "Relative error of the kernel matrix, in geometric mean over the n that all methods "
            f"ran. Methods tie if their errors differ by less than {summary.TIE_PERCENT}% or two "
            "standard errors.",
            _markdown(_winners(found.winners)),
        ]
    if found.errors is not None and len(found.agreement):
        parts += _agreement(found, found.errors)
    if found.scores is not None:
        parts += [
            "## Accuracy",
            "Test scores at the largest n. The score on held-out training rows selects the map.",
            _markdown(_scores(found.selected), ".3f"),
        ]
    if found.times is not None:
        growth = summary.exponents(found.times)
        growth = growth.assign(method=growth["method"].map(title))
        parts += ["## Growth with the dimension, as powers of d", _markdown(growth, ".2f")]
    return "\n\n".join(filter(None, parts)) + "\n"


def _methods(found: Findings) -> pd.DataFrame:
    planned = {outcome.cell.method for outcome in found.outcomes}
    shown = [contestant for name, contestant in CONTESTANTS.items() if name in planned]
    codes = [METHODS[one.name].code if one.name in METHODS else "" for one in shown]
    return pd.DataFrame(
        {
            "method": [contestant.title for contestant in shown],
            "what it does": [contestant.explanation for contestant in shown],
            "in quadfeat": [f"`{code}`" if code else "" for code in codes],
        }
    )


def _winners(best: pd.DataFrame) -> pd.DataFrame:
    frame = pd.DataFrame(
        {
            "dataset": best["dataset"],
            "kernel": best["kernel"].map(KERNELS),
            "smallest error": best["best"].map(title),
            "error": best["error"].map("{:#.3g}".format),
        }
    )
    for name in (AUTO, PAPER_RULE, PLAIN):
        if best[f"{name} / best"].notna().any():
            frame[f"{title(name)} / smallest"] = best[f"{name} / best"]
    return frame


def _agreement(found: Findings, errors: pd.DataFrame) -> list[str]:
    return [
        "## Agreement with the published errors",
        f"Published: {summary.CITATION}. An error agrees if it differs by less than three combined "
        "standard errors: ours, the authors', and the variation over samples of rows, because the "
        "authors drew their rows once.",
        _markdown(found.agreement.assign(method=found.agreement["method"].map(title)), "+.1f"),
        "\n".join(f"- {remark}" for remark in summary.remarks(errors)),
    ]


def _scores(selected: pd.DataFrame) -> pd.DataFrame:
    named = selected.assign(
        kernel=selected["kernel"].map(KERNELS), selected=selected["selected"].map(title)
    )
    return named.rename(
        columns={
            "selected": "selected by validation",
            "score": "test score",
            **{name: title(name) for name in CONTESTANTS},
        }
    )


def _markdown(table: pd.DataFrame, form: str = ".2f") -> str:
    """Return a table in Markdown, with numbers aligned right."""

    def text(value: Any) -> str:
        if isinstance(value, float):
            return page.MISSING if value != value else format(value, form)
        return str(value)

    numeric = [pd.api.types.is_numeric_dtype(table[name]) for name in table.columns]
    lines = [list(map(str, table.columns)), ["---:" if number else "---" for number in numeric]]
    lines += [[text(value) for value in row] for row in table.itertuples(index=False)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
