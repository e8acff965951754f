"""Accept arrays of other libraries, such as PyTorch tensors, and return arrays of the same library.

With ``sklearn.config_context(array_api_dispatch=True)``, a method returns an array of the same
library as ``X``, on the CPU and without a copy. NumPy and the native core do all computations, so
an estimator that was fitted to arrays of one library accepts those of any other. Without that
setting, arrays are converted as by ``numpy.asarray`` and results are NumPy arrays, as everywhere
in scikit-learn.

Estimators here do not set the tag ``array_api_support``. scikit-learn expects estimators with that
tag to reject arrays of a library other than the one they were fitted to.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from sklearn import get_config
from sklearn.utils._array_api import get_namespace

Method = TypeVar("Method", bound=Callable[..., Any])


class Library(NamedTuple):
    """The array API namespace and the device of an array."""

    namespace: Any
    device: Any

    @classmethod
    def of(cls, X: Any) -> Library | None:
        """Return the library of ``X``, or ``None`` if results should be NumPy arrays."""
        if not get_config()["array_api_dispatch"] or isinstance(X, np.ndarray):
            return None
        if not hasattr(X, "__dlpack__"):  # a list, data frame, sparse matrix or blocks of rows
            return None
        namespace, is_compliant = get_namespace(X)
        return cls(namespace, X.device) if is_compliant else None

    def from_numpy(self, result: Any) -> Any:
        """Convert the NumPy arrays in a result to arrays of this library, without copying.

        Arrays of strings, which such libraries lack, stay NumPy arrays.
        """
        if isinstance(result, tuple):
            return tuple(self.from_numpy(item) for item in result)
        if not isinstance(result, np.ndarray) or result.dtype.kind not in "biuf":
            return result
        # Avoid from_dlpack: some versions of NumPy export read-only arrays through it.
        return self.namespace.asarray(result, device=self.device)


def to_numpy(array: Any, name: str) -> Any:
    """Convert an array of another library, or a masked one, to NumPy; return others unchanged."""
    if isinstance(array, np.ma.MaskedArray):
        return without_mask(array)
    if type(array).__name__ == "LazyFrame":  # a polars query without any rows yet
        raise TypeError(f"{name} is a LazyFrame: pass {name}.collect().")
    if Library.of(array) is None:
        return array
    if getattr(array, "requires_grad", False):
        raise ValueError(
            f"{name} requires a gradient, which features do not support: pass {name}.detach()."
        )
    try:
        return np.from_dlpack(array)
    except Exception as error:  # each library raises an error of its own
        raise ValueError(
            f"{name} is a {type(array).__name__} with dtype {array.dtype} on the device "
            f"{array.device}, which NumPy cannot read ({error}): pass a float32 or float64 array "
            "on the CPU."
        ) from error


def without_mask(array: Any) -> Any:
    """Return a masked array as a usual one, whose masked values are missing.

    They become NaN, NaT or None. Without this, NumPy would use the values below the mask.

    Examples
    --------
    >>> without_mask(np.ma.array([1, 2], mask=[False, True]))
    array([ 1., nan])
    >>> without_mask(np.ma.array(["a", "b"], mask=[False, True]))
    array(['a', None], dtype=object)
    """
    values = np.ma.getdata(array)
    is_masked = np.ma.getmaskarray(array)
    if not is_masked.any():
        return values
    kind = values.dtype.kind
    if kind in "mM":
        missing: Any = np.array("NaT", dtype=values.dtype)
    elif kind in "biuf":
        values, missing = values if kind == "f" else values.astype(np.float64), np.nan
    else:
        values, missing = values.astype(object), None
    return np.where(is_masked, missing, values).astype(values.dtype, copy=False)


def follows_input(method: Method) -> Method:
    """Let a method accept ``X``, its first argument, from any library and return arrays like it.

    Results other than arrays, such as the estimator itself, are returned unchanged.
    """

    @functools.wraps(method)
    def in_numpy(self: Any, X: Any, *arguments: Any, **options: Any) -> Any:
        if type(X) is np.ndarray:  # the usual case, without overhead for a few rows
            return method(self, X, *arguments, **options)
        library = Library.of(X)
        result = method(self, to_numpy(X, "X"), *arguments, **options)
        return result if library is None else library.from_numpy(result)

    return in_numpy  # type: ignore[return-value]
