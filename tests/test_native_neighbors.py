"""Compare Gaussian processes on nearest rows in every build of the native core with NumPy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist

from quadfeat.engine import core as _core
from quadfeat.engine import threads
from quadfeat.kernels import Gaussian, Matern, RationalQuadratic
from quadfeat.neighbors import conditional, native, reference
from quadfeat.neighbors.conditional import NATIVE_UP_TO, Neighborhoods, is_native

CORES = _core._native.cores() if _core._native is not None else []
KERNELS = {
    "gaussian": Gaussian(),
    "matern12": Matern(0.5),
    "matern32": Matern(1.5),
    "matern52": Matern(2.5),
    "matern inf": Matern(np.inf),
    "rational": RationalQuadratic(1.3),
    "small alpha": RationalQuadratic(1e-3),
    "large alpha": RationalQuadratic(1e12),
}
ALPHA = 0.03


@pytest.fixture(params=CORES)
def core(request, monkeypatch):
    monkeypatch.setattr(_core, "CORE", request.param)
    return request.param


def neighborhoods(n_queries=21, k=12, d=3, n_outputs=2, n_rows=300, seed=0):
    """Return random neighborhoods whose rows are not sorted by distance."""
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((n_rows, d))
    targets = rng.standard_normal((n_rows, n_outputs)) + 5.0
    queries = rng.standard_normal((n_queries, d))
    neighbors = np.stack([rng.permutation(n_rows)[:k] for _ in queries])
    hoods = Neighborhoods.of(queries, points, targets, rng.uniform(0.5, 3.0, n_rows), neighbors)
    return hoods.scaled(rng.uniform(0.5, 2.0, d) / np.sqrt(d))


def derivatives(hoods):
    rng = np.random.default_rng(9)
    shape = (hoods.size, hoods.point_targets.shape[1])
    return rng.standard_normal(shape), rng.standard_normal(hoods.size)


def check_equals_reference(kernel, hoods, alpha=ALPHA, tolerance=1e-10):
    found = native.condition(kernel, hoods, alpha, 1)
    expected = reference.condition(kernel, hoods, alpha)
    assert_allclose(found.mean, expected.mean, rtol=tolerance)
    assert_allclose(found.variance, expected.variance, rtol=tolerance, atol=tolerance)
    assert_allclose(found.squares, expected.squares, rtol=tolerance, atol=tolerance)
    assert_array_equal(found.jitter, expected.jitter)
    pulled = native.pull_back(kernel, hoods, alpha, *derivatives(hoods), 1)
    expected = reference.pull_back(kernel, hoods, alpha, *derivatives(hoods))
    assert_allclose(pulled, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("name", KERNELS)
def test_equals_numpy(core, name):
    check_equals_reference(KERNELS[name], neighborhoods())


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 6, 7, 8, 9, 63, 64, 130])
def test_equals_numpy_for_any_number_of_neighbors(core, k):
    check_equals_reference(Matern(1.5), neighborhoods(k=k, n_queries=5))


@pytest.mark.parametrize("n_queries", [1, 2, 8, 9, 33])
def test_equals_numpy_for_any_number_of_queries(core, n_queries):
    check_equals_reference(Matern(2.5), neighborhoods(n_queries=n_queries))


@pytest.mark.parametrize("n_outputs", [1, 3, 7])
def test_equals_numpy_for_several_outputs(core, n_outputs):
    check_equals_reference(Gaussian(), neighborhoods(n_outputs=n_outputs))


@pytest.mark.parametrize("d", [1, 2, 10, 100])
def test_equals_numpy_for_any_number_of_columns(core, d):
    # 100 columns of 64 neighbors are gathered in parts.
    check_equals_reference(Matern(1.5), neighborhoods(d=d, k=64, n_queries=9), tolerance=1e-9)


def test_equals_numpy_up_to_the_largest_number_of_neighbors(core):
    hoods = neighborhoods(n_queries=3, k=NATIVE_UP_TO, n_rows=NATIVE_UP_TO + 20)
    check_equals_reference(Matern(0.5), hoods, tolerance=1e-9)


def test_equals_numpy_without_noise(core):
    check_equals_reference(Matern(0.5), neighborhoods(k=10), alpha=0.0, tolerance=1e-8)


@pytest.mark.parametrize("name", KERNELS)
def test_kernel_values_are_accurate_at_any_distance(core, name):
    """With one neighbor and no noise, the variance is two minus twice the kernel value."""
    distances = np.concatenate(
        [[0.0, 5e-324, 1e-300, 1e100], np.geomspace(1e-12, 1e4, 3001), np.linspace(0, 40, 1001)]
    )[:, None]
    zeros = np.zeros((len(distances), 1), dtype=np.intp)
    hoods = Neighborhoods.of(distances, np.zeros((1, 1)), np.ones((1, 1)), np.ones(1), zeros)
    found = 1.0 - 0.5 * native.condition(KERNELS[name], hoods, 0.0, 1).variance
    expected = KERNELS[name].value_at(distances[:, 0] ** 2)
    assert_allclose(found, expected, atol=4e-15 if name != "large alpha" else 1e-3 * 4)


@pytest.mark.parametrize("name", KERNELS)
def test_threads_and_batches_change_nothing(core, name):
    kernel, hoods = KERNELS[name], neighborhoods(n_queries=203, k=17)
    whole = native.condition(kernel, hoods, ALPHA, 1)
    gradients = native.pull_back(kernel, hoods, ALPHA, *derivatives(hoods), 1)
    for n_threads in (2, 4):
        again = native.condition(kernel, hoods, ALPHA, n_threads)
        for one, other in zip(whole, again, strict=True):
            assert_array_equal(one, other)
        pulled = native.pull_back(kernel, hoods, ALPHA, *derivatives(hoods), n_threads)
        assert_array_equal(gradients, pulled)
    by_mean, by_variance = derivatives(hoods)
    for size in (1, 5, 64):
        for start in range(0, hoods.size, size):
            rows = slice(start, start + size)
            part = native.condition(kernel, hoods.part(rows), ALPHA, 1)
            assert_array_equal(part.mean, whole.mean[rows])
            assert_array_equal(part.variance, whole.variance[rows])
            pulled = native.pull_back(
                kernel, hoods.part(rows), ALPHA, by_mean[rows], by_variance[rows], 1
            )
            assert_array_equal(pulled, gradients[rows])


def test_results_do_not_depend_on_other_queries_that_need_jitter(core):
    hoods = neighborhoods(n_queries=8)
    singular = np.zeros((1, 12), dtype=np.intp)
    mixed = Neighborhoods(
        np.vstack([hoods.given_queries, hoods.given_queries[:1]]),
        hoods.points,
        hoods.point_targets,
        hoods.weights,
        np.vstack([hoods.neighbors[:4], singular, hoods.neighbors[5:], singular]),
        hoods.factors,
    )
    found = native.condition(Gaussian(), mixed, 1e-16, 1)
    whole = native.condition(Gaussian(), hoods, 1e-16, 1)
    others = np.arange(8) != 4
    assert_array_equal(found.mean[:8][others], whole.mean[others])
    assert_array_equal(found.variance[:8][others], whole.variance[others])
    assert_array_equal(found.jitter[:8][others], 0.0)
    assert found.jitter[4] == found.jitter[8] > 0.0


@pytest.mark.parametrize("name", KERNELS)
def test_equal_rows_get_jitter_and_their_mean_target(core, name):
    points, targets = np.zeros((20, 2)), np.arange(20.0)[:, None]
    hoods = Neighborhoods.of(
        np.zeros((3, 2)), points, targets, np.ones(20), np.tile(np.arange(20), (3, 1))
    )
    found = native.condition(KERNELS[name], hoods, 0.0, 1)
    assert np.all((found.jitter > 0.0) & (found.jitter <= 1e-11))
    assert_allclose(found.mean, 9.5, rtol=1e-2)
    noisy = native.condition(KERNELS[name], hoods, 0.5, 1)
    assert_allclose(noisy.mean, 9.5)
    # The mean of 20 targets has 1/20 of the noise variance of one.
    assert_allclose(noisy.variance, 0.5 / 20, rtol=1e-10)


def test_far_queries_keep_the_differences_between_rows(core):
    hoods = neighborhoods()
    far = Neighborhoods.of(
        np.full_like(hoods.given_queries, 1e14),
        hoods.points,
        hoods.point_targets,
        hoods.weights,
        hoods.neighbors,
    )
    found = native.condition(Matern(1.5), far, ALPHA, 1)
    for n, near in enumerate(hoods.neighbors):
        gram = Matern(1.5).value_at(cdist(hoods.points[near], hoods.points[near], "sqeuclidean"))
        inverse = np.linalg.inv(gram + np.diag(ALPHA / hoods.weights[near]))
        expected = inverse.sum(axis=0) @ hoods.point_targets[near] / inverse.sum()
        assert_allclose(found.mean[n], expected, rtol=1e-10)


def test_rows_of_infinite_weight_have_no_noise(core):
    hoods = neighborhoods()
    weights = np.full(len(hoods.points), np.inf)
    exact = Neighborhoods.of(
        hoods.points[:20], hoods.points, hoods.point_targets, weights, hoods.neighbors[:20]
    )
    found = native.condition(Matern(1.5), exact, ALPHA, 1)
    expected = reference.condition(Matern(1.5), exact, 0.0)
    assert_allclose(found.mean, expected.mean, rtol=1e-8)


@pytest.mark.parametrize("layout", ["fortran", "strided", "reversed", "read-only"])
def test_any_memory_layout(core, layout):
    hoods = neighborhoods(n_queries=30)

    def laid_out(values):
        if layout == "fortran":
            return np.asfortranarray(values)
        if layout == "strided":
            return np.repeat(np.repeat(values, 2, axis=0), 3, axis=1)[::2, ::3]
        if layout == "reversed":
            return values[::-1, ::-1].copy()[::-1, ::-1]
        values = values.copy()
        values.flags.writeable = False
        return values

    other = Neighborhoods(
        laid_out(hoods.given_queries),
        laid_out(hoods.points),
        laid_out(hoods.point_targets),
        laid_out(hoods.weights[:, None])[:, 0],
        laid_out(hoods.neighbors),
        hoods.factors,
    )
    found = native.condition(Matern(1.5), other, ALPHA, 2)
    expected = native.condition(Matern(1.5), hoods, ALPHA, 2)
    assert_array_equal(found.mean, expected.mean)
    assert_array_equal(found.variance, expected.variance)


class TestDispatch:
    @pytest.mark.skipif(not CORES, reason="quadfeat was built without its native core")
    def test_native_kernels(self, monkeypatch):
        monkeypatch.setattr(_core, "CORE", CORES[0])
        assert all(is_native(kernel, 64) for kernel in KERNELS.values())
        assert not is_native(Matern(1.0), 64)
        assert not is_native(Gaussian(), NATIVE_UP_TO + 1)

    def test_without_a_native_core(self, monkeypatch):
        monkeypatch.setattr(_core, "CORE", "numpy")
        assert not is_native(Gaussian(), 64)

    def test_a_subclass_with_other_values_is_not_native(self):
        class Wider(Gaussian):
            def value_at(self, separations):
                return super().value_at(0.25 * separations)

        class Renamed(Gaussian):
            pass

        assert Wider().native_profile is None
        assert Renamed().native_profile == ("gaussian", 0.0)

    @pytest.mark.parametrize("kernel", [Matern(1.0), Gaussian()], ids=str)
    def test_both_ways_give_the_same(self, core, kernel):
        hoods = neighborhoods()
        found = conditional.condition(kernel, hoods, ALPHA)
        expected = reference.condition(kernel, hoods, ALPHA)
        assert_allclose(found.mean, expected.mean, rtol=1e-10)
        by_mean, by_variance = derivatives(hoods)
        pulled = conditional.pull_back(kernel, hoods, ALPHA, by_mean, by_variance)
        expected = reference.pull_back(kernel, hoods, ALPHA, by_mean, by_variance)
        assert_allclose(pulled, expected, rtol=1e-9, atol=1e-9)


class TestBadArguments:
    def test_indices_out_of_range(self, core):
        for index in (-1, 300, 2**62):
            hoods = neighborhoods()
            hoods.neighbors[7, 3] = index
            with pytest.raises(IndexError, match=f"neighbors contains {index}, but there are 300"):
                native.condition(Gaussian(), hoods, ALPHA, 2)

    def test_numbers_that_are_not_finite(self, core):
        hoods = neighborhoods()
        hoods.points[hoods.neighbors[3, 5], 1] = np.nan
        with pytest.raises(ValueError, match="no Cholesky factor"):
            native.condition(Matern(1.5), hoods, ALPHA, 1)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"points": np.ones((300, 4))}, "shapes of points and queries"),
            ({"targets": np.ones((299, 2))}, "shapes of points and queries"),
            ({"weights": np.ones((300, 2))}, "shapes of points and queries"),
            ({"queries": np.ones((20, 3))}, "shapes of points and queries"),
            ({"factors": np.ones((2, 3))}, "shapes of points and queries"),
            ({"targets": np.ones((300, 0)), "mean": np.ones((21, 0))}, "at least one column"),
            ({"neighbors": np.zeros((21, 0), dtype=np.int64)}, "at least one column"),
            ({"neighbors": np.zeros((21, NATIVE_UP_TO + 1), dtype=np.int64)}, "too many columns"),
            ({"neighbors": np.zeros((21, 3))}, "neighbors is not a matrix of int64"),
            ({"neighbors": np.zeros((21, 3), np.int32)}, "neighbors is not a matrix of int64"),
            ({"points": np.ones((300, 3), np.float32)}, "points is not a matrix of float64"),
            ({"mean": np.ones((21, 1))}, "shape of the result"),
            ({"squares": np.ones((21, 1))}, "shape of the result"),
            ({"variance": np.ones((20, 1))}, "shape of the result"),
            ({"profile": "cubic"}, "unknown name 'cubic'"),
            ({"n_threads": 0}, "n_threads is 0"),
            ({"core": "abacus"}, "no core named 'abacus'"),
        ],
    )
    def test_arguments_of_the_core(self, core, changes, message):
        hoods = neighborhoods()
        arguments = {
            **native._arguments(Gaussian(), hoods, ALPHA),
            "mean": np.empty((21, 2)),
            "variance": np.empty((21, 1)),
            "squares": np.empty((21, 2)),
            "jitter": np.empty((21, 1)),
            "n_threads": 1,
            "core": core,
        }
        _core._native.condition(**arguments)
        with pytest.raises(ValueError, match=message):
            _core._native.condition(**{**arguments, **changes})

    def test_derivatives_of_another_shape(self, core):
        by_mean, by_variance = derivatives(neighborhoods())
        with pytest.raises(ValueError, match="shape of the queries"):
            native.pull_back(Gaussian(), neighborhoods(), ALPHA, by_mean[:, :1], by_variance, 1)

    def test_no_queries(self, core):
        hoods = neighborhoods().part(slice(0, 0))
        assert native.condition(Gaussian(), hoods, ALPHA, 2).mean.shape == (0, 2)


def blas_threads():
    # Other packages, such as faiss, may have loaded libraries of their own.
    return [library.num_threads for library in threads._libraries("blas")]


def test_the_numpy_path_uses_one_blas_thread(monkeypatch):
    before, seen = blas_threads(), []
    monkeypatch.setattr(reference, "cholesky", lambda matrices: seen.append(blas_threads()))
    with pytest.raises(TypeError):
        reference.condition(Gaussian(), neighborhoods(), ALPHA)
    assert seen[0]
    assert set(seen[0]) == {1}
    assert blas_threads() == before
