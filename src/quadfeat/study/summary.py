"""From rows to means and intervals, and whether they agree with the published ones."""

from __future__ import annotations

from importlib.resources import files

import numpy as np
import pandas as pd
from scipy import stats

CITATION = (
    "Munkhoeva, Kapushev, Burnaev, Oseledets: Quadrature-based features for kernel approximation, "
    "NeurIPS 2018; means and deviations as published with the authors' code"
)

FEW_RUNS = 20  # fewer than that do not make a reliable standard error

# Where ours differs from the published figure for a reason, by method.
REASONS = {
    "Gort": (
        "theirs takes orthonormal columns of a tall matrix, whose rows are not orthogonal; ours "
        "has d orthonormal rows a block, as orthogonal random features are defined"
    ),
    "QMC": "ours is a scrambled Halton sequence, which varies between runs and is unbiased",
    "GQ": "ours draws points of a degree-8 Gauss-Hermite grid by their weight",
    "ROM": "ours pads d to a power of two and draws three blocks of signs",
    "B": (
        "their butterflies take angles from neighbouring coordinates of one vector and reuse one "
        "factor in all rounds, which is biased; ours are drawn so that columns are uniform"
    ),
}
# The same by data set, for sets that come in several forms.
REBUILT = {
    "cifar100": "perhaps a subset of the authors' images",
    "leukemia": "perhaps standardised otherwise than the authors'",
}


def published() -> pd.DataFrame:
    """Return the errors that the authors published."""
    with files("quadfeat.study").joinpath("published_errors.csv").open(encoding="utf-8") as file:
        table = pd.read_csv(file)
    return table.rename(
        columns={
            "mean_relative_error": "published",
            "std": "published_sd",
            "runs": "published_runs",
        }
    )


def kernel_errors(rows: pd.DataFrame) -> pd.DataFrame:
    """Return mean, interval and both spreads of each cell, beside what was published.

    A cell has several samples of rows and several maps for each. Its mean is that of the samples'
    means, whose spread gives the interval. The spread over samples alone, ``sd_rows``, is what a
    study that draws its rows once, as the authors' did, cannot see in its own deviations. It is the
    difference of two variances, and noisy, so the five n, which have the same samples, share one
    estimate relative to their means.
    """
    keys = ["dataset", "kernel", "method", "n"]
    by_draw = rows.groupby([*keys, "draw"], sort=False)["error"].agg(["mean", "var", "size"])
    table = by_draw.groupby(keys, sort=False).apply(_spread).reset_index()
    shared = table["var_rows"] / table["mean"] ** 2
    shared = shared.groupby([table[key] for key in keys[:-1]]).transform("mean")
    table["sd_rows"] = np.sqrt(shared.clip(lower=0)) * table["mean"]
    table = table.merge(published(), on=keys, how="left")
    combined = np.sqrt(
        table["se"] ** 2
        + table["sd_rows"] ** 2
        + table["published_sd"] ** 2 / table["published_runs"]
    )
    table["z"] = (table["mean"] - table["published"]) / combined
    table["difference"] = table["mean"] / table["published"] - 1
    table["agrees"] = np.where(table["published"].isna(), None, table["z"].abs() <= 3)
    table["verdict"] = [_verdict(cell) for cell in table.itertuples()]
    return table


def _spread(draws: pd.DataFrame) -> pd.Series:
    """Return the statistics of one cell from the means of its draws of rows."""
    n_draws, maps = len(draws), int(draws["size"].iloc[0])
    between = float(draws["mean"].var(ddof=1)) if n_draws > 1 else np.nan
    within = float(draws["var"].mean()) if maps > 1 else np.nan
    se = np.sqrt(between / n_draws)
    reach = stats.t.ppf(0.975, n_draws - 1) * se if n_draws > 1 else np.nan
    mean = float(draws["mean"].mean())
    return pd.Series(
        {
            "mean": mean,
            "low": mean - reach,
            "high": mean + reach,
            "se": se,
            "sd_maps": np.sqrt(within),
            "var_rows": between - within / maps,  # unbiased, so it may be negative
            "runs": n_draws * maps,
        }
    )


def _verdict(cell: object) -> str:
    """Return in words how a cell compares with the published one."""
    get = cell.__getattribute__
    if get("agrees") is None:
        return ""
    if get("agrees"):
        return "agrees"
    notes = [f"see the remark on {name}" for name in (get("method"),) if name in REASONS]
    notes += [f"only {get('runs'):.0f} runs here"] if get("runs") < FEW_RUNS else []
    notes += [REBUILT[name] for name in (get("dataset"),) if name in REBUILT]
    explained = f" ({'; '.join(notes)})" if notes else ""
    return f"differs by {100 * get('difference'):+.0f} %{explained}"


def agreement(table: pd.DataFrame) -> pd.DataFrame:
    """Return for each method how many cells agree with the published ones."""
    found = []
    for method, part in table[table["published"].notna()].groupby("method", sort=False):
        agrees = part["agrees"].astype(bool)
        found.append(
            {
                "method": method,
                "agree": int(agrees.sum()),
                "of": len(part),
                "median difference, %": 100 * part["difference"].median(),
                "where they differ, %": _span(100 * part["difference"][~agrees]),
            }
        )
    columns = ["method", "agree", "of", "median difference, %", "where they differ, %"]
    return pd.DataFrame(found, columns=columns)


def remarks(table: pd.DataFrame) -> list[str]:
    """Return a sentence with its number on each method and data set not quite the authors'."""
    found = [
        f"{row.method}: {REASONS[row.method]}. In median over {row.of} cells ours is "
        f"{row[4]:+.1f} % from theirs; {row.of - row.agree} differ beyond three standard errors."
        for row in agreement(table).itertuples()
        if row.method in REASONS
    ]
    for name, how in REBUILT.items():
        ours = table[(table["dataset"] == name) & (table["method"] == "B")].dropna(
            subset=["published"]
        )
        if len(ours):
            found.append(
                f"{name}: the set here is {how}. Method B's errors on it are "
                f"{100 * ours['difference'].median():+.1f} % from theirs in median, and vary by "
                f"{100 * (ours['sd_rows'] / ours['mean']).median():.0f} % with the choice of rows."
            )
    return found


def _span(values: pd.Series) -> str:
    return f"{values.min():+.0f} to {values.max():+.0f}" if len(values) else ""


def winners(table: pd.DataFrame) -> pd.DataFrame:
    """Return for each data set and kernel who has the smallest error, and by what factor.

    Errors are compared at equal n, in geometric mean over those n that all methods ran.
    """
    found = []
    for (dataset, kernel), part in table.groupby(["dataset", "kernel"], sort=False):
        wide = part.pivot(index="n", columns="method", values="mean").dropna(axis=0, how="any")
        if wide.empty or wide.shape[1] < 2:
            continue
        typical = np.exp(np.log(wide).mean()).sort_values()
        row = {
            "dataset": dataset,
            "kernel": kernel,
            "best": typical.index[0],
            "error": typical.iloc[0],
            "second": typical.index[1],
            "second / best": typical.iloc[1] / typical.iloc[0],
        }
        for name in ("G", "B"):
            row[f"{name} / best"] = typical.get(name, np.nan) / typical.iloc[0]
        found.append(row)
    return pd.DataFrame(found)


def accuracies(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean score of each cell and its standard error over splits and maps."""
    keys = ["dataset", "kernel", "method", "n"]
    table = rows.groupby(keys, sort=False)["score"].agg(["mean", "sem", "size"]).reset_index()
    return table.rename(columns={"sem": "se", "size": "runs"})


def exponents(rows: pd.DataFrame, narrowest: int = 256) -> pd.DataFrame:
    """Return how time and state grow with the width, fitted to those from ``narrowest`` on."""
    found = []
    for method, part in rows.groupby("method", sort=False):
        wide = part[part["d"] >= narrowest]
        if len(wide) < 2:
            continue
        log_d = np.log(wide["d"])
        found.append(
            {
                "method": method,
                "time": np.polyfit(log_d, np.log(wide["seconds"]), 1)[0],
                "space": np.polyfit(log_d, np.log(wide["bytes"]), 1)[0],
                "from": int(wide["d"].min()),
                "to": int(wide["d"].max()),
            }
        )
    return pd.DataFrame(found, columns=["method", "time", "space", "from", "to"])
