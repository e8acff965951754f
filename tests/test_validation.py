"""Compare errors of left-out rows with refitting without them."""

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import log_loss

from quadfeat import QuadratureFeatures, QuadratureRidge, QuadratureRidgeClassifier
from quadfeat.data.blocks import Block
from quadfeat.data.rows import ArrayRows, StreamRows, rows_of
from quadfeat.kernels import Gaussian
from quadfeat.solvers import ConjugateGradients, Labels, Numbers, Penalty, Problem, validated

rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, (60, 2))
Y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1] ** 2]) + 0.2 * rng.standard_normal((60, 2))
LABELS = (X[:, 0] + 0.5 * rng.standard_normal(60) > 0).astype(int) + (X[:, 1] > 1)
WEIGHTS = rng.choice([0.4, 1.0, 1.0], 60)
FEATURES = QuadratureFeatures(Gaussian(0.5), n_components=16, random_state=0).fit(X)


def read(X, y, weights=None, part=False):
    return Block(X, y, weights)


def problem(targets, alpha=0.3, features=FEATURES):
    return Problem(features.map_, targets, Penalty.of(alpha, None), True)


def refitted(model, y, weights=None):
    """Return the prediction for each row by a model that is fitted without it."""
    found = []
    for row in range(60):
        others = np.delete(np.arange(60), row)
        w = None if weights is None else weights[others]
        again = type(model)(features=FEATURES, alpha=0.3).fit(X[others], y[others], w)
        predict = getattr(again, "decision_function", again.predict)
        found.append(predict(X[row : row + 1])[0])
    return np.array(found)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weights"])
def test_errors_agree_with_refitting(weights):
    counts = np.ones(60) if weights is None else weights
    errors = Y - refitted(QuadratureRidge("gaussian", alpha=1.0), Y, weights)
    # All outputs have equal weight, whatever their units.
    variances = np.average((Y - np.average(Y, axis=0, weights=counts)) ** 2, axis=0, weights=counts)
    squares = (errors**2 / variances).mean(axis=1) * variances.mean()
    found = validated(problem(Numbers()), ArrayRows(Block(X, Y, weights)))
    # Rows are stored in a different order.
    assert_allclose(np.sort(found.losses.values[:, 0]), np.sort(squares), rtol=1e-6)
    mean = np.average(squares, weights=counts)
    assert found.squared_error.mean == pytest.approx(mean, rel=1e-6)
    if weights is None:
        expected = squares.std(ddof=1) / np.sqrt(60)
        assert found.squared_error.standard_error == pytest.approx(expected, rel=1e-6)
    assert found.alpha == 0.3
    assert found.loss == found.squared_error
    assert found.log_loss is None
    assert found.accuracy is None


@pytest.mark.parametrize("alpha", [0.3, "loo"])
@pytest.mark.parametrize(("targets", "y"), [(Numbers(), Y), (Labels(), LABELS)])
def test_copies_are_left_out_together(targets, y, alpha):
    counts = np.random.default_rng(1).integers(0, 4, 60)
    weighted = Block(X, y, counts.astype(float))
    repeated = Block(X.repeat(counts, axis=0), y.repeat(counts, axis=0), None)
    found = [validated(problem(targets, alpha), ArrayRows(one)) for one in (weighted, repeated)]
    assert found[0].alpha == pytest.approx(found[1].alpha, rel=1e-9)
    assert found[0].loss.mean == pytest.approx(found[1].loss.mean, rel=1e-6)
    assert found[0].loss.standard_error == pytest.approx(found[1].loss.standard_error, rel=1e-6)


def test_classes_have_log_loss_and_accuracy():
    decisions = refitted(QuadratureRidgeClassifier("gaussian", alpha=1.0), LABELS)
    model = QuadratureRidgeClassifier(features=FEATURES, alpha=0.3).fit(X, LABELS)
    found = validated(problem(Labels()), ArrayRows(Block(X, LABELS, None)))
    assert found.accuracy.mean == pytest.approx((decisions.argmax(axis=1) == LABELS).mean())
    assert found.calibration.temperature == pytest.approx(model.temperature_, rel=1e-6)
    expected = log_loss(LABELS, found.calibration.probabilities(decisions))
    assert found.log_loss.mean == pytest.approx(expected, rel=1e-5)
    assert found.loss == found.log_loss
    assert_allclose(found.solution.coefficients, model.coef_.T, rtol=1e-9)


@pytest.mark.parametrize(("targets", "y"), [(Numbers(), Y), (Labels(), LABELS)])
def test_all_sources_agree(targets, y):
    table = validated(problem(targets), ArrayRows(Block(X, y, WEIGHTS)))
    items = [(X[i : i + 25], y[i : i + 25], WEIGHTS[i : i + 25]) for i in (0, 25, 50)]
    chunks = (25, -1) if y.ndim == 2 else 25
    lazy = da.from_array(X, (25, -1)), da.from_array(y, chunks), da.from_array(WEIGHTS, 25)
    for rows in (StreamRows(items, read), StreamRows(iter(items), read), rows_of(*lazy, read)):
        found = validated(problem(targets), rows)
        for name in ("squared_error", "log_loss", "accuracy"):
            score, expected = getattr(found, name), getattr(table, name)
            if expected is None:
                assert score is None
            else:
                assert_allclose(
                    [score.mean, score.standard_error],
                    [expected.mean, expected.standard_error],
                    rtol=1e-6,
                )
        assert_allclose(np.sort(found.losses.values, axis=0), np.sort(table.losses.values, axis=0))


def test_differences_are_paired():
    rows = ArrayRows(Block(X, Y, None))
    worse = QuadratureFeatures(Gaussian(1e-3), n_components=16, random_state=0).fit(X)
    one, other = (validated(problem(Numbers(), features=f), rows) for f in (FEATURES, worse))
    differences = one.losses.values[:, 0] - other.losses.values[:, 0]
    found = one.difference(other)
    assert found.mean == pytest.approx(differences.mean())
    assert found.standard_error == pytest.approx(differences.std(ddof=1) / np.sqrt(60))
    assert found.mean == pytest.approx(one.squared_error.mean - other.squared_error.mean)
    with pytest.raises(ValueError, match="different rows"):
        one.difference(validated(problem(Numbers()), ArrayRows(Block(X[:50], Y[:50], None))))


def test_a_solver_without_posterior_is_rejected():
    with pytest.raises(ValueError, match=r"'cg' has no posterior.*solver='normal'"):
        validated(problem(Numbers()), ArrayRows(Block(X, Y, None)), solver=ConjugateGradients())
