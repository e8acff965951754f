"""Test every public function on arbitrary input: a correct result or an error that names the input.

Examples are the same in every run. ``QUADFEAT_EXAMPLES=20`` tries twenty times as many, different
in each run.
"""

import os
import re
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from typer.testing import CliRunner

import quadfeat
from quadfeat import (
    ParquetBlocks,
    QuadratureFeatures,
    QuadratureRidge,
    QuadratureRidgeClassifier,
    bounds,
    grow,
    transform_into,
)
from quadfeat.kernels import (
    ArcCosine,
    Gaussian,
    Laplacian,
    Matern,
    PointwiseNonlinear,
    RationalQuadratic,
)
from quadfeat.rotations import Butterfly, Haar, Hadamard, Householder
from quadfeat.rules import Fastfood, GaussHermite, MonteCarlo, QuasiMonteCarlo, SphericalRadial
from quadfeat.solvers.left_out import LeftOut

TIMES = int(os.environ.get("QUADFEAT_EXAMPLES", "1"))

quiet_in_low_dimension = pytest.mark.filterwarnings("ignore:the weights of.*infinite variance")


def quiet_sums(test):
    """Ignore warnings of scikit-learn, which sums a table to check that all values are finite."""
    for what in ("overflow encountered", "invalid value encountered in reduce"):
        test = pytest.mark.filterwarnings(f"ignore:{what}:RuntimeWarning")(test)
    return test


def examples(count):
    return settings(
        max_examples=count * TIMES,
        deadline=None,
        derandomize=TIMES == 1,
        suppress_health_check=list(HealthCheck),
        database=None,
    )


KERNELS = {
    "gaussian": lambda: Gaussian(0.3),
    "ard": lambda: Gaussian("auto"),
    "laplacian": lambda: Laplacian(0.2),
    "matern": lambda: Matern(2.5, length_scale=1.5),
    "rough": lambda: Matern(0.5, length_scale=1.5),
    "rational quadratic": lambda: RationalQuadratic(1.5, length_scale=1.5),
    "arccos0": lambda: ArcCosine(0),
    "arccos1": lambda: ArcCosine(1),
    "arccos2": lambda: ArcCosine(2, length_scale=2.0),
    "tanh": lambda: PointwiseNonlinear(np.tanh, n_nodes=8),
}
STATIONARY = ("gaussian", "ard", "laplacian", "matern", "rough", "rational quadratic")
NAMED_RULES = ("sr33", "rff", "orf", "rom", "halton", "sobol", "gauss-hermite", "fastfood")

kernels = st.sampled_from(sorted(KERNELS))
named_rules = st.sampled_from(NAMED_RULES)
seeds = st.integers(0, 2**32 - 1)
dtypes = st.sampled_from([np.float32, np.float64])

# Values that are not numbers, or that are unusual or invalid numbers.
odd_numbers = st.one_of(
    st.floats(),
    st.integers(-3, 10),
    st.sampled_from([True, None, "3", "scale", 10**400, -(10**400), 1 + 2j, [], [1.0, 2.0], b"1"]),
    st.sampled_from([np.float32(0.5), np.float64(2), np.int8(1), np.array(1.5), Fraction(1, 3)]),
)


def check_refusal(error, *names):
    """Check that an error names one of these arguments."""
    assert any(re.search(rf"\b{name}\b", str(error)) for name in names), error


@st.composite
def tables(draw, most_rows=12, most_columns=40, whole=False):
    """Draw ordinary tables. Their shape matters more than their values."""
    shape = draw(st.integers(1, most_rows)), draw(st.integers(1, most_columns))
    rng = np.random.default_rng(draw(seeds))
    if whole:
        return rng.integers(-3, 4, shape).astype(np.float64)
    table = rng.standard_normal(shape).astype(np.float32).astype(np.float64)
    table[rng.random(shape) < 0.2] = 0.0
    return table


def duplicated(X):
    """Return a CSR matrix that stores every entry as two halves, in random order."""
    rows, columns = np.nonzero(X)
    halves = X[rows, columns] / 2
    order = np.random.default_rng(0).permutation(2 * len(rows))
    entries = [np.concatenate([part, part])[order] for part in (halves, rows, columns)]
    by_row = np.argsort(entries[1], kind="stable")
    pointers = np.concatenate([[0], np.cumsum(np.bincount(entries[1], minlength=len(X)))])
    return sparse.csr_array((entries[0][by_row], entries[2][by_row], pointers), shape=X.shape)


def strided(X):
    wide = np.full((2 * X.shape[0], 3 * X.shape[1]), np.nan, dtype=X.dtype)
    wide[::2, 1::3] = X
    return wide[::2, 1::3]


def unaligned(X):
    return np.frombuffer(b"\0" + X.tobytes(), dtype=np.uint8)[1:].view(X.dtype).reshape(X.shape)


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


# Different containers and layouts of the same table of float32 numbers.
LAYOUTS = {
    "fortran": np.asfortranarray,
    "strided": strided,
    "reversed": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "unaligned": unaligned,
    "read-only": read_only,
    "broadcast": lambda X: np.broadcast_to(X[None], (2, *X.shape))[1],
    "float32": lambda X: X.astype(np.float32),
    "float32, strided": lambda X: strided(X.astype(np.float32)),
    "big-endian": lambda X: X.astype(">f8"),
    "long double": lambda X: X.astype(np.longdouble),
    "objects": lambda X: X.astype(object),
    "list": lambda X: X.tolist(),
    "tuples": lambda X: tuple(map(tuple, X.tolist())),
    "data frame": lambda X: pd.DataFrame(X),
    "csr": sparse.csr_array,
    "csr, 64-bit": lambda X: sparse.csr_array(
        (lambda S: (S.data, S.indices.astype(np.int64), S.indptr.astype(np.int64)))(
            sparse.csr_array(X)
        ),
        shape=X.shape,
    ),
    "csr matrix": sparse.csr_matrix,
    "csr, float32": lambda X: sparse.csr_array(X.astype(np.float32)),
    "csr, twice": duplicated,
    "csc": sparse.csc_array,
    "coo": sparse.coo_array,
    "bsr": sparse.bsr_array,
    "lil": sparse.lil_array,
    "dok": sparse.dok_array,
    "dia": sparse.dia_array,
}
layouts = st.sampled_from(sorted(LAYOUTS))


def tolerance(presentation):
    return 2e-4 if "float32" in presentation else 1e-11


def serves(rule, kernel):
    """Return whether a rule supports a kernel. Other tests check the error if it does not."""
    if kernel == "laplacian":
        return rule in ("rff", "halton", "sobol")
    return kernel != "rough" or rule != "sr33"


@st.composite
def fitted_maps(draw, most_columns=40, kernel_names=kernels):
    """Draw a table and a map fitted to it."""
    X = draw(tables(most_columns=most_columns))
    kernel, rule = draw(kernel_names), draw(named_rules)
    assume(serves(rule, kernel))
    made = Gaussian(np.linspace(0, 1, X.shape[1])) if kernel == "ard" else KERNELS[kernel]()
    features = QuadratureFeatures(
        made, rule=rule, n_components=draw(st.integers(1, 90)), random_state=draw(seeds)
    )
    return X, features.fit(X)


@quiet_in_low_dimension
class TestMaps:
    @examples(120)
    @given(fitted=fitted_maps(), how=layouts)
    def test_a_table_is_the_same_however_it_is_presented(self, fitted, how):
        X, features = fitted
        expected = features.transform(X)
        shown = LAYOUTS[how](X)
        given = features.transform(shown)
        assert given.shape == (len(X), features.n_components_)
        assert given.dtype == (np.float32 if "float32" in how else np.float64)
        scale = 1 + np.abs(expected).max()
        slack = tolerance(how) * scale
        if isinstance(features.kernel_, ArcCosine) and features.kernel_.order == 0:
            # A step function may jump if its argument is zero up to rounding.
            assert np.mean(np.abs(given - expected) > slack) <= 0.02
        else:
            assert_allclose(given, expected, rtol=0, atol=slack)
        refitted = QuadratureFeatures(**features.get_params(deep=False)).fit(shown)
        assert_allclose(refitted.transform(X), expected, rtol=0, atol=1e-9 * scale)

    @examples(40)
    @given(fitted=fitted_maps(), order=st.randoms(use_true_random=False), cuts=st.integers(1, 5))
    def test_rows_are_independent(self, fitted, order, cuts):
        X, features = fitted
        expected = features.transform(X)
        scale = 1 + np.abs(expected).max()
        permutation = np.array(order.sample(range(len(X)), len(X)))
        assert_allclose(
            features.transform(X[permutation]), expected[permutation], atol=1e-12 * scale
        )
        pieces = [features.transform(piece) for piece in np.array_split(X, cuts) if len(piece)]
        assert_allclose(np.vstack(pieces), expected, atol=1e-12 * scale)
        assert_array_equal(features.set_params(n_jobs=3).transform(X), expected)

    @examples(40)
    @given(fitted=fitted_maps())
    def test_estimates_are_kernel_matrices(self, fitted):
        X, features = fitted
        gram = features.approximate_kernel(X)
        Z = features.transform(X)
        scale = 1 + np.abs(gram).max()
        assert_allclose(gram, gram.T, atol=1e-12 * scale)
        assert np.linalg.eigvalsh(Z @ Z.T).min() >= -1e-10 * scale
        correction = features.nodes_.origin_correction(features.kernel_)
        assert_allclose(gram, Z @ Z.T + correction, atol=1e-11 * scale)
        # For a stationary kernel, the squares of features sum to the weights for every row.
        if features.kernel_.nonlinearity.name == "fourier" and not features.nodes_.last_is_single:
            assert_allclose(np.diag(gram), 1.0, atol=1e-9)

    @examples(25)
    @given(fitted=fitted_maps(), name=st.sampled_from(["frobenius", "rms", "max"]), seed=seeds)
    def test_errors_are_those_of_the_matrices(self, fitted, name, seed):
        """Small tables have few pairs, and the error uses all of them."""
        X, features = fitted
        assume(len(X) > 1 and not isinstance(features.kernel_, PointwiseNonlinear))
        error = features.kernel_error(X, norm=name, random_state=seed)
        Z = features.transform(X)
        exact = features.kernel_(X)
        difference = Z @ Z.T - exact
        expected = {
            "frobenius": np.linalg.norm(difference) / np.linalg.norm(exact),
            "rms": np.sqrt(np.mean(difference**2)),
            "max": np.abs(difference).max(),
        }[name]
        assert_allclose(error.value, expected, rtol=1e-6, atol=1e-9 * (1 + np.abs(exact).max()))

    @examples(60)
    @given(
        n_pairs=odd_numbers,
        confidence=odd_numbers,
        norm=st.sampled_from(["frobenius", "rms", "max", "l2", None, 3]),
    )
    def test_odd_arguments_of_errors(self, n_pairs, confidence, norm):
        X = np.random.default_rng(0).standard_normal((30, 4))
        features = QuadratureFeatures(n_components=16, rule="rff", random_state=0).fit(X)
        try:
            error = features.kernel_error(
                X, norm=norm, n_pairs=n_pairs, confidence=confidence, random_state=0
            )
        except (ValueError, TypeError) as refusal:
            check_refusal(refusal, "n_pairs", "confidence", "norm")
            return
        assert 0 <= error.value < np.inf
        if error.low is not None:
            assert error.low <= error.value <= error.high

    @examples(60)
    @given(fitted=fitted_maps(), how=st.sampled_from(["fortran", "strided", "reversed"]))
    def test_buffers_of_any_layout(self, fitted, how):
        X, features = fitted
        expected = features.transform(X)
        out = LAYOUTS[how](np.zeros_like(expected))
        assert transform_into(features, X, out) is out
        assert_allclose(out, expected, rtol=0, atol=1e-13 * (1 + np.abs(expected).max()))
        out.flags.writeable = False
        for wrong in (out, expected[:, 1:], expected.astype(np.float32), expected.tolist()):
            with pytest.raises((ValueError, TypeError), match="out "):
                transform_into(features, X, wrong)

    @examples(50)
    @given(
        shape=st.tuples(st.integers(1, 4), st.integers(1, 6)),
        data=st.data(),
        kernel=kernels,
        rule=named_rules,
        dtype=dtypes,
    )
    @quiet_sums
    def test_any_numbers(self, shape, data, kernel, rule, dtype):
        """Features of any numbers, NaN and infinity included, are finite or raise an error."""
        assume(serves(rule, kernel))
        width = 32 if dtype == np.float32 else 64
        numbers = st.floats(width=width) | st.sampled_from(
            [0.0, -0.0, float(np.finfo(dtype).max), float(np.finfo(dtype).tiny)]
        )
        entries = data.draw(
            st.lists(numbers, min_size=shape[0] * shape[1], max_size=shape[0] * shape[1])
        )
        X = np.array(entries, dtype=dtype).reshape(shape)
        features = QuadratureFeatures(KERNELS[kernel](), rule=rule, n_components=11, random_state=0)
        for fit_to in (X, np.ones_like(X)):
            try:
                Z = features.fit(fit_to).transform(X)
            except ValueError as refusal:
                check_refusal(refusal, "X")
                continue
            assert np.isfinite(X).all()
            assert Z.dtype == dtype
            assert np.isfinite(Z).all()
            if kernel in STATIONARY:
                nodes, exact = features.nodes_, features.kernel_
                largest = max(nodes.amplitudes(exact).max(), nodes.origin_feature(exact))
                assert np.abs(Z).max() <= largest * 1.001

    @examples(60)
    @given(shape=st.lists(st.integers(0, 3), max_size=3), n_columns=st.integers(1, 3))
    def test_any_shape(self, shape, n_columns):
        X = np.ones(shape)
        features = QuadratureFeatures(rule="rff", n_components=5, random_state=0)
        fitted = QuadratureFeatures(rule="rff", n_components=5, random_state=0)
        fitted.fit(np.ones((2, n_columns)))
        for call, good in (
            (features.fit_transform, len(shape) == 2 and all(shape)),
            (fitted.transform, len(shape) == 2 and shape[0] > 0 and shape[1] == n_columns),
            (fitted.approximate_kernel, len(shape) == 2 and shape[0] > 0 and shape[1] == n_columns),
        ):
            if good:
                assert call(X).shape[0] == shape[0]
            else:
                with pytest.raises(ValueError, match=r"\d+ (feature|sample)|Expected 2D|dim"):
                    call(X)

    @examples(120)
    @given(
        name=st.sampled_from(
            ["n_components", "tol", "rule", "kernel", "reweight", "random_state", "n_jobs"]
        ),
        value=odd_numbers | st.integers(-(2**70), 2**70),
    )
    def test_odd_parameters(self, name, value):
        X = np.random.default_rng(0).standard_normal((6, 3))
        parameters = {"rule": "rff", "n_components": 8, "random_state": 0, name: value}
        if name == "n_components" and isinstance(value, int):
            assume(not 10**6 < value <= 2**40)  # a large machine may have enough memory
        try:
            Z = QuadratureFeatures(**parameters).fit(X).transform(X)
        except (ValueError, TypeError) as refusal:
            check_refusal(refusal, name)
            return
        assert np.isfinite(Z).all()
        assert Z.shape == (6, parameters["n_components"])

    @pytest.mark.parametrize("rule", [*NAMED_RULES, "auto"])
    @pytest.mark.parametrize("n_components", [2**41, 2**70])
    def test_more_columns_than_any_memory_holds(self, rule, n_components):
        with pytest.raises(ValueError, match=f"n_components={n_components} .* at most 1"):
            QuadratureFeatures(rule=rule, n_components=n_components).fit(np.ones((2, 3)))

    @examples(60)
    @given(fitted=fitted_maps(most_columns=12), more=st.integers(-3, 60) | odd_numbers)
    def test_larger_maps_begin_with_smaller_ones(self, fitted, more):
        X, features = fitted
        before = features.transform(X)
        n_components = features.n_components_ + more if isinstance(more, int) else more
        if isinstance(n_components, int):
            assume(n_components < 10**6)
        try:
            larger = grow(features, n_components)
        except (ValueError, TypeError) as refusal:
            check_refusal(refusal, "n_components", "grow", "more columns")
            return
        Z = larger.transform(X)
        assert Z.shape == (len(X), n_components)
        columns = features.n_components_ - features.nodes_.has_origin_column
        factor = np.sqrt(len(features.nodes_.radii) / len(larger.nodes_.radii))
        assert_allclose(Z[:, :columns], before[:, :columns] * factor, atol=1e-9)
        assert_array_equal(features.transform(X), before)

    @examples(30)
    @given(fitted=fitted_maps(most_columns=6), given_names=st.none() | st.lists(st.text()))
    def test_names_of_columns(self, fitted, given_names):
        X, features = fitted
        try:
            names = features.get_feature_names_out(given_names)
        except ValueError as refusal:
            check_refusal(refusal, "input_features")
            assert len(given_names) != X.shape[1]
            return
        assert len(set(names)) == len(names) == features.n_components_


@quiet_in_low_dimension
class TestKernels:
    @examples(80)
    @given(X=tables(), kernel=kernels, how=layouts)
    def test_kernel_matrices(self, X, kernel, how):
        kernel = KERNELS[kernel]().resolve(X)
        Y = X[::-1] * 0.5 + 0.25
        gram, cross = kernel(X), kernel(X, Y)
        scale = 1 + np.abs(gram).max()
        assert_allclose(gram, gram.T, atol=1e-12 * scale)
        assert_allclose(kernel(Y, X), cross.T, atol=1e-12 * scale)
        assert np.linalg.eigvalsh(gram).min() >= -1e-6 * scale * len(X)
        shown = LAYOUTS[how](X)
        slack = (
            max(tolerance(how), 1e-7) * scale
        )  # near 0, an angle has an error of the square root of eps
        assert_allclose(kernel(shown), gram, rtol=0, atol=slack)
        assert_allclose(kernel(shown, Y), cross, rtol=0, atol=slack)
        assert_allclose(kernel.pairs(shown, Y), np.diag(cross), rtol=0, atol=slack)
        if kernel.nonlinearity.name == "fourier":
            assert_allclose(np.diag(gram), 1.0, atol=1e-12)
            assert (gram >= 0).all()
            assert (gram <= 1 + 1e-12).all()

    @examples(250)
    @given(
        made=st.sampled_from(
            [
                (Gaussian, "gamma"),
                (Laplacian, "gamma"),
                (Matern, "length_scale"),
                (Matern, "nu"),
                (RationalQuadratic, "length_scale"),
                (RationalQuadratic, "alpha"),
                (ArcCosine, "order"),
                (ArcCosine, "length_scale"),
                (PointwiseNonlinear, "n_nodes"),
                (PointwiseNonlinear, "length_scale"),
                (PointwiseNonlinear, "phi"),
            ]
        ),
        value=odd_numbers | st.floats(0, 1e3) | st.floats(0, 1e-300) | st.floats(1e300),
    )
    def test_odd_parameters(self, made, value):
        X = np.random.default_rng(0).standard_normal((4, 2))
        kind, name = made
        parameters = {"phi": np.tanh, "n_nodes": 4} if kind is PointwiseNonlinear else {}
        kernel = kind(**(parameters | {name: value}))
        try:
            resolved = kernel.resolve(X)
            gram = resolved(X)
        except (ValueError, TypeError) as refusal:
            check_refusal(refusal, name, "X")
            return
        assert np.isfinite(gram).all()
        assert_allclose(gram, gram.T, rtol=1e-9)
        assert (np.diag(gram) >= 0).all()
        # A valid kernel can be approximated, or the error says why not.
        features = QuadratureFeatures(kernel, rule="rff", n_components=6, random_state=0)
        try:
            Z = features.fit(X).transform(X)
        except ValueError as refusal:
            check_refusal(refusal, name, "X", kind.__name__)
            return
        assert np.isfinite(Z).all()


RULES = (MonteCarlo, QuasiMonteCarlo, GaussHermite, Fastfood, SphericalRadial)
ROTATIONS = {
    "butterfly": Butterfly,
    "haar": Haar,
    "householder": Householder,
    "hadamard": Hadamard,
    "none": lambda: None,
}


@st.composite
def rules(draw):
    """Draw all kinds of rules with all kinds of parameters."""
    kind = draw(st.sampled_from(["sr", "sr", "sr", "mc", "qmc", "gh", "ff"]))
    reflect = draw(st.booleans())
    if kind == "mc":
        return MonteCarlo(reflect=reflect, remainder=draw(st.floats(0, 1)))
    if kind == "qmc":
        sequence, matched = draw(st.sampled_from(["halton", "sobol"])), draw(st.booleans())
        return QuasiMonteCarlo(sequence=sequence, matched=matched, reflect=reflect)
    if kind == "gh":
        return GaussHermite(draw(st.integers(1, 20)), reflect=reflect)
    if kind == "ff":
        return Fastfood(reflect=reflect)
    return SphericalRadial(
        directions=draw(st.sampled_from(["simplex", "orthoplex"])),
        tilt=draw(st.sampled_from(["exact", "fixed", 0.0, 1.0]) | st.floats(0, 1)),
        radii=draw(st.sampled_from(["independent", "stratified", "shared", "constant"])),
        origin=draw(st.sampled_from(["resample", "signed", "renormalise"])),
        rotation=ROTATIONS[draw(st.sampled_from(sorted(ROTATIONS)))](),
        remainder=draw(st.floats(0, 1)),
        reflect=reflect,
    )


@quiet_in_low_dimension
class TestRules:
    @examples(250)
    @given(rule=rules(), kernel=kernels, d=st.integers(1, 40), n=st.integers(1, 120), seed=seeds)
    def test_nodes(self, rule, kernel, d, n, seed):
        kernel = KERNELS[kernel]().resolve(np.ones((1, d)))
        try:
            nodes = rule.draw(d, n, kernel, np.random.default_rng(seed))
        except ValueError as refusal:
            names = (*rule.get_params(deep=False), type(rule).__name__, "kernel", "nodes")
            check_refusal(refusal, *names)
            return
        assert nodes.n_columns(kernel) == n
        for values in (nodes.radii, nodes.weights):
            assert np.isfinite(values).all()
            assert (values >= 0).all()
        again = rule.draw(d, n, kernel, np.random.default_rng(seed))
        assert_array_equal(again.frequencies(), nodes.frequencies())
        X = np.random.default_rng(seed).standard_normal((3, d))
        assert_allclose(nodes.arguments(X), X @ nodes.frequencies().T, atol=1e-9 * nodes.longest)
        features = QuadratureFeatures(kernel, rule=rule, n_components=n, random_state=seed)
        assert np.isfinite(features.fit(X).transform(X)).all()

    @examples(120)
    @given(
        kind=st.sampled_from(
            [
                MonteCarlo,
                QuasiMonteCarlo,
                GaussHermite,
                Fastfood,
                SphericalRadial,
                Butterfly,
                Hadamard,
            ]
        ),
        data=st.data(),
        value=odd_numbers | st.text(max_size=4) | st.integers(-(2**70), 2**70),
    )
    def test_odd_parameters(self, kind, data, value):
        name = data.draw(st.sampled_from(sorted(kind().get_params(deep=False))))
        part = kind(**{name: value})
        rule = SphericalRadial(rotation=part) if kind in (Butterfly, Hadamard) else part
        try:
            nodes = rule.draw(3, 12, Gaussian(0.5), np.random.default_rng(0))
        except (ValueError, TypeError) as refusal:
            check_refusal(refusal, name)
            return
        assert nodes.n_columns(Gaussian(0.5)) == 12
        assert np.isfinite(nodes.frequencies()).all()

    @examples(40)
    @given(
        name=st.sampled_from(["butterfly", "haar", "householder", "hadamard"]),
        d=st.integers(1, 40),
        count=st.integers(1, 3),
        seed=seeds,
        dtype=dtypes,
    )
    def test_rotations_keep_lengths(self, name, d, count, seed, dtype):
        rotation = ROTATIONS[name]()
        matrices = rotation.draw(d, np.random.default_rng(seed), count)
        X = np.random.default_rng(seed).standard_normal((4, d)).astype(dtype)
        turned = matrices.apply(X)
        assert turned.dtype == dtype
        assert turned.shape == (4, count, rotation.size(d))
        lengths = np.linalg.norm(turned, axis=2)
        slack = 1e-5 if dtype == np.float32 else 1e-12
        expected = np.linalg.norm(X, axis=1, keepdims=True)
        assert_allclose(lengths, np.broadcast_to(expected, lengths.shape), rtol=slack)


class TestBounds:
    numbers = odd_numbers | st.floats(1e-3, 1e3) | st.integers(1, 10**6)
    call = {  # noqa: RUF012
        "beta_d": ("d",),
        "sup_error_probability": (
            *("epsilon", "n_components", "d", "diameter", "sigma_p", "kappa", "mu", "M"),
        ),
        "n_components_for_sup_error": (
            *("epsilon", "delta", "d", "diameter", "sigma_p", "kappa", "mu", "M"),
        ),
        "rff_sup_error_probability": (
            *("epsilon", "n_components", "d", "diameter", "sigma_p", "alpha"),
        ),
        "rff_n_components_for_sup_error": ("epsilon", "delta", "d", "diameter", "sigma_p"),
        "ridge_error": ("epsilon", "alpha", "target_deviation"),
        "n_components_for_ridge_error": (
            *("epsilon", "delta", "d", "diameter", "alpha", "target_deviation"),
        ),
        "variance": ("n_rules", "d", "kappa"),
    }
    usual = {"d": 4, "n_components": 100, "n_rules": 4, "delta": 0.05}  # noqa: RUF012

    def test_all_bounds_are_called(self):
        assert sorted(self.call) == sorted(bounds.__all__)

    @examples(400)
    @given(
        name=st.sampled_from(sorted(call)),
        odd=st.lists(st.tuples(st.integers(0, 7), numbers), min_size=1, max_size=3),
    )
    def test_numbers_or_errors(self, name, odd):
        names = self.call[name]
        arguments = {argument: self.usual.get(argument, 0.5) for argument in names}
        arguments |= {names[which % len(names)]: value for which, value in odd}
        try:
            found = getattr(bounds, name)(**arguments)
        except (ValueError, TypeError) as refusal:
            check_refusal(refusal, *names)
            return
        assert found >= 0
        if name.startswith(("n_components", "rff_n_components")):
            assert isinstance(found, int)
            assert found >= 1

    @examples(60)
    @given(
        epsilon=st.floats(1e-3, 0.9),
        delta=st.floats(1e-6, 0.9),
        d=st.integers(1, 10**4),
        diameter=st.floats(1e-2, 1e2),
    )
    def test_the_number_of_features_meets_the_requested_probability(
        self, epsilon, delta, d, diameter
    ):
        n = bounds.n_components_for_sup_error(epsilon, delta, d, diameter=diameter)
        probability = bounds.sup_error_probability
        assert probability(epsilon, n, d, diameter=diameter) <= delta * (1 + 1e-9)
        if n > 1:
            assert probability(epsilon, n - 1, d, diameter=diameter) >= delta * (1 - 1e-9)


MODEL_PARAMETERS = {
    "kernel": Gaussian(0.3),
    "alpha": 1.0,
    "rule": "orf",
    "n_components": 30,
    "random_state": 0,
}


def ridge(**parameters):
    return QuadratureRidge(**MODEL_PARAMETERS | parameters)


def ridge_classifier(**parameters):
    return QuadratureRidgeClassifier(**MODEL_PARAMETERS | parameters)


@st.composite
def regression_tables(draw):
    X = draw(tables(most_rows=20, most_columns=6))
    rng = np.random.default_rng(draw(seeds))
    n_outputs = draw(st.sampled_from([None, 1, 3]))
    shape = (len(X),) if n_outputs is None else (len(X), n_outputs)
    return X, rng.standard_normal(shape)


class TestRegression:
    @examples(60)
    @given(table=regression_tables(), how=layouts, solver=st.sampled_from(["normal", "cg"]))
    def test_a_table_is_the_same_however_it_is_presented(self, table, how, solver):
        X, y = table
        model = ridge(solver=solver, tol=1e-10).fit(X, y)
        expected = model.predict(X)
        assert expected.shape == y.shape
        shown = LAYOUTS[how](X)
        slack = 5e-3 if "float32" in how else 1e-7
        assert_allclose(model.predict(shown), expected, rtol=0, atol=slack)
        target = y.tolist() if how == "list" else y
        tol = 1e-4 if "float32" in how else 1e-10
        again = ridge(solver=solver, tol=tol).fit(shown, target)
        assert_allclose(again.predict(X), expected, rtol=0, atol=slack)

    @examples(40)
    @given(table=regression_tables(), data=st.data())
    def test_weights_are_copies(self, table, data):
        X, y = table
        counts = data.draw(st.lists(st.integers(0, 3), min_size=len(X), max_size=len(X)))
        assume(any(counts))
        weighted = ridge().fit(X, y, sample_weight=counts)
        copied = ridge().fit(np.repeat(X, counts, axis=0), np.repeat(y, counts, axis=0))
        assert_allclose(weighted.predict(X), copied.predict(X), atol=1e-8)

    @examples(40)
    @given(table=regression_tables(), data=st.data())
    def test_batches_merges_and_orders_agree_with_one_fit(self, table, data):
        X, y = table
        order = np.array(data.draw(st.permutations(range(len(X)))))
        cut = data.draw(st.integers(0, len(X)))
        expected = ridge().fit(X, y).predict(X)
        batches = [rows for rows in np.split(order, [cut]) if len(rows)]
        added, parts = ridge(), []
        for rows in batches:
            added.partial_fit(X[rows], y[rows])
            parts.append(ridge().fit(X[rows], y[rows]))
        assert_allclose(added.predict(X), expected, atol=1e-8)
        merged = parts[0]
        for part in parts[1:]:
            merged.merge(part)
        assert_allclose(merged.predict(X), expected, atol=1e-8)

    @examples(40)
    @given(table=regression_tables(), n_samples=st.integers(1, 4), seed=seeds)
    def test_uncertainty(self, table, n_samples, seed):
        X, y = table
        model = ridge(alpha=0.1).fit(X, y)
        if not np.ptp(y, axis=0).all():
            with pytest.raises(ValueError, match=r"all targets in y .*are equal"):
                model.predict(X, return_std=True)
            return
        mean, deviation = model.predict(X, return_std=True)
        assert_array_equal(mean, model.predict(X))
        assert deviation.shape == mean.shape
        assert (deviation >= 0).all()
        assert np.isfinite(deviation).all()
        # More rows never increase uncertainty, except through the estimate of the variance.
        twice = ridge(alpha=0.1).fit(np.vstack([X, X]), np.concatenate([y, y]))
        once, again = (
            one.predict(X, return_std=True)[1] / np.sqrt(np.maximum(one.noise_variance_, 1e-300))
            for one in (model, twice)
        )
        assert (again <= once * (1 + 1e-6) + 1e-9).all()
        draws = model.sample_y(X, n_samples, random_state=seed)
        assert draws.shape == (*y.shape, n_samples)
        assert_array_equal(model.sample_y(X, n_samples, random_state=seed), draws)

    @examples(60)
    @given(data=st.data(), what=st.sampled_from(["X", "y", "sample_weight"]))
    @quiet_sums
    def test_any_numbers(self, data, what):
        rng = np.random.default_rng(0)
        tables = {
            "X": rng.standard_normal((6, 2)),
            "y": rng.standard_normal(6),
            "sample_weight": rng.uniform(0, 1, 6),
        }
        for _ in range(data.draw(st.integers(1, 3))):
            index = data.draw(st.integers(0, tables[what].size - 1))
            tables[what].flat[index] = data.draw(st.floats())
        try:
            predicted, deviation = ridge().fit(**tables).predict(tables["X"], return_std=True)
        except ValueError as refusal:
            check_refusal(refusal, what, "weights", "input", "alpha")
            return
        assert np.isfinite(predicted).all()
        assert np.isfinite(deviation).all()
        assert (deviation >= 0).all()

    @examples(120)
    @given(
        name=st.sampled_from(
            [
                *("alpha", "alphas", "tol", "max_iter", "solver", "gram_dtype", "fit_intercept"),
                *("lengthscales", "n_components", "checkpoint", "features", "n_jobs"),
            ]
        ),
        value=odd_numbers,
    )
    def test_odd_parameters(self, name, value):
        X = np.random.default_rng(0).standard_normal((8, 2))
        assume(not (name == "checkpoint" and isinstance(value, (str, bytes))))
        try:
            predicted = ridge(**{name: value}).fit(X, X[:, 0]).predict(X)
        except (ValueError, TypeError) as refusal:
            check_refusal(refusal, name)
            return
        assert np.isfinite(predicted).all()


class TestClassification:
    @examples(50)
    @given(
        X=tables(most_rows=20, most_columns=6),
        n_classes=st.integers(2, 4),
        labels=st.sampled_from(["numbers", "text", "booleans", "negative"]),
        how=layouts,
        seed=seeds,
    )
    def test_classes_and_probabilities(self, X, n_classes, labels, how, seed):
        codes = np.random.default_rng(seed).integers(0, n_classes, len(X))
        y = {
            "numbers": codes,
            "text": np.array(["a", "b", "c", "d"])[codes],
            "booleans": codes > 0,
            "negative": codes * 10 - 15,
        }[labels]
        model = ridge_classifier()
        if len(np.unique(y)) < 2:
            with pytest.raises(ValueError, match="one class"):
                model.fit(X, y).predict(X)
            return
        shown = LAYOUTS[how](X)
        model.fit(shown, y)
        assert_array_equal(model.classes_, np.unique(y))
        decisions, shares = model.decision_function(shown), model.predict_proba(shown)
        n_found = len(model.classes_)
        assert decisions.shape == ((len(X),) if n_found == 2 else (len(X), n_found))
        assert shares.shape == (len(X), n_found)
        assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-5)
        assert (shares >= 0).all()
        calibration = model._solution.calibration
        if calibration.bias.any():
            # With biases, the predicted class need not be the most probable one.
            rows = model._targets().kept(model._solution.summary)
            found = LeftOut.of_kept(model._solution.posterior, model.map_, rows)
            losses = calibration.log_losses(rows.targets - found.errors, rows.labels)
            frequencies = np.bincount(rows.labels, rows.weights) / rows.weights.sum()
            prior = -np.average(np.log(frequencies[rows.labels]), weights=rows.weights)
            assert np.average(losses, weights=rows.weights) <= prior + 1e-6
        else:
            # The most probable class, up to ties of decisions within rounding.
            predicted = np.searchsorted(model.classes_, model.predict(shown))
            likeliest = shares.max(axis=1)
            assert_allclose(shares[np.arange(len(X)), predicted], likeliest, atol=1e-5)
        plain = ridge_classifier().fit(X, y)
        assert_allclose(
            decisions, plain.decision_function(X), atol=5e-3 if "float32" in how else 1e-7
        )

    @examples(30)
    @given(X=tables(most_rows=20, most_columns=6), seed=seeds, data=st.data())
    def test_weights_equal_copies_and_batches_agree_with_one_fit(self, X, seed, data):
        y = np.random.default_rng(seed).integers(0, 3, len(X))
        assume(len(np.unique(y)) > 1)
        counts = data.draw(st.lists(st.integers(1, 3), min_size=len(X), max_size=len(X)))
        weighted = ridge_classifier().fit(X, y, sample_weight=counts)
        copied = ridge_classifier()
        rows = np.repeat(np.arange(len(X)), counts)
        cut = data.draw(st.integers(0, len(rows)))
        for batch in np.split(rows, [cut]):
            if len(batch):
                copied.partial_fit(X[batch], y[batch])
        assert_array_equal(copied.classes_, weighted.classes_)
        expected = weighted.decision_function(X)
        assert_allclose(copied.decision_function(X), expected, atol=1e-8)


class TestParquet:
    @examples(25)
    @given(
        n_rows=st.integers(1, 30),
        n_columns=st.integers(1, 4),
        rows_per_block=st.integers(1, 40),
        weighted=st.booleans(),
        targets=st.sampled_from(["y", ["y"], ["y", "z"]]),
        dtype=st.sampled_from(["float32", "float64"]),
    )
    def test_blocks_contain_the_table(
        self, tmp_path_factory, n_rows, n_columns, rows_per_block, weighted, targets, dtype
    ):
        path = tmp_path_factory.mktemp("blocks") / "table.parquet"
        rng = np.random.default_rng(n_rows)
        names = [f"x{i}" for i in range(n_columns)]
        frame = pd.DataFrame(rng.standard_normal((n_rows, n_columns + 3)))
        frame.columns = [*names, "y", "z", "weight"]
        frame.to_parquet(path)
        blocks = list(
            ParquetBlocks(
                path,
                target=targets,
                columns=names,
                sample_weight="weight" if weighted else None,
                rows_per_block=rows_per_block,
                dtype=dtype,
            )
        )
        assert max(len(block[0]) for block in blocks) <= rows_per_block
        X, y, *weights = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        assert_array_equal(X, frame[names].astype(dtype))
        assert_array_equal(y, frame[targets])
        assert [len(found) for found in weights] == [n_rows] * weighted

    @examples(40)
    @given(rows_per_block=odd_numbers)
    def test_odd_blocks(self, tmp_path_factory, rows_per_block):
        path = tmp_path_factory.getbasetemp() / "table.parquet"
        if not path.exists():
            pd.DataFrame({"a": [1.0], "y": [1.0]}).to_parquet(path)
        try:
            blocks = ParquetBlocks(path, "y", rows_per_block=rows_per_block)
        except (ValueError, TypeError) as refusal:
            check_refusal(refusal, "rows_per_block")
            return
        assert blocks.rows_per_block >= 1


class TestCommandLine:
    """Invalid arguments are reported in a line or two, and nothing runs."""

    @examples(60)
    @given(
        command=st.sampled_from(["compare", "study", "data", "nonsense"]),
        options=st.lists(
            st.sampled_from(
                [
                    *(
                        "--target",
                        "--task",
                        "--scoring",
                        "--max-rows",
                        "--components",
                        "--jobs",
                    ),
                    *("--datasets", "--methods", "--out", "--quick", "--wat", "-x"),
                ]
            ),
            max_size=3,
        ),
        words=st.lists(st.text(min_size=1, max_size=5) | st.integers().map(str), max_size=4),
    )
    def test_invalid_arguments(self, command, options, words):
        from quadfeat.apps.cli import app
        from quadfeat.apps.reporting.errors import CommandError

        arguments = [command, "no-such-thing.csv"]
        for position, option in enumerate(options):
            arguments += [option, *words[position : position + 1]]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code != 0
        assert isinstance(result.exception, (SystemExit, CommandError))


def test_show_config_reports_the_settings_in_use(capsys):
    quadfeat.show_config()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"quadfeat   {quadfeat.__version__}"
    assert [line.split()[0] for line in lines[1:]] == ["core", "threads", "machine", "python"]
