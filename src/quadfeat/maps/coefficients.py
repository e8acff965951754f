"""Coefficients of a model, scaled so that they fit the dtype of the rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from quadfeat._utils.validation import Array, Float64Array

# Up to this many entries, scaled coefficients are kept for the next prediction. With more of them,
# the product takes much longer than the scaling.
ENTRIES_TO_KEEP = 2**16


class ScaledCoefficients(NamedTuple):
    """Coefficients divided by powers of two, so that float32 can hold coefficients of any size.

    Attributes
    ----------
    values : array of shape (n_columns, n_outputs)
        The scaled coefficients in the dtype of the rows.
    units : array of shape (n_outputs,)
        The powers of two.
    """

    values: Array
    units: Float64Array

    @classmethod
    def of(cls, coefficients: Float64Array, dtype: Any) -> ScaledCoefficients:
        """Scale coefficients; reject them if they are not finite.

        Examples
        --------
        >>> scaled = ScaledCoefficients.of(np.array([[3e60], [1e60]]), np.float32)
        >>> scaled.values.dtype, float(scaled.values.max()) <= 1.0
        (dtype('float32'), True)
        """
        largest = np.abs(coefficients).max(axis=0, initial=0.0)
        if not np.isfinite(largest).all():
            raise ValueError("the coefficients are beyond the range of float64: rescale y.")
        units = np.ldexp(1.0, np.frexp(largest)[1])
        values = np.ascontiguousarray(coefficients / units, dtype=dtype)
        values.flags.writeable = False
        return cls(values, units)

    @classmethod
    def kept(
        cls, cache: dict[Any, Any], coefficients: Float64Array, dtype: Any
    ) -> ScaledCoefficients:
        """Return scaled coefficients, from a cache if it has those of these coefficients.

        Scaling takes as long as the product for a few rows. The content is compared, since users
        may change the coefficients of a model in place.
        """
        if coefficients.size > ENTRIES_TO_KEEP:
            return cls.of(coefficients, dtype)
        content = (coefficients.shape, coefficients.dtype, coefficients.tobytes())
        known, scaled = cache.get(("coefficients", dtype), (None, None))
        if scaled is None or known != content:
            scaled = cls.of(coefficients, dtype)
            cache["coefficients", dtype] = content, scaled
        return scaled
