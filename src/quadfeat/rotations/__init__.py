"""Random orthogonal matrices, each applied in its own complexity."""

from quadfeat.rotations.base import (
    Butterfly,
    ButterflyMatrices,
    DenseMatrices,
    DrawnMatrices,
    Haar,
    Hadamard,
    HadamardMatrices,
    Householder,
    Reflections,
    Rotation,
    pad,
    power_of_two,
    random_signs,
)

__all__ = [
    "Butterfly",
    "ButterflyMatrices",
    "DenseMatrices",
    "DrawnMatrices",
    "Haar",
    "Hadamard",
    "HadamardMatrices",
    "Householder",
    "Reflections",
    "Rotation",
    "pad",
    "power_of_two",
    "random_signs",
]
