"""
A digit classifier against the clock
====================================

What matters of a map in the end is how good a classifier is that was trained in a given time.
Three ways to a kernel classifier of handwritten digits, with few features and many, and the exact
support vector machine.
"""

# %%
# The digits of scikit-learn are few. To have more to learn from, each image comes nine times: as it
# is and shifted by a pixel in the eight directions. A shift does not change which digit it is. The
# rows to test are put aside first, and shifted too.

from timeit import repeat, timeit

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import LogLocator
from scipy.ndimage import shift
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from quadfeat import QuadratureRidgeClassifier
from quadfeat.kernels import Gaussian

digits = load_digits()
shifts = [(down, right) for down in (-1, 0, 1) for right in (-1, 0, 1)]


def with_shifts(images, labels):
    """Return the images and their shifted copies as rows, with their labels."""
    copies = [shift(images, (0, *by), order=0) for by in shifts]
    rows = np.concatenate(copies).reshape(-1, 64) / np.float32(16)
    return rows.astype(np.float32), np.tile(labels, len(shifts))


train, test = train_test_split(np.arange(len(digits.target)), random_state=0)
X_train, y_train = with_shifts(digits.images[train], digits.target[train])
X_test, y_test = with_shifts(digits.images[test], digits.target[test])
print(f"{len(X_train)} rows to learn from, {len(X_test)} to test")

# %%
# The same kernel for all. The three with features solve the same problem, ridge regression on the
# classes, with as many of them as the labels in the picture say.

gamma, alpha = 0.1, 0.01
contestants = {
    "QuadratureRidgeClassifier": lambda n: QuadratureRidgeClassifier(
        Gaussian(gamma), n_components=n, alpha=alpha, random_state=0, n_jobs=-1
    ),
    "RBFSampler + RidgeClassifier": lambda n: make_pipeline(
        RBFSampler(gamma=gamma, n_components=n, random_state=0), RidgeClassifier(alpha=alpha)
    ),
    "Nystroem + RidgeClassifier": lambda n: make_pipeline(
        Nystroem(gamma=gamma, n_components=n, random_state=0), RidgeClassifier(alpha=alpha)
    ),
}


def measure(model):
    """Return the seconds to train and to predict, and the per cent of test rows that are wrong."""
    training = timeit(lambda: model.fit(X_train, y_train), number=1)
    prediction = min(repeat(lambda: model.predict(X_test), number=1, repeat=3))
    return training, prediction, 100 * (1 - model.score(X_test, y_test))


# %%
# Nystroem has fewer sizes, since it takes longest. The exact machine has no features to choose.

sizes = dict.fromkeys(contestants, (128, 256, 512, 1024, 2048))
sizes["Nystroem + RidgeClassifier"] = (128, 256, 512)

figure, axes = plt.subplots(1, 2, figsize=(10, 5.2), layout="constrained", sharey=True)
for (name, make), marker in zip(contestants.items(), "os^", strict=True):
    measured = np.array([measure(make(n)) for n in sizes[name]])
    wrong = measured[:, 2]
    for n, row in zip(sizes[name], measured, strict=True):
        print(f"{name:30s} {n:5d}: {row[0]:.2f} s, {row[1]:.3f} s, {row[2]:.2f} % wrong")
    for ax, seconds in zip(axes, measured.T, strict=False):
        ax.plot(seconds, wrong, marker=marker, label=name)
        for n, x, y in zip(sizes[name], seconds, wrong, strict=True):
            ax.annotate(f"{n}", (x, y), (5, 4), textcoords="offset points", fontsize=8)
machine = SVC(gamma=gamma, C=10.0)
exact = measure(machine)
print(f"{'exact SVC':30s}        {exact[0]:.2f} s, {exact[1]:.3f} s, {exact[2]:.2f} % wrong")
print(f"It has {len(machine.support_)} support vectors.")
for ax, seconds, what in zip(axes, exact, ("train", "predict the test rows"), strict=False):
    ax.plot(seconds, exact[2], "*", markersize=13, color="C6", label="exact SVC")
    ax.set(xscale="log", yscale="log", xlabel=f"seconds to {what}")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter("{x:g}")
    ax.minorticks_off()
axes[0].set_ylabel("wrong digits, %")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
plt.show()

# %%
# At equal numbers the features of Nystroem are the most accurate, as they are made of rows of the
# data, and they take the longer the more there are. The other two are alike in accuracy: on a
# kernel as narrow as this one rules differ little. With few features ``RBFSampler`` is trained
# sooner, since ``QuadratureRidgeClassifier`` takes its time to choose a rule. With many, which is
# where the accuracy is, that no longer shows.
#
# As long as there are so few rows the exact machine can be trained in seconds, and it is the most
# accurate. But its time grows with the square of the rows and more, that of the others in
# proportion to them. And it has to compare each new row with all of its support vectors, which is
# why it is the slowest by far to predict. There the native map is the fastest.
