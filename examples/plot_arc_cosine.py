r"""
Networks of random units: arc-cosine kernels
============================================

A layer of a neural network whose weights are random, and of which there are infinitely many units,
is a kernel. With units that are ramps, :math:`\max(0, w \cdot x)`, it is the arc-cosine kernel of
order 1; with steps that of order 0, with squared ramps that of order 2. A layer of finitely many
units is a map of random features. Better directions make better layers.
"""

# %%
# These kernels depend on the lengths of two rows and on the angle between them. So rows on half a
# circle, somewhere in ten dimensions, are enough to see all of a kernel.

import matplotlib.pyplot as plt
import numpy as np

from quadfeat import QuadratureFeatures
from quadfeat.kernels import ArcCosine
from quadfeat.rules import MonteCarlo, SphericalRadial

d = 10
angles = np.linspace(0, np.pi, 61)
rng = np.random.default_rng(0)
plane = np.linalg.qr(rng.standard_normal((d, 2)))[0]
X = np.column_stack([np.cos(angles), np.sin(angles)]) @ plane.T

# %%
# A plain random layer has units ``w`` that are drawn independently. A better one has each unit with
# its reflection ``-w``. A quadrature rule has the vertices of a simplex, turned at random, with
# their reflections. The length of ``w`` is only a factor of these units, so that the rule can put
# in its mean instead of drawing it: ``tilt="exact"``.

N_UNITS, N_DRAWS = 4 * (d + 1), 60  # two whole blocks of the rule
layers = {
    "independent units": (MonteCarlo(reflect=False), "C1"),
    "independent, with reflections": (MonteCarlo(), "C4"),
    "turned simplex": (SphericalRadial(tilt="exact"), "C0"),
}


def draws(order, rule):
    """Return the kernel of the first row with all, as drawn layers have it."""
    found = []
    for seed in range(N_DRAWS):
        layer = QuadratureFeatures(
            ArcCosine(order), n_components=N_UNITS, rule=rule, random_state=seed
        )
        Z = layer.fit_transform(X)
        found.append(Z[0] @ Z.T)
    return np.array(found)


titles = ("order 0: steps", "order 1: ramps", "order 2: squared ramps")
figure, axes = plt.subplots(
    2, 3, figsize=(10, 6), layout="constrained", sharex=True, height_ratios=(3, 2)
)
for order, (above, below) in enumerate(axes.T):
    exact = ArcCosine(order)(X[:1], X)[0]
    for label, (rule, colour) in layers.items():
        found = draws(order, rule)
        if label != "independent, with reflections":  # which would hide the others
            above.plot(angles, found.T, color=colour, linewidth=0.5, alpha=0.25)
        error = np.sqrt(np.mean((found - exact) ** 2, axis=0))
        below.plot(angles, error, color=colour, label=label)
    above.plot(angles, exact, color="black", linestyle="--", label="the kernel")
    above.set_title(titles[order])
    below.set(xlabel="angle between two rows")
    below.set_xticks((0, np.pi / 2, np.pi), ("0", "90°", "180°"))
    below.set_ylim(bottom=0)
axes[0, 0].set_ylabel(f"{N_DRAWS} layers of {N_UNITS} units")
axes[1, 0].set_ylabel("root mean square error")
handles, labels = (
    first + second
    for first, second in zip(
        axes[0, 0].get_legend_handles_labels(), axes[1, 0].get_legend_handles_labels(), strict=True
    )
)
figure.legend(handles, labels, loc="outside lower center", ncols=4)
plt.show()

# %%
# Thin lines are layers. Those of the simplex keep together best, and for ramps they all meet at the
# angle 0, that is in the kernel of a row with itself: the squares of a ramp and its reflection add
# up to :math:`(w \cdot x)^2`, a polynomial of degree 2, which the rule integrates exactly. For
# steps a reflection alone does that, since one of the two is always 1. For squared ramps it would
# take degree 4, which the rule has not, and there is an error left. Steps, which are no polynomial
# anywhere near, gain least, and nothing for rows that are nearly opposite.
