"""Test the estimators on nearest rows."""

import pickle

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as gp
from sklearn.utils.estimator_checks import parametrize_with_checks

from quadfeat import LocalGaussianProcess, kernels, load, save
from quadfeat.learning.candidates import FAMILIES
from quadfeat.learning.clock import Clock
from quadfeat.neighbors.clusters import is_available
from quadfeat.neighbors.goals import NumericGoal

rng = np.random.default_rng(0)
X = rng.uniform(0.0, 10.0, (240, 2))
F = np.sin(2.0 * X[:, 0]) + 0.1 * X[:, 1] + 5.0
Y = F + 0.1 * rng.standard_normal(len(X))
QUERIES = rng.uniform(0.0, 10.0, (60, 2))
TRUTH = np.sin(2.0 * QUERIES[:, 0]) + 0.1 * QUERIES[:, 1] + 5.0
KERNEL = kernels.Matern(2.5, length_scale=[1.5, 6.0])
GIVEN = LocalGaussianProcess(KERNEL, alpha=0.02, n_neighbors=20)


@parametrize_with_checks([LocalGaussianProcess("matern32", n_neighbors=12)])
def test_every_check_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def learned():
    return LocalGaussianProcess().fit(X, Y)


@pytest.fixture(scope="module")
def given():
    return clone(GIVEN).fit(X, Y)


class TestLearning:
    def test_finds_the_function(self, learned):
        assert np.corrcoef(learned.predict(QUERIES), TRUTH)[0, 1] ** 2 > 0.97
        assert 0.05 < np.sqrt(learned.noise_variance_) < 0.15

    def test_tries_all_families_and_several_numbers_of_neighbors(self, learned):
        names = {one.name.rpartition(",")[0] for one in learned.candidates_}
        assert names == set(FAMILIES)
        assert len({one.n_columns for one in learned.candidates_}) > 2
        assert learned.candidates_[0].kernel is not None
        least = min(one.loss for one in learned.candidates_)
        assert learned.candidates_[0].loss <= 1.02 * least
        assert learned.candidates_[0].n_columns == learned.n_neighbors_
        assert "R2" in learned.why_

    def test_units_do_not_matter(self, learned):
        factors = np.array([1e-5, 3e4])
        other = LocalGaussianProcess().fit(X * factors, 1e3 * Y - 7.0)
        expected = 1e3 * learned.predict(QUERIES) - 7.0
        # Rounding errors change where the search stops, by steps of 0.1%.
        assert_allclose(other.predict(QUERIES * factors), expected, atol=5e-3 * 1e3 * Y.std())

    def test_the_order_of_rows_does_not_matter(self, given):
        order = rng.permutation(len(X))
        model = LocalGaussianProcess("gaussian", lengthscales="ard", n_neighbors=16)
        one, other = clone(model).fit(X, Y), clone(model).fit(X[order], Y[order])
        assert_allclose(one.predict(QUERIES), other.predict(QUERIES), rtol=1e-10)

    def test_finds_a_much_narrower_kernel_than_a_sample_shows(self, monkeypatch):
        monkeypatch.setattr("quadfeat.neighbors.learning.START_ROWS", 100)
        column = np.random.default_rng(3).uniform(0.0, 200.0, (1200, 1))
        y = np.sin(3.0 * column[:, 0])
        model = LocalGaussianProcess("gaussian", lengthscales="isotropic", n_neighbors=16)
        model.fit(column[:1000], y[:1000])
        assert model.score(column[1000:], y[1000:]) > 0.9

    def test_one_lengthscale(self):
        model = LocalGaussianProcess("matern32", lengthscales="isotropic", n_neighbors=16)
        scales = np.unique(model.fit(X, Y).kernel_.length_scale)
        assert np.ptp(scales) < 1e-9 * scales[0]
        assert len(model.candidates_) == 1

    def test_given_alpha_and_number_are_kept(self, given):
        assert given.alpha_ == 0.02
        assert given.n_neighbors_ == 20
        assert given.kernel_ is not None
        assert_array_equal(given.kernel_.length_scale, KERNEL.length_scale)

    def test_a_given_kernel_with_learned_noise(self):
        model = LocalGaussianProcess(KERNEL, n_neighbors=20).fit(X, Y)
        assert 0.05 < np.sqrt(model.noise_variance_) < 0.15
        assert_array_equal(model.kernel_.length_scale, KERNEL.length_scale)

    def test_gamma_is_shorthand_for_a_gaussian_kernel(self):
        model = LocalGaussianProcess(gamma=0.5, alpha=0.1, n_neighbors=9).fit(X, Y)
        assert repr(model.kernel_) == "Gaussian(gamma=0.5)"

    def test_a_time_limit_stops_the_search(self):
        model = LocalGaussianProcess(time_limit=1e-9).fit(X, Y)
        assert len(model.candidates_) == 1
        assert np.isfinite(model.predict(QUERIES)).all()

    def test_a_time_limit_ends_the_running_step(self, monkeypatch):
        # A clock that ticks at each cost that a step computes.
        ticks, cost = [], NumericGoal.cost

        def counted(*arguments):
            ticks.append(1)
            return cost(*arguments)

        monkeypatch.setattr(NumericGoal, "cost", counted)
        monkeypatch.setattr(Clock, "seconds", property(lambda self: float(len(ticks))))
        LocalGaussianProcess(time_limit=1e6).fit(X, Y)
        whole = len(ticks)
        ticks.clear()
        model = LocalGaussianProcess(time_limit=3.0).fit(X, Y)
        assert len(ticks) < 10 < whole
        assert np.isfinite(model.predict(QUERIES)).all()


class TestPredictions:
    def test_all_rows_as_neighbors_are_the_whole_process(self):
        model = LocalGaussianProcess(KERNEL, alpha=0.02, n_neighbors=10**6).fit(X, Y)
        inverse = np.linalg.inv(KERNEL(X, X) + 0.02 * np.eye(len(X)))
        intercept = inverse.sum(axis=0) @ Y / inverse.sum()
        other = gp.Matern(length_scale=[1.5, 6.0], nu=2.5)
        process = GaussianProcessRegressor(other, alpha=0.02, optimizer=None)
        process.fit(X, Y - intercept)
        mean, deviation = process.predict(QUERIES, return_std=True)
        found, found_deviation = model.predict(QUERIES, return_std=True)
        assert_allclose(found, intercept + mean, atol=1e-8)
        rest = 1.0 - inverse.sum(axis=0) @ KERNEL(X, QUERIES)
        variance = model.signal_variance_ * (deviation**2 + rest**2 / inverse.sum())
        assert_allclose(found_deviation**2, variance, atol=1e-8)

    def test_left_out_predictions_equal_those_of_a_fit_without_the_row(self, given):
        for row in (0, 17, 200):
            others = np.arange(len(X)) != row
            model = clone(GIVEN).fit(X[others], Y[others])
            assert_allclose(given.loo_predictions_[row], model.predict(X[[row]])[0], atol=1e-10)

    def test_left_out_likelihood(self):
        few, values = X[:60], Y[:60]
        whole = clone(GIVEN).fit(few, values)
        variances = []
        for row in range(len(few)):
            others = np.arange(len(few)) != row
            model = clone(GIVEN).fit(few[others], values[others])
            deviation = model.predict(few[[row]], return_std=True)[1][0]
            variances.append(deviation**2 / model.signal_variance_ * whole.signal_variance_)
        total = np.array(variances) + whole.noise_variance_
        squares = (values - whole.loo_predictions_) ** 2 / total
        expected = -0.5 * np.sum(squares + np.log(2 * np.pi * total))
        assert_allclose(whole.loo_log_likelihood_, expected, rtol=1e-9)
        # The variances are calibrated, with one more row that stands for the next copy of a row.
        latent = np.array(variances) / whole.signal_variance_
        copies = 1.0 / (1.0 / latent + 1.0 / whole.alpha_)
        of_copy = copies.min() * whole.signal_variance_ + whole.noise_variance_
        copy = np.mean((values - whole.loo_predictions_) ** 2) / of_copy
        assert np.isinf(whole._solution.variances.freedom).all()
        assert_allclose(np.append(squares, copy).mean(), 1.0)

    def test_batches_and_threads_change_nothing(self, given):
        whole = given.predict(QUERIES, return_std=True)
        one = [given.predict(query[None], return_std=True) for query in QUERIES]
        assert_array_equal(whole[0], np.concatenate([mean for mean, _ in one]))
        assert_array_equal(whole[1], np.concatenate([deviation for _, deviation in one]))
        threads = clone(GIVEN).set_params(n_jobs=3).fit(X, Y)
        assert_array_equal(threads.predict(QUERIES), whole[0])

    def test_several_outputs_share_the_kernel(self, given):
        model = clone(GIVEN).fit(X, np.stack([Y, 3.0 - 2.0 * Y], axis=1))
        mean, deviation = model.predict(QUERIES, return_std=True)
        expected, expected_deviation = given.predict(QUERIES, return_std=True)
        assert_allclose(mean, np.stack([expected, 3.0 - 2.0 * expected], axis=1))
        assert_allclose(deviation, np.outer(expected_deviation, [1.0, 2.0]).reshape(-1, 2))
        assert model.signal_variance_.shape == (2,)
        assert model.predict_interval(QUERIES)[0].shape == (len(QUERIES), 2)
        assert model.sample_y(QUERIES[:3], 4).shape == (3, 2, 4)

    def test_intervals_cover_new_rows(self, learned):
        new = rng.uniform(0.0, 10.0, (2000, 2))
        y = np.sin(2.0 * new[:, 0]) + 0.1 * new[:, 1] + 5.0 + 0.1 * rng.standard_normal(len(new))
        lower, upper = learned.predict_interval(new, coverage=0.9)
        assert 0.84 < np.mean((lower <= y) & (y <= upper)) < 0.95

    def test_intervals_are_wide_in_a_gap(self):
        kept = np.abs(X[:, 0] - 5.0) > 1.5
        model = clone(GIVEN).fit(X[kept], Y[kept])
        lower, upper = model.predict_interval([[2.0, 5.0], [5.0, 5.0], [500.0, 5.0]])
        widths = upper - lower
        assert widths[1] > 3 * widths[0]
        assert widths[2] > widths[1]
        prior = model.predict([[500.0, 5.0]], return_std=True)[1][0] ** 2
        assert prior >= model.signal_variance_

    def test_intervals_are_wide_where_targets_vary(self):
        """Their width follows the spread of the targets of the neighbors."""
        random = np.random.default_rng(5)
        rows = random.uniform(0.0, 10.0, (1600, 1))
        noise = np.where(rows[:, 0] < 5.0, 0.1, 1.0)
        values = np.sin(rows[:, 0]) + noise * random.standard_normal(len(rows))
        model = LocalGaussianProcess("matern32", n_neighbors=32, lengthscales="ard")
        model.fit(rows[:1000], values[:1000])
        lower, upper = model.predict_interval([[2.0], [8.0]])
        assert 4.0 < (upper - lower)[1] / (upper - lower)[0] < 16.0
        lower, upper = model.predict_interval(rows[1000:])
        inside = (lower <= values[1000:]) & (values[1000:] <= upper)
        for half in (rows[1000:, 0] < 5.0, rows[1000:, 0] >= 5.0):
            assert 0.82 < inside[half].mean() < 0.995

    def test_a_near_copy_that_differs_is_not_impossible(self):
        """All near copies of the training rows agree, but a new one does not."""
        random = np.random.default_rng(7)
        rows = random.standard_normal((500, 6))
        values = random.standard_normal(500)
        near = rows[:50] + 1e-4 * random.standard_normal((50, 6))
        model = LocalGaussianProcess("matern12", n_neighbors=16)
        model.fit(np.vstack([rows, near]), np.append(values, values[:50]))
        mean, deviation = model.predict(rows[50:] + 1e-9, return_std=True)
        assert_allclose(mean, values[50:], atol=0.1)
        deviation = np.sqrt(deviation**2 + model.noise_variance_)
        # The errors of about 50 near copies are at most as large as one error of other rows.
        assert (deviation > 0.02).all()
        assert (deviation < 0.3).all()

    def test_queries_of_any_size(self, given):
        mean, deviation = given.predict([[1e9, 1e9], [1e200, 0.0], [-1e308, 1e308]], True)
        assert (np.abs(mean - Y.mean()) < 3.0).all()
        # The prior variance, and at most as much for the uncertain mean of the neighbors.
        ratios = deviation**2 / given.signal_variance_
        assert ((ratios >= 1.0) & (ratios <= 2.0 + given.alpha_)).all()

    def test_sparse_rows_frames_and_lists(self, given):
        expected = given.predict(QUERIES)
        assert_allclose(given.predict(sparse.csr_matrix(QUERIES)), expected)
        from_sparse = clone(GIVEN).fit(sparse.csr_matrix(X), Y)
        assert_allclose(from_sparse.predict(QUERIES.tolist()), expected)
        frame = pd.DataFrame(X, columns=["a", "b"])
        from_frame = clone(GIVEN).fit(frame, Y)
        assert list(from_frame.feature_names_in_) == ["a", "b"]
        assert_allclose(from_frame.predict(frame[:7]), given.predict(X[:7]))


class TestSamples:
    def test_have_the_mean_and_deviation_of_the_posterior(self, given):
        mean, deviation = given.predict(QUERIES[:6], return_std=True)
        drawn = given.sample_y(QUERIES[:6], 4000, random_state=1)
        assert_allclose(drawn.mean(axis=1), mean, atol=4.5 * deviation.max() / np.sqrt(4000) + 0.02)
        assert_allclose(drawn.std(axis=1), deviation, rtol=0.1)

    def test_have_the_covariance_of_the_exact_process(self):
        few, near = X[:40], np.array([[2.0, 2.0], [2.1, 2.0], [2.4, 2.5]])
        model = LocalGaussianProcess(KERNEL, alpha=0.02, n_neighbors=60).fit(few, Y[:40])
        drawn = model.sample_y(near, 20_000, random_state=1)
        inverse = np.linalg.inv(KERNEL(few, few) + 0.02 * np.eye(40))
        cross = KERNEL(few, near)
        rest = 1.0 - inverse.sum(axis=0) @ cross
        covariance = KERNEL(near, near) - cross.T @ inverse @ cross
        covariance += np.outer(rest, rest) / inverse.sum()
        covariance *= model.signal_variance_
        assert_allclose(np.cov(drawn), covariance, atol=0.05 * covariance.max())

    def test_are_functions(self, given):
        queries = np.repeat(QUERIES[:3], 2, axis=0)
        drawn = given.sample_y(queries, 5)
        assert_array_equal(drawn[::2], drawn[1::2])
        assert_array_equal(given.sample_y(queries, 5), drawn)


class TestRows:
    def test_weights_are_equivalent_to_copies(self):
        weights = 1.0 + np.arange(len(X)) % 3
        copies = np.repeat(np.arange(len(X)), weights.astype(int))
        model = LocalGaussianProcess("matern32", n_neighbors=12)
        weighted = clone(model).fit(X, Y, weights)
        copied = clone(model).fit(X[copies], Y[copies])
        assert_allclose(weighted.predict(QUERIES), copied.predict(QUERIES), rtol=1e-10)

    def test_the_scatter_of_copies_gives_the_noise(self):
        """Nothing else does: the function is so rough that rows say nothing about others."""
        random = np.random.default_rng(3)
        which = np.repeat(np.arange(150), 3)
        rows = random.standard_normal((150, 8))[which]
        values = random.standard_normal(150)[which] + 0.1 * random.standard_normal(450)
        model = LocalGaussianProcess("matern12", lengthscales="isotropic").fit(rows, values)
        assert 0.007 < model.noise_variance_ < 0.014
        mean, deviation = model.predict(rows[::3], return_std=True)
        assert_allclose(mean, values.reshape(150, 3).mean(axis=1), atol=0.1)
        assert 0.04 < deviation.mean() < 0.08  # 0.1 / sqrt(3) is 0.058

    def test_scaled_weights_scale_alpha(self):
        weights = rng.uniform(0.5, 2.0, len(X))
        model = LocalGaussianProcess("matern32", n_neighbors=12)
        one, other = clone(model).fit(X, Y, weights), clone(model).fit(X, Y, 1e-6 * weights)
        assert_allclose(other.alpha_, 1e-6 * one.alpha_)
        for found, expected in zip(
            other.predict_interval(QUERIES), one.predict_interval(QUERIES), strict=True
        ):
            assert_allclose(found, expected)

    def test_rows_of_weight_zero_do_not_count(self, given):
        bad = np.vstack([X, X + 0.01])
        weights = np.repeat([1.0, 0.0], len(X))
        model = clone(GIVEN).fit(bad, np.append(Y, Y + 100.0), weights)
        assert_array_equal(model.predict(QUERIES), given.predict(QUERIES))
        assert len(model.loo_predictions_) == len(X)

    def test_added_rows_equal_rows_of_one_fit(self, given):
        model = clone(GIVEN).partial_fit(X[:100], Y[:100])
        model.predict(QUERIES)
        model.partial_fit(X[100:], Y[100:])
        assert_allclose(model.predict(QUERIES), given.predict(QUERIES), rtol=1e-12)
        assert_allclose(model.signal_variance_, given.signal_variance_, rtol=1e-9)

    def test_a_stream_of_blocks(self, given):
        blocks = [(X[part], Y[part]) for part in (slice(0, 90), slice(90, None))]
        assert_allclose(clone(GIVEN).fit(blocks).predict(QUERIES), given.predict(QUERIES))

    def test_dask(self, given):
        with dask.config.set(scheduler="synchronous"):
            lazy = clone(GIVEN).fit(da.from_array(X, chunks=(70, 2)), da.from_array(Y, chunks=70))
            queries = da.from_array(QUERIES, chunks=(25, 2))
            assert_array_equal(lazy.predict(queries).compute(), given.predict(QUERIES))
            mean, deviation = given.predict(queries, return_std=True)
            expected = given.predict(QUERIES, return_std=True)
            assert_array_equal(mean.compute(), expected[0])
            assert_array_equal(deviation.compute(), expected[1])
            lower, upper = given.predict_interval(queries)
            expected = given.predict_interval(QUERIES)
            assert_array_equal(lower.compute(), expected[0])
            assert_array_equal(upper.compute(), expected[1])
            assert_allclose(
                given.score(queries, da.from_array(TRUTH, chunks=25)), given.score(QUERIES, TRUTH)
            )

    def test_too_many_rows(self, monkeypatch):
        monkeypatch.setattr("quadfeat.models.local_fitting.MOST_ENTRIES", 400)
        with pytest.raises(ValueError, match="at most 400 entries"):
            clone(GIVEN).fit([(X[:150], Y[:150]), (X[150:], Y[150:])])

    def test_saved_and_pickled_models_predict_the_same(self, given, tmp_path):
        given.predict(QUERIES)
        save(given, tmp_path / "model")
        for again in (load(tmp_path / "model"), pickle.loads(pickle.dumps(given))):
            assert_array_equal(again.predict(QUERIES), given.predict(QUERIES))
            assert again.why_ == given.why_
        assert len(pickle.dumps(given)) < 3 * (X.nbytes + 2 * Y.nbytes)


class TestUnusualRows:
    def test_constant_columns(self, given):
        wide = np.column_stack([X, np.full(len(X), 7.0)])
        model = LocalGaussianProcess("matern52", lengthscales="ard", n_neighbors=20).fit(wide, Y)
        queries = np.column_stack([QUERIES, np.full(len(QUERIES), 7.0)])
        assert np.corrcoef(model.predict(queries), TRUTH)[0, 1] ** 2 > 0.95

    def test_one_row(self):
        model = LocalGaussianProcess().fit(X[:1], Y[:1])
        assert_allclose(model.predict(QUERIES), Y[0])
        with pytest.raises(ValueError, match="all rows in X are equal"):
            model.predict(QUERIES, return_std=True)

    def test_equal_rows(self):
        model = LocalGaussianProcess().fit(np.ones((9, 2)), np.arange(9.0))
        assert_allclose(model.predict([[1.0, 1.0], [3.0, 4.0]]), 4.0)

    def test_equal_targets(self):
        model = LocalGaussianProcess().fit(X, np.full(len(X), 1e9 + 0.1))
        mean, deviation = model.predict(QUERIES, return_std=True)
        assert_array_equal(mean, 1e9 + 0.1)
        assert_array_equal(deviation, 0.0)

    def test_a_target_with_a_large_mean_keeps_its_digits(self, given):
        shifted = clone(GIVEN).fit(X, Y + 2.0**30)
        assert_allclose(shifted.predict(QUERIES) - 2.0**30, given.predict(QUERIES), atol=1e-6)

    @pytest.mark.filterwarnings("error")
    @pytest.mark.parametrize("unit", [1e-300, 1e300])
    def test_extreme_units(self, given, unit):
        kernel = kernels.Matern(2.5, length_scale=unit * np.array([1.5, 6.0]))
        model = clone(GIVEN).set_params(kernel=kernel).fit(unit * X, Y)
        assert_allclose(model.predict(unit * QUERIES), given.predict(QUERIES), rtol=1e-9)

    @pytest.mark.filterwarnings("error")
    @pytest.mark.parametrize("unit", [2.0**-700, 2.0**700])
    def test_targets_whose_squares_are_out_of_range(self, unit):
        few, values = X[:120], Y[:120]
        model = LocalGaussianProcess("matern32", lengthscales="ard", n_neighbors=16)
        one, other = clone(model).fit(few, values), clone(model).fit(few, unit * values)
        for found, expected in zip(
            (*other.predict(QUERIES, True), *other.predict_interval(QUERIES)),
            (*one.predict(QUERIES, True), *one.predict_interval(QUERIES)),
            strict=True,
        ):
            assert_array_equal(found, unit * expected)

    def test_rows_on_a_grid(self):
        grid = np.stack(np.meshgrid(np.arange(9.0), np.arange(9.0)), axis=-1).reshape(-1, 2)
        y = np.sin(grid[:, 0])
        model = LocalGaussianProcess("gaussian", alpha=1e-6, n_neighbors=12).fit(grid, y)
        assert_allclose(model.predict(grid), y, atol=1e-2)

    def test_jitter_is_reported(self, given):
        assert given.jitter_ == 0.0
        close = np.linspace(0.0, 1e-6, 30)[:, None]
        model = LocalGaussianProcess(gamma=1.0, alpha=1e-18, n_neighbors=20)
        assert model.fit(close, np.arange(30.0)).jitter_ > 0.0


class TestHeavyTails:
    def test_columns_are_compressed(self):
        """Without compression, the kernel isolates the rows in the tails."""
        random = np.random.default_rng(1)
        logs = 3.0 * random.standard_normal((400, 2))
        rows = np.exp(logs)
        values = np.sin(logs[:, 0]) + 0.1 * random.standard_normal(len(rows))
        model = LocalGaussianProcess().fit(rows[:300], values[:300])
        assert "compressed tails" in model.why_
        assert np.isfinite(model.kernel_.knee).all()
        losses = {one.name.rpartition(",")[0]: one.loss for one in model.candidates_}
        assert losses["Matern 3/2, compressed tails"] < 0.9 * losses["Matern 3/2"]
        assert model.score(rows[300:], values[300:]) > 0.7
        found = {"alpha": model.alpha_, "n_neighbors": model.n_neighbors_}
        again = LocalGaussianProcess(model.kernel_, **found).fit(rows[:300], values[:300])
        assert_array_equal(again.predict(rows[300:]), model.predict(rows[300:]))
        other = pickle.loads(pickle.dumps(model))
        assert_array_equal(other.predict(rows[300:]), model.predict(rows[300:]))

    def test_squared_errors_are_a_goal_if_noise_differs_much(self, monkeypatch):
        monkeypatch.setattr("quadfeat.neighbors.learning.BATCH_ROWS", 200)
        monkeypatch.setattr("quadfeat.neighbors.learning.START_ROWS", 200)
        random = np.random.default_rng(1)
        rows = random.uniform(-1.0, 1.0, (500, 2))
        noise = np.where(rows[:, 1] > 0, 3.0, 1e-3) * random.standard_normal(len(rows))
        values = np.sin(20.0 * rows[:, 0]) * (rows[:, 1] <= 0) + rows[:, 0] + noise
        model = LocalGaussianProcess().fit(rows, values)
        assert any("squared errors" in one.name for one in model.candidates_)


class TestSearch:
    def test_exact_searches_have_a_recall_of_one(self, given):
        assert given.recall_ == 1.0

    def test_many_columns_with_any_threads_and_batches(self):
        """A scan finds the neighbors, not a tree."""
        random = np.random.default_rng(0)
        rows, queries = random.standard_normal((700, 30)), random.standard_normal((300, 30))
        model = LocalGaussianProcess(kernels.Matern(1.5, length_scale=6.0), n_neighbors=20)
        model.set_params(alpha=0.1).fit(rows, rows[:, 0])
        whole = model.predict(queries)
        threads = clone(model).set_params(n_jobs=3).fit(rows, rows[:, 0])
        assert_array_equal(threads.predict(queries), whole)
        assert_array_equal([model.predict(query[None])[0] for query in queries[:20]], whole[:20])

    @pytest.mark.skipif(not is_available(), reason="faiss is not installed")
    def test_approximate_search(self, given):
        model = clone(GIVEN).set_params(search="approximate").fit(X, Y)
        assert 0.9 < model.recall_ <= 1.0
        assert np.corrcoef(model.predict(QUERIES), given.predict(QUERIES))[0, 1] > 0.99
        again = pickle.loads(pickle.dumps(model))
        assert_array_equal(again.predict(QUERIES), model.predict(QUERIES))
        assert again.sample_y(QUERIES[:2]).shape == (2, 1)

    def test_approximate_search_without_faiss(self, monkeypatch):
        monkeypatch.setattr("quadfeat.models.local_fitting.is_available", lambda: False)
        with pytest.raises(ImportError, match="needs faiss"):
            clone(GIVEN).set_params(search="approximate").fit(X, Y)


class TestMetrics:
    """Kernels with a matrix."""

    def test_equal_kernels_of_transformed_rows(self):
        matrix = np.array([[1.0, 0.5], [0.2, -0.3], [0.0, 1.0]])
        kernel = kernels.Metric(kernels.Matern(1.5, length_scale=0.7), matrix)
        model = clone(GIVEN).set_params(kernel=kernel).fit(X, Y)
        inner = clone(GIVEN).set_params(kernel=kernel.kernel).fit(X @ matrix.T, Y)
        assert_allclose(model.predict(QUERIES), inner.predict(QUERIES @ matrix.T), rtol=1e-9)
        one = [model.predict(query[None])[0] for query in QUERIES]
        assert_array_equal(model.predict(QUERIES), one)
        assert model.sample_y(QUERIES[:2], 3).shape == (2, 3)
        learned = LocalGaussianProcess(kernel, n_neighbors=20).fit(X, Y)
        assert 0.02 < np.sqrt(learned.noise_variance_) < 0.2
        assert_array_equal(learned.kernel_.matrix, matrix)

    def test_saved_models_predict_the_same(self, tmp_path):
        kernel = kernels.Metric("gaussian", 0.7 * np.eye(2), center=[5.0, 5.0], knee=[1.0, np.inf])
        model = clone(GIVEN).set_params(kernel=kernel).fit(X, Y)
        save(model, tmp_path / "model")
        assert_array_equal(load(tmp_path / "model").predict(QUERIES), model.predict(QUERIES))

    def test_far_queries(self):
        kernel = kernels.Metric("gaussian", np.eye(2), center=[-5.0, 5.0], knee=[1.0, np.inf])
        model = clone(GIVEN).set_params(kernel=kernel).fit(X, Y)
        assert np.isfinite(model.predict([[1e308, -1e308], [-1e308, 1e308]])).all()
        full = kernels.Metric("gaussian", [[10.0, -10.0]])
        with pytest.raises(ValueError, match="beyond the range of float64"):
            clone(GIVEN).set_params(kernel=full).fit(X, Y).predict([[1e308, 1e308]])

    def test_lengthscales_cannot_be_learned(self):
        kernel = kernels.Metric("gaussian", np.eye(2))
        with pytest.raises(ValueError, match="whose matrix defines distances"):
            LocalGaussianProcess(kernel, lengthscales="ard").fit(X, Y)
        with pytest.raises(ValueError, match="does not depend on Euclidean distances"):
            LocalGaussianProcess(kernels.Metric("laplacian", np.eye(2))).fit(X, Y)
        with pytest.raises(ValueError, match="matrix has 2 columns and X has 3"):
            LocalGaussianProcess(kernel).fit(np.ones((60, 3)), np.arange(60.0))


class TestErrors:
    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"n_neighbors": 0}, "n_neighbors=0 is not valid: pass an integer >= 1"),
            (
                {"n_neighbors": "many"},
                "n_neighbors='many' is not known. Pass a positive integer or",
            ),
            ({"alpha": "0.1"}, "alpha='0.1' is not known. Pass a positive number or 'auto'"),
            ({"alpha": -1.0}, "alpha=-1.0 is not valid"),
            ({"search": "fast"}, "search='fast' is not known"),
            ({"lengthscales": "full"}, "lengthscales='full' is not known"),
            ({"kernel": "laplacian"}, "does not depend on Euclidean distances"),
            ({"kernel": "arccos1"}, "does not depend on Euclidean distances"),
            ({"kernel": "gausian"}, "Did you mean 'gaussian'"),
            ({"time_limit": 0.0}, "time_limit=0.0 is not valid"),
            ({"n_jobs": 0}, "n_jobs=0 is not valid"),
        ],
    )
    def test_parameters(self, parameters, message):
        with pytest.raises(ValueError, match=message):
            LocalGaussianProcess(**parameters).fit(X, Y)

    def test_unknown_parameters(self):
        with pytest.raises(TypeError, match="Did you mean 'n_neighbors'"):
            LocalGaussianProcess(n_neighbor=3)

    def test_missing_values(self, given):
        bad = X.copy()
        bad[3, 1] = np.nan
        with pytest.raises(ValueError, match="Input X contains NaN"):
            clone(GIVEN).fit(bad, Y)
        with pytest.raises(ValueError, match="Input X contains NaN"):
            given.predict(bad)

    def test_messages_name_the_columns(self, given):
        frame = pd.DataFrame(X, columns=["size", "age"])
        missing = frame.assign(age=np.nan)
        model = clone(GIVEN).fit(frame, Y)
        for call in (
            lambda: clone(GIVEN).fit(missing, Y),
            lambda: clone(GIVEN).fit([(missing, Y)]),
            lambda: clone(model).fit(frame, Y).partial_fit(missing, Y),
            lambda: model.predict(missing),
            lambda: model.predict_interval(missing),
            lambda: model.sample_y(missing),
            lambda: model.score(missing, Y),
        ):
            with pytest.raises(
                ValueError, match=r"column 'age' holds missing .* LocalGaussianProc"
            ):
                call()
        with pytest.raises(ValueError, match="column 'size' holds text, such as 'red'"):
            model.predict(frame.astype(object).assign(size="red"))
        with pytest.raises(ValueError, match="column 1 holds missing"):
            given.predict(sparse.csr_matrix(missing.to_numpy()))

    def test_targets_of_another_shape(self, given):
        with pytest.raises(ValueError, match="unlike earlier batches"):
            pickle.loads(pickle.dumps(given)).partial_fit(X, np.stack([Y, Y], axis=1))

    def test_too_high_a_coverage(self):
        model = clone(GIVEN).fit(X[:20], Y[:20])
        with pytest.raises(ValueError, match="needs at least 99 training rows"):
            model.predict_interval(QUERIES, coverage=0.99)

    def test_a_failed_fit_leaves_the_model_unchanged(self, given):
        model = pickle.loads(pickle.dumps(given))
        with pytest.raises(ValueError, match="NaN"):
            model.fit(np.full_like(X, np.nan), Y)
        assert_array_equal(model.predict(QUERIES), given.predict(QUERIES))
