"""
A Gaussian process on 200,000 rows
==================================

The time of an exact Gaussian process grows with the cube of the number of rows, and its memory with
the square. For 200,000 rows the kernel matrix alone takes 320 gigabytes. On quadrature features, a
Gaussian process is linear regression with a prior, and its time grows linearly with the rows. It
still gives means, standard deviations and functions drawn from the posterior.
"""

# %%
# The data is a noisy signal with a gap.

from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from quadfeat import QuadratureRidge

rng = np.random.default_rng(0)


def signal(x):
    """Return the true signal."""
    return np.sin(1.3 * x) + 0.7 * np.sin(2.9 * x + 1.0)


x = rng.uniform(0, 10, 250_000)
x = x[(x < 5.5) | (x > 7.5)]
y = signal(x) + 0.5 * rng.standard_normal(len(x))
X = x[:, None]
print(f"{len(x)} rows")

# %%
# ``lengthscales="isotropic"`` learns the width of the Gaussian kernel from a sample of the rows,
# and ``alpha="evidence"`` learns the ratio of noise to signal variance from all rows. Both maximize
# the evidence. Without any settings, ``QuadratureRidge()`` would also try other kernel families.

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
# For comparison, we fit scikit-learn's exact Gaussian process to a sample of the rows.

some = rng.choice(len(X), 600, replace=False)
start = perf_counter()
exact = GaussianProcessRegressor(
    ConstantKernel() * RBF() + WhiteKernel(), normalize_y=True, random_state=0
).fit(X[some], y[some])
print(f"exact: {perf_counter() - start:.1f} s for {len(some)} rows, kernel: {exact.kernel_}")

# %%
# The two upper panels show the predictions. The lowest panel shows the standard deviation of the
# signal. scikit-learn returns that of a new measurement, so we subtract the noise variance.

grid = np.linspace(0, 10, 600)[:, None]
mean, std = model.predict(grid, return_std=True)
paths = model.sample_y(grid, n_samples=6, random_state=1)
exact_mean, total = exact.predict(grid, return_std=True)
noise = exact.kernel_.k2.noise_level * y[some].var()
exact_std = np.sqrt(np.maximum(total**2 - noise, 0))

print(f"median ratio of the standard deviations: {np.median(exact_std / std):.1f}")
print(f"square root of the ratio of rows: {np.sqrt(len(X) / len(some)):.1f}")

figure, (above, middle, below) = plt.subplots(
    3, 1, figsize=(8.6, 8), layout="constrained", sharex=True, height_ratios=(3, 3, 2)
)
panels = (
    (above, f"QuadratureRidge, all {len(X):,} rows", "C0", mean, std, slice(None, None, 10)),
    (middle, f"exact Gaussian process, {len(some):,} rows", "C1", exact_mean, exact_std, some),
)
for ax, title, color, center, spread, rows in panels:
    ax.scatter(x[rows], y[rows], s=3, color="#999999", alpha=0.1 if ax is above else 0.6, lw=0)
    ax.plot(grid, signal(grid), color="black", linestyle=":", label="signal")
    band = {"color": color, "alpha": 0.3, "linewidth": 0, "label": "two standard deviations"}
    ax.fill_between(grid[:, 0], center - 2 * spread, center + 2 * spread, **band)
    ax.plot(grid, center, color=color, label="mean")
    ax.set(title=title, ylim=(-3, 4.2), ylabel="y")
gap = above.inset_axes((0.75, 0.58, 0.24, 0.38), xticks=[], yticks=[])
gap.plot(grid, signal(grid), color="black", linestyle=":")
gap.plot(grid, paths, color="C3", linewidth=0.9)
widest = grid[np.argmax(std), 0]
gap.set(xlim=(widest - 0.5, widest + 0.5), xlabel="posterior draws")
shown = np.abs(grid[:, 0] - widest) < 0.5
gap.set_ylim(paths[shown].min() - 0.2, paths[shown].max() + 0.2)
above.indicate_inset_zoom(gap, edgecolor="black")
above.legend(ncols=3, loc="upper left")
middle.legend(ncols=3, loc="upper left")

below.plot(grid, std, color="C0", label=f"QuadratureRidge, {len(X):,} rows")
below.plot(grid, exact_std, color="C1", label=f"exact Gaussian process, {len(some):,} rows")
below.set(yscale="log", ylim=(1e-3, 10), xlabel="x", ylabel="standard deviation")
below.legend(ncols=2, loc="upper left")
plt.show()

# %%
# Where there is data, the standard deviation falls with the square root of the number of rows. In
# the gap it grows for both models. The model that has seen all rows knows the signal very well at
# the edges of the gap, so it is still fairly certain nearby. The inset shows functions drawn from
# the posterior.
#
# The standard deviation does not include the approximation error of the features, so use enough of
# them. In one dimension a few hundred are plenty.
