"""Test that rotations are orthogonal, equal dense matrices and have the documented columns."""

import numpy as np
import pytest
from scipy import stats

from quadfeat.rotations import Butterfly, Haar, Hadamard, Householder

EVERY = [Haar(), Householder(), Butterfly(), Butterfly(rounds=1), Hadamard(), Hadamard(rounds=1)]


@pytest.mark.parametrize("d", [*range(1, 71), 784, 1000])
def test_butterfly_is_orthogonal(d):
    (Q,) = Butterfly().draw(d, np.random.default_rng(d)).dense()
    np.testing.assert_allclose(Q @ Q.T, np.eye(d), atol=1e-12)


@pytest.mark.parametrize("rotation", EVERY, ids=repr)
@pytest.mark.parametrize("d", [1, 2, 3, 5, 8, 13, 33, 64])
def test_every_rotation_is_orthogonal_and_equals_its_dense_matrix(rotation, d):
    drawn = rotation.draw(d, np.random.default_rng(d), count=3)
    p = rotation.size(d)
    assert (drawn.count, drawn.size) == (3, p)
    X = np.random.default_rng(0).standard_normal((4, d))
    padded = np.hstack([X, np.zeros((4, p - d))])
    fast = drawn.apply(X)
    assert fast.shape == (4, 3, p)
    for k, Q in enumerate(drawn.dense()):
        np.testing.assert_allclose(Q @ Q.T, np.eye(p), atol=1e-12)
        np.testing.assert_allclose(fast[:, k], padded @ Q, atol=1e-12)


@pytest.mark.parametrize("rotation", EVERY, ids=repr)
def test_float32_stays_float32_and_agrees(rotation):
    drawn = rotation.draw(50, np.random.default_rng(0), count=2)
    X = np.random.default_rng(1).standard_normal((5, 50))
    single = drawn.apply(X.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, drawn.apply(X), atol=1e-5)


@pytest.mark.parametrize("rotation", EVERY, ids=repr)
def test_matrices_of_a_batch_differ_and_the_seed_decides(rotation):
    first = rotation.draw(6, np.random.default_rng(3), count=2).dense()
    again = rotation.draw(6, np.random.default_rng(3), count=2).dense()
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first[0], first[1])


@pytest.mark.parametrize("d", [8, 16])
@pytest.mark.parametrize(
    "rotation", [Haar(), Householder(), Butterfly(rounds=1), Butterfly()], ids=repr
)
def test_coordinates_have_the_beta_distribution_of_a_uniform_direction(rotation, d):
    matrices = rotation.draw(d, np.random.default_rng(0), count=4000).dense()
    law = stats.beta(0.5, (d - 1) / 2)  # the square of one coordinate of a uniform direction
    for row, column in [(0, 0), (d // 2, 0), (1, d - 1), (d - 1, 3)]:
        entries = matrices[:, row, column]
        assert stats.kstest(entries**2, law.cdf).pvalue > 1e-4
        assert abs(np.sign(entries).mean()) < 4 / np.sqrt(len(entries))


@pytest.mark.parametrize("d", [3, 5, 6, 7])
@pytest.mark.parametrize("axis", ["first", "last"])
def test_default_butterflies_are_nearly_uniform_if_d_is_not_a_power_of_two(d, axis):
    # One round leaves zero entries. E[q^4] = 3 / (d (d + 2)) for a uniform direction.
    def excess(rounds):
        matrices = Butterfly(rounds).draw(d, np.random.default_rng(1), 20000).dense()
        entries = matrices[:, 0 if axis == "first" else -1]
        fourth = (entries**4).mean(axis=1) * d * (d + 2) / 3 - 1
        return fourth.mean(), fourth.std() / np.sqrt(len(fourth))

    once, _ = excess(1)
    thrice, error = excess(None)
    assert once > 0.03
    assert abs(thrice) < 4 * error


def test_the_default_is_two_rounds_except_for_small_sizes_that_are_not_powers_of_two():
    def rounds(d):
        return Butterfly().draw(d, np.random.default_rng(0)).permutations.shape[1]

    assert {d: rounds(d) for d in (2, 3, 16, 32, 36, 37, 100)} == {
        2: 2, 3: 3, 16: 2, 32: 2, 36: 3, 37: 2, 100: 2
    }  # fmt: skip


@pytest.mark.parametrize("d", [24, 100])
@pytest.mark.parametrize("difference", [[1.0], [1.0, -1.0]], ids=["one-hot zero", "one-hot"])
def test_the_default_has_the_spread_of_haar_on_differences_of_one_hot_rows(d, difference):
    # Two rows differ in one or two coordinates. A single round has 1.4 to 4 times the variance.
    delta = np.zeros((d, 1))
    delta[: len(difference), 0] = 2.0 * np.array(difference) / np.linalg.norm(difference)

    def squared_errors(rotation, seed):
        rng = np.random.default_rng(seed)
        radii = np.sqrt(rng.chisquare(d, (3000, d)))
        turned = rotation.draw(d, rng, 3000).turn(delta)[..., 0]
        return (np.cos(radii * turned).mean(axis=1) - np.exp(-2.0)) ** 2

    errors, once = (squared_errors(rotation, 0) for rotation in (Butterfly(), Butterfly(1)))
    frames = np.random.default_rng(1).standard_normal((3000, d))
    uniform = 2.0 * frames / np.linalg.norm(frames, axis=1, keepdims=True)
    radii = np.sqrt(np.random.default_rng(2).chisquare(d, (3000, d)))
    haar = (np.cos(radii * uniform).mean(axis=1) - np.exp(-2.0)) ** 2
    error = np.hypot(errors.std(), haar.std()) / np.sqrt(3000)
    assert abs(errors.mean() - haar.mean()) < 4 * error
    assert once.mean() - haar.mean() > 4 * error


@pytest.mark.parametrize("rotation", EVERY, ids=repr)
def test_a_single_coordinate_gets_a_random_sign(rotation):
    signs = rotation.draw(1, np.random.default_rng(0), count=2000).dense().ravel()
    np.testing.assert_allclose(np.abs(signs), 1.0)
    assert abs(signs.mean()) < 4 / np.sqrt(2000)


def test_haar_has_the_right_signs():
    # Without the signs of R's diagonal, the first entry of Q would never be positive.
    entries = Haar().draw(3, np.random.default_rng(0), count=2000).dense()[:, 0, 0]
    assert abs((entries > 0).mean() - 0.5) < 4 * 0.5 / np.sqrt(2000)


@pytest.mark.parametrize(
    ("rotation", "limit"), [(Butterfly(), 3 * 20), (Hadamard(), 3 * 2)], ids=str
)
def test_structured_state_grows_linearly_with_d(rotation, limit):
    drawn = rotation.draw(10_000, np.random.default_rng(0))
    size = sum(array.nbytes for array in vars(drawn).values())
    assert size <= limit * 10_000


def test_drawn_matrices_are_immutable():
    drawn = Butterfly().draw(4, np.random.default_rng(0))
    with pytest.raises(ValueError, match="read-only"):
        drawn.cosines[0] = 0
    with pytest.raises(AttributeError):
        drawn.cosines = None


@pytest.mark.parametrize("rotation", [Butterfly(rounds=0), Hadamard(rounds=1.5)], ids=repr)
def test_bad_rounds(rotation):
    with pytest.raises(ValueError, match=r"rounds=.* integer >= 1"):
        rotation.draw(4, np.random.default_rng(0))
