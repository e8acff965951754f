"""
Decision boundaries of a linear SVM on features
===============================================

The decision boundary of a linear support vector machine (SVM) is a straight line. On quadrature
features it bends, and approaches the boundary of the exact kernel SVM as the number of features
grows. This example shows it on three datasets in the plane.
"""

# %%
# The pipelines differ only in the number of features. The exact SVM uses the same kernel.

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
    """Return two interleaved spirals."""
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


def classifiers(gamma):
    """Return the classifiers to compare, by name."""
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
# Darker colors mean larger decision values, and the black line is the decision boundary. Dots are
# test rows. The number in each corner is the test accuracy.

figure, axes = plt.subplots(
    len(data_sets), 5, figsize=(10.5, 6.6), layout="constrained", sharex="row", sharey="row"
)
for row, (name, ((X, y), gamma)) in zip(axes, data_sets.items(), strict=True):
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=0)
    for ax, (title, classifier) in zip(row, classifiers(gamma).items(), strict=True):
        classifier.fit(X_train, y_train)
        common = {"response_method": "decision_function", "ax": ax, "eps": 0.35}
        shades = {"plot_method": "pcolormesh", "cmap": "PuOr", "vmin": -4, "vmax": 4}
        line = {"plot_method": "contour", "levels": [0.0], "colors": "black", "linewidths": 1}
        DecisionBoundaryDisplay.from_estimator(classifier, X, **shades, **common)
        DecisionBoundaryDisplay.from_estimator(classifier, X, **line, **common)
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
            f"{classifier.score(X_test, y_test):.2f}",
            transform=ax.transAxes,
            ha="right",
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5},
        )
        ax.set(xticks=[], yticks=[], xlabel="", ylabel="")
        ax.set_title(title if name == "moons" else "")
    row[0].set_ylabel(name)
plt.show()

# %%
# Moons and circles have a wide kernel, so a few features are enough. The spirals need a narrow
# kernel and more features. With 256 features the boundary matches that of the exact kernel wherever
# there are points. Far from the data the two differ: the exact decision values fall to a constant,
# while the features keep oscillating. Trust neither there.
