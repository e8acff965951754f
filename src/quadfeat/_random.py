"""Generators of random numbers: from what a user gives, from each other, from a state."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state


def generator(random_state: Any) -> np.random.Generator:
    """Return a generator: of its own for an int, seeded by it for a RandomState."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    legacy = check_random_state(random_state)  # None is the global one, as in scikit-learn
    if random_state is None or isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(legacy.randint(0, 2**32, size=4, dtype=np.uint32))
    return np.random.default_rng(random_state)


def child(rng: np.random.Generator) -> np.random.Generator:
    """Return a generator of its own, so that more or fewer draws from it change nothing else."""
    return np.random.default_rng(rng.integers(0, 2**63, size=4))


def restored(state: Any) -> np.random.Generator:
    """Return a generator in this state."""
    bit_generator = getattr(np.random, state["bit_generator"])()
    bit_generator.state = state
    return np.random.Generator(bit_generator)
