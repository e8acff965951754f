"""Write the script that trains the recommended model on the table of the user."""

from __future__ import annotations

from collections.abc import Mapping
from functools import singledispatch
from typing import Any

import numpy as np

from quadfeat.apps.compare.boosting import class_of, settings_of
from quadfeat.apps.compare.columns import MOST_CATEGORIES, ORIGIN, any_missing, is_plain, named
from quadfeat.apps.compare.contest import DEFAULT_RULE
from quadfeat.apps.compare.contestants import BOOSTERS, LINEAR, MODEL, OURS, RBF_SAMPLER, class_name
from quadfeat.apps.compare.fitting import MODEL_SETTINGS
from quadfeat.apps.compare.lines import WIDTH, call, indented, name_list, script
from quadfeat.apps.compare.scoring import Scoring
from quadfeat.apps.compare.table import Table
from quadfeat.apps.reporting.text import printable, quoted
from quadfeat.kernels import Gaussian, Kernel

LARGE = 100_000  # from this number of rows on, the script reads the file in blocks
ROWS_PER_BLOCK = 2**16
WITH_PROBABILITIES = (MODEL, OURS, *BOOSTERS)  # models that have predict_proba


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
    """Return a script that trains a model. It runs in the folder of the table.

    The script prints the score on held-out rows. For the kernel model and a large file, it
    trains ``QuadratureRidge`` on all rows, block by block, and prints a few predictions.
    """
    balanced = scoring == "balanced-accuracy"
    if contestant == MODEL and can_stream(table) and not balanced:
        return _streaming(table, seed)
    imports = {"import pandas as pd", "from sklearn.model_selection import train_test_split"}
    if any("np." in line for line in table.code):
        imports.add("import numpy as np")
    lines = [*table.code, *_without_missing_targets(table), *_lists(table), *_conversions(table)]
    rows = "table"
    if contestant == MODEL:
        rows = "X"
        lines = [*table.code, *_without_missing_targets(table)]
        unused = ", ".join(map(quoted, [table.target, *named(table.columns, "dropped")]))
        lines += call("X = table.drop", [f"columns=[{unused}]"])
        lines += call(f"model = {_model(table, imports)}", _model_arguments(balanced, seed))
    else:
        imports.add("from sklearn.pipeline import make_pipeline")
        lines += _preparation(table, imports)
        definitions, steps = _steps(
            table,
            contestant,
            kernel,
            n_components,
            alpha=alpha,
            rule=rule,
            balanced=balanced,
            seed=seed,
            imports=imports,
        )
        lines += [*definitions, *call("model = make_pipeline", ["prepare", *steps])]
    lines.append(f"y = table[{quoted(table.target)}]{_as_strings(table)}")
    stratify = ["stratify=y"] if _can_stratify(table) else []
    lines += call(
        "X_train, X_test, y_train, y_test = train_test_split",
        [rows, "y", f"random_state={seed}", *stratify],
    )
    lines += _score(table, contestant, scoring, imports)
    return script(imports, lines, _purpose(table))


def definition(
    table: Table,
    contestant: str,
    kernel: Kernel | None,
    n_components: int,
    *,
    alpha: float,
    rule: str = DEFAULT_RULE,
    balanced: bool = False,
    seed: int = 0,
    width: int = WIDTH,
) -> list[str]:
    """Return the lines that define the model alone, without imports and preparation."""
    if contestant == MODEL:
        name, arguments = class_name(MODEL, table.task), _model_arguments(balanced, seed)
        return call(f"model = {name}", arguments, width)
    definitions, steps = _steps(
        table,
        contestant,
        kernel,
        n_components,
        alpha=alpha,
        rule=rule,
        balanced=balanced,
        seed=seed,
        imports=set(),
        width=width,
    )
    if len(steps) == 1:
        return [*definitions, f"model = {steps[0]}"]
    return call("model = make_pipeline", steps, width)


def _purpose(table: Table) -> str:
    """Return the comment at the top of a script."""
    return f"# Train a model on {printable(table.path.name)}. Run this in the folder of that file."


def _steps(
    table: Table,
    contestant: str,
    kernel: Kernel | None,
    n_components: int,
    *,
    alpha: float,
    rule: str,
    balanced: bool,
    seed: int,
    imports: set[str],
    width: int = WIDTH,
) -> tuple[list[str], list[str]]:
    """Return the lines before the pipeline, and the steps after the preparation."""
    if contestant == MODEL:
        return [], [f"{_model(table, imports)}({', '.join(_model_arguments(balanced, seed))})"]
    if contestant in BOOSTERS:
        module, kind = class_of(contestant, table.task)
        imports.add(f"from {module} import {kind}")
        return [], [f"{kind}({_arguments(settings_of(contestant, balanced=balanced, seed=seed))})"]
    penalty = f"alpha={alpha:g}" + (', class_weight="balanced"' if balanced else "")
    classifier = "Classifier" if table.task == "classification" else ""
    if contestant == OURS:
        assert kernel is not None
        imports.add(f"from quadfeat import QuadratureFeatures, QuadratureRidge{classifier}")
        arguments = _quadrature(kernel, n_components, rule, seed, imports)
        ridge = f"QuadratureRidge{classifier}(features=features, {penalty})"
        return call("features = QuadratureFeatures", arguments, width), [ridge]
    imports.add(f"from sklearn.linear_model import Ridge{classifier}")
    ridge = f"Ridge{classifier}({penalty})"
    if contestant == LINEAR:
        return [], [ridge]
    assert kernel is not None
    size = f"n_components={n_components}, random_state={seed}"
    definition, step = _rival(contestant, kernel, size, imports)
    return definition, [step, ridge]


def _arguments(settings: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name}={quoted(value) if isinstance(value, str) else repr(value)}"
        for name, value in settings.items()
    )


def _model(table: Table, imports: set[str]) -> str:
    """Return the class name of the model of quadfeat."""
    name = class_name(MODEL, table.task)
    imports.add(f"from quadfeat import {name}")
    return name


def _model_arguments(balanced: bool, seed: int) -> list[str]:
    weights = {"class_weight": "balanced"} if balanced else {}
    return [_arguments({**MODEL_SETTINGS, **weights, "random_state": seed})]


def _score(table: Table, contestant: str, scoring: Scoring, imports: set[str]) -> list[str]:
    """Return the lines that fit the model and print its score on test rows."""
    if scoring in ("accuracy", "r2"):
        return ["print(model.fit(X_train, y_train).score(X_test, y_test))"]
    fit = "model.fit(X_train, y_train)"
    has_probabilities = contestant in WITH_PROBABILITIES
    if scoring == "log-loss":
        if not has_probabilities:
            raise ValueError(f"{contestant} has no probabilities, which scoring='log-loss' needs.")
        imports.add("from sklearn.metrics import log_loss")
        arguments = "y_test, model.predict_proba(X_test), labels=model.classes_"
        return [fit, f"print(log_loss({arguments}))"]
    if scoring == "auc":
        imports.add("from sklearn.metrics import roc_auc_score")
        values = f"model.{'predict_proba' if has_probabilities else 'decision_function'}(X_test)"
        if len(np.unique(table.y)) == 2:
            second = "[:, 1]" if has_probabilities else ""
            return [fit, f"print(roc_auc_score(y_test, {values}{second}))"]
        imports.add("import numpy as np")
        return [
            fit,
            f"columns = zip(model.classes_, {values}.T)",
            "areas = [roc_auc_score(y_test == one, column) for one, column in columns]",
            "print(np.mean(areas))  # mean AUC, one class against the rest",
        ]
    function = {
        "balanced-accuracy": "balanced_accuracy_score",
        "rmse": "root_mean_squared_error",
    }[scoring]
    imports.add(f"from sklearn.metrics import {function}")
    return [fit, f"print({function}(y_test, model.predict(X_test)))"]


def _is_parquet(table: Table) -> bool:
    return table.path.suffix.lower() in (".parquet", ".pq")


def can_stream(table: Table) -> bool:
    """Return whether the script reads the file in blocks: a large CSV or Parquet file.

    Files that need more than one line of code to read are read as a whole, and so are NPZ files.
    """
    if table.n_rows < LARGE or printable(table.path.name) != table.path.name:
        return False
    starts = ("table = pd.read_csv(", "table = pd.read_parquet(")
    whole = len(table.code) == 1 or not _is_parquet(table)
    return whole and table.code[0].startswith(starts)


def _streaming(table: Table, seed: int) -> str:
    """Return a script that trains ``QuadratureRidge`` on blocks of a file.

    It is the candidate of the kernel model that does not need all rows at once.
    """
    imports: set[str] = set()
    plain = is_plain(table.columns)
    simple = plain and not table.target_missing and not table.text_target
    if _is_parquet(table) and simple:
        imports.add("from quadfeat import ParquetBlocks")
        columns = []
        lines = []
        if named(table.columns, "dropped"):
            lines += name_list("numeric", named(table.columns, "number"))
            columns = ["columns=numeric"]
        arguments = [quoted(table.path.name), f"target={quoted(table.target)}", *columns]
        lines += call("blocks = ParquetBlocks", [*arguments, 'dtype="float64"'])
    else:
        lines = _blocks(table, plain, imports)
    name = "QuadratureRidge" + ("Classifier" if table.task == "classification" else "")
    imports.add(f"from quadfeat import {name}")
    if "from quadfeat import ParquetBlocks" in imports:
        imports -= {"from quadfeat import ParquetBlocks", f"from quadfeat import {name}"}
        imports.add(f"from quadfeat import ParquetBlocks, {name}")
    lines += [
        *call(f"model = {name}", _model_arguments(False, seed)),
        "model.fit(blocks)  # one block at a time: the table need not fit in memory",
        "rows = next(iter(blocks))[0]",
        "print(model.predict(rows[:5]))",
    ]
    return script(imports, lines, _purpose(table))


def _blocks(table: Table, plain: bool, imports: set[str]) -> list[str]:
    """Return the lines that define ``blocks``, which reads the file on each iteration."""
    if _is_parquet(table):
        imports.add("import pyarrow.parquet as parquet")
        file = f"parquet.ParquetFile({quoted(table.path.name)})"
        reading = [
            f"with {file} as file:",
            f"    for batch in file.iter_batches({ROWS_PER_BLOCK}):",
            "        table = batch.to_pandas()",
        ]
    else:
        imports.add("import pandas as pd")
        read = table.code[0].removeprefix("table = ").removesuffix(")")
        reading = [f"with {read}, chunksize={ROWS_PER_BLOCK}) as file:", "    for table in file:"]
    if any(column.kind == "date" for column in table.columns):
        imports.add("import pandas as pd")
    changes = [*table.code[1:], *_without_missing_targets(table), *_conversions(table)]
    lines = [*_lists(table, explicit=True), "", "def tables():", *indented(reading)]
    lines += [*indented([*changes, "yield table"], 3), ""]
    rows = "table[numeric]"
    if not plain:
        imports.add("from sklearn.pipeline import make_pipeline")
        rows = "prepare.transform(table)"
        lines += _preparation(table, imports)
        lines += ["prepare.fit(next(tables()))  # the first block", ""]
        if "make_pipeline(" not in "\n".join(lines):
            imports.discard("from sklearn.pipeline import make_pipeline")
    return [
        *lines,
        "class Blocks:  # fit may iterate over the rows more than once",
        "    def __iter__(self):",
        "        for table in tables():",
        f"            yield {rows}, table[{quoted(table.target)}]{_as_strings(table)}",
        "",
        "blocks = Blocks()",
    ]


def _without_missing_targets(table: Table) -> list[str]:
    if not table.target_missing:
        return []
    return [f"table = table.dropna(subset=[{quoted(table.target)}]).copy()"]


def _as_strings(table: Table) -> str:
    text = table.task == "classification" and table.text_target
    return ".astype(object).map(str)" if text else ""


def _can_stratify(table: Table) -> bool:
    if table.task == "regression" or table.sampled:  # other rows may have other classes
        return False
    counts = np.unique(table.y, return_counts=True)[1]
    # The test set, a quarter of the rows, needs at least one row of each class.
    return bool(counts.min() >= 2) and len(counts) <= len(table.y) // 4


def _lists(table: Table, *, explicit: bool = False) -> list[str]:
    """Return the lines that list the columns of each kind.

    A long list of numeric columns is written as all columns except the others, unless it must be
    ``explicit``.
    """
    lines = []
    numeric = named(table.columns, "number", "date")
    dates, categorical = named(table.columns, "date"), named(table.columns, "category")
    if dates:
        lines += name_list("dates", dates)
    if categorical:
        lines += name_list("categorical", categorical)
    if numeric:
        whole = name_list("numeric", numeric)
        if explicit or len(whole) == 1:
            lines += whole
        else:
            lines += name_list("unused", [table.target, *named(table.columns, "dropped")])
            others = "unused + categorical" if categorical else "unused"
            lines.append(f"numeric = table.columns.drop({others})")
    return lines


def _conversions(table: Table) -> list[str]:
    """Return the lines that convert columns to numbers and strings."""
    lines = []
    if named(table.columns, "date"):
        lines += [
            'times = table[dates].apply(pd.to_datetime, format="ISO8601", utc=True)',
            f'origin = pd.Timestamp("{ORIGIN.date()}", tz="UTC")',
            "table[dates] = (times - origin) / pd.Timedelta(days=1)",
        ]
    if named(table.columns, "category"):
        lines.append("table[categorical] = table[categorical].astype(object).map(str)")
    if named(table.columns, "number", "date") and _is_parquet(table):
        lines.append("table[numeric] = table[numeric].astype(float)")
    return lines


def _preparation(table: Table, imports: set[str]) -> list[str]:
    """Return the lines that define ``prepare``, which turns columns into a matrix."""
    numeric = named(table.columns, "number", "date")
    categorical = named(table.columns, "category")
    missing = any_missing(table.columns, "number", "date")
    imports.add("from sklearn.compose import make_column_transformer")
    names = ["StandardScaler"] if numeric else []
    names += ["OneHotEncoder"] if categorical else []
    imports.add(f"from sklearn.preprocessing import {', '.join(sorted(names))}")
    lines, parts = [], []
    if numeric:
        scaler = "StandardScaler()"
        if missing:
            imports.add("from sklearn.impute import SimpleImputer")
            options = 'strategy="median", add_indicator=True, keep_empty_features=True'
            lines.append(f"imputer = SimpleImputer({options})")
            scaler = "make_pipeline(imputer, StandardScaler())"
        parts.append(f"({scaler}, numeric)")
    if categorical:
        settings = ['handle_unknown="infrequent_if_exist"', f"max_categories={MOST_CATEGORIES}"]
        lines += call("encoder = OneHotEncoder", [*settings, "sparse_output=False"])
        parts.append("(encoder, categorical)")
    return [*lines, *call("prepare = make_column_transformer", parts)]


def _quadrature(
    kernel: Kernel, n_components: int, rule: str, seed: int, imports: set[str]
) -> list[str]:
    """Return the arguments of ``QuadratureFeatures``."""
    imports.add(f"from quadfeat.kernels import {type(kernel).__name__}")
    chosen = [] if rule == DEFAULT_RULE else [f"rule={quoted(rule)}"]
    return [repr(kernel), *chosen, f"n_components={n_components}", f"random_state={seed}"]


def _rival(contestant: str, kernel: Kernel, size: str, imports: set[str]) -> tuple[list[str], str]:
    """Return the definitions for a map of scikit-learn, and its step in the pipeline."""
    imports.add(f"from sklearn.kernel_approximation import {contestant}")
    if contestant == RBF_SAMPLER:
        return [], f"RBFSampler(gamma={kernel.get_params()['gamma']!r}, {size})"
    definition, argument = _nystroem_kernel(kernel, imports)
    return definition, f"Nystroem({argument}, {size})"


@singledispatch
def _nystroem_kernel(kernel: Kernel, imports: set[str]) -> tuple[list[str], str]:
    """Return the definition of a kernel for ``Nystroem``, and the argument that passes it."""
    imports.add(f"from quadfeat.kernels import {type(kernel).__name__}")
    imports.add("from sklearn.gaussian_process.kernels import Kernel")
    lines = [
        "",
        "class BlockKernel(Kernel):  # lets Nystroem evaluate all pairs of rows at once",
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
