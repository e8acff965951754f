"""
A Gaussian process on 200,000 rows
==================================

An exact Gaussian process takes time that grows with the cube of the number of rows, and memory
with the square: for 200,000 of them the kernel matrix alone is 320 gigabytes. On the features of a
map it is linear regression with a prior, and time grows in proportion to the rows. What it knows,
and what it does not, is all there: means, deviations and functions drawn from the posterior.
"""

# %%
# A signal with plenty of noise, and a gap in which nothing was measured.

from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from quadfeat import QuadratureRidge

rng = np.random.default_rng(0)


def signal(x):
    """Return what is to be found."""
    return np.sin(1.3 * x) + 0.7 * np.sin(2.9 * x + 1.0)


x = rng.uniform(0, 10, 250_000)
x = x[(x < 5.5) | (x > 7.5)]
y = signal(x) + 0.5 * rng.standard_normal(len(x))
X = x[:, None]
print(f"{len(x)} rows")

# %%
# ``lengthscales="isotropic"`` learns the width of a Gaussian kernel from a sample of the rows, by
# evidence, and ``alpha="evidence"`` the ratio of noise to signal from all of them. Without any of
# these, ``QuadratureRidge()`` would also try other families of kernels.

start = perf_counter()
model = QuadratureRidge(
    "gaussian",
    n_components=256,
    lengthscales="isotropic",
    alpha="evidence",
    random_state=0,
    n_jobs=-1,
).fit(X, y)
print(f"quadfeat: {perf_counter() - start:.1f} s for {len(X)} rows")
print(f"noise: {np.sqrt(model.noise_variance_):.3f}, kernel: {model.kernel_}")

# %%
# scikit-learn's exact process, on a sample of the rows.

some = rng.choice(len(X), 600, replace=False)
start = perf_counter()
exact = GaussianProcessRegressor(
    ConstantKernel() * RBF() + WhiteKernel(), normalize_y=True, random_state=0
).fit(X[some], y[some])
print(f"exact: {perf_counter() - start:.1f} s for {len(some)} rows, kernel: {exact.kernel_}")

# %%
# Both on top, and below how sure they are of the signal. scikit-learn's deviation is that of a new
# measurement; what its noise has in it is taken out.

grid = np.linspace(0, 10, 600)[:, None]
mean, deviation = model.predict(grid, return_std=True)
paths = model.sample_y(grid, n_samples=6, random_state=1)
exact_mean, total = exact.predict(grid, return_std=True)
noise = exact.kernel_.k2.noise_level * y[some].var()
exact_deviation = np.sqrt(np.maximum(total**2 - noise, 0))

print(f"median ratio of the deviations: {np.median(exact_deviation / deviation):.1f}")
print(f"root of the ratio of the rows: {np.sqrt(len(X) / len(some)):.1f}")

figure, (above, middle, below) = plt.subplots(
    3, 1, figsize=(8.6, 8), layout="constrained", sharex=True, height_ratios=(3, 3, 2)
)
panels = (
    (above, f"QuadratureRidge, all {len(X):,} rows", "C0", mean, deviation, slice(None, None, 10)),
    (middle, f"exact process, {len(some):,} rows", "C1", exact_mean, exact_deviation, some),
)
for ax, title, colour, centre, spread, rows in panels:
    ax.scatter(x[rows], y[rows], s=3, color="#999999", alpha=0.1 if ax is above else 0.6, lw=0)
    ax.plot(grid, signal(grid), color="black", linestyle=":", label="the signal")
    band = {"color": colour, "alpha": 0.3, "linewidth": 0, "label": "two deviations"}
    ax.fill_between(grid[:, 0], centre - 2 * spread, centre + 2 * spread, **band)
    ax.plot(grid, centre, color=colour, label="mean")
    ax.set(title=title, ylim=(-3, 4.2), ylabel="y")
gap = above.inset_axes((0.75, 0.58, 0.24, 0.38), xticks=[], yticks=[])
gap.plot(grid, signal(grid), color="black", linestyle=":")
gap.plot(grid, paths, color="C3", linewidth=0.9)
widest = grid[np.argmax(deviation), 0]
gap.set(xlim=(widest - 0.5, widest + 0.5), xlabel="draws in the gap")
shown = np.abs(grid[:, 0] - widest) < 0.5
gap.set_ylim(paths[shown].min() - 0.2, paths[shown].max() + 0.2)
above.indicate_inset_zoom(gap, edgecolor="black")
above.legend(ncols=3, loc="upper left")
middle.legend(ncols=3, loc="upper left")

below.plot(grid, deviation, color="C0", label=f"QuadratureRidge, {len(X):,} rows")
below.plot(grid, exact_deviation, color="C1", label=f"exact process, {len(some):,} rows")
below.set(yscale="log", ylim=(1e-3, 10), xlabel="x", ylabel="deviation of the signal")
below.legend(ncols=2, loc="upper left")
plt.show()

# %%
# Where there are data, more rows make the deviation smaller in proportion to the root of their
# number. In the gap both widen. The process that has seen all rows knows the signal so well at the
# edges of the gap that it goes on with some confidence from there; the inset has functions that it
# considers possible.
#
# The deviation is that of the process which the features have. What they are off by from the kernel
# is not in it, so give it enough of them: in one dimension some hundreds are plenty.
