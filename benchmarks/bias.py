"""Measure the biases of rules and rotations that the docstrings quote.

For the Gaussian kernel and two rows that differ along an axis, print the mean of
``approximate_kernel`` over many maps of one block minus the exact value, with its standard error.
The bias of butterflies is small, so they are measured over all entries of many more matrices. This
takes about six minutes with the default number of maps.

    python benchmarks/bias.py [--maps 20000]
"""

from __future__ import annotations

import argparse
import itertools
import math

import numpy as np

from quadfeat._utils.validation import Float64Array
from quadfeat.kernels import Gaussian
from quadfeat.rotations import Butterfly, Haar, Hadamard, Rotation
from quadfeat.rules import GaussHermite, Rule, SphericalRadial


def orf(rotation: Rotation, radii: str = "independent") -> Rule:
    """Return the rule of degree (1, 3) with a given rotation."""
    return SphericalRadial(directions="orthoplex", tilt=0.0, radii=radii, rotation=rotation)


# The label, the rule, the dimensions, and the values of gamma |x - y|^2.
CASES: list[tuple[str, Rule, tuple[int, ...], tuple[float, ...]]] = [
    ("Hadamard(), degree 1", orf(Hadamard()), (4, 16, 64), (2.0,)),
    ("radii='constant', Haar, degree 1", orf(Haar(), "constant"), (4, 16, 64), (2.0,)),
    ("rom", orf(Hadamard(), "constant"), (4, 16, 64), (2.0,)),
    ("tilt='fixed'", SphericalRadial(tilt="fixed"), (4, 16, 64), (0.1, 2.0)),
    ("origin='resample'", SphericalRadial(), (4, 16, 64), (0.1, 2.0)),
    ("origin='renormalise'", SphericalRadial(origin="renormalise"), (4, 16, 64), (0.1, 2.0)),
    ("GaussHermite(2)", GaussHermite(2), (4,), (4.5,)),
    ("GaussHermite(4)", GaussHermite(4), (4,), (4.5,)),
    ("GaussHermite(8)", GaussHermite(8), (4,), (4.5,)),
]


def estimates(rule: Rule, d: int, square: float, maps: int) -> Float64Array:
    """Return estimates of ``exp(-square)`` by maps of about one block."""
    kernel = Gaussian(0.5)
    x = np.zeros((1, d))
    x[0, 0] = math.sqrt(2.0 * square)
    values = np.empty(maps)
    for seed in range(maps):
        nodes = rule.draw(d, 2 * (d + 1) + 1, kernel, np.random.default_rng(seed))
        # The random phase of a last cosine averages out, so its node counts like the others.
        values[seed] = nodes.origin_weight + nodes.weights @ np.cos(nodes.arguments(x)[0])
    return values


def butterfly_estimates(rounds: int, d: int, square: float, batches: int = 40) -> Float64Array:
    """Return estimates of ``exp(-square)``, each by the entries of many butterfly matrices."""
    rng = np.random.default_rng(0)
    values = np.empty(batches)
    for k in range(batches):
        entries = Butterfly(rounds).draw(d, rng, 300_000 // d).dense()
        radii = np.sqrt(rng.chisquare(d, entries.shape))
        values[k] = np.cos(math.sqrt(2.0 * square) * radii * entries).mean()
    return values


def show(what: str, d: int, square: float, values: Float64Array) -> None:
    """Print one line of the table."""
    exact = math.exp(-square)
    error = values.std(ddof=1) / math.sqrt(len(values))
    print(f"{what:38s} {d:3d} {exact:8.4f} {values.mean() - exact:+9.4f} {error:10.4f}", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--maps", type=int, default=20_000, help="maps per line")
    maps = parser.parse_args().maps
    print(f"{'what':38s} {'d':>3s} {'exact':>8s} {'bias':>9s} {'std. error':>10s}")
    for d, rounds in itertools.product((3, 5, 7, 16), (1, 2, 3)):
        show(f"Butterfly(rounds={rounds})", d, 2.0, butterfly_estimates(rounds, d, 2.0))
    for what, rule, dimensions, squares in CASES:
        for d, square in itertools.product(dimensions, squares):
            show(what, d, square, estimates(rule, d, square, maps))


if __name__ == "__main__":
    main()
