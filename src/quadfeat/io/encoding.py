"""Convert models to trees of JSON values and arrays, which ``quadfeat.save`` writes, and back.

JSON values stand for themselves. Everything else is a JSON object with a ``"type"``: a container or
number that JSON does not have, a reference to an array, or a registered class with its attributes
(:mod:`quadfeat.io.registry`). Names of classes are looked up in the registry only, so a tree cannot
build other objects.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from quadfeat._utils import validation as check
from quadfeat._utils.random import BIT_GENERATORS, check_state, restored
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.io.migrations import migrated
from quadfeat.io.registry import Registration, registered_as, registration_of

# Metadata requests belong to a pipeline, and are not part of an estimator.
NOT_KEPT = ("_metadata_request",)

Tree = Any


class Encoder:
    """Converts values to trees, and collects their arrays.

    Attributes
    ----------
    arrays : dict
        The arrays that trees refer to, by name. An array that occurs twice is stored once.
    """

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self._names: dict[tuple[int, bool], str] = {}
        self._kept: list[Any] = []  # keeps objects alive, so their ids stay unique

    def encode(self, value: Any, where: str) -> Tree:
        """Return the tree of a value; errors refer to the value as ``where``."""
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            if math.isfinite(value):
                return value
            return {"type": "float", "value": repr(value)}
        if isinstance(value, np.ndarray):
            return self._encode_array(value, where)
        if isinstance(value, np.generic) and _is_plain(value.dtype):
            return {
                "type": "scalar",
                "dtype": value.dtype.str,
                "value": self.encode(value.item(), where),
            }
        if type(value) is list:
            return self._encode_items(value, where)
        if type(value) is tuple:
            return {"type": "tuple", "items": self._encode_items(value, where)}
        if type(value) is dict:
            items = [
                [self.encode(key, f"a key of {where}"), self.encode(item, f"{where}[{key!r}]")]
                for key, item in value.items()
            ]
            return {"type": "dict", "items": items}
        if isinstance(value, (np.random.Generator, np.random.RandomState)):
            return self._encode_generator(value, where)
        entry = registration_of(type(value))
        if entry is None:
            raise _cannot_save(where, value)
        return self._encode_object(value, entry, where)

    def _encode_items(self, values: Iterable[Any], where: str) -> list[Tree]:
        return [self.encode(item, f"{where}[{index}]") for index, item in enumerate(values)]

    def _encode_array(self, array: Array, where: str) -> Tree:
        if array.dtype.kind == "O":  # names of columns, or labels
            items = self._encode_items(array.ravel().tolist(), where)
            return {"type": "objects", "shape": list(array.shape), "items": items}
        if not _is_plain(array.dtype):
            raise _cannot_save(where, array.dtype)
        return {"type": "array", "name": self._named(array)}

    def _encode_generator(self, value: Any, where: str) -> Tree:
        legacy = isinstance(value, np.random.RandomState)
        state = value.get_state(legacy=False) if legacy else value.bit_generator.state
        if state["bit_generator"] not in BIT_GENERATORS:
            raise _cannot_save(where, value)
        return {
            "type": "RandomState" if legacy else "Generator",
            "number": self._number(value),
            "state": self.encode(state, where),
        }

    def _encode_object(self, value: Any, entry: Registration, where: str) -> Tree:
        prepare = getattr(entry.kind, "before_saving", None)
        if prepare is not None:
            prepare(value)
        held = entry.attributes(value)
        attributes = {name: item for name, item in held.items() if name not in NOT_KEPT}
        unknown = sorted(set(attributes) - set(entry.allowed))
        if unknown:
            raise ValueError(
                f"{where}.{unknown[0]} cannot be saved, since its class does not declare this "
                "attribute. Delete it, list it in saved_attributes or unsaved_attributes of the "
                "class, or pickle the object."
            )
        encoded: dict[str, Tree] = {}
        for name, item in attributes.items():
            if name in entry.triangles:
                encoded[name] = {"type": "triangle", "name": self._named(item, triangle=True)}
            else:
                encoded[name] = self.encode(item, f"{where}.{name}")
        return {"type": entry.name, "attributes": encoded}

    def _named(self, array: Array, *, triangle: bool = False) -> str:
        """Return the name of an array; store the array if it is new."""
        key = (id(array), triangle)
        if key not in self._names:
            self._names[key] = str(len(self.arrays))
            self._kept.append(array)
            self.arrays[self._names[key]] = _upper_triangle(array) if triangle else array
        return self._names[key]

    def _number(self, value: Any) -> int:
        """Return a number that identifies an object, which may occur several times."""
        for number, known in enumerate(self._kept):
            if known is value:
                return number
        self._kept.append(value)
        return len(self._kept) - 1


class Decoder:
    """Converts trees back to values.

    Parameters
    ----------
    read : callable
        Returns an array, given its name.
    found_format : int
        The format of the file.
    """

    def __init__(self, read: Callable[[str], Array], found_format: int) -> None:
        self._read = read
        self._format = found_format
        self._made: dict[Any, Any] = {}  # objects that may occur several times
        self._makers: dict[str, Callable[[dict[str, Any]], Any]] = {
            "float": lambda tree: _not_finite(tree["value"]),
            "scalar": self._decode_scalar,
            "tuple": lambda tree: tuple(self.decode(tree["items"])),
            "dict": self._decode_dict,
            "path": lambda tree: None,  # format 1 stored the path of a checkpoint
            "array": lambda tree: self._once(("array", tree["name"]), self._array),
            "triangle": lambda tree: self._once(("triangle", tree["name"]), self._triangle),
            "objects": self._decode_objects,
            "Generator": self._decode_generator,
            "RandomState": self._decode_generator,
        }

    def decode(self, tree: Tree) -> Any:
        """Return the value of a tree; raise an error of any type if the tree is not valid."""
        if isinstance(tree, list):
            return [self.decode(item) for item in tree]
        if not isinstance(tree, dict):
            return tree
        kind = tree["type"]
        if kind in self._makers:
            return self._makers[kind](tree)
        return self._decode_object(tree)

    def _decode_object(self, tree: dict[str, Any]) -> Any:
        entry = registered_as(tree["type"])
        attributes = {name: self.decode(item) for name, item in tree["attributes"].items()}
        if self._format == 1:  # format 1 stored paths
            paths = entry.declared("path_parameters")
            attributes |= {name: None for name in paths if name in attributes}
        return entry.build(migrated(entry.kind, attributes, self._format))

    def _decode_scalar(self, tree: dict[str, Any]) -> Any:
        dtype, value = np.dtype(str(tree["dtype"])), self.decode(tree["value"])
        # Check the type of the value: np.bytes_(n) of an integer would allocate n bytes.
        kinds: Any = {"b": bool, "i": int, "u": int, "f": float, "U": str}.get(dtype.kind)
        if kinds is None or not _is_plain(dtype) or type(value) is not kinds:
            raise ValueError(f"a value of type {type(value).__name__} has dtype {dtype}")
        return dtype.type(value)

    def _decode_dict(self, tree: dict[str, Any]) -> dict[Any, Any]:
        return {self.decode(key): self.decode(value) for key, value in tree["items"]}

    def _decode_objects(self, tree: dict[str, Any]) -> Array:
        items = self.decode(tree["items"])
        array = np.empty(len(items), dtype=object)
        array[:] = items
        return array.reshape(tree["shape"])

    def _decode_generator(self, tree: dict[str, Any]) -> Any:
        def make(_: Any) -> Any:
            state = self.decode(tree["state"])
            rng = restored(check_state(state))
            if tree["type"] == "Generator":
                return rng
            legacy = np.random.RandomState(rng.bit_generator)
            legacy.set_state(state)  # also restores the cached Gaussian number
            return legacy

        return self._once((tree["type"], tree["number"]), make)

    def _once(self, key: tuple[str, Any], make: Callable[[Any], Any]) -> Any:
        if key not in self._made:
            self._made[key] = make(key[1])
        return self._made[key]

    def _array(self, name: str) -> Array:
        array = self._read(name)
        if not _is_plain(array.dtype):
            raise ValueError(f"an array has dtype {array.dtype}")
        return array

    def _triangle(self, name: str) -> Float64Array:
        return _from_upper_triangle(self._array(name))


def names_of_arrays(tree: Tree) -> set[str]:
    """Return the names of the arrays that a tree refers to."""
    names, left = set(), [tree]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            if part.get("type") in ("array", "triangle"):
                names.add(str(part.get("name")))
            left.extend(part.values())
        elif isinstance(part, list):
            left.extend(part)
    return names


def _cannot_save(where: str, value: Any) -> ValueError:
    """Return the error for a value that a file cannot hold."""
    start, kind = f"{where}={check.one_line(value)} cannot be saved: ", type(value)
    if kind.__module__.partition(".")[0] in {"numpy", *sys.stdlib_module_names}:
        return ValueError(
            f"{start}quadfeat.save writes numbers, strings, arrays and objects of registered "
            "classes, but no code. Pickle the model instead, and load it where the same code is "
            "installed."
        )
    return ValueError(
        f"{start}its class is not registered. Call quadfeat.io.register({kind.__name__}) here, and "
        "again before quadfeat.load. If the object holds code, pickle the model instead."
    )


def _is_plain(dtype: Any) -> bool:
    """Return whether a dtype is portable: booleans, strings, and numbers of up to 8 bytes."""
    return dtype.kind in "biuSU" or (dtype.kind == "f" and dtype.itemsize <= 8)


def _not_finite(text: Any) -> float:
    if text not in ("inf", "-inf", "nan"):
        raise ValueError(f"{text!r} is neither infinite nor NaN")
    return float(text)


def _upper_triangle(matrix: Float64Array) -> Float64Array:
    """Return the upper triangle of a square matrix, column by column.

    Examples
    --------
    >>> _upper_triangle(np.array([[1.0, 2.0], [0.0, 3.0]]))
    array([1., 2., 3.])
    """
    return np.concatenate([column[: index + 1] for index, column in enumerate(matrix.T)])


def _from_upper_triangle(packed: Float64Array) -> Float64Array:
    """Return the square matrix, in Fortran order, with this upper triangle and zeros below.

    Examples
    --------
    >>> _from_upper_triangle(np.array([1.0, 2.0, 3.0]))
    array([[1., 2.],
           [0., 3.]])
    """
    size = (math.isqrt(8 * packed.size + 1) - 1) // 2
    if packed.shape != (size * (size + 1) // 2,) or packed.dtype != np.float64:
        raise ValueError(
            f"an array of shape {packed.shape} and dtype {packed.dtype} is not a triangle"
        )
    matrix = np.zeros((size, size), order="F")
    for column in range(size):
        start = column * (column + 1) // 2
        matrix[: column + 1, column] = packed[start : start + column + 1]
    return matrix
