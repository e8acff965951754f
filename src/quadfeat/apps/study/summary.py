"""Turn rows into means and intervals, and compare them with the published errors."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from quadfeat.apps.study.methods import ALIASES, AUTO, KERNEL_SVM, METHODS, PAPER_RULE, PLAIN

CITATION = (
    "Munkhoeva, Kapushev, Burnaev, Oseledets: Quadrature-based features for kernel approximation, "
    "NeurIPS 2018; means and standard deviations as published with the authors' code"
)

# How our implementation differs from the authors', by method.
REASONS = {
    "orf": (
        "The authors take orthonormal columns of a tall matrix, whose rows are not orthogonal. "
        "quadfeat has d orthonormal rows per block, the definition of the method."
    ),
    "halton": (
        "quadfeat scrambles the Halton sequence, so that it varies between runs and is unbiased."
    ),
    "gauss-hermite": (
        "quadfeat draws points of a degree-8 Gauss-Hermite grid with probabilities equal to their "
        "weights."
    ),
    "rom": "quadfeat pads d to a power of two and uses three blocks of random signs.",
    PAPER_RULE: (
        "The authors' butterflies take angles from neighboring coordinates of one vector and reuse "
        "one factor in all rounds. quadfeat draws all angles afresh, so that columns are uniform."
    ),
}

TIE_PERCENT = 2  # errors that differ by less are a tie
TIE_ERRORS = 2.0  # so are errors within this number of standard errors

_KEYS = ["dataset", "kernel", "method", "n"]


def published() -> pd.DataFrame:
    """Return the errors that the authors published."""
    source = files("quadfeat.apps.study").joinpath("published_errors.csv")
    with source.open(encoding="utf-8") as file:
        table = pd.read_csv(file, comment="#")
    return table.assign(method=table["method"].map(ALIASES)).rename(
        columns={
            "mean_relative_error": "published",
            "std": "published_sd",
            "runs": "published_runs",
        }
    )


def kernel_errors(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean error of each cell with its interval, beside the published error.

    A cell has several samples of rows, and several maps for each sample. Its mean is the mean over
    samples. Their spread gives the interval, on a logarithmic scale because errors are positive.

    ``sd_rows`` is the standard deviation over samples of rows alone. The authors drew their rows
    once, so their standard deviations do not include it. It comes from the difference of two
    variances and is noisy, so all n of a method share one estimate relative to their means.
    """
    by_draw = rows.groupby([*_KEYS, "draw"], sort=False)["error"].agg(["mean", "var", "size"])
    table = by_draw.groupby(_KEYS, sort=False).apply(_spread).reset_index()
    weights = table["draws"] - 1
    relative = table["var_rows"] / table["mean"] ** 2
    weighted = pd.DataFrame({"sum": weights * relative, "of": weights})
    shared = weighted.groupby([table[key] for key in _KEYS[:-1]]).transform("sum")
    table["sd_rows"] = np.sqrt((shared["sum"] / shared["of"]).clip(lower=0)) * table["mean"]
    published_shape = rows.groupby(_KEYS, sort=False)["as_published"].all().reset_index()
    table["as_published"] = published_shape["as_published"]
    theirs = table.merge(published(), on=_KEYS, how="left").set_index(table.index)
    columns = ["published", "published_sd", "published_runs"]
    # A different dataset with the same name is not compared.
    table[columns] = theirs[columns].where(table["as_published"])
    # Few draws give an uncertain standard error. Student's t distribution widens it accordingly.
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
    """Return the statistics of one cell from the means of its samples of rows."""
    n_draws, maps = len(draws), int(draws["size"].iloc[0])
    between = float(draws["mean"].var(ddof=1)) if n_draws > 1 else np.nan
    within = float(draws["var"].mean()) if maps > 1 else np.nan
    mean = float(draws["mean"].mean())
    se = np.sqrt(between / n_draws)
    # On a logarithmic scale, the lower bound of a positive quantity is positive.
    factor = np.exp(stats.t.ppf(0.975, n_draws - 1) * se / mean) if n_draws > 1 else np.nan
    return pd.Series(
        {
            "mean": mean,
            "low": mean / factor,
            "high": mean * factor,
            "se": se,
            "sd_maps": np.sqrt(within),
            "var_rows": between - within / maps,  # unbiased, so it may be negative
            "draws": n_draws,
            "runs": n_draws * maps,
        }
    )


def _verdict(cell: Any) -> str:
    """Describe how a cell compares with the published one."""
    if cell.agrees is None:
        return ""
    return "agrees" if cell.agrees else f"differs by {100 * cell.difference:+.0f}%"


def agreement(table: pd.DataFrame) -> pd.DataFrame:
    """Count for each method the cells that agree with the published ones."""
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
    """Return a remark on each method whose implementation differs from the authors'."""
    found = []
    for method, agree, of, median, span in agreement(table).itertuples(index=False):
        if method not in REASONS:
            continue
        title = METHODS[method].title
        if agree == of:
            text = f"all {of} errors agree; the median difference is {median:+.1f}%."
        else:
            text = (
                f"{of - agree} of {of} errors differ, by {span}%; the median difference is "
                f"{median:+.1f}%. The likely reason:"
            )
        found.append(f"{title}: {text} {REASONS[method]}")
    return found


def _span(values: pd.Series) -> str:
    return f"{values.min():+.0f} to {values.max():+.0f}" if len(values) else ""


def typical_errors(table: pd.DataFrame) -> pd.DataFrame:
    """Return the geometric mean over n of the error of each dataset, kernel and method.

    Only those n count that all methods ran. ``log_se`` is the standard error of the logarithm.
    """
    found = []
    for (dataset, kernel), part in table.groupby(["dataset", "kernel"], sort=False):
        means = part.pivot(index="n", columns="method", values="mean").dropna(axis=0, how="any")
        if means.empty:
            continue
        errors = part.pivot(index="n", columns="method", values="se").loc[means.index] / means
        typical = np.exp(np.log(means).mean())
        log_se = np.sqrt((errors**2).sum()) / len(means)
        found += [
            {
                "dataset": dataset,
                "kernel": kernel,
                "method": method,
                "error": typical[method],
                "log_se": log_se[method],
            }
            for method in dict.fromkeys(part["method"])
        ]
    return pd.DataFrame(found, columns=["dataset", "kernel", "method", "error", "log_se"])


def relative_errors(table: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Return typical errors divided by those of a baseline; drop pairs without the baseline."""
    typical = typical_errors(table)
    keys = ["dataset", "kernel"]
    base = typical[typical["method"] == baseline].set_index(keys)["error"]
    joined = typical.join(base.rename("baseline"), on=keys)
    joined["ratio"] = joined["error"] / joined["baseline"]
    return joined[joined["ratio"].notna()].drop(columns="baseline").reset_index(drop=True)


def ratios_by_kernel(relative: pd.DataFrame) -> pd.DataFrame:
    """Return the geometric mean over datasets of the ratio of each kernel and method.

    Methods are compared on the same datasets: those that all methods of the kernel ran.
    """
    found = []
    for kernel, part in relative.groupby("kernel", sort=False):
        wide = part.pivot(index="dataset", columns="method", values="ratio")
        common = wide.dropna(axis=0, how="any")
        ratios = np.exp(np.log(common if len(common) else wide).mean())
        found += [
            {"kernel": kernel, "method": method, "ratio": ratios[method]}
            for method in dict.fromkeys(part["method"])
        ]
    return pd.DataFrame(found, columns=["kernel", "method", "ratio"])


def rank(by_kernel: pd.DataFrame) -> pd.Series:
    """Return methods from the best to the worst, with their typical ratio to the best method.

    The best method is that of each kernel, so methods that do not run all kernels compare fairly.
    """
    best = by_kernel.groupby("kernel")["ratio"].transform("min")
    logarithms = np.log(by_kernel["ratio"] / best)
    return np.exp(logarithms.groupby(by_kernel["method"], sort=False).mean()).sort_values()


def overall_ratio(relative: pd.DataFrame, method: str) -> float:
    """Return the geometric mean over kernels of the ratio of a method, or NaN without results."""
    by_kernel = ratios_by_kernel(relative)
    ratios = by_kernel[by_kernel["method"] == method]["ratio"]
    return float(np.exp(np.log(ratios).mean())) if len(ratios) else np.nan


def winners(table: pd.DataFrame) -> pd.DataFrame:
    """Return the method with the smallest error for each dataset and kernel.

    ``tied`` has the other methods whose errors differ by less than 2% or two standard errors.
    """
    found = []
    for (dataset, kernel), part in typical_errors(table).groupby(["dataset", "kernel"], sort=False):
        if len(part) < 2:
            continue
        ranked = part.set_index("method").sort_values("error")
        best = ranked.iloc[0]
        ratios = ranked["error"] / best["error"]
        noise = np.sqrt(ranked["log_se"].fillna(0) ** 2 + np.nan_to_num(best["log_se"]) ** 2)
        near = ratios <= np.maximum(1 + TIE_PERCENT / 100, np.exp(TIE_ERRORS * noise))
        row = {
            "dataset": dataset,
            "kernel": kernel,
            "best": ranked.index[0],
            "error": best["error"],
            "tied": tuple(name for name in ranked.index[1:] if near[name]),
            "second": ranked.index[1],
        }
        for name in (AUTO, PAPER_RULE, PLAIN):
            row[f"{name} / best"] = ratios.get(name, np.nan)
        found.append(row)
    return pd.DataFrame(found)


def accuracies(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean score of each cell and its standard error over splits and maps."""
    grouped = rows.groupby(_KEYS, sort=False, dropna=False)
    return grouped.agg(
        mean=("score", "mean"),
        se=("score", "sem"),
        validation=("validation_score", "mean"),
        runs=("score", "size"),
        converged=("converged", "mean"),
    ).reset_index()


def selected_scores(table: pd.DataFrame) -> pd.DataFrame:
    """Return for each dataset and kernel the map that validation rows select at the largest n.

    Test rows score the selected map, but do not select it. Equal validation scores select the
    method that comes first in the study.
    """
    columns = ["dataset", "kernel", "selected", "score", AUTO, PAPER_RULE, KERNEL_SVM]
    found = []
    for (dataset, kernel), part in table.groupby(["dataset", "kernel"], sort=False):
        maps = part[(part["method"] != KERNEL_SVM) & (part["n"] == part["n"].max())]
        if maps.empty:
            continue
        selected = maps.loc[maps["validation"].idxmax()]
        scores = pd.concat([maps, part[part["method"] == KERNEL_SVM]]).set_index("method")["mean"]
        others = {name: scores.get(name, np.nan) for name in (AUTO, PAPER_RULE, KERNEL_SVM)}
        names = {"dataset": dataset, "kernel": kernel, "selected": selected["method"]}
        found.append({**names, "score": selected["mean"], **others})
    return pd.DataFrame(found, columns=columns)


def exponents(rows: pd.DataFrame, narrowest: int = 128) -> pd.DataFrame:
    """Return the powers of d with which time and state grow, fitted from ``narrowest`` on."""
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
