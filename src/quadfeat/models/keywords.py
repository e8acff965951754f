"""Error messages for unknown arguments of constructors and of ``fit``."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from sklearn.base import is_classifier

from quadfeat._utils.validation import did_you_mean, one_line

Init = TypeVar("Init", bound=Callable[..., None])
Fit = TypeVar("Fit", bound=Callable[..., Any])

# Arguments of scikit-learn's estimators that have another name or place here, with the way to get
# the same result. ``{value}`` is the argument, ``{linear}`` a linear model of scikit-learn.
HABITS = {
    "C": "Set alpha instead, which is about 1 / (2 * C).",
    "coef0": "For a polynomial kernel, use scikit-learn's Nystroem.",
    "degree": "For a polynomial kernel, use scikit-learn's Nystroem.",
    "kernel_params": "Set them in the kernel, such as kernel=Matern(nu=1.5).",
    "length_scale": "Set it in the kernel, such as kernel=Matern(length_scale={value}).",
    "loss": "Use make_pipeline(QuadratureFeatures(), {linear}(loss={value})).",
    "nu": "Set it in the kernel: kernel=Matern(nu={value}).",
    "probability": "Classifiers always have predict_proba.",
}


def explain_keywords(init: Init) -> Init:
    """Make a constructor reject unknown arguments with the name of the class and a suggestion.

    Python's own error would name the base class that defines the constructor.

    Examples
    --------
    >>> class Estimator:
    ...     @explain_keywords
    ...     def __init__(self, kernel="auto", *, n_components=1024):
    ...         self.kernel = kernel
    >>> Estimator(n_component=10)
    Traceback (most recent call last):
    ...
    TypeError: Estimator has no parameter 'n_component'. Did you mean 'n_components'?
    """
    names = list(inspect.signature(init).parameters)[1:]

    @functools.wraps(init)
    def checked(self: Any, *arguments: Any, **keywords: Any) -> None:
        for name in keywords:
            if name not in names:
                raise TypeError(_unknown(self, name, keywords[name], names))
        if len(arguments) > 1:
            raise TypeError(
                f"{type(self).__name__} takes one positional argument, {names[0]}, and "
                f"{len(arguments)} were given. Pass the others by keyword."
            )
        init(self, *arguments, **keywords)

    return checked  # type: ignore[return-value]


def explain_fit_keywords(fit: Fit) -> Fit:
    """Make ``fit`` reject unknown arguments with the name of the class that the user has called.

    Python's own error would name the base class that defines the method.

    Examples
    --------
    >>> class Base:
    ...     @explain_fit_keywords
    ...     def fit(self, X, y=None): ...
    >>> class Estimator(Base): ...
    >>> Estimator().fit([[1.0]], sample_weights=[1.0])
    Traceback (most recent call last):
    ...
    TypeError: Estimator.fit has no argument 'sample_weights'. Its arguments are X, y.
    """
    names = list(inspect.signature(fit).parameters)[1:]

    @functools.wraps(fit)
    def checked(self: Any, *arguments: Any, **keywords: Any) -> Any:
        for name in keywords:
            if name not in names:
                way_out = did_you_mean(name, names) or f" Its arguments are {', '.join(names)}."
                if name == "target":
                    way_out = (
                        " Read Parquet files with ParquetBlocks, as in "
                        f"fit(ParquetBlocks('folder', target={one_line(keywords[name])}))."
                    )
                raise TypeError(f"{type(self).__name__}.fit has no argument {name!r}.{way_out}")
        return fit(self, *arguments, **keywords)

    return checked  # type: ignore[return-value]


def _unknown(estimator: Any, name: str, value: Any, names: list[str]) -> str:
    """Return the error message for an unknown argument."""
    message = f"{type(estimator).__name__} has no parameter {name!r}."
    if name in HABITS:
        linear = "SGDClassifier" if is_classifier(estimator) else "SGDRegressor"
        return f"{message} {HABITS[name].format(value=one_line(value), linear=linear)}"
    suggestion = did_you_mean(name, names)
    return message + (suggestion or f" Choose from {', '.join(sorted(names))}.")
