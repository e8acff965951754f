"""The candidates that the parameter ``candidates`` names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone

from quadfeat._utils import validation as check
from quadfeat.front_door.candidates import (
    Candidate,
    FeaturesCandidate,
    Found,
    MoreFeaturesCandidate,
    NeighborsCandidate,
    Setting,
)


@dataclass(frozen=True)
class GivenCandidate(Candidate):
    """An estimator that the user has passed, with a name."""

    key: str
    given: Any

    def estimator(
        self,
        setting: Setting,
        shape: tuple[int, int],
        found: Mapping[str, Found],
        time_limit: float | None,
    ) -> Any:
        return clone(self.given)


# The usual candidates in the order of their fits: a time limit leaves out the last ones.
USUAL: tuple[Candidate, ...] = (
    NeighborsCandidate(),
    FeaturesCandidate(),
    MoreFeaturesCandidate(),
)


def candidates_of(given: Any) -> tuple[Candidate, ...]:
    """Return the candidates for a value of the parameter ``candidates``.

    Examples
    --------
    >>> [one.key for one in candidates_of("auto")]
    ['neighbors', 'features', 'more features']
    >>> candidates_of(["neighbours"])
    Traceback (most recent call last):
    ...
    ValueError: candidates=['neighbours'] is not valid: 'neighbours' is unknown. Did you mean \
'neighbors'?
    """
    if isinstance(given, str) and given == "auto":
        return USUAL
    known = {one.key: one for one in USUAL}
    if isinstance(given, (str, bytes)) or not hasattr(given, "__iter__"):
        raise TypeError(
            f"candidates={check.one_line(given)} is not valid: pass 'auto' or a list, such as "
            f"{list(known)}."
        )
    items = [_candidate(one, known, given) for one in given]
    keys = [one.key for one in items]
    more, fewer = MoreFeaturesCandidate.key, FeaturesCandidate.key
    if more in keys and fewer not in keys[: keys.index(more)]:
        raise ValueError(
            f"candidates={check.one_line(given)} is not valid: {more!r} has the kernel of "
            f"{fewer!r}, which has to come before it."
        )
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if not items or twice:
        reason = f"{twice[0]!r} occurs twice" if twice else "it is empty"
        raise ValueError(
            f"candidates={check.one_line(given)} is not valid: {reason}. Pass one or more "
            "candidates with different names."
        )
    return tuple(items)


def _candidate(one: Any, known: Mapping[str, Candidate], given: Any) -> Any:
    if hasattr(one, "estimator") and hasattr(one, "key"):
        return one
    if isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], str):
        methods = hasattr(one[1], "fit") and hasattr(one[1], "get_params")
        if not methods or isinstance(one[1], type):
            raise TypeError(
                f"candidates={check.one_line(given)} is not valid: {check.one_line(one[1])} is not "
                "an estimator. Pass pairs such as ('trees', HistGradientBoostingRegressor())."
            )
        return GivenCandidate(*one)
    if not isinstance(one, str):
        raise TypeError(
            f"candidates={check.one_line(given)} is not valid: {check.one_line(one)} is neither a "
            f"name ({', '.join(known)}), nor a pair of a name and an estimator, nor a Candidate."
        )
    if one not in known:
        suggestion = check.did_you_mean(one, known) or f" Choose from {', '.join(known)}."
        raise ValueError(
            f"candidates={check.one_line(given)} is not valid: {one!r} is unknown.{suggestion}"
        )
    return known[one]
