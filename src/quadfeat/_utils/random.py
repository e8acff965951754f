"""Create random number generators from a ``random_state``, another generator or a saved state."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from quadfeat._utils import validation as check

# NumPy's bit generators. Their states consist of numbers.
BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")

# The read position in the state of a bit generator (part, key) and its largest valid value. NumPy
# does not check it.
POSITIONS = {"MT19937": ("state", "pos", 624), "Philox": (None, "buffer_pos", 4)}


def generator(random_state: Any) -> np.random.Generator:
    """Return a ``Generator`` for any valid ``random_state``.

    An integer, or numbers drawn from a ``RandomState``, seed a new generator.
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    legacy = checked_state(random_state)
    if random_state is None or isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(legacy.randint(0, 2**32, size=4, dtype=np.uint32))
    return np.random.default_rng(random_state)


def checked_state(random_state: Any) -> Any:
    """Return a ``Generator`` or ``RandomState`` without drawing from it.

    Reject a ``random_state`` that is neither a seed nor a generator.
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    try:
        return check_random_state(random_state)  # None is NumPy's global state, as in scikit-learn
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"random_state={check.one_line(random_state)} is not valid: pass an integer from 0 to "
            "2**32 - 1, a numpy.random.Generator, a RandomState or None."
        ) from error


def child(rng: np.random.Generator) -> np.random.Generator:
    """Return a new generator seeded by ``rng``.

    The number of draws from the child then does not affect later draws from ``rng``.
    """
    return np.random.default_rng(rng.integers(0, 2**63, size=4))


def restored(state: Any) -> np.random.Generator:
    """Return a generator in this state."""
    bit_generator = getattr(np.random, state["bit_generator"])()
    bit_generator.state = state
    return np.random.Generator(bit_generator)


def check_state(state: Any) -> dict[str, Any]:
    """Return the state of a generator from an untrusted source, if it is valid."""
    if not isinstance(state, dict) or state.get("bit_generator") not in BIT_GENERATORS:
        raise ValueError(
            f"the state is not that of a NumPy bit generator ({', '.join(BIT_GENERATORS)})"
        )
    name = state["bit_generator"]
    if name in POSITIONS:
        part, key, largest = POSITIONS[name]
        position = (state if part is None else state[part])[key]
        if not check.is_number(position) or not 0 <= position <= largest:
            raise ValueError(
                f"{key}={position!r} in the state of {name} is not valid: "
                f"it must be an integer from 0 to {largest}"
            )
    restored(state)  # NumPy checks the rest
    return state
