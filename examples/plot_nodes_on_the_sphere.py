r"""
The nodes of a spherical-radial rule
====================================

A kernel such as the Gaussian one is a mean over random frequencies: a direction, which is uniform
on the sphere, times a length. Random Fourier features draw both at random. A spherical-radial rule
draws directions that belong together, the vertices of a regular simplex, turns them as a whole,
and gives each a length and a weight. Here is how, in three dimensions.
"""

# %%
# ``draw`` of a rule returns its nodes for inputs of a width, a number of columns and a kernel.
# One block of the rule of the paper has the ``d + 1`` vertices of a simplex. A node of the Gaussian
# kernel has two columns, a cosine and a sine, and the origin has one.

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
# The kernel is even, so a node serves for its reflection too: the four vertices of a block stand
# for the eight of a cube. They are turned by a random rotation of their own in each block, after
# which every single direction is uniform on the sphere, so that the mean over many draws is right.
#
# A vertex is then moved to a radius :math:`\rho` and given the weight :math:`d / (M \rho^2)`, if
# there are :math:`M` of them. Nodes far out, which nobody wants to depend on, count for little.


def sphere(ax, title, radius, reach):
    """Draw a sphere of wires in a cube that reaches so far."""
    thin = {"color": "#d8d8d8", "linewidth": 0.5}
    u, v = np.mgrid[0 : 2 * np.pi : 25j, 0 : np.pi : 13j]
    x, y, z = np.cos(u) * np.sin(v), np.sin(u) * np.sin(v), np.cos(v)
    ax.plot_wireframe(radius * x, radius * y, radius * z, zorder=0, **thin)
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), zlim=(-reach, reach))
    ax.set_box_aspect((1, 1, 1), zoom=1.65)
    ax.view_init(elev=18, azim=35)
    ax.set_axis_off()
    ax.set_title(title)


def spokes(ax, points, colour, sizes=50):
    """Draw points, filled, and their reflections, hollow, with a line from one to the other."""
    for point in points:
        ax.plot(*np.stack([-point, point], axis=1), color=colour, linewidth=0.8, alpha=0.5)
    dots = {"s": sizes, "edgecolor": colour, "depthshade": False, "zorder": 3}
    ax.scatter(*-points.T, facecolor="white", **dots)
    ax.scatter(*points.T, facecolor=colour, **dots)


def blocks(values):
    """Return values of the nodes block by block, with a colour for each."""
    return zip(np.split(values, n_blocks), [f"C{k}" for k in range(n_blocks)], strict=True)


three_d = {"projection": "3d", "computed_zorder": False}
figure, axes = plt.subplots(2, 2, figsize=(8.6, 8.4), layout="constrained", subplot_kw=three_d)
alone, turned, weighted, at_random = axes.flat

sphere(alone, "one block: a simplex, turned, and its reflection", radius=1, reach=1.15)
for edge in combinations(simplex, 2):
    alone.plot(*np.transpose(edge), color="C0", linewidth=1.6)
spokes(alone, simplex, "C0")

sphere(turned, "five blocks, each turned by itself", radius=1, reach=1.15)
for vertices, colour in blocks(rule.directions.dense()):
    spokes(turned, vertices, colour)

reach = max(np.linalg.norm(nodes.frequencies(), axis=1).max() for nodes in (rule, random_nodes))
size = 40 / random_nodes.weights[0]
sphere(weighted, "the same at their radii; area is weight", np.sqrt(d), reach)
for vertices, colour in blocks(np.column_stack([rule.frequencies(), rule.weights])):
    spokes(weighted, vertices[:, :d], colour, size * vertices[:, d])

sphere(at_random, "as many random nodes, of equal weight", np.sqrt(d), reach)
spokes(at_random, random_nodes.frequencies(), "C7", size * random_nodes.weights)
plt.show()

# %%
# What that is good for: the weighted sum of :math:`w w^\top` over the nodes is the identity, its
# exact mean, in every single draw, as are all moments up to degree 3. Random nodes have them on the
# average only. Kernels that are wide for the data are little more than these moments, and that is
# where such rules win.

np.set_printoptions(precision=3, suppress=True)
for name, nodes in (("five blocks", rule), ("random nodes", random_nodes)):
    w = nodes.frequencies()
    print(f"{name}: the sum of weight * w w' is")
    print((w.T * nodes.weights) @ w)
