"""
Inspect maps and models
=======================

``quadfeat.plots`` answers the usual questions about a fitted map or model. Does the map have enough
columns? Why was this penalty selected? Which columns matter? Are intervals and probabilities right?
Each function draws on the given axes ``ax`` and returns them.
"""

# %%
# Does the map have enough columns? ``plots.kernel_error`` shows the approximation error of the
# kernel for several numbers of columns. The data are scikit-learn's digits, and the error bars are
# 95% confidence intervals.

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits, make_friedman1, make_moons
from sklearn.model_selection import train_test_split

from quadfeat import QuadratureFeatures, QuadratureRidge, QuadratureRidgeClassifier, plots

digits = load_digits().data
_, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
for rule in ("rff", "orf", "auto"):
    features = QuadratureFeatures(rule=rule, n_components=1024, random_state=0)
    plots.kernel_error(features, digits, ax=ax)
plt.show()

# %%
# Why was this penalty selected, and which columns matter? The regression has ten columns, five of
# which have no effect. ``plots.alpha_path`` shows the criteria for ``alpha``, and
# ``plots.lengthscales`` the learned lengthscales. ``X_train`` sets the units of the columns.

X, y = make_friedman1(2000, noise=1.0, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=600, random_state=0)
regression = QuadratureRidge("gaussian", lengthscales="ard", n_components=256, random_state=0)
regression.fit(X_train, y_train)

_, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
plots.alpha_path(regression, ax=left)
plots.lengthscales(regression, X_train, ax=right)
right.grid(visible=False, axis="y")
plt.show()

# %%
# Are intervals and probabilities right? ``plots.coverage`` counts how often the intervals of new
# rows contain the target. ``plots.calibration`` compares predicted probabilities with observed
# frequencies, here for two classes that overlap.

moons, classes = make_moons(3000, noise=0.5, random_state=0)
classifier = QuadratureRidgeClassifier(n_components=256, random_state=0)
classifier.fit(moons[:1000], classes[:1000])

_, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
plots.coverage(regression, X_test, y_test, ax=left)
plots.calibration(classifier, moons[1000:], classes[1000:], ax=right)
plt.show()

# %%
# The intervals have the requested coverage. The probabilities are close to the observed
# frequencies, but slightly too small around 0.3.
#
# In a notebook, a fitted map or model also shows a table of its kernel, rule, approximation error
# and penalty:

classifier  # noqa: B018
