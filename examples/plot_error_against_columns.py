"""
Error against columns, rule by rule
===================================

How far is the kernel of the features from the kernel itself, and how many columns does it take to
halve that? All rules of the library on the handwritten digits of scikit-learn, for a wide kernel
and a narrow one, with the two maps of scikit-learn for comparison.
"""

# %%
# The rows are images of 8 x 8 pixels. Maps are fitted to one part of them and judged by the other:
# the error is that of ``Z @ Z.T`` relative to the exact kernel matrix, in the Frobenius norm.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import LogLocator
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import train_test_split

from quadfeat import QuadratureFeatures
from quadfeat.kernels import Gaussian

X = load_digits().data / 16.0
X_fit, X_test = train_test_split(X, test_size=400, random_state=0)
d = X.shape[1]


def mean_error(make_map, gamma, n_components):
    """Return the root mean square of the relative error over two draws of a map."""
    exact = rbf_kernel(X_test, gamma=gamma)
    errors = []
    for seed in range(2):
        Z = make_map(gamma, n_components, seed).fit(X_fit).transform(X_test)
        errors.append(np.linalg.norm(Z @ Z.T - exact) / np.linalg.norm(exact))
    return np.sqrt(np.mean(np.square(errors)))


# %%
# What is compared, and how it is drawn.


def ours(rule):
    """Return what makes a map of a rule, for a width of the kernel and a number of columns."""
    return lambda gamma, n_components, seed: QuadratureFeatures(
        Gaussian(gamma), rule=rule, n_components=n_components, random_state=seed
    )


def theirs(sampler):
    """Return what makes a map of scikit-learn's."""
    return lambda gamma, n_components, seed: sampler(
        gamma=gamma, n_components=n_components, random_state=seed
    )


methods = {
    "rff": (ours("rff"), "C7o-"),
    "gauss-hermite": (ours("gauss-hermite"), "C7D-"),
    "fastfood": (ours("fastfood"), "C7^-"),
    "halton": (ours("halton"), "C2v-"),
    "sobol": (ours("sobol"), "C2s-"),
    "orf": (ours("orf"), "C5s-"),
    "rom": (ours("rom"), "C5^-"),
    "sr33": (ours("sr33"), "C1P-"),
    "auto": (ours("auto"), "C0o-"),
    "scikit-learn's RBFSampler": (theirs(RBFSampler), "C6x--"),
    "scikit-learn's Nystroem": (theirs(Nystroem), "C6x:"),
}

# %%
# Widths are told by ``gamma``: at ``1 / d`` most pairs of digits have a kernel near 1, at ``1 / 4``
# near 0. Numbers of columns are those of whole blocks of ``sr33``, its best case; ``"auto"`` would
# take any number. Nystroem, which makes a column of a row, has at most half as many as there are.

gammas = {"wide kernel, gamma = 1/64": 1 / 64, "narrow kernel, gamma = 1/4": 1 / 4}
columns = [2 * n_blocks * (d + 1) + 1 for n_blocks in (1, 2, 4, 8, 16)]

figure, axes = plt.subplots(1, 2, figsize=(9.5, 5), layout="constrained")
for ax, (title, gamma) in zip(axes, gammas.items(), strict=True):
    print(title)
    for name, (make_map, style) in methods.items():
        tried = [n for n in columns if "Nystroem" not in name or n < len(X_fit) / 2]
        errors = [mean_error(make_map, gamma, n) for n in tried]
        ax.plot(tried, errors, style, linewidth=2.6 if name == "auto" else 1.3, label=name)
        print(f"{name:26s}", *(f"{error:9.2e}" for error in errors))
    ax.set(title=title, xlabel="columns", xscale="log", yscale="log")
    ax.set_xticks(columns, [str(n) for n in columns])
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.yaxis.set_major_formatter("{x:g}")
    ax.minorticks_off()
axes[0].set_ylabel("relative error of the kernel")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
plt.show()

# %%
# Most lines fall like one over the root of the number of columns: four times the columns for half
# the error. What differs is where they start.
#
# On the wide kernel ``sr33`` integrates the largest part of the kernel, a polynomial of degree 3,
# exactly. The orthogonal rules ``orf`` and ``rom`` come next. Independent nodes (``rff`` and
# ``gauss-hermite``) are alike, and ``fastfood``, which is faster than these, is a little worse.
# Low-discrepancy points are at home in few dimensions: with 64 of them ``halton`` is no better than
# random, while ``sobol`` gains with many columns. ``RBFSampler`` is behind ``rff``, and its line is
# ragged, because it has cosines at random phases, which add a noise of their own; ``rff`` here has
# a cosine and a sine for each node.
#
# On the narrow kernel there is little to choose between rules. ``auto`` is at the lower edge of the
# crowd in both pictures, without having been told which kernel is wide.
#
# Digits lie near a set of few dimensions. ``Nystroem``, whose features are made of rows of the
# data, makes use of that, and no rule that does not look at the data can keep up. It has to hold
# these rows and to decompose their kernel matrix: as far as you can afford that, it is the better
# map for such data.
