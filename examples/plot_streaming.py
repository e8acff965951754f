"""
Rows that keep coming
=====================

``partial_fit`` adds rows to a model that is there already. What it keeps of them is the matrix of
products of its features, whose size has nothing to do with how many rows there were; the model
is, to rounding, that of one fit to all of them. Here rows come in blocks, as from a sensor or a
file that is larger than memory.
"""

# %%
# Blocks of made-up measurements: four inputs, a smooth function of them, and noise.

import pickle

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import LogLocator
from sklearn.kernel_ridge import KernelRidge

from quadfeat import QuadratureFeatures, QuadratureRidge
from quadfeat.kernels import Gaussian

NOISE = 0.3


def function(X):
    """Return what is measured, without noise."""
    return np.sin(2 * X[:, 0] + X[:, 1]) + X[:, 2] * np.cos(2 * X[:, 3])


def blocks(n_blocks, n_rows, seed):
    """Yield blocks of rows and targets."""
    rng = np.random.default_rng(seed)
    for _ in range(n_blocks):
        X = rng.uniform(-2, 2, (n_rows, 4)).astype(np.float32)
        yield X, function(X) + NOISE * rng.standard_normal(n_rows)


X_test, _ = next(blocks(1, 5000, seed=1))
truth = function(X_test)


def error_of(model):
    """Return the root mean square error of the predicted function."""
    return np.sqrt(np.mean((model.predict(X_test) - truth) ** 2))


# %%
# A map that does not change from block to block is fitted first, on the first of them. Each model
# then sees 100 blocks of 1000 rows, once. Its coefficients are computed when they are asked for,
# which is at some of the blocks only.

kernel = Gaussian(0.3)
looked_at = {1, 2, 5, 10, 20, 50, 100}
errors, sizes = {}, {}
for n_components in (64, 256, 1024):
    X_first, _ = next(blocks(1, 1000, seed=0))
    features = QuadratureFeatures(kernel, n_components=n_components, random_state=0).fit(X_first)
    model = QuadratureRidge(features=features, alpha=0.1, n_jobs=-1)
    errors[n_components], sizes[n_components] = [], []
    for number, (X, y) in enumerate(blocks(100, 1000, seed=0), start=1):
        model.partial_fit(X, y)
        if number in looked_at:
            errors[n_components].append(error_of(model))
            sizes[n_components].append(len(pickle.dumps(model)) / 1e6)
rows = 1000 * np.array(sorted(looked_at))

# %%
# Beside them, exact kernel ridge regression, which has to hold the kernel matrix of all rows.

few = rows[rows <= 5000]
X, y = next(blocks(1, 5000, seed=0))
exact = [
    error_of(KernelRidge(kernel="rbf", gamma=kernel.gamma, alpha=0.1).fit(X[:n], y[:n]))
    for n in few
]

figure, (left, right) = plt.subplots(1, 2, figsize=(9.8, 5), layout="constrained")
for colour, n_components in zip(("C5", "C0", "C2"), errors, strict=True):
    label = f"QuadratureRidge, {n_components} features"
    left.plot(rows, errors[n_components], marker="o", color=colour, label=label)
    right.plot(rows, sizes[n_components], marker="o", color=colour)
left.plot(few, exact, marker="x", linestyle="--", color="C1", label="exact kernel ridge regression")
left.set(title="error of the predicted function", ylabel="root mean square error")
right.plot(rows, rows**2 * 8 / 1e6, linestyle="--", color="C1")
right.plot(rows, rows * 1024 * 4 / 1e6, ":", color="black", label="1024 features of all rows")
right.set(title="what has to be kept", ylabel="megabytes")
for ax in (left, right):
    ax.set(xscale="log", yscale="log", xlabel="rows seen")
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.yaxis.set_major_formatter("{x:,g}")
left.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
left.yaxis.set_minor_formatter("")
figure.legend(loc="outside lower center", ncols=3)
plt.show()

# %%
# On as many rows the exact machine is the better one: it has a feature for each of them. But it
# cannot go on, and the others can. Their error falls with the rows until the features are what
# limits it, the later the more there are. What they keep stays what it was after the first block,
# while the kernel matrix, and the features as a matrix, grow out of memory.
#
# ``fit(blocks(...))`` takes the same iterator in one call, and with ``checkpoint=`` it goes on
# where it was interrupted.
