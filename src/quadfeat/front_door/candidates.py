"""The kinds of models that compete: neighbors, features, and features with more columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from sklearn.base import clone, is_classifier

from quadfeat.io import register
from quadfeat.kernels import Kernel
from quadfeat.learning.columns import with_factors
from quadfeat.models import (
    LocalGaussianProcess,
    LocalGaussianProcessClassifier,
    QuadratureRidge,
    QuadratureRidgeClassifier,
)
from quadfeat.models.local_fitting import MOST_ENTRIES
from quadfeat.neighbors.wide import is_of_principal_columns

# If the nearest rows of a wide table are best found among its principal columns, features use the
# kernel of the neighbors, wider by this factor. It is about as good as the result of a long search,
# and leaves the time for more features.
WIDER = 2.0

# Seconds of a fit with r times as many features, in units of the seconds of the first fit, are at
# most about r ** power. The fit to all rows with a known penalty takes a part of the time of one
# that chooses the penalty. ``benchmarks/front_door.py`` measures both. Numbers take longer than
# classes: their penalties are often so small that products have to be exact.


class Growth(NamedTuple):
    """How the time of a fit grows with the number of features.

    Attributes
    ----------
    power : float
    refit : float
        The time of a fit with a known penalty, relative to one that chooses it.
    """

    power: float
    refit: float


OF_NUMBERS = Growth(power=1.9, refit=0.3)
OF_CLASSES = Growth(power=1.5, refit=0.15)

# Neighbors only have to be sorted, which takes less than this part of a search.
REFIT_OF_NEIGHBORS = 0.1

OF_NEIGHBORS = "the kernel of neighbors, wider"

# Tables with fewer rows have fewer features, which approximate the kernel well enough for them.
FEW_ROWS = 100
FEW_COMPONENTS = 256


class Setting(NamedTuple):
    """What all candidates of a contest have in common.

    Attributes
    ----------
    is_regression : bool
    seed : int
        The seed of random draws.
    n_jobs : int or None
    """

    is_regression: bool
    seed: int
    n_jobs: int | None


class Found(NamedTuple):
    """A fitted candidate.

    Attributes
    ----------
    model : estimator
    seconds : float
        The time of its fit.
    """

    model: Any
    seconds: float


class Candidate(ABC):
    """Base class of the kinds of models that compete in ``KernelRegressor`` and the classifier.

    A subclass defines ``key`` and :meth:`estimator`. The estimator has the methods of scikit-learn:
    ``predict(X)`` for regression and ``predict_proba(X)`` for classes. If an estimator for
    regression has ``predict(X, return_std=True)`` and ``noise_variance_``, the widths of prediction
    intervals vary between rows.

    Attributes
    ----------
    key : str
        The name in the leaderboard, by which users and other candidates refer to this one.
    serves_streams : bool
        Whether the estimator can be fitted to streams and Dask collections.
    """

    key: str
    serves_streams = False

    def reason_against(
        self, shape: tuple[int, int], found: Mapping[str, Found], seconds: float
    ) -> str | None:
        """Return why this candidate does not take part, or None if it does.

        Parameters
        ----------
        shape : tuple of int
            Number of training rows and of columns.
        found : dict of str to Found
            The candidates that were fitted before, by key.
        seconds : float
            The time that is left; infinite without a limit.
        """
        return None

    @abstractmethod
    def estimator(
        self,
        setting: Setting,
        shape: tuple[int, int],
        found: Mapping[str, Found],
        time_limit: float | None,
    ) -> Any:
        """Return the unfitted estimator.

        Parameters
        ----------
        setting : Setting
        shape : tuple of int
            Number of training rows and of columns.
        found : dict of str to Found
            The candidates that were fitted before, by key.
        time_limit : float or None
            Seconds that the fit may take.
        """

    def settled(self, model: Any) -> Any:
        """Return an unfitted estimator with the parameters that a fitted one has found.

        It is fitted to all rows if this candidate wins. By default, it is a clone, which searches
        again.
        """
        return clone(model)

    def note(self, model: Any) -> str:
        """Return details of a fitted model for the leaderboard; empty by default."""
        return ""

    def why(self, model: Any) -> str:
        """Return the reason for the parameters that a fitted model has found, in a sentence."""
        return str(getattr(model, "why_", ""))

    def n_kernels(self, model: Any) -> int | None:
        """Return how many kernels a fitted model has tried; None if it does not search."""
        return None

    def refit_seconds(self, model: Any, seconds: float) -> float:
        """Return about how long :meth:`settled` takes to fit to as many rows.

        Parameters
        ----------
        model : estimator
            A fitted model.
        seconds : float
            The time of its fit.
        """
        return seconds


@register
@dataclass(frozen=True)
class FeaturesCandidate(Candidate):
    """Ridge regression on quadrature features, which finds its kernel.

    Parameters
    ----------
    n_components : int, default=1024
        Number of features; at most 256 for fewer than 100 rows.
    rule : Rule or str, default="auto"
        The quadrature rule.
    """

    n_components: int = 1024
    rule: Any = "auto"
    key = "features"
    serves_streams = True

    def estimator(
        self,
        setting: Setting,
        shape: tuple[int, int],
        found: Mapping[str, Found],
        time_limit: float | None,
    ) -> Any:
        kind = QuadratureRidge if setting.is_regression else QuadratureRidgeClassifier
        most = FEW_COMPONENTS if shape[0] < FEW_ROWS else self.n_components
        kernel = _kernel_of_principal_columns(found)
        return kind(
            "auto" if kernel is None else kernel,
            n_components=min(self.n_components, most),
            rule=self.rule,
            time_limit=time_limit if kernel is None else None,
            random_state=setting.seed,
            n_jobs=setting.n_jobs,
        )

    def settled(self, model: Any) -> Any:
        found: dict[str, Any] = {"alpha": model.alpha_, "time_limit": None}
        return clone(model).set_params(kernel=model.kernel_, **found)

    def note(self, model: Any) -> str:
        kernel = model.candidates_[0].name if model.candidates_ else OF_NEIGHBORS
        return f"{model.n_components:,} features, {kernel}"

    def why(self, model: Any) -> str:
        return super().why(model) if model.candidates_ else f"It has {OF_NEIGHBORS}."

    def n_kernels(self, model: Any) -> int | None:
        return _n_kernels(model) or None

    def refit_seconds(self, model: Any, seconds: float) -> float:
        return _growth(model).refit * _last_seconds(model, seconds)


@register
@dataclass(frozen=True)
class MoreFeaturesCandidate(Candidate):
    """The features of another candidate with more columns, and with its kernel.

    Parameters
    ----------
    n_components : int, default=4096
        Number of features. If there is too little time for them, it is half as many, as long as
        they are more than those of the other candidate.
    """

    n_components: int = 4096
    key = "more features"

    def reason_against(
        self, shape: tuple[int, int], found: Mapping[str, Found], seconds: float
    ) -> str | None:
        before = found.get(FeaturesCandidate.key)
        if before is None or not hasattr(before.model, "n_components"):
            return "it needs the kernel of 'features'"
        fewer = before.model.n_components
        if shape[0] <= fewer:
            return f"{shape[0]:,} rows need no more than {fewer:,} features"
        least = self._numbers(fewer)[-1]
        needed = (1.0 + _growth(before.model).refit) * _seconds_of_more(before, least)
        if needed > seconds:
            left = max(seconds, 0.0)
            return f"{least:,} features need about {needed:.0f} s, and {left:.0f} s are left"
        return None

    def estimator(
        self,
        setting: Setting,
        shape: tuple[int, int],
        found: Mapping[str, Found],
        time_limit: float | None,
    ) -> Any:
        before = found[FeaturesCandidate.key]
        fewer = before.model
        most = float("inf") if time_limit is None else time_limit
        *larger, least = self._numbers(fewer.n_components)
        number = next((one for one in larger if _seconds_of_more(before, one) <= most), least)
        more: dict[str, Any] = {"n_components": number, "time_limit": None}
        return clone(fewer).set_params(kernel=fewer.kernel_, **more)

    def _numbers(self, fewer: int) -> list[int]:
        """Return the numbers of features to choose from, the largest first."""
        half = self.n_components // 2
        return [self.n_components, half] if half > fewer else [self.n_components]

    def settled(self, model: Any) -> Any:
        return clone(model).set_params(alpha=model.alpha_)

    def note(self, model: Any) -> str:
        return f"{model.n_components:,} features, the same kernel"

    def why(self, model: Any) -> str:
        return "The kernel is that of 'features'."

    def refit_seconds(self, model: Any, seconds: float) -> float:
        return _growth(model).refit * seconds


def _growth(model: Any) -> Growth:
    return OF_CLASSES if is_classifier(model) else OF_NUMBERS


def _seconds_of_more(before: Found, n_components: int) -> float:
    """Return about how long a fit with more features takes."""
    ratio = n_components / before.model.n_components
    seconds = _last_seconds(before.model, before.seconds)
    return float(ratio ** _growth(before.model).power * seconds)


def _kernel_of_principal_columns(found: Mapping[str, Found]) -> Kernel | None:
    """Return the kernel of nearest rows, but wider, if it compares principal columns."""
    neighbors = found.get(NeighborsCandidate.key)
    kernel: Any = None if neighbors is None else getattr(neighbors.model, "kernel_", None)
    if not hasattr(kernel, "projection") or not is_of_principal_columns(kernel):
        return None
    inner = kernel.inner
    factors = inner.input_factor(kernel.projection.width) / WIDER
    wider: Kernel = clone(kernel).set_params(kernel=with_factors(inner, factors))
    return wider


def _last_seconds(model: Any, seconds: float) -> float:
    """Return the time of a fit to all rows with as many columns as a model, without its search."""
    tried = [one.seconds for one in model.candidates_ if one.n_columns == model.n_components]
    return float(max(tried, default=seconds))


def _n_kernels(model: Any) -> int:
    return len({one.name for one in model.candidates_})


@register
@dataclass(frozen=True)
class NeighborsCandidate(Candidate):
    """A Gaussian process on the nearest rows, which finds its kernel."""

    key = "neighbors"

    def reason_against(
        self, shape: tuple[int, int], found: Mapping[str, Found], seconds: float
    ) -> str | None:
        n_rows, n_columns = shape
        if n_rows * n_columns > MOST_ENTRIES:
            return f"it holds all rows in memory, at most {MOST_ENTRIES:,} entries"
        return None

    def estimator(
        self,
        setting: Setting,
        shape: tuple[int, int],
        found: Mapping[str, Found],
        time_limit: float | None,
    ) -> Any:
        kind = LocalGaussianProcess if setting.is_regression else LocalGaussianProcessClassifier
        return kind(time_limit=time_limit, n_jobs=setting.n_jobs)

    def settled(self, model: Any) -> Any:
        found: dict[str, Any] = {
            "kernel": model.kernel_,
            "alpha": model.alpha_,
            "n_neighbors": model.n_neighbors_,
            "time_limit": None,
        }
        return clone(model).set_params(**found)

    def note(self, model: Any) -> str:
        tried = model.candidates_
        return str(tried[0].name) if tried else f"{model.n_neighbors_} neighbors"

    def n_kernels(self, model: Any) -> int | None:
        return _n_kernels(model)

    def refit_seconds(self, model: Any, seconds: float) -> float:
        return REFIT_OF_NEIGHBORS * seconds
