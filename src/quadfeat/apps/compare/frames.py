"""The tables of the report, for readers."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from quadfeat.apps.compare.contestants import Key, title
from quadfeat.apps.compare.findings import Findings
from quadfeat.apps.compare.scoring import METRICS, form_of, metrics_of
from quadfeat.apps.reporting.page import Term
from quadfeat.apps.reporting.text import printable

BETTER = "P(better), %"
FEATURES = "features D"
SECONDS = "training, CPU s"
PREDICTION = "prediction, CPU ms per 1000 rows"
MEMORY = "memory, MB"
KERNEL_ERROR = "kernel error"
ERROR = "standard error"
MARK = "\N{BLACK RIGHT-POINTING SMALL TRIANGLE}"  # of the recommended model


def anchor(name: str) -> str:
    """Return the id of the element that explains a model."""
    return f"model-{name.replace(' ', '-').lower()}"


def term(found: Findings, key: Key) -> Term:
    """Return the full name of a model with its explanation."""
    return Term(title(key), found.explanation(key), anchor(key[0]))


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
        KERNEL_ERROR: ".4f",
        f"{KERNEL_ERROR}, {ERROR}": ".4f",
        SECONDS: ".3f",
        "CPU s": ".3f",
        PREDICTION: ".2f",
        MEMORY: ".0f",
    }


def _features(counts: pd.Series) -> list[int | None]:
    return [int(count) if count else None for count in counts]


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


def _signed(found: Findings, one: Key, other: Key) -> float:
    if one == other:
        return float("nan")
    return found.metric.sign * found.difference(one, other).mean


def equal_size(found: Findings) -> pd.DataFrame:
    """Return all results, one row per model and number of features."""
    table = found.table
    others = [one for one in metrics_of(found.metric.task) if one is not found.metric]
    return pd.DataFrame(
        {
            "model": [term(found, (name, 0)) for name in table["contestant"]],
            FEATURES: pd.Series(_features(table["D"]), dtype=object),
            found.score_name: table["score"],
            ERROR: table["score_error"],
            **{one.label: table[one.column] for one in others},
            KERNEL_ERROR: table["kernel_error"],
            SECONDS: table["fit_cpu_seconds"],
            PREDICTION: 1e6 * table["predict_cpu_seconds"] / table["test_rows"],
            **({MEMORY: table["peak_memory_mb"]} if found.memory_measured else {}),
        }
    )


def equal_time(found: Findings) -> pd.DataFrame:
    """Return the score of each model in the time of quadrature features."""
    table = found.equal_time
    return pd.DataFrame(
        {
            "model": [term(found, (name, 0)) for name in table["contestant"]],
            FEATURES: pd.Series(_features(table["D"]), dtype=object),
            found.score_name: table["score"],
            "CPU s": table["seconds"],
            "remark": table["remark"],
        }
    )


def kernels(found: Findings) -> pd.DataFrame:
    """Return the kernels that were tried, the best first."""
    rows = found.rows[found.rows["stage"] == "kernel"]
    grouped = rows.groupby("kernel", sort=False)[["score", "kernel_error"]].mean().reset_index()
    columns = {"score": found.score_name, "kernel_error": KERNEL_ERROR}
    return grouped.sort_values("score", ascending=found.metric.sign < 0).rename(columns=columns)


def rules(found: Findings) -> pd.DataFrame:
    """Return the rules that were tried, the smallest error first."""
    rows = found.rows[found.rows["stage"] == "rule"]
    grouped = rows.groupby("rule", sort=False)["kernel_error"]
    table = pd.DataFrame(
        {KERNEL_ERROR: grouped.mean(), f"{KERNEL_ERROR}, {ERROR}": grouped.sem()}
    ).reset_index()
    failed = rows[rows["failed"] != ""].groupby("rule")["failed"].first()
    table["remark"] = [failed.get(rule, "") for rule in table["rule"]]
    return table.sort_values(KERNEL_ERROR)


def columns(found: Findings) -> pd.DataFrame:
    """Return the columns of the table, and how they were prepared."""
    described = found.source.columns
    return pd.DataFrame(
        {
            "column": [printable(column.name) for column in described],
            "kind": [column.kind for column in described],
            "missing values": [column.missing for column in described],
            "preparation": [column.treatment for column in described],
        }
    )
