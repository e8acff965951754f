"""Features that are written into arrays of the user."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from quadfeat._utils import validation as check
from quadfeat._utils.fitted import snapshot
from quadfeat._utils.validation import Array
from quadfeat.models.features import QuadratureFeatures

__all__ = ["transform_into"]


def transform_into(features: QuadratureFeatures, X: Any, out: Array) -> Array:
    """Write the features of ``X`` into an array that is there already.

    Saves the allocation (and for large arrays most of the page faults) of a fresh result in
    loops over batches.

    Parameters
    ----------
    features : QuadratureFeatures
        A fitted map.
    X : array-like or sparse matrix of shape (n_samples, n_features)
    out : ndarray of shape (n_samples, n_components)
        Writable, of the dtype that ``features.transform(X)`` would have, in any memory order, not
        overlapping ``X``. If ``X`` is refused for its entries, a part of it may be written.

    Returns
    -------
    ndarray
        ``out``.

    Examples
    --------
    >>> import numpy as np
    >>> from quadfeat import QuadratureFeatures, transform_into
    >>> X = np.random.default_rng(0).standard_normal((1000, 8))
    >>> features = QuadratureFeatures(n_components=64, random_state=0).fit(X)
    >>> buffer = np.empty((100, 64))
    >>> for rows in np.split(X, 10):
    ...     Z = transform_into(features, rows, buffer)
    >>> Z is buffer
    True
    """
    check.check_kind(
        features,
        QuadratureFeatures,
        f"features={features!r} is not valid: give a fitted QuadratureFeatures.",
    )
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out is a {type(out).__name__}: give a numpy.ndarray.")
    features = snapshot(features)
    X = features._validated(X)
    expected = (X.shape[0], features.n_components_)
    if out.shape != expected or out.dtype != X.dtype:
        raise ValueError(
            f"out has shape {out.shape} and dtype {out.dtype}: give an array of shape {expected} "
            f"and dtype {X.dtype}, such as a slice of a larger buffer."
        )
    if not out.flags.writeable:
        raise ValueError("out is read-only: give an array that can be written to.")
    if _overlap(out, X.data if sparse.issparse(X) else X):
        raise ValueError("out overlaps X in memory: give an array of its own.")
    features._threaded().write(X, out)
    return out


def _overlap(a: Array, b: Array) -> bool:
    """Return whether two arrays have memory in common, or may have if that is hard to tell."""
    try:
        return np.shares_memory(a, b, max_work=100_000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True
