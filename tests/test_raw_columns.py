"""Test warnings about columns that dominate the distances between rows because of their units."""

import os
import warnings
from pathlib import Path

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from quadfeat import QuadratureFeatures, QuadratureRidge, QuadratureRidgeClassifier
from quadfeat.kernels import ArcCosine, Gaussian, Laplacian, Matern, Metric
from quadfeat.maps.dominance import dominance

DATA = Path(os.environ.get("QUADFEAT_DATA", ""))
needs_data = pytest.mark.skipif(
    "QUADFEAT_DATA" not in os.environ, reason="needs QUADFEAT_DATA, a folder of datasets"
)


@pytest.fixture(autouse=True)
def synchronous():
    with dask.config.set(scheduler="synchronous"):
        yield


def raw(n_rows=300, factor=1e3):
    """Return a table of four columns, with large values in the third, and targets."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, 4)) * [1.0, 2.0, factor, 0.5] + 3.0
    return X, X[:, 0] + 0.1 * rng.standard_normal(n_rows)


def features(kernel="gaussian", **options):
    return QuadratureFeatures(kernel, **{"n_components": 16, "random_state": 0} | options)


def ridge(kernel="gaussian", **options):
    defaults = {"n_components": 16, "alpha": 1.0, "random_state": 0}
    return QuadratureRidge(kernel, **defaults | options)


def said(function):
    """Return the text of the single warning of a function."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    assert len(caught) == 1, [str(one.message) for one in caught]
    assert caught[0].category is UserWarning
    assert caught[0].filename == __file__  # the warning points to the user's line
    return str(caught[0].message)


class TestWarning:
    def test_names_the_index_the_share_and_the_fixes(self):
        message = said(lambda: features().fit(raw()[0]))
        assert "column 2 makes up over 99.95% of the squared distances" in message
        assert "3 of the 3 other columns have almost no effect" in message
        assert "Gaussian has one gamma for all columns" in message
        for way_out in ("StandardScaler", "one gamma per column", "kernel='auto'"):
            assert way_out in message

    def test_states_the_share(self):
        X = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 20.0], [0.0, -20.0]]) / [[4.0, 1.0]]
        share = 800.0 / (800.0 + 2.0 / 16.0)
        assert dominance(np.tile(X, (5, 1))).share == pytest.approx(share, rel=1e-14)
        X, _ = raw(2000, 50.0)
        variances = X.var(axis=0)
        expected = f"{variances[2] / variances.sum():.1%}"
        assert expected == "99.8%"
        assert f"column 2 makes up {expected} of" in said(lambda: features().fit(X))

    @pytest.mark.parametrize(
        "form",
        [np.asarray, np.float32, sparse.csr_matrix, sparse.csc_array, np.asfortranarray],
    )
    def test_dense_and_sparse(self, form):
        X, y = raw()
        assert "column 2 makes up" in said(lambda: features().fit(form(X)))
        assert "column 2 makes up" in said(lambda: ridge().fit(form(X), y))

    def test_sparse_zeros_count(self):
        X, _ = raw()
        X[::3] = 0.0
        whole, stored = dominance(X), dominance(sparse.csr_matrix(X))
        assert whole.share == pytest.approx(stored.share, rel=1e-12)
        assert whole.n_negligible == stored.n_negligible == 3

    def test_names_of_data_frames(self):
        X, y = raw()
        frame = pd.DataFrame(X, columns=["age", "height", "income", "ratio"])
        for fit in (features().fit, ridge().fit):
            assert "column 'income' makes up" in said(lambda fit=fit: fit(frame, y))
        given = QuadratureRidge(features=features(), alpha=1.0)
        assert "column 'income' makes up" in said(lambda: given.fit(frame, y))

    def test_streams_and_first_batches(self):
        X, y = raw()
        blocks = [(X[:100], y[:100]), (X[100:], y[100:])]
        assert "column 2 makes up" in said(lambda: ridge().fit(blocks))
        named = [(pd.DataFrame(A, columns=list("abcd")), b) for A, b in blocks]
        assert "column 'c' makes up" in said(lambda: ridge().fit(named))

        def in_batches():
            model = ridge()
            for A, b in blocks:
                model.partial_fit(A, b)

        assert "column 2 makes up" in said(in_batches)

    def test_dask(self):
        X, y = raw()
        A, b = da.from_array(X, chunks=(70, 2)), da.from_array(y, chunks=70)
        local = said(lambda: features().fit(X))
        assert said(lambda: features().fit(A)) == local
        assert said(lambda: ridge().fit(A, b)) == local
        frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcd")), npartitions=3)
        targets = dd.from_pandas(pd.Series(y), npartitions=3)
        for fit in (features().fit, ridge().fit):
            message = said(lambda fit=fit: fit(frame, targets))
            assert message == local.replace("column 2 ", "column 'c' ")

    @pytest.mark.parametrize(
        "kernel",
        [
            "gaussian",
            Gaussian(0.5),
            Gaussian("auto"),
            Matern(1.5),
            Matern(length_scale=2.0),
            Laplacian(),
            ArcCosine(1),
        ],
    )
    def test_kernels_with_one_scale(self, kernel):
        X, y = raw()
        assert "column 2 makes up" in said(lambda: features(kernel).fit(X))
        assert "column 2 makes up" in said(lambda: ridge(kernel).fit(X, y))

    def test_classifier(self):
        X, y = raw()
        model = QuadratureRidgeClassifier("gaussian", n_components=16, alpha=1.0)
        assert "column 2 makes up" in said(lambda: model.fit(X, y > y.mean()))

    def test_every_solver_and_rule_warns_once(self):
        X, y = raw()
        for options in ({"solver": "cg"}, {"solver": "normal"}, {"rule": "rff"}):
            assert "column 2 makes up" in said(lambda options=options: ridge(**options).fit(X, y))

    def test_as_an_error_leaves_the_object_unfitted(self):
        X, _ = raw()
        map_ = features()
        with pytest.raises(
            UserWarning, match="column 2 makes up"
        ):  # pytest turns warnings into errors
            map_.fit(X)
        assert not hasattr(map_, "map_")

    def test_some_columns_may_dominate_together(self):
        """Test a case like covtype, which has two distances in meters and 44 indicators."""
        rng = np.random.default_rng(0)
        X = np.hstack([rng.normal(size=(500, 2)) * [1500.0, 1300.0], rng.random((500, 9)) < 0.3])
        assert "column 0 makes up" in said(lambda: features().fit(X))
        found = dominance(X)
        assert 0.5 < found.share < 0.7
        assert (found.n_negligible, found.n_others) == (9, 10)


class TestCriterion:
    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
    @pytest.mark.parametrize("unit", [1e-150, 1e-9, 3.0, 1e150])
    def test_a_common_unit_changes_nothing(self, form, unit):
        for factor in (1e3, 1.0):
            X, _ = raw(factor=factor)
            here, there = dominance(form(X)), dominance(form(X * unit))
            if factor == 1.0:
                assert here is there is None
            else:
                assert here.share == pytest.approx(there.share, rel=1e-12)
                assert (here.column, here.n_negligible) == (there.column, there.n_negligible)

    def test_shifts_change_nothing(self):
        X, _ = raw()
        shift = np.array([1e6, -1e5, 1e4, 0.0])
        here, there = dominance(X), dominance(X + shift)
        assert here.share == pytest.approx(there.share, rel=1e-9)
        assert (here.column, here.n_negligible) == (there.column, there.n_negligible)
        balanced, _ = raw(factor=1.0)
        assert dominance(balanced + shift) is None  # means do not affect distances

    def test_order_of_columns(self):
        X, _ = raw()
        found = dominance(X[:, [2, 0, 1, 3]])
        assert found.column == 0
        assert found.share == pytest.approx(dominance(X).share, rel=1e-14)

    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
    def test_weights_count_as_copies(self, form):
        X, _ = raw(60, 40.0)
        counts = np.random.default_rng(1).integers(1, 5, 60)
        weighted = dominance(form(X), counts * 1.0)
        assert weighted.share == pytest.approx(dominance(form(np.repeat(X, counts, axis=0))).share)
        assert weighted.share != pytest.approx(dominance(form(X)).share, abs=1e-6)

    def test_rows_without_weight_are_ignored(self):
        X, y = raw(factor=1.0)
        X[0] = 1e6, 0.0, 0.0, 0.0
        weights = np.ones(len(X))
        assert "column 0 makes up" in said(lambda: features().fit(X, sample_weight=weights))
        weights[0] = 0.0
        features().fit(X, sample_weight=weights)
        ridge().fit(X, y, sample_weight=weights)

    def test_large_tables_are_sampled(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((50_001, 3)) * [1.0, 1e3, 1.0]
        weights = rng.random(50_001) + 0.1
        assert "column 1 makes up" in said(lambda: features().fit(X))
        assert "column 1 makes up" in said(lambda: features().fit(X, sample_weight=weights))

    def test_threshold_for_two_columns(self):
        """A second column is negligible if its scale is below about 1/11 of the first."""
        u = np.linspace(-1.0, 1.0, 1001)
        X = np.column_stack([u, np.roll(u, 333)])
        assert dominance(X * [10.0, 1.0]) is None
        found = dominance(X * [12.0, 1.0])
        assert found.column == 0
        assert found.share > 0.99

    def test_extreme_numbers(self):
        largest = np.finfo(np.float64).max
        X = np.array([[largest, 1.0], [-largest, 2.0], [0.0, 0.0]])
        assert dominance(np.tile(X, (7, 1))).column == 0
        tiny = np.array([[5e-324, 0.0], [0.0, 5e-324], [0.0, 0.0]])
        assert dominance(np.tile(tiny, (7, 1))) is None

    def test_few_rows_do_not_warn(self):
        X, _ = raw()
        assert dominance(X[:19]) is None
        assert dominance(X[:20]).column == 2


class TestSilence:
    """Fit without a warning. Pytest turns warnings into errors, so a fit is enough."""

    @pytest.mark.parametrize(
        "kernel",
        [
            Gaussian(gamma=[1.0, 0.25, 1e-6, 4.0]),
            Matern(length_scale=[1.0, 2.0, 1e3, 0.5]),
            Gaussian(gamma=[1.0, 1.0, 1.0, 1.0]),  # a scale for each column, even if they are equal
            Metric("gaussian", np.eye(4)),
            Metric(Gaussian(0.5), [[1.0, 0.5, 1e-3, 2.0]]),
        ],
    )
    def test_scales_for_columns(self, kernel):
        X, y = raw()
        features(kernel).fit(X)
        ridge(kernel).fit(X, y)

    @pytest.mark.parametrize("options", [{"kernel": "auto"}, {"lengthscales": "isotropic"}])
    def test_searches(self, options):
        X, y = raw()
        ridge(**options).fit(X, y)

    def test_fitted_features_are_used_as_they_are(self):
        X, y = raw()
        with pytest.warns(UserWarning, match="column 2 makes up"):
            fitted = features().fit(X)
        QuadratureRidge(features=fitted, alpha=1.0).fit(X, y)
        fitted.transform(X)

    def test_later_batches(self):
        X, y = raw(factor=1.0)
        model = ridge().partial_fit(X, y)
        model.partial_fit(X * [1.0, 1.0, 1e4, 1.0], y)

    @pytest.mark.parametrize("load", [load_wine, load_breast_cancer])
    def test_standardized_tables(self, load):
        X = load().data
        with pytest.warns(UserWarning, match="makes up"):
            features().fit(X)
        features().fit(StandardScaler().fit_transform(X))

    def test_standardized_heavy_tails(self):
        rng = np.random.default_rng(0)
        features().fit(StandardScaler().fit_transform(rng.standard_cauchy((3000, 2))))
        features().fit(StandardScaler().fit_transform(rng.lognormal(0.0, 3.0, (3000, 5))))

    def test_one_hot_columns(self):
        rng = np.random.default_rng(0)
        common, rare = rng.integers(0, 2, 2000), rng.zipf(2.0, 2000)
        X = OneHotEncoder().fit_transform(np.column_stack([common, rare]))
        assert X.shape[1] > 20
        features().fit(X)
        features().fit(X.toarray())
        numbers = rng.standard_normal((2000, 1))
        features().fit(np.hstack([numbers, X.toarray()]))
        # One common category and several very rare ones.
        X = np.zeros((2000, 30))
        X[::2, 0] = 1.0
        X[np.arange(29) * 7, np.arange(1, 30)] = 1.0
        assert X[:, 0].var() > 0.9 * X.var(axis=0).sum()
        features().fit(X)

    def test_images(self):
        features().fit(load_digits().data)

    @pytest.mark.parametrize(
        "X",
        [
            np.arange(50.0)[:, None] * 1e6,
            np.column_stack([np.arange(50.0), np.full(50, 7.0)]),
            np.column_stack([np.arange(50.0), 1e3 + 1e-13 * (np.arange(50) % 2)]),  # rounding
            np.ones((20, 3)),
            np.zeros((20, 3)),
            np.array([[1.0, 2000.0]]),
        ],
        ids=["one column", "constant", "rounding", "equal rows", "zeros", "one row"],
    )
    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
    def test_nothing_to_dominate(self, X, form):
        assert dominance(form(X)) is None
        features().fit(form(X))

    def test_constant_columns_have_no_share(self):
        X, _ = raw()
        wide = np.hstack([X, np.full((len(X), 40), 1e7)])
        found, alone = dominance(wide), dominance(X)
        assert found == alone


@needs_data
class TestTables:
    @pytest.mark.parametrize(
        ("name", "column"), [("california", 4), ("covtype", 5), ("house8L", 0), ("protein", 4)]
    )
    def test_raw(self, name, column):
        X = np.load(DATA / f"{name}.npz")["X"][:60_000]
        assert f"column {column} makes up" in said(lambda: features().fit(X))

    @pytest.mark.parametrize("name", ["mnist", "usps", "letter", "kin40k", "powerplant"])
    def test_comparable_columns(self, name):
        features().fit(np.load(DATA / f"{name}.npz")["X"][:5000])
