"""Methods that exist only where the parameters of an estimator allow them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sklearn.utils import metaestimators

Method = TypeVar("Method", bound=Callable[..., Any])


def available_if(check: Callable[[Any], bool]) -> Callable[[Method], Method]:
    """Hide a method unless ``check`` of its object is true, as scikit-learn does, with types.

    Parameters
    ----------
    check : callable
        Takes the estimator. An error that it raises is shown as the reason.
    """
    decorate: Callable[[Method], Method] = metaestimators.available_if(check)
    return decorate
