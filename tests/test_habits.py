"""Test habits of scikit-learn users: they work, or the error names the fix."""

import inspect
import pickle

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import loguniform
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import quadfeat
from quadfeat import QuadratureFeatures, QuadratureRidge, QuadratureRidgeClassifier
from quadfeat.kernels import ArcCosine, Gaussian, Laplacian, Matern, RationalQuadratic
from quadfeat.models import predictions

rng = np.random.default_rng(0)
X = rng.standard_normal((120, 3))
Y = np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(120)
LABELS = np.where(Y > 0, "high", "low")
OPTIONS = {"n_components": 32, "random_state": 0}
ESTIMATORS = [QuadratureFeatures, QuadratureRidge, QuadratureRidgeClassifier]
MODELS = ESTIMATORS[1:]


def targets(kind):
    return LABELS if kind is QuadratureRidgeClassifier else Y


class TestKernelParameters:
    @pytest.mark.parametrize("kind", ESTIMATORS)
    @pytest.mark.parametrize(
        ("name", "parameters", "expected"),
        [
            ("gaussian", {"kernel__gamma": 0.3}, Gaussian(0.3)),
            ("rbf", {"kernel__gamma": "auto"}, Gaussian("auto")),
            ("laplacian", {"kernel__gamma": 0.3}, Laplacian(0.3)),
            ("matern32", {"kernel__length_scale": 2.0}, Matern(1.5, length_scale=2.0)),
            (
                "matern52",
                {"kernel__nu": 0.5, "kernel__length_scale": 2.0},
                Matern(0.5, length_scale=2.0),
            ),
            ("rational-quadratic", {"kernel__alpha": 2.0}, RationalQuadratic(2.0)),
            ("arccos1", {"kernel__order": 0}, ArcCosine(0)),
        ],
    )
    def test_a_name_becomes_the_kernel(self, kind, name, parameters, expected):
        estimator = kind(name, **OPTIONS)
        assert estimator.set_params(**parameters) is estimator
        assert repr(estimator.kernel) == repr(expected)
        assert repr(clone(estimator)) == repr(estimator)
        for key, value in parameters.items():
            assert estimator.get_params()[key] == value

    def test_kernel_and_its_parameter_at_once(self):
        model = QuadratureRidge().set_params(kernel__gamma=0.2, kernel="gaussian", n_components=9)
        assert repr(model.kernel) == "Gaussian(gamma=0.2)"
        assert model.n_components == 9

    def test_an_object_is_changed_as_in_scikit_learn(self):
        kernel = Gaussian(1.0)
        assert QuadratureFeatures(kernel).set_params(kernel__gamma=2.0).kernel is kernel
        assert kernel.gamma == 2.0

    @pytest.mark.parametrize("kind", ESTIMATORS)
    def test_an_unknown_parameter_changes_nothing(self, kind):
        estimator = kind("gaussian")
        with pytest.raises(ValueError, match=r"Invalid parameter 'nu' for estimator Gaussian"):
            estimator.set_params(kernel__nu=1.5)
        assert estimator.kernel == "gaussian"
        with pytest.raises(ValueError, match="Did you mean 'gaussian'"):
            kind("gausian").set_params(kernel__gamma=0.1)

    @pytest.mark.parametrize("kind", MODELS)
    @pytest.mark.parametrize(
        ("parameter", "family"),
        [("gamma", "gaussian"), ("nu", "matern52"), ("alpha", "rational-quadratic")],
    )
    def test_auto_names_the_fix(self, kind, parameter, family):
        fix = f"Set kernel='{family}' as well"
        with pytest.raises(ValueError, match=rf"kernel__{parameter}=0.1 .*{fix}"):
            kind().set_params(**{f"kernel__{parameter}": 0.1})
        kind().set_params(**{f"kernel__{parameter}": 0.1, "kernel": family})

    @pytest.mark.parametrize("kind", MODELS)
    def test_grid_search(self, kind):
        grid = {"kernel__gamma": [1e-4, 0.3]}
        search = GridSearchCV(kind("gaussian", alpha=0.1, **OPTIONS), grid, cv=3)
        search.fit(X, targets(kind))
        assert search.best_params_ == {"kernel__gamma": 0.3}
        assert search.best_estimator_.kernel_.gamma == 0.3
        assert search.estimator.kernel == "gaussian"

    def test_pipelines_and_random_search(self):
        pipeline = Pipeline([("map", QuadratureFeatures("matern32", **OPTIONS)), ("fit", Ridge())])
        search = RandomizedSearchCV(
            pipeline,
            {"map__kernel__length_scale": loguniform(0.1, 10), "map__kernel__nu": [0.5, 1.5]},
            n_iter=3,
            cv=3,
            random_state=0,
        ).fit(X, Y)
        kernel = search.best_estimator_.named_steps["map"].kernel_
        assert kernel.length_scale == search.best_params_["map__kernel__length_scale"]
        assert kernel.nu == search.best_params_["map__kernel__nu"]
        assert pipeline.named_steps["map"].kernel == "matern32"

    def test_features_of_a_model(self):
        model = QuadratureRidge(features=QuadratureFeatures(**OPTIONS), alpha=1.0)
        model.set_params(features__kernel__gamma=0.7).fit(X, Y)
        assert model.kernel_.gamma == 0.7


class TestGamma:
    @pytest.mark.parametrize("kernel", [None, "gaussian", "rbf"])
    @pytest.mark.parametrize("kind", ESTIMATORS)
    def test_it_is_short_for_the_gaussian_kernel(self, kind, kernel):
        given = {} if kernel is None else {"kernel": kernel}
        short = kind(gamma=0.3, **given, **OPTIONS).fit(X, targets(kind))
        long = kind(Gaussian(0.3), **OPTIONS).fit(X, targets(kind))
        assert repr(short.kernel_) == "Gaussian(gamma=0.3)"
        assert short.map_.fingerprint() == long.map_.fingerprint()

    @pytest.mark.parametrize("gamma", ["scale", "auto", 0.3, np.array([0.1, 0.2, 0.3])], ids=str)
    def test_values_as_in_the_kernel(self, gamma):
        short = QuadratureFeatures(gamma=gamma, **OPTIONS).fit(X)
        long = QuadratureFeatures(Gaussian(gamma), **OPTIONS).fit(X)
        assert_array_equal(short.kernel_.gamma, long.kernel_.gamma)
        assert_array_equal(short.transform(X), long.transform(X))

    def test_it_sets_gamma_of_the_laplacian_kernel_too(self):
        features = QuadratureFeatures("laplacian", gamma=0.3, rule="rff", **OPTIONS).fit(X)
        assert repr(features.kernel_) == "Laplacian(gamma=0.3)"

    def test_one_line_replaces_a_sampler(self):
        arguments = {"gamma": 0.1, "n_components": 32, "random_state": 1}
        shapes = [
            make_pipeline(kind(**arguments), Ridge()).fit(X, Y)[0].transform(X).shape
            for kind in (RBFSampler, QuadratureFeatures)
        ]
        assert shapes[0] == shapes[1]

    @pytest.mark.parametrize("kind", ESTIMATORS)
    def test_errors_name_the_fix(self, kind):
        y = targets(kind)
        fix = r"gamma=0.1 .*kernel='matern32'.*Use kernel=Matern\(length_scale=1.0, nu=1.5\)"
        with pytest.raises(ValueError, match=fix):
            kind("matern32", gamma=0.1).fit(X, y)
        with pytest.raises(ValueError, match=r"gamma=0.1 .*kernel=Matern\(\).*Gaussian\(gamma=0.1"):
            kind(Matern(), gamma=0.1).fit(X, y)
        with pytest.raises(ValueError, match=r"gamma=-1 is not valid"):
            kind(gamma=-1).fit(X, y)
        with pytest.raises(ValueError, match=r"gamma='wide' is not known.* 'scale' or 'auto'"):
            kind(gamma="wide").fit(X, y)
        with pytest.raises(TypeError, match=r"kernel=3 is not valid|gamma=0.1 cannot be combined"):
            kind(3).fit(X, y)

    def test_features_replace_it(self):
        features = QuadratureFeatures(**OPTIONS)
        with pytest.raises(ValueError, match=r"gamma=0.1 has no effect, because features is given"):
            QuadratureRidge(gamma=0.1, features=features).fit(X, Y)

    def test_a_model_does_not_search(self, monkeypatch):
        monkeypatch.setattr("quadfeat.models.mapping.choose", None)
        model = QuadratureRidge(gamma=0.3, **OPTIONS).fit(X, Y)
        assert "The kernel was given as kernel=Gaussian(gamma=0.3)" in model.why_
        with pytest.raises(ValueError, match=r"time_limit=1\.0 has no effect"):
            QuadratureRidge(gamma=0.3, time_limit=1.0).fit(X, Y)

    def test_lengthscales_are_learned_from_it(self):
        model = QuadratureRidge(gamma=0.3, lengthscales="isotropic", **OPTIONS).fit(X, Y)
        assert len(model.candidates_) > 1

    @pytest.mark.parametrize("kind", ESTIMATORS)
    def test_clone_repr_pickle_and_files(self, kind, tmp_path):
        estimator = kind(gamma=0.3, **OPTIONS)
        assert repr(estimator) == f"{kind.__name__}(gamma=0.3, n_components=32, random_state=0)"
        assert estimator.get_params()["gamma"] == 0.3
        estimator.fit(X, targets(kind))
        quadfeat.save(estimator, tmp_path / "model")
        for again in (
            clone(estimator).fit(X, targets(kind)),
            pickle.loads(pickle.dumps(estimator)),
            quadfeat.load(tmp_path / "model"),
        ):
            assert again.gamma == 0.3
            assert again.map_.fingerprint() == estimator.map_.fingerprint()

    @pytest.mark.parametrize("kind", MODELS)
    def test_it_stays_the_same_while_rows_are_added(self, kind):
        model = kind(gamma=0.3, **OPTIONS).partial_fit(X, targets(kind))
        with pytest.raises(ValueError, match=r"gamma=0.4 has no effect .*Set it back to 0.3"):
            model.set_params(gamma=0.4).partial_fit(X, targets(kind))
        model.set_params(gamma=0.3).partial_fit(X, targets(kind))

    def test_grid_search(self):
        search = GridSearchCV(QuadratureRidge(**OPTIONS), {"gamma": [1e-4, 0.3]}, cv=3).fit(X, Y)
        assert search.best_params_ == {"gamma": 0.3}

    def test_dask_and_streams(self):
        blocks, y = da.from_array(X, chunks=(40, 3)), da.from_array(Y, chunks=40)
        for model in (
            QuadratureRidge(gamma=0.3, **OPTIONS).fit(blocks, y),
            QuadratureRidge(gamma=0.3, **OPTIONS).fit([(X[:60], Y[:60]), (X[60:], Y[60:])]),
        ):
            assert repr(model.kernel_) == "Gaussian(gamma=0.3)"


@parametrize_with_checks(
    [
        QuadratureFeatures(gamma=0.3, rule="rff", n_components=20),
        QuadratureRidge(gamma="scale", rule="rff", n_components=100, alpha=1.0),
        QuadratureRidgeClassifier(gamma=0.3, rule="rff", n_components=20, alpha=1.0),
    ]
)
def test_checks_of_scikit_learn_with_gamma(estimator, check):
    check(estimator)


class TestUnknownKeywords:
    @pytest.mark.parametrize("kind", ESTIMATORS)
    def test_the_error_names_the_class(self, kind):
        with pytest.raises(TypeError, match=rf"^{kind.__name__} has no parameter 'loss'"):
            kind(loss="huber")
        with pytest.raises(TypeError, match=r"'n_component'. Did you mean 'n_components'"):
            kind(n_component=100)
        with pytest.raises(TypeError, match=rf"{kind.__name__} has .* Choose from .*n_components"):
            kind(nonsense=1)
        with pytest.raises(TypeError, match=rf"{kind.__name__} takes one positional .* kernel"):
            kind("gaussian", 100)

        class Own(kind):
            pass

        with pytest.raises(TypeError, match=r"^Own has no parameter 'loss'"):
            Own(loss="huber")

    @pytest.mark.parametrize(
        ("keyword", "fix"),
        [
            ({"C": 10}, r"Set alpha instead"),
            ({"loss": "hinge"}, r"QuadratureFeatures\(\), SGDClassifier\(loss='hinge'\)"),
            ({"nu": 1.5}, r"kernel=Matern\(nu=1.5\)"),
            ({"length_scale": 2.0}, r"kernel=Matern\(length_scale=2.0\)"),
            ({"probability": True}, "predict_proba"),
        ],
        ids=str,
    )
    def test_the_error_names_the_fix(self, keyword, fix):
        with pytest.raises(TypeError, match=fix):
            QuadratureRidgeClassifier(**keyword)

    @pytest.mark.parametrize("kind", ESTIMATORS)
    def test_the_signature_stays(self, kind):
        parameters = inspect.signature(kind).parameters
        assert list(parameters)[:3] == ["kernel", "gamma", "n_components"]
        assert sorted(parameters) == sorted(kind().get_params(deep=False))


class TestNames:
    @pytest.mark.parametrize("kind", MODELS)
    def test_models_list_auto(self, kind):
        with pytest.raises(ValueError, match=r"Did you mean 'auto'\? Choose one of 'auto', 'gauss"):
            kind("Auto").fit(X, targets(kind))

    def test_the_map_names_the_models_that_support_auto(self):
        with pytest.raises(ValueError, match=r"'auto' needs targets.*QuadratureRidge.*'gaussian'"):
            QuadratureFeatures("auto").fit(X)


class TestCovariance:
    def model(self, y=Y, **parameters):
        options = {"alpha": 0.1, "gram_dtype": "float64"} | OPTIONS | parameters
        return QuadratureRidge(gamma=0.3, **options).fit(X, y)

    @pytest.mark.parametrize("intercept", [True, False])
    def test_it_agrees_with_the_posterior(self, intercept):
        model = self.model(fit_intercept=intercept)
        mean, covariance = model.predict(X[:9], return_cov=True)
        # The textbook formula, with an unpenalized column of ones.
        Z, new = model.features_.transform(X), model.features_.transform(X[:9])
        penalty = np.full(Z.shape[1], model.alpha_)
        if intercept:
            Z, new = np.c_[Z, np.ones(120)], np.c_[new, np.ones(9)]
            penalty = np.append(penalty, 0.0)
        expected = new @ np.linalg.solve(Z.T @ Z + np.diag(penalty), new.T)
        assert_allclose(covariance, model.noise_variance_ * expected, rtol=1e-6, atol=1e-9)
        assert_array_equal(covariance, covariance.T)
        assert_array_equal(mean, model.predict(X[:9]))

    def test_the_diagonal_is_the_variance(self):
        model = self.model()
        _, covariance = model.predict(X, return_cov=True)
        _, deviation = model.predict(X, return_std=True)
        assert_allclose(np.diag(covariance), deviation**2)
        _, single = model.predict(X.astype(np.float32), return_cov=True)
        assert_allclose(single, covariance, atol=1e-4)

    def test_outputs(self):
        model = self.model(np.c_[Y, 3 * Y, X[:, 2] ** 2])
        mean, covariance = model.predict(X[:7], return_cov=True)
        assert mean.shape == (7, 3)
        assert covariance.shape == (7, 7, 3)
        _, deviation = model.predict(X[:7], return_std=True)
        assert_allclose(np.einsum("iik->ik", covariance), deviation**2)

    def test_draws_have_this_covariance(self):
        model = self.model()
        _, covariance = model.predict(X[:3], return_cov=True)
        draws = model.sample_y(X[:3], 20_000, random_state=0)
        assert_allclose(np.cov(draws), covariance, rtol=0.1, atol=0.02 * covariance.max())

    def test_it_is_close_to_that_of_an_exact_gaussian_process(self):
        model = self.model(n_components=4000, fit_intercept=False)
        exact = GaussianProcessRegressor(
            RBF(length_scale=np.sqrt(1 / 0.6)), alpha=0.1, optimizer=None
        ).fit(X, Y)
        _, expected = exact.predict(X[:20], return_cov=True)
        _, found = model.predict(X[:20], return_cov=True)
        scaled = found / model.signal_variance_
        assert np.linalg.norm(scaled - expected) < 0.1 * np.linalg.norm(expected)

    def test_both_at_once_as_in_scikit_learn(self):
        with pytest.raises(RuntimeError, match="At most one of return_std or return_cov"):
            self.model().predict(X, return_std=True, return_cov=True)

    def test_large_or_distributed_input_is_rejected(self, monkeypatch):
        model = self.model()
        with pytest.raises(ValueError, match=r"matrix of 40000 x 40000 .*Pass fewer rows"):
            model.predict(np.zeros((40_000, 3)), return_cov=True)
        monkeypatch.setattr(predictions, "MOST_ENTRIES", 120 * (120 + 32) - 1)
        with pytest.raises(ValueError, match="matrix of 120 x 120"):
            model.predict(X, return_cov=True)
        with pytest.raises(ValueError, match="return_cov=True does not support Dask"):
            model.predict(da.from_array(X, chunks=40), return_cov=True)
        with pytest.raises(TypeError, match="return_cov='yes' is not valid"):
            model.predict(X, return_cov="yes")
        with pytest.raises(AttributeError, match=r"return_cov needs .*solver='cg'"):
            self.model(solver="cg").predict(X, return_cov=True)
        with pytest.raises(ValueError, match="all targets in y are equal"):
            self.model(np.ones(120)).predict(X, return_cov=True)


class TestOlderFiles:
    """Test files of formats before 5, which have no gamma."""

    @pytest.mark.parametrize("number", range(1, 5))
    @pytest.mark.parametrize("name", ["features", "ridge", "classifier"])
    def test_gamma_is_none(self, name, number, request):
        folder = request.path.parent / "fixtures"
        model = quadfeat.load(folder / f"{name}_format_{number}.quadfeat")
        assert model.gamma is None
        assert "gamma" not in repr(model)
        assert clone(model).gamma is None

    def test_rows_are_added_to_a_model_with_features_that_it_fitted(self):
        """The stored description of parameters has no gamma either."""
        features = QuadratureFeatures("gaussian", rule="rff", **OPTIONS)
        model = QuadratureRidge(alpha=1.0, features=features).fit(X, Y)
        state = model.__getstate__() | {"_quadfeat_format": 4}
        del state["gamma"]
        before = state["_fitted_with"]
        assert "'gamma': None, " in before["features"]
        state["_fitted_with"] = {
            name: text.replace("'gamma': None, ", "")
            for name, text in before.items()
            if name != "gamma"
        }
        again = QuadratureRidge.__new__(QuadratureRidge)
        again.__setstate__(state)
        assert again._fitted_with == before
        again.partial_fit(X, Y)
