"""Draw random orthogonal matrices, dense or structured.

A rotation class holds parameters. ``draw(d, rng)`` draws a batch of matrices ``Q``, one per block
of nodes. It returns an immutable object that multiplies rows, ``X @ Q``, and can return its dense
matrices for inspection.

=============== ============ ================ =====================================
class           memory       cost per row     columns uniform on the sphere
=============== ============ ================ =====================================
``Haar``        ``d^2``      ``d^2``          yes, and jointly (Haar measure)
``Householder`` ``d^2``      ``2 d^2``        yes, and jointly (Haar measure)
``Butterfly``   ``d``        ``d log d``      yes for powers of two, else nearly
``Hadamard``    ``d``        ``d log d``      no (biased for small ``d``)
=============== ============ ================ =====================================
"""

from quadfeat.rotations.base import DrawnMatrices, Rotation, pad, power_of_two, random_signs
from quadfeat.rotations.butterfly import Butterfly, ButterflyMatrices
from quadfeat.rotations.haar import DenseMatrices, Haar
from quadfeat.rotations.hadamard import Hadamard, HadamardMatrices
from quadfeat.rotations.householder import Householder, Reflections

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
