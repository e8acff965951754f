"""Write the script that trains the recommended model on the table of the user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from quadfeat.apps.compare.boosting import class_of, settings_of
from quadfeat.apps.compare.contestants import BOOSTERS, LINEAR, MODEL, class_name
from quadfeat.apps.compare.fitting import MODEL_SETTINGS
from quadfeat.apps.compare.lines import WIDTH, call, indented, script
from quadfeat.apps.compare.scoring import Scoring
from quadfeat.apps.compare.table import Table
from quadfeat.apps.reporting.text import printable, quoted

LARGE = 100_000  # from this number of rows on, the script reads the file in blocks
ROWS_PER_BLOCK = 2**16


class Recipe(NamedTuple):
    """A model with all that defines it.

    Attributes
    ----------
    contestant : str
    alpha, gamma : float
        NaN for models without them.
    n_components : int
        Number of features of scikit-learn's maps.
    seed : int
    settings : mapping
        Arguments of the kernel model.
    """

    contestant: str
    alpha: float = np.nan
    gamma: float = np.nan
    n_components: int = 0
    seed: int = 0
    settings: Mapping[str, Any] = MODEL_SETTINGS


def build(table: Table, recipe: Recipe, scoring: Scoring = "accuracy") -> str:
    """Return a script that trains a model. It runs in the folder of the table.

    The kernel model is trained on all rows and saved. It reads a large file block by block. The
    scripts of rivals print the score on held-out rows.
    """
    balanced = scoring == "balanced-accuracy"
    if recipe.contestant != MODEL:
        return _rival(table, recipe, scoring)
    if can_stream(table) and not balanced:
        return _streaming(table, recipe)
    name = class_name(MODEL, table.task)
    imports = {"import pandas as pd", f"from quadfeat import {name}, save", *_numpy(table)}
    lines = [
        *table.code,
        *_without_missing_targets(table),
        *_columns(table),
        f"model = {_default(table, recipe, balanced)}.fit(X, y)",
        "print(model.leaderboard_)  # validated losses of the candidates",
        *_use(table, "X[:5]"),
    ]
    return script(imports, lines, _purpose(table))


def definition(
    table: Table, recipe: Recipe, *, balanced: bool = False, width: int = WIDTH
) -> list[str]:
    """Return the lines that define the model alone, without imports and preparation."""
    if recipe.contestant == MODEL:
        return [f"model = {_default(table, recipe, balanced)}"]
    return call("model = make_pipeline", _steps(table, recipe, balanced, set()), width)


def _default(table: Table, recipe: Recipe, balanced: bool) -> str:
    """Return the code of the kernel model."""
    weights = {"class_weight": "balanced"} if balanced else {}
    seed = {"random_state": recipe.seed} if recipe.seed else {}  # 0 is the default
    arguments = _arguments({**recipe.settings, **weights, **seed})
    return f"{class_name(MODEL, table.task)}({arguments})"


def _purpose(table: Table) -> str:
    """Return the comment at the top of a script."""
    return f"# Train a model on {printable(table.path.name)}. Run this in the folder of that file."


def _numpy(table: Table) -> set[str]:
    return {"import numpy as np"} if any("np." in line for line in table.code) else set()


def _arguments(settings: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name}={quoted(value) if isinstance(value, str) else repr(value)}"
        for name, value in settings.items()
    )


def _columns(table: Table) -> list[str]:
    """Return the lines that split the table into columns and targets."""
    line = f"X, y = {_inputs(table)}, {_target(table)}"
    return [line] if len(line) <= WIDTH else [f"X = {_inputs(table)}", f"y = {_target(table)}"]


def _target(table: Table) -> str:
    return f"table[{quoted(table.target)}]{'.astype(str)' if table.target_as_text else ''}"


def _inputs(table: Table) -> str:
    """Return the columns to learn from: all of them, apart from the target and row numbers."""
    removed = ", ".join(map(quoted, [table.target, *table.unused]))
    return f"table.drop(columns=[{removed}])"


def _use(table: Table, rows: str) -> list[str]:
    """Return the lines that predict a few rows and save the model."""
    if table.task == "regression":
        line = f"lower, upper = model.predict_interval({rows}, coverage=0.9)"
    else:
        line = f"probabilities = model.predict_proba({rows})  # columns are model.classes_"
    return [line, 'save(model, "model.quadfeat")']


def _rival(table: Table, recipe: Recipe, scoring: Scoring) -> str:
    """Return a script that trains a rival and prints its score."""
    imports = {
        "import pandas as pd",
        "from quadfeat import TableEncoder",
        "from sklearn.model_selection import train_test_split",
        "from sklearn.pipeline import make_pipeline",
        *_numpy(table),
    }
    steps = _steps(table, recipe, scoring == "balanced-accuracy", imports)
    stratify = ["stratify=y"] if _can_stratify(table) else []
    lines = [
        *table.code,
        *_without_missing_targets(table),
        *_columns(table),
        *call("model = make_pipeline", steps),
        *call(
            "X_train, X_test, y_train, y_test = train_test_split",
            ["X", "y", f"random_state={recipe.seed}", *stratify],
        ),
        *_score(table, recipe.contestant, scoring, imports),
    ]
    return script(imports, lines, _purpose(table))


def _steps(table: Table, recipe: Recipe, balanced: bool, imports: set[str]) -> list[str]:
    """Return the steps of the pipeline of a rival."""
    name, seed = recipe.contestant, recipe.seed
    if name in BOOSTERS:
        module, kind = class_of(name, table.task)
        imports.add(f"from {module} import {kind}")
        settings = settings_of(name, balanced=balanced, seed=seed)
        return ["TableEncoder()", f"{kind}({_arguments(settings)})"]
    imports.add("from sklearn.preprocessing import StandardScaler")
    ridge = "RidgeClassifier" if table.task == "classification" else "Ridge"
    imports.add(f"from sklearn.linear_model import {ridge}")
    weights = ', class_weight="balanced"' if balanced else ""
    maps = []
    if name != LINEAR:
        imports.add(f"from sklearn.kernel_approximation import {name}")
        size = f"n_components={recipe.n_components}, random_state={seed}"
        maps = [f"{name}(gamma={recipe.gamma:g}, {size})"]
    ending = f"{ridge}(alpha={recipe.alpha:g}{weights})"
    return ["TableEncoder()", "StandardScaler()", *maps, ending]


def _score(table: Table, contestant: str, scoring: Scoring, imports: set[str]) -> list[str]:
    """Return the lines that fit a rival and print its score on test rows."""
    if scoring in ("accuracy", "r2"):
        return ["print(model.fit(X_train, y_train).score(X_test, y_test))"]
    fit = "model.fit(X_train, y_train)"
    has_probabilities = contestant in BOOSTERS
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


def _streaming(table: Table, recipe: Recipe) -> str:
    """Return a script that trains the kernel model on blocks of a file."""
    name = class_name(MODEL, table.task)
    simple = table.is_plain and not table.target_missing and not table.target_as_text
    imports: set[str] = set()
    if _is_parquet(table) and simple and not table.unused:
        imports.add(f"from quadfeat import {name}, ParquetBlocks, save")
        arguments = [quoted(table.path.name), f"target={quoted(table.target)}", 'dtype="float64"']
        lines = call("blocks = ParquetBlocks", arguments)
    else:
        encoder = "" if table.is_plain else "TableEncoder, "
        imports.add(f"from quadfeat import {name}, {encoder}save")
        lines = _blocks(table, imports)
    lines += [
        *definition(table, recipe),
        "model.fit(blocks)  # one block at a time: the table need not fit in memory",
        "print(model.leaderboard_)",
        "rows = next(iter(blocks))[0]",
        *_use(table, "rows[:5]"),
    ]
    if any(line.startswith("encoder = ") for line in lines):
        lines.append('save(encoder, "encoder.quadfeat")  # encodes new rows for the model')
    return script(imports, lines, _purpose(table))


def _blocks(table: Table, imports: set[str]) -> list[str]:
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
    changes = [*table.code[1:], *_without_missing_targets(table)]
    rows, first = _inputs(table), []
    if not table.is_plain:
        first = [
            "table = next(tables())",
            f"encoder = TableEncoder().fit({rows})  # on the first block",
            "",
        ]
        rows = f"encoder.transform({rows})"
    return [
        "def tables():",
        *indented(reading),
        *indented([*changes, "yield table"], 3),
        "",
        *first,
        "class Blocks:  # fit may iterate over the rows more than once",
        "    def __iter__(self):",
        "        for table in tables():",
        f"            yield {rows}, {_target(table)}",
        "",
        "blocks = Blocks()",
    ]


def _without_missing_targets(table: Table) -> list[str]:
    if not table.target_missing:
        return []
    return [f"table = table.dropna(subset=[{quoted(table.target)}])"]


def _can_stratify(table: Table) -> bool:
    if table.task == "regression" or table.sampled:  # other rows may have other classes
        return False
    counts = np.unique(table.y, return_counts=True)[1]
    # The test set, a quarter of the rows, needs at least one row of each class.
    return bool(counts.min() >= 2) and len(counts) <= len(table.y) // 4
