"""Validate arguments. Error messages name the argument, its value and a way to fix it."""

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
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import _check_sample_weight

from quadfeat._utils.array_api import to_numpy
from quadfeat._utils.columns import check_numbers

Array = NDArray[Any]
Float64Array = NDArray[np.float64]

Kind = TypeVar("Kind")

FLOAT_DTYPES = (np.float64, np.float32)

# Larger counts are mistakes: no machine has memory for arrays of this size.
MAX_COUNT = 2**40


def check_matrix(X: Any, name: str, estimator: Any = None) -> Any:
    """Return ``X`` as a finite float32 or float64 matrix, dense or CSR without duplicates.

    Error messages name the estimator, if it is given.
    """
    return without_duplicates(
        check_numbers(to_numpy(X, name), name, estimator, accept_sparse="csr", dtype=FLOAT_DTYPES)
    )


def without_duplicates(X: Any) -> Any:
    """Sum the duplicate entries of a sparse ``X``, so that its stored entries are its values."""
    if sparse.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def check_pair(X: Any, Y: Any | None) -> tuple[Any, Any, Any]:
    """Return ``X`` and ``Y`` as matrices with equally many columns, and their common dtype."""
    X = check_matrix(X, "X")
    Y = X if Y is None else check_matrix(Y, "Y")
    if X.shape[1] != Y.shape[1]:
        raise ValueError(
            f"X has {X.shape[1]} columns and Y has {Y.shape[1]}: pass two matrices with the same "
            "columns."
        )
    return X, Y, np.result_type(X.dtype, Y.dtype)


def check_weights(sample_weight: Any, X: Any, *, part: bool = False) -> Float64Array:
    """Return a weight >= 0 for each row of ``X``.

    Not all weights may be zero, unless ``X`` is only a part of the rows (``part=True``).
    """
    given = np.asarray(sample_weight)
    if given.ndim == 1 and not given.any():  # scikit-learn rejects weights that are all zero
        check_consistent_length(given, X)
        weights = np.zeros(len(given))
    else:
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if not part:
        check_any_weight(float(weights.max()))
    with np.errstate(over="ignore"):
        if not np.isfinite(weights.sum() * X.shape[1]):
            raise ValueError(
                f"sample_weight has values up to {weights.max():.3g}, and their sum is beyond the "
                "range of float64: divide the weights by the largest."
            )
    return weights


def check_any_weight(weight: float) -> None:
    """Raise an error unless ``weight``, the sum or the maximum of all weights, is positive."""
    if not weight > 0:
        raise ValueError(
            "sample_weight is zero for every row: pass a positive weight for at least one row."
        )


def to_dense_float64(X: Any) -> Float64Array:
    """Return a dense or sparse matrix as a dense float64 array."""
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)


def check_not_text(y: Any, classifier: str = "QuadratureRidgeClassifier") -> None:
    """Raise an error that names a classifier if targets of a regression are text."""
    values = np.asarray(y)
    if values.dtype.kind not in "OUS":
        return
    try:
        values.astype(np.float64)
    except (TypeError, ValueError) as error:
        texts = [value for value in values.ravel() if isinstance(value, str)]
        if texts:
            raise ValueError(
                f"y holds text, such as {str(texts[0])!r}, but a regression needs numbers. Use "
                f"{classifier} for classes, or convert y to numbers."
            ) from error


def is_number(value: Any) -> bool:
    """Return whether ``value`` is a real number. Booleans do not count as numbers."""
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_))


def check_count(value: Any, name: str, minimum: int = 1, maximum: int = MAX_COUNT) -> int:
    """Return ``value`` as an int if it is an integer from ``minimum`` to ``maximum``."""
    if not is_number(value) or not isinstance(value, Integral) or int(value) < minimum:
        raise ValueError(f"{name}={value!r} is not valid: pass an integer >= {minimum}.")
    if int(value) > maximum:
        raise ValueError(f"{name}={one_line(value)} is not valid: pass at most {maximum}.")
    return int(value)


def check_positive(value: Any, name: str) -> float:
    """Return ``value`` as a float if it is a finite number above zero."""
    if not is_number(value):
        raise TypeError(f"{name}={value!r} is not valid: pass a number > 0.")
    try:
        number = float(value)
    except OverflowError:  # an integer beyond the range of float64
        number = math.inf
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{name}={one_line(value)} is not valid: pass a finite number > 0.")
    return number


def check_fraction(value: Any, name: str) -> float:
    """Return ``value`` as a float if it is a number from 0 to 1."""
    if not is_number(value) or not 0 <= value <= 1:
        raise ValueError(f"{name}={value!r} is not valid: pass a number from 0 to 1.")
    return float(value)


def check_flag(value: Any, name: str) -> bool:
    """Return ``value`` if it is a boolean."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}={value!r} is not valid: pass True or False.")
    return bool(value)


def check_verbose(value: Any) -> bool:
    """Return whether to show progress. Integers are levels of detail in other libraries."""
    is_flag = isinstance(value, (bool, np.bool_))
    if not is_flag and not (isinstance(value, (int, np.integer)) and value >= 0):
        raise ValueError(f"verbose={value!r} is not valid: pass True, False or an integer >= 0.")
    return bool(value)


def check_choice(value: Any, name: str, choices: Iterable[str], number: str = "") -> str:
    """Return ``value`` if it is one of ``choices``; otherwise suggest the closest one.

    If the parameter may also be a number, ``number`` describes it, such as ``"an integer"``.
    """
    choices = list(choices)
    if isinstance(value, str) and value in choices:
        return value
    if number:
        named = ", ".join(map(repr, choices[:-1]))
        options = f"{number}{f', {named}' if named else ''} or {choices[-1]!r}"
        raise ValueError(
            f"{name}={value!r} is not known.{did_you_mean(value, choices)} Pass {options}."
        )
    raise ValueError(
        f"{name}={value!r} is not known.{did_you_mean(value, choices)} "
        f"Choose one of {', '.join(map(repr, choices))}."
    )


def object_or_name(
    value: Any, name: str, kind: type[Kind], named: Mapping[str, Callable[[], Kind]]
) -> Kind:
    """Return ``value`` if it is a ``kind``, or the object that it names if it is a string."""
    if isinstance(value, kind):
        return value
    if isinstance(value, str):
        return named[check_choice(value, name, named)]()
    example = next(iter(named.values()))()
    package = type(example).__module__.rpartition(".")[0]  # it exports the public names
    raise TypeError(
        f"{name}={value!r} is not valid: pass an object such as {example!r} from "
        f"{package}, or one of {', '.join(map(repr, named))}."
    )


def check_kind(
    value: Any, kind: type[Kind], message: str, error: type[Exception] = TypeError
) -> Kind:
    """Return ``value`` if it is a ``kind``; otherwise raise ``error`` with the message."""
    if isinstance(value, kind):
        return value
    raise error(message)


def did_you_mean(value: Any, choices: Iterable[str]) -> str:
    """Return `` Did you mean 'x'?`` for the choice closest to ``value``, or an empty string.

    Upper and lower case do not matter.

    Examples
    --------
    >>> did_you_mean("prise", ["PRICE", "area"])
    " Did you mean 'PRICE'?"
    """
    spelling = {str(choice).lower(): choice for choice in choices}
    nearest = difflib.get_close_matches(str(value).lower(), list(spelling), n=1, cutoff=0.65)
    return f" Did you mean {spelling[nearest[0]]!r}?" if nearest else ""


def one_line(thing: object) -> str:
    """Return the ``repr`` of ``thing`` on one line, shortened if it is long."""
    text = " ".join(repr(thing).split())
    return text if len(text) <= 200 else f"{text[:120]} ... {text[-60:]}"


def check_n_jobs(value: Any) -> int | None:
    """Return ``value`` if it is ``None`` or an integer other than 0."""
    if value is None or (type(value) is int and value != 0):  # the usual cases, for speed
        return value
    if is_number(value) and isinstance(value, Integral) and int(value) != 0:
        return int(value)
    raise ValueError(
        f"n_jobs={value!r} is not valid: pass None, a number of threads, or -1 for all processors."
    )


def warn_user(message: str) -> None:
    """Issue a warning that points to the caller's line outside of this package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("quadfeat."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, UserWarning, stacklevel=level)


def largest_magnitude(X: Any) -> float:
    """Return the largest absolute value in a dense or sparse matrix."""
    values = X.data if sparse.issparse(X) else X
    return max(float(values.max(initial=0)), -float(values.min(initial=0)))


def check_range(gram: Array, kernel: object) -> Array:
    """Return a Gram matrix if all its values are finite."""
    if not np.isfinite(gram).all():
        raise ValueError(
            f"{one_line(kernel)} has values beyond the range of {gram.dtype} for this X: "
            "rescale X or pass it as float64."
        )
    return gram
