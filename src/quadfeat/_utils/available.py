"""Methods that exist only if the parameters of an estimator allow them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sklearn.utils import metaestimators

Method = TypeVar("Method", bound=Callable[..., Any])


def available_if(check: Callable[[Any], bool]) -> Callable[[Method], Method]:
    """Hide a method unless ``check(estimator)`` is true.

    This is :func:`sklearn.utils.metaestimators.available_if` with type annotations.

    Parameters
    ----------
    check : callable
        Takes the estimator. If it raises an error, users see that error as the reason.
    """
    decorate: Callable[[Method], Method] = metaestimators.available_if(check)
    return decorate
