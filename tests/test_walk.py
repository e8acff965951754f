"""Test every public kernel, rule, rotation, map, solver and model in all common uses.

The tests go over ``__all__``: clone, repr, pickle, save and load, ``auto``, Dask. They include
registered user-defined classes.
"""

import inspect
import pickle
from abc import ABC
from dataclasses import dataclass, is_dataclass

import dask
import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse.linalg import LinearOperator, minres
from sklearn.base import BaseEstimator, TransformerMixin, clone, is_classifier
from sklearn.kernel_approximation import Nystroem

import quadfeat
from quadfeat import (
    KernelClassifier,
    KernelRegressor,
    LocalGaussianProcess,
    LocalGaussianProcessClassifier,
    QuadratureFeatures,
    QuadratureRidge,
    QuadratureRidgeClassifier,
    front_door,
    kernels,
    load,
    maps,
    rotations,
    rules,
    save,
    solvers,
)
from quadfeat.front_door import FeaturesCandidate
from quadfeat.io import register
from quadfeat.kernels import GammaKernel, IsotropicSpectrum, Kernel, SeparationKernel
from quadfeat.maps import FeatureMap, MetricMap, QuadratureMap, TransformerMap
from quadfeat.rotations import DrawnMatrices, Hadamard, Rotation
from quadfeat.rules import DenseDirections, Draw, RadialRule, Rule, SphericalRadial
from quadfeat.solvers import Normal, Solution, Solver, System

D, N_COLUMNS = 5, 24
rng = np.random.default_rng(0)
X = rng.standard_normal((90, D))
Y = np.sin(X[:, 0]) + X[:, 1] + 3.0
LABELS = np.array(["no", "yes", "perhaps"])[np.digitize(Y, [2.5, 3.5])]


# User-defined parts.


@dataclass(frozen=True)
class OwnSpectrum(IsotropicSpectrum):
    """Normal frequencies of variance 1 or ``high`` with equal probability."""

    high: float
    n_mixing = 1

    def mixing(self, uniforms, tilt=0.0):
        return np.where(uniforms[:, 0] < 1 / (1 + self.high**tilt), 1.0, self.high)

    def mixing_moment(self, t):
        return (1 + self.high**t) / 2


@register
class OwnKernel(GammaKernel, SeparationKernel):
    """The mean of two Gaussian kernels."""

    def __init__(self, gamma="scale", *, ratio=4.0):
        self.gamma = gamma
        self.ratio = ratio

    @property
    def spectrum(self):
        return OwnSpectrum(self.ratio**2)

    def value_at(self, separations):
        return (np.exp(-separations / 2) + np.exp(-separations * self.ratio**2 / 2)) / 2


@register
class OwnRule(Rule):
    """Latin hypercube sampling."""

    def __init__(self, *, reflect=True):
        self.reflect = reflect

    def draw_nodes(self, d, layout, kernel, rng):
        n_nodes = layout.n_nodes
        shape = (n_nodes, kernel.spectrum.n_uniforms(d))
        slices = rng.permuted(np.broadcast_to(np.arange(n_nodes)[:, None], shape), axis=0)
        frequencies = kernel.spectrum.frequencies((slices + rng.random(shape)) / n_nodes, d)
        return Draw(DenseDirections(frequencies), np.ones(n_nodes), np.full(n_nodes, 1 / n_nodes))


@register
class OwnRadialRule(RadialRule):
    """Radii of the kernel's distribution. Half of them mirror the others."""

    has_origin_weight = False

    def __init__(self, *, mirrored=True):
        self.mirrored = mirrored

    def radii(self, uniforms, problem):
        half = uniforms[: (len(uniforms) + 1) // 2]
        if self.mirrored:
            uniforms = np.concatenate([half, 1 - half])[: len(uniforms)]
        return problem.spectrum.radii(uniforms, problem.d)

    def weights(self, radii, share, problem):
        return np.full(len(radii), share / len(radii))


@register
@dataclass(frozen=True, eq=False)
class OwnMatrices(DrawnMatrices):
    """Permutations of the axes."""

    order: np.ndarray  # (count, d)

    @property
    def count(self):
        return len(self.order)

    @property
    def size(self):
        return self.order.shape[1]

    def turn(self, columns):
        return columns[self.order]


@register
class OwnRotation(Rotation):
    """Permute the axes."""

    def __init__(self, offset=0):
        self.offset = offset

    def draw(self, d, rng, count=1):
        order = rng.permuted(np.broadcast_to(np.arange(d), (count, d)), axis=1)
        return OwnMatrices(np.roll(order, self.offset, axis=1))


@register
@dataclass(frozen=True)
class OwnSolution(Solution):
    """Coefficients of ``OwnSolver``."""

    coefficients: np.ndarray
    intercept: np.ndarray
    alpha: float
    classes: np.ndarray | None = None
    solver_name = "minres"


@register
class OwnSolver(Solver):
    """SciPy's MINRES, applied to each output."""

    name = "minres"
    reads_rows_again = True
    needs_fixed_alpha = True

    def __init__(self, rtol=1e-5):
        self.rtol = rtol

    def solve(self, problem, rows, work):
        system = System.of(problem, rows, work.watch())
        equations, alpha = system.equations(problem.intercept), problem.penalty.alpha
        matrix = LinearOperator(
            (problem.map.n_columns,) * 2,
            matvec=lambda b: equations.multiply(b.reshape(-1, 1)).ravel() + alpha * b.ravel(),
            dtype=np.float64,
        )
        found = [minres(matrix, right, rtol=self.rtol)[0] for right in equations.right.T]
        coefficients = np.array(found).T
        intercept = equations.intercept_for(coefficients) + system.shift
        return OwnSolution(coefficients, intercept, alpha, system.classes)


@register(model=True)
@dataclass(frozen=True, eq=False)
class OwnMap(FeatureMap):
    """Powers of the entries of each row."""

    n_features_in: int
    degree: int = 2

    @property
    def n_columns(self):
        return self.n_features_in * self.degree

    def write(self, X, out):
        for power in range(self.degree):
            out[:, power :: self.degree] = X ** (power + 1)

    def fingerprint(self):
        return repr(self)


class OwnTransformer(TransformerMixin, BaseEstimator):
    """A transformer with its own map, which models use."""

    def __init__(self, degree=2):
        self.degree = degree

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        self.map_ = OwnMap(self.n_features_in_, self.degree)
        return self

    def transform(self, X):
        return self.map_.columns(X)


@register
class RegisteredTransformer(OwnTransformer):
    """The same transformer, registered so that models on it can be saved."""

    saved_attributes = ("map_", "n_features_in_")


# An object of each class, with parameters that differ from the defaults.
PARTS = [
    kernels.ArcCosine(2, length_scale=1.5),
    kernels.Gaussian(0.3),
    kernels.Laplacian(0.2),
    kernels.Matern(1.5, length_scale=2.0),
    kernels.Metric(
        kernels.Gaussian(0.3), [[1.0, 0.5, 0, 0, 0], [0, 1, -1, 0.5, 0]], center=[1, 0, 0, 0, 2]
    ),
    kernels.PointwiseNonlinear(np.tanh, length_scale=2.0, n_nodes=8),
    kernels.RationalQuadratic(2.0, length_scale=1.5),
    OwnKernel(0.2, ratio=2.0),
    rules.Fastfood(reflect=False),
    rules.GaussHermite(4, reflect=False),
    rules.MonteCarlo(reflect=False, remainder=0.5),
    rules.QuasiMonteCarlo(sequence="sobol", matched=True),
    SphericalRadial(directions="orthoplex", tilt=0.5, rotation=Hadamard(2), origin="renormalise"),
    OwnRule(reflect=False),
    rules.Exact(),
    rules.Fixed(),
    rules.Tilted(0.25),
    OwnRadialRule(mirrored=False),
    rotations.Butterfly(2),
    rotations.Haar(),
    rotations.Hadamard(2),
    rotations.Householder(),
    OwnRotation(offset=1),
    solvers.ConjugateGradients(1e-9, 200),
    solvers.Normal("float64"),
    OwnSolver(rtol=1e-12),
]
MODELS = [
    KernelClassifier(None, candidates=[FeaturesCandidate(N_COLUMNS)], class_weight="balanced"),
    KernelRegressor(None, candidates=[FeaturesCandidate(N_COLUMNS, rule="rff")], random_state=1),
    LocalGaussianProcess("matern32", n_neighbors=10, alpha=0.1),
    LocalGaussianProcessClassifier("gaussian", n_neighbors=10, alpha=0.1, class_weight="balanced"),
    QuadratureFeatures("matern32", n_components=N_COLUMNS, reweight=True, random_state=1),
    QuadratureRidge("arccos1", n_components=N_COLUMNS, alpha="gcv", random_state=1),
    QuadratureRidgeClassifier(
        "gaussian", n_components=N_COLUMNS, class_weight="balanced", alpha=0.1, random_state=1
    ),
]
TRANSFORMERS = {
    QuadratureMap: QuadratureFeatures("laplacian", n_components=N_COLUMNS, random_state=1).fit(X),
    MetricMap: QuadratureFeatures(
        kernels.Metric("matern32", np.tri(3, D), center=np.ones(D)),
        n_components=N_COLUMNS,
        random_state=1,
    ).fit(X),
    TransformerMap: Nystroem(n_components=9, random_state=1).fit(X),
    OwnMap: OwnTransformer(3).fit(X),
}
MAPS = [
    TRANSFORMERS[QuadratureMap].map_,
    TRANSFORMERS[MetricMap].map_,
    TransformerMap.of(TRANSFORMERS[TransformerMap], n_features_in=D),
    TRANSFORMERS[OwnMap].map_,
]

# Base classes of all tested parts, and the list to which a missing class belongs.
LISTS = {
    Kernel: "PARTS",
    Rule: "PARTS",
    RadialRule: "PARTS",
    Rotation: "PARTS",
    Solver: "PARTS",
    FeatureMap: "MAPS, with a transformer that has it in TRANSFORMERS",
    BaseEstimator: "MODELS",
}
# Public classes that are neither tested here nor records, and why.
NOT_TESTED = {
    solvers.System: "products with rows, which solvers use while they solve",
    solvers.NormalSolution: "a part of every model, which computes some of its fields on demand",
    quadfeat.ParquetBlocks: "a source of rows: tests/test_ridge.py",
    quadfeat.TableEncoder: "an encoder of tables: tests/test_tables.py",
}
# Parts with a function or an object of another library, which files cannot contain.
NOT_SAVED = (kernels.PointwiseNonlinear, TransformerMap)


def is_abstract(kind):
    return inspect.isabstract(kind) or ABC in kind.__bases__


def is_record(kind):
    return is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))


def saved(thing, path):
    save(thing, path / "saved")
    return load(path / "saved")


def features_with(part):
    """Return an unfitted map that uses a part."""
    options = {"n_components": N_COLUMNS, "random_state": 1}
    if isinstance(part, Kernel):
        return QuadratureFeatures(part, rule="rff", **options)
    kernel = "arccos1" if isinstance(part, rules.Exact) else "gaussian"
    if isinstance(part, RadialRule):
        part = SphericalRadial(tilt=part)
    elif isinstance(part, Rotation):
        part = SphericalRadial(rotation=part)
    return QuadratureFeatures(kernel, rule=part, **options)


def model_with(part, kind=QuadratureRidge):
    """Return an unfitted model that uses a part."""
    if isinstance(part, Solver):
        features = features_with(kernels.Gaussian(0.3))
        return kind(features=features, solver=part, alpha=0.5)
    return kind(features=features_with(part), alpha=0.5, gram_dtype="float64")


def fitted(estimator, X=X):
    """Return an estimator fitted to suitable targets."""
    if is_classifier(estimator):
        return clone(estimator).fit(X, as_rows(LABELS, X))
    return clone(estimator).fit(X, as_rows(Y, X))


def as_rows(y, X):
    """Return targets in memory or as a Dask array, like the rows."""
    return y if isinstance(X, np.ndarray) else da.from_array(y, chunks=X.chunks[0][0])


def results(estimator, X=X):
    """Return features or predictions."""
    if hasattr(estimator, "transform"):
        return estimator.transform(X)
    return estimator.predict(X)


def estimators_with(part):
    """Return unfitted estimators that use a part."""
    if isinstance(part, tuple(kind for kind in LISTS if LISTS[kind] == "PARTS")):
        models = [model_with(part), model_with(part, QuadratureRidgeClassifier)]
        return models if isinstance(part, Solver) else [features_with(part), *models]
    return [part]


@pytest.mark.parametrize(
    "module",
    [kernels, rules, rotations, maps, solvers, front_door, quadfeat],
    ids=lambda m: m.__name__,
)
def test_every_public_class_is_tested(module):
    walked = {type(thing) for thing in (*PARTS, *MAPS, *MODELS)}
    for name in module.__all__:
        kind = getattr(module, name)
        if not inspect.isclass(kind) or is_abstract(kind) or kind in walked or kind in NOT_TESTED:
            continue
        where = next((where for base, where in LISTS.items() if issubclass(kind, base)), None)
        assert where is None, f"add an object of {module.__name__}.{name} to {where} in {__file__}"
        assert is_record(kind), (
            f"{module.__name__}.{name} is neither a record nor of a kind that is walked: make it a "
            f"dataclass, or add its kind to LISTS, or the class to NOT_TESTED, in {__file__}"
        )


def test_only_public_and_user_defined_classes_are_tested():
    modules = (kernels, rules, rotations, maps, solvers, quadfeat)
    public = {getattr(module, name) for module in modules for name in module.__all__}
    for thing in (*PARTS, *MAPS, *MODELS):
        assert type(thing) in public or type(thing).__module__ == __name__
    assert public >= set(NOT_TESTED)
    # There is a user-defined class of each kind.
    for kind, where in LISTS.items():
        own = [thing for thing in (*PARTS, *MAPS) if type(thing).__module__ == __name__]
        assert where == "MODELS" or any(isinstance(thing, kind) for thing in own)


@pytest.mark.parametrize("thing", [*PARTS, *MODELS], ids=repr)
def test_clone_and_repr(thing):
    text = repr(thing)
    assert repr(clone(thing)) == text
    assert len(text) < 200
    if "<" not in text:  # the repr of a function
        modules = (kernels, rules, rotations, solvers)
        names = {name: getattr(module, name) for module in modules for name in module.__all__}
        again = eval(text, names | globals())
        assert repr(again) == text
    elif not isinstance(thing, NOT_SAVED):
        pytest.fail(f"{text} cannot be evaluated")
    if thing.get_params(deep=False) and not isinstance(thing, NOT_SAVED):
        assert text != f"{type(thing).__name__}()", "give it parameters that are not the defaults"


@pytest.mark.parametrize("thing", PARTS, ids=repr)
def test_parts_can_be_pickled(thing):
    again = pickle.loads(pickle.dumps(thing))
    assert type(again) is type(thing)
    assert repr(again) == repr(thing)


@pytest.mark.parametrize("part", [*PARTS, *MODELS], ids=repr)
def test_fitted_estimators_can_be_pickled_and_saved(part, tmp_path):
    for estimator in estimators_with(part):
        unfitted = pickle.loads(pickle.dumps(estimator))
        assert repr(unfitted) == repr(estimator)
        model = fitted(estimator)
        expected = results(model)
        copies = [pickle.loads(pickle.dumps(model))]
        if isinstance(part, NOT_SAVED):
            with pytest.raises(ValueError, match=r"kernel\.phi=<ufunc 'tanh'> cannot be saved"):
                save(model, tmp_path / "model")
        else:
            copies.append(saved(model, tmp_path))
            assert repr(saved(estimator, tmp_path)) == repr(estimator)
        for copy in copies:
            assert repr(copy) == repr(model)
            if hasattr(model, "map_"):
                assert copy.map_.fingerprint() == model.map_.fingerprint()
            assert_array_equal(results(copy), expected)
            # The copy has everything that a fit needs.
            assert_array_equal(results(fitted(copy)), expected)


@pytest.mark.parametrize("part", [part for part in PARTS if not isinstance(part, Solver)], ids=repr)
def test_auto(part, tmp_path):
    features = features_with(part)
    if isinstance(part, Kernel):
        chosen = clone(features).set_params(rule="auto").fit(X)
        assert len(chosen.candidates_) > 1
        assert chosen.why_
        copies = [pickle.loads(pickle.dumps(chosen))]
        if not isinstance(part, NOT_SAVED):
            copies.append(saved(chosen, tmp_path))
        for copy in copies:
            assert copy.why_ == chosen.why_
            assert_array_equal(copy.transform(X), chosen.transform(X))
    enough = features.set_params(n_components="auto", tol=0.7).fit(X)
    assert enough.transform(X).shape == (90, enough.n_components_)
    assert enough.approximation_error_.value < 0.7


@pytest.mark.parametrize("part", [*PARTS, *MODELS], ids=repr)
def test_dask(part):
    blocks = da.from_array(X, chunks=(40, D))
    with dask.config.set(scheduler="synchronous"):
        for estimator in estimators_with(part):
            if getattr(estimator, "reweight", False):
                # Weights are fitted to a sample of pairs, which differs for Dask rows.
                estimator = clone(estimator).set_params(reweight=False)
            local, distributed = fitted(estimator), fitted(estimator, blocks)
            assert repr(distributed) == repr(local)
            lazy = results(distributed, blocks)
            assert_same(results(distributed), results(local))
            assert_same(lazy.compute(), results(local))


def assert_same(found, expected):
    """Check that results are equal, up to rounding for numbers."""
    if expected.dtype.kind == "f":
        assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    else:
        assert_array_equal(found, expected)


@pytest.mark.parametrize("part", MAPS, ids=lambda part: type(part).__name__)
class TestMaps:
    def test_products_agree_with_columns(self, part):
        Z = np.empty((90, part.n_columns))
        part.write(X, Z)
        weights, V = rng.random(90), rng.standard_normal((part.n_columns, 2))
        assert_array_equal(part.columns(X), Z)
        assert_allclose(part.multiply(X, V), Z @ V)
        assert_allclose(part.transpose_multiply(X, Z @ V), Z.T @ (Z @ V))
        assert_allclose(part.normal_multiply(X, V, weights), Z.T @ (weights[:, None] * (Z @ V)))
        assert part.n_features_in == D
        assert_array_equal(part.with_jobs(2).columns(X), Z)

    def test_maps_can_be_pickled(self, part):
        again = pickle.loads(pickle.dumps(part))
        assert again.fingerprint() == part.fingerprint()
        assert_array_equal(again.columns(X), part.columns(X))
        light = pickle.loads(pickle.dumps(part.light())).unpacked()
        assert light.fingerprint() == part.fingerprint()

    def test_maps_can_be_used_in_models(self, part):
        features = TRANSFORMERS[type(part)]
        model = QuadratureRidge(alpha=1.0, features=features, gram_dtype="float64").fit(X, Y)
        assert isinstance(model.map_, type(part))
        assert model.map_.fingerprint() == part.fingerprint()
        again = pickle.loads(pickle.dumps(model))
        assert_array_equal(again.predict(X), model.predict(X))
        with dask.config.set(scheduler="synchronous"):
            blocks = da.from_array(X, chunks=(40, D))
            distributed = QuadratureRidge(**model.get_params(deep=False))
            distributed.fit(blocks, as_rows(Y, blocks))
            assert_same(distributed.predict(X), model.predict(X))
            assert_same(distributed.predict(blocks).compute(), model.predict(X))
        classifier = QuadratureRidgeClassifier(alpha=1.0, features=features, solver="cg").fit(
            X, LABELS
        )
        assert classifier.score(X, LABELS) > 0.6


def test_maps_in_files(tmp_path):
    # A map is saved as a part, or on its own if it is registered as a model.
    for kind in (QuadratureMap, MetricMap):
        ours = TRANSFORMERS[kind]
        again = saved(ours, tmp_path)
        assert again.map_.fingerprint() == ours.map_.fingerprint()
        assert_array_equal(again.map_.columns(X), ours.map_.columns(X))
    own = MAPS[-1]
    again = saved(own, tmp_path)
    assert repr(again) == repr(own)
    assert_array_equal(again.columns(X), own.columns(X))
    with pytest.raises(TypeError, match=r"map=|model="):
        save(MAPS[0], tmp_path / "map")


@pytest.mark.parametrize("kind", [TransformerMap, OwnMap])
def test_models_of_other_transformers_cannot_be_saved(kind, tmp_path):
    features = TRANSFORMERS[kind]
    model = QuadratureRidge(alpha=1.0, features=features).fit(X, Y)
    with pytest.raises(ValueError, match=rf"features=.*{type(features).__name__}.*cannot be saved"):
        save(model, tmp_path / "model")
    with pytest.raises(ValueError, match=rf"features=.*{type(features).__name__}.*cannot be saved"):
        save(QuadratureRidge(alpha=1.0, features=features), tmp_path / "model")


def test_models_of_a_registered_transformer_can_be_saved(tmp_path, monkeypatch):
    model = QuadratureRidge(alpha=1.0, features=RegisteredTransformer(3)).fit(X, Y)
    again = saved(model, tmp_path)
    assert_array_equal(again.predict(X), model.predict(X))
    assert_array_equal(again.partial_fit(X, Y).coef_, model.partial_fit(X, Y).coef_)

    with monkeypatch.context() as dying:
        dying.setattr(Normal, "solve", interrupted_after_the_first_state)
        with pytest.raises(KeyboardInterrupt):
            clone(model).set_params(checkpoint=tmp_path / "state").fit(X, Y)
    assert (tmp_path / "state").exists()
    resumed = clone(model).set_params(checkpoint=tmp_path / "state").fit(X, Y)
    assert_array_equal(resumed.predict(X), clone(model).fit(X, Y).predict(X))


def interrupted_after_the_first_state(self, problem, rows, work):
    work.begin({"summary": None, "size": 100, "dtype": "float32", "n_done": 0})
    raise KeyboardInterrupt


class TestSolverOfAUser:
    @pytest.mark.parametrize("intercept", [True, False])
    @pytest.mark.parametrize("weights", [None, np.arange(90) % 3])
    def test_it_agrees_with_the_normal_equations(self, intercept, weights):
        for kind in (QuadratureRidge, QuadratureRidgeClassifier):
            own, exact = (
                kind(
                    "gaussian", alpha=1.0, n_components=N_COLUMNS, solver=solver, random_state=1
                ).set_params(fit_intercept=intercept, gram_dtype="float64")
                for solver in (OwnSolver(rtol=1e-12), "normal")
            )
            targets = Y if kind is QuadratureRidge else LABELS
            own.fit(X, targets, sample_weight=weights)
            exact.fit(X, targets, sample_weight=weights)
            assert_allclose(own.coef_, exact.coef_, rtol=1e-6, atol=1e-7)
            assert_allclose(own.intercept_, exact.intercept_, rtol=1e-6, atol=1e-7)

    def test_the_error_names_the_solver_and_missing_requirements(self, tmp_path):
        with pytest.raises(ValueError, match="solver='minres' does not support alpha='gcv'"):
            QuadratureRidge("gaussian", solver=OwnSolver(), alpha="gcv").fit(X, Y)
        with pytest.raises(ValueError, match="solver='minres' needs several passes over X"):
            QuadratureRidge("gaussian", alpha=1.0, solver=OwnSolver(), n_components=9).fit(
                iter([(X, Y)])
            )
        with pytest.raises(ValueError, match="because solver='minres' does not write checkpoints"):
            QuadratureRidge(
                "gaussian", alpha=1.0, solver=OwnSolver(), checkpoint=tmp_path / "checkpoint"
            ).fit(X, Y)
        with pytest.raises(ValueError, match=r"solver=.*OwnSolver.* is not valid"):
            QuadratureRidge("gaussian", alpha=1.0, solver=OwnSolver).fit(X, Y)

    def test_the_error_names_the_solver_and_unsupported_options(self):
        unfitted = QuadratureRidgeClassifier(
            "gaussian", alpha=1.0, n_components=9, solver=OwnSolver()
        )
        for model in (unfitted, clone(unfitted).fit(X, LABELS)):
            with pytest.raises(AttributeError) as raised:
                model.predict_proba
            assert (
                "predict_proba needs the Gram matrix of the features, which solver='minres'"
                in str(raised.value.__cause__ or raised.value)
            )
        model = QuadratureRidge("gaussian", alpha=1.0, n_components=9, solver=OwnSolver()).fit(X, Y)
        with pytest.raises(AttributeError, match="which solver='minres' does not compute"):
            model.predict(X, return_std=True)
        with pytest.raises(ValueError, match="with solver='minres', which does not keep"):
            model.set_params(solver="normal").partial_fit(X, Y)
