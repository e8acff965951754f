"""What a search for the settings of a process looks for, and what it has tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from quadfeat.kernels import Projection, SeparationKernel
from quadfeat.neighbors.settings import Settings

# Numbers of neighbors to try.
NUMBERS = (16, 32, 64, 128, 256)


class Tried(NamedTuple):
    """Settings that were validated.

    Attributes
    ----------
    name : str
    settings : Settings
    loss : float
        The leave-one-out loss; see ``Goal.validated``.
    standard_error : float
    n_rows : int
        Number of rows that were left out.
    seconds : float
    """

    name: str
    settings: Settings
    loss: float
    standard_error: float
    n_rows: int
    seconds: float


@dataclass(frozen=True)
class Wanted:
    """The settings to learn.

    Attributes
    ----------
    families : dict of str to SeparationKernel
    lengthscales : {"ard", "isotropic"} or None
        None leaves the scale of the kernels as it is.
    alpha : float or None
        None means to learn it.
    n_neighbors : int or None
        None means to select it.
    projection : Projection or None
        The projection of the given kernel, if it has one.
    search : {"auto", "exact", "approximate"}
        How to search for neighbors.
    compresses : bool
        Whether columns with heavy tails may be compressed, unless the kernel is given.
    """

    families: dict[str, SeparationKernel]
    lengthscales: str | None
    alpha: float | None
    n_neighbors: int | None
    projection: Projection | None = None
    search: str = "exact"
    compresses: bool = True

    @property
    def is_given(self) -> bool:
        """Whether the family of the kernel is given."""
        return len(self.families) == 1

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of neighbors to try."""
        return NUMBERS if self.n_neighbors is None else (self.n_neighbors,)
