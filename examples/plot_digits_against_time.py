"""
Accuracy against training time on handwritten digits
====================================================

In the end, a feature map has to give an accurate classifier in a given time. This example compares
three approximate kernel classifiers of handwritten digits, with few and many features, and the
exact support vector machine (SVM).
"""

# %%
# scikit-learn's digits are a small dataset. To get more rows, we use each image nine times: as it
# is, and shifted by one pixel in the eight directions. A shift does not change the digit. We split
# off the test images first, and shift them too.

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
    """Return images and their shifted copies as rows, with their labels."""
    copies = [shift(images, (0, *by), order=0) for by in shifts]
    rows = np.concatenate(copies).reshape(-1, 64) / np.float32(16)
    return rows.astype(np.float32), np.tile(labels, len(shifts))


train, test = train_test_split(np.arange(len(digits.target)), random_state=0)
X_train, y_train = with_shifts(digits.images[train], digits.target[train])
X_test, y_test = with_shifts(digits.images[test], digits.target[test])
print(f"{len(X_train)} training rows, {len(X_test)} test rows")

# %%
# All classifiers use the same kernel. The three with features solve the same problem, ridge
# regression on the class labels. The numbers in the figure are their numbers of features.

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
    """Return the seconds to train and to predict, and the test error in percent."""
    training = timeit(lambda: model.fit(X_train, y_train), number=1)
    prediction = min(repeat(lambda: model.predict(X_test), number=1, repeat=3))
    return training, prediction, 100 * (1 - model.score(X_test, y_test))


# %%
# We try fewer sizes for Nystroem, because it takes longest. The exact SVM has no features.

sizes = dict.fromkeys(contestants, (128, 256, 512, 1024, 2048))
sizes["Nystroem + RidgeClassifier"] = (128, 256, 512)

figure, axes = plt.subplots(1, 2, figsize=(10, 5.2), layout="constrained", sharey=True)
for (name, make), marker in zip(contestants.items(), "os^", strict=True):
    measured = np.array([measure(make(n)) for n in sizes[name]])
    wrong = measured[:, 2]
    for n, row in zip(sizes[name], measured, strict=True):
        print(f"{name:30s} {n:5d}: {row[0]:.2f} s, {row[1]:.3f} s, error {row[2]:.2f}%")
    for ax, seconds in zip(axes, measured.T, strict=False):
        ax.plot(seconds, wrong, marker=marker, label=name)
        for n, x, y in zip(sizes[name], seconds, wrong, strict=True):
            ax.annotate(f"{n}", (x, y), (5, 4), textcoords="offset points", fontsize=8)
svm = SVC(gamma=gamma, C=10.0)
exact = measure(svm)
print(f"{'exact SVC':30s}        {exact[0]:.2f} s, {exact[1]:.3f} s, error {exact[2]:.2f}%")
print(f"SVC has {len(svm.support_)} support vectors.")
for ax, seconds, what in zip(axes, exact, ("train", "predict the test rows"), strict=False):
    ax.plot(seconds, exact[2], "*", markersize=13, color="C6", label="exact SVC")
    ax.set(xscale="log", yscale="log", xlabel=f"seconds to {what}")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter("{x:g}")
    ax.minorticks_off()
axes[0].set_ylabel("test error, %")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
plt.show()

# %%
# At equal numbers of features Nystroem is the most accurate, because its features come from rows of
# the data. Its time grows quickly with their number. The other two have a similar accuracy: on such
# a narrow kernel, rules differ little. With few features ``RBFSampler`` trains faster, because
# ``QuadratureRidgeClassifier`` spends some time choosing a rule. With many features, where the
# accuracy is high, this time no longer matters.
#
# With so few rows the exact SVM trains in seconds and is the most accurate. But its time grows at
# least with the square of the number of rows, and that of the others only linearly. The SVM also
# compares each new row with all of its support vectors, so it is by far the slowest to predict. The
# native map is the fastest.
