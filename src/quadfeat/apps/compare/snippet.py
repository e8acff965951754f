"""The lines of Python to paste: the recommended model on the user's own table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

import numpy as np

from quadfeat.apps.compare.columns import MOST_CATEGORIES, ORIGIN, any_missing, named
from quadfeat.apps.compare.contest import DEFAULT_RULE, LINEAR, OURS, RBF_SAMPLER, Scoring
from quadfeat.apps.compare.table import Table
from quadfeat.apps.reporting.text import quoted
from quadfeat.kernels import Gaussian, Kernel

WIDTH = 88


def build(
    table: Table,
    contestant: str,
    kernel: Kernel | None,
    n_components: int,
    *,
    alpha: float,
    rule: str = DEFAULT_RULE,
    scoring: Scoring = "accuracy",
    seed: int = 0,
) -> str:
    """Return a script that trains the model and prints its score; it runs in the file's folder."""
    columns = table.columns
    numbers, words = named(columns, "number", "date"), named(columns, "words")
    imports = {
        "import pandas as pd",
        "from sklearn.model_selection import train_test_split",
        "from sklearn.pipeline import make_pipeline",
    }
    if any("np." in line for line in table.code):
        imports.add("import numpy as np")
    lines = list(table.code)
    if table.target_missing:
        lines.append(f"table = table.dropna(subset=[{quoted(table.target)}]).copy()")
    lines += _columns(table, numbers, words)
    missing = any_missing(columns, "number", "date")
    lines += _preparation(numbers, words, missing=missing, imports=imports)
    balanced = scoring == "balanced-accuracy"
    penalty = f"alpha={alpha:g}" + (', class_weight="balanced"' if balanced else "")
    classifier = "Classifier" if table.task == "classification" else ""
    steps = ["prepare"]
    if contestant == OURS:
        assert kernel is not None
        features = _quadrature(kernel, n_components, rule, seed, imports)
        imports.add(f"from quadfeat import QuadratureFeatures, QuadratureRidge{classifier}")
        lines += _call("features = QuadratureFeatures", features)
        steps.append(f"QuadratureRidge{classifier}(features=features, {penalty})")
    else:
        if contestant != LINEAR:
            assert kernel is not None
            size = f"n_components={n_components}, random_state={seed}"
            definition, step = _rival(contestant, kernel, size, imports)
            lines += definition
            steps.append(step)
        imports.add(f"from sklearn.linear_model import Ridge{classifier}")
        steps.append(f"Ridge{classifier}({penalty})")
    lines += _call("model = make_pipeline", steps)
    lines.append(f"y = table[{quoted(table.target)}]{_as_words(table)}")
    stratify = ["stratify=y"] if _can_stratify(table) else []
    lines += _call(
        "X_train, X_test, y_train, y_test = train_test_split",
        ["table", "y", f"random_state={seed}", *stratify],
    )
    if balanced:
        imports.add("from sklearn.metrics import balanced_accuracy_score")
        lines.append("predicted = model.fit(X_train, y_train).predict(X_test)")
        lines.append("print(balanced_accuracy_score(y_test, predicted))")
    else:
        lines.append("print(model.fit(X_train, y_train).score(X_test, y_test))")
    plain = sorted(line for line in imports if line.startswith("import"))
    others = sorted((line for line in imports if line.startswith("from")), key=_import_order)
    return "\n".join([*plain, *others, "", *lines]) + "\n"


def _import_order(line: str) -> tuple[bool, str]:
    return "quadfeat" in line, line


def _as_words(table: Table) -> str:
    words = table.task == "classification" and table.words_target
    return ".astype(object).map(str)" if words else ""


def _can_stratify(table: Table) -> bool:
    if table.task == "regression" or table.sampled:  # other rows may be of other classes
        return False
    counts = np.unique(table.y, return_counts=True)[1]
    # A test set, which is a quarter of the rows, has to hold one of each.
    return bool(counts.min() >= 2) and len(counts) <= len(table.y) // 4


def _columns(table: Table, numbers: list[str], words: list[str]) -> list[str]:
    """Return the lines that name the columns and make them numbers and strings."""
    lines = []
    dates = named(table.columns, "date")
    if dates:
        lines += _list("dates", dates)
        lines.append('moments = table[dates].apply(pd.to_datetime, format="ISO8601", utc=True)')
        lines.append(
            f'origin = pd.Timestamp("{ORIGIN.date()}", tz="UTC")',
        )
        lines.append("table[dates] = (moments - origin) / pd.Timedelta(days=1)")
    if words:
        lines += _list("words", words)
        lines.append("table[words] = table[words].astype(object).map(str)")
    if numbers:
        line = f"numbers = [{_names(numbers)}]"
        if len(line) <= WIDTH:
            lines.append(line)
        else:
            left_out = [table.target, *named(table.columns, "dropped")]
            lines += _list("others", left_out)
            lines.append(f"numbers = table.columns.drop({'others + words' if words else 'others'})")
        if table.path.suffix.lower() in (".parquet", ".pq"):
            lines.append("table[numbers] = table[numbers].astype(float)")
    return lines


def _preparation(
    numbers: list[str], words: list[str], *, missing: bool, imports: set[str]
) -> list[str]:
    """Return the lines that make the columns a matrix."""
    imports.add("from sklearn.compose import make_column_transformer")
    names = [*(["StandardScaler"] if numbers else []), *(["OneHotEncoder"] if words else [])]
    imports.add(f"from sklearn.preprocessing import {', '.join(sorted(names))}")
    lines, parts = [], []
    if numbers:
        scaler = "StandardScaler()"
        if missing:
            imports.add("from sklearn.impute import SimpleImputer")
            options = 'strategy="median", add_indicator=True, keep_empty_features=True'
            lines.append(f"imputer = SimpleImputer({options})")
            scaler = "make_pipeline(imputer, StandardScaler())"
        parts.append(f"({scaler}, numbers)")
    if words:
        settings = ['handle_unknown="infrequent_if_exist"', f"max_categories={MOST_CATEGORIES}"]
        lines += _call("encoder = OneHotEncoder", [*settings, "sparse_output=False"])
        parts.append("(encoder, words)")
    return [*lines, *_call("prepare = make_column_transformer", parts)]


def _quadrature(
    kernel: Kernel, n_components: int, rule: str, seed: int, imports: set[str]
) -> list[str]:
    """Return the arguments of ``QuadratureFeatures``."""
    imports.add(f"from quadfeat.kernels import {type(kernel).__name__}")
    chosen = [] if rule == DEFAULT_RULE else [f"rule={quoted(rule)}"]
    return [repr(kernel), *chosen, f"n_components={n_components}", f"random_state={seed}"]


def _rival(contestant: str, kernel: Kernel, size: str, imports: set[str]) -> tuple[list[str], str]:
    """Return what the map of a rival needs before it, and the step of the pipeline."""
    imports.add(f"from sklearn.kernel_approximation import {contestant}")
    if contestant == RBF_SAMPLER:
        return [], f"RBFSampler(gamma={kernel.get_params()['gamma']!r}, {size})"
    definition, argument = _nystroem_kernel(kernel, imports)
    return definition, f"Nystroem({argument}, {size})"


@singledispatch
def _nystroem_kernel(kernel: Kernel, imports: set[str]) -> tuple[list[str], str]:
    """Return the definition of a kernel that ``Nystroem`` takes, and how to pass it."""
    imports.add(f"from quadfeat.kernels import {type(kernel).__name__}")
    imports.add("from sklearn.gaussian_process.kernels import Kernel")
    lines = [
        "",
        "class BlockKernel(Kernel):  # so that Nystroem evaluates all pairs of rows at once",
        "    def __call__(self, X, Y=None, eval_gradient=False):",
        f"        return {kernel!r}(X, Y)",
        "",
        "    def diag(self, X):",
        "        return self(X).diagonal()",
        "",
        "    def is_stationary(self):",
        "        return False",
        "",
    ]
    return lines, "BlockKernel()"


@_nystroem_kernel.register
def _(kernel: Gaussian, imports: set[str]) -> tuple[list[str], str]:
    return [], f"gamma={kernel.gamma!r}"


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))


def _list(variable: str, names: Sequence[str]) -> list[str]:
    """Return an assignment of names, over several lines if they are many."""
    line = f"{variable} = [{_names(names)}]"
    if len(line) <= WIDTH:
        return [line]
    filled = [""]
    for name in names:
        if len(filled[-1]) + len(quoted(name)) + 5 > WIDTH:
            filled.append("")
        filled[-1] += f"{quoted(name)}, "
    return [f"{variable} = [", *(f"    {part.rstrip()}" for part in filled if part), "]"]


def _call(function: str, arguments: Sequence[str]) -> list[str]:
    """Return a call, over several lines if it is long."""
    line = f"{function}({', '.join(arguments)})"
    if len(line) <= WIDTH:
        return [line]
    joined = f"    {', '.join(arguments)}"
    if len(joined) <= WIDTH:
        return [f"{function}(", joined, ")"]
    return [f"{function}(", *(f"    {argument}," for argument in arguments), ")"]
