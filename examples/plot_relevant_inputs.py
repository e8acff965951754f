r"""
Which inputs matter
===================

A kernel with a lengthscale for each input can ignore inputs, by making their lengthscales long.
``QuadratureRidge()`` learns them from a sample of the rows, by the evidence of a Gaussian process,
before the map is drawn. Here the kernel is given, and ``lengthscales="ard"`` learns its
lengthscales only. They are worth looking at in themselves.
"""

# %%
# Friedman's function has ten inputs, and five of them have no part in it:
# :math:`10 \sin(\pi x_0 x_1) + 20 (x_2 - 1/2)^2 + 10 x_3 + 5 x_4`, with noise of deviation 1.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.model_selection import train_test_split

from quadfeat import QuadratureRidge

X, y = make_friedman1(3000, noise=1.0, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=600, random_state=0)

# %%
# One lengthscale for all inputs (in units of their standard deviations), and one for each. The
# learned kernel is the model's attribute ``kernel_``.

kernels = {}
for lengthscales in ("isotropic", "ard"):
    model = QuadratureRidge("gaussian", n_components=256, lengthscales=lengthscales, random_state=0)
    kernels[lengthscales] = model.fit(X_train, y_train).kernel_
    print(lengthscales, kernels[lengthscales])

# %%
# ``gamma`` is :math:`1 / (2 \ell^2)` for a lengthscale :math:`\ell`. A kernel that was learned can
# be used in other models, here with more and more features: it takes far fewer of them to fill the
# space of the inputs that matter than that of all.

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
left.axvline(one_for_all, color="C1", label="one for all inputs")
left.invert_yaxis()
left.grid(visible=False, axis="y")
left.set(xlabel="1 / lengthscale", title="how soon the function bends along an input")
left.legend(loc="lower center")

lines = {"isotropic": ("one for all inputs", "C1"), "ard": ("one for each input", "C0")}
for name, (label, colour) in lines.items():
    errors = [error_of(kernels[name], n) for n in columns]
    right.plot(columns, errors, marker="o", color=colour, label=label)
    print(f"{name:10s}", *(f"{error:.3f}" for error in errors))
right.axhline(1.0, color="black", linestyle=":", label="noise alone")
right.set(xscale="log", xlabel="features", title="root mean square error on test rows")
right.set_xticks(columns, [str(n) for n in columns])
right.minorticks_off()
right.legend(title="lengthscales")
plt.show()

# %%
# The function is a straight line along :math:`x_3` and :math:`x_4`, and their bars are short: a
# lengthscale tells how soon the function changes its course, not by how much. The five inputs that
# do not matter have next to no bar at all.
