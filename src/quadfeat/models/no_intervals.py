"""Say why classifiers have no prediction intervals."""

from __future__ import annotations

from typing import Any

from quadfeat._utils.available import available_if


def has_intervals(model: Any) -> bool:
    """Raise an error with what a classifier has instead of intervals."""
    raise AttributeError(
        f"prediction intervals are for regression, and {type(model).__name__} predicts classes. "
        "Use predict_proba, which estimates the probability of each class."
    )


class NoIntervalsMixin:
    """Let a classifier name ``predict_proba`` if users look for prediction intervals."""

    @available_if(has_intervals)
    def predict_interval(self, X: Any, coverage: float = 0.9) -> Any:
        """Raise an AttributeError: use :meth:`predict_proba`, since intervals are for numbers."""
        raise NotImplementedError
