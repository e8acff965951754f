"""The tables of the report, for readers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from quadfeat.apps.compare.contestants import title
from quadfeat.apps.compare.findings import Findings
from quadfeat.apps.compare.scoring import METRICS, form_of, metrics_of
from quadfeat.apps.reporting.page import Term
from quadfeat.apps.reporting.text import printable

BETTER = "P(better), %"
SECONDS = "training, CPU s"
PREDICTION = "prediction, CPU ms per 1000 rows"
MEMORY = "memory, MB"
LEADERBOARD_SECONDS = "fit, s"
ERROR = "standard error"
MOST_OUTPUTS = 6  # names in a cell
MARK = "\N{BLACK RIGHT-POINTING SMALL TRIANGLE}"  # of the recommended model


def anchor(name: str) -> str:
    """Return the id of the element that explains a model."""
    return f"model-{name.replace(' ', '-').lower()}"


def term(found: Findings, key: str) -> Term:
    """Return the full name of a model with its explanation."""
    return Term(title(key), found.explanation(key), anchor(key))


def formats(found: Findings) -> dict[str, str]:
    """Return the formats of all columns of numbers."""
    forms = {}
    for metric in METRICS.values():
        values = found.table.get(metric.column, [])
        forms[metric.label] = form_of(metric, values)
    return {
        **forms,
        ERROR: found.form,
        "difference": f"+{found.form}",
        "low": found.form,
        "high": found.form,
        BETTER: ".0f",
        "share, %": ".0f",
        "loss": ".4f",
        "error of the loss": ".4f",
        LEADERBOARD_SECONDS: ".1f",
        SECONDS: ".3f",
        PREDICTION: ".2f",
        MEMORY: ".0f",
    }


def ranking(found: Findings) -> pd.DataFrame:
    """Return one row per model, the best score first."""
    chosen = found.verdict.key
    return pd.DataFrame(
        [
            {
                "model": _marked(term(found, key), key == chosen and not found.verdict.hopeless),
                found.score_name: found.entry(key)["score"],
                "low": found.interval(key)[0],
                "high": found.interval(key)[1],
                "difference": _signed(found, key, chosen),
                BETTER: (
                    float("nan")
                    if key == chosen
                    else 100 * found.difference(key, chosen).probability
                ),
                SECONDS: found.entry(key)["fit_cpu_seconds"],
            }
            for key in found.entries
        ]
    )


def _marked(model: Term, recommended: bool) -> Term:
    return replace(model, text=f"{MARK} {model.text}") if recommended else model


def _signed(found: Findings, one: str, other: str) -> float:
    if one == other:
        return float("nan")
    return found.metric.sign * found.difference(one, other).mean


def results(found: Findings) -> pd.DataFrame:
    """Return all scores and costs, one row per model."""
    table = found.table
    others = [one for one in metrics_of(found.metric.task) if one is not found.metric]
    return pd.DataFrame(
        {
            "model": [term(found, name) for name in table["contestant"]],
            found.score_name: table["score"],
            ERROR: table["score_error"],
            **{one.label: table[one.column] for one in others},
            SECONDS: table["fit_cpu_seconds"],
            PREDICTION: 1e6 * table["predict_cpu_seconds"] / table["test_rows"],
            **({MEMORY: table["peak_memory_mb"]} if found.memory_measured else {}),
        }
    )


def leaderboard(found: Findings) -> pd.DataFrame:
    """Return the candidates of the kernel model, the smallest loss first."""
    board = found.leaderboard
    if not len(board):
        return board
    return pd.DataFrame(
        {
            "candidate": board["candidate"],
            "share, %": 100 * board["share"],
            "loss": board["loss"],
            "error of the loss": board["standard_error"],
            LEADERBOARD_SECONDS: board["fit_seconds"],
            "folds": board["folds"],
            "note": board["note"],
        }
    )


def columns(found: Findings) -> pd.DataFrame:
    """Return the columns of the table, and what the models make of them."""
    described = found.source.columns
    return pd.DataFrame(
        {
            "column": [printable(column.name) for column in described],
            "kind": [column.kind for column in described],
            "missing values": [column.missing for column in described],
            "numbers": [printable(_listed(column.outputs)) for column in described],
        }
    )


def _listed(names: Sequence[str]) -> str:
    """Return names as text, at most ``MOST_OUTPUTS`` of them."""
    more = len(names) - MOST_OUTPUTS
    return ", ".join(names[:MOST_OUTPUTS]) + (f" and {more} more" if more > 0 else "")
