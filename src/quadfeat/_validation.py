"""Checks of arguments, whose messages name the argument, its value and the way out."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_array

Array = NDArray[Any]
Float64Array = NDArray[np.float64]

FLOAT_DTYPES = (np.float64, np.float32)


def check_matrix(X: Any, name: str) -> Any:
    """Return ``X`` as a finite float32 or float64 matrix, dense or CSR."""
    return check_array(X, accept_sparse="csr", dtype=FLOAT_DTYPES, input_name=name)


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
    return int(value)


def check_positive(value: Any, name: str) -> float:
    """Return ``value`` as a float if it is a finite number above zero."""
    if not is_number(value):
        raise TypeError(f"{name}={value!r} is not valid: give a number > 0.")
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name}={value!r} is not valid: give a finite number > 0.")
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


def did_you_mean(value: Any, choices: Iterable[str]) -> str:
    """Return `` Did you mean 'x'?`` for the choice nearest to ``value``, or nothing."""
    nearest = difflib.get_close_matches(str(value).lower(), list(choices), n=1, cutoff=0.5)
    return f" Did you mean {nearest[0]!r}?" if nearest else ""


def one_line(thing: object) -> str:
    """Return the representation of ``thing`` without the line breaks that scikit-learn puts in."""
    return " ".join(repr(thing).split())
