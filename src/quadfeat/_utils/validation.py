"""Checks of arguments, whose messages name the argument, its value and the way out."""

from __future__ import annotations

import difflib
import math
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import _check_sample_weight

from quadfeat._utils.array_api import to_numpy

Array = NDArray[Any]
Float64Array = NDArray[np.float64]

Kind = TypeVar("Kind")

FLOAT_DTYPES = (np.float64, np.float32)

# Counts beyond this are slips: arrays of so many entries fit in no memory.
MOST = 2**40


def check_matrix(X: Any, name: str, estimator: Any = None) -> Any:
    """Return ``X`` as a finite float32 or float64 matrix, dense or CSR without duplicates.

    Messages name the estimator, if there is one.
    """
    return without_duplicates(
        check_array(
            to_numpy(X, name),
            accept_sparse="csr",
            dtype=FLOAT_DTYPES,
            estimator=estimator,
            input_name=name,
        )
    )


def without_duplicates(X: Any) -> Any:
    """Return ``X`` with one entry a place if it is sparse, so that its entries tell its range."""
    if sparse.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def check_pair(X: Any, Y: Any | None) -> tuple[Any, Any, Any]:
    """Return ``X`` and ``Y`` as matrices of equal width, and the dtype that serves both."""
    X = check_matrix(X, "X")
    Y = X if Y is None else check_matrix(Y, "Y")
    if X.shape[1] != Y.shape[1]:
        raise ValueError(
            f"X has {X.shape[1]} columns and Y has {Y.shape[1]}: a kernel compares rows of equal "
            "width, so pass two matrices with the same columns."
        )
    return X, Y, np.result_type(X.dtype, Y.dtype)


def check_weights(sample_weight: Any, X: Any, *, part: bool = False) -> Float64Array:
    """Return a weight >= 0 for each row of ``X``, not all of them zero, unless it is a part."""
    given = np.asarray(sample_weight)
    if given.ndim == 1 and not given.any():  # which scikit-learn refuses
        check_consistent_length(given, X)
        weights = np.zeros(len(given))
    else:
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if not part:
        check_any_weight(float(weights.max()))
    with np.errstate(over="ignore"):
        if not np.isfinite(weights.sum() * X.shape[1]):
            raise ValueError(
                f"sample_weight has numbers as large as {weights.max():.3g}, whose sum is beyond "
                "the range of numbers: divide them by the largest."
            )
    return weights


def check_any_weight(weight: float) -> None:
    """Complain if no row has a weight: neither the sum of weights nor the largest is positive."""
    if not weight > 0:
        raise ValueError(
            "sample_weight is zero for every row: give a positive weight to at least one."
        )


def to_dense_float64(X: Any) -> Float64Array:
    """Return a dense or sparse matrix as a dense float64 array."""
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)


def is_number(value: Any) -> bool:
    """Return whether ``value`` is a real number; truth values, which Python counts so, are not."""
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_))


def check_count(value: Any, name: str, minimum: int = 1) -> int:
    """Return ``value`` as an int if it is a whole number of at least ``minimum``."""
    if not is_number(value) or not isinstance(value, Integral) or int(value) < minimum:
        raise ValueError(f"{name}={value!r} is not valid: give a whole number >= {minimum}.")
    if int(value) > MOST:
        raise ValueError(f"{name}={one_line(value)} is not valid: give at most {MOST}.")
    return int(value)


def check_positive(value: Any, name: str) -> float:
    """Return ``value`` as a float if it is a finite number above zero."""
    if not is_number(value):
        raise TypeError(f"{name}={value!r} is not valid: give a number > 0.")
    try:
        number = float(value)
    except OverflowError:  # a whole number beyond the range
        number = math.inf
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{name}={one_line(value)} is not valid: give a finite number > 0.")
    return number


def check_fraction(value: Any, name: str) -> float:
    """Return ``value`` as a float if it is a number from 0 to 1."""
    if not is_number(value) or not 0 <= value <= 1:
        raise ValueError(f"{name}={value!r} is not valid: give a number from 0 to 1.")
    return float(value)


def check_flag(value: Any, name: str) -> bool:
    """Return ``value`` if it is a truth value."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}={value!r} is not valid: give True or False.")
    return bool(value)


def check_choice(value: Any, name: str, choices: Iterable[str]) -> str:
    """Return ``value`` if it is one of ``choices``; suggest the nearest otherwise."""
    choices = list(choices)
    if isinstance(value, str) and value in choices:
        return value
    raise ValueError(
        f"{name}={value!r} is not known.{did_you_mean(value, choices)} "
        f"Choose one of {', '.join(map(repr, choices))}."
    )


def object_or_name(
    value: Any, name: str, kind: type[Kind], named: Mapping[str, Callable[[], Kind]]
) -> Kind:
    """Return ``value`` if it is of the ``kind``, or what it stands for if it is a name."""
    if isinstance(value, kind):
        return value
    if isinstance(value, str):
        return named[check_choice(value, name, named)]()
    example = next(iter(named.values()))()
    folder = type(example).__module__.rpartition(".")[0]  # what is public is in the package
    raise TypeError(
        f"{name}={value!r} is not valid: give an object such as {example!r} from "
        f"{folder}, or one of {', '.join(map(repr, named))}."
    )


def check_kind(
    value: Any, kind: type[Kind], message: str, error: type[Exception] = TypeError
) -> Kind:
    """Return ``value`` if it is of the ``kind``; raise an ``error`` with the message otherwise."""
    if isinstance(value, kind):
        return value
    raise error(message)


def did_you_mean(value: Any, choices: Iterable[str]) -> str:
    """Return `` Did you mean 'x'?`` for the choice nearest to ``value``, or nothing."""
    nearest = difflib.get_close_matches(str(value).lower(), list(choices), n=1, cutoff=0.65)
    return f" Did you mean {nearest[0]!r}?" if nearest else ""


def one_line(thing: object) -> str:
    """Return the representation of ``thing`` on one line of readable length."""
    text = " ".join(repr(thing).split())
    return text if len(text) <= 200 else f"{text[:120]} ... {text[-60:]}"


def check_n_jobs(value: Any) -> int | None:
    """Return ``value`` if it is ``None`` or a whole number other than 0."""
    if value is None:
        return None
    if is_number(value) and isinstance(value, Integral) and int(value) != 0:
        return int(value)
    raise ValueError(
        f"n_jobs={value!r} is not valid: give None, a number of threads, or -1 for all processors."
    )


def warn_user(message: str) -> None:
    """Warn at the line outside of this package from which it was called."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("quadfeat."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, UserWarning, stacklevel=level)


def largest_magnitude(X: Any) -> float:
    """Return the largest absolute value in a dense or sparse matrix."""
    values = X.data if sparse.issparse(X) else X
    return max(float(values.max(initial=0)), -float(values.min(initial=0)))


def check_range(gram: Array, kernel: object) -> Array:
    """Return a Gram matrix if all its values are within the range of its dtype."""
    if not np.isfinite(gram).all():
        raise ValueError(
            f"{one_line(kernel)} has values beyond the range of {gram.dtype} on this data: "
            "rescale X, or pass it as float64."
        )
    return gram
