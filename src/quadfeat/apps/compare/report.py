"""The page of a comparison, and the files next to it.

This module gathers figures and tables; ``templates/report.html`` arranges them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from quadfeat.apps.compare import conclusions, frames, plots
from quadfeat.apps.compare.boosting import boosters
from quadfeat.apps.compare.contestants import CONTESTANTS, MODEL, class_name, in_sentence, title
from quadfeat.apps.compare.findings import Findings
from quadfeat.apps.compare.fitting import PENALTIES
from quadfeat.apps.compare.snippet import LARGE, can_stream
from quadfeat.apps.reporting import page
from quadfeat.apps.reporting.drawing import Picture
from quadfeat.apps.reporting.text import encoded, printable

FIGURES = ("scores", "cost")
KINDS = ("png", "svg", "pdf")
FILES = (
    "scores.csv",
    *(f"{name}.{kind}" for name in FIGURES for kind in KINDS),
    "leaderboard.csv",
    "model.py",
    "run.json",
    "report.html",
)


def files(found: Findings, about: dict[str, Any]) -> dict[str, Callable[[], bytes]]:
    """Return functions that make all files but the scores, the most important first."""
    drawn = pictures(found)
    return {
        "leaderboard.csv": lambda: encoded(_leaderboards(found).to_csv(index=False)),
        "model.py": lambda: encoded(found.script(found.verdict.key)),
        "run.json": lambda: encoded(
            json.dumps({**about, "result": conclusions.summary(found)}, indent=2)
        ),
        "report.html": lambda: encoded(build(found, drawn, about)),
        **{
            f"{picture.name}.{kind}": partial(picture.render, "light", kind)
            for picture in drawn
            for kind in KINDS
        },
    }


def result(found: Findings, about: dict[str, Any], out: Path) -> dict[str, Any]:
    """Return the result for ``--json``: that of ``run.json``, and the paths of all files."""
    paths = {name: str(out / name) for name in FILES}
    return {**about, "result": conclusions.summary(found), "files": paths}


def _leaderboards(found: Findings) -> pd.DataFrame:
    """Return the leaderboards of all folds."""
    played = zip(found.rows["fold"], found.rows["leaderboard"], strict=True)
    return pd.DataFrame([{"fold": fold, **place} for fold, board in played for place in board])


def pictures(found: Findings) -> list[Picture]:
    """Return the figures, the most important first."""
    return [_ranking(found), _cost(found)]


def _ranking(found: Findings) -> Picture:
    rows = [
        {
            "contestant": key,
            "score": found.entry(key)["score"],
            "low": found.interval(key)[0],
            "high": found.interval(key)[1],
            "chosen": key == found.verdict.key,
        }
        for key in found.entries
    ]
    draw, narrow = plots.screens(partial(plots.ranking, found.metric, found.form))
    read = [f"{title(key)}: {found.scored(key)}, {found.bounds(key)}" for key in found.entries]
    table = pd.DataFrame(rows)
    low, high = plots.score_range(found.metric, table)
    inside = table["score"].between(low, high).all()
    arrows = "" if inside else " An arrow marks a score outside the range of the axis."
    return Picture(
        "scores",
        "Scores",
        f"Mean {found.score_name} on test rows over {found.problem.folds} folds, with 95% "
        f"intervals; {found.metric.direction}.{arrows}",
        draw,
        table,
        narrow=narrow,
        alt=f"Dot plot of {found.score_name} with 95% intervals, {found.metric.direction}. "
        f"{'; '.join(read)}.",
    )


def _cost(found: Findings) -> Picture:
    draw, narrow = plots.screens(partial(plots.cost, found.metric))
    return Picture(
        "cost",
        "Score against cost",
        f"Mean {found.score_name} ({found.metric.direction}) on test rows, with one standard "
        "error. Models with far worse scores are not shown.",
        draw,
        found.table,
        narrow=narrow,
        alt=f"Scatter plot of {found.score_name} against CPU time. The table of all results has "
        "the same numbers.",
        source="scores",
    )


def build(found: Findings, drawn: list[Picture], about: dict[str, Any]) -> str:
    """Return the page."""
    source, problem = found.source, found.problem
    n_rows, n_columns = source.rows.shape
    chosen = found.verdict.key
    other = MODEL if chosen != MODEL and MODEL in found.entries else None
    train_rows = found.table["train_rows"]
    return page.render(
        __package__,
        name=printable(source.path.name),
        n_rows=n_rows,
        n_columns=n_columns,
        task=source.task,
        target=printable(source.target),
        metric=found.metric,
        headline=conclusions.headline(found),
        points=conclusions.points(found),
        cautions=conclusions.cautions(found),
        comparisons=conclusions.comparisons(found),
        next_steps=conclusions.next_steps(found),
        hopeless=found.verdict.hopeless,
        mark=frames.MARK,
        code=found.script(chosen),
        other_code=None if other is None else found.script(other),
        other_name="" if other is None else in_sentence(other),
        streams=chosen == MODEL and can_stream(source),
        large=LARGE,
        has_leaderboard=len(found.leaderboard) > 0,
        loss_name=found.leaderboard["loss_name"].iloc[0] if len(found.leaderboard) else "",
        hero=drawn[0],
        cost=drawn[1],
        models=_models(found),
        fewest_train_rows=int(train_rows.min()),
        most_train_rows=int(train_rows.max()),
        remarks=source.remarks,
        tables=_tables(found),
        n_folds=problem.folds,
        stratified=found.metric.task == "classification",
        boosters=" and ".join(class_name(name, found.metric.task) for name in boosters()),
        model_class=class_name(MODEL, found.metric.task),
        memory_measured=found.memory_measured,
        penalties=", ".join(f"{alpha:g}" for alpha in PENALTIES),
        about=about,
    )


def _models(found: Findings) -> list[dict[str, Any]]:
    """Describe every model that took part."""
    present = set(found.table["contestant"])
    return [
        {
            "anchor": frames.anchor(name),
            "title": contestant.title,
            "explanation": found.explanation(name),
            "chosen": name == found.verdict.key,
        }
        for name, contestant in CONTESTANTS.items()
        if name in present
    ]


def _tables(found: Findings) -> dict[str, page.Table]:
    forms = frames.formats(found)
    return {
        "ranking": page.table(frames.ranking(found), forms),
        "results": page.table(frames.results(found), forms),
        "leaderboard": page.table(frames.leaderboard(found), forms),
        "columns": page.table(frames.columns(found)),
    }
