"""The table of fitted values that notebooks show with scikit-learn's diagram.

The table has only values that are already known: showing an estimator computes nothing. A value
that cannot be read is left out, so showing an estimator does not fail either.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from quadfeat._utils.fitted import snapshot
from quadfeat._utils.validation import one_line
from quadfeat.io.registry import registration_of

# Colors are inherited or half-transparent, so the table suits light and dark themes.
STYLE = """
table.quadfeat-table {border-collapse: collapse; margin: 0.5em 0; font-size: 0.9em;
  color: inherit; background: none}
table.quadfeat-table th, table.quadfeat-table td {padding: 0.2em 0.6em; text-align: left;
  vertical-align: top; border: none; border-top: 1px solid rgba(128, 128, 128, 0.4);
  color: inherit; background: none; max-width: 44em; overflow-wrap: anywhere; white-space: normal}
table.quadfeat-table th {font-weight: 600; white-space: nowrap}
""".replace("\n", " ").strip()

# Longer kernels have a name in the table, if they were found by a search. Numbers with more digits
# than this are rounded.
LONGEST_KERNEL = 80
DIGITS = re.compile(r"\d+\.\d{4,}(e[-+]?\d+)?")

# Objects to visit at most while arrays are counted, and objects without arrays.
MOST_OBJECTS = 10_000
OPAQUE = (str, bytes, int, float, type, ModuleType)


class Values(dict[str, str]):
    """Labels and values of the table, in order."""

    def _repr_html_inner(self) -> str:
        """Return the table. The name is that of scikit-learn's table of fitted attributes."""
        rows = "".join(
            f'<tr><th scope="row">{html.escape(label)}</th><td>{html.escape(value)}</td></tr>'
            for label, value in self.items()
        )
        return f'<style>{STYLE}</style><table class="quadfeat-table"><tbody>{rows}</tbody></table>'


def with_table(estimator: Any, diagram: str) -> str:
    """Return scikit-learn's diagram of an estimator with the table, if the estimator is fitted.

    Newer versions of scikit-learn show the table in the diagram. Otherwise it follows below.
    """
    found = values(estimator)
    table = found._repr_html_inner()
    return f"<div>{diagram}{table}</div>" if found and table not in diagram else diagram


def values(estimator: Any) -> Values:
    """Return the values of a fitted estimator; empty if it is not fitted.

    Examples
    --------
    >>> from quadfeat import QuadratureFeatures
    >>> features = QuadratureFeatures(gamma=0.5, rule="rff", n_components=64, random_state=0)
    >>> found = values(features.fit([[0.0, 1.0], [2.0, 1.0]]))
    >>> found["Kernel"], found["Rule"], found["Columns"]
    ('Gaussian(gamma=0.5)', 'MonteCarlo()', '64 from 2')
    """
    found = Values()
    held = snapshot(estimator)
    features = vars(held).get("features_", held)
    if "map_" not in vars(held) and features is held:
        return found
    for label, read in ROWS.items():
        try:
            value = read(held, features)
        except Exception:  # a notebook must show the estimator in any case
            continue
        if value is not None:
            found[label] = value
    return found


def _kernel(estimator: Any, features: Any) -> str:
    tried, text = _tried(estimator), DIGITS.sub(_rounded, one_line(features.map_.kernel))
    return text if tried is None or len(text) <= LONGEST_KERNEL else str(tried.name)


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.4g}"


def _rule(estimator: Any, features: Any) -> str:
    return one_line(features.rule_)


def _columns(estimator: Any, features: Any) -> str:
    return f"{estimator.map_.n_columns:,} from {estimator.n_features_in_:,}"


def _error(estimator: Any, features: Any) -> str | None:
    error = vars(features).get("approximation_error_")
    return None if error is None else str(error)


def _alpha(estimator: Any, features: Any) -> str | None:
    solution = vars(vars(estimator)["_solution"])
    alpha = solution.get("alpha")
    if alpha is None and "posterior" in solution:
        alpha = solution["posterior"].alpha
    return "not computed yet" if alpha is None else f"{alpha:.3g}"


def _score(estimator: Any, features: Any) -> str | None:
    tried = _tried(estimator)
    if tried is None:
        return None
    name, value = "log loss", tried.loss
    if not is_classifier(estimator):
        name, value = "R2", 1.0 - tried.loss
    error = f" ± {tried.standard_error:.2g}" if np.isfinite(tried.standard_error) else ""
    return f"{name} {value:.4g}{error}, leave-one-out on {tried.n_rows:,} rows"


def _tried(estimator: Any) -> Any:
    """Return the kernel that a search has chosen, with its score; None without a search."""
    choice = vars(estimator).get("_choice")
    return choice.candidates[0] if choice is not None and choice.candidates else None


def _size(estimator: Any, features: Any) -> str:
    parameters = estimator.get_params(deep=False)
    others = {*parameters, *getattr(type(estimator), "unsaved_attributes", ())}
    learned = [value for name, value in vars(estimator).items() if name not in others]
    size = float(n_bytes(learned))
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"


def n_bytes(thing: Any) -> int:
    """Return the size of all arrays in an object, each counted once.

    Examples
    --------
    >>> array = np.zeros(10)
    >>> n_bytes({"first": array, "second": (array, "text")})
    80
    """
    total, todo = 0, [thing]
    seen: dict[int, Any] = {}
    while todo and len(seen) < MOST_OBJECTS:
        value = todo.pop()
        if id(value) in seen or isinstance(value, OPAQUE):
            continue
        seen[id(value)] = value  # alive, so no other object can have the same id
        if isinstance(value, np.ndarray):
            total += value.nbytes
        elif isinstance(value, dict):
            todo.extend(value.values())
        elif isinstance(value, (list, tuple)):
            todo.extend(value)
        else:
            entry = registration_of(type(value))
            parts = getattr(value, "__dict__", {}) if entry is None else entry.attributes(value)
            todo.extend(parts.values())
    return total


ROWS: dict[str, Callable[[Any, Any], str | None]] = {
    "Kernel": _kernel,
    "Rule": _rule,
    "Columns": _columns,
    "Kernel error": _error,
    "Validated score": _score,
    "Alpha": _alpha,
    "Size of arrays": _size,
}
