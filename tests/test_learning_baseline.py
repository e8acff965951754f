"""Test gains over a constant, and tables on which a learned kernel could overfit."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from quadfeat import QuadratureFeatures, QuadratureRidge, QuadratureRidgeClassifier
from quadfeat.data.blocks import Block
from quadfeat.data.rows import ArrayRows
from quadfeat.kernels import Gaussian
from quadfeat.learning.baseline import gain_over_constant
from quadfeat.solvers import Labels, Numbers, Penalty, Problem, validated
from quadfeat.solvers.targets import KeptRows
from slow import repeats

N_ROWS = 80
RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, (N_ROWS, 2))
SIGNAL = np.column_stack([np.sin(2.0 * X[:, 0]), X[:, 1] ** 2]) + 0.2 * RNG.standard_normal((80, 2))
NOISE = RNG.standard_normal((N_ROWS, 2))
WEIGHTS = RNG.choice([0.5, 1.0, 2.0], N_ROWS)
FEATURES = QuadratureFeatures(Gaussian(0.5), n_components=16, random_state=0).fit(X)


def validation_of(targets, y, weights=None, judging=None):
    problem = Problem(FEATURES.map_, targets, Penalty.of(0.3, None), True)
    rows = ArrayRows(Block(X, y, weights))
    return validated(problem, rows, judging=judging)


def kept(validation, targets):
    return targets.kept(validation.solution.summary)


def refitted_errors(y):
    """Return the error of each row under a model that is fitted without it."""
    errors = []
    for row in range(N_ROWS):
        others = np.delete(np.arange(N_ROWS), row)
        model = QuadratureRidge(features=FEATURES, alpha=0.3).fit(X[others], y[others])
        errors.append(y[row] - model.predict(X[row : row + 1])[0])
    return np.array(errors)


def relative(squares):
    """Return squared errors, averaged over outputs independently of their units."""
    variances = SIGNAL.var(axis=0)
    return np.mean(squares / variances, axis=1) * variances.mean()


class TestNumbers:
    def test_without_weights(self):
        """The constant is the mean of the other rows."""
        validation = validation_of(Numbers(), SIGNAL)
        others = (SIGNAL.sum(axis=0) - SIGNAL) / (N_ROWS - 1)
        constant = relative((SIGNAL - others) ** 2)
        gains = constant - relative(refitted_errors(SIGNAL) ** 2)
        found = gain_over_constant(validation, kept(validation, Numbers()))
        assert found.mean == pytest.approx(gains.mean(), rel=1e-6)
        error = gains.std(ddof=1) / np.sqrt(N_ROWS)
        assert found.standard_error == pytest.approx(error, rel=1e-6)

    def test_weights(self):
        validation = validation_of(Numbers(), SIGNAL, WEIGHTS)
        rows = kept(validation, Numbers())
        mean = np.average(SIGNAL, axis=0, weights=WEIGHTS)
        units = validation.solution.posterior.relative_units
        constant = np.mean((rows.targets - mean) ** 2 / units, axis=1)
        gains = constant * (N_ROWS / (N_ROWS - 1)) ** 2 - validation.losses.values[:, 0]
        found = gain_over_constant(validation, rows)
        assert found.mean == pytest.approx(np.average(gains, weights=rows.weights), rel=1e-9)

    def test_judging_rows(self):
        half = slice(N_ROWS // 2, None)
        judging = ArrayRows(Block(X[half], SIGNAL[half], None))
        validation = validation_of(Numbers(), SIGNAL, judging=judging)
        rows = KeptRows(X[half], SIGNAL[half], np.ones(N_ROWS // 2))
        mean = SIGNAL[half].mean(axis=0)
        constant = relative((SIGNAL[half] - mean) ** 2) * (N_ROWS / (N_ROWS - 1)) ** 2
        gains = constant - relative(refitted_errors(SIGNAL)[half] ** 2)
        found = gain_over_constant(validation, rows)
        assert found.mean == pytest.approx(gains.mean(), rel=1e-6)
        error = gains.std(ddof=1) / np.sqrt(N_ROWS // 2)
        assert found.standard_error == pytest.approx(error, rel=1e-6)

    def test_signal_and_noise(self):
        for y, least, expected in ((SIGNAL, 3.0, True), (NOISE, 1.0, False)):
            validation = validation_of(Numbers(), y)
            rows = kept(validation, Numbers())
            assert gain_over_constant(validation, rows).is_clear(least) is expected

    @pytest.mark.parametrize("n_rows", [80, 200])
    def test_a_large_gain_needs_fewer_standard_errors(self, n_rows):
        """One huge error makes the standard error large, but hardly changes the gain."""
        rng = np.random.default_rng(1)
        A = rng.uniform(-2.0, 2.0, (n_rows, 2))
        y = np.exp(3.0 * np.cos(2.0 * A[:, 0]))
        rows = ArrayRows(Block(A, y, None))
        features = QuadratureFeatures(Gaussian(0.5), n_components=64, random_state=0).fit(A)
        problem = Problem(features.map_, Numbers(), Penalty.of(1e-3, None), True)
        validation = validated(problem, rows)
        some = kept(validation, Numbers())
        gain = gain_over_constant(validation, some)
        least = 1.5 * gain.mean / gain.standard_error  # more than the gain has
        assert gain.is_clear(least) is (n_rows == 200)


class TestClasses:
    labels = (X[:, 0] + 0.2 * NOISE[:, 0] > 0.0).astype(int) + (X[:, 1] > 1.0)

    @pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weights"])
    def test_the_constant_is_the_frequency_of_the_class(self, weights):
        validation = validation_of(Labels(), self.labels, weights)
        rows = kept(validation, Labels())
        counts = np.ones(N_ROWS) if weights is None else weights
        frequencies = np.array([counts[self.labels == one].sum() for one in range(3)])
        frequencies /= counts.sum()
        gains = -np.log(frequencies[rows.labels]) - validation.losses.values[:, 1]
        found = gain_over_constant(validation, rows)
        assert found.mean == pytest.approx(np.average(gains, weights=rows.weights), rel=1e-9)
        entropy = -frequencies @ np.log(frequencies)
        assert found.mean == pytest.approx(entropy - validation.log_loss.mean, rel=1e-9)
        if weights is None:
            error = gains.std(ddof=1) / np.sqrt(N_ROWS)
            assert found.standard_error == pytest.approx(error, rel=1e-9)

    @pytest.mark.filterwarnings("error")
    def test_a_class_may_have_no_rows(self):
        first = self.labels < 2
        for labels in (self.labels, 2 - self.labels):  # the last class or the first class is empty
            judging = ArrayRows(Block(X[first], labels[first], None))
            validation = validation_of(Labels(), labels, judging=judging)
            targets = Labels().final(labels[first], validation.solution.summary)
            rows = KeptRows(X[first], targets, np.ones(first.sum()), labels[first])
            share = np.mean(self.labels[first] == 0)
            entropy = -share * np.log(share) - (1.0 - share) * np.log(1.0 - share)
            found = gain_over_constant(validation, rows)
            assert found.mean == pytest.approx(entropy - validation.log_loss.mean, rel=1e-9)

    def test_signal_and_noise(self):
        noise = (NOISE[:, 0] > 0).astype(int)
        for y, least, expected in ((self.labels, 3.0, True), (noise, 1.0, False)):
            validation = validation_of(Labels(), y)
            rows = kept(validation, Labels())
            assert gain_over_constant(validation, rows).is_clear(least) is expected


class TestSmallTables:
    """Test that a kernel learned from few rows does not win by overfitting."""

    @pytest.mark.parametrize("seed", repeats(range(4)))
    @pytest.mark.parametrize("load", [load_wine, load_breast_cancer])
    def test_at_most_slightly_worse_than_the_default_kernel(self, load, seed):
        A, b = load(return_X_y=True)
        train, test, labels, truth = train_test_split(A, b, random_state=seed, stratify=b)
        options = {"n_components": 128, "random_state": 0}
        found = QuadratureRidgeClassifier(**options).fit(train, labels)
        usual = make_pipeline(StandardScaler(), QuadratureRidgeClassifier("gaussian", **options))
        usual.fit(train, labels)
        wrong, least = ((one.predict(test) != truth).sum() for one in (found, usual))
        assert wrong <= least + 3
