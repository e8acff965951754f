"""Fuzz the Python bindings of the native core, guided by coverage. Run it with ``make fuzz``.

The fuzzer chooses a map and calls of its methods, or neighborhoods of a Gaussian process, with
random shapes, dtypes, strides and numbers of threads. Most arguments are valid, and some are wrong
in any way that Python allows. The core must reject invalid arguments with an exception. For valid
ones, it must compute the same numbers as NumPy and write nowhere outside of the output. Crashes and
reports of the sanitizers also count as findings.
"""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass
from typing import Any

import atheris
import numpy as np
from choices import (
    ABSURD,
    CORES,
    REJECTIONS,
    Array,
    Choices,
    Place,
    argument,
    misaligned,
    same,
)
from neighborhoods import check_neighborhoods

from quadfeat.engine import _native
from quadfeat.engine import reference as reference
from quadfeat.kernels.nonlinearities import Fourier, Nonlinearity, Ramp

STRUCTURES = ("given", "dense", "butterfly", "hadamard")
PHIS = ("identity", "fourier", "step", "ramp", "squared_ramp")
MAPS = {np.float32: _native.MapFloat32, np.float64: _native.MapFloat64}
LARGEST = {
    np.float32: _native.largest_magnitude_float32,
    np.float64: _native.largest_magnitude_float64,
}

LIMITS = (np.inf, np.inf, np.inf, 1e300, 2.0, 1.0, 0.0, -1.0, np.nan)


@dataclass(frozen=True)
class Plan:
    """A consistent map, stored as the arguments of a native map."""

    dtype: Any
    parts: dict[str, Any]

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.parts["radii"])

    @property
    def n_columns(self) -> int:
        """Number of columns of the features."""
        pairs = self.parts["phi"] == "fourier" or self.parts["reflected"]
        return (
            self.n_nodes * (2 if pairs else 1)
            - self.parts["last_is_single"]
            + self.parts["has_origin"]
        )

    def arguments(self, X: Array) -> Array:
        """Return the inner products with the directions times the radii, in float64."""
        parts, rows = self.parts, len(X)
        u = X.astype(np.float64) * parts["factors"]
        if parts["structure"] == "dense":
            u = u @ parts["matrix"].astype(np.float64).T
        elif parts["structure"] != "given":
            columns = np.zeros((parts["size"], rows))
            columns[: parts["d"]] = u.T
            turned = self._turned(columns)
            if parts["simplex"]:
                turned = reference.simplex(turned)
            u = np.concatenate(turned).T
        return u[:, : self.n_nodes] * parts["radii"].astype(np.float64)

    def _turned(self, columns: Array) -> Array:
        """Return the columns rotated by the matrix of each block."""
        parts = self.parts
        if parts["structure"] == "butterfly":
            return reference.butterfly(
                columns, parts["cosines"], parts["sines"], parts["permutations"]
            )
        count, rounds, size = parts["diagonals"].shape
        turned = np.broadcast_to(columns, (count, *columns.shape))
        for k in range(rounds):
            if parts["permutations"].size:
                turned = turned[np.arange(count)[:, None], parts["permutations"][:, k]]
            diagonals = parts["diagonals"][:, k, :, None].astype(np.float64)
            turned = reference.walsh_hadamard(turned * diagonals) * np.sqrt(size)
        return turned

    def features(self, arguments: Array) -> Array:
        """Return the features in float64."""
        parts, nodes = self.parts, self.n_columns - self.parts["has_origin"]
        features = np.full((len(arguments), self.n_columns), float(parts["origin"]))
        amplitudes = parts["amplitudes"].astype(np.float64)
        if parts["phi"] == "identity":
            features[:, :nodes] = arguments * amplitudes
            return features
        fourier = parts["phi"] == "fourier"
        phi: Nonlinearity = (
            Fourier() if fourier else Ramp(("step", "ramp", "squared_ramp").index(parts["phi"]))
        )
        unit = np.pi if fourier else 1.0  # the core measures angles in half turns
        reference.write_features(
            arguments * unit,
            phi,
            amplitudes,
            reflected=parts["reflected"],
            last_is_single=parts["last_is_single"],
            phase=parts["phase"] * unit,
            out=features[:, :nodes],
        )
        return features


def make_plan(choices: Choices) -> Plan:
    """Return a consistent map."""
    dtype = choices.pick((np.float32, np.float64))
    structure, phi = choices.pick(STRUCTURES), choices.pick(PHIS)
    rng = choices.generator()
    d = choices.number(1, 40) if choices.flag() else choices.number(1, 8)
    rounds, simplex = choices.number(1, 3), choices.flag()
    size = 1 << (d - 1).bit_length() if structure == "hadamard" else d
    structured = structure in ("butterfly", "hadamard")
    n_nodes = choices.number(1, d if structure == "given" else 150)
    blocks = -(-n_nodes // (size + simplex)) if structured else choices.number(0, 2)
    shape = (blocks, rounds, size)
    empty = np.empty(0, dtype=dtype)
    below, on = reference.simplex_coefficients(size) if simplex else (empty, empty)
    # Include multiples of quarter turns, whose tangents may be infinite.
    angles = rng.uniform(-np.pi, np.pi, (blocks, rounds, size - 1))
    quarters = rng.random(angles.shape) < 0.2
    angles[quarters] = np.round(angles[quarters] / (np.pi / 2)) * (np.pi / 2)
    permuted = structure == "butterfly" or (structure == "hadamard" and choices.flag())
    orders = rng.permuted(np.broadcast_to(np.arange(size, dtype=np.int32), shape), axis=2)
    signs = rng.choice([-1.0, 1.0], shape) / np.sqrt(size)
    reflected = phi not in ("identity", "fourier") and choices.flag()
    parts: dict[str, Any] = {
        "structure": structure,
        "phi": phi,
        "simplex": simplex,
        "reflected": reflected,
        "last_is_single": (phi == "fourier" or reflected) and choices.flag(),
        "d": d,
        "size": size,
        "n_blocks": blocks,
        "rounds": rounds,
        "matrix": rng.standard_normal((n_nodes, d)) if structure == "dense" else empty,
        "cosines": np.cos(angles) if structure == "butterfly" else np.empty(0),
        "sines": np.sin(angles) if structure == "butterfly" else np.empty(0),
        "diagonals": signs if structure == "hadamard" else empty,
        "permutations": orders if permuted else np.empty(0, dtype=np.int32),
        "below": below,
        "on": on,
        "factors": rng.uniform(-2, 2, d),
        "radii": rng.uniform(0, 2, n_nodes),
        "amplitudes": rng.uniform(0, 2, n_nodes),
        "phase": float(rng.uniform(-1, 1)),
        "has_origin": choices.flag(),
        "origin": 0.5,
    }
    for name in ("matrix", "diagonals", "below", "on", "factors", "radii", "amplitudes"):
        parts[name] = np.asarray(parts[name], dtype=dtype)
    return Plan(dtype, parts)


def spoil(choices: Choices, parts: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of a map with one of them invalid or with another memory layout."""
    name = choices.pick(sorted(parts))
    value = parts[name]
    if isinstance(value, np.ndarray):
        kind = choices.number(0, 7)
        value = (
            lambda: value.ravel()[:-1],
            lambda: np.append(value, value.dtype.type(1)),
            lambda: value[..., None],
            lambda: np.asfortranarray(value),
            lambda: misaligned(value),
            lambda: value.astype(choices.pick((np.int32, np.float64, np.float32, ">f8", "c16"))),
            lambda: np.full_like(value, choices.pick((-1, 2**31 - 1, 1000))),
            lambda: choices.pick((None, "text", 3, [], value.tolist())),
        )[kind]()
    elif isinstance(value, bool):
        value = not value
    elif isinstance(value, int):
        value = choices.pick((*ABSURD, value + 1, value - 1, 2 * value, None, 1.5))
    elif isinstance(value, float):
        value = choices.pick((np.nan, np.inf, -1e300, None, "text"))
    else:
        value = choices.pick((*STRUCTURES, *PHIS, "", "wavelet", None, 3))
    return parts | {name: value}


def rows_for(choices: Choices, plan: Plan) -> Array:
    """Return rows to map."""
    n_rows = choices.number(0, 40)
    X = choices.generator().uniform(-2, 2, (n_rows, plan.parts["d"])).astype(plan.dtype)
    if n_rows and choices.rarely():
        extreme = choices.pick((0.0, np.nan, np.inf, -np.inf, 1e30, 1e-40))
        X[choices.number(0, n_rows - 1)] = extreme
    return X


def check_transform(choices: Choices, plan: Plan, native: Any) -> None:
    """Compare features with those that NumPy computes."""
    X = rows_for(choices, plan)
    out = Place(choices, np.full((len(X), plan.n_columns), np.nan, dtype=plan.dtype))
    rows, target = argument(choices, X), out.view
    if choices.rarely():
        target = argument(choices, target)
    limit = choices.pick(LIMITS)
    try:
        within = native.transform(rows, target, choices.threads(), choices.core(), limit)
    except REJECTIONS:
        return
    finally:
        out.check()
    if target is not out.view or not same(rows, X):
        return
    expected = limit == np.inf or (np.abs(X) <= min(limit, np.finfo(X.dtype).max)).all()
    assert within == expected, (X, limit)
    if not within or not (np.abs(X) <= 2).all():
        return
    eps = np.finfo(plan.dtype).eps
    arguments = plan.arguments(X)
    # Rotations preserve lengths, so rounding errors grow only with the length of a row.
    lengths = np.linalg.norm(X.astype(np.float64) * plan.parts["factors"], axis=1)[:, None]
    if plan.parts["structure"] == "dense":
        lengths = lengths * np.linalg.norm(plan.parts["matrix"].astype(np.float64), axis=1)
    slack = 64 * eps * (1 + lengths * plan.parts["radii"])
    low, high = (plan.features(arguments + sign * slack) for sign in (-1, 1))
    expected = plan.features(arguments)
    # Monotonic functions lie between low and high. Cosines change no more than their arguments.
    spread = np.abs(high - low) + np.abs(high - expected) + np.abs(low - expected)
    most = 2 * np.pi * slack.max(initial=eps)
    floor = most if plan.parts["phi"] == "fourier" else 64 * eps
    error = np.abs(out.view - expected)
    assert (error <= spread + floor * (1 + np.abs(expected))).all(), (plan.parts, error.max())


def check_products(choices: Choices, plan: Plan, native: Any) -> None:
    """Compare products with those of stored features."""
    X = rows_for(choices, plan)
    Z = np.empty((len(X), plan.n_columns), dtype=plan.dtype)
    native.transform(X, Z, 1, choices.pick(CORES))
    name = choices.pick(("multiply", "transposed_multiply", "normal_multiply"))
    n_outputs, rng = choices.number(0, 12), choices.generator()
    many = Z.astype(np.float64)
    right = rng.standard_normal((len(X) if name[0] == "t" else plan.n_columns, n_outputs))
    right = right.astype(plan.dtype)
    weights = rng.uniform(0, 2, (len(X), 1)).astype(plan.dtype)
    if name == "multiply":
        start = np.full((len(X), n_outputs), np.nan, dtype=plan.dtype)
    else:
        start = rng.standard_normal((plan.n_columns, n_outputs))
    out = Place(choices, start)
    given = [argument(choices, values) for values in (X, weights, right)]
    arguments = given if name == "normal_multiply" else [given[0], given[2]]
    target = argument(choices, out.view) if choices.rarely() else out.view
    limit = choices.pick((float("inf"), float("inf"), 1.0))
    try:
        within = getattr(native, name)(*arguments, target, choices.threads(), choices.core(), limit)
    except REJECTIONS:
        return
    finally:
        out.check()
    faithful = all(map(same, given, (X, weights, right)))
    if target is not out.view or not faithful or not np.isfinite(many).all():
        return
    assert within == bool(limit == np.inf or (np.abs(X) <= limit).all()), limit
    if not within:
        assert name == "multiply" or np.array_equal(out.view, start), "a sum was written"
        return
    if not (np.abs(X) <= 2).all():  # cores round huge angles differently
        return
    factor, sizes = right.astype(np.float64), np.abs(right.astype(np.float64))
    if name == "multiply":
        expected, scale = many @ factor, np.abs(many) @ sizes
    elif name == "transposed_multiply":
        expected, scale = start + many.T @ factor, np.abs(start) + np.abs(many).T @ sizes
    else:
        expected = start + many.T @ (weights * (many @ factor))
        scale = np.abs(start) + np.abs(many).T @ (weights * (np.abs(many) @ sizes))
    if scale.max(initial=0) > 1e30:  # intermediate sums may be beyond the range of float32
        return
    limits = np.finfo(plan.dtype)  # below `tiny`, rounding errors are not relative
    slack = limits.eps * (64 + plan.n_columns + len(X)) * scale + limits.tiny
    assert (np.abs(out.view - expected) <= slack).all(), (name, plan.parts)


def check_largest(choices: Choices) -> None:
    """Compare the largest magnitude with the one that NumPy finds."""
    dtype = choices.pick((np.float32, np.float64))
    shape = (choices.number(0, 30), choices.number(0, 90))
    X = choices.generator().standard_normal(shape).astype(dtype)
    if X.size and choices.flag():
        X.flat[choices.number(0, X.size - 1)] = choices.pick(
            (np.nan, -np.nan, np.inf, -np.inf, 1e30)
        )
    given = argument(choices, X, endless=False)
    try:
        largest = LARGEST[dtype](given, choices.core())
    except REJECTIONS:
        return
    if not same(given, X):
        return
    expected = np.abs(X).max(initial=0)
    assert largest == expected or not (np.isfinite(largest) or np.isfinite(expected)), (X, largest)


def fuzz_one(data: bytes) -> None:
    """Run the calls that these bytes encode."""
    choices = Choices(data)
    subject = choices.number(0, 7)
    if subject == 0:
        check_largest(choices)
        return
    if subject <= 2:
        check_neighborhoods(choices)
        return
    plan = make_plan(choices)
    make = MAPS[plan.dtype]
    if choices.number(0, 3) == 0:
        try:
            native = make(**spoil(choices, plan.parts))
        except REJECTIONS:
            return
        # An accepted map must be safe to use. Its numbers may differ from those of the plan.
        for _ in range(2):
            X = rows_for(choices, plan)
            out = Place(choices, np.zeros((len(X), plan.n_columns), dtype=plan.dtype))
            with contextlib.suppress(*REJECTIONS):
                native.transform(X, out.view, choices.threads(), choices.core())
            out.check()
        return
    native = make(**plan.parts)
    for _ in range(choices.number(1, 3)):
        choices.pick((check_transform, check_products))(choices, plan, native)


if __name__ == "__main__":
    atheris.Setup(sys.argv, fuzz_one)
    atheris.Fuzz()
