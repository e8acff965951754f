"""The feature map of any fitted scikit-learn transformer."""

from __future__ import annotations

import hashlib
import pickle
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from quadfeat._utils import validation as check
from quadfeat._utils.columns import check_finite
from quadfeat._utils.validation import Array
from quadfeat.data.checkpoints import described
from quadfeat.maps.base import FeatureMap

# Largest number of entries in a batch, of the rows or of their columns.
ENTRIES_PER_BATCH = 2**22


@dataclass(frozen=True, eq=False)
class TransformerMap(FeatureMap):
    """The columns that a fitted transformer returns, dense and in the dtype of the rows.

    Like most transformers, it has to transform each row independently, since it gets rows in
    batches of any size. The parameter ``n_jobs`` of the map does not affect the transformer.

    Parameters
    ----------
    transformer : object
        A fitted object with a method ``transform`` that returns a dense or sparse matrix.
    n_features_in : int
        Number of columns of the rows.
    n_columns : int
        Number of columns of the result.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.preprocessing import PolynomialFeatures
    >>> from quadfeat.maps import TransformerMap
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> quadratic = TransformerMap.of(PolynomialFeatures(2).fit(X), n_features_in=2)
    >>> quadratic.columns(X)
    array([[ 1.,  1.,  2.,  1.,  2.,  4.],
           [ 1.,  3.,  4.,  9., 12., 16.]])
    """

    transformer: Any
    n_features_in: int
    n_columns: int

    @classmethod
    def of(cls, transformer: Any, n_features_in: int) -> TransformerMap:
        """Return the map of a transformer that was fitted to ``n_features_in`` columns."""
        with np.errstate(all="ignore"):  # only the number of columns is used
            found = cls(transformer, n_features_in, 0)._transformed(np.zeros((1, n_features_in)))
        return cls(transformer, n_features_in, found.shape[1])

    def write(self, X: Any, out: Array) -> None:
        check_finite(X)
        size = max(1, ENTRIES_PER_BATCH // max(X.shape[1], self.n_columns))
        for rows in gen_batches(X.shape[0], size):
            found = self._transformed(X[rows])
            if found.shape != out[rows].shape:
                raise ValueError(
                    f"features={check.one_line(self.transformer)} has returned shape {found.shape} "
                    f"for {X[rows].shape[0]} rows, not {out[rows].shape}: pass a transformer that "
                    "transforms each row independently."
                )
            with np.errstate(over="ignore"):
                out[rows] = found
        if not np.isfinite(out).all():
            raise ValueError(
                f"features={check.one_line(self.transformer)} has returned values that are NaN, "
                f"infinite or overflow {out.dtype}: rescale X, or pass it as float64."
            )

    def _transformed(self, X: Any) -> Any:
        """Transform rows and return a dense array."""
        found = self.transformer.transform(self._named(X))
        if sparse.issparse(found):
            return found.toarray()
        found = np.asarray(found)
        if found.ndim != 2 or found.dtype.kind not in "fiub":
            raise ValueError(
                f"features={check.one_line(self.transformer)} has returned an array of shape "
                f"{found.shape} and dtype {found.dtype}: pass a transformer that returns a numeric "
                "matrix."
            )
        return found

    def _named(self, X: Any) -> Any:
        """Return rows with the column names that the transformer was fitted to, if any."""
        names = getattr(self.transformer, "feature_names_in_", None)
        if names is None or sparse.issparse(X):
            return X
        try:
            import pandas as pd
        except ImportError:  # the transformer was fitted to data frames of another library
            return X
        return pd.DataFrame(X, columns=names, copy=False)

    def fingerprint(self) -> str:
        try:
            return str(joblib.hash((type(self.transformer).__qualname__, self.transformer)))
        except pickle.PicklingError:  # it holds a lambda or a local function
            parts = [described(self.transformer), *map(_code_of, _parameters_of(self.transformer))]
            return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _parameters_of(transformer: Any) -> list[Any]:
    """Return the values of the parameters of a transformer and its parts."""
    if not hasattr(transformer, "get_params"):
        return []
    return [value for _, value in sorted(transformer.get_params(deep=True).items())]


def _code_of(value: Any) -> str:
    """Return the code of a function as a string; an empty string for other values."""
    code = getattr(value, "__code__", None)
    return "" if code is None else f"{code.co_code.hex()} {code.co_names} {code.co_consts}"


def fitted(transformer: Any, X: Any, y: Any = None, weights: Any = None) -> Any:
    """Fit a clone of a transformer to rows, with weights if it accepts them.

    A transformer without ``sample_weight`` is fitted to the rows with positive weight.
    """
    unfitted = clone(transformer)
    if weights is not None and has_fit_parameter(unfitted, "sample_weight"):
        return unfitted.fit(X, y, sample_weight=weights)
    if weights is not None and not weights.all():
        present = weights > 0
        X, y = X[present], None if y is None else y[present]
    return unfitted.fit(X, y)


def is_transformer(value: Any) -> bool:
    """Return whether a value has ``fit`` and ``transform``, as scikit-learn's transformers do."""
    return hasattr(value, "fit") and hasattr(value, "transform") and not isinstance(value, type)


def is_fitted(transformer: Any) -> bool:
    """Return whether a transformer is fitted, or needs no fitting."""
    try:
        check_is_fitted(transformer)
    except (NotFittedError, TypeError):
        return False
    return True
