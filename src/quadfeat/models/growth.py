"""Add columns to a fitted map."""

from __future__ import annotations

import copy

from sklearn.utils.validation import check_is_fitted

from quadfeat._utils import validation as check
from quadfeat.maps.growth import grown
from quadfeat.models.features import QuadratureFeatures

__all__ = ["grow"]


def grow(features: QuadratureFeatures, n_components: int) -> QuadratureFeatures:
    r"""Add columns to a fitted map.

    The new map keeps the nodes of the given map. If the number of nodes grows from ``M`` to ``M'``,
    the columns of the kept nodes are multiplied by :math:`\sqrt{M/M'}`, so results that were
    computed with them can be reused. The random generator continues where the fit stopped, so
    growing in the same steps always gives the same map.

    Parameters
    ----------
    features : QuadratureFeatures
        A fitted map. Its rule must draw nodes that do not depend on their number: independent
        radii or low-discrepancy points without ``matched``, in complete nodes and blocks.
    n_components : int
        Number of columns of the larger map.

    Returns
    -------
    QuadratureFeatures
        A new fitted map. The given map does not change. The new map has no
        ``approximation_error_``, which needs data: call its ``kernel_error``.

    Examples
    --------
    >>> import numpy as np
    >>> from quadfeat import QuadratureFeatures, grow
    >>> X = np.random.default_rng(0).standard_normal((100, 3))
    >>> small = QuadratureFeatures(rule="rff", n_components=64, random_state=0).fit(X)
    >>> large = grow(small, 256)
    >>> bool(np.allclose(large.transform(X)[:, :64], small.transform(X) / 2))
    True
    """
    check.check_kind(
        features,
        QuadratureFeatures,
        f"features={features!r} is not valid: pass a fitted QuadratureFeatures.",
    )
    check_is_fitted(features)
    n_components = check.check_count(n_components, "n_components")
    before = features.n_components_
    if n_components <= before:
        raise ValueError(
            f"n_components={n_components} is not valid: the map already has {before} columns. Pass "
            "a larger number."
        )
    larger = copy.copy(features)
    larger.map_ = grown(features.map_, n_components)
    larger.n_components, larger.tol, larger.n_components_bound_ = n_components, None, None
    larger.candidates_ = ()
    larger.why_ = f"grown from {before} columns; {features.why_}"
    for name in ("approximation_error_", "_pending_error"):
        larger.__dict__.pop(name, None)
    return larger
