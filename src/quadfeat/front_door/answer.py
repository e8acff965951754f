"""What a fit has found: the models with their shares, and the explanation of the choice."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator

from quadfeat._utils.validation import Float64Array
from quadfeat.front_door.leaderboard import Leaderboard
from quadfeat.front_door.mixture import Mixture
from quadfeat.io import checks, register
from quadfeat.models.intervals import Scores
from quadfeat.tables import TableEncoder


@register
@dataclass(frozen=True, eq=False)
class Answer:
    """The result of a fit.

    Attributes
    ----------
    mixture : Mixture
        The fitted models with their shares.
    encoder : TableEncoder or None
        The encoder of the columns, whose output the models expect.
    leaderboard : Leaderboard
    why : str
    spreads : array of shape (n_encoded_columns,)
        The spread of each encoded column, in which relevances are measured.
    scores : Scores or None
        Errors of held-out rows in units of their standard deviations, for prediction intervals.
    """

    mixture: Mixture
    encoder: TableEncoder | None
    leaderboard: Leaderboard
    why: str
    spreads: Float64Array
    scores: Scores | None = None

    def check_consistency(self) -> None:
        """Raise an error if the parts do not fit together; see ``quadfeat.io.register``."""
        name = "_answer"
        checks.check_kind(self.mixture, Mixture, f"mixture of {name}")
        checks.check_kind(self.leaderboard, Leaderboard, f"leaderboard of {name}")
        checks.check_kind(self.why, str, f"why of {name}")
        checks.check_kind(self.encoder, (TableEncoder, type(None)), f"encoder of {name}")
        checks.check_kind(self.scores, (Scores, type(None)), f"scores of {name}")
        for model in self.mixture.models:
            checks.check_kind(model, BaseEstimator, f"model of {name}")
        if self.encoder is not None:
            found = len(self.encoder.input_of_output_)
            checks.expect(
                found == self.width,
                f"encoder of {name} has {found} outputs, but its models need {self.width}",
            )
        checks.check_array(self.spreads, (self.width,), np.float64, f"spreads of {name}")

    @property
    def width(self) -> int:
        """The number of columns that the models expect."""
        return int(self.mixture.models[0].n_features_in_)
