"""Add columns to a fitted map."""

from __future__ import annotations

import copy

from sklearn.utils.validation import check_is_fitted

from quadfeat._utils import validation as check
from quadfeat.maps.growth import grown
from quadfeat.models.features import QuadratureFeatures

__all__ = ["grow"]


def grow(features: QuadratureFeatures, n_components: int) -> QuadratureFeatures:
    r"""Return a map with more columns that keeps the nodes of an earlier one.

    Earlier nodes do not change. With ``M`` nodes before and ``M'`` nodes now, the columns of the
    earlier nodes are the old ones times :math:`\sqrt{M/M'}`, so that results computed with them can
    be reused. The generator continues from where the earlier fit stopped: growing twice by the same
    steps gives the same map.

    Parameters
    ----------
    features : QuadratureFeatures
        A fitted map. The nodes of its rule must not depend on their number: independent radii or
        unmatched low-discrepancy points, in complete nodes and blocks.
    n_components : int
        Number of columns of the larger map.

    Returns
    -------
    QuadratureFeatures
        A new fitted map; the earlier one does not change. It has no ``approximation_error_``, since
        no data is given: call its ``kernel_error``.

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
        f"features={features!r} is not valid: give a fitted QuadratureFeatures.",
    )
    check_is_fitted(features)
    n_components = check.check_count(n_components, "n_components")
    before = features.n_components_
    if n_components <= before:
        raise ValueError(
            f"n_components={n_components} is not valid: the map has {before} columns, give more."
        )
    larger = copy.copy(features)
    larger.map_ = grown(features.map_, n_components)
    larger.n_components, larger.tol, larger.n_components_bound_ = n_components, None, None
    larger.candidates_ = ()
    larger.why_ = f"grown from {before} columns; {features.why_}"
    larger.__dict__.pop("approximation_error_", None)
    return larger
