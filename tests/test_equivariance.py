"""Test that all results follow shifts, scales, weights, order and labels of the data.

Each property is tested for models that were fitted at once, from a stream, by batches, by merging,
after a restart from a checkpoint, and on Dask.
"""

import dask
import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from quadfeat import QuadratureFeatures, QuadratureRidge, QuadratureRidgeClassifier
from quadfeat.data import checkpoints
from quadfeat.kernels import Gaussian, Matern
from quadfeat.learning.lengthscales import learn
from quadfeat.solvers.summaries import joint_classes
from slow import repeats

rng = np.random.default_rng(0)
N = 1300  # fewer rows would always be multiplied in float64
X = rng.uniform(-2, 2, (N, 3))
NOISE = 0.1
y = np.sin(X[:, 0]) + X[:, 1] / 2 + NOISE * rng.standard_normal(N)
Y = np.column_stack([y, X[:, 2] ** 2 + NOISE * rng.standard_normal(N)])
SD = y.std()
COUNTS = rng.integers(0, 3, N).astype(float)
LABELS = np.digitize(y + 0.5 * rng.standard_normal(N), [-0.5, 0.7])
NEW = rng.uniform(-2, 2, (50, 3))
FEATURES = QuadratureFeatures(Gaussian(0.3), rule="orf", n_components=60, random_state=0).fit(X)


class Killed(BaseException):
    """Simulate a signal that cannot be caught."""


def blocks(X, y, weights, size=650):
    for start in range(0, len(X), size):
        rows = slice(start, start + size)
        yield (X[rows], y[rows]) if weights is None else (X[rows], y[rows], weights[rows])


def at_once(model, X, y, weights, tmp_path):
    return model.fit(X, y, weights)


def streamed(model, X, y, weights, tmp_path):
    return model.fit(blocks(X, y, weights))


def by_batches(model, X, y, weights, tmp_path):
    for rows, targets, *given in blocks(X, y, weights):
        model.partial_fit(rows, targets, sample_weight=given[0] if given else None)
    return model


def merged(model, X, y, weights, tmp_path):
    parts = [
        clone(model).set_params(features=FEATURES).fit(*block) for block in blocks(X, y, weights)
    ]
    for part in parts[1:]:
        parts[0].merge(part)
    return parts[0]


def resumed(model, X, y, weights, tmp_path):
    model.set_params(checkpoint=tmp_path / "checkpoint")

    def dying():
        yield next(blocks(X, y, weights))
        raise Killed

    with pytest.MonkeyPatch.context() as eager:
        eager.setattr(checkpoints, "SECONDS", 0.0)
        eager.setattr(checkpoints, "TIMES_AS_LONG", 0.0)
        with pytest.raises(Killed):
            model.fit(dying())
    assert (tmp_path / "checkpoint").exists()
    return model.fit(blocks(X, y, weights))


def on_dask(model, X, y, weights, tmp_path):
    size = 650
    parts = [da.from_array(X, chunks=(size, X.shape[1])), da.from_array(y, chunks=size)]
    if weights is not None:
        parts.append(da.from_array(weights, chunks=size))
    with dask.config.set(scheduler="synchronous"):
        return model.fit(*parts)


WAYS = [at_once, streamed, by_batches, merged, resumed, on_dask]
ways = pytest.mark.parametrize("fitted", WAYS, ids=lambda way: way.__name__)


def ridge(**parameters):
    return QuadratureRidge(features=FEATURES, **{"alpha": "evidence"} | parameters)


def classifier(**parameters):
    return QuadratureRidgeClassifier(features=FEATURES, **{"alpha": 0.1} | parameters)


def published(model, shift=0.0, scale=1.0):
    """Return the results of a model of ``scale * y + shift`` in the units of ``y``."""
    mean, deviation = model.predict(NEW, return_std=True)
    path = model.path_
    n = model._solution.problem.equations().degrees
    n_outputs = np.size(model.intercept_)
    told = {
        "prediction": (mean - shift) / scale,
        "deviation": deviation / scale,
        "draws": (model.sample_y(NEW, 3) - shift) / scale,
        "noise": np.sqrt(model.noise_variance_) / scale,
        "signal": np.sqrt(model.signal_variance_) / scale,
        "alpha": model.alpha_,
        "evidence": model.log_marginal_likelihood_ + n * n_outputs * np.log(scale),
        "coefficients": model.coef_ / scale,
    }
    if path is not None:
        told["alphas"] = path.alphas
        told["gcv"] = np.sqrt(path.gcv) / scale
        told["evidences"] = path.log_evidence + n * n_outputs * np.log(scale)
        if path.loo is not None:
            told["loo"] = np.sqrt(path.loo) / scale
    return told


def same(found, expected, rtol=1e-6):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        size = np.abs(value).max()
        assert_allclose(found[name], value, rtol=rtol, atol=rtol * size, err_msg=name)


@pytest.mark.parametrize("gram_dtype", ["float32", "float64"])
@pytest.mark.parametrize("shift", [-1e3, 1e7, 1e9])
@ways
def test_shifts_of_targets(fitted, shift, gram_dtype, tmp_path):
    expected = published(fitted(ridge(gram_dtype=gram_dtype), X, y, None, tmp_path))
    c = shift * SD
    found = published(fitted(ridge(gram_dtype=gram_dtype), X, y + c, None, tmp_path), shift=c)
    same(found, expected, rtol=1e-5)
    assert found["noise"] == pytest.approx(NOISE, rel=0.2)


@pytest.mark.parametrize("criterion", ["gcv", "loo", 0.3])
@pytest.mark.parametrize("fitted", [at_once, on_dask], ids=lambda way: way.__name__)
def test_shifts_of_targets_with_other_choices_of_alpha(fitted, criterion, tmp_path):
    model = ridge(alpha=criterion)
    expected = published(fitted(clone(model).set_params(features=FEATURES), X, Y, None, tmp_path))
    shift = np.array([1e9, -1e8])
    found = published(fitted(model, X, Y + shift, None, tmp_path), shift=0.0)
    found["prediction"] -= shift
    found["draws"] -= shift[:, None]
    same(found, expected, rtol=1e-5)


@pytest.mark.parametrize("solver", ["normal", "cg"])
def test_shifts_of_targets_for_both_solvers(solver):
    model = ridge(alpha=0.3, solver=solver, tol=1e-6)
    expected = model.fit(X, y).predict(NEW)
    found = model.fit(X, y + 1e9 * SD).predict(NEW) - 1e9 * SD
    assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("shift", [1e16, 1e15 / NOISE * 0.3])
@ways
def test_targets_that_are_rounded_to_a_few_values_are_rejected(fitted, shift, tmp_path):
    rounded = y + shift
    assert 0 < rounded.std() < 4 * np.spacing(shift)
    with pytest.raises(ValueError, match=r"deviation of y is .*resolution .*Subtract a constant"):
        fitted(ridge(), X, rounded, None, tmp_path).predict(NEW)


def test_targets_that_vary_only_by_rounding_are_rejected():
    exact = FEATURES.transform(X) @ rng.standard_normal(60)
    with pytest.raises(ValueError, match=r"noise in y has .*below the resolution"):
        ridge(gram_dtype="float64", alpha=1e-9).fit(X, exact + 1e12)
    assert np.isfinite(ridge(gram_dtype="float64", alpha=1e-9).fit(X, exact).noise_variance_)


@pytest.mark.parametrize("size", [100, 650])
@pytest.mark.parametrize("fitted", [streamed, by_batches, merged, on_dask])
def test_targets_that_drift_from_batch_to_batch(fitted, size, tmp_path, monkeypatch):
    monkeypatch.setattr("test_equivariance.blocks.__defaults__", (size,), raising=False)
    # The first batch is far from all others, and these are close together.
    far = np.where(np.arange(N) < 5, 0.0, 1e7)
    model = fitted(ridge(alpha=1.0, gram_dtype="float64"), X, y + far, None, tmp_path)
    Z = FEATURES.transform(X)
    centered, targets = Z - Z.mean(axis=0), y + far
    coefficients = np.linalg.solve(
        centered.T @ centered + np.eye(60), centered.T @ (targets - targets.mean())
    )
    expected = (FEATURES.transform(NEW) - Z.mean(axis=0)) @ coefficients + targets.mean()
    assert_allclose(model.predict(NEW), expected, rtol=1e-12)
    residual = targets - targets.mean() - centered @ coefficients
    variance = (residual @ residual + coefficients @ coefficients) / (N - 1)
    assert model.noise_variance_ == pytest.approx(variance, rel=1e-9)


@pytest.mark.parametrize("scale", [1e-100, 1e-20, 1e20, 1e100])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@ways
def test_scales_of_targets(fitted, scale, dtype, tmp_path):
    rows = X.astype(dtype)
    expected = published(fitted(ridge(), rows, y, None, tmp_path))
    found = published(fitted(ridge(), rows, scale * y, None, tmp_path), scale=scale)
    same(found, expected, rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_scales_of_targets_with_conjugate_gradients(scale):
    model = ridge(alpha=0.3, solver="cg", tol=1e-6)
    expected = model.fit(X, y)
    prediction, error = expected.predict(NEW), expected.solver_error_
    model.fit(X, scale * y)
    assert_allclose(model.predict(NEW) / scale, prediction, rtol=1e-5, atol=1e-6)
    assert model.solver_error_ == pytest.approx(error, rel=0.5)


@pytest.mark.parametrize("exponent", [-400, 400])
@pytest.mark.parametrize("criterion", repeats(["auto", "evidence", 0.3]))
@pytest.mark.filterwarnings("error::RuntimeWarning")
@ways
def test_powers_of_two_scale_results_exactly(fitted, criterion, exponent, tmp_path):
    scale = 2.0**exponent
    expected = fitted(ridge(alpha=criterion), X, y, None, tmp_path)
    found = fitted(ridge(alpha=criterion), X, scale * y, None, tmp_path)
    same(published(found, scale=scale), published(expected), rtol=1e-12)
    for ours, theirs in zip(
        found.predict_interval(NEW), expected.predict_interval(NEW), strict=True
    ):
        assert_allclose(ours / scale, theirs, rtol=1e-12)
    assert found.score(X, scale * y) == pytest.approx(expected.score(X, y), rel=1e-12)


@pytest.mark.parametrize("exponent", [-400, -250, 250, 400])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_powers_of_two_do_not_change_the_learned_kernel(exponent):
    scale = 2.0**exponent
    models = [
        QuadratureRidge(n_components=60, random_state=0).fit(X, one) for one in (y, scale * y)
    ]
    plain, scaled = models
    assert repr(scaled.kernel_) == repr(plain.kernel_)
    assert_allclose(scaled.predict(NEW) / scale, plain.predict(NEW), rtol=1e-9)
    errors = [np.array([one.standard_error for one in model.candidates_]) for model in models]
    assert_allclose(errors[1], errors[0], rtol=1e-6)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("solver", ["normal", "cg"])
@pytest.mark.parametrize("alpha", [0.3, "auto"])
def test_targets_beyond_the_range_of_squares_are_rejected(solver, alpha):
    model = ridge(alpha=alpha, solver=solver)
    for factor in (1e150, 1e300):
        with pytest.raises(ValueError, match=r"y has values up to .*e\+\d+, .*Divide y by a const"):
            model.fit(X, factor * y)
    for factor in (1e-160, 1e-300):
        with pytest.raises(ValueError, match=r"y is so small \(about .*underflow\. Multiply y"):
            model.fit(X, factor * y)
    with pytest.raises(ValueError, match="y has values up to"):
        ridge(alpha=0.3).fit(X, y).partial_fit(X, 1e200 * y)


@ways
def test_integer_weights_are_copies(fitted, tmp_path):
    copies = np.repeat(np.arange(N), COUNTS.astype(int))
    weighted = published(fitted(ridge(gram_dtype="float64"), X, y, COUNTS, tmp_path))
    copied = published(fitted(ridge(gram_dtype="float64"), X[copies], y[copies], None, tmp_path))
    same(weighted, copied, rtol=1e-6)


@pytest.mark.parametrize("criterion", ["gcv", "loo"])
def test_integer_weights_are_copies_for_other_criteria(criterion):
    copies = np.repeat(np.arange(N), COUNTS.astype(int))
    model = ridge(alpha=criterion, gram_dtype="float64")
    weighted = published(model.fit(X, y, COUNTS))
    same(weighted, published(model.fit(X[copies], y[copies])), rtol=1e-5)


@pytest.mark.parametrize("unit", [1e-6, 1e-2, 1e3, 1e8])
@pytest.mark.parametrize("solver", ["normal", "cg"])
def test_weights_and_alpha_in_other_units(solver, unit):
    weights = rng.uniform(0.1, 2.0, N)
    options = {"solver": solver, "tol": 1e-9, "gram_dtype": "float64"}
    expected = ridge(alpha=0.5, **options).fit(X, y, weights).coef_
    found = ridge(alpha=0.5 * unit, **options).fit(X, y, unit * weights).coef_
    assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@ways
def test_permuted_rows(fitted, tmp_path):
    order = rng.permutation(N)
    expected = published(fitted(ridge(alpha=0.3), X, y, COUNTS, tmp_path))
    found = published(fitted(ridge(alpha=0.3), X[order], y[order], COUNTS[order], tmp_path))
    same(found, expected, rtol=1e-4)


@pytest.mark.parametrize("criterion", ["gcv", "loo", "evidence"])
def test_permuted_rows_give_the_same_path(criterion):
    noisy = y + rng.standard_normal(N)
    paths = []
    for _ in range(3):
        order = rng.permutation(N)
        model = ridge(alpha=criterion).fit(X[order], noisy[order])
        paths.append((model.alpha_, model.path_.alphas[-12:], model.path_.gcv[-12:]))
    for alpha, alphas, gcv in paths[1:]:
        assert alpha == paths[0][0]
        assert_array_equal(alphas, paths[0][1])
        assert_allclose(gcv, paths[0][2], rtol=1e-3)


def test_dask_ignores_targets_of_rows_without_weight(tmp_path):
    weights = np.where(np.arange(N) < 650, 0.0, 1.0)
    for solver in ("normal", "cg"):
        model = ridge(alpha=1.0, solver=solver, tol=1e-8)
        expected = on_dask(model, X, y * weights, weights, tmp_path).predict(NEW)
        spoiled = np.where(weights > 0, y, 1e12)
        found = on_dask(model, X, spoiled, weights, tmp_path).predict(NEW)
        assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("kernel", [Gaussian(), Matern(1.5)])
def test_permuted_columns(kernel):
    order = np.array([2, 0, 1])
    scales = np.array([0.5, 1.0, 2.0])
    given, permuted = (
        type(kernel)().set_params(**{kernel.scale_parameter: s}) for s in (scales, scales[order])
    )
    assert_allclose(permuted(X[:50, order]), given(X[:50]), rtol=1e-12)
    learned, again = (
        learn(kernel, rows[:200], Y[:200], each=True).kernel for rows in (X, X[:, order])
    )
    found, expected = (getattr(one, kernel.scale_parameter) for one in (again, learned))
    assert_allclose(found, expected[order], rtol=1e-2)


class TestNothingToLearnFrom:
    @pytest.mark.parametrize("value", [0.0, 7.0, 1e9, 1e-300])
    @pytest.mark.parametrize("alpha", [1.0, "gcv", "loo", "evidence"])
    def test_equal_targets(self, value, alpha, tmp_path):
        for weights in (None, rng.uniform(0.1, 3.0, N)):
            model = ridge(alpha=alpha).fit(X, np.full(N, value), weights)
            assert_array_equal(model.predict(NEW), value)
            with pytest.raises(ValueError, match=r"all targets in y are equal. Add rows"):
                model.predict(NEW, return_std=True)
            with pytest.raises(ValueError, match="all targets in y are equal"):
                model.sample_y(NEW)
            with pytest.warns(
                UserWarning, match="noise_variance_ is NaN, because all targets in y are equal"
            ):
                assert np.isnan(model.noise_variance_)

    @pytest.mark.parametrize("alpha", [1.0, "evidence"])
    def test_one_row(self, alpha):
        model = ridge(alpha=alpha).fit(X[:1], y[:1])
        assert_array_equal(model.predict(NEW), y[0])
        with pytest.raises(ValueError, match="all targets in y are equal"):
            model.predict(NEW, return_std=True)

    def test_one_output_of_two(self):
        model = ridge().fit(X, np.column_stack([y, np.full(N, 3.0)]))
        with pytest.warns(UserWarning, match="signal_variance_ is NaN"):
            assert np.isnan(model.signal_variance_).tolist() == [False, True]
        with pytest.raises(ValueError, match="all targets in y for output 1 are equal"):
            model.predict(NEW, return_std=True)
        assert_allclose(model.predict(NEW)[:, 0], ridge().fit(X, y).predict(NEW), rtol=1e-6)


class TestClasses:
    def told(self, model):
        return {
            "decisions": model.decision_function(NEW),
            "probabilities": model.predict_proba(NEW),
            "temperature": model.temperature_,
        }

    def codes(self, names):
        return np.asarray(names)[LABELS]

    @pytest.mark.parametrize(
        "names",
        [
            [2**53, 2**53 + 1, 2**53 + 2],
            [2**62, 2**62 + 1, 2**62 + 3],
            np.array([2**63, 2**63 + 1, 2**64 - 1], dtype=np.uint64),
            [-(2**62) - 1, 5, 2**60 + 1],
            ["a", "b", "c"],
            [-1.0, 1.0, 2.0**60],
            [False, True],
        ],
        ids=str,
    )
    @ways
    def test_labels_of_any_size_and_kind(self, fitted, names, tmp_path):
        which = np.minimum(LABELS, len(names) - 1)
        names = np.asarray(names)
        last = np.argsort(
            LABELS == 2, kind="stable"
        )  # the third class is missing from the first block
        assert set(LABELS[last[:650]]) == {0, 1}
        for order in (rng.permutation(N), last):
            data = X[order], which[order]
            plain = fitted(classifier(), *data, None, tmp_path)
            named = fitted(classifier(), data[0], names[data[1]], None, tmp_path)
            assert named.classes_.tolist() == names.tolist()
            same(self.told(named), self.told(plain), rtol=1e-3)
            assert_array_equal(named.predict(NEW), names[plain.predict(NEW)])

    def test_batches_of_signed_and_unsigned_labels(self):
        names = np.array([2**53, 2**53 + 1, 2**53 + 2])
        half = N // 2
        model = classifier().partial_fit(X[:half], names[LABELS[:half]])
        model.partial_fit(X[half:], names[LABELS[half:]].astype(np.uint64))
        assert model.classes_.tolist() == names.tolist()
        expected = classifier().fit(X, LABELS)
        assert_allclose(model.predict_proba(NEW), expected.predict_proba(NEW), atol=1e-4)

    @pytest.mark.parametrize("swapped", [False, True])
    def test_labels_that_no_dtype_holds(self, swapped):
        first = np.array([-1, 2**53 + 1])
        second = np.array([1, 2**63 + 1], dtype=np.uint64)
        first, second = (second, first) if swapped else (first, second)
        which = LABELS[:200] % 2
        model = classifier().partial_fit(X[:200], first[which])
        before = model.classes_
        with pytest.raises(ValueError, match="No dtype represents both exactly"):
            model.partial_fit(X[:200], second[which])
        with pytest.raises(ValueError, match="No dtype represents both exactly"):
            model.merge(classifier().fit(X[:200], second[which]))
        assert model.classes_ is before

    def test_integers_and_floats(self):
        whole = joint_classes(np.array([1, 2**53 + 1]), np.array([1.0, 2.0**60]))
        assert whole.tolist() == [1, 2**53 + 1, 2**60]
        assert joint_classes(np.array([1, 3]), np.array([0.5])).tolist() == [0.5, 1.0, 3.0]
        with pytest.raises(ValueError, match="No dtype represents both exactly"):
            joint_classes(np.array([1, 2**53 + 1]), np.array([1.0, 2.0**70]))

    @pytest.mark.parametrize("weights", [{0: 0.1, 1: 1.0, 2: 3.0}, {0: 5.0}])
    @ways
    def test_class_weights_are_sample_weights(self, fitted, weights, tmp_path):
        given = rng.uniform(0.5, 2.0, N)
        each = given * np.array([weights.get(label, 1.0) for label in LABELS])
        by_class = fitted(classifier(class_weight=weights), X, LABELS, given, tmp_path)
        by_row = fitted(classifier(), X, LABELS, each, tmp_path)
        same(self.told(by_class), self.told(by_row), rtol=1e-9)

    @pytest.mark.parametrize("lengthscales", [None, "isotropic"])
    @pytest.mark.parametrize("fitted", [at_once, on_dask], ids=lambda way: way.__name__)
    def test_balanced_class_weights_are_sample_weights(self, fitted, lengthscales, tmp_path):
        counts = np.bincount(LABELS)
        each = (N / 3 / counts)[LABELS]
        model = QuadratureRidgeClassifier(
            "gaussian",
            alpha=1.0,
            n_components=60,
            rule="orf",
            lengthscales=lengthscales,
            random_state=0,
        )
        balanced = clone(model).set_params(class_weight="balanced")
        by_class = fitted(balanced, X, LABELS, None, tmp_path)
        by_row = fitted(model, X, LABELS, each, tmp_path)
        assert by_class.features_.fingerprint() == by_row.features_.fingerprint()
        same(self.told(by_class), self.told(by_row), rtol=1e-9)

    @ways
    def test_integer_weights_are_copies(self, fitted, tmp_path):
        copies = np.repeat(np.arange(N), COUNTS.astype(int))
        model = {"gram_dtype": "float64"}
        weighted = fitted(classifier(**model), X, LABELS, COUNTS, tmp_path)
        copied = fitted(classifier(**model), X[copies], LABELS[copies], None, tmp_path)
        same(self.told(weighted), self.told(copied), rtol=1e-6)

    @ways
    def test_permuted_rows(self, fitted, tmp_path):
        order = rng.permutation(N)
        found = fitted(classifier(), X[order], LABELS[order], None, tmp_path)
        expected = fitted(classifier(), X, LABELS, None, tmp_path)
        same(self.told(found), self.told(expected), rtol=1e-4)
