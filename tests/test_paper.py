"""Reproduce the paper's published errors and its ranking of methods on its own datasets.

The datasets are not part of the project. ``QUADFEAT_DATA`` names a folder with ``powerplant.npz``,
``letter.npz`` and ``usps.npz``, each with an array ``X``. Without it, these tests are skipped.
"""

import os
from pathlib import Path

import numpy as np
import pytest

from quadfeat import QuadratureFeatures
from quadfeat.kernels import ArcCosine, Gaussian
from quadfeat.rotations import Butterfly
from quadfeat.rules import SphericalRadial
from slow import repeats

TRAIN_ROWS = {"powerplant": 8500, "letter": 10000, "usps": 4500}
ROWS = 550
RUNS = {"powerplant": 300, "letter": 300, "usps": 60}  # errors on usps hardly vary

# Mean and standard deviation of |K - K_hat|_F / |K|_F over 500 runs, for SR(3,3) with butterflies
# and n = 1. Published with Munkhoeva et al., "Quadrature-based features for kernel approximation"
# (NeurIPS 2018), in the authors' repository.
PUBLISHED = {
    ("powerplant", "gaussian"): (0.013889997, 0.0057159212),
    ("powerplant", "arccos0"): (0.37862547, 0.23013841),
    ("powerplant", "arccos1"): (0.10302366, 0.0060731134),
    ("letter", "gaussian"): (0.00053842024, 0.00011790108),
    ("letter", "arccos0"): (0.10343901, 0.026810489),
    ("letter", "arccos1"): (0.010472002, 0.0012051732),
    ("usps", "gaussian"): (0.011256465, 0.00097712934),
    ("usps", "arccos0"): (0.032926952, 0.0020277757),
    ("usps", "arccos1"): (0.011933603, 0.00072261465),
}
PUBLISHED_RUNS = 500


def load(name):
    """Return the training rows of a dataset, scaled as in the paper."""
    folder = os.environ.get("QUADFEAT_DATA")
    path = Path(folder or "", f"{name}.npz")
    if not folder or not path.exists():
        pytest.skip(f"QUADFEAT_DATA is not set to a folder with {name}.npz")
    with np.load(path) as archive:
        X = archive["X"].astype(np.float64)
    if name == "powerplant":
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    train = X[: TRAIN_ROWS[name]]
    return train / train.max()


def relative_errors(X, features, runs):
    """Return errors over joint draws of the map and of two samples of rows."""
    errors = []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        left, right = (X[rng.choice(len(X), ROWS, replace=False)] for _ in range(2))
        features.set_params(random_state=seed).fit(left)
        exact = features.kernel_(left, right)
        difference = features.approximate_kernel(left, right) - exact
        errors.append(np.linalg.norm(difference) / np.linalg.norm(exact))
    return np.array(errors)


@pytest.mark.parametrize(("name", "kernel"), repeats(PUBLISHED))
def test_errors_of_sr33_agree_with_the_paper(name, kernel):
    X = load(name)
    d = X.shape[1]
    # The budget is 2 (d + 1) nodes. The Gaussian kernel uses two rotations, with a cosine and a
    # sine per node. Arc-cosine kernels use one rotation and its reflection.
    gaussian = kernel == "gaussian"
    features = QuadratureFeatures(
        Gaussian(1 / d) if gaussian else ArcCosine(int(kernel[-1])),
        rule=SphericalRadial(origin="signed", rotation=Butterfly(rounds=3)),
        n_components=(4 if gaussian else 2) * (d + 1),
    )
    runs = RUNS[name]
    errors = relative_errors(X, features, runs)
    mean, deviation = PUBLISHED[name, kernel]
    combined = np.hypot(errors.std(ddof=1) / np.sqrt(runs), deviation / np.sqrt(PUBLISHED_RUNS))
    assert abs(errors.mean() - mean) <= max(0.15 * mean, 3 * combined)


@pytest.mark.parametrize("name", repeats(["powerplant", "letter"]))
def test_the_error_on_wide_kernels_decreases_with_the_degree(name):
    X = load(name)
    d = X.shape[1]
    errors = {
        rule: relative_errors(
            X,
            # All rules have the same number of nodes. One of them adds a column for the origin.
            QuadratureFeatures(
                Gaussian(1 / d), rule=rule, n_components=4 * (d + 1) + (rule == "sr33")
            ),
            runs=100,
        ).mean()
        for rule in ("sr33", "orf", "rff")
    }
    assert 2 * errors["sr33"] < errors["orf"]
    assert 1.1 * errors["orf"] < errors["rff"]
