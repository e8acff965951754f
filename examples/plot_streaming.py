"""
Streaming data with partial_fit
===============================

``partial_fit`` adds rows to an existing model. The model keeps only the Gram matrix of its
features, whose size does not depend on the number of rows. The result equals one fit to all rows,
up to rounding. In this example rows arrive in batches, as from a sensor or a file larger than
memory (out-of-core learning).
"""

# %%
# The synthetic measurements have four inputs. The target is a smooth function of them plus noise.

import pickle

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import LogLocator
from sklearn.kernel_ridge import KernelRidge

from quadfeat import QuadratureFeatures, QuadratureRidge
from quadfeat.kernels import Gaussian

NOISE = 0.3


def function(X):
    """Return the targets without noise."""
    return np.sin(2 * X[:, 0] + X[:, 1]) + X[:, 2] * np.cos(2 * X[:, 3])


def batches(n_batches, n_rows, seed):
    """Yield batches of rows and targets."""
    rng = np.random.default_rng(seed)
    for _ in range(n_batches):
        X = rng.uniform(-2, 2, (n_rows, 4)).astype(np.float32)
        yield X, function(X) + NOISE * rng.standard_normal(n_rows)


X_test, _ = next(batches(1, 5000, seed=1))
truth = function(X_test)


def error_of(model):
    """Return the root mean square error of the predicted function."""
    return np.sqrt(np.mean((model.predict(X_test) - truth) ** 2))


# %%
# First we fit the map to the first batch, so that it stays the same for all batches. Each model
# then sees 100 batches of 1000 rows once. It computes coefficients only when they are needed, here
# after some of the batches.

kernel = Gaussian(0.3)
looked_at = {1, 2, 5, 10, 20, 50, 100}
errors, sizes = {}, {}
for n_components in (64, 256, 1024):
    X_first, _ = next(batches(1, 1000, seed=0))
    features = QuadratureFeatures(kernel, n_components=n_components, random_state=0).fit(X_first)
    model = QuadratureRidge(features=features, alpha=0.1, n_jobs=-1)
    errors[n_components], sizes[n_components] = [], []
    for number, (X, y) in enumerate(batches(100, 1000, seed=0), start=1):
        model.partial_fit(X, y)
        if number in looked_at:
            errors[n_components].append(error_of(model))
            sizes[n_components].append(len(pickle.dumps(model)) / 1e6)
rows = 1000 * np.array(sorted(looked_at))

# %%
# For comparison, exact kernel ridge regression has to store the kernel matrix of all rows.

few = rows[rows <= 5000]
X, y = next(batches(1, 5000, seed=0))
exact = [
    error_of(KernelRidge(kernel="rbf", gamma=kernel.gamma, alpha=0.1).fit(X[:n], y[:n]))
    for n in few
]

figure, (left, right) = plt.subplots(1, 2, figsize=(9.8, 5), layout="constrained")
for color, n_components in zip(("C5", "C0", "C2"), errors, strict=True):
    label = f"QuadratureRidge, {n_components} features"
    left.plot(rows, errors[n_components], marker="o", color=color, label=label)
    right.plot(rows, sizes[n_components], marker="o", color=color)
left.plot(few, exact, marker="x", linestyle="--", color="C1", label="exact kernel ridge regression")
left.set(title="error of the predicted function", ylabel="root mean square error")
right.plot(rows, rows**2 * 8 / 1e6, linestyle="--", color="C1")
right.plot(
    rows, rows * 1024 * 4 / 1e6, ":", color="black", label="1024 features of all rows, stored"
)
right.set(title="memory", ylabel="megabytes")
for ax in (left, right):
    ax.set(xscale="log", yscale="log", xlabel="rows seen")
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.yaxis.set_major_formatter("{x:,g}")
left.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
left.yaxis.set_minor_formatter("")
figure.legend(loc="outside lower center", ncols=3)
plt.show()

# %%
# With the same number of rows the exact model is more accurate, because it has one feature per row.
# But its memory limits the number of rows. The error of the other models keeps falling until the
# number of features limits it, and more features lower that limit. These models hardly grow after
# the first batches. The kernel matrix, and a stored matrix of features, would outgrow the memory.
#
# ``fit(batches(...))`` accepts the same iterator in one call. With ``checkpoint=`` an interrupted
# fit resumes where it stopped.
