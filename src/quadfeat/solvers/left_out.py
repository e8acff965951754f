r"""Leave-one-out errors of rows for one alpha, exactly and without fitting again.

Let a row have the weight :math:`w`, the residual :math:`r` and the leverage :math:`h`: the variance
of its fitted value, relative to the variance :math:`\sigma^2` of the noise. A model that is fitted
without the row predicts it with the error :math:`r / (1 - w h)`, whose variance is :math:`\sigma^2
(1 + h / (1 - w h))`. Rows are left out as a whole, with all copies that a weight stands for, unless
copies are different cases (see ``KeptRows.leaves_one``).
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

# With less of a row left, 1 - h is rounding: the row alone determines its prediction.
LEAST_LEFT = 1e-10


@dataclass(frozen=True)
class LeftOut:
    """Predictions for rows by models that were fitted without them.

    Attributes
    ----------
    errors : array of shape (n_rows, n_outputs)
        Targets minus predictions.
    variances : array of shape (n_rows,)
        Variances of the errors, relative to that of the noise.
    """

    errors: Float64Array
    variances: Float64Array

    @classmethod
    def of(cls, posterior: Posterior, Z: Array, targets: Float64Array, amounts: Any) -> LeftOut:
        """Leave out rows that a posterior was fitted to.

        Parameters
        ----------
        posterior : Posterior
        Z : array of shape (n_rows, n_components)
            Features of the rows.
        targets : array of shape (n_rows, n_outputs)
        amounts : array of shape (n_rows,) or None
            The weight that is left out of each row; None means 1.
        """
        residuals = targets - Z @ posterior.coefficients - posterior.intercept
        leverage = posterior.leverage(Z)
        own = leverage if amounts is None else amounts * leverage
        left = np.maximum(1.0 - own, LEAST_LEFT)
        # Without a row that alone determines its prediction, the prediction is the mean.
        alone = (left <= LEAST_LEFT)[:, None]
        without = targets - posterior.center
        errors = np.where(alone, without, residuals / left[:, None])
        return cls(errors, 1.0 + leverage / left)

    @classmethod
    def of_kept(cls, posterior: Posterior, features: FeatureMap, rows: KeptRows) -> LeftOut:
        """Leave out the rows that a model keeps."""
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
    """Return the calibration of a classifier, from the rows that it keeps."""
    rows = targets.kept(summary)
    decisions = rows.targets - LeftOut.of_kept(posterior, features, rows).errors
    assert rows.labels is not None
    return best_calibration(decisions, rows.labels, rows.weights, summary.moments.target_totals)
