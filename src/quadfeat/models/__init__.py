"""The estimators: the map as a transformer, and models on it."""

from quadfeat.models.buffers import transform_into
from quadfeat.models.classification import QuadratureRidgeClassifier
from quadfeat.models.features import QuadratureFeatures
from quadfeat.models.growth import grow
from quadfeat.models.regression import QuadratureRidge

__all__ = [
    "QuadratureFeatures",
    "QuadratureRidge",
    "QuadratureRidgeClassifier",
    "grow",
    "transform_into",
]
