"""
How rule="auto" chooses a rule
==============================

No rule is best for all kernels and data. The default, ``rule="auto"``, compares rules on a sample
of the rows, by closed forms of their variance if there are any, and by trials otherwise. A fitted
map stores the comparison. This example shows it for kernels from wide to narrow.
"""

# %%
# We use two of scikit-learn's datasets, one with few columns and one with more. The Gaussian kernel
# of two rows is ``exp(-gamma * m)``, where ``m`` is their squared distance. So ``gamma`` times the
# median of ``m`` measures the width of the kernel relative to the data.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LogNorm
from scipy.spatial.distance import pdist
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.preprocessing import StandardScaler

from quadfeat import QuadratureFeatures
from quadfeat.kernels import Gaussian
from quadfeat.rules import QuasiMonteCarlo

N_COMPONENTS = 256
widths = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
data_sets = {
    "iris": StandardScaler().fit_transform(load_iris().data),
    "breast cancer": StandardScaler().fit_transform(load_breast_cancer().data),
}


def fitted_map(X, width):
    """Return a map for a kernel of the given width relative to the data."""
    gamma = width / np.median(pdist(X, "sqeuclidean"))
    return QuadratureFeatures(Gaussian(gamma), n_components=N_COMPONENTS, random_state=0).fit(X)


maps = {name: [fitted_map(X, width) for width in widths] for name, X in data_sets.items()}

# %%
# ``why_`` states the reason in one sentence, here for the widest and the narrowest kernel.

for name, fitted in maps.items():
    for features, width in ((fitted[0], widths[0]), (fitted[-1], widths[-1])):
        print(f"{name}, {width:g}: {features.why_}\n")

# %%
# ``candidates_`` lists all rules that were compared, from best to worst: the rule, its expected
# error, the standard error of that, and how it was computed. The figure shows the best rule of each
# kind:

KINDS = (
    "one radius for all",
    "rotated vertices, degree 3",
    "rotated vertices, between 1 and 3",
    "rotated vertices, degree 1",
    "random orthogonal matrices",
    "Sobol, moments matched",
    "Halton, moments matched",
    "Sobol",
    "Halton",
)


def kind(rule):
    """Return the kind of a rule."""
    if isinstance(rule, QuasiMonteCarlo):
        return rule.sequence.capitalize() + (", moments matched" if rule.matched else "")
    if rule.radii == "constant":
        return "random orthogonal matrices"
    if rule.tilt == "fixed":
        return "one radius for all"
    return "rotated vertices, " + {0: "degree 1", 1: "degree 3"}.get(rule.tilt, "between 1 and 3")


def error_of(features, wanted):
    """Return the error of the best candidate of a kind, or nan if there is none."""
    errors = (c.error for c in features.candidates_ if kind(c.rule) == wanted)
    return min(errors, default=np.nan)


# %%
# The upper panels show that errors grow by orders of magnitude from wide to narrow kernels. The
# lower panels show errors relative to the best rule at each width. A frame marks the choice of
# ``auto``.

figure, axes = plt.subplots(
    2, 2, figsize=(10, 6), layout="constrained", height_ratios=(1, 3), sharex=True, sharey="row"
)
places = np.arange(len(widths))
for (above, below), (name, fitted) in zip(axes.T, maps.items(), strict=True):
    errors = np.array([[error_of(features, wanted) for features in fitted] for wanted in KINDS])
    chosen = [KINDS.index(kind(features.rule_)) for features in fitted]
    above.plot(places, errors[chosen, places], marker="o", color="C0")
    above.set(yscale="log", title=f"{name}: {data_sets[name].shape[1]} columns")

    ratios = errors / np.nanmin(errors, axis=0)
    below.imshow(ratios, cmap="cividis_r", norm=LogNorm(1, 20), aspect="auto")
    for (row, column), ratio in np.ndenumerate(ratios):
        if np.isfinite(ratio):
            ink = "white" if ratio > 4 else "black"
            text = f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"
            below.text(column, row, text, ha="center", va="center", color=ink, fontsize=8.5)
    for column, row in enumerate(chosen):
        frame = {"fill": False, "edgecolor": "C1", "linewidth": 2.2}
        below.add_patch(plt.Rectangle((column - 0.47, row - 0.45), 0.94, 0.9, **frame))
    below.set_xticks(places, [f"{width:g}" for width in widths])
    below.set_yticks(np.arange(len(KINDS)), KINDS)
    below.grid(visible=False)
    below.set_xlabel("gamma x median squared distance")
axes[0, 0].set_ylabel("expected error\nof the choice")
plt.show()

# %%
# Wide kernels are on the left. There, in four dimensions, rules with exact second moments are far
# better than the others. A single radius for all nodes is better still, because its bias is too
# small to matter. On narrow kernels that bias dominates, and low-discrepancy points are best. In
# thirty dimensions the lengths of frequencies differ little. Random orthogonal matrices also use a
# single radius and are as good as any other rule. On narrow kernels all rules are nearly equal.
#
# Empty cells are rules that were not compared: plain low-discrepancy points are left out where they
# are neither accurate nor fast. If a dense rule is best by less than 5%, ``auto`` prefers a
# structured rule, because it is faster.
