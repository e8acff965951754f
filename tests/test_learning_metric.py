"""Compare the average gradient outer product with plain sums and finite differences."""

import numpy as np
import pytest

from quadfeat import QuadratureRidge
from quadfeat.kernels import Gaussian
from quadfeat.learning.metric import LEAST, LONGEST, average_outer_product, square_root


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def with_floor(product):
    """Add a small multiple of the identity and scale the matrix to trace d."""
    d = len(product)
    product = product * (d / np.trace(product)) + LEAST * np.eye(d)
    return product * (d / np.trace(product))


class TestAverageOuterProduct:
    def test_by_hand(self):
        gradients = np.array([[[1.0, 2.0]], [[3.0, -1.0]]])
        by_hand = np.array([[1.0 + 9.0, 2.0 - 3.0], [2.0 - 3.0, 4.0 + 1.0]])
        found = average_outer_product(gradients, np.ones(2))
        np.testing.assert_allclose(found, with_floor(by_hand), rtol=1e-12)

    def test_outputs_and_weights_add_up(self, rng):
        gradients, weights = rng.standard_normal((20, 3, 4)), rng.random(20) + 0.5
        total = np.zeros((4, 4))
        for row, weight in zip(gradients, weights, strict=True):
            for gradient in row:
                total += weight * np.outer(gradient, gradient)
        found = average_outer_product(gradients, weights)
        np.testing.assert_allclose(found, with_floor(total), rtol=1e-12)

    def test_trace_and_definiteness(self, rng):
        for d in (1, 3, 7):
            found = average_outer_product(rng.standard_normal((5, 1, d)) * 1e-6, np.ones(5))
            assert np.trace(found) == pytest.approx(d)
            np.testing.assert_allclose(found, found.T, atol=1e-14)
            assert np.linalg.eigvalsh(found).min() > 0.9 * LEAST

    def test_units_of_targets_and_weights_do_not_matter(self, rng):
        gradients = rng.standard_normal((30, 2, 3))
        found = average_outer_product(gradients, np.ones(30))
        for unit in (1e5, 1e-200, 1e200):
            other = average_outer_product(gradients * unit, np.full(30, 7.0))
            np.testing.assert_allclose(other, found, rtol=1e-12)

    def test_weights_count_as_copies(self, rng):
        gradients, counts = rng.standard_normal((30, 1, 3)), rng.integers(1, 4, 30)
        found = average_outer_product(gradients, counts * 1.0)
        copies = average_outer_product(np.repeat(gradients, counts, axis=0), np.ones(counts.sum()))
        np.testing.assert_allclose(copies, found, rtol=1e-12)

    def test_long_gradients_are_shortened(self, rng):
        """Shorten an extreme gradient to LONGEST median lengths, so that it does not dominate."""
        gradients = np.zeros((101, 1, 2))
        gradients[:, 0, 0] = 1.0
        gradients[0, 0] = 0.0, 1e6
        found = average_outer_product(gradients, np.ones(101))
        np.testing.assert_allclose(found, with_floor(np.diag([100.0, LONGEST**2])), rtol=1e-12)

    def test_short_gradients_are_kept(self, rng):
        gradients = np.zeros((101, 1, 2))
        gradients[:, 0, 0] = 1.0
        gradients[0, 0] = 0.0, 0.99 * LONGEST
        found = average_outer_product(gradients, np.ones(101))
        expected = with_floor(np.diag([100.0, (0.99 * LONGEST) ** 2]))
        np.testing.assert_allclose(found, expected, rtol=1e-12)

    def test_without_gradients_it_is_the_identity(self):
        np.testing.assert_array_equal(
            average_outer_product(np.zeros((4, 1, 3)), np.ones(4)), np.eye(3)
        )

    def test_most_gradients_may_be_zero(self):
        gradients = np.zeros((10, 1, 2))
        gradients[0, 0] = 0.0, 2.0
        found = average_outer_product(gradients, np.ones(10))
        np.testing.assert_allclose(found, with_floor(np.diag([0.0, 1.0])), rtol=1e-12)

    def test_of_a_model_against_finite_differences(self, rng):
        X = rng.uniform(-2.0, 2.0, (300, 3))
        y = np.sin(X @ [1.0, -1.0, 0.0]) + 0.1 * X[:, 2]
        model = QuadratureRidge(Gaussian(0.3), n_components=128, alpha=1e-2, random_state=0)
        model.fit(X, y)
        step, slopes = 1e-5, np.empty((300, 1, 3))
        for j in range(3):
            ahead, behind = X + step * np.eye(3)[j], X - step * np.eye(3)[j]
            slopes[:, 0, j] = (model.predict(ahead) - model.predict(behind)) / (2.0 * step)
        gradients = model.map_.gradients(X, model.coef_[:, None])
        np.testing.assert_allclose(gradients, slopes, atol=1e-5)
        found = average_outer_product(gradients, np.ones(300))
        np.testing.assert_allclose(found, average_outer_product(slopes, np.ones(300)), atol=1e-5)
        # It finds the direction of the target.
        leading = np.linalg.eigh(found)[1][:, -1]
        assert abs(leading @ [1.0, -1.0, 0.0]) / np.sqrt(2.0) > 0.99


class TestSquareRoot:
    def test_is_a_root(self, rng):
        A = rng.standard_normal((4, 6))
        for M in (A @ A.T, A.T @ A, np.diag([1e-12, 1.0, 1e6])):
            root = square_root(M)
            np.testing.assert_allclose(root @ root, M, atol=1e-10 * np.abs(M).max())
            np.testing.assert_allclose(root, root.T, atol=1e-12 * np.abs(root).max())
            assert np.linalg.eigvalsh(root).min() > -1e-6 * np.abs(root).max()

    def test_rounding_below_zero(self):
        root = square_root(np.diag([1.0, -1e-18]))
        np.testing.assert_allclose(root, np.diag([1.0, 0.0]), atol=1e-12)
