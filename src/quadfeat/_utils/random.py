"""Generators of random numbers: from what a user gives, from each other, from a state."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from quadfeat._utils import validation as check

# The bit generators of NumPy, whose states are numbers.
BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")

# Where in its state a bit generator reads next, and the largest place. NumPy does not check them.
PLACES = {"MT19937": ("state", "pos", 624), "Philox": (None, "buffer_pos", 4)}


def generator(random_state: Any) -> np.random.Generator:
    """Return a generator: of its own for an int, seeded by it for a RandomState."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    legacy = checked_state(random_state)
    if random_state is None or isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(legacy.randint(0, 2**32, size=4, dtype=np.uint32))
    return np.random.default_rng(random_state)


def checked_state(random_state: Any) -> Any:
    """Return a ``Generator`` or ``RandomState``, from which nothing is drawn yet.

    Reject a ``random_state`` that is neither a seed nor a generator.
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    try:
        return check_random_state(random_state)  # None is the global one, as in scikit-learn
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"random_state={check.one_line(random_state)} cannot be used to seed: give an integer "
            "from 0 to 2**32 - 1, a numpy.random.Generator, a RandomState or None."
        ) from error


def child(rng: np.random.Generator) -> np.random.Generator:
    """Return a generator of its own, so that more or fewer draws from it change nothing else."""
    return np.random.default_rng(rng.integers(0, 2**63, size=4))


def restored(state: Any) -> np.random.Generator:
    """Return a generator in this state."""
    bit_generator = getattr(np.random, state["bit_generator"])()
    bit_generator.state = state
    return np.random.Generator(bit_generator)


def check_state(state: Any) -> dict[str, Any]:
    """Return the state of a generator, of unknown origin, if it can be one."""
    if not isinstance(state, dict) or state.get("bit_generator") not in BIT_GENERATORS:
        raise ValueError("the state of a generator is none of those that NumPy has")
    name = state["bit_generator"]
    if name in PLACES:
        part, key, largest = PLACES[name]
        place = (state if part is None else state[part])[key]
        if not check.is_number(place) or not 0 <= place <= largest:
            raise ValueError(f"the {key} of {name} is {place!r}, not one of 0 to {largest}")
    restored(state)  # NumPy complains about all else
    return state
