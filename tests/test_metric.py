"""Test kernels with a full metric: Gram matrices, maps, models and gradients."""

import pickle

import dask
import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.gaussian_process import kernels as gaussian_process
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

from quadfeat import (
    QuadratureFeatures,
    QuadratureRidge,
    QuadratureRidgeClassifier,
    grow,
    load,
    save,
)
from quadfeat.engine import core
from quadfeat.kernels import (
    ArcCosine,
    Gaussian,
    Laplacian,
    Matern,
    Metric,
    PointwiseNonlinear,
    RationalQuadratic,
)
from quadfeat.maps import MetricMap, QuadratureMap
from quadfeat.maps.metric import map_of
from quadfeat.rules import MonteCarlo, QuasiMonteCarlo, SphericalRadial, as_rule

D, R = 6, 4
rng = np.random.default_rng(0)
X = rng.standard_normal((300, D))
A = rng.standard_normal((R, D)) / 2
C = rng.standard_normal(D)
TRANSFORMED = (X - C) @ A.T
Y = np.sin(TRANSFORMED[:, 0]) + TRANSFORMED[:, 1]
KERNELS = [
    Gaussian(0.5),
    Gaussian(),
    Gaussian(np.linspace(0.1, 1.0, R)),
    Matern(1.5),
    RationalQuadratic(3.0),
    Laplacian(0.3),
    ArcCosine(0),
    ArcCosine(1),
    ArcCosine(2, length_scale=2.0),
]


def metric_features(base=None, matrix=A, center=C, **options):
    kernel = Metric(Gaussian(0.5) if base is None else base, matrix, center=center)
    options = {"n_components": 65, "rule": "orf", "random_state": 3} | options
    return QuadratureFeatures(kernel, **options)


class TestKernel:
    def test_it_equals_the_scikit_learn_kernel_of_transformed_rows(self):
        Z, W = TRANSFORMED[:20], TRANSFORMED[20:50]
        for kernel, expected in (
            (Gaussian(0.5), rbf_kernel(Z, W, gamma=0.5)),
            (Laplacian(0.3), laplacian_kernel(Z, W, gamma=0.3)),
            (Matern(1.5, length_scale=2.0), gaussian_process.Matern(2.0, nu=1.5)(Z, W)),
        ):
            assert_allclose(Metric(kernel, A, center=C)(X[:20], X[20:50]), expected, atol=1e-13)

    def test_it_measures_distances_by_its_metric(self):
        kernel = Metric(Gaussian(0.5), A, center=C)
        distances = cdist(X[:20], X[20:50], "mahalanobis", VI=kernel.metric)
        assert_allclose(kernel.metric, A.T @ A)
        assert_allclose(kernel(X[:20], X[20:50]), np.exp(-0.5 * distances**2), atol=1e-13)

    def test_a_diagonal_matrix_is_a_scale_for_each_input(self):
        scales = np.array([0.5, 1.0, 2.0, 3.0, 0.1, 7.0])
        kernel = Metric(Matern(1.5, length_scale=1.0), np.diag(1 / scales))
        assert_allclose(kernel(X), Matern(1.5, length_scale=scales)(X), atol=1e-13)

    @pytest.mark.parametrize("base", KERNELS, ids=repr)
    def test_gram_pairs_and_resolve_equal_those_of_transformed_rows(self, base):
        kernel = Metric(base, A, center=C).resolve(X)
        expected = base.resolve(TRANSFORMED)
        assert repr(kernel.kernel) == repr(expected)
        assert_allclose(kernel(X), expected(TRANSFORMED), rtol=1e-10, atol=1e-12)
        assert_allclose(
            kernel.pairs(X[:9], X[9:18]),
            expected.pairs(TRANSFORMED[:9], TRANSFORMED[9:18]),
            atol=1e-12,
        )
        assert_allclose(kernel(sparse.csr_matrix(X)), kernel(X), rtol=1e-10, atol=1e-7)
        assert kernel(X.astype(np.float32)).dtype == np.float32
        assert kernel.is_stationary == base.is_stationary

    def test_weights_count_in_the_scale(self):
        weights = rng.integers(0, 3, len(X))
        kernel = Metric("gaussian", A, center=C)
        found = kernel.resolve(X, weights).kernel.gamma
        assert found == pytest.approx(kernel.resolve(np.repeat(X, weights, axis=0)).kernel.gamma)
        assert found != kernel.resolve(X).kernel.gamma

    def test_parameters(self):
        kernel = Metric(Gaussian(0.5), A, center=C)
        assert kernel.get_params()["kernel__gamma"] == 0.5
        kernel.set_params(kernel__gamma=2.0)
        assert kernel.kernel.gamma == 2.0
        other = clone(kernel)
        assert other.matrix is not A
        assert_array_equal(other(X), kernel(X))
        assert_array_equal(pickle.loads(pickle.dumps(kernel))(X), kernel(X))
        lists = Metric("gaussian", A.tolist(), center=C.tolist()).set_params(kernel=Gaussian(2.0))
        assert_array_equal(lists(X), kernel(X))

    def test_a_fit_keeps_a_copy_of_the_matrix(self):
        matrix = A.copy()
        features = metric_features(matrix=matrix).fit(X)
        expected = features.transform(X)
        matrix[:] = 0.0
        assert_array_equal(features.transform(X), expected)

    @pytest.mark.parametrize(
        ("matrix", "center", "error", "message"),
        [
            (np.ones(3), None, ValueError, r"matrix has shape \(3,\): pass a matrix of shape"),
            (np.ones((0, 3)), None, ValueError, r"matrix has shape \(0, 3\).*at least one row"),
            ([[1.0, np.nan]], None, ValueError, r"matrix=\[\[1\.0, nan\]\].*pass finite numbers"),
            ([["a"]], None, TypeError, r"matrix=\[\['a'\]\] is not valid: pass a matrix"),
            ([[1.0], [1.0, 2.0]], None, TypeError, r"matrix=.* is not valid: pass a matrix"),
            (None, None, TypeError, r"matrix=None is not valid: pass a matrix"),
            (np.ones((2, 3)), np.ones(2), ValueError, r"center has shape \(2,\) and matrix has 3"),
            (np.ones((2, 3)), [1, np.inf, 0], ValueError, r"center=.*pass finite numbers"),
        ],
    )
    def test_invalid_matrices(self, matrix, center, error, message):
        kernel = Metric(Gaussian(1.0), matrix, center=center)
        for use in (
            lambda: kernel(np.ones((4, 3))),
            lambda: kernel.resolve(np.ones((4, 3))),
            lambda: QuadratureFeatures(kernel, n_components=8).fit(np.ones((4, 3))),
        ):
            with pytest.raises(error, match=message):
                use()

    def test_other_errors(self):
        kernel = Metric("gaussian", A)
        for use in (kernel.resolve, QuadratureFeatures(kernel).fit, Metric(Gaussian(1.0), A)):
            with pytest.raises(ValueError, match="matrix has 6 columns and X has 5: pass a matrix"):
                use(X[:, :5])
        with pytest.raises(ValueError, match=r"kernel=Metric.*pass its inner kernel, and the prod"):
            Metric(Metric(Gaussian(1.0), A), A.T)(X)
        with pytest.raises(ValueError, match=r"kernel='gausian' is not known.*Did you mean"):
            Metric("gausian", A)(X)
        with pytest.raises(TypeError, match=r"kernel=3 is not valid: pass an object such as"):
            Metric(3, A)(X)
        with pytest.raises(ValueError, match=r"gamma='scale' of Gaussian depends on the data"):
            kernel(X)
        with pytest.raises(ValueError, match=r"multiplies inputs by a matrix, .*use kernel.scaled"):
            kernel.input_factor(D)
        with pytest.raises(ValueError, match="product of matrix and X is beyond the range"):
            Metric(Gaussian(1.0), A * 1e200)(X * 1e200)
        with pytest.raises(ValueError, match=r"has no scale that can be learned.*kernel__gamma"):
            QuadratureRidge(kernel, alpha=1.0, lengthscales="ard").fit(X, Y)
        with pytest.raises(ValueError, match=r"does not support Laplacian.*use MonteCarlo"):
            metric_features(Laplacian(1.0), rule="sr33").fit(X)


class TestMap:
    @pytest.mark.parametrize("base", KERNELS, ids=repr)
    @pytest.mark.parametrize("rule", ["rff", "halton", "sr33"])
    def test_features_equal_those_of_transformed_rows(self, base, rule):
        if rule == "sr33" and repr(base).startswith("Laplacian"):
            return
        features = metric_features(base, rule=rule).fit(X)
        plain = QuadratureFeatures(base, rule=rule, n_components=65, random_state=3)
        plain.fit(TRANSFORMED)
        assert_allclose(features.transform(X), plain.transform(TRANSFORMED), atol=1e-9)
        assert_array_equal(features.nodes_.frequencies(), plain.nodes_.frequencies())
        assert repr(features.rule_) == repr(plain.rule_)
        error = features.approximation_error_.value
        assert error == pytest.approx(plain.approximation_error_.value, rel=1e-6)
        gram = features.approximate_kernel(X[:30])
        assert_allclose(gram, plain.approximate_kernel(TRANSFORMED[:30]), atol=1e-9)

    @pytest.mark.parametrize(
        "rule",
        ["orf", "rom", "sorf", "sobol", "gauss-hermite", "fastfood", SphericalRadial(tilt="fixed")],
    )
    @pytest.mark.parametrize("rows", [1, 3, 9])
    def test_every_rule_and_rank(self, rule, rows):
        matrix = rng.standard_normal((rows, D)) / 2
        transformed = (X - C) @ matrix.T
        options = {"rule": rule, "n_components": 90}
        features = metric_features(matrix=matrix, **options).fit(X)
        plain = QuadratureFeatures(Gaussian(0.5), random_state=3, **options).fit(transformed)
        assert_allclose(features.transform(X), plain.transform(transformed), atol=1e-9)
        assert features.nodes_.directions.d == rows
        assert features.n_features_in_ == D

    def test_the_estimate_is_unbiased(self):
        pair = X[:2]
        kernel = Metric(Gaussian(0.5), A, center=C)
        exact = kernel(pair)[0, 1]
        found = []
        for _ in range(400):
            nodes = as_rule("orf").draw(R, 16, Gaussian(0.5), rng)
            left, right = map_of(kernel, nodes).columns(pair)
            found.append(left @ right)
        assert abs(np.mean(found) - exact) < 4 * np.std(found) / np.sqrt(len(found))

    def test_auto(self):
        features = metric_features(rule="auto", n_components=64).fit(X)
        assert len(features.candidates_) > 3
        chosen = QuadratureFeatures(Gaussian(0.5), n_components=64, random_state=3).fit(TRANSFORMED)
        expected = {type(candidate.rule) for candidate in chosen.candidates_}
        assert {type(candidate.rule) for candidate in features.candidates_} == expected
        # The two fits sample different rows of the same table.
        assert_allclose(features.candidates_[0].error, chosen.candidates_[0].error, rtol=0.1)
        enough = metric_features(rule="auto", n_components="auto", tol=0.2).fit(X)
        assert enough.kernel_error(X).value < 0.2
        assert enough.n_components_bound_ > enough.n_components_

    def test_reweight_and_grow(self):
        options = {"rule": "rff", "n_components": 64}
        features = metric_features(reweight=True, **options).fit(X)
        plain = QuadratureFeatures(Gaussian(0.5), reweight=True, random_state=3, **options)
        plain.fit(TRANSFORMED)
        assert_allclose(features.nodes_.weights, plain.nodes_.weights, rtol=1e-6)
        assert features.nodes_.weights.std() > 0
        small = metric_features(**options).fit(X)
        large = grow(small, 256)
        assert isinstance(large.map_, MetricMap)
        assert_allclose(large.transform(X)[:, :64], small.transform(X) / 2)
        assert large.kernel_error(X).value < small.kernel_error(X).value

    def test_the_error_is_measured_with_the_metric(self):
        features = metric_features(n_components=128).fit(X)
        Z, exact = features.transform(X), Metric(Gaussian(0.5), A)(X)
        found = features.kernel_error(X, n_pairs=10**6)
        expected = np.linalg.norm(Z @ Z.T - exact) / np.linalg.norm(exact)
        assert float(found) == pytest.approx(expected)
        assert_allclose(features.kernel_(X), exact, atol=1e-12)
        assert_allclose(features.kernel_.metric, A.T @ A)

    def test_saved_and_pickled(self, tmp_path):
        for rule in ("sr33", "auto"):
            features = metric_features("matern52", rule=rule).fit(X)
            save(features, tmp_path / "features")
            copies = [load(tmp_path / "features"), pickle.loads(pickle.dumps(features))]
            for copy in copies:
                assert_array_equal(copy.transform(X), features.transform(X))
                assert copy.fingerprint() == features.fingerprint()
                assert_array_equal(copy.kernel_.matrix, A)
                assert_array_equal(copy.kernel_.center, C)

    def test_a_file_with_inconsistent_parts_is_rejected(self, tmp_path):
        features = metric_features().fit(X)
        inner = features.map_.inner
        for projection, message in (
            (Metric("gaussian", A[:2]).projection, "matrix of map_ has 2 rows, but its nodes have"),
            (Metric("gaussian", A[:, :5]).projection, "n_features_in_ is 6, but map_ is for 5"),
        ):
            features.map_ = MetricMap(projection, inner)
            with pytest.raises(ValueError, match=message):
                save(features, tmp_path / "features")

    def test_fingerprints(self):
        first = metric_features().fit(X).fingerprint()
        assert metric_features().fit(X[::-1]).fingerprint() == first
        zero, none = (metric_features(center=c).fit(X).fingerprint() for c in (np.zeros(D), None))
        assert zero == none
        nudged = A.copy()
        nudged[0, 0] = np.nextafter(nudged[0, 0], 1.0)
        others = [
            metric_features(matrix=nudged),
            metric_features(center=None),
            metric_features(random_state=4),
            metric_features(Gaussian(0.6)),
        ]
        assert len({first, *(other.fit(X).fingerprint() for other in others)}) == 5
        plain = QuadratureFeatures(Gaussian(0.5), rule="orf", n_components=65, random_state=3)
        identity = metric_features(matrix=np.eye(D), center=None).fit(X)
        assert_allclose(identity.transform(X), plain.fit(X).transform(X), atol=1e-13)

    def test_light_maps(self):
        features = metric_features(rule="rff", n_components=4000).fit(X)
        light = features.map_.light()
        sizes = [len(pickle.dumps(thing)) for thing in (light, features.map_)]
        assert sizes[0] < sizes[1] / 5
        assert light.unpacked().fingerprint() == features.fingerprint()


class TestRows:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize(("d", "r"), [(D, R), (50, 45), (150, 3)])
    def test_columns_do_not_depend_on_batches_or_threads(self, dtype, d, r):
        rows = rng.standard_normal((700, d)).astype(dtype)
        matrix = rng.standard_normal((r, d)) / d
        features = metric_features(matrix=matrix, center=np.ones(d), rule="sr33")
        features.fit(rows)
        expected = features.transform(rows)
        assert expected.dtype == dtype
        for size in (1, 7, 16, 100, 333):
            parts = [
                features.transform(rows[i : i + size])
                for i in range(0, 700 if size > 1 else 9, size)
            ]
            assert_array_equal(np.concatenate(parts), expected[: sum(map(len, parts))])
        for n_jobs in (2, 3, -1):
            features.n_jobs = n_jobs
            assert_array_equal(features.transform(rows), expected)

    def test_blocks_of_the_map_do_not_change_columns(self, monkeypatch):
        features = metric_features(rule="sr33").fit(X)
        expected = features.transform(X)
        for entries in (1, 60, 1000):
            monkeypatch.setattr("quadfeat.maps.metric.ENTRIES_PER_BLOCK", entries)
            assert_array_equal(features.transform(X), expected)
            V = rng.standard_normal((65, 3))
            assert_allclose(features.map_.multiply(X, V), expected @ V)
            U, weights = rng.standard_normal((300, 2)), rng.random(300)
            assert_allclose(features.map_.transpose_multiply(X, U), expected.T @ U, atol=1e-12)
            product = expected.T @ (weights[:, None] * (expected @ V))
            assert_allclose(features.map_.normal_multiply(X, V, weights), product, atol=1e-12)
            blocks = [Z.copy() for _, Z in features.map_.in_float64(X)]
            assert_array_equal(np.concatenate(blocks), expected)

    def test_sparse_rows(self):
        rows = sparse.random(200, 80, density=0.05, format="csr", random_state=0)
        matrix = rng.standard_normal((5, 80))
        for center in (None, rng.standard_normal(80)):
            features = metric_features(matrix=matrix, center=center, rule="sr33").fit(rows)
            dense = features.transform(rows.toarray())
            assert_allclose(features.transform(rows), dense, atol=1e-12)
            parts = [features.transform(rows[i : i + 33]) for i in range(0, 200, 33)]
            assert_array_equal(np.concatenate(parts), features.transform(rows))
            single = features.transform(rows.astype(np.float32))
            assert single.dtype == np.float32
            assert_allclose(single, dense, atol=1e-5)
            V = rng.standard_normal((65, 2))
            assert_allclose(features.map_.multiply(rows, V), dense @ V, atol=1e-11)

    def test_a_center_keeps_the_digits_of_float32_rows(self):
        offset = np.full(D, 3e4)
        far = (X + offset).astype(np.float32)
        exact = Metric(Gaussian(0.5), A)(far.astype(np.float64))
        with_center = metric_features(center=offset, rule="halton", n_components=512).fit(far)
        Z = with_center.transform(far)
        accurate = with_center.transform(far.astype(np.float64))
        assert np.abs(Z - accurate).max() < 1e-6
        assert np.linalg.norm(Z @ Z.T - exact) < 0.3 * np.linalg.norm(exact)
        without = metric_features(center=None, rule="halton", n_components=512).fit(far)
        lost = np.abs(without.transform(far) - without.transform(far.astype(np.float64))).max()
        assert lost > 100 * np.abs(Z - accurate).max()

    def test_cancellation_in_the_product_is_exact_in_float32(self):
        # Differences of large columns are exact in float64.
        rows = np.float32(1e6) + np.arange(24, dtype=np.float32).reshape(12, 2) ** 2
        features = metric_features(matrix=[[1.0, -1.0]], center=None, rule="halton").fit(rows)
        difference = (rows[:, :1] - rows[:, 1:]).astype(np.float64)
        plain = QuadratureFeatures(Gaussian(0.5), rule="halton", n_components=65, random_state=3)
        plain.fit(difference)
        assert_allclose(features.transform(rows), plain.transform(difference), atol=2e-5)

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_rows_that_are_not_finite_are_rejected(self, value):
        features = metric_features(matrix=np.eye(1, D)).fit(X)  # ignores all columns but one
        bad = X.copy()
        bad[200, 3] = value
        message = "Input X contains (NaN|infinity)"
        for use in (
            features.fit,
            features.transform,
            features.kernel_,
            lambda rows: features.transform(sparse.csr_matrix(rows)),
            lambda rows: features.map_.multiply(rows, np.ones((65, 1))),
            lambda rows: features.map_.gradients(rows, np.ones(65)),
        ):
            with pytest.raises(ValueError, match=message):
                use(bad)

    def test_rows_out_of_range_are_rejected(self):
        features = metric_features(matrix=A * 1e30, center=None).fit(X)
        message = "product with the matrix of the kernel is beyond the range of float32: rescale X"
        with pytest.raises(ValueError, match=message):
            features.transform((X * 1e9).astype(np.float32))

    def test_numpy_gives_the_same_results_as_the_native_core(self, monkeypatch):
        features = metric_features(rule="sr33").fit(X)
        expected = features.transform(X)
        monkeypatch.setattr(core, "CORE", "numpy")
        found = features.transform(X)
        assert_allclose(found, expected, atol=1e-13)
        projected = [
            np.concatenate(
                [
                    Z
                    for i in range(0, 300, size)
                    for _, Z in features.map_.projected(X[i : i + size])
                ]
            )
            for size in (37, 300)
        ]
        assert_array_equal(*projected)


class TestModels:
    def model(self, **options):
        kernel = Metric("gaussian", A, center=C)
        options = {"n_components": 64, "rule": "orf", "random_state": 3, "alpha": 0.1} | options
        return QuadratureRidge(kernel, gram_dtype="float64", **options)

    def plain(self, **options):
        return self.model(**options).set_params(kernel="gaussian")

    @pytest.mark.parametrize("solver", ["normal", "cg"])
    def test_predictions_equal_those_for_transformed_rows(self, solver):
        options = {"solver": solver, "tol": 1e-9}
        expected = self.plain(**options).fit(TRANSFORMED, Y).predict(TRANSFORMED)
        model = self.model(**options).fit(X, Y)
        assert_allclose(model.predict(X), expected, atol=1e-4)
        assert model.score(X, Y) > 0.9
        blocks = da.from_array(X, chunks=(70, D)), da.from_array(Y, chunks=70)
        with dask.config.set(scheduler="synchronous"):
            distributed = self.model(**options).fit(*blocks)
            assert_allclose(distributed.predict(X), expected, atol=1e-4)
            assert_allclose(distributed.predict(blocks[0]).compute(), expected, atol=1e-4)
        kernel = distributed.features_.kernel_
        assert kernel.kernel.gamma == pytest.approx(Gaussian().resolve(TRANSFORMED).gamma)

    def test_streams_and_batches(self):
        expected = self.model().fit(X, Y)
        options = {"n_jobs": 2}
        kernel = expected.features_.kernel_
        batches = self.model(**options).set_params(kernel=kernel)
        for i in range(0, 300, 100):
            batches.partial_fit(X[i : i + 100], Y[i : i + 100])
        assert_allclose(batches.predict(X), expected.predict(X), atol=1e-8)
        parts = [(X[i : i + 100], Y[i : i + 100]) for i in range(0, 300, 100)]
        stream = self.model(**options).set_params(kernel=kernel).fit(iter(parts))
        assert_allclose(stream.predict(X), expected.predict(X), atol=1e-8)
        halves = [self.model().set_params(kernel=kernel).fit(X[i::2], Y[i::2]) for i in (0, 1)]
        assert_allclose(halves[0].merge(halves[1]).predict(X), expected.predict(X), atol=1e-8)

    def test_deviations_and_files(self, tmp_path):
        model = self.model().fit(X, Y)
        mean, deviation = model.predict(X, return_std=True)
        expected = self.plain().fit(TRANSFORMED, Y).predict(TRANSFORMED, return_std=True)
        assert_allclose(mean, expected[0], atol=1e-7)
        assert_allclose(deviation, expected[1], atol=1e-7)
        save(model, tmp_path / "model")
        assert_array_equal(load(tmp_path / "model").predict(X), model.predict(X))

    @pytest.mark.parametrize("solver", ["normal", "cg"])
    def test_checkpoints(self, tmp_path, solver):
        expected = self.model(solver=solver).fit(X, Y).predict(X)
        options = {"solver": solver, "checkpoint": tmp_path / "checkpoint"}
        assert_array_equal(self.model(**options).fit(X, Y).predict(X), expected)
        assert_array_equal(self.model(**options).fit(X, Y).predict(X), expected)

    def test_classes(self):
        labels = np.where(Y.mean() < Y, "high", "low")
        kernel = Metric(Matern(1.5), A, center=C)
        for solver in ("normal", "cg"):
            model = QuadratureRidgeClassifier(kernel, alpha=1.0, n_components=64, solver=solver)
            assert model.fit(X.astype(np.float32), labels).score(X, labels) > 0.9


def differences(features, rows, coefficients, step):
    """Return gradients by central differences."""
    found = np.empty((len(rows), rows.shape[1]))
    for column in range(rows.shape[1]):
        shift = np.zeros(rows.shape[1])
        shift[column] = step
        ends = [features.map_.columns(rows + sign * shift) @ coefficients for sign in (1, -1)]
        found[:, column] = (ends[0] - ends[1]) / (2 * step)
    return found


class TestGradients:
    @pytest.mark.parametrize(
        ("kernel", "rule", "n_components"),
        [
            (Gaussian(0.3), "rff", 64),
            (Gaussian(0.3), "orf", 65),  # a single cosine with a phase
            (Gaussian(np.linspace(0.05, 1.0, D)), "sr33", 30),  # a column for the origin
            (Gaussian(0.3), "fastfood", 65),
            (Gaussian(), SphericalRadial(directions="orthoplex", remainder=0.3), 40),
            (Matern(1.5), "halton", 41),
            (Laplacian(0.1), MonteCarlo(remainder=0.5), 33),
            (RationalQuadratic(2.0), QuasiMonteCarlo(matched=True), 64),
            (ArcCosine(1), "sr33", 64),
            (ArcCosine(1, length_scale=np.linspace(1, 2, D)), "rff", 65),  # half of a pair
            (ArcCosine(2), "auto", 65),
            (ArcCosine(2), MonteCarlo(reflect=False), 33),
            (Metric(Gaussian(0.3), A, center=C), "sr33", 45),
            (Metric(Gaussian(np.linspace(0.1, 1, R)), A), "auto", 65),
            (Metric(Laplacian(0.3), A[:1]), "rff", 16),
            (Metric(ArcCosine(1), rng.standard_normal((9, D)), center=C), "orf", 65),
        ],
        ids=repr,
    )
    def test_gradients_agree_with_finite_differences(self, kernel, rule, n_components):
        features = QuadratureFeatures(
            kernel, rule=rule, n_components=n_components, random_state=0
        ).fit(X)
        b = rng.standard_normal(n_components)
        found = features.map_.gradients(X[:40], b)
        expected = differences(features, X[:40], b, 1e-6)
        assert_allclose(found, expected, atol=2e-7 * max(1.0, np.abs(expected).max()))
        assert np.abs(found).max() > 0.1
        assert found.dtype == np.float64
        assert_allclose(features.map_.gradients(sparse.csr_matrix(X[:40]), b), found, atol=1e-12)

    def test_remainders_have_their_own_weights(self):
        rule = SphericalRadial(directions="orthoplex", remainder=0.3)
        features = QuadratureFeatures(rule=rule, n_components=40, random_state=0).fit(X)
        assert features.nodes_.last_is_single
        assert features.nodes_.has_origin_column
        assert np.ptp(features.nodes_.weights) > 0

    def test_several_outputs_and_blocks(self, monkeypatch):
        for features in (
            metric_features().fit(X),
            QuadratureFeatures(n_components=65, random_state=0).fit(X),
        ):
            B = rng.standard_normal((65, 3))
            expected = np.stack([features.map_.gradients(X, b) for b in B.T], axis=1)
            assert expected.shape == (300, 3, D)
            monkeypatch.setattr("quadfeat.engine.core.ENTRIES_PER_BATCH", 1000)
            assert_allclose(features.map_.gradients(X, B), expected, atol=1e-12)
            assert features.map_.gradients(X, B[:, :1]).shape == (300, 1, D)
            assert features.map_.gradients(X[:0], B).shape == (0, 3, D)

    def test_a_model_that_ignores_directions_has_no_gradient_there(self):
        model = TestModels().model().set_params(kernel=Metric("gaussian", A[:1])).fit(X, Y)
        assert isinstance(model.map_, MetricMap)
        gradients = model.map_.gradients(X, model.coef_.ravel())
        assert np.linalg.matrix_rank(gradients.T @ gradients, tol=1e-8) == 1
        expected = A[0] / np.linalg.norm(A[0])
        directions = gradients / np.linalg.norm(gradients, axis=1, keepdims=True)
        assert_allclose(np.abs(directions @ expected), 1.0)

    @pytest.mark.parametrize("wrap", [lambda kernel: kernel, lambda kernel: Metric(kernel, A)])
    def test_errors(self, wrap):
        for kernel, message in (
            (ArcCosine(0), "ArcCosine.order=0. is a step function.*use order=1"),
            (PointwiseNonlinear(np.tanh), "tanh.* has no known derivative.*use a stationary"),
        ):
            features = QuadratureFeatures(wrap(kernel), n_components=8, rule="rff").fit(X[:9])
            with pytest.raises(ValueError, match=message):
                features.map_.gradients(X[:9], np.ones(8))
        features = QuadratureFeatures(wrap(Gaussian(1.0)), n_components=8, rule="rff").fit(X)
        assert isinstance(features.map_, (QuadratureMap, MetricMap))
        with pytest.raises(ValueError, match=r"coefficients has shape \(7,\): pass an array of"):
            features.map_.gradients(X, np.ones(7))
        with pytest.raises(ValueError, match="coefficients contains NaN or infinity"):
            features.map_.gradients(X, np.full(8, np.nan))
