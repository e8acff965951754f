r"""
Intervals in a gap: a Gaussian process on nearest rows
======================================================

:class:`~quadfeat.LocalGaussianProcess` predicts each row from the training rows near it. Its
intervals are narrow among the rows. In a gap without rows, and outside all rows, they become as
wide as the prior of the process.
"""

# %%
# The target is a fast wave with noise. There are no rows from 18 to 22 and beyond 30.

import matplotlib.pyplot as plt
import numpy as np

from quadfeat import LocalGaussianProcess

rng = np.random.default_rng(0)
X = rng.uniform(0, 30, (500, 1))
X = X[np.abs(X[:, 0] - 20) > 2]
y = np.sin(3 * X[:, 0]) + 0.1 * rng.standard_normal(len(X))

model = LocalGaussianProcess("matern52", lengthscales="ard").fit(X, y)
print(model.why_)

# %%
# ``predict_interval`` returns the bounds for new targets, here with a coverage of 90%.
# ``sample_y`` draws functions that agree with the rows.

grid = np.linspace(14, 34, 600)[:, None]
mean = model.predict(grid)
lower, upper = model.predict_interval(grid, coverage=0.9)
drawn = model.sample_y(grid, 3, random_state=0)

figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
axes.fill_between(grid[:, 0], lower, upper, alpha=0.25, label="90% interval")
axes.plot(grid[:, 0], drawn, color="C4", linewidth=0.7, label=["draws", "", ""])
axes.plot(grid[:, 0], mean, color="C0", label="prediction")
axes.plot(grid[:, 0], np.sin(3 * grid[:, 0]), "--", color="C3", linewidth=1, label="truth")
shown = X[:, 0] > 14
axes.plot(X[shown, 0], y[shown], ".", color="black", markersize=3, label="rows")
axes.set(xlabel="x", ylabel="y", ylim=(-4.5, 4.5))
axes.legend(ncols=5, loc="upper center")
plt.show()

# %%
# The interval is more than ten times as wide in the middle of the gap as among the rows. Outside
# the rows, its width is that of the prior.

places = np.array([[10.0], [20.0], [34.0]])
lower, upper = model.predict_interval(places)
for place, width in zip(("among the rows", "in the gap", "outside"), upper - lower, strict=True):
    print(f"{place}: {width / y.std():.1f} standard deviations")
