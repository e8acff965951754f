"""Compare products computed in blocks with products of the full feature matrix."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from quadfeat import QuadratureFeatures
from quadfeat.engine import core as _core
from quadfeat.engine import threads as _threads
from quadfeat.kernels import ArcCosine, Gaussian, PointwiseNonlinear
from quadfeat.maps import base as products
from slow import slow

CORES = _core._native.cores() if _core._native is not None else []
needs_core = pytest.mark.skipif(not CORES, reason="quadfeat was built without its native core")

RULES = ["sr33", "rff", "rom", "halton", "fastfood", "orf"]
KERNELS = {
    "gaussian": Gaussian(0.05),
    "arccos0": ArcCosine(0),
    "arccos1": ArcCosine(1),
    "arccos2": ArcCosine(2),
    "tanh": PointwiseNonlinear(np.tanh),
}
DTYPES = [np.float32, np.float64]


def use(core, monkeypatch):
    monkeypatch.setattr(_core, "CORE", core)
    monkeypatch.setattr(_threads, "ENTRIES_PER_THREAD", 1)


def fitted(kernel, rule, n_components, X):
    features = QuadratureFeatures(kernel, rule=rule, n_components=n_components, random_state=0)
    return features.fit(X)


def close(given, expected, scale, dtype):
    """Return whether values agree up to rounding. ``scale`` is the sum of absolute values."""
    assert given.shape == expected.shape
    assert (np.abs(given - expected) <= 32 * np.finfo(dtype).eps * scale).all()


def check_products(features, X, n_outputs, seed=0):
    """Compare all products with those of the full features in float64."""
    rng = np.random.default_rng(seed)
    V = rng.standard_normal((features.n_components_, n_outputs))
    U = rng.standard_normal((X.shape[0], n_outputs))
    weights = rng.uniform(-1, 2, X.shape[0])
    V, U, weights = (values.astype(X.dtype) for values in (V, U, weights))
    Z = features.transform(X).astype(np.float64)
    size = np.abs(Z)
    made = features.map_

    ZV = made.multiply(X, V)
    assert ZV.dtype == X.dtype
    close(ZV, Z @ V, size @ np.abs(V), X.dtype)

    for w, values in [(None, np.ones_like(weights)), (weights, weights)]:
        normal = made.normal_multiply(X, V, w)
        assert normal.dtype == np.float64
        scale = size.T @ (np.abs(values)[:, None] * (size @ np.abs(V)))
        close(normal, Z.T @ (values[:, None] * (Z @ V)), scale, X.dtype)

    ZU = made.transpose_multiply(X, U)
    assert ZU.dtype == np.float64
    close(ZU, Z.T @ U, size.T @ np.abs(U), X.dtype)
    return ZV, normal, ZU


@pytest.mark.parametrize("core", [*CORES, "numpy"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", sorted(KERNELS))
@pytest.mark.parametrize("rule", RULES)
def test_products_equal_those_of_the_full_features(core, dtype, kernel, rule, monkeypatch):
    use(core, monkeypatch)
    rng = np.random.default_rng(0)
    for d, n_components, n_rows, n_outputs in [(5, 77, 37, 3), (40, 301, 300, 1), (40, 300, 9, 8)]:
        X = rng.standard_normal((n_rows, d)).astype(dtype)
        check_products(fitted(KERNELS[kernel], rule, n_components, X), X, n_outputs)


@pytest.mark.parametrize("core", [*CORES, "numpy"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", ["gaussian", "arccos1"])
@pytest.mark.parametrize("n_components", [1, 2, 3, 16, 17, 127, 128, 129, 130, 131, 259])
def test_any_number_of_columns_and_outputs(core, dtype, kernel, n_components, monkeypatch):
    """Test a single column, the origin's column, and complete and incomplete panels of 128."""
    use(core, monkeypatch)
    X = np.random.default_rng(0).standard_normal((21, 50)).astype(dtype)
    features = fitted(KERNELS[kernel], "sr33", n_components, X)
    for n_outputs in (1, 3, 8, 17, 64, 65):
        check_products(features, X, n_outputs)


@pytest.mark.parametrize("core", [*CORES, "numpy"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.filterwarnings("ignore:the weights of .* have infinite variance")
@pytest.mark.parametrize("n_rows", [1, 2, 7, 8, 9, 255, 256, 257, 1030])
def test_any_number_of_rows(core, dtype, n_rows, monkeypatch):
    use(core, monkeypatch)
    for d in (1, 50):
        X = np.random.default_rng(0).standard_normal((n_rows, d)).astype(dtype)
        features = fitted(KERNELS["gaussian"], "sr33", 65, X)
        for n_outputs in (2, 66):
            check_products(features, X, n_outputs)


@pytest.mark.parametrize("core", [*CORES, "numpy"])
@pytest.mark.parametrize("n_outputs", [3, 65])
def test_blocks_of_few_rows(core, n_outputs, monkeypatch):
    use(core, monkeypatch)
    monkeypatch.setattr(products, "ROWS_PER_BLOCK", 16)
    monkeypatch.setattr(_core, "OUTPUTS_UP_TO", 3)
    X = np.random.default_rng(0).standard_normal((53, 50))
    check_products(fitted(KERNELS["gaussian"], "sr33", 65, X), X, n_outputs)


@pytest.mark.parametrize("core", [*CORES, "numpy"])
@pytest.mark.parametrize("n_outputs", [0, 1, 65])
def test_without_rows_or_outputs(core, n_outputs, monkeypatch):
    use(core, monkeypatch)
    X = np.random.default_rng(0).standard_normal((9, 50)).astype(np.float32)
    features = fitted(KERNELS["gaussian"], "sr33", 300, X)
    made = features.map_
    V = np.ones((300, n_outputs))
    for rows in (X[:0], sparse.csr_matrix(X)[:0]):
        assert made.multiply(rows, V).shape == (0, n_outputs)
        assert_array_equal(made.normal_multiply(rows, V), np.zeros((300, n_outputs)))
        assert_array_equal(made.transpose_multiply(rows, V[:0]), np.zeros((300, n_outputs)))
    if n_outputs == 0:
        check_products(features, X, 0)


@pytest.mark.parametrize("core", [*CORES, "numpy"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_outputs", [5, *map(slow, [1, 65])])
@pytest.mark.parametrize("rule", ["sr33", "orf"])
def test_the_same_bits_for_any_threads_and_layout(core, dtype, n_outputs, rule, monkeypatch):
    use(core, monkeypatch)
    X = np.random.default_rng(0).standard_normal((2100, 50)).astype(dtype)
    features = fitted(KERNELS["gaussian"], rule, 131, X)
    expected = check_products(features, X, n_outputs)
    wide = np.zeros((2 * len(X), 3 * X.shape[1]), dtype=dtype)
    wide[::2, ::3] = X
    read_only = X.copy()
    read_only.flags.writeable = False
    for n_jobs in (1, 2, 5):
        features.set_params(n_jobs=n_jobs)
        for rows in (X, np.asfortranarray(X), wide[::2, ::3], X[::-1].copy()[::-1], read_only):
            for given, wanted in zip(
                check_products(features, rows, n_outputs), expected, strict=True
            ):
                assert_array_equal(given, wanted)


@pytest.mark.parametrize("core", [*CORES, "numpy"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sparse_rows(core, dtype, monkeypatch):
    use(core, monkeypatch)
    X = sparse.random(70, 50, 0.1, format="csr", dtype=dtype, random_state=0)
    for rule in ("sr33", "rff"):
        check_products(fitted(KERNELS["gaussian"], rule, 101, X), X, 3)


@pytest.mark.parametrize("core", [*CORES, "numpy"])
def test_factors_of_any_layout_and_dtype(core, monkeypatch):
    use(core, monkeypatch)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((33, 50)).astype(np.float32)
    features = fitted(KERNELS["gaussian"], "sr33", 101, X)
    made = features.map_
    V = rng.standard_normal((101, 3)).astype(np.float32)
    weights = rng.random(33).astype(np.float32)
    for other in (V.astype(np.float64), np.asfortranarray(V), V[::-1].copy()[::-1], V.tolist()):
        assert_array_equal(made.multiply(X, other), made.multiply(X, V))
        assert_array_equal(
            made.normal_multiply(X, other, np.repeat(weights, 2)[::2].astype(np.float64)),
            made.normal_multiply(X, V, weights),
        )


@pytest.mark.parametrize("core", [*CORES, "numpy"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_out_of_range(core, dtype, monkeypatch):
    """Test rows out of the range of the native core or of the dtype, and NaN."""
    use(core, monkeypatch)
    X = np.random.default_rng(0).standard_normal((5, 50)).astype(dtype)
    features = fitted(KERNELS["gaussian"], "sr33", 61, X)
    check_products(features, X * dtype(2.0**60), 3)
    V = np.ones((61, 1))
    made = features.map_
    broken = X.copy()
    broken[3, 4] = np.nan
    squares = fitted(KERNELS["arccos2"], "sr33", 61, X).map_
    huge = X * (np.finfo(dtype).max / 100)
    for product, rows, message in [(made, broken, "NaN"), (squares, huge, "beyond the range")]:
        with pytest.raises(ValueError, match=message):
            product.multiply(rows, V)
        with pytest.raises(ValueError, match=message):
            product.normal_multiply(rows, V)
        with pytest.raises(ValueError, match=message):
            product.transpose_multiply(rows, np.ones((5, 1)))


@needs_core
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_outputs", [3, _core.OUTPUTS_UP_TO + 1])
def test_rows_in_range_are_read_once(core, dtype, n_outputs, monkeypatch):
    use(core, monkeypatch)
    X = np.random.default_rng(0).standard_normal((70, 50)).astype(dtype)
    features = fitted(KERNELS["gaussian"], "sr33", 61, X)

    def second_reader(X):
        raise AssertionError("X was searched for its largest entry before the product")

    monkeypatch.setattr(_core, "largest_magnitude", second_reader)
    check_products(features, X, n_outputs)


@needs_core
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_entries_above_the_limit_are_found_and_nothing_is_added(core, dtype):
    X = np.random.default_rng(0).uniform(-1, 1, (600, 50)).astype(dtype)
    features = fitted(KERNELS["gaussian"], "sr33", 61, X)
    native = _core.compile_map(features.nodes_, features.kernel_, np.dtype(dtype)).map
    V, U, w = (np.ones(shape, dtype=dtype) for shape in [(61, 2), (600, 2), (600, 1)])
    product, total = np.zeros((600, 2), dtype=dtype), np.full((61, 2), 7.0)
    calls = [
        (native.multiply, (V, product)),
        (native.normal_multiply, (w, V, total)),
        (native.transposed_multiply, (U, total)),
    ]
    for place in (0, 299, 599):
        for value in (2.5, -np.inf, np.nan):
            far = X.copy()
            far[place, 17] = value
            for call, rest in calls:
                for n_threads in (1, 3):
                    assert not call(far, *rest, n_threads, core, 2.0)
            assert (total == 7).all()
    for call, rest in calls:
        with pytest.raises(ValueError, match="limit is not valid"):
            call(X, *rest, 1, core, -1.0)
        assert call(X, *rest, 2, core, 2.0)
    Z = features.transform(X).astype(np.float64)
    assert_allclose(total, 7 + Z.T @ (Z @ V) + Z.T @ U, rtol=1e-4)


def test_factors_of_another_shape_are_rejected():
    X = np.random.default_rng(0).standard_normal((5, 50))
    made = fitted(KERNELS["gaussian"], "sr33", 61, X).map_
    V = np.ones((61, 2))
    for bad in (np.ones(61), np.ones((60, 2)), np.ones((2, 61)), np.ones((61, 1, 1))):
        with pytest.raises(ValueError, match=r"V has shape .* each of the 61 components"):
            made.multiply(X, bad)
        with pytest.raises(ValueError, match=r"V has shape .* each of the 61 components"):
            made.normal_multiply(X, bad)
        with pytest.raises(ValueError, match=r"U has shape .* each of the 5 rows of X"):
            made.transpose_multiply(X, bad)
    for weights in (np.ones(4), np.ones((5, 1)), 1.0):
        with pytest.raises(ValueError, match=r"weights has shape .* each of the 5 rows of X"):
            made.normal_multiply(X, V, weights)


@needs_core
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_binding_checks_its_arguments(dtype):
    X = np.zeros((5, 50), dtype=dtype)
    features = fitted(KERNELS["gaussian"], "sr33", 61, X)
    native = _core.compile_map(features.nodes_, features.kernel_, np.dtype(dtype)).map
    other = np.float64 if dtype == np.float32 else np.float32
    V, U, w = (np.ones(shape, dtype=dtype) for shape in [(61, 2), (5, 2), (5, 1)])
    product, total = np.empty((5, 2), dtype=dtype), np.zeros((61, 2))
    good = {
        "multiply": {"X": X, "V": V, "out": product},
        "normal_multiply": {"X": X, "weights": w, "V": V, "out": total},
        "transposed_multiply": {"X": X, "U": U, "out": total},
    }
    for name, arguments in good.items():
        method = getattr(native, name)
        method(**arguments, n_threads=1, core=CORES[0])
        for argument, value in arguments.items():
            narrow = value[:, :-1] if value.shape[1] > 1 else np.ones((5, 2), dtype=dtype)
            for bad in (value[:-1], narrow, value.ravel()):
                if argument in "VU" and bad is narrow:
                    bad = np.ones((len(value), 3), dtype=dtype)  # does not match the shape of out
                with pytest.raises(ValueError, match=r"shape of the map|is not a matrix"):
                    method(**(arguments | {argument: bad}), n_threads=1, core=CORES[0])
            if argument != "out":
                with pytest.raises(ValueError, match="is not a matrix of"):
                    method(
                        **(arguments | {argument: value.astype(other)}), n_threads=1, core=CORES[0]
                    )
        with pytest.raises(ValueError, match="is not a matrix of"):
            method(
                **(arguments | {"out": arguments["out"].astype(int)}), n_threads=1, core=CORES[0]
            )
        read_only = arguments["out"].copy()
        read_only.flags.writeable = False
        with pytest.raises((ValueError, BufferError), match="read-only"):
            method(**(arguments | {"out": read_only}), n_threads=1, core=CORES[0])
        with pytest.raises(ValueError, match="n_threads is 0"):
            method(**arguments, n_threads=0, core=CORES[0])
        with pytest.raises(ValueError, match="no core named 'abacus'"):
            method(**arguments, n_threads=1, core="abacus")


@needs_core
@pytest.mark.parametrize("core", CORES)
def test_sums_are_added_to_the_output(core):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 50))
    features = fitted(KERNELS["gaussian"], "sr33", 61, X)
    native = _core.compile_map(features.nodes_, features.kernel_, X.dtype).map
    V, U, weights = rng.random((61, 2)), rng.random((300, 2)), rng.random((300, 1))
    Z = features.transform(X)
    buffer = np.full((4, 122), 7.0)
    out = buffer[::2, ::2].T  # strided: entries in between must not change
    native.normal_multiply(X, weights, V, out, 2, core)
    assert_allclose(out, 7 + Z.T @ (weights * (Z @ V)), rtol=1e-12)
    native.transposed_multiply(X, U, out, 2, core)
    assert_allclose(out, 7 + Z.T @ (weights * (Z @ V)) + Z.T @ U, rtol=1e-12)
    assert (buffer[1::2] == 7).all()
    assert (buffer[:, 1::2] == 7).all()


@needs_core
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to send")
@pytest.mark.parametrize("name", ["multiply", "normal_multiply", "transposed_multiply"])
def test_an_interrupt_stops_a_long_product(name):
    # One row, repeated with stride 0: hours of work without memory.
    script = f"""
import numpy as np
from numpy.lib.stride_tricks import as_strided
from quadfeat import QuadratureFeatures
from quadfeat.engine import core as _core
x = np.ones((1, 100), dtype=np.float32)
features = QuadratureFeatures(n_components=1000, random_state=0).fit(x)
compiled = _core.compile_map(features.nodes_, features.kernel_, x.dtype)
X = np.broadcast_to(x, (10**10, 100))
column = as_strided(np.ones(1, np.float32), (10**10, 1), (0, 4))
V, out = np.ones((1000, 1), np.float32), np.zeros((1000, 1))
arguments = {{
    "multiply": (V, column),
    "normal_multiply": (column, V, out),
    "transposed_multiply": (column, out),
}}["{name}"]
try:
    print("started", flush=True)
    getattr(compiled, "{name}")(X, *arguments, 2, np.inf)
except KeyboardInterrupt:
    print("interrupted", bool((out == 0).all()), flush=True)
"""
    child = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"QUADFEAT_CORE": CORES[0]},
    )
    assert child.stdout.readline() == "started\n"
    child.send_signal(signal.SIGINT)
    rest, _ = child.communicate()
    assert rest == "interrupted True\n"
