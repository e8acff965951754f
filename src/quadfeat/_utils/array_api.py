"""Arrays of other libraries, such as PyTorch's tensors: taken as NumPy's and given back as theirs.

With ``sklearn.config_context(array_api_dispatch=True)`` the result of a method is an array of the
library that ``X`` is of, on the CPU, in memory that both share. All is computed in NumPy and the
native core, so that what was fitted to arrays of one library serves those of any other. Without
that setting arrays are converted as by ``numpy.asarray``, and results are NumPy's, as everywhere in
scikit-learn.

Since scikit-learn asks of estimators with the tag ``array_api_support`` to refuse arrays of another
library than they were fitted to, estimators here have no such tag.
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
    """The library of an array, by the functions that the array API standard names, and a device."""

    namespace: Any
    device: Any

    @classmethod
    def of(cls, X: Any) -> Library | None:
        """Return the library of ``X``, or None if results are to be NumPy's."""
        if not get_config()["array_api_dispatch"] or isinstance(X, np.ndarray):
            return None
        if not hasattr(X, "__dlpack__"):  # a list, a data frame, a sparse matrix, blocks of rows
            return None
        namespace, is_compliant = get_namespace(X)
        return cls(namespace, X.device) if is_compliant else None

    def from_numpy(self, result: Any) -> Any:
        """Return what a method has returned, with arrays of this library, in the same memory.

        Texts, which such libraries do not know, stay in arrays of NumPy's.
        """
        if isinstance(result, tuple):
            return tuple(self.from_numpy(item) for item in result)
        if not isinstance(result, np.ndarray) or result.dtype.kind not in "biuf":
            return result
        # Not from_dlpack, whose arrays some versions of NumPy export for reading only.
        return self.namespace.asarray(result, device=self.device)


def to_numpy(array: Any, name: str) -> Any:
    """Return an array of another library as one of NumPy's; anything else as it is."""
    if type(array).__name__ == "LazyFrame":  # of polars, which has no rows yet
        raise TypeError(f"{name} is a LazyFrame: give {name}.collect().")
    if Library.of(array) is None:
        return array
    if getattr(array, "requires_grad", False):
        raise ValueError(
            f"{name} requires a gradient, and features have none: give {name}.detach()."
        )
    try:
        return np.from_dlpack(array)
    except Exception as error:  # libraries do not agree on what they raise
        raise ValueError(
            f"{name} is a {type(array).__name__} of {array.dtype} on the device {array.device}, "
            f"which NumPy cannot read ({error}): give one of float32 or float64 on the CPU."
        ) from error


def follows_input(method: Method) -> Method:
    """Make a method take ``X``, its first argument, of any library, and return arrays of that.

    What it returns that is no array, such as the estimator itself, is left as it is.
    """

    @functools.wraps(method)
    def in_numpy(self: Any, X: Any, *arguments: Any, **options: Any) -> Any:
        library = Library.of(X)
        result = method(self, to_numpy(X, "X"), *arguments, **options)
        return result if library is None else library.from_numpy(result)

    return in_numpy  # type: ignore[return-value]
