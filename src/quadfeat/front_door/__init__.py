"""The front door: ``KernelRegressor`` and ``KernelClassifier`` choose the kind of model."""

from quadfeat.front_door.candidates import (
    Candidate,
    FeaturesCandidate,
    MoreFeaturesCandidate,
    NeighborsCandidate,
)
from quadfeat.front_door.classification import KernelClassifier
from quadfeat.front_door.leaderboard import Leaderboard, LeaderboardRow
from quadfeat.front_door.regression import KernelRegressor
from quadfeat.front_door.relevance import RelevanceRow, RelevanceTable

__all__ = [
    "Candidate",
    "FeaturesCandidate",
    "KernelClassifier",
    "KernelRegressor",
    "Leaderboard",
    "LeaderboardRow",
    "MoreFeaturesCandidate",
    "NeighborsCandidate",
    "RelevanceRow",
    "RelevanceTable",
]
