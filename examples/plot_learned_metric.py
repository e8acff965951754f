r"""
Learning a metric
=================

Targets often depend on a few combinations of columns, not on single columns. A kernel that measures
distances only along these directions needs far fewer rows and features. ``QuadratureRidge()`` finds
such a metric from the gradients of its own predictions. It keeps the metric if leave-one-out errors
confirm it. This example shows the metric.
"""

# %%
# The data has eight columns. The target depends on two orthogonal directions :math:`u` and
# :math:`v` that mix all columns: :math:`y = \sin(2 u^\top x) + \frac12 \cos(2 v^\top x)`, plus a
# little noise.

import matplotlib.pyplot as plt
import numpy as np

from quadfeat import QuadratureRidge

rng = np.random.default_rng(0)
u, v = np.linalg.qr(rng.standard_normal((8, 2)))[0].T


def signal(X):
    """Return the targets without noise."""
    return np.sin(2 * X @ u) + 0.5 * np.cos(2 * X @ v)


X = rng.standard_normal((2500, 8))
y = signal(X) + 0.1 * rng.standard_normal(len(X))
train, test = slice(0, 500), slice(500, None)

# %%
# One model may learn a lengthscale per column, the other a full metric. Both have the same number
# of features and no other settings.

models = {
    lengthscales: QuadratureRidge(lengthscales=lengthscales, n_components=256, random_state=0).fit(
        X[train], y[train]
    )
    for lengthscales in ("ard", "full")
}
for name, model in models.items():
    print(f"{name}: R2 on new rows {model.score(X[test], y[test]):.2f}")
print(models["full"].why_)

# %%
# The true metric is the average outer product of the gradients of the function, :math:`E[\nabla
# f(x) \nabla f(x)^\top]`. We divide all matrices by their traces, because only their shapes are
# comparable.

slopes = 2 * np.cos(2 * X @ u)[:, None] * u - np.sin(2 * X @ v)[:, None] * v
metrics = {
    "true metric": slopes.T @ slopes,
    "one lengthscale per column": models["ard"].metric_,
    "full metric": models["full"].metric_,
}

figure, axes = plt.subplots(1, 4, figsize=(10.5, 3.3), layout="constrained")
metrics = {title: metric / np.trace(metric) for title, metric in metrics.items()}
limit = max(np.abs(metric).max() for metric in metrics.values())
names = [f"$x_{i}$" for i in range(8)]
for ax, (title, metric) in zip(axes, metrics.items(), strict=False):
    image = ax.imshow(metric, cmap="RdBu", vmin=-limit, vmax=limit)
    ax.set(title=title)
    ax.set_xticks(range(8), names)
    ax.set_yticks(range(8), names)
    ax.grid(visible=False)
figure.colorbar(image, ax=axes[:3], location="bottom", shrink=0.4, label="metric / its trace")

styles = {"true metric": "C6o:", "per column": "C1s-", "full metric": "C0o-"}
for metric, (label, style) in zip(metrics.values(), styles.items(), strict=True):
    axes[3].plot(range(1, 9), np.linalg.eigvalsh(metric)[::-1], style, label=label)
axes[3].set(title="eigenvalues", xlabel="direction", ylim=(-0.05, 1.0))
axes[3].set_xticks(range(1, 9))
axes[3].legend(loc="upper right")
plt.show()

# %%
# Lengthscales of single columns only give a diagonal matrix, and here nearly every column matters.
# The full metric has the pattern of the true one: two large eigenvalues, and almost nothing in the
# six directions along which the function is constant.
