"""Test Gaussian processes on nearest rows against exact ones, and their gradients."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as gp

from quadfeat.kernels import Gaussian, Matern, RationalQuadratic
from quadfeat.neighbors.clusters import Clusters, is_available
from quadfeat.neighbors.conditional import Neighborhoods, condition, log_likelihood
from quadfeat.neighbors.reference import cholesky, divided, divided_by_transpose
from quadfeat.neighbors.rows import DistinctRows
from quadfeat.neighbors.scan import Scan
from quadfeat.neighbors.search import NearestRows, index_for
from quadfeat.neighbors.tree import Tree, visited_points

KERNELS = {
    "gaussian": (Gaussian(), gp.RBF()),
    "matern12": (Matern(0.5), gp.Matern(nu=0.5)),
    "matern32": (Matern(1.5), gp.Matern(nu=1.5)),
    "matern52": (Matern(2.5), gp.Matern(nu=2.5)),
    "rational": (RationalQuadratic(1.3), gp.RationalQuadratic(alpha=1.3)),
}
ALPHA, K = 0.03, 12
rng = np.random.default_rng(0)
X = rng.standard_normal((80, 3))
Y = np.stack([np.sin(2 * X[:, 0]) + X[:, 1], np.cos(X[:, 2])], axis=1) + 5.0
Y += 0.1 * rng.standard_normal(Y.shape)
WEIGHTS = rng.uniform(0.5, 3.0, len(X))
QUERIES = rng.standard_normal((20, 3))


def gathered(queries=QUERIES, k=K):
    return Neighborhoods.of(queries, X, Y, WEIGHTS, NearestRows(X).to(queries, k))


def exact(kernel, rows, query):
    """Return the mean, and the variance of the latent function, by contrasts with the first row.

    A flat prior on the intercept says nothing about differences of targets, so they are an ordinary
    Gaussian process with mean zero.
    """
    points = np.vstack([X[rows], query])
    gram = kernel.value_at(cdist(points, points, "sqeuclidean"))
    gram += ALPHA * np.diag(np.append(1 / WEIGHTS[rows], 0.0))
    contrasts = np.hstack([-np.ones((len(rows), 1)), np.eye(len(rows))])
    covariance = contrasts @ gram @ contrasts.T
    seen, new = covariance[:-1, :-1], covariance[:-1, -1]
    differences = Y[rows][1:] - Y[rows][0]
    mean = Y[rows][0] + new @ np.linalg.solve(seen, differences)
    variance = covariance[-1, -1] - new @ np.linalg.solve(seen, new)
    # The target of the first row has noise, which the contrast has in common with the others.
    return mean, variance


@pytest.mark.parametrize("name", KERNELS)
def test_predictions_equal_exact_ones_on_the_same_neighbors(name):
    kernel = KERNELS[name][0]
    found = condition(kernel, gathered(), ALPHA)
    for n, query in enumerate(QUERIES):
        mean, variance = exact(kernel, NearestRows(X).to(query[None], K)[0], query)
        assert_allclose(found.mean[n], mean, atol=1e-8)
        assert_allclose(found.variance[n], variance, atol=1e-8)
    assert_array_equal(found.jitter, 0.0)


@pytest.mark.parametrize("name", KERNELS)
def test_predictions_equal_those_of_scikit_learn(name):
    kernel, other = KERNELS[name]
    found = condition(kernel, gathered(), ALPHA)
    for n, query in enumerate(QUERIES):
        rows = NearestRows(X).to(query[None], K)[0]
        noise = ALPHA / WEIGHTS[rows]
        inverse = np.linalg.inv(other(X[rows]) + np.diag(noise))
        intercept = inverse.sum(axis=0) @ Y[rows] / inverse.sum()
        process = GaussianProcessRegressor(other, alpha=noise, optimizer=None)
        process.fit(X[rows], Y[rows] - intercept)
        mean, deviation = process.predict(query[None], return_std=True)
        assert_allclose(found.mean[n], intercept + mean[0], atol=1e-8)
        # The uncertainty of the intercept is added.
        rest = 1.0 - inverse.sum(axis=0) @ other(X[rows], query[None])[:, 0]
        variance = deviation[0, 0] ** 2 + rest**2 / inverse.sum()
        assert_allclose(found.variance[n], variance, atol=1e-8)


def test_all_rows_as_neighbors_are_the_whole_process():
    found = condition(Matern(1.5), gathered(k=len(X)), ALPHA)
    for n, query in enumerate(QUERIES):
        mean, variance = exact(Matern(1.5), np.arange(len(X)), query)
        assert_allclose(found.mean[n], mean, atol=1e-8)
        assert_allclose(found.variance[n], variance, atol=1e-8)


def test_leaving_out_equals_removing_the_row():
    which = np.arange(0, len(X), 7)
    nearest = NearestRows(X).to_own(which, K)
    hoods = Neighborhoods.of(X[which], X, Y, WEIGHTS, nearest)
    found = condition(Matern(2.5), hoods, ALPHA)
    for n, row in enumerate(which):
        others = np.delete(np.arange(len(X)), row)
        near = NearestRows(X[others]).to(X[row][None], K)
        left = Neighborhoods.of(X[row][None], X[others], Y[others], WEIGHTS[others], near)
        refitted = condition(Matern(2.5), left, ALPHA)
        assert_allclose(found.mean[n], refitted.mean[0], atol=1e-12)
        assert_allclose(found.variance[n], refitted.variance[0], atol=1e-12)


def test_conditionals_on_all_earlier_rows_multiply_to_the_whole_likelihood():
    # The likelihood of the differences from the first target does not depend on the intercept.
    n_rows, signal = 25, np.array([1.7, 0.6])
    total = 0.0
    for row in range(1, n_rows):
        earlier = np.arange(row)[None]
        hoods = Neighborhoods.of(X[row][None], X, Y, WEIGHTS, earlier)
        own = slice(row, row + 1)
        total += log_likelihood(Gaussian(), hoods, Y[own], 1 / WEIGHTS[own], ALPHA, signal).value
    gram = Gaussian().value_at(cdist(X[:n_rows], X[:n_rows], "sqeuclidean"))
    gram += np.diag(ALPHA / WEIGHTS[:n_rows])
    contrasts = np.hstack([-np.ones((n_rows - 1, 1)), np.eye(n_rows - 1)])
    covariance = contrasts @ gram @ contrasts.T
    expected = 0.0
    for output, scale in enumerate(signal):
        differences = contrasts @ Y[:n_rows, output]
        square = differences @ np.linalg.solve(scale * covariance, differences)
        logarithm = np.linalg.slogdet(2 * np.pi * scale * covariance)[1]
        expected -= 0.5 * (square + logarithm)
    assert_allclose(total, expected, atol=1e-8)


@pytest.mark.parametrize("earlier", [False, True], ids=["leave-one-out", "vecchia"])
@pytest.mark.parametrize("name", KERNELS)
def test_gradients_equal_finite_differences(name, earlier):
    kernel, which = KERNELS[name][0], np.arange(40, 60)
    search = NearestRows(X[:40] if earlier else X)
    nearest = search.to(X[which], K) if earlier else search.to_own(which, K)
    hoods = Neighborhoods.of(X[which], X, Y, WEIGHTS, nearest)

    def at(parameters):
        factors, alpha, signal = np.split(np.exp(parameters), [3, 4])
        return log_likelihood(
            kernel,
            hoods.scaled(factors),
            Y[which],
            1 / WEIGHTS[which],
            alpha[0],
            signal,
            scatter=np.array([0.7, 0.2]),
            n_spare=8.0,
        )

    middle, step = np.log([0.7, 1.1, 1.6, 0.05, 1.5, 0.8]), 1e-5
    found = at(middle)
    gradient = np.concatenate([found.by_factors, [found.by_alpha], found.by_signal])
    differences = [
        (at(middle + move).value - at(middle - move).value) / (2 * step)
        for move in step * np.eye(len(middle))
    ]
    assert_allclose(gradient, differences, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("unit", [3.0, 0.1], ids=["above the prior", "below"])
def test_gradients_with_a_prior_of_the_signal_equal_finite_differences(unit):
    which = np.arange(40, 60)
    hoods = Neighborhoods.of(X[which], X, unit * Y, WEIGHTS, NearestRows(X).to_own(which, K))

    def at(parameters, prior=7.0):
        factors, alpha = np.split(np.exp(parameters), [3])
        return log_likelihood(
            Matern(1.5),
            hoods.scaled(factors),
            unit * Y[which],
            1 / WEIGHTS[which],
            alpha[0],
            scatter=np.array([0.7, 0.2]),
            n_spare=8.0,
            prior=prior,
        )

    middle, step = np.log([0.7, 1.1, 1.6, 0.05]), 1e-5
    found, without = at(middle), at(middle, 0.0)
    excess = np.maximum(np.log(found.signal), 0.0)
    assert_allclose(found.value, without.value - 3.5 * np.sum(excess**2))
    assert (excess > 0).any() == (unit > 1)
    differences = [
        (at(middle + move).value - at(middle - move).value) / (2 * step)
        for move in step * np.eye(len(middle))
    ]
    assert_allclose(np.append(found.by_factors, found.by_alpha), differences, rtol=1e-6, atol=1e-6)


def test_the_default_signal_is_the_most_likely_one():
    which = np.arange(30)
    hoods = Neighborhoods.of(X[which], X, Y, WEIGHTS, NearestRows(X).to_own(which, K))
    best = log_likelihood(Gaussian(), hoods, Y[which], 1 / WEIGHTS[which], ALPHA)
    assert_allclose(best.by_signal, 0.0, atol=1e-10)
    for factor in (0.9, 1.1):
        other = log_likelihood(
            Gaussian(), hoods, Y[which], 1 / WEIGHTS[which], ALPHA, best.signal * factor
        )
        assert other.value < best.value


def test_the_likelihood_of_copies_is_that_of_all_their_targets():
    """The mean of three targets and their scatter are as likely as the three targets."""
    targets = np.array([0.3, -0.4, 1.1])
    seen = np.delete(np.arange(30), 7)
    hoods = Neighborhoods.of(X[[7]], X, Y[:, :1], WEIGHTS, seen[None])
    signal = 0.8
    scatter = np.array([np.sum((targets - targets.mean()) ** 2)])

    def by_mean(alpha):
        return log_likelihood(
            Gaussian(), hoods, np.array([[targets.mean()]]), np.array([1 / 3]), alpha,
            np.array([signal]), scatter=scatter, n_spare=2.0,
        ).value  # fmt: skip

    def by_targets(alpha):
        latent = condition(Gaussian(), hoods, alpha)
        covariance = signal * (latent.variance[0] + alpha * np.eye(3))
        return multivariate_normal(np.full(3, latent.mean[0, 0]), covariance).logpdf(targets)

    # They differ by the density of the mean relative to that of the sum, a constant.
    assert_allclose(by_mean(0.2) - by_mean(0.01), by_targets(0.2) - by_targets(0.01), rtol=1e-9)
    assert_allclose(by_targets(0.2) - by_mean(0.2), -0.5 * np.log(3), rtol=1e-9)


def test_predictions_do_not_depend_on_batches():
    many = np.random.default_rng(1).standard_normal((9000, 3))
    hoods = gathered(many, k=20)
    assert len(list(hoods.slices())) > 1
    whole = condition(Matern(1.5), hoods, ALPHA)
    part = condition(Matern(1.5), hoods.part(slice(17, 40)), ALPHA)
    assert_array_equal(whole.mean[17:40], part.mean)
    assert_array_equal(whole.variance[17:40], part.variance)


def test_far_queries_return_to_the_mean_and_the_prior_variance():
    hoods = gathered(np.full((1, 3), 1e4))
    found = condition(Gaussian(), hoods, ALPHA)
    ones, gram = (
        np.ones(K),
        Gaussian().value_at(cdist(hoods.offsets[0], hoods.offsets[0], "sqeuclidean")),
    )
    inverse = np.linalg.inv(gram + ALPHA * np.diag(hoods.noise[0]))
    assert_allclose(found.mean[0], ones @ inverse @ hoods.targets[0] / inverse.sum())
    assert_allclose(found.variance[0], 1.0 + 1.0 / inverse.sum())


def test_very_far_queries_keep_the_differences_between_rows():
    hoods = gathered(np.array([[1e9, 0.0, 0.0], [1e14, 0.0, 0.0]]))
    found = condition(Matern(1.5), hoods, ALPHA)
    for n, offsets in enumerate(hoods.offsets):
        gram = Matern(1.5).value_at(cdist(offsets, offsets, "sqeuclidean"))
        inverse = np.linalg.inv(gram + ALPHA * np.diag(hoods.noise[n]))
        expected = inverse.sum(axis=0) @ hoods.targets[n] / inverse.sum()
        assert_allclose(found.mean[n], expected, rtol=1e-10)


def test_singular_matrices_get_the_smallest_jitter():
    regular, singular = np.eye(3), np.ones((3, 3))
    lower, jitter = cholesky(np.stack([regular, singular]))
    assert jitter[0] == 0.0
    assert 0.0 < jitter[1] <= 1e-12
    assert_allclose(lower @ lower.transpose(0, 2, 1), np.stack([regular, singular]), atol=1e-11)


def test_a_matrix_that_no_jitter_saves_is_an_error():
    with pytest.raises(ValueError, match="positive definite"):
        cholesky(-np.eye(3)[None])


def test_substitution_solves_triangular_systems():
    lower = np.tril(rng.standard_normal((4, 6, 6))) + 4 * np.eye(6)
    right = rng.standard_normal((4, 6, 2))
    assert_allclose(lower @ divided(lower, right), right, atol=1e-12)
    found = divided_by_transpose(lower, right)
    assert_allclose(lower.transpose(0, 2, 1) @ found, right, atol=1e-12)


class TestDistinctRows:
    def test_copies_are_equivalent_to_weights(self):
        copies = np.repeat(np.arange(len(X)), 1 + np.arange(len(X)) % 3)
        shuffled = rng.permutation(copies)
        ones = np.ones(len(copies))
        found = DistinctRows.of(X[shuffled], Y[shuffled], ones)
        weighted = DistinctRows.of(X, Y, np.bincount(copies).astype(float))
        assert_array_equal(found.X, weighted.X)
        assert_array_equal(found.Y, weighted.Y)
        assert_array_equal(found.weights, weighted.weights)
        assert_array_equal(found.X[found.of_given], X[shuffled])

    def test_targets_of_copies_are_averaged(self):
        found = DistinctRows.of(
            np.zeros((3, 1)), np.array([[1.0], [2.0], [6.0]]), np.array([1.0, 1.0, 2.0])
        )
        assert_allclose(found.Y, [[3.75]])
        assert_array_equal(found.weights, [4.0])
        assert_allclose(found.scatter, [[2.75**2 + 1.75**2 + 2 * 2.25**2]])
        assert_array_equal(found.n_spare, [2.0])

    def test_equal_cases_have_no_scatter(self):
        copies = np.repeat([0, 1, 2], [3, 1, 2])
        found = DistinctRows.of(X[copies], Y[copies] / 3, np.ones(6))
        assert_array_equal(found.scatter, 0.0)
        assert_array_equal(found.n_spare, 0.0)

    def test_an_outlier_does_not_merge_other_rows(self):
        column = np.append(np.linspace(0.0, 1.0, 20_000), 1e12)[:, None]
        found = DistinctRows.of(column, column, np.ones(len(column)))
        assert found.size == len(column)


def points_and_queries(kind):
    random = np.random.default_rng(4)
    normal, queries = random.standard_normal((700, 4)), random.standard_normal((300, 4))
    return {
        "normal": (normal, queries),
        "many ties": (np.round(normal), np.round(queries)),
        "equal": (np.ones((90, 4)), queries),
        "far from the origin": (1e7 + 1e-3 * normal, 1e7 + 1e-3 * queries),
        "an outlier": (np.vstack([normal, np.full((1, 4), 1e9)]), queries),
        "far queries": (normal, np.vstack([queries, np.full((2, 4), -1e100), 1e9 * queries[:3]])),
        "few": (normal[:20], queries),
    }[kind]


class TestScan:
    @pytest.mark.parametrize(
        "kind",
        ["normal", "many ties", "equal", "far from the origin", "an outlier", "far queries", "few"],
    )
    def test_equals_a_sort_by_distance_and_index(self, kind, monkeypatch):
        monkeypatch.setattr("quadfeat.neighbors.scan.POINTS_AT_ONCE", 256)
        points, queries = points_and_queries(kind)
        found = Scan(points).query(queries, 15, n_threads=1)
        differences = points[None] - queries[:, None]
        squares = np.einsum("qnd,qnd->qn", differences, differences)
        assert_array_equal(found, np.argsort(squares, axis=1, kind="stable")[:, :15])

    def test_threads_and_batches_change_nothing(self, monkeypatch):
        points, queries = points_and_queries("many ties")
        scan = Scan(points)
        whole = scan.query(queries, 9, n_threads=1)
        for part in (slice(0, 1), slice(7, 40), slice(299, 300)):
            assert_array_equal(scan.query(queries[part], 9, n_threads=1), whole[part])
        monkeypatch.setattr("quadfeat.neighbors.scan.QUERIES_AT_ONCE", 7)
        assert_array_equal(scan.query(queries, 9, n_threads=3), whole)

    def test_finds_the_same_as_a_tree(self):
        points, queries = points_and_queries("normal")
        expected = Tree(points).query(queries, 15, n_threads=2)
        assert_array_equal(Scan(points).query(queries, 15, n_threads=1), expected)


class TestIndex:
    def test_depends_on_how_much_a_tree_visits(self):
        random = np.random.default_rng(0)
        few, many = random.standard_normal((5000, 2)), random.standard_normal((5000, 40))
        assert isinstance(index_for(few), Tree)
        assert isinstance(index_for(many), Scan)
        # Only two of the columns matter.
        assert isinstance(index_for(many * np.repeat([1.0, 1e-3], [2, 38])), Tree)
        assert visited_points(few, 8) < 500 < 4500 < visited_points(many, 8)

    @pytest.mark.parametrize("n_rows", [1, 2, 17, 40])
    def test_few_points(self, n_rows):
        points = X[:n_rows]
        assert 0.0 < visited_points(points, 32) <= n_rows
        assert index_for(points).query(QUERIES, 1, n_threads=1).shape == (len(QUERIES), 1)

    def test_warns_if_an_exact_search_is_slow(self, monkeypatch):
        monkeypatch.setattr("quadfeat.neighbors.search.SLOW", 1.0)
        monkeypatch.setattr("quadfeat.neighbors.clusters.is_available", lambda: False)
        with pytest.warns(UserWarning, match=r"pip install \"quadfeat\[local\]\""):
            index = index_for(X, "auto")
        assert index.recall == 1.0


@pytest.fixture(scope="module")
def points():
    if not is_available():
        pytest.skip("faiss is not installed")
    return np.random.default_rng(0).standard_normal((6000, 8))


class TestClusters:
    def test_find_most_neighbors(self, points, monkeypatch):
        queries = np.random.default_rng(1).standard_normal((200, 8))
        index = Clusters(points, 10)
        assert 0.9 < index.recall <= 1.0
        found, exact = index.query(queries, 10, n_threads=1), Scan(points).query(queries, 10, 1)
        shares = [np.isin(*pair).mean() for pair in zip(found, exact, strict=True)]
        assert np.mean(shares) > 0.9
        distances = np.linalg.norm(points[found] - queries[:, None], axis=2)
        assert (np.diff(distances, axis=1) >= 0).all()
        again = Clusters(points, 10)
        assert_array_equal(again.query(queries, 10, n_threads=2), found)
        monkeypatch.setattr("quadfeat.neighbors.search.SLOW", 1.0)
        assert isinstance(index_for(points, "auto"), Clusters)
        assert isinstance(index_for(points, "exact"), Scan)

    def test_more_neighbors_than_clusters_hold(self, points):
        found = Clusters(points[:300], 10).query(points[:5], 290, n_threads=1)
        assert_array_equal(found, Scan(points[:300]).query(points[:5], 290, n_threads=1))

    def test_equal_points(self, points):
        assert Clusters(np.ones((200, 3)), 10).query(np.ones((4, 3)), 12, 1).shape == (4, 12)


class TestNearestRows:
    def test_equals_a_sort_by_distance(self):
        found = NearestRows(X).to(QUERIES, 5)
        expected = np.argsort(cdist(QUERIES, X), axis=1)[:, :5]
        assert_array_equal(found, expected)

    def test_leaves_out_the_row_itself(self):
        found = NearestRows(X).to_own(np.arange(len(X)), 5)
        distances = cdist(X, X) + np.diag(np.full(len(X), np.inf))
        assert_array_equal(found, np.argsort(distances, axis=1)[:, :5])

    def test_rows_at_the_same_place(self):
        found = NearestRows(np.zeros((10, 2))).to_own(np.arange(10), 4)
        assert found.shape == (10, 4)
        assert (found != np.arange(10)[:, None]).all()

    def test_more_neighbors_than_rows(self):
        assert NearestRows(X[:5]).to(QUERIES, 9).shape == (len(QUERIES), 5)
        assert NearestRows(X[:5]).to_own(np.arange(5), 9).shape == (5, 4)

    def test_threads_change_nothing(self):
        assert_array_equal(NearestRows(X, 4).to(QUERIES, 9), NearestRows(X).to(QUERIES, 9))
