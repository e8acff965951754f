"""Measure when the best kernel of a search on few rows should replace the default kernel.

Search small samples of real tables. For each, print by how many standard errors the best kernel
beats the default, the ratio of their losses, and the scores of both on 5,000 test rows. The
constants in ``quadfeat.models.finals`` come from this script.

    QUADFEAT_DATA=data python benchmarks/guard.py --sizes 150 400 1200 --seeds 2
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from contest import data
from quadfeat import QuadratureRidge, QuadratureRidgeClassifier
from quadfeat.learning.race import Entry
from quadfeat.learning.search import Search
from quadfeat.models.finals import Chosen, Final
from tables import Table

TABLES = [name for name in data.TASKS if name not in ("mnist", "usps")]
TEST_ROWS = 5000


class Watched:
    """Record the entries of the last search by wrapping a method of ``Final``."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        decide = Final.of_all_rows

        def watched(final: Final, entries: list[Entry], search: Search) -> Chosen:
            self.entries = entries
            return decide(final, entries, search)

        Final.of_all_rows = watched  # type: ignore[assignment, method-assign]

    def best_and_default(self) -> tuple[Entry, Entry] | None:
        """Return the best entry and the default of the same heat; None if they are the same."""
        best = self.entries[0]
        same = [one for one in self.entries if one.is_of_heat(best)]
        default = next((one for one in same if one.proposal.kind == "default"), best)
        return None if default is best else (best, default)


def cells(name: str, n_rows: int, seed: int, watched: Watched) -> list[str]:
    """Return the numbers of a row of the table."""
    file = data.read(name)
    X, y = file["X"].astype(np.float64), file["y"]
    order = np.random.default_rng([seed, n_rows]).permutation(len(y))
    train, test = order[:n_rows], order[-TEST_ROWS:]
    regression = data.TASKS[name] == "regression"
    kind: Any = QuadratureRidge if regression else QuadratureRidgeClassifier

    def scored(model: Any) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return float(model.fit(X[train], y[train]).score(X[test], y[test]))

    chosen = scored(kind(random_state=seed))
    found = watched.best_and_default()
    plain = kind("gaussian", alpha=1.0, random_state=seed)
    untouched = scored(make_pipeline(StandardScaler(), plain))
    if found is None:
        return ["", "", f"{untouched:.4f}", "", "", f"{chosen:.4f}"]
    best, default = found
    gain = best.gain_over(default)
    return [
        f"{gain.mean / gain.standard_error:.2f}",
        f"{best.loss / default.loss:.3f}",
        f"{untouched:.4f}",
        f"{scored(kind(default.candidate.kernel, random_state=seed)):.4f}",
        f"{scored(kind(best.candidate.kernel, random_state=seed)):.4f}",
        f"{chosen:.4f}",
    ]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=TABLES)
    parser.add_argument("--sizes", type=int, nargs="+", default=[150, 400, 1200])
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    if data.folder() is None:
        print("skipped: set QUADFEAT_DATA to the folder of the data")
        return
    heads = ["table", "rows", "seed", "errors", "ratio", "alpha=1", "default", "best", "chosen"]
    table = Table("guard", heads, first_width=12)
    table.start("Best kernel of a search beside the default kernel: R2 or accuracy on test rows")
    watched = Watched()
    for seed in range(options.seeds):
        for name in options.tables:
            for n_rows in options.sizes:
                numbers = cells(name, n_rows, seed, watched)
                table.add(name, str(n_rows), str(seed), *numbers)


if __name__ == "__main__":
    main()
