"""Damage saved models and checkpoints, and resume checkpoints with other data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import quadfeat
from quadfeat import (
    KernelRegressor,
    LocalGaussianProcess,
    QuadratureFeatures,
    QuadratureRidge,
    QuadratureRidgeClassifier,
)
from soak import processes
from soak.adapters import Stopped, eager_checkpoints, small_blocks, stopping_after
from soak.runner import Scenario, Trial

Array = NDArray[Any]
Columns = tuple[Array, Array, Array]  # rows, targets, weights
Notes = tuple[Counter[str], list[str]]  # events and findings

N_COLUMNS = 3
N_ROWS = 1600
ROWS_PER_BLOCK = 100
ROWS_PER_TABLE = 400

# How often a trial damages each file.
DAMAGES = 12

# Absolute tolerance, since sums of the same rows may use different blocks.
CLOSE = 1e-6


def damage(content: bytes, rng: np.random.Generator) -> tuple[str, bytes]:
    """Return the name of a random kind of damage, and the damaged content."""
    size = len(content)
    start, stop = sorted(int(place) for place in rng.integers(0, size + 1, 2))
    junk = rng.bytes(int(rng.integers(1, 200)))
    kinds: dict[str, Callable[[], bytes]] = {
        "flip": lambda: flipped(content, rng),
        "truncation": lambda: content[:start],
        "prefix": lambda: junk + content,
        "suffix": lambda: content + junk,
        "repetition": lambda: content + content,
        "missing part": lambda: content[:start] + content[stop:],
        "zeros": lambda: content[:start] + bytes(stop - start) + content[stop:],
        "exchanged parts": lambda: content[stop:] + content[start:stop] + content[:start],
    }
    # At least half of the damages are flips, since they are the hardest to detect.
    name = "flip" if rng.integers(2) else list(kinds)[int(rng.integers(len(kinds)))]
    return name, kinds[name]()


def flipped(content: bytes, rng: np.random.Generator) -> bytes:
    """Return the content with one or a few bits flipped."""
    array = np.frombuffer(content, dtype=np.uint8).copy()
    for place in rng.integers(0, len(array), int(rng.choice([1, 1, 2, 8]))):
        array[place] ^= 1 << int(rng.integers(8))
    return array.tobytes()


def data(rng: np.random.Generator) -> Columns:
    """Return rows, targets and weights."""
    X = rng.standard_normal((N_ROWS, N_COLUMNS))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1], rng.uniform(0.5, 2.0, N_ROWS)


def outputs(model: Any, X: Array) -> bytes:
    """Return the bytes of everything that a map or model computes for some rows."""
    if isinstance(model, QuadratureFeatures):
        results = [model.transform(X)]
    elif isinstance(model, QuadratureRidgeClassifier):
        results = [model.decision_function(X), model.classes_, model.coef_]
    elif isinstance(model, KernelRegressor):
        results = [model.predict(X), *model.predict_interval(X)]
    else:
        results = [model.predict(X), model.coef_]
    return b"".join(np.asarray(result).tobytes() for result in results)


def chosen_model(X: Array, y: Array) -> KernelRegressor:
    """Return a model that was chosen in a contest, with an encoder of columns."""
    ridge = QuadratureRidge("gaussian", alpha=1.0, n_components=20, rule="orf", random_state=0)
    process = LocalGaussianProcess("gaussian", alpha=0.1, n_neighbors=10)
    candidates = [("ridge", ridge), ("process", process)]
    with_missing = np.where(np.arange(len(X))[:, None] % 50 == 0, np.nan, X)
    return KernelRegressor(None, candidates=candidates).fit(with_missing, y)


def attack_models(rng: np.random.Generator, folder: Path) -> Notes:
    """Damage saved models. Loading must reject them or return the same model."""
    X, y, weights = data(rng)
    features = QuadratureFeatures(n_components=20, random_state=0).fit(X)
    labels = np.digitize(y, [-0.5, 0.5])
    models = [
        features,
        QuadratureRidge(features=features, alpha="gcv").fit(X, y, weights),
        QuadratureRidge("gaussian", alpha=1.0, n_components=20, solver="cg", random_state=0).fit(
            X, y
        ),
        QuadratureRidgeClassifier(alpha=1.0, features=features).fit(X, labels),
        chosen_model(X, y),
    ]
    events: Counter[str] = Counter()
    found = []
    for model in models:
        path = folder / "model.quadfeat"
        quadfeat.save(model, path)
        content, wanted = path.read_bytes(), outputs(model, X[:20])
        for _ in range(DAMAGES):
            name, changed = damage(content, rng)
            path.write_bytes(changed)
            events[name] += 1
            what = f"a saved {type(model).__name__} with a {name}"
            try:
                given = outputs(quadfeat.load(path), X[:20])
            except ValueError as error:
                if str(path) not in str(error):
                    found.append(f"{what} is rejected without naming the file: {error}")
                continue
            except Exception as error:
                found.append(f"{what} raises {type(error).__name__}: {error}")
                continue
            if given == wanted:
                events["damage undetected, harmless"] += changed != content
            else:
                found.append(f"{what} loads as another model")
    return events, found


class Fit:
    """A fit that leaves a checkpoint when it is stopped.

    Parameters
    ----------
    source : {"array", "stream"}
    solver : {"normal", "cg"}
    path : Path
        The path of the checkpoint.
    features : QuadratureFeatures
        A fitted map, so that the map does not depend on the rows.
    """

    def __init__(self, source: str, solver: str, path: Path, features: Any) -> None:
        self.source = source
        self.solver = solver
        self.path = path
        self.features = features

    def __str__(self) -> str:
        return f"a checkpoint of solver={self.solver!r} on {self.source} data"

    def run(
        self, columns: Columns, checkpoint: bool = True, rows_per_table: int = ROWS_PER_TABLE
    ) -> Array:
        """Fit the data and return the coefficients."""
        model = QuadratureRidge(
            features=self.features,
            solver=self.solver,
            alpha=0.1,
            tol=1e-6,
            random_state=0,
            checkpoint=self.path if checkpoint else None,
        )
        with small_blocks(ROWS_PER_BLOCK):
            if self.source == "array":
                model.fit(*columns)
            else:
                model.fit(
                    [
                        tuple(column[start : start + rows_per_table] for column in columns)
                        for start in range(0, len(columns[0]), rows_per_table)
                    ]
                )
        return np.append(model.coef_, model.intercept_)

    def leave(self, columns: Columns, rng: np.random.Generator) -> bytes:
        """Stop the fit after some checkpoints, and return the content of the last one."""
        # There is one checkpoint per block, or per step of conjugate gradients.
        last = N_ROWS // ROWS_PER_BLOCK if self.solver == "normal" else 5
        n_files = int(rng.integers(2, last))
        self.path.unlink(missing_ok=True)
        try:
            with eager_checkpoints(), stopping_after(n_files, self.path):
                self.run(columns)
        except Stopped:
            return self.path.read_bytes()
        raise RuntimeError("the fit was not stopped")


def attack_checkpoints(rng: np.random.Generator, folder: Path) -> Notes:
    """Damage checkpoints. A fit must reject them or end as if it had not been stopped."""
    columns = data(rng)
    features = QuadratureFeatures(n_components=20, random_state=0).fit(columns[0])
    events: Counter[str] = Counter()
    found = []
    for source in ("array", "stream"):
        for solver in ("normal", "cg"):
            fit = Fit(source, solver, folder / "state", features)
            wanted = fit.run(columns, checkpoint=False)
            content = fit.leave(columns, rng)
            for _ in range(DAMAGES):
                name, changed = damage(content, rng)
                fit.path.write_bytes(changed)
                events[name] += 1
                what = f"{fit} with a {name}"
                given, trouble = attempt(fit, columns)
                if trouble:
                    found.append(f"{what} {trouble}")
                elif given is not None:
                    if np.array_equal(given, wanted):
                        events["damage undetected, harmless"] += changed != content
                    else:
                        found.append(f"{what} gives another model without an error")
    return events, found


def attempt(fit: Fit, columns: Columns, **options: Any) -> tuple[Array | None, str | None]:
    """Return the result of a fit and what is wrong with its error.

    The result is None if the fit raised an error, and a proper rejection has nothing wrong.
    """
    try:
        return fit.run(columns, **options), None
    except ValueError as error:
        if str(fit.path) not in str(error) and "checkpoint" not in str(error):
            return None, f"is rejected without naming the file: {error}"
        return None, None
    except Exception as error:
        return None, f"raises {type(error).__name__}: {error}"


def other_data(columns: Columns, rng: np.random.Generator) -> dict[str, Columns]:
    """Return datasets that differ from the given one, by name."""
    X, y, weights = columns
    order = rng.permutation(N_ROWS)
    within = np.r_[rng.permutation(ROWS_PER_BLOCK), ROWS_PER_BLOCK:N_ROWS]
    row = int(rng.integers(N_ROWS))
    late = X.copy()
    late[1000:] += 0.1
    one, target, weight = X.copy(), y.copy(), weights.copy()
    one[row, int(rng.integers(N_COLUMNS))] += 1.0
    target[row] += 1.0
    weight[row] += 1.0
    half = np.repeat(rng.standard_normal((N_ROWS // 2, N_COLUMNS)), 2, axis=0)
    return {
        "permuted rows": (X[order], y[order], weights[order]),
        "rows permuted within a block": (X[within], y[within], weights[within]),
        "other rows after 1000": (late, y, weights),
        "one other row": (one, y, weights),
        "one other target": (X, target, weights),
        "one other weight": (X, y, weight),
        "exchanged columns": (X[:, ::-1], y, weights),
        "another dtype": (X.astype(np.float32), y, weights),
        "fewer rows": (X[:-ROWS_PER_TABLE], y[:-ROWS_PER_TABLE], weights[:-ROWS_PER_TABLE]),
        "more rows": (np.r_[X, X[:50]], np.r_[y, y[:50]], np.r_[weights, weights[:50]]),
        "other rows in pairs": (half, y, weights),
    }


def attack_identity(rng: np.random.Generator, folder: Path) -> Notes:
    """Resume a checkpoint of other data. A fit must reject it or end as if it did not exist."""
    columns = data(rng)
    # Rows in equal pairs, whose hashes would cancel out if exclusive or combined them.
    pairs = (np.repeat(columns[0][::2], 2, axis=0), columns[1], columns[2])
    features = QuadratureFeatures(n_components=20, random_state=0).fit(columns[0])
    events: Counter[str] = Counter()
    found = []
    for source in ("array", "stream"):
        for solver in ("normal", "cg"):
            fit = Fit(source, solver, folder / "state", features)
            content, of_pairs = fit.leave(columns, rng), fit.leave(pairs, rng)
            for name, other in other_data(columns, rng).items():
                fit.path.write_bytes(of_pairs if "pairs" in name else content)
                events["fit to other data"] += 1
                given, trouble = attempt(fit, other)
                if trouble:
                    found.append(f"{fit} with {name} {trouble}")
                elif given is not None:
                    # A change after the finished rows is harmless up to rounding: all targets
                    # contribute to the mean that is subtracted from them.
                    wanted = fit.run(other, checkpoint=False)
                    tolerance = 0.0 if "permuted" in name else CLOSE
                    if np.allclose(given, wanted, rtol=0.0, atol=tolerance):
                        events["other data accepted, harmless"] += 1
                    else:
                        found.append(f"{fit} is accepted for {name}, but the model is wrong")
            if source == "stream":
                fit.path.write_bytes(content)
                events["fit to other tables of the same rows"] += 1
                given, trouble = attempt(fit, columns, rows_per_table=300)
                wanted = fit.run(columns, checkpoint=False)
                if trouble:
                    found.append(f"{fit} with other tables {trouble}")
                elif given is not None and not np.allclose(given, wanted, rtol=0, atol=CLOSE):
                    found.append(f"{fit} with other tables of the same rows gives a wrong model")
    return events, found


ATTACKS = (attack_models, attack_checkpoints, attack_identity)


class Flips(Scenario):
    """Damage saved models and checkpoints, and resume checkpoints with other data.

    Parameters
    ----------
    isolated : bool, default=True
        Whether to run in a child process, which may crash.
    """

    name = "flips"

    def __init__(self, *, isolated: bool = True) -> None:
        self.isolated = isolated

    def missing(self) -> str | None:
        return processes.missing() if self.isolated else None

    def run(self, trial: Trial) -> None:
        attack = ATTACKS[trial.number % len(ATTACKS)]
        if self.isolated:
            try:
                events, found = processes.call(attack, trial.rng, trial.folder)
            except processes.Failed as failure:
                trial.report(f"{attack.__name__}: {failure}")
                return
        else:
            events, found = attack(trial.rng, trial.folder)
        for event, times in events.items():
            trial.count(event, times)
        for what in found:
            trial.report(what)
