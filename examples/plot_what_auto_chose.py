"""
What auto chose, and why
========================

No rule is the best for all kernels and data, so the default, ``rule="auto"``, compares them on a
sample of the rows: by closed forms of their variance where there are any, by trials elsewhere. A
fitted map keeps what was compared. Here is how that turns out from wide kernels to narrow ones.
"""

# %%
# Two sets that come with scikit-learn, one of few columns and one of more. The Gaussian kernel of
# two rows is ``exp(-gamma * m)`` if ``m`` is the square of their distance. So ``gamma`` times the
# median of ``m`` tells how wide the kernel is for the data, whatever the data.

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
    """Return a map for a kernel that is so wide for the data."""
    gamma = width / np.median(pdist(X, "sqeuclidean"))
    return QuadratureFeatures(Gaussian(gamma), n_components=N_COMPONENTS, random_state=0).fit(X)


maps = {name: [fitted_map(X, width) for width in widths] for name, X in data_sets.items()}

# %%
# ``why_`` is the reason in a sentence: here for the widest kernel and for the narrowest.

for name, fitted in maps.items():
    for features, width in ((fitted[0], widths[0]), (fitted[-1], widths[-1])):
        print(f"{name}, {width:g}: {features.why_}\n")

# %%
# ``candidates_`` has all rules that were considered, from the best to the worst: the rule, its
# expected error, the standard error of that, and how it was found. The picture shows the best of
# each kind, these:

KINDS = (
    "one radius for all",
    "turned vertices, degree 3",
    "turned vertices, between 1 and 3",
    "turned vertices, degree 1",
    "random orthogonal matrices",
    "Sobol, moments matched",
    "Halton, moments matched",
    "Sobol",
    "Halton",
)


def kind(rule):
    """Return what kind of rule this is."""
    if isinstance(rule, QuasiMonteCarlo):
        return rule.sequence.capitalize() + (", moments matched" if rule.matched else "")
    if rule.radii == "constant":
        return "random orthogonal matrices"
    if rule.tilt == "fixed":
        return "one radius for all"
    return "turned vertices, " + {0: "degree 1", 1: "degree 3"}.get(rule.tilt, "between 1 and 3")


def error_of(features, wanted):
    """Return the error of the best candidate of a kind, or nan if there is none."""
    errors = (c.error for c in features.candidates_ if kind(c.rule) == wanted)
    return min(errors, default=np.nan)


# %%
# Errors grow by orders of magnitude from wide kernels to narrow ones, as the upper panels show. The
# lower ones have them relative to the best at each width: 1 is the best, and the frame is what
# ``auto`` chose.

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
axes[0, 0].set_ylabel("expected error,\nchosen rule")
plt.show()

# %%
# Wide kernels are on the left. There, in four dimensions, rules that have the second moments of the
# frequencies right are ahead by far, and one radius for all nodes is better still: its bias is too
# small to matter. On narrow kernels that bias is what matters most, and low-discrepancy points win.
# In thirty dimensions the lengths of frequencies differ little anyway: random orthogonal matrices,
# which have one radius too, are as good as any, and on narrow kernels all rules are nearly alike.
#
# Empty cells are rules that were not considered: plain low-discrepancy points are left out where
# they are neither good nor fast. Where a rule with a dense matrix is the best by less than a
# twentieth, ``auto`` prefers one whose nodes have structure, which is faster.
