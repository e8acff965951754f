"""Write features into an array that the user provides."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from quadfeat._utils import validation as check
from quadfeat._utils.fitted import snapshot
from quadfeat._utils.validation import Array
from quadfeat.models.features import QuadratureFeatures
from quadfeat.models.reading import naming_columns

__all__ = ["transform_into"]


def transform_into(features: QuadratureFeatures, X: Any, out: Array) -> Array:
    """Write the features of ``X`` into an existing array.

    In a loop over batches, this avoids allocating a new array for each batch, which saves most
    page faults if the arrays are large.

    Parameters
    ----------
    features : QuadratureFeatures
        A fitted map.
    X : array-like or sparse matrix of shape (n_samples, n_features)
    out : ndarray of shape (n_samples, n_components)
        A writable array with the dtype of ``features.transform(X)``. It may have any memory order,
        but must not overlap ``X``. If ``X`` has invalid entries, ``out`` may be partly written
        before the error is raised.

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
        f"features={features!r} is not valid: pass a fitted QuadratureFeatures.",
    )
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out is a {type(out).__name__}: pass a numpy.ndarray.")
    features = snapshot(features)
    X = features._validated(X)
    expected = (X.shape[0], features.n_components_)
    if out.shape != expected or out.dtype != X.dtype:
        raise ValueError(
            f"out has shape {out.shape} and dtype {out.dtype}: pass an array of shape {expected} "
            f"and dtype {X.dtype}, such as a slice of a larger buffer."
        )
    if not out.flags.writeable:
        raise ValueError("out is read-only: pass a writable array.")
    if _overlap(out, X.data if sparse.issparse(X) else X):
        raise ValueError("out overlaps X in memory: pass a separate array.")
    with naming_columns(features, X):
        features._threaded().write(X, out)
    return out


def _overlap(a: Array, b: Array) -> bool:
    """Return whether two arrays share memory; True if the test would take too long."""
    try:
        return np.shares_memory(a, b, max_work=100_000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True
