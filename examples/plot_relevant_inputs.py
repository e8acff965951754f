r"""
Which inputs matter?
====================

A kernel with one lengthscale per input (ARD) can ignore inputs by giving them long lengthscales.
``QuadratureRidge()`` learns lengthscales from a sample of the rows before it draws the map. It
maximizes the evidence of a Gaussian process. In this example the kernel is given, and
``lengthscales="ard"`` learns only the lengthscales. They show which inputs matter.
"""

# %%
# Friedman's function has ten inputs, five of which have no effect: :math:`10 \sin(\pi x_0 x_1) + 20
# (x_2 - 1/2)^2 + 10 x_3 + 5 x_4`. The noise has standard deviation 1.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.model_selection import train_test_split

from quadfeat import QuadratureRidge

X, y = make_friedman1(3000, noise=1.0, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=600, random_state=0)

# %%
# We learn one lengthscale for all inputs (in units of their standard deviations), and one per
# input. The attribute ``kernel_`` holds the learned kernel.

kernels = {}
for lengthscales in ("isotropic", "ard"):
    model = QuadratureRidge("gaussian", n_components=256, lengthscales=lengthscales, random_state=0)
    kernels[lengthscales] = model.fit(X_train, y_train).kernel_
    print(lengthscales, kernels[lengthscales])

# %%
# ``gamma`` is :math:`1 / (2 \ell^2)` for a lengthscale :math:`\ell`. Other models can use a learned
# kernel. Here we use it with increasing numbers of features. The space of the relevant inputs needs
# far fewer features than the space of all inputs.

columns = (32, 64, 128, 256, 512)


def error_of(kernel, n_components):
    """Return the root mean square error on the test rows."""
    model = QuadratureRidge(
        kernel, n_components=n_components, alpha="evidence", random_state=0, n_jobs=-1
    ).fit(X_train, y_train)
    return np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2))


figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.4), layout="constrained")
relevance = np.sqrt(2 * kernels["ard"].gamma)
names = [f"$x_{i}$" for i in range(len(relevance))]
left.barh(names, relevance, color=["C0"] * 5 + ["C7"] * 5)
one_for_all = np.sqrt(2 * kernels["isotropic"].gamma).mean()
left.axvline(one_for_all, color="C1", label="one for all")
left.invert_yaxis()
left.grid(visible=False, axis="y")
left.set(xlabel="1 / lengthscale", title="relevance of each input")
left.legend(loc="lower center")

lines = {"isotropic": ("one for all", "C1"), "ard": ("one per input", "C0")}
for name, (label, color) in lines.items():
    errors = [error_of(kernels[name], n) for n in columns]
    right.plot(columns, errors, marker="o", color=color, label=label)
    print(f"{name:10s}", *(f"{error:.3f}" for error in errors))
right.axhline(1.0, color="black", linestyle=":", label="noise")
right.set(xscale="log", xlabel="features", title="root mean square error on test rows")
right.set_xticks(columns, [str(n) for n in columns])
right.minorticks_off()
right.legend(title="lengthscales")
plt.show()

# %%
# The function is linear in :math:`x_3` and :math:`x_4`, and their bars are short. A lengthscale
# shows how quickly the slope of the function changes, not how much its value changes. The bars of
# the five irrelevant inputs almost vanish.
