r"""
Butterfly matrices: fast random rotations
=========================================

The rules of the paper rotate their nodes by random orthogonal matrices. A dense matrix of size
``d`` takes :math:`d^2` numbers, and as many multiplications per row of the data. A butterfly matrix
is a product of sparse stages, arranged as in a fast Fourier transform. It takes ``d - 1`` angles
and :math:`O(d \log d)` operations.
"""

# %%
# A stage of half-size ``m`` splits the coordinates into runs of ``2 m``. It rotates coordinate
# ``i`` of a run with coordinate ``i + m``, using the same angle for all pairs of a run. If ``d`` is
# not a power of two, coordinates without a partner stay unchanged.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import to_rgba
from matplotlib.patches import Patch

from quadfeat.rotations import Butterfly


def stages(cosines, sines):
    """Return the sparse factors of a butterfly matrix, starting with the closest pairs."""
    d = len(cosines) + 1
    angles = zip(cosines, sines, strict=True)
    factors = []
    half = 1
    while half < d:
        factor = np.eye(d)
        for start in range(0, d - half, 2 * half):
            c, s = next(angles)
            left = np.arange(start, min(start + half, d - half))
            right = left + half
            factor[left, left] = factor[right, right] = c
            factor[left, right] = -s
            factor[right, left] = s
        factors.append(factor)
        half *= 2
    return factors


# %%
# :class:`~quadfeat.rotations.Butterfly` draws the angles and, for each round, a permutation ``P``.
# The matrix of one round is ``P B``, where ``B`` is the product of the stages.


def draw_factors(d):
    """Return the stages of a random butterfly matrix and their product."""
    drawn = Butterfly(rounds=1).draw(d, np.random.default_rng(1))
    factors = stages(drawn.cosines[0, 0], drawn.sines[0, 0])
    product = np.linalg.multi_dot(factors)
    permutation = np.eye(d)[:, drawn.permutations[0, 0]]
    assert np.allclose(permutation @ product, drawn.dense()[0])
    return factors, product


def show(ax, matrix, title=None):
    """Draw the entries of a matrix: color shows the sign, opacity the size."""
    opacity = np.where(matrix == 0, 0.0, 0.2 + 0.8 * np.sqrt(np.abs(matrix)))
    image = np.where(matrix[..., None] < 0, to_rgba("C1"), to_rgba("C0"))
    image[..., 3] = opacity
    ax.imshow(image, interpolation="nearest")
    ax.set_xticks(np.arange(len(matrix) + 1) - 0.5, labels=[])
    ax.set_yticks(np.arange(len(matrix) + 1) - 0.5, labels=[])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(True)
    ax.set_title(title or "")
    ax.set_xlabel(f"{np.count_nonzero(matrix)} nonzero")


signs = [Patch(color="C0", label="positive"), Patch(color="C1", label="negative")]
figure, axes = plt.subplots(2, 5, figsize=(10, 4.9), layout="constrained")
for row, d in zip(axes, (16, 15), strict=True):
    factors, product = draw_factors(d)
    for ax, matrix in zip(row, (*factors, product), strict=True):
        show(ax, matrix)
    row[0].set_ylabel(f"d = {d}")
titles = ("pairs 1 apart", "2 apart", "4 apart", "8 apart", "their product B")
for ax, title in zip(axes[0], titles, strict=True):
    ax.set_title(title)
figure.legend(handles=signs, loc="outside lower center", ncols=2)

# %%
# Four sparse stages fill a matrix of size 16. For ``d = 15``, the unchanged coordinates leave holes
# in the product. Some directions then have no component along some coordinates, and estimates are
# biased. That is why the paper multiplies several rounds, each with its own permutation. After two
# rounds there are no holes. After three, the remaining bias is hardly measurable. The default is
# two rounds, or three if ``d`` is small and not a power of two, such as 15.

figure, axes = plt.subplots(1, 4, figsize=(10, 3.3), layout="constrained")
show(axes[0], product, "B, d = 15")
for rounds, ax in enumerate(axes[1:], start=1):
    drawn = Butterfly(rounds=rounds).draw(15, np.random.default_rng(1))
    plural = "s" if rounds > 1 else ""
    show(ax, drawn.dense()[0], f"{rounds} round{plural} of P B")
figure.legend(handles=signs, loc="outside lower center", ncols=2)
plt.show()

# %%
# Storage (cosines, sines and permutations), compared with a dense matrix:

for d in (16, 784, 7129):
    drawn = Butterfly().draw(d, np.random.default_rng(0))
    stored = drawn.cosines.size + drawn.sines.size + drawn.permutations.size
    print(f"d = {d:4d}: {stored:6d} numbers instead of {d * d:8d}")
