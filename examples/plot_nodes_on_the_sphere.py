r"""
The nodes of a spherical-radial rule
====================================

The Gaussian kernel is an expectation over random frequencies. A frequency is a direction, uniform
on the sphere, times a length. Random Fourier features draw both at random. A spherical-radial rule
rotates all vertices of a regular simplex together, and gives each of them a length and a weight.
This example shows its nodes in three dimensions.
"""

# %%
# ``draw`` returns the nodes of a rule for a number of data columns, a number of feature columns and
# a kernel. One block of the paper's rule has the ``d + 1`` vertices of a simplex. For the Gaussian
# kernel each node takes two columns, a cosine and a sine, and the origin takes one.

from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np

from quadfeat.kernels import Gaussian
from quadfeat.rules import MonteCarlo, SphericalRadial

d = 3
kernel = Gaussian(0.5)
rng = np.random.default_rng(4)
n_blocks = 5
columns = 2 * n_blocks * (d + 1)

rule = SphericalRadial(radii="stratified").draw(d, columns + 1, kernel, rng)
simplex = rule.directions.dense()[: d + 1]
random_nodes = MonteCarlo().draw(d, columns, kernel, rng)

# %%
# The integrand is even, so each node also represents its reflection. The four vertices of a block
# and their reflections are the eight vertices of a cube. Each block has its own random rotation.
# Every single direction is then uniform on the sphere, so the rule is correct on average.
#
# Each of the :math:`M` vertices then gets a radius :math:`\rho` and the weight
# :math:`d / (M \rho^2)`. So nodes far from the origin have small weights.


def sphere(ax, title, radius, reach):
    """Draw a wireframe sphere in a cube of half-width ``reach``."""
    thin = {"color": "#d8d8d8", "linewidth": 0.5}
    u, v = np.mgrid[0 : 2 * np.pi : 25j, 0 : np.pi : 13j]
    x, y, z = np.cos(u) * np.sin(v), np.sin(u) * np.sin(v), np.cos(v)
    ax.plot_wireframe(radius * x, radius * y, radius * z, zorder=0, **thin)
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), zlim=(-reach, reach))
    ax.set_box_aspect((1, 1, 1), zoom=1.65)
    ax.view_init(elev=18, azim=35)
    ax.set_axis_off()
    ax.set_title(title)


def spokes(ax, points, color, sizes=50):
    """Draw filled points, their hollow reflections, and lines between them."""
    for point in points:
        ax.plot(*np.stack([-point, point], axis=1), color=color, linewidth=0.8, alpha=0.5)
    dots = {"s": sizes, "edgecolor": color, "depthshade": False, "zorder": 3}
    ax.scatter(*-points.T, facecolor="white", **dots)
    ax.scatter(*points.T, facecolor=color, **dots)


def blocks(values):
    """Return the values of each block, with a color."""
    return zip(np.split(values, n_blocks), [f"C{k}" for k in range(n_blocks)], strict=True)


three_d = {"projection": "3d", "computed_zorder": False}
figure, axes = plt.subplots(2, 2, figsize=(8.6, 8.4), layout="constrained", subplot_kw=three_d)
alone, rotated, weighted, at_random = axes.flat

sphere(alone, "one block: a rotated simplex and its reflection", radius=1, reach=1.15)
for edge in combinations(simplex, 2):
    alone.plot(*np.transpose(edge), color="C0", linewidth=1.6)
spokes(alone, simplex, "C0")

sphere(rotated, "five blocks, each with its own rotation", radius=1, reach=1.15)
for vertices, color in blocks(rule.directions.dense()):
    spokes(rotated, vertices, color)

reach = max(np.linalg.norm(nodes.frequencies(), axis=1).max() for nodes in (rule, random_nodes))
size = 40 / random_nodes.weights[0]
sphere(weighted, "the same nodes with radii; area shows weight", np.sqrt(d), reach)
for vertices, color in blocks(np.column_stack([rule.frequencies(), rule.weights])):
    spokes(weighted, vertices[:, :d], color, size * vertices[:, d])

sphere(at_random, "as many random nodes with equal weights", np.sqrt(d), reach)
spokes(at_random, random_nodes.frequencies(), "C7", size * random_nodes.weights)
plt.show()

# %%
# In every single draw, the weighted sum of :math:`w w^\top` over the nodes is the identity, which
# is its exact expectation. The same holds for all moments up to degree 3. Random nodes match them
# only on average. These moments determine most of a wide kernel, so such rules are most accurate
# there.

np.set_printoptions(precision=3, suppress=True)
for name, nodes in (("five blocks", rule), ("random nodes", random_nodes)):
    w = nodes.frequencies()
    print(f"{name}: weighted sum of w w'")
    print((w.T * nodes.weights) @ w)
