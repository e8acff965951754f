"""From rows to means and intervals, and whether they agree with the published ones."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from quadfeat.apps.study.experiments import EXACT, HEADLINE

CITATION = (
    "Munkhoeva, Kapushev, Burnaev, Oseledets: Quadrature-based features for kernel approximation, "
    "NeurIPS 2018; means and deviations as published with the authors' code"
)

# Where ours differs from the published figure for a reason, by method.
REASONS = {
    "Gort": (
        "theirs takes orthonormal columns of a tall matrix, whose rows are not orthogonal; ours "
        "has d orthonormal rows a block, as orthogonal random features are defined"
    ),
    "QMC": "ours is a scrambled Halton sequence, which varies between runs and is unbiased",
    "GQ": "ours draws points of a degree-8 Gauss-Hermite grid by their weight",
    "ROM": "ours pads d to a power of two and has three blocks of random signs",
    HEADLINE: (
        "their butterflies take angles from neighbouring coordinates of one vector and reuse one "
        "factor in all rounds; ours draw all angles afresh, so that columns are uniform"
    ),
}


def published() -> pd.DataFrame:
    """Return the errors that the authors published."""
    with (
        files("quadfeat.apps.study").joinpath("published_errors.csv").open(encoding="utf-8") as file
    ):
        table = pd.read_csv(file, comment="#")
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
    weights = table["draws"] - 1
    relative = table["var_rows"] / table["mean"] ** 2
    weighted = pd.DataFrame({"sum": weights * relative, "of": weights})
    shared = weighted.groupby([table[key] for key in keys[:-1]]).transform("sum")
    table["sd_rows"] = np.sqrt((shared["sum"] / shared["of"]).clip(lower=0)) * table["mean"]
    published_shape = rows.groupby(keys, sort=False)["as_published"].all().reset_index()
    table["as_published"] = published_shape["as_published"]
    theirs = table.merge(published(), on=keys, how="left").set_index(table.index)
    columns = ["published", "published_sd", "published_runs"]
    # Another set by the same name is not compared.
    table[columns] = theirs[columns].where(table["as_published"])
    # Few draws make an uncertain standard error; Student's law says by how much to widen it.
    widened = table["se"] * stats.t.ppf(stats.norm.cdf(3), (table["draws"] - 1).clip(lower=1)) / 3
    combined = np.sqrt(
        widened**2 + table["sd_rows"] ** 2 + table["published_sd"] ** 2 / table["published_runs"]
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
            "draws": n_draws,
            "runs": n_draws * maps,
        }
    )


def _verdict(cell: Any) -> str:
    """Return in words how a cell compares with the published one."""
    if cell.agrees is None:
        return ""
    if cell.agrees:
        return "agrees"
    remark = f" (see the remark on {cell.method})" if cell.method in REASONS else ""
    return f"differs by {100 * cell.difference:+.0f} %{remark}"


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
    """Return a sentence with its number on each method that is not quite the authors'."""
    found = []
    for method, agree, of, median, span in agreement(table).itertuples(index=False):
        if method not in REASONS:
            continue
        if agree == of:
            found.append(
                f"{method}: {REASONS[method]}. It does not show: all {of} cells agree, and ours "
                f"is {median:+.1f} % from theirs in median."
            )
        else:
            found.append(
                f"{method}: {of - agree} of {of} cells differ beyond three standard errors, by "
                f"{span} %; ours is {median:+.1f} % from theirs in median over all. A likely "
                f"reason: {REASONS[method]}."
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
        for name in ("G", HEADLINE):
            row[f"{name} / best"] = typical.get(name, np.nan) / typical.iloc[0]
        found.append(row)
    return pd.DataFrame(found)


def accuracies(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean score of each cell and its standard error over splits and maps."""
    keys = ["dataset", "kernel", "method", "n"]
    grouped = rows.groupby(keys, sort=False)
    return grouped.agg(
        mean=("score", "mean"),
        se=("score", "sem"),
        runs=("score", "size"),
        converged=("converged", "mean"),
    ).reset_index()


def best_scores(table: pd.DataFrame) -> pd.DataFrame:
    """Return for each data set and kernel the best map at the largest n, and the exact machine."""
    found = []
    for (dataset, kernel), part in table.groupby(["dataset", "kernel"], sort=False):
        maps = part[(part["method"] != EXACT) & (part["n"] == part["n"].max())]
        exact = part[part["method"] == EXACT]["mean"]
        if len(maps):
            best = maps.loc[maps["mean"].idxmax()]
            found.append(
                {
                    "dataset": dataset,
                    "kernel": kernel,
                    "best": best["method"],
                    "score": best["mean"],
                    "exact": exact.iloc[0] if len(exact) else np.nan,
                }
            )
    return pd.DataFrame(found, columns=["dataset", "kernel", "best", "score", "exact"])


def exponents(rows: pd.DataFrame, narrowest: int = 128) -> pd.DataFrame:
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
