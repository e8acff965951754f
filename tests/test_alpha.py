"""Test the choice of alpha: robust to rows of extreme leverage, for all criteria and sources."""

import pickle
import warnings
from dataclasses import replace

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from quadfeat import QuadratureFeatures, QuadratureRidge, QuadratureRidgeClassifier
from quadfeat.data.blocks import Block
from quadfeat.data.rows import ArrayRows
from quadfeat.kernels import Gaussian
from quadfeat.solvers import Numbers, Penalty, Problem, passes, paths, validated
from quadfeat.solvers.banded import Banded
from quadfeat.solvers.curves import LARGEST_SQUARE, LeftOutCurve
from quadfeat.solvers.dual import decomposed
from quadfeat.solvers.moments import Moments, probe
from quadfeat.solvers.ridge import AlphaPath, RidgeProblem
from quadfeat.solvers.spectral import Spectral

CRITERIA = ["auto", "loo", "gcv", "evidence"]
ALPHAS = np.geomspace(1e-3, 1e3, 13)


def smooth(n_rows, seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n_rows, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + noise * rng.standard_normal(n_rows)


def isolated(n_rows=3000, n_far=12, seed=0):
    """Return rows and targets. A few rows lie far from the others and have different targets."""
    rng = np.random.default_rng(seed)
    X, y = smooth(n_rows, seed, noise=0.02)
    X[:n_far] = rng.uniform(-60, 60, (n_far, 2))
    y[:n_far] = 30 * rng.standard_normal(n_far)
    order = rng.permutation(n_rows)
    return X[order], y[order]


FEATURES = QuadratureFeatures(Gaussian(0.5), n_components=128, random_state=0).fit(smooth(50)[0])


def ridge(alpha="auto", **parameters):
    return QuadratureRidge(features=FEATURES, alpha=alpha, **parameters)


def stream(X, y, size=700):
    for start in range(0, len(X), size):
        yield X[start : start + size], y[start : start + size]


def quietly(model, *data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.fit(*data)


def curve_of(squares, weights=None):
    return LeftOutCurve.of(np.asarray(squares, dtype=float), weights, 1.0)


def large(n_alphas):
    """Return alphas far above 1, since 1 is a special case."""
    return np.geomspace(10.0, 1e6, n_alphas)


class TestCurve:
    def test_allowed_alphas_follow_the_definition(self):
        rng = np.random.default_rng(0)
        for n_alphas in (7, 300):
            squares = rng.chisquare(1, (200, 1)) + np.cumsum(
                0.02 * rng.standard_normal((200, n_alphas)), axis=1
            )
            found = curve_of(squares)
            means = squares.mean(axis=0)
            assert_allclose(found.means, means, rtol=1e-12)
            if n_alphas > 128:
                continue  # products exist for some alphas only
            best = means.argmin()
            near = means <= 1.02 * means[best]
            limited = np.minimum(squares, LARGEST_SQUARE)
            deviation = (limited - limited[:, [best]]).std(axis=0) / np.sqrt(200)
            tied = near & (means - means[best] <= np.maximum(deviation, 0.005 * means[best]))
            lowest = np.flatnonzero(tied).max()
            expected = near & (np.arange(n_alphas) >= lowest)
            assert found.allowed(large(n_alphas)).tolist() == expected.tolist()

    def test_parts_add_up(self):
        squares = np.random.default_rng(0).chisquare(1, (60, 5))
        weights = np.random.default_rng(1).uniform(0, 2, 60)
        whole = curve_of(squares, weights)
        parts = curve_of(squares[:20], weights[:20]).merged(curve_of(squares[20:], weights[20:]))
        for name in ("sums", "linear", "products", "weight", "squared_weight"):
            assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-12)
        scaled = curve_of(squares, 7 * weights)
        assert scaled.allowed(large(5)).tolist() == whole.allowed(large(5)).tolist()

    def test_an_infinite_error_rules_an_alpha_out(self):
        squares = np.ones((30, 3))
        squares[4, 0] = np.inf
        assert curve_of(squares).allowed(large(3)).tolist() == [False, False, True]
        assert curve_of(np.full((3, 2), np.inf)).allowed(large(2)).all()

    def test_a_clear_minimum_is_chosen(self):
        rng = np.random.default_rng(0)
        squares = rng.chisquare(1, (500, 1)) * np.array([1.5, 1.0, 1.5])
        assert curve_of(squares).allowed(large(3)).tolist() == [False, True, False]

    @pytest.mark.parametrize(("second", "chosen"), [(1.004, 1), (1.006, 0)])
    def test_of_alphas_that_are_practically_tied_the_one_nearest_to_1_is_chosen(
        self, second, chosen
    ):
        """With many rows, standard errors are small, but so is the difference."""
        means = np.array([1.0, second, 1.5, 2.0])
        squares = means * np.random.default_rng(0).chisquare(1, (500, 1))
        allowed = curve_of(squares).allowed(np.array([0.001, 0.01, 0.1, 1.0]))
        assert np.flatnonzero(allowed)[0] == chosen

    @pytest.mark.parametrize(
        ("means", "chosen"),
        [
            ([0.5, 0.7, 1.0, 1.2], 0),  # clearly better than 1
            ([0.5, 2.0, 1.0, 1.2], 2),  # not if alphas in between are worse
            ([0.5, 0.8, 0.7, 1.0], 2),  # not if errors rise in between
            ([0.99, 0.995, 1.0, 1.2], 2),  # not if it may be chance
            ([1.5, 1.2, 1.0, 0.6], 3),
            ([1.5, 1.2, 1.0, 0.99], 2),  # this may be chance too
        ],
    )
    def test_alpha_1_is_chosen_unless_another_is_clearly_better(self, means, chosen):
        rng = np.random.default_rng(0)
        squares = np.array(means) + 0.5 * rng.standard_normal((100, 4)) ** 2
        squares += np.array(means) - squares.mean(axis=0)  # exactly these means
        alphas = [0.001, 0.01, 0.1, 1.0] if means[-1] == 1.0 else [0.01, 0.1, 1.0, 10.0]
        allowed = curve_of(squares).allowed(np.array(alphas))
        assert np.flatnonzero(allowed)[0] == chosen

    def test_infinite_errors_block_smaller_alphas(self):
        """Reject alphas at which most rows determine their own predictions."""
        rng = np.random.default_rng(0)
        squares = np.array([0.1, 0.5, 1.0, 1.2]) * rng.chisquare(1, (100, 1))
        squares[:60, 1] = np.inf
        allowed = curve_of(squares).allowed(np.array([0.01, 0.1, 1.0, 10.0]))
        assert np.flatnonzero(allowed)[0] == 2


def path_with(loo):
    alphas = 10.0 ** np.linspace(-4, 1, len(loo))
    return AlphaPath(alphas, np.ones(len(loo)), np.ones(len(loo)), loo=np.array(loo))


class TestPrecision:
    def test_flat_at_the_smallest_alphas(self):
        assert paths.is_flat_at_start(path_with([1.0, 1.001, 1.1, 1.2, 1.3, 1.4]))
        assert not paths.is_flat_at_start(path_with([1.0, 1.01, 1.1, 1.2, 1.3, 1.4]))
        assert not paths.is_flat_at_start(path_with([np.inf, 1.0, 1.1, 1.2, 1.3, 1.4]))
        assert not paths.is_flat_at_start(AlphaPath(*np.ones((3, 4))))

    def test_products_are_recomputed_only_if_a_smaller_alpha_helps(self):
        """Without noise, errors decrease with alpha as long as products are precise."""
        assert ridge().fit(*smooth(3000, noise=0.0)).gram_dtype_ == "float64"
        flat = ridge().fit(*smooth(12000, noise=0.1))
        assert flat.path_.loo[0] == min(flat.path_.loo)
        assert flat.gram_dtype_ == "float32"


class TestCopies:
    def test_all_rows_are_used_if_few_have_copies(self):
        X, y = smooth(6000)
        model = ridge().fit(X, y)
        some = ridge().fit(np.concatenate([X, X[:200]]), np.concatenate([y, y[:200]]))
        assert some.alpha_ == model.alpha_

    def test_a_choice_misled_by_copies_is_rejected(self):
        """Copies with equal targets leak the target of a row that is left out alone."""
        X, y = smooth(3000, noise=1.0)
        X, y = np.concatenate([X, X[:290]]), np.concatenate([y, y[:290]])
        model = ridge().fit(X, y)
        assert model.alpha_ >= 0.1
        assert model.score(*smooth(3000, seed=1, noise=0.0)) > 0.95

    def test_no_worse_than_one(self):
        curve = curve_of(np.tile([0.9, 1.1, 1.0, 0.95], (50, 1)))
        alphas = np.array([0.01, 0.1, 1.0, 10.0])
        assert curve.is_no_worse_than_one(alphas).tolist() == [True, False, True, True]
        assert curve.is_no_worse_than_one(alphas / 100).all()


class TestSampledRows:
    """For large tables, leave out a sample of the rows to choose alpha."""

    @pytest.fixture(autouse=True)
    def few(self, monkeypatch):
        monkeypatch.setattr(passes, "MOST_LEFT_OUT", 1000)

    def test_order_and_blocks_do_not_matter(self):
        X, y = smooth(4000)
        model = ridge().fit(X, y)
        order = np.random.default_rng(0).permutation(len(X))
        other = ridge().fit(X[order], y[order])
        blocks = ridge().fit(da.from_array(X, chunks=(900, 2)), da.from_array(y, chunks=900))
        for one in (other, blocks):
            assert_allclose(one.path_.loo, model.path_.loo, rtol=1e-4)
            assert one.alpha_ == model.alpha_

    def test_the_sample_represents_all_rows(self, monkeypatch):
        X, y = smooth(4000)
        model = ridge("loo", alphas=ALPHAS).fit(X, y)
        monkeypatch.setattr(passes, "MOST_LEFT_OUT", 10**6)
        whole = ridge("loo", alphas=ALPHAS).fit(X, y)
        # With about 1000 of 4000 rows, four standard errors of the mean are 18%.
        assert_allclose(model.path_.loo, whole.path_.loo, rtol=0.18)
        assert not np.array_equal(model.path_.loo, whole.path_.loo)

    def test_losses_use_all_rows(self):
        X, y = smooth(4000)
        rows = ArrayRows(Block(X, y, None))
        problem = Problem(FEATURES.map_, Numbers(), Penalty.of("loo", None), True)
        found = validated(problem, rows)
        assert found.losses.weight == 4000
        assert found.loss.mean != pytest.approx(found.solution.curve.means.min(), rel=1e-6)
        fixed = validated(replace(problem, penalty=Penalty.of(found.alpha, None)), rows)
        assert found.loss.mean == pytest.approx(fixed.loss.mean, rel=1e-6)

    def test_copies_of_few_rows_are_all_left_out(self):
        """With two distinct rows, a sample by content may be empty."""
        X = np.tile([[0.0, 0.0], [1.0, 1.0]], (1000, 1))
        y = np.tile([0.0, 1.0], 1000) + 0.1 * np.random.default_rng(0).standard_normal(2000)
        model = ridge().fit(X, y)
        assert np.isfinite(model.path_.loo).all()
        assert_allclose(model.predict([[0.0, 0.0], [1.0, 1.0]]), [0.0, 1.0], atol=0.02)


class TestSafety:
    @pytest.mark.parametrize("alpha", [*CRITERIA, [1e-6, 1e-4, 1e-2, 1.0, 100.0]])
    @pytest.mark.parametrize("streamed", [False, True], ids=["table", "stream"])
    def test_isolated_rows_do_not_mislead(self, alpha, streamed):
        X, y = isolated()
        X_test, y_test = isolated(seed=1)
        if streamed and alpha == "loo":
            return
        data = (list(stream(X, y)),) if streamed else (X, y)
        model = quietly(ridge(alpha, gram_dtype="float64"), *data)
        plain = ridge(1.0, gram_dtype="float64").fit(X, y)
        assert model.score(X_test, y_test) > plain.score(X_test, y_test) - 0.01
        path = model.path_
        at, of_one = np.interp(np.log([model.alpha_, 1.0]), np.log(path.alphas), path.loo)
        assert at <= 1.025 * of_one

    def test_a_misled_criterion_warns(self):
        X, y = isolated(n_far=40)  # fewer rows could be chance
        with pytest.warns(UserWarning, match=r"alpha='gcv' alone.*leverage.*Scale or clip"):
            model = ridge("gcv", gram_dtype="float64").fit(X, y)
        path = model.path_
        own = np.argmin(path.gcv)
        assert path.loo[own] > 1.1 * path.loo.min()
        assert model.alpha_ > path.alphas[own]

    @pytest.mark.parametrize("alpha", ["auto", "gcv", "evidence"])
    def test_copies_do_not_leak_targets(self, alpha):
        X, y = smooth(150, noise=1.0)
        X_test, y_test = smooth(2000, seed=1, noise=1.0)
        once = ridge(alpha).fit(X, y)
        for data in ((np.tile(X, (3, 1)), np.tile(y, 3)), (X, y, np.full(150, 3.0))):
            copied = quietly(ridge(alpha), *data)
            assert copied.score(X_test, y_test) > once.score(X_test, y_test) - 0.05

    @pytest.mark.parametrize("alpha", CRITERIA)
    @pytest.mark.parametrize("n_rows", [3, 20, 100])
    def test_few_rows(self, alpha, n_rows):
        X, y = smooth(n_rows)
        model = quietly(ridge(alpha), X, y)
        assert np.isfinite(model.predict(X)).all()
        assert model.path_.alphas[0] <= model.alpha_ <= 1.01 * model.path_.alphas[-1]

    @pytest.mark.parametrize("alpha", CRITERIA)
    def test_noise_is_not_fitted(self, alpha):
        X, _ = smooth(500)
        y = np.random.default_rng(5).standard_normal(500)
        model = quietly(ridge(alpha), X, y)
        assert np.std(model.predict(X)) < 0.35


class TestAuto:
    def test_a_table_uses_leave_one_out(self):
        X, y = smooth(400)
        auto, loo = ridge("auto").fit(X, y), ridge("loo").fit(X, y)
        assert auto.alpha_ == loo.alpha_
        assert_allclose(auto.path_.loo, loo.path_.loo, rtol=1e-9)

    def test_sources_agree(self):
        X, y = smooth(1500)
        table = ridge("auto").fit(X, y)
        repeated = ridge("auto").fit(list(stream(X, y)))
        assert repeated.alpha_ == table.alpha_
        lazy = ridge("auto").fit(da.from_array(X, (700, 2)), da.from_array(y, 700))
        assert lazy.alpha_ == table.alpha_
        once = ridge("auto").fit(stream(X, y))
        added = ridge("auto")
        for X_part, y_part in stream(X, y):
            added.partial_fit(X_part, y_part)
        assert added.alpha_ == pytest.approx(once.alpha_, rel=0.03)
        parts = [ridge("auto").fit(X[i::2], y[i::2]) for i in range(2)]
        assert parts[0].merge(parts[1]).alpha_ == pytest.approx(once.alpha_, rel=0.03)
        # Evidence and leave-one-out errors agree if the model is correct.
        assert 0.05 < once.alpha_ / table.alpha_ < 20
        assert_allclose(once.predict(X), table.predict(X), atol=0.1)

    def test_an_unsolved_model_can_be_pickled(self):
        X, y = isolated()
        model = ridge("auto", gram_dtype="float64").partial_fit(X, y)
        loaded = pickle.loads(pickle.dumps(model))
        assert loaded.alpha_ == model.alpha_
        assert_allclose(loaded.path_.loo, model.path_.loo)

    def test_many_columns_use_conjugate_gradients(self, monkeypatch):
        monkeypatch.setattr("quadfeat.models.parameters.NORMAL_UP_TO", 64)
        X, y = smooth(400, noise=2.0)
        model = ridge("auto").fit(X, y)
        assert model._solution.solver_name == "cg"
        direct = ridge("auto", solver="normal").fit(X, y)
        assert model.alpha_ == direct.alpha_
        at = np.searchsorted(direct.path_.alphas, model.path_.alphas[-6] * 0.999)
        assert_allclose(model.path_.loo[-6], direct.path_.loo[at], rtol=1e-5)
        assert_allclose(model.predict(X), direct.predict(X), atol=0.01)
        assert ridge(1.0).fit(X, y)._solution.solver_name == "cg"
        assert ridge("gcv").fit(X, y)._solution.solver_name == "normal"

    @pytest.mark.parametrize("weighted", [False, True])
    def test_conjugate_gradients_on_all_sources(self, weighted):
        X, y = smooth(900, noise=2.0)
        labels = np.digitize(y, [-1.0, 1.0])
        weights = np.random.default_rng(0).uniform(0.1, 1.0, 900) if weighted else np.ones(900)
        for Model, targets in ((QuadratureRidge, y), (QuadratureRidgeClassifier, labels)):
            model = Model(features=FEATURES, alpha="auto", solver="cg")
            found = model.fit(X, targets, weights).alpha_
            direct = Model(features=FEATURES, alpha="auto", solver="normal")
            assert found == direct.fit(X, targets, weights).alpha_
            parts = [
                (X[i : i + 400], targets[i : i + 400], weights[i : i + 400])
                for i in range(0, 900, 400)
            ]
            assert model.fit(parts).alpha_ == found
            lazy = (da.from_array(one, 400) for one in (X, targets, weights))
            assert model.fit(*lazy).alpha_ == found

    def test_a_solver_that_cannot_choose_raises(self):
        X, y = smooth(30)
        with pytest.raises(ValueError, match=r"'cg' does not support alpha='gcv'.*'auto'"):
            ridge("gcv", solver="cg").fit(X, y)


@pytest.mark.parametrize("intercept", [True, False])
def test_dual_and_primal_solutions_agree(intercept):
    rng = np.random.default_rng(0)
    Z, Y = rng.standard_normal((40, 9)) + 0.5, rng.standard_normal((40, 2))
    weights = rng.uniform(0.2, 3.0, 40)
    table = np.column_stack([Z, Y, np.ones(40)])
    products = table.T @ (table * weights[:, None])
    moments = Moments(
        np.asfortranarray(np.triu(products)), np.zeros(2), 40, products[:9, :9] @ probe(9)
    )
    primal = Spectral.of(RidgeProblem(moments, intercept).equations())
    dual, projected = decomposed(Z @ Z.T, Y, weights, 9, intercept=intercept)
    assert_allclose(dual.values, primal.values, rtol=1e-9)
    ours, theirs = dual.path(ALPHAS), primal.path(ALPHAS)
    assert_allclose(ours.gcv, theirs.gcv, rtol=1e-9)
    assert_allclose(ours.log_evidence, theirs.log_evidence, rtol=1e-9)
    for amounts in (None, weights):
        one = dual.left_out_of_projected(ALPHAS, projected, Y, weights, amounts)
        other = primal.left_out(ALPHAS, Z, Y, weights, amounts)
        assert_allclose(one.means, other.means, rtol=1e-8)


@pytest.mark.parametrize("n", [1, 63, 64, 65, 130, 300])
@pytest.mark.parametrize("intercept", [True, False])
def test_a_banded_matrix_and_eigenvectors_agree(n, intercept):
    rng = np.random.default_rng(n)
    Z = rng.standard_normal((400, n)) / np.arange(1, n + 1) + 0.3
    Y, weights = rng.standard_normal((400, 2)), rng.uniform(0.2, 3.0, 400)
    table = np.column_stack([Z, Y, np.ones(400)])
    products = table.T @ (table * weights[:, None])
    moments = Moments(
        np.asfortranarray(np.triu(products)), np.zeros(2), 400, products[:n, :n] @ probe(n)
    )
    problem = RidgeProblem(moments, intercept)
    ours, theirs = Banded.of(problem.equations()), Spectral.of(problem.equations())
    assert_array_equal(ours.default_alphas(), theirs.default_alphas())
    assert ours.trace == pytest.approx(theirs.trace)
    assert_allclose(ours.path(ALPHAS).gcv, theirs.path(ALPHAS).gcv, rtol=1e-9)
    evidence = theirs.path(ALPHAS).log_evidence
    assert_allclose(ours.path(ALPHAS).log_evidence, evidence, rtol=1e-9)
    for one, other in zip(ours.solved(0.1), theirs.solved(0.1), strict=True):
        assert_allclose(one, other, rtol=1e-7, atol=1e-9)
    for amounts in (None, weights):
        expected = theirs.left_out(ALPHAS, Z, Y, weights, amounts)
        assert_allclose(ours.left_out(ALPHAS, Z, Y, weights, amounts).sums, expected.sums)
        single = ours.cast(np.float32).left_out(ALPHAS, Z.astype(np.float32), Y, weights, amounts)
        assert_allclose(single.sums, expected.sums, rtol=1e-3)


def test_equal_rows_and_a_banded_matrix():
    system = RidgeProblem(Moments.empty(70, np.zeros(1)), intercept=False)
    products = system.moments.products
    products[-1, -1] = 10.0
    expected = Spectral.of(system.equations()).default_alphas()
    assert_array_equal(Banded.of(system.equations()).default_alphas(), expected)


@pytest.mark.parametrize("rows", [smooth, isolated])
@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("streamed", [False, True], ids=["table", "stream"])
def test_a_banded_matrix_gives_the_same_fit(rows, criterion, streamed, monkeypatch):
    X, y = rows(1500)
    data = (lambda: (list(stream(X, y)),)) if streamed else (lambda: (X, y))
    by_values = quietly(ridge(criterion, gram_dtype="float64"), *data())
    monkeypatch.setattr(paths, "BANDED_FROM", 1)
    monkeypatch.setattr(paths, "BANDED_ROWS", 10**6)
    used = []
    of = Banded.of
    monkeypatch.setattr(Banded, "of", lambda system: used.append(1) or of(system))
    by_blocks = quietly(ridge(criterion, gram_dtype="float64"), *data())
    assert used
    assert by_blocks.alpha_ == by_values.alpha_
    assert_allclose(by_blocks.predict(X), by_values.predict(X), atol=1e-6)
    assert_allclose(by_blocks.path_.loo, by_values.path_.loo, rtol=1e-4)


def test_a_matrix_that_is_not_definite_uses_eigenvectors(monkeypatch):
    """Rounding errors in float32 exceed this alpha."""
    X, y = smooth(3000)
    expected = quietly(ridge([1e-13, 1.0]), X, y)
    monkeypatch.setattr(paths, "BANDED_FROM", 1)
    monkeypatch.setattr(paths, "BANDED_ROWS", 10**6)
    assert_allclose(quietly(ridge([1e-13, 1.0]), X, y).predict(X), expected.predict(X))


def test_alphas_that_cannot_be_chosen_are_skipped(monkeypatch):
    """In float32, small alphas are not tried if errors rise before."""
    X, y = smooth(300, noise=1.0)
    model = ridge("auto").fit(X, y)
    monkeypatch.setattr(LeftOutCurve, "is_final", lambda curve, alphas: False)
    whole = ridge("auto").fit(X, y)
    skipped = np.isnan(model.path_.loo)
    assert 0 < skipped.sum() < np.searchsorted(model.path_.alphas, 1.0)
    assert skipped[: skipped.sum()].all()
    assert np.isfinite(whole.path_.loo).all()
    assert model.alpha_ == whole.alpha_
    assert_allclose(model.path_.loo[~skipped], whole.path_.loo[~skipped], rtol=1e-3)
