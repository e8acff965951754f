"""
Decision boundaries: a linear machine that bends
================================================

A linear support vector machine draws a straight line. On the features of a map it draws that of a
kernel machine, the closer the more columns the map has. Three sets of points in the plane, on which
that can be seen.
"""

# %%
# The pipelines differ in nothing but the map. The exact machine takes the same kernel.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from sklearn.datasets import make_circles, make_moons
from sklearn.inspection import DecisionBoundaryDisplay
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC

from quadfeat import QuadratureFeatures
from quadfeat.kernels import Gaussian


def make_spirals(n_samples, noise, random_state):
    """Return two spirals wound around each other."""
    rng = np.random.default_rng(random_state)
    label = rng.integers(0, 2, n_samples)
    angle = 3.2 * np.pi * np.sqrt(rng.uniform(0.02, 1.0, n_samples))
    turned = angle + np.pi * label
    points = angle[:, None] * np.column_stack([np.cos(turned), np.sin(turned)]) / 7
    return points + noise * rng.standard_normal(points.shape), label


data_sets = {
    "moons": (make_moons(400, noise=0.2, random_state=0), 2.0),
    "circles": (make_circles(400, noise=0.12, factor=0.5, random_state=0), 2.0),
    "spirals": (make_spirals(400, noise=0.05, random_state=0), 6.0),
}


def machines(gamma):
    """Return the machines to compare, by name."""
    kernel = Gaussian(gamma)

    def on_features(n_components):
        features = QuadratureFeatures(kernel, n_components=n_components, random_state=0)
        return make_pipeline(features, LinearSVC(C=10.0))

    return {
        "linear": LinearSVC(C=10.0),
        "8 features": on_features(8),
        "24 features": on_features(24),
        "256 features": on_features(256),
        "exact kernel": SVC(C=10.0, kernel=kernel),
    }


# %%
# The darker a colour, the surer the machine; the line is where it changes its mind. Dots are rows
# that were not trained on, numbers in the corners their share that is on the right side.

figure, axes = plt.subplots(
    len(data_sets), 5, figsize=(10.5, 6.6), layout="constrained", sharex="row", sharey="row"
)
for row, (name, ((X, y), gamma)) in zip(axes, data_sets.items(), strict=True):
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=0)
    for ax, (title, machine) in zip(row, machines(gamma).items(), strict=True):
        machine.fit(X_train, y_train)
        common = {"response_method": "decision_function", "ax": ax, "eps": 0.35}
        shades = {"plot_method": "pcolormesh", "cmap": "PuOr", "vmin": -4, "vmax": 4}
        line = {"plot_method": "contour", "levels": [0.0], "colors": "black", "linewidths": 1}
        DecisionBoundaryDisplay.from_estimator(machine, X, **shades, **common)
        DecisionBoundaryDisplay.from_estimator(machine, X, **line, **common)
        ax.scatter(
            *X_test.T,
            c=y_test,
            cmap=ListedColormap(["#b35806", "#542788"]),
            edgecolor="white",
            linewidth=0.4,
            s=14,
        )
        ax.text(
            0.97,
            0.03,
            f"{machine.score(X_test, y_test):.2f}",
            transform=ax.transAxes,
            ha="right",
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5},
        )
        ax.set(xticks=[], yticks=[], xlabel="", ylabel="")
        ax.set_title(title if name == "moons" else "")
    row[0].set_ylabel(name)
plt.show()

# %%
# A few features are enough for moons and circles, whose kernel is wide. The spirals take a narrow
# one, and so more features. With as many as in the fourth column the machine draws the line of the
# exact one, as far as there are points. Far from them a kernel machine has nothing to say, while
# features go on waving: there the two differ, and neither should be relied on.
