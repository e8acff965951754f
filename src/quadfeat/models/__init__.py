"""Estimators: a transformer that computes features, and models that use them."""

from quadfeat.models.buffers import transform_into
from quadfeat.models.classification import QuadratureRidgeClassifier
from quadfeat.models.features import QuadratureFeatures
from quadfeat.models.growth import grow
from quadfeat.models.local import LocalGaussianProcess
from quadfeat.models.local_classification import LocalGaussianProcessClassifier
from quadfeat.models.regression import QuadratureRidge

__all__ = [
    "LocalGaussianProcess",
    "LocalGaussianProcessClassifier",
    "QuadratureFeatures",
    "QuadratureRidge",
    "QuadratureRidgeClassifier",
    "grow",
    "transform_into",
]
