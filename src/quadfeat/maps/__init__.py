"""Feature maps from rows to columns: their products, growth and errors."""

from quadfeat.maps.base import FeatureMap
from quadfeat.maps.kernel_error import KernelError
from quadfeat.maps.kernel_map import KernelMap
from quadfeat.maps.metric import MetricMap
from quadfeat.maps.quadrature import Origin, QuadratureMap
from quadfeat.maps.transformer import TransformerMap

__all__ = [
    "FeatureMap",
    "KernelError",
    "KernelMap",
    "MetricMap",
    "Origin",
    "QuadratureMap",
    "TransformerMap",
]
