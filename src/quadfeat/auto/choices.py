"""The latest choices of ``rule="auto"``, so that none is made twice.

A grid search fits maps to the same rows again and again, with other parameters of the model. The
choice depends only on the sample, the kernel, the number of columns and the generator. A choice is
found again by the content of all four, so the result is the same with and without these choices.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from copy import deepcopy
from typing import Any, Generic, TypeVar

import numpy as np
from sklearn.base import BaseEstimator

from quadfeat.auto.sample import Sample
from quadfeat.engine import core

Result = TypeVar("Result")

# Number of choices that are kept. Each takes a few kilobytes.
MOST_CHOICES = 64

# Values of parameters that are described by their content.
PLAIN = (bool, int, float, str, type(None), np.generic)


class Choices(Generic[Result]):
    """Keep the latest results of a function of a sample.

    Operations on the dict are atomic. There is no lock, which an interrupt or a fork could leave
    locked: threads that make the same choice at the same time each make it.
    """

    def __init__(self) -> None:
        self._kept: dict[bytes, tuple[Result, Any]] = {}

    def get(
        self,
        sample: Sample,
        n_components: int,
        rng: np.random.Generator,
        choose: Callable[[Sample, int, np.random.Generator], Result],
    ) -> Result:
        """Return ``choose(sample, n_components, rng)``, and leave ``rng`` in the same state."""
        key = key_of(sample, n_components, rng)
        if key is None:
            return choose(sample, n_components, rng)
        kept = self._kept.pop(key, None)
        result: Result
        if kept is None:
            result = choose(sample, n_components, rng)
            # Copied, because users may change the parameters of the rules that they get.
            kept = deepcopy((result, rng.bit_generator.state))
        else:
            result, rng.bit_generator.state = deepcopy(kept)
        self._kept[key] = kept  # at the end, as the latest
        for oldest in list(self._kept)[:-MOST_CHOICES]:
            self._kept.pop(oldest, None)
        return result

    def clear(self) -> None:
        """Forget all choices."""
        self._kept.clear()


def key_of(sample: Sample, n_components: int, rng: np.random.Generator) -> bytes | None:
    """Return a hash of everything that a choice depends on; None if it cannot be described."""
    kernel, state = described(sample.kernel), described(rng.bit_generator.state)
    if kernel is None or state is None:
        return None
    numbers = (sample.rows.shape, sample.n_samples, n_components)
    digest = hashlib.sha256(repr((kernel, numbers, state, core.CORE)).encode())
    digest.update(sample.rows.tobytes())
    digest.update(sample.weights.tobytes())
    return digest.digest()


def described(value: Any) -> str | None:
    """Return the content of a kernel or of one of its parameters; None if it may be ambiguous.

    Classes and functions of users are ambiguous: another one may have the same name.

    Examples
    --------
    >>> from quadfeat.kernels import Gaussian
    >>> described(Gaussian(0.5))
    'Gaussian(gamma=float(0.5))'
    >>> described(lambda x: x) is None
    True
    """
    kind = type(value)
    if isinstance(value, np.ndarray) and kind is np.ndarray and value.dtype.kind in "biuf":
        return f"array({value.dtype}, {value.shape}, {value.tobytes().hex()})"
    if isinstance(value, (tuple, list)):
        items = [described(item) for item in value]
        return None if None in items else f"{kind.__name__}({', '.join(map(str, items))})"
    if isinstance(value, dict):
        return described([*value.items()])
    if isinstance(value, PLAIN):
        return f"{kind.__name__}({value!r})"
    if not isinstance(value, BaseEstimator) or kind.__module__.partition(".")[0] != "quadfeat":
        return None
    parts = {name: described(item) for name, item in value.get_params(deep=False).items()}
    if None in parts.values():
        return None
    listed = ", ".join(f"{name}={part}" for name, part in sorted(parts.items()))
    return f"{kind.__name__}({listed})"
