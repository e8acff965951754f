"""Test the search of ``kernel="auto"`` on small tables with a known answer."""

import warnings

import dask
import dask.array as da
import numpy as np
import pytest
from sklearn.metrics import log_loss

from quadfeat import QuadratureRidge, QuadratureRidgeClassifier
from quadfeat.kernels import Gaussian, Matern, Metric
from quadfeat.learning import search
from quadfeat.learning.candidates import FAMILIES
from quadfeat.learning.clock import Clock
from quadfeat.learning.evidence import Evidence
from quadfeat.learning.race import Race
from quadfeat.models.finals import Final

FACTORS = np.array([1e-6, 1e6, 1.0, 1e3, 1e-3])
DIRECTION = np.array([1.0, 1.0, 1.0, -1.0, 1.0]) / np.sqrt(5.0)


def ridge(*arguments, **options):
    return QuadratureRidge(*arguments, **{"n_components": 64, "random_state": 0} | options)


def classifier(**options):
    return QuadratureRidgeClassifier(**{"n_components": 64, "random_state": 0} | options)


def smooth(n_rows=400, seed=0):
    """Return rows of five columns, two of which matter, and targets with noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n_rows, 5))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.standard_normal(n_rows)


def rotated(n_rows=600, seed=0):
    """Return rows, and targets that depend on one direction that is not a column."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n_rows, 5))
    return X, np.sin(3.0 * X @ DIRECTION) + 0.05 * rng.standard_normal(n_rows)


def default_of(model):
    return next(one for one in model.candidates_ if one.name.startswith("default"))


@pytest.fixture(scope="module")
def fitted():
    return ridge().fit(*smooth())


class TestChoice:
    def test_scores_on_other_rows(self, fitted):
        X, y = smooth(seed=1)
        default = ridge("gaussian").fit(*smooth())
        assert fitted.score(X, y) > 0.97
        assert fitted.score(X, y) > default.score(X, y)
        # The validated score holds for other rows.
        assert 1.0 - fitted.candidates_[0].loss == pytest.approx(fitted.score(X, y), abs=0.01)

    def test_candidates(self, fitted):
        best, *others = fitted.candidates_
        # The model draws its map with another rule than the search.
        assert best.loss <= 1.1 * min(one.loss for one in fitted.candidates_)
        np.testing.assert_allclose(best.kernel.metric_for(5), fitted.metric_)
        assert default_of(fitted).loss > best.loss
        assert len(others) > 4
        assert fitted.alpha_ == pytest.approx(best.alpha)
        # Half of the rows judge the kernels that were learned from the other half.
        assert {one.n_rows for one in fitted.candidates_} == {200}
        assert best.n_columns == 64

    def test_each_kernel_is_listed_once(self, fitted):
        names = [one.name for one in fitted.candidates_[1:]]  # the chosen one is listed again
        assert len(set(names)) == len(names)

    def test_why(self, fitted):
        best = fitted.candidates_[0]
        assert best.name in fitted.why_
        assert f"R2 of {1.0 - best.loss:.4f}" in fitted.why_
        assert "The default kernel has an R2 of" in fitted.why_
        assert "kernels were tried" in fitted.why_

    def test_irrelevant_columns_have_long_lengthscales(self, fitted):
        weights = np.diag(fitted.metric_)
        assert weights[2:].max() < 0.02 * weights[:2].min()

    def test_the_same_seed_gives_the_same_model(self, fitted):
        X, y = smooth()
        again = ridge().fit(X, y)
        np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
        assert [one.name for one in again.candidates_] == [one.name for one in fitted.candidates_]

    def test_order_of_rows(self, fitted):
        X, y = smooth()
        order = np.random.default_rng(0).permutation(len(X))
        other = ridge().fit(X[order], y[order])
        assert other.candidates_[0].name == fitted.candidates_[0].name
        np.testing.assert_allclose(other.predict(X), fitted.predict(X), atol=1e-3)

    def test_units_of_columns_do_not_matter(self, fitted):
        X, y = smooth()
        other = ridge().fit(X * FACTORS, y)
        assert other.candidates_[0].name == fitted.candidates_[0].name
        np.testing.assert_allclose(other.predict(X * FACTORS), fitted.predict(X), atol=1e-3)

    def test_shifts_do_not_matter(self, fitted):
        X, y = smooth()
        shift = np.array([1e3, -50.0, 0.0, 7.0, 1e4])
        other = ridge().fit(X + shift, y)
        np.testing.assert_allclose(other.predict(X + shift), fitted.predict(X), atol=0.02)

    def test_units_of_targets_do_not_matter(self, fitted):
        X, y = smooth()
        other = ridge().fit(X, 1e4 * y - 3e5)
        assert other.candidates_[0].name == fitted.candidates_[0].name
        np.testing.assert_allclose((other.predict(X) + 3e5) / 1e4, fitted.predict(X), atol=2e-3)

    def test_weights_count_as_copies(self):
        X, y = smooth(300)
        weights = np.ones(300)
        weights[::3] = 2.0
        weighted = ridge().fit(X, y, sample_weight=weights)
        counts = weights.astype(int)
        copied = ridge().fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
        others, targets = smooth(seed=1)
        assert copied.score(others, targets) == pytest.approx(
            weighted.score(others, targets), abs=0.02
        )

    def test_an_outlier_hardly_changes_the_score(self, fitted):
        X, y = smooth()
        X[7, 0] += 12.0 * X[:, 0].std()
        other = ridge().fit(X, y)
        rows, targets = smooth(seed=1)
        assert other.score(rows, targets) == pytest.approx(fitted.score(rows, targets), abs=0.01)

    def test_a_rotated_target_has_a_full_metric(self):
        model = ridge(n_components=128).fit(*rotated())
        assert isinstance(model.kernel_, Metric)
        assert "full metric" in model.why_
        values, vectors = np.linalg.eigh(model.metric_)
        assert abs(vectors[:, -1] @ DIRECTION) > 0.98
        assert values[-1] > 10.0 * values[-2]
        assert model.score(*rotated(seed=1)) > 0.95
        assert default_of(model).loss > 0.5

    def test_several_outputs(self):
        X, y = smooth()
        model = ridge().fit(X, np.column_stack([y, X[:, 4] * 100.0]))
        others, targets = smooth(seed=1)
        assert model.score(others, np.column_stack([targets, others[:, 4] * 100.0])) > 0.95
        weights = np.diag(model.metric_)
        assert weights[4] > 10.0 * weights[2:4].max()

    def test_integer_categories(self):
        rng = np.random.default_rng(0)
        categories, number = rng.integers(0, 6, (2, 500)), rng.standard_normal((500, 1))
        means = np.array([3.0, -2.0, 1.0, 0.0, -3.0, 2.0])
        X = np.hstack([categories.T, number])
        y = means[categories[0]] + number[:, 0] + 0.1 * rng.standard_normal(500)
        model = ridge(n_components=128).fit(X[:400], y[:400])
        assert model.score(X[400:], y[400:]) > 0.95
        integers = ridge(n_components=128).fit(X[:400, :1].astype(int), y[:400])
        assert integers.score(X[400:, :1].astype(int), means[categories[0, 400:]]) > 0.95

    def test_many_columns_are_learned_by_a_few_steps(self, monkeypatch):
        """With 20 columns and few rows, lengthscales would fit noise."""
        monkeypatch.setattr(search, "FIRST_ROWS", 100)
        monkeypatch.setattr(search, "MORE_ROWS", 400)
        rng = np.random.default_rng(0)
        X = rng.standard_normal((800, 20))
        y = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * rng.standard_normal(800)
        options = {"n_components": 128, "lengthscales": "ard"}
        model = ridge(**options).fit(X, y)
        early = [one for one in model.candidates_ if "after a few steps" in one.name]
        assert {one.name.partition(",")[0] for one in early} == set(FAMILIES)
        assert min(one.loss for one in early) < 0.8 * default_of(model).loss
        few = ridge(**options).fit(X[:250], y[:250])  # no other rows to learn from
        assert not any("after a few steps" in one.name for one in few.candidates_)

    def test_families_that_fail_are_skipped(self, monkeypatch):
        def fails(*arguments, **options):
            raise ValueError("no lengthscales for these rows")

        monkeypatch.setattr(search, "learn", fails)
        X, y = smooth(200)
        model = ridge().fit(X * FACTORS, y)
        assert "one lengthscale was skipped: no lengthscales for these rows" in model.why_
        assert not any("lengthscale" in one.name for one in model.candidates_)
        with pytest.raises(ValueError, match="no lengthscales for these rows"):
            ridge("matern32", lengthscales="ard").fit(X, y)

    def test_heavy_tails_do_not_hide_a_large_gain(self):
        """A few huge targets increase every standard error."""
        rng = np.random.default_rng(0)
        X = rng.uniform(-2.0, 2.0, (900, 6))
        y = np.exp(4.0 * np.sin(3.0 * X[:, 0])) * np.exp(0.1 * rng.standard_normal(900))
        model = ridge(n_components=128).fit(X[:600], y[:600])
        default = ridge("gaussian", n_components=128).fit(X[:600], y[:600])
        assert not model.candidates_[0].name.startswith("default")
        assert model.score(X[600:], y[600:]) > default.score(X[600:], y[600:]) + 0.2


class TestGivenParameters:
    @pytest.mark.parametrize("kernel", [Gaussian(0.3), Matern(1.5, length_scale=[1.0, 2.0, 3.0])])
    def test_a_given_kernel_is_not_changed(self, kernel):
        X, y = smooth(300)
        model = ridge(kernel).fit(X[:, :3], y)
        assert repr(model.kernel_) == repr(kernel)
        assert model.candidates_ == ()
        assert "The kernel was given" in model.why_

    def test_a_given_alpha_is_not_changed(self):
        model = ridge(alpha=0.37).fit(*smooth(300))
        assert model.alpha_ == 0.37
        assert {one.alpha for one in model.candidates_} == {0.37}

    def test_one_lengthscale_for_all_columns(self):
        X, y = smooth(300)
        model = ridge(lengthscales="isotropic").fit(X * FACTORS, y)
        assert not isinstance(model.kernel_, Metric)
        weights = np.diag(model.metric_) * (X * FACTORS).var(axis=0)
        assert weights.max() < 2.0 * weights.min()

    def test_lengthscales_of_a_given_family(self):
        model = ridge(Matern(0.5), lengthscales="ard").fit(*smooth(300))
        assert isinstance(model.kernel_, Matern | Gaussian)
        others = {one.kernel.nu for one in model.candidates_ if isinstance(one.kernel, Matern)}
        assert others == {0.5}


class TestHopelessTables:
    @pytest.mark.parametrize("seed", range(3))
    def test_noise_predicts_the_mean(self, seed):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((400, 5)), 3.0 + rng.standard_normal(400)
        model = ridge().fit(X, y)
        assert "may be unrelated to the targets" in model.why_
        np.testing.assert_allclose(model.predict(rng.standard_normal((50, 5))), y.mean(), atol=0.01)

    def test_equal_targets(self):
        X, _ = smooth(300)
        np.testing.assert_allclose(ridge().fit(X, np.full(300, 7.0)).predict(X), 7.0)

    def test_noisy_classes_have_the_log_loss_of_the_prior(self):
        rng = np.random.default_rng(0)
        X, y = rng.standard_normal((1200, 4)), rng.choice([0, 1, 2], 1200, p=[0.6, 0.3, 0.1])
        model = classifier().fit(X[:600], y[:600])
        shares = np.bincount(y[:600]) / 600
        prior = log_loss(y[600:], np.tile(shares, (600, 1)))
        assert log_loss(y[600:], model.predict_proba(X[600:])) <= prior + 0.005

    @pytest.mark.parametrize("seed", range(4))
    def test_few_noisy_classes_have_the_probabilities_of_the_prior(self, seed):
        rng = np.random.default_rng([seed, 60])
        X, y = rng.standard_normal((4060, 6)), (rng.random(4060) < 0.3).astype(int)
        model = classifier().fit(X[:60], y[:60])
        found = log_loss(y[60:], model.predict_proba(X[60:]))
        share = y[:60].mean()
        assert found <= log_loss(y[60:], np.tile([1 - share, share], (4000, 1))) + 1e-3
        assert "The model predicts the frequencies" in model.why_

    def test_a_constant_model_resumes_from_a_checkpoint(self, tmp_path):
        rng = np.random.default_rng(0)
        X, y = rng.standard_normal((300, 4)), rng.standard_normal(300)
        model = ridge(checkpoint=tmp_path / "fit").fit(X, y)
        assert "The model predicts the mean" in model.why_
        assert model.predict(X).std() < 1e-6

    def test_given_alphas_are_kept(self):
        rng = np.random.default_rng(0)
        model = ridge(alphas=[1.0, 10.0]).fit(rng.standard_normal((300, 4)), rng.random(300))
        assert model.alpha_ in (1.0, 10.0)

    def test_few_rows_use_the_default(self):
        X, y = smooth(30)
        model = ridge().fit(X, y)
        assert "too few to learn lengthscales" in model.why_
        assert [one.name for one in model.candidates_[:1]] == [default_of(model).name]
        weights = np.diag(model.metric_) * X.var(axis=0)
        np.testing.assert_allclose(weights, weights.mean(), rtol=1e-6)

    def test_one_row_is_rejected(self):
        with pytest.raises(ValueError, match="the rows count as 1 sample"):
            ridge().fit(*smooth(1))

    @pytest.mark.parametrize("n_rows", [2, 3, 5])
    def test_very_few_rows(self, n_rows):
        X, y = smooth(n_rows)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = ridge().fit(X, y)
        found = model.predict(X)
        assert (np.abs(found - y.mean()) <= np.abs(y - y.mean()).max() + 1e-6).all()

    def test_fewer_rows_than_columns(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((160, 200))
        y = X[:, :5].sum(axis=1)
        model = ridge().fit(X[:80], y[:80])
        assert model.score(X[80:], y[80:]) > -0.05
        assert default_of(model).loss >= model.candidates_[0].loss

    def test_constant_columns(self, fitted):
        X, y = smooth()
        wide = np.hstack([np.full((400, 1), 1e6), X, np.zeros((400, 2))])
        model = ridge().fit(wide, y)
        others, targets = smooth(seed=1)
        other = np.hstack([np.full((400, 1), 1e6), others, np.zeros((400, 2))])
        assert model.score(other, targets) == pytest.approx(fitted.score(others, targets), abs=0.01)

    def test_all_columns_constant(self):
        y = np.arange(100.0)
        model = ridge().fit(np.full((100, 3), 5.0), y)
        np.testing.assert_allclose(model.predict(np.full((4, 3), 5.0)), y.mean(), rtol=1e-6)

    def test_one_column(self):
        rng = np.random.default_rng(0)
        X = rng.uniform(0.0, 1e5, (500, 1))
        y = np.sin(X[:, 0] / 5e3) + 0.1 * rng.standard_normal(500)
        model = ridge().fit(X[:400], y[:400])
        assert model.score(X[400:], y[400:]) > 0.95
        assert model.metric_.shape == (1, 1)

    def test_many_columns_skip_lengthscales(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((300, 600))
        model = ridge().fit(X, X[:, 0])
        assert "X has 600 columns, more than the limit of 512" in model.why_
        assert not any("for each column" in one.name for one in model.candidates_)

    def test_equal_rows(self):
        X, y = smooth(50)
        model = ridge().fit(np.tile(X, (8, 1)), np.tile(y, 8))
        assert np.isfinite(model.predict(X)).all()


class TestStopping:
    @pytest.mark.parametrize("limit", [1e-9, 0.3])
    def test_time_limit(self, limit):
        X, y = smooth(800)
        model = ridge(time_limit=limit).fit(X, y)
        assert f"search ended after its {limit:g} seconds" in model.why_
        assert default_of(model).loss >= model.candidates_[0].loss
        assert model.score(*smooth(seed=1)) > 0.5
        assert len(model.candidates_) < 20

    @pytest.mark.parametrize("limit", [10, 30])
    def test_no_step_of_a_search_is_long(self, limit, monkeypatch):
        # A clock that ticks at each kernel that is tried, and at each evaluation of the evidence.
        now = [0.0]

        def ticking(kind, name, seconds):
            before = getattr(kind, name)

            def counted(*arguments):
                now[0] += seconds
                return before(*arguments)

            monkeypatch.setattr(kind, name, counted)

        ticking(Race, "enter", 1.0)
        ticking(Final, "_validated", 1.0)
        ticking(Evidence, "loss_and_gradient", 0.2)
        monkeypatch.setattr(Clock, "seconds", property(lambda self: now[0]))
        X, y = rotated()
        ridge(time_limit=limit).fit(X, y)
        assert limit < now[0] <= 1.2 * limit + 2.0  # the best kernel is fitted to all rows

    @pytest.mark.parametrize("steps", [2, 6])
    def test_an_interrupt_keeps_the_best(self, monkeypatch, steps):
        X, y = smooth()
        show, shown = Clock.show, []

        def interrupted(self, text):
            shown.append(text)
            if len(shown) == steps:
                raise KeyboardInterrupt
            show(self, text)

        monkeypatch.setattr(Clock, "show", interrupted)
        model = ridge().fit(X, y)
        assert "The search was interrupted after" in model.why_
        assert default_of(model).loss >= model.candidates_[0].loss
        assert model.score(*smooth(seed=1)) > 0.5
        assert len(model.candidates_) <= steps + 2

    @pytest.mark.parametrize(("first", "second"), [(2, "validating"), (6, "fit")])
    def test_a_second_interrupt_aborts(self, monkeypatch, capsys, first, second):
        X, y = smooth()
        shown = []

        def show(self, text):
            shown.append(text)
            if len(shown) == first or (len(shown) > first and text.startswith(second)):
                raise KeyboardInterrupt

        def solve(*arguments):
            raise KeyboardInterrupt

        monkeypatch.setattr(Clock, "show", show)
        if second == "fit":
            monkeypatch.setattr(Final, "_validated", solve)
        with pytest.raises(KeyboardInterrupt):
            ridge().fit(X, y)
        message = "The best kernel so far is fitted now. Press Ctrl-C again to abort the fit."
        assert capsys.readouterr().err.count(message) == 1

    def test_an_interrupt_before_anything_is_tried(self, monkeypatch):
        def interrupted(self, text):
            raise KeyboardInterrupt

        monkeypatch.setattr(Clock, "show", interrupted)
        model = ridge()
        with pytest.raises(KeyboardInterrupt):
            model.fit(*smooth())
        assert not hasattr(model, "features_")

    def test_progress(self, capsys):
        model = ridge(verbose=True, time_limit=1e-9).fit(*smooth())
        before, _, after = capsys.readouterr().err.partition("on all rows")
        assert "kernel search: " in before
        assert "fit: [########################] 100%" in after
        assert " by leave-one-out on " in model.why_
        assert " features and alpha=" in model.why_
        assert "use test rows to estimate the error for new data" in model.why_
        assert " loss" not in model.why_


class TestSources:
    def test_partial_fit_learns_the_kernel_from_the_first_batch(self):
        X, y = smooth(600)
        model = ridge().partial_fit(X[:400], y[:400])
        metric, why = model.metric_.copy(), model.why_
        assert np.diag(metric)[2:].max() < 0.1 * np.diag(metric)[:2].min()
        model.partial_fit(X[400:], y[400:])
        np.testing.assert_array_equal(model.metric_, metric)
        assert model.why_ == why
        assert model.score(*smooth(seed=1)) > 0.95

    def test_the_first_batch_may_be_one_row(self):
        X, y = smooth()
        model = ridge().partial_fit(X[:1], y[:1])
        assert "1 row is too few" in model.why_
        model.partial_fit(X[1:], y[1:])
        assert model.score(X, y) > 0.5

    def test_a_generator_continues_after_the_map_is_drawn(self):
        X, y = smooth(100)
        generator = np.random.default_rng(0)
        one, other = (ridge(random_state=generator).partial_fit(X, y) for _ in range(2))
        assert one.map_.fingerprint() != other.map_.fingerprint()

    def test_chunks_of_a_table_do_not_matter(self):
        """Short blocks are multiplied in float64. This must not select another minimum."""
        rng = np.random.default_rng(0)
        X = rng.standard_normal((600, 5))
        X[:, 1] = np.exp(X[:, 1])
        y = np.sin(2 * X[:, 0]) + np.log(X[:, 1]) + 0.3 * rng.standard_normal(600)
        model = ridge().fit(X, y)
        with dask.config.set(scheduler="synchronous"):
            chunks = da.from_array(X, chunks=(300, 5)), da.from_array(y, chunks=300)
            other = ridge().fit(*chunks)
        assert other.alpha_ == model.alpha_
        np.testing.assert_allclose(other.predict(X), model.predict(X), atol=0.02)

    def test_streams(self):
        X, y = smooth(600)
        model = ridge().fit([(X[:400], y[:400]), (X[400:], y[400:])])
        alone = ridge().partial_fit(X[:400], y[:400])
        np.testing.assert_allclose(model.metric_, alone.metric_)
        assert model.score(*smooth(seed=1)) > 0.95

    def test_dask(self, fitted):
        X, y = smooth()
        with dask.config.set(scheduler="synchronous"):
            A, b = da.from_array(X, chunks=((150, 0, 250), (2, 3))), da.from_array(y, chunks=150)
            model = ridge().fit(A, b.rechunk(((150, 0, 250),)))
        assert model.candidates_[0].name == fitted.candidates_[0].name
        np.testing.assert_allclose(model.metric_, fitted.metric_, rtol=1e-6)
        np.testing.assert_allclose(model.predict(X), fitted.predict(X), atol=1e-3)

    def test_conjugate_gradients(self):
        X, y = smooth()
        model = ridge(solver="cg").fit(X, y)
        assert model.score(*smooth(seed=1)) > 0.95


class TestClassification:
    @staticmethod
    def table(n_rows=500, seed=0):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-2.0, 2.0, (n_rows, 5))
        p = TestClassification.probability(X)
        return X, (rng.random(n_rows) < p).astype(int)

    @staticmethod
    def probability(X):
        return 1.0 / (1.0 + np.exp(-4.0 * np.sin(2.0 * X[:, 0]) * X[:, 1]))

    def test_score_and_log_loss(self):
        model = classifier(n_components=128).fit(*self.table())
        default = classifier(kernel="gaussian", n_components=128).fit(*self.table())
        X, y = self.table(2000, seed=1)
        found = log_loss(y, model.predict_proba(X))
        assert found < log_loss(y, default.predict_proba(X))
        p = self.probability(X)
        best = log_loss(y, p)
        assert best < found < best + 0.1
        assert model.score(X, y) > np.mean(y == (p > 0.5)) - 0.05
        # The loss is measured on the judging half of the rows. It agrees with that of new rows up
        # to chance, but is slightly smaller, since the kernel is the best of many.
        judged = model.candidates_[0]
        assert judged.n_rows == 250
        assert judged.loss == pytest.approx(found, abs=4.0 * judged.standard_error)
        assert "a log loss of" in model.why_
        weights = np.diag(model.metric_)
        assert weights[2:].max() < 0.2 * weights[:2].min()

    def test_units_of_columns_do_not_matter(self):
        X, y = self.table()
        here, there = classifier().fit(X, y), classifier().fit(X * FACTORS, y)
        np.testing.assert_allclose(
            there.predict_proba(X * FACTORS), here.predict_proba(X), atol=1e-3
        )

    def test_three_classes_with_names(self):
        X, y = self.table()
        labels = np.array(["left", "right", "far"])[np.where(X[:, 0] > 1.5, 2, y)]
        model = classifier(n_components=128).fit(X, labels)
        assert model.classes_.tolist() == ["far", "left", "right"]
        assert model.score(X, labels) > 0.8


class TestCorners:
    """Test tables on which earlier versions failed."""

    @pytest.mark.parametrize("labels", [False, True], ids=["numbers", "classes"])
    def test_rows_of_categories_are_different_cases(self, labels):
        rng = np.random.default_rng(0)
        X = rng.integers(0, 4, (3000, 3)).astype(float)
        chance = rng.uniform(size=64)[(X @ [16, 4, 1]).astype(int)]
        y = (rng.uniform(size=3000) < chance).astype(int)
        model = (classifier if labels else ridge)(n_components=128).fit(X[:1500], y[:1500])
        if labels:
            best = np.mean(y[1500:] == (chance[1500:] > 0.5))
            assert model.score(X[1500:], y[1500:]) > best - 0.05
        else:
            best = 1 - np.mean((y - chance)[1500:] ** 2) / np.var(y[1500:])
            assert model.score(X[1500:], y[1500:]) > best - 0.1

    def test_units_of_outputs_do_not_matter(self):
        X, y = smooth()
        noise = np.random.default_rng(1).standard_normal(len(y))
        found = [ridge().fit(X, np.column_stack([y, unit * noise])) for unit in (1.0, 1e6)]
        assert found[0].alpha_ == pytest.approx(found[1].alpha_)
        first, second = (model.predict(X)[:, 0] for model in found)
        np.testing.assert_allclose(first, second, atol=1e-3 * y.std())
        assert np.corrcoef(first, y)[0, 1] > 0.9

    @pytest.mark.parametrize("n_rows", [30, 400])
    def test_a_given_family_is_kept(self, n_rows):
        rng = np.random.default_rng(0)
        X, y = rng.standard_normal((n_rows, 3)), rng.standard_normal(n_rows)  # nothing to learn
        model = ridge(kernel="laplacian", lengthscales="ard").fit(X, y)
        assert type(model.kernel_).__name__ == "Laplacian"
