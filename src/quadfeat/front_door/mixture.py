"""The fitted models behind the front door, and their blend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from quadfeat._utils.validation import Float64Array
from quadfeat.front_door.forecasts import Forecast, Judge, as_columns
from quadfeat.io import checks, register

# Shares are sums of tenths, with rounding errors.
ROUNDING = 1e-9


@register
@dataclass(frozen=True, eq=False)
class Mixture:
    """Fitted models with shares that add up to 1, the largest share first.

    Attributes
    ----------
    models : tuple of estimators
    shares : tuple of float
    """

    models: tuple[Any, ...]
    shares: tuple[float, ...]

    def check_consistency(self) -> None:
        """Raise an error if the parts do not fit together; see ``quadfeat.io.register``."""
        checks.check_kind(self.models, tuple, "models of _mixture")
        checks.check_kind(self.shares, tuple, "shares of _mixture")
        count = len(self.models)
        checks.expect(0 < count == len(self.shares), f"{count} models, {len(self.shares)} shares")
        for share in self.shares:
            checks.check_finite(share, "share of _mixture")
            checks.expect(0 < share <= 1, f"share of _mixture is {share}")
        total = sum(self.shares)
        checks.expect(abs(total - 1) < ROUNDING, f"shares of _mixture add up to {total}")
        widths = {getattr(model, "n_features_in_", None) for model in self.models}
        checks.expect(len(widths) == 1, "models of _mixture have different columns")

    def forecast(self, judge: Judge, X: Any) -> Forecast:
        """Return the blended forecast for rows."""
        return judge.mixed([judge.forecast(model, X) for model in self.models], self.shares)

    def means(self, X: Any) -> Float64Array:
        """Return the blended predictions of numbers, shape (n_rows, n_outputs)."""
        parts = [share * as_columns(model.predict(X)) for model, share in self._pairs()]
        return np.asarray(sum(parts))

    def latent(self, X: Any) -> tuple[Float64Array, Float64Array]:
        """Return blended predictions with the standard deviations of the latent function.

        Both have shape (n_rows, n_outputs).
        """
        self._check_deviations("return_std=True")
        means, deviations = [], []
        for model, share in self._pairs():
            mean, deviation = model.predict(X, return_std=True)
            means.append(share * as_columns(mean))
            deviations.append(share * as_columns(deviation))
        return np.asarray(sum(means)), np.asarray(sum(deviations))

    @property
    def noise_variance(self) -> Any:
        """The variance of the noise, if the errors of the models are equal."""
        self._check_deviations("noise_variance_")
        return sum(share * model.noise_variance_**0.5 for model, share in self._pairs()) ** 2

    def alone(self, method: str) -> Any:
        """Return a method of the only model, which was not validated on held-out rows."""
        (model,) = self.models
        if not hasattr(model, method):
            raise AttributeError(
                f"{method} needs held-out rows, because {type(model).__name__} has no method of "
                "this name. Fit with cv=5, for example, or with more candidates."
            )
        return getattr(model, method)

    def _check_deviations(self, what: str) -> None:
        """Raise an error if a model has no standard deviations."""
        for model in self.models:
            if not hasattr(model, "noise_variance_"):
                raise AttributeError(
                    f"{what} needs standard deviations, which the candidate "
                    f"{type(model).__name__} does not have. Use predict_interval, or leave the "
                    "candidate out."
                )

    def _pairs(self) -> list[tuple[Any, float]]:
        return list(zip(self.models, self.shares, strict=True))
