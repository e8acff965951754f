r"""Compute exact leave-one-out errors for one alpha, without refitting.

Consider a row with weight :math:`w`, residual :math:`r` and leverage :math:`h`. The leverage is the
variance of the fitted value in units of the noise variance :math:`\sigma^2`. A model that is fitted
without this row predicts it with the error :math:`r / (1 - w h)`, whose variance is
:math:`\sigma^2 (1 + h / (1 - w h))`. A row is left out with its whole weight, unless equal rows are
separate observations (see ``KeptRows.leaves_one``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from quadfeat._utils.validation import Array, Float64Array
from quadfeat.maps.base import FeatureMap
from quadfeat.solvers.calibration import Calibration, best_calibration
from quadfeat.solvers.posterior import ROWS_PER_SOLVE, Posterior
from quadfeat.solvers.summaries import Summary
from quadfeat.solvers.targets import KeptRows, Targets

# Below this, 1 - w h is a rounding error, and the row alone determines its prediction.
LEAST_LEFT = 1e-10


@dataclass(frozen=True)
class LeftOut:
    """Leave-one-out errors of rows.

    Attributes
    ----------
    errors : array of shape (n_rows, n_outputs)
        Targets minus the predictions of models that were fitted without the row.
    variances : array of shape (n_rows,)
        Variances of the errors, in units of the noise variance.
    """

    errors: Float64Array
    variances: Float64Array

    @classmethod
    def of(
        cls,
        posterior: Posterior,
        Z: Array,
        targets: Float64Array,
        amounts: Any,
        *,
        single: bool = False,
    ) -> LeftOut:
        """Leave out rows to which a posterior was fitted.

        Parameters
        ----------
        posterior : Posterior
        Z : array of shape (n_rows, n_components)
            Features of the rows.
        targets : array of shape (n_rows, n_outputs)
        amounts : array of shape (n_rows,) or None
            The weight to leave out of each row; None means 1.
        single : bool, default=False
            Whether to compute leverages in float32.
        """
        residuals = targets - Z @ posterior.coefficients - posterior.intercept
        leverage = posterior.leverage(Z, single=single)
        own = leverage if amounts is None else amounts * leverage
        left = np.maximum(1.0 - own, LEAST_LEFT)
        # If a row alone determines its prediction, a model without it predicts the mean.
        alone = (left <= LEAST_LEFT)[:, None]
        without = targets - posterior.center
        errors = np.where(alone, without, residuals / left[:, None])
        return cls(errors, 1.0 + leverage / left)

    @classmethod
    def of_kept(cls, posterior: Posterior, features: FeatureMap, rows: KeptRows) -> LeftOut:
        """Leave out the training rows that a model keeps."""
        parts = []
        for start in range(0, max(1, len(rows.X)), ROWS_PER_SOLVE):
            part = slice(start, start + ROWS_PER_SOLVE)
            Z = np.asarray(features.columns(rows.X[part]), dtype=np.float64)
            parts.append(cls.of(posterior, Z, rows.targets[part], rows.amounts[part]))
        return cls(
            np.concatenate([one.errors for one in parts]),
            np.concatenate([one.variances for one in parts]),
        )


def calibrated(
    posterior: Posterior, features: FeatureMap, targets: Targets, summary: Summary
) -> Calibration:
    """Calibrate a classifier on the training rows that it keeps."""
    rows = targets.kept(summary)
    decisions = rows.targets - LeftOut.of_kept(posterior, features, rows).errors
    assert rows.labels is not None
    return best_calibration(decisions, rows.labels, rows.weights, summary.moments.target_totals)
