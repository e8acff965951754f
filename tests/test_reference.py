"""Compare the NumPy implementation with the definitions."""

import numpy as np
import pytest
from scipy.linalg import hadamard

from quadfeat.engine import reference as reference
from quadfeat.kernels.nonlinearities import Fourier, Pointwise, Ramp


@pytest.mark.parametrize("d", [*range(1, 40), 255, 256, 257])
def test_butterfly_has_d_minus_1_angles_in_log2_d_stages(d):
    stages = reference.butterfly_stages(d)
    assert sum(angles for _, angles in stages) == d - 1
    assert len(stages) == int(np.ceil(np.log2(d)))


def test_butterfly_of_size_four_agrees_with_the_paper():
    c, s = np.cos([0.3, 1.1, 2.0]), np.sin([0.3, 1.1, 2.0])  # theta_1, theta_3, theta_2
    expected = np.array(
        [
            [c[0] * c[2], -s[0] * c[2], -c[0] * s[2], s[0] * s[2]],
            [s[0] * c[2], c[0] * c[2], -s[0] * s[2], -c[0] * s[2]],
            [c[1] * s[2], -s[1] * s[2], c[1] * c[2], -s[1] * c[2]],
            [s[1] * s[2], c[1] * s[2], s[1] * c[2], c[1] * c[2]],
        ]
    )
    identity = np.arange(4).reshape(1, 1, 4)
    drawn = reference.butterfly(np.eye(4), c.reshape(1, 1, 3), s.reshape(1, 1, 3), identity)
    np.testing.assert_allclose(drawn[0].T, expected, atol=1e-15)


@pytest.mark.parametrize("p", [1, 2, 8, 64])
def test_walsh_hadamard_is_the_orthonormal_hadamard_matrix(p):
    np.testing.assert_allclose(
        reference.walsh_hadamard(np.eye(p)), hadamard(p) / np.sqrt(p), atol=1e-14
    )


@pytest.mark.parametrize("d", [1, 2, 3, 7, 16, 100])
def test_simplex_vertices_are_unit_and_at_equal_angles(d):
    V = reference.simplex(np.eye(d)).T
    np.testing.assert_allclose(V @ V.T, (d + 1) / d * np.eye(d), atol=1e-12)
    np.testing.assert_allclose(V.T @ V, (1 + 1 / d) * np.eye(d + 1) - 1 / d, atol=1e-12)


def test_simplex_acts_on_every_column_of_a_batch():
    U = np.random.default_rng(0).standard_normal((3, 5, 4))
    V = reference.simplex(np.eye(5)).T
    np.testing.assert_allclose(reference.simplex(U), V.T @ U, atol=1e-14)


@pytest.mark.parametrize(
    ("nonlinearity", "reflected", "single", "expected"),
    [
        (Fourier(), False, False, [np.cos(1), np.sin(1), 2 * np.cos(-2), 2 * np.sin(-2)]),
        (Fourier(), False, True, [np.cos(1), np.sin(1), 2 * np.cos(-2 + 0.5)]),
        (Ramp(1), True, False, [1, 0, 0, 4]),
        (Ramp(1), True, True, [1, 0, 0]),
        (Ramp(0), False, False, [1, 0]),
        (Pointwise(np.tanh), False, False, [np.tanh(1), 2 * np.tanh(-2)]),
    ],
)
def test_column_order(nonlinearity, reflected, single, expected):
    out = np.full((3, len(expected)), np.nan)
    reference.write_features(
        np.array([[1.0, -2.0]] * 3),
        nonlinearity,
        np.array([1.0, 2.0]),
        reflected=reflected,
        last_is_single=single,
        phase=0.5,
        out=out,
    )
    np.testing.assert_allclose(out, [expected] * 3)
