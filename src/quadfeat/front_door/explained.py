"""The fitted attributes of the front door, its plots and its files."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from quadfeat._utils.validation import Float64Array
from quadfeat.front_door import reasons
from quadfeat.front_door.answer import Answer
from quadfeat.front_door.leaderboard import Leaderboard
from quadfeat.front_door.mixture import Mixture
from quadfeat.front_door.relevance import RelevanceTable
from quadfeat.io import checks
from quadfeat.io.pickles import VersionedState
from quadfeat.models import notebook
from quadfeat.tables import TableEncoder

# Private attributes that fit sets, and removes before it starts.
LEARNED = ("_answer", "_one_output")


class Explained(VersionedState):
    """Base class with the fitted attributes."""

    _answer: Answer
    n_features_in_: int

    def _found(self) -> Answer:
        """Return the result of the fit."""
        check_is_fitted(self)
        return self._answer

    @property
    def _mixture(self) -> Mixture:
        return self._found().mixture

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_answer")

    @property
    def model_(self) -> Any:
        """The fitted model with the largest share."""
        return self._mixture.models[0]

    @property
    def models_(self) -> list[tuple[float, Any]]:
        """The fitted models with their shares, the largest first."""
        mixture = self._mixture
        return list(zip(mixture.shares, mixture.models, strict=True))

    @property
    def leaderboard_(self) -> Leaderboard:
        """The candidates with their validated losses, the best first."""
        return self._found().leaderboard

    @property
    def why_(self) -> str:
        """The reason for the choice, in a few sentences."""
        return self._found().why

    @property
    def encoder_(self) -> TableEncoder | None:
        """The fitted encoder of columns; None if none was needed."""
        return self._found().encoder

    @property
    def relevance_(self) -> Float64Array:
        """How fast predictions bend along each input column, in shares that add up to 1."""
        return reasons.relevance(self._found(), self.n_features_in_)

    @property
    def relevance_table_(self) -> RelevanceTable:
        """The columns with their relevance, the most relevant first."""
        return RelevanceTable.of(self.relevance_, getattr(self, "feature_names_in_", None))

    def plot(self, axes: Any = None) -> Any:
        """Plot the leaderboard, and the relevance of the columns.

        Parameters
        ----------
        axes : sequence of two matplotlib Axes, default=None
            By default those of a new figure.

        Returns
        -------
        sequence of two matplotlib Axes
        """
        from quadfeat.plots import leaderboard, relevance

        check_is_fitted(self)
        if axes is None:
            from quadfeat.plots.axes import two_axes

            axes = two_axes("leaderboard")
        leaderboard(self, ax=axes[0])
        relevance(self, ax=axes[1])
        return axes

    # The diagram of scikit-learn in notebooks, with the leaderboard below.

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle and hasattr(self, "_answer"):
            table = self._answer.leaderboard.as_html()
            bundle["text/html"] = f"<div>{bundle['text/html']}{table}</div>"
        return bundle

    def _get_fitted_attr_html(self, doc_link: str = "") -> notebook.Values:
        # Newer versions of scikit-learn would compute all properties here.
        return notebook.Values({"Why": self._answer.why} if hasattr(self, "_answer") else {})

    # Attributes in pickles and files.

    needed_attributes: tuple[str, ...] = ("_answer", "n_features_in_")
    saved_attributes: tuple[str, ...] = ("n_features_in_", "feature_names_in_", *LEARNED)

    def check_consistency(self) -> None:
        """Raise an error if the fitted attributes are inconsistent."""
        if not hasattr(self, "_answer"):
            return
        checks.check_kind(self._answer, Answer, "_answer")
        encoder = self._answer.encoder
        d, width = self.n_features_in_, self._answer.width
        if encoder is not None:
            width = encoder.n_features_in_
        checks.expect(d == width, f"the model is for {d} columns, but its parts for {width}")
        checks.check_column_names(self)
