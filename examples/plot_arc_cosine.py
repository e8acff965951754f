r"""
Arc-cosine kernels: random neural network layers
================================================

An infinitely wide neural network layer with random weights defines a kernel. With ReLU units,
:math:`\max(0, w \cdot x)`, it is the arc-cosine kernel of order 1. Step units give order 0 and
squared ReLU units give order 2. A layer with finitely many units is a random feature map. This
example shows that better directions give better layers.
"""

# %%
# These kernels depend only on the lengths of two rows and on the angle between them. So a half
# circle of rows in ten dimensions is enough to show a whole kernel.

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
# A plain random layer draws its units ``w`` independently. A better layer also uses the reflection
# ``-w`` of each unit. A quadrature rule uses the vertices of a randomly rotated simplex, with their
# reflections. The length of ``w`` only scales a unit, so the rule can use its mean instead of
# drawing it: ``tilt="exact"``.

N_UNITS, N_DRAWS = 4 * (d + 1), 60  # two complete blocks of the rule
layers = {
    "independent units": (MonteCarlo(reflect=False), "C1"),
    "independent, with reflections": (MonteCarlo(), "C4"),
    "rotated simplex": (SphericalRadial(tilt="exact"), "C0"),
}


def draws(order, rule):
    """Return estimates of the kernel between the first row and all rows."""
    estimates = []
    for seed in range(N_DRAWS):
        layer = QuadratureFeatures(
            ArcCosine(order), n_components=N_UNITS, rule=rule, random_state=seed
        )
        Z = layer.fit_transform(X)
        estimates.append(Z[0] @ Z.T)
    return np.array(estimates)


titles = ("order 0: step", "order 1: ReLU", "order 2: squared ReLU")
figure, axes = plt.subplots(
    2, 3, figsize=(10, 6), layout="constrained", sharex=True, height_ratios=(3, 2)
)
for order, (above, below) in enumerate(axes.T):
    exact = ArcCosine(order)(X[:1], X)[0]
    for label, (rule, color) in layers.items():
        estimates = draws(order, rule)
        if label != "independent, with reflections":  # these lines would hide the others
            above.plot(angles, estimates.T, color=color, linewidth=0.5, alpha=0.25)
        error = np.sqrt(np.mean((estimates - exact) ** 2, axis=0))
        below.plot(angles, error, color=color, label=label)
    above.plot(angles, exact, color="black", linestyle="--", label="exact kernel")
    above.set_title(titles[order])
    below.set(xlabel="angle between two rows")
    below.set_xticks((0, np.pi / 2, np.pi), ("0", "90°", "180°"))
    below.set_ylim(bottom=0)
axes[0, 0].set_ylabel(f"kernel, {N_DRAWS} layers of {N_UNITS} units")
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
# Each thin line is one layer. The lines of the simplex are closest together. For ReLU units they
# all meet at angle 0, which is the kernel of a row with itself. There, the squares of a unit and
# its reflection add up to :math:`(w \cdot x)^2`, a polynomial of degree 2, and the rule integrates
# it exactly. For step units the reflection alone is enough, because one of the two is always 1. For
# squared ReLU units the rule would need degree 4, so an error remains. Step functions are far from
# polynomials: they gain least, and nothing for nearly opposite rows.
