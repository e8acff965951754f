"""Arguments of calls, chosen by the fuzzer: most are valid, and some are wrong in any way."""

from __future__ import annotations

from typing import Any

import atheris
import numpy as np
from numpy.typing import NDArray

from quadfeat.engine import _native

Array = NDArray[Any]

CORES = _native.cores()

# Invalid arguments may raise these: nanobind rejects types, the core rejects values, and NumPy
# rejects writing to read-only memory.
REJECTIONS = (ValueError, TypeError, BufferError)

# Sizes that are too large for memory, or whose products overflow.
ABSURD = (-1, 0, 2**31, 2**32, 2**59, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64)
THREADS = (1, 1, 1, 2, 3, 17)
GUARD = 7.0  # fills the memory around outputs


class Choices:
    """Read the choices of the fuzzer from its bytes."""

    def __init__(self, data: bytes) -> None:
        self.provider = atheris.FuzzedDataProvider(data)

    def pick(self, choices: Any) -> Any:
        """Return one of the choices."""
        return choices[self.provider.ConsumeIntInRange(0, len(choices) - 1)]

    def number(self, low: int, high: int) -> int:
        """Return an integer from ``low`` to ``high``, both included."""
        return int(self.provider.ConsumeIntInRange(low, high))

    def rarely(self) -> bool:
        """Return True with a small probability."""
        return bool(self.provider.ConsumeIntInRange(0, 31) == 31)

    def flag(self) -> bool:
        """Return True or False."""
        return bool(self.provider.ConsumeBool())

    def generator(self) -> np.random.Generator:
        """Return a random generator, for values that the fuzzer does not need to control."""
        return np.random.default_rng(self.number(0, 2**16))

    def threads(self) -> int:
        """Return a number of threads."""
        return int(self.pick(ABSURD if self.rarely() else THREADS))

    def core(self) -> str:
        """Return the name of a core."""
        return "abacus" if self.rarely() else str(self.pick(CORES))


def misaligned(values: Array) -> Array:
    """Return the same values at an address that is one byte off."""
    raw = np.zeros(values.nbytes + 1, dtype=np.uint8)
    raw[1:] = np.frombuffer(values.tobytes(), dtype=np.uint8)
    return raw[1:].view(values.dtype).reshape(values.shape)


class Place:
    """A matrix inside a larger piece of memory, whose other values must not change."""

    def __init__(self, choices: Choices, values: Array) -> None:
        rows, columns = values.shape
        rows_apart, columns_apart = choices.number(1, 3), choices.number(1, 3)
        shape = (rows * rows_apart + 2, columns * columns_apart + 2)
        room = np.full(shape, GUARD, dtype=values.dtype, order=choices.pick("CF"))
        self.room = misaligned(room) if choices.rarely() else room
        mask = np.zeros(shape, dtype=bool)
        self.view, self.mask = (
            array[
                1 : 1 + rows * rows_apart : rows_apart,
                1 : 1 + columns * columns_apart : columns_apart,
            ]
            for array in (self.room, mask)
        )
        self.mask[...] = True
        self.outside = ~mask
        if choices.flag():
            self.view = self.view[::-1]
        if choices.flag():
            self.view = self.view[:, ::-1]
        self.view[...] = values

    def check(self) -> None:
        """Raise an error if anything was written outside of the matrix."""
        assert (self.room[self.outside] == GUARD).all(), "written out of bounds"


def argument(choices: Choices, values: Array, *, endless: bool = True) -> Any:
    """Return a matrix as an argument, with a random memory layout and rarely an invalid one.

    With ``endless``, it may also be a single number that is repeated practically without end. The
    call must then notice that the shapes do not match.
    """
    if not choices.rarely():
        return Place(choices, values).view
    kind = choices.number(0, 7)
    if kind == 0:
        with np.errstate(over="ignore", invalid="ignore"):
            return values.astype(choices.pick(("f2", "f4", "f8", ">f8", "c16", "i8")))
    if kind == 1:
        return np.broadcast_to(
            np.ones(1, values.dtype), (choices.pick((0, 1, 5, 500)), values.shape[1])
        )
    if kind == 2:
        width = 2**58 // max(1, len(values)) if endless else 50
        return np.lib.stride_tricks.as_strided(
            np.ones(1, values.dtype), (len(values), width), (0, 0)
        )
    if kind == 3:
        return values[:, : choices.number(0, values.shape[1])]
    if kind == 4:
        return choices.pick((values[None], values.ravel(), values.tolist(), None, "text", b"bytes"))
    if kind == 5:
        return memoryview(np.ascontiguousarray(values))
    read_only = values.copy()
    read_only.flags.writeable = False
    return read_only


def same(given: Any, values: Array) -> bool:
    """Return whether an argument has these values."""
    return isinstance(given, np.ndarray) and np.array_equal(given, values, equal_nan=True)
