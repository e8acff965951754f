"""Compare every build of the native core that this machine can run with plain NumPy."""

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import erf

import quadfeat
from quadfeat import QuadratureFeatures, transform_into
from quadfeat.engine import core as _core
from quadfeat.engine import threads as _threads
from quadfeat.kernels import ArcCosine, Gaussian, Matern, PointwiseNonlinear
from quadfeat.kernels.nonlinearities import Fourier, Ramp
from quadfeat.maps import QuadratureMap
from quadfeat.rules import SphericalRadial, as_rule
from quadfeat.rules.nodes import DenseDirections, Nodes

CORES = _core._native.cores() if _core._native is not None else []
needs_core = pytest.mark.skipif(not CORES, reason="quadfeat was built without its native core")

RULES = {
    "sr33": SphericalRadial(),
    "signed": SphericalRadial(origin="signed"),
    "orthoplex": SphericalRadial(directions="orthoplex", tilt=0.0),
    "rom": as_rule("rom"),
    "hadamard simplex": SphericalRadial(rotation=as_rule("rom").rotation),
    "fastfood": as_rule("fastfood"),
    "orf": as_rule("orf"),
    "rff": as_rule("rff"),
    "unreflected": SphericalRadial(reflect=False),
}
STRUCTURED = ["sr33", "signed", "orthoplex", "rom", "hadamard simplex", "fastfood"]
KERNELS = {
    "gaussian": Gaussian(0.5),
    "ard": None,
    "matern": Matern(2.5, length_scale=2.0),
    "arccos0": ArcCosine(0),
    "arccos1": ArcCosine(1),
    "arccos2": ArcCosine(2),
    "erf": PointwiseNonlinear(erf),
}


def use(core, monkeypatch):
    monkeypatch.setattr(_core, "CORE", core)
    monkeypatch.setattr(_threads, "ENTRIES_PER_THREAD", 1)


def laid_out(X, layout):
    """Return the same values in another memory layout."""
    if layout == "fortran":
        return np.asfortranarray(X)
    if layout == "strided":
        wide = np.zeros((2 * X.shape[0], 3 * X.shape[1]), dtype=X.dtype)
        wide[::2, ::3] = X
        return wide[::2, ::3]
    if layout == "reversed":
        return X[::-1, ::-1].copy()[::-1, ::-1]
    if layout == "unaligned":
        raw = np.frombuffer(b"\0" + X.tobytes(), dtype=np.uint8)[1:]
        return raw.view(X.dtype).reshape(X.shape)
    if layout == "read-only":
        X = X.copy()
        X.flags.writeable = False
    return X


@needs_core
@settings(max_examples=300, deadline=None)
@given(
    data=st.data(),
    core=st.sampled_from(CORES or ["none"]),
    rule=st.sampled_from(sorted(RULES)),
    kernel=st.sampled_from(sorted(KERNELS)),
    d=st.integers(1, 70) | st.sampled_from([128, 200, 300]),
    dense_up_to=st.sampled_from([0, 16]),
    dtype=st.sampled_from([np.float32, np.float64]),
    layout=st.sampled_from(["c", "fortran", "strided", "reversed", "unaligned", "read-only"]),
)
@pytest.mark.filterwarnings("ignore:the weights of .* have infinite variance")
def test_native_equals_reference(data, core, rule, kernel, d, dense_up_to, dtype, layout):
    n_rows, n_components, n_threads, seed = (
        data.draw(st.integers(low, high)) for low, high in [(1, 40), (1, 600), (1, 4), (0, 10**6)]
    )
    rng = np.random.default_rng(seed)
    kernel = Gaussian(rng.uniform(0, 1, d)) if kernel == "ard" else KERNELS[kernel]
    X = rng.standard_normal((n_rows, d)).astype(dtype)
    X[rng.random(n_rows) < 0.1] = 0.0
    features = QuadratureFeatures(kernel, rule=RULES[rule], n_components=n_components)
    nodes = features.set_params(random_state=seed).fit(X).nodes_

    with pytest.MonkeyPatch.context() as patch:
        use(core, patch)
        patch.setattr(_core, "DENSE_UP_TO", dense_up_to)
        compiled = _core.compile_map(nodes, features.kernel_, np.dtype(dtype))
        given = np.full((n_rows, n_components), np.nan, dtype=dtype)
        compiled.write(laid_out(X, layout), given, n_threads)

    # Arguments are accurate to 4 eps log2(2p) rho |x|. Features add a few eps.
    eps = np.finfo(dtype).eps
    scaled = X.astype(np.float64) * features.kernel_.input_factor(d)
    arguments = nodes.arguments(scaled)
    lengths = np.linalg.norm(nodes.frequencies(), axis=1)
    if isinstance(nodes.directions, DenseDirections):
        reach = np.linalg.norm(scaled, axis=1)[:, None] * lengths * np.sqrt(d)
    else:
        reach = np.linalg.norm(scaled, axis=1)[:, None] * nodes.radii
    error = 4 * eps * np.log2(4 * d) * reach

    expected, slack = (np.empty((n_rows, n_components)) for _ in range(2))
    nodes.write_columns(arguments, features.kernel_, expected)
    steepness = _Steepness(nodes, features.kernel_)
    steepness.write(arguments, error, slack, eps)
    assert not np.isnan(given).any()
    assert (np.abs(given - expected) <= slack).all()


class _Steepness:
    """Bound the error of a feature by the error of its argument."""

    def __init__(self, nodes: Nodes, kernel):
        self.nodes, self.phi = nodes, kernel.nonlinearity
        self.amplitudes = nodes.amplitudes(kernel)
        self.origin = nodes.origin_feature(kernel)

    def write(self, arguments, error, out, eps):
        t = np.abs(arguments)
        if isinstance(self.phi, Fourier):
            off = error + 4 * eps * (1 + t)
        elif isinstance(self.phi, Ramp) and self.phi.order == 0:
            off = np.where(t <= error, 1.0, 4 * eps)
        elif isinstance(self.phi, Ramp):
            off = self.phi.order * (t + error) ** (self.phi.order - 1) * error
            off = off + 4 * eps * (t + error) ** self.phi.order
        else:
            off = 1.2 * error + 8 * eps
        off = off * self.amplitudes + eps
        pairs = 2 if isinstance(self.phi, Fourier) or self.nodes.reflected else 1
        columns = np.repeat(off, pairs, axis=1)
        if self.nodes.last_is_single:
            columns = columns[:, :-1]
        if self.nodes.has_origin_column:
            columns = np.hstack([columns, np.full((len(t), 1), 4 * eps)])
        out[...] = columns


@needs_core
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
class TestCosineAndSine:
    def arguments(self, core, dtype, values, monkeypatch):
        """Return cosines and sines of the given numbers, as features of unit amplitude."""
        use(core, monkeypatch)
        n = len(values)
        nodes = Nodes(DenseDirections(np.ones((n, 1))), np.ones(n), np.ones(n))
        native = _core.native_map(nodes, Gaussian(0.5), dtype, "given")
        out = np.empty((1, 2 * n), dtype=dtype)
        native.transform(np.asarray(values, dtype=dtype)[None], out, 1, core)
        return out[0, 0::2], out[0, 1::2]

    def test_error_up_to_10000(self, core, dtype, monkeypatch):
        t = np.random.default_rng(0).uniform(-1e4, 1e4, 20000).astype(dtype)
        t = np.concatenate([t, np.linspace(-8, 8, 4001).astype(dtype)])
        cosine, sine = self.arguments(core, dtype, t, monkeypatch)
        eps = np.finfo(dtype).eps
        exact = t.astype(np.float64)
        # Rounding the angle to half turns adds one error, and the polynomials add two eps.
        tolerance = eps * np.abs(exact) + 2 * eps
        assert (np.abs(cosine - np.cos(exact)) <= tolerance).all()
        assert (np.abs(sine - np.sin(exact)) <= tolerance).all()

    def test_huge_arguments_stay_bounded(self, core, dtype, monkeypatch):
        """Test arguments from 1e4 to 1e30, some too large for the core, through the public map."""
        use(core, monkeypatch)
        for rule in ("sr33", "rff"):
            features = QuadratureFeatures(
                Gaussian(0.5), rule=rule, n_components=101, random_state=0
            ).fit(np.zeros((1, 20)))
            amplitude = features.nodes_.amplitudes(features.kernel_).max()
            x = np.random.default_rng(0).standard_normal(20)
            for scale in np.geomspace(1e4, 1e30, 40):
                Z = features.transform((scale * x[None]).astype(dtype))
                assert (
                    np.abs(Z) <= amplitude * (1 + 4 * np.finfo(dtype).eps)
                ).all()  # false for NaN


@needs_core
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
class TestLargestMagnitude:
    @pytest.mark.parametrize("shape", [(1, 1), (3, 7), (5, 64), (40, 33), (1, 1000), (1000, 1)])
    def test_any_layout(self, core, dtype, shape, monkeypatch):
        use(core, monkeypatch)
        rng = np.random.default_rng(0)
        base = rng.standard_normal((2 * shape[0], 3 * shape[1])).astype(dtype)
        views = (base[: shape[0], : shape[1]], base[::-2, ::3], base[::2, ::-3])
        for X in (*views, np.asfortranarray(views[0]), np.ascontiguousarray(views[1])):
            assert _core.largest_magnitude(X) == np.abs(X).max()
        assert _core.largest_magnitude(sparse.csr_matrix(views[0])) == np.abs(views[0]).max()

    @pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, -np.nan])
    def test_one_entry_that_is_not_finite(self, core, dtype, value, monkeypatch):
        use(core, monkeypatch)
        for index in range(147):
            X = np.ones((3, 49), dtype=dtype)
            X.flat[index] = value
            assert not np.isfinite(_core.largest_magnitude(X))


@needs_core
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0, 1, 7])
def test_writes_stay_within_a_part_of_a_buffer(core, dtype, offset, monkeypatch):
    use(core, monkeypatch)
    X = np.random.default_rng(0).standard_normal((403, 60)).astype(dtype)
    features = QuadratureFeatures(n_components=1021, random_state=0).fit(X)
    expected = np.vstack([features.transform(rows) for rows in np.array_split(X, 40)])
    # Rows are shorter than the stride and start at any offset within a cache line.
    buffer = np.full((len(X), 1029), 7, dtype=dtype)
    transform_into(features, X, buffer[:, offset : offset + 1021])
    assert_array_equal(buffer[:, offset : offset + 1021], expected)
    assert (buffer[:, :offset] == 7).all()
    assert (buffer[:, offset + 1021 :] == 7).all()


@needs_core
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [2, 3, 4, 5, 6, 7, 8, 16, 20, 33, 43, 59, 70, 100])
def test_right_angles(core, dtype, d, monkeypatch):
    """Test cosines at or near zero, whose tangents are infinite or huge."""
    use(core, monkeypatch)
    monkeypatch.setattr(_core, "DENSE_UP_TO", 0)
    rule = SphericalRadial(tilt=0.0)
    nodes = rule.draw(d, 2 * d + 3, Gaussian(0.5), np.random.default_rng(0))
    drawn = nodes.directions.matrices
    angles = np.random.default_rng(1).choice(
        [0, np.pi / 2, -np.pi / 2, np.pi / 2 + 1e-9, np.pi, 1.0], size=drawn.cosines.shape
    )
    cosines = np.where(np.abs(np.cos(angles)) < 1e-12, 0.0, np.cos(angles))
    directions = replace(
        nodes.directions, matrices=replace(drawn, cosines=cosines, sines=np.sin(angles))
    )
    turned = replace(nodes, directions=directions)
    X = np.random.default_rng(2).standard_normal((5, d)).astype(dtype)
    out = np.empty((5, len(nodes.radii)), dtype=dtype)
    _core.native_map(turned, None, np.dtype(dtype), "structured").transform(X, out, 1, core)
    exact = X.astype(np.float64) @ turned.frequencies().T
    tolerance = 8 * np.finfo(dtype).eps * np.log2(2 * d) * nodes.longest
    assert_allclose(out, exact, rtol=0, atol=tolerance * np.linalg.norm(X, axis=1).max())


@needs_core
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_butterflies_of_any_width(core, dtype, monkeypatch):
    """Test passes whose last run is cut off, in the first chunk of coordinates and later."""
    use(core, monkeypatch)
    rng = np.random.default_rng(0)
    widths = [*range(2, 70), 127, 200, 447, 448, 511, 512, 513, 520, 575, 577, 784, 1000, 1023]
    for d in [*widths, 1025, 1536, 2047, 2049, 2600, 3072, 3585, 4096, 4097, 4700, 5121]:
        nodes = SphericalRadial(tilt=0.0).draw(d, 2 * (d + 1) + 1, Gaussian(0.5), rng)
        X = rng.standard_normal((3, d)).astype(dtype)
        out = np.full((3, len(nodes.radii)), np.nan, dtype=dtype)
        _core.native_map(nodes, None, np.dtype(dtype), "structured").transform(X, out, 1, core)
        reach = nodes.radii * np.linalg.norm(X, axis=1)[:, None]
        tolerance = 4 * np.finfo(dtype).eps * np.log2(2 * d + 1) * reach
        assert (np.abs(out - nodes.arguments(X.astype(np.float64))) <= tolerance).all(), d


@needs_core
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
class TestLimit:
    def transform(self, X, limit, core):
        nodes = SphericalRadial().draw(X.shape[1], 80, Gaussian(0.5), np.random.default_rng(0))
        native = _core.native_map(nodes, Gaussian(0.5), X.dtype, "structured")
        out = np.full((len(X), 80), np.nan, dtype=X.dtype)
        return native.transform(X, out, 2, core, limit), out

    @pytest.mark.parametrize("value", [3.0, -3.0, np.inf, -np.inf, np.nan])
    def test_an_entry_above_the_limit_is_found_anywhere(self, core, dtype, value):
        for index in range(0, 50 * 39, 37):
            X = np.ones((50, 39), dtype=dtype)
            X.flat[index] = value
            for rows in (X, np.asfortranarray(X), laid_out(X, "strided")):
                assert not self.transform(rows, 2.0, core)[0]

    def test_entries_up_to_the_limit_are_accepted(self, core, dtype):
        X = np.random.default_rng(0).choice([-2.0, 0.0, 2.0], size=(50, 39)).astype(dtype)
        within, out = self.transform(X, 2.0, core)
        assert within
        assert_array_equal(out, self.transform(X, np.inf, core)[1])
        assert np.isfinite(out).all()

    def test_without_a_limit_everything_is_accepted(self, core, dtype):
        X = np.full((9, 39), np.nan, dtype=dtype)
        assert self.transform(X, np.inf, core)[0]
        assert not self.transform(X, 1e300, core)[0]  # out of the range of float32, but finite

    @pytest.mark.parametrize("limit", [np.nan, -1.0])
    def test_invalid_limits_are_rejected(self, core, dtype, limit):
        with pytest.raises(ValueError, match="limit is not valid"):
            self.transform(np.ones((9, 39), dtype=dtype), limit, core)


@pytest.mark.parametrize("core", [*CORES, "numpy"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", ["gaussian", "arccos1"])
def test_a_row_that_the_core_cannot_handle_does_not_change_others(core, dtype, kernel, monkeypatch):
    """If the core gives up in the middle of a call, NumPy computes the whole call."""
    use(core, monkeypatch)
    X = np.random.default_rng(0).standard_normal((60, 40)).astype(dtype)
    features = QuadratureFeatures(KERNELS[kernel], n_components=201, random_state=0).fit(X)
    expected = features.transform(X)
    X[37] *= 1e9 if dtype == np.float32 else 1e18
    if kernel == "arccos1":
        X[37] *= 1e9 if dtype == np.float32 else 1e250
    Z = features.transform(X)
    assert np.isfinite(Z).all()
    others = np.arange(60) != 37
    assert_allclose(Z[others], expected[others], rtol=0, atol=50 * np.finfo(dtype).eps)
    X[38, 5] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        features.transform(X)


@pytest.mark.parametrize("gamma", [1e-300, 1e-60, 1e20, 1e60])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_that_are_not_finite_are_rejected_at_any_scale(gamma, dtype):
    """Test rows whose finite entries are all in the range of the core, or all out of it."""
    X = np.random.default_rng(0).standard_normal((9, 50)).astype(dtype)
    features = QuadratureFeatures(Gaussian(gamma), rule="sr33", n_components=63, random_state=0)
    features.fit(X)
    assert np.isfinite(features.transform(X)).all()
    for value in (np.nan, np.inf):
        X[4, 7] = value
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            features.transform(X)


@needs_core
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", ["gaussian", "matern", "arccos0", "arccos1", "arccos2"])
def test_usual_rows_are_read_once(kernel, dtype, monkeypatch):
    """Rows are checked in advance only if the core gives up on them."""
    X = np.random.default_rng(0).standard_normal((20, 50)).astype(dtype)
    features = QuadratureFeatures(KERNELS[kernel], n_components=301, random_state=0).fit(X)
    looked = []
    monkeypatch.setattr(QuadratureMap, "_reaches_far", lambda self, X, _: looked.append(X) or False)
    features.transform(dtype(1e3) * X)
    assert not looked
    features.transform(dtype(1e30) * X if dtype == np.float32 else 1e300 * X)
    assert len(looked) == 1


@needs_core
def test_a_buffer_may_be_written_before_its_rows_are_rejected():
    X = np.random.default_rng(0).standard_normal((50, 60))
    features = QuadratureFeatures(n_components=123, random_state=0).fit(X)
    buffer = np.full((52, 123), 7.0)
    X[40, 3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        transform_into(features, X, buffer[1:-1])
    assert (buffer[[0, -1]] == 7).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_duplicates_of_a_sparse_matrix_count_as_their_sum(dtype):
    """The magnitude of a row depends on its entries, not on the stored terms."""
    entries = (np.full(5000, 3e5, dtype=dtype), np.zeros(5000, dtype=np.int32), [0, 5000])
    X = sparse.csr_matrix(entries, shape=(1, 64))
    features = QuadratureFeatures(Gaussian(1 / 64), n_components=257, random_state=0)
    features.fit(np.zeros((1, 64), dtype=dtype))
    assert_array_equal(features.transform(X), features.transform(X.toarray()))
    largest = np.finfo(dtype).max
    X = sparse.csr_matrix((np.array([largest, largest]), [0, 0], [0, 2]), shape=(1, 64))
    with pytest.raises(ValueError, match="infinity"):
        features.transform(X)


@needs_core
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ramps_of_huge_rows(dtype):
    """Features are correct even if the core's butterflies would overflow."""
    X = np.random.default_rng(0).standard_normal((5, 70)).astype(dtype)
    features = QuadratureFeatures("arccos1", n_components=300, random_state=0).fit(X)
    expected = features.transform(X)
    for exponent in (20, 60, 100) if dtype == np.float32 else (100, 900):
        Z = features.transform(X * dtype(2.0**exponent))
        assert_allclose(Z * dtype(2.0**-exponent), expected, rtol=0, atol=1e-4)


@needs_core
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("kernel", ["gaussian", "arccos0", "arccos1"])
@pytest.mark.parametrize("rule", STRUCTURED)
@pytest.mark.parametrize("d", [7, 100])
def test_the_same_bits_for_any_threads_split_and_layout(core, kernel, rule, d, monkeypatch):
    use(core, monkeypatch)
    monkeypatch.setattr(_core, "DENSE_UP_TO", 0)
    for dtype in (np.float32, np.float64):
        X = np.random.default_rng(0).standard_normal((53, d)).astype(dtype)
        features = QuadratureFeatures(
            KERNELS[kernel], rule=RULES[rule], n_components=333, random_state=0
        ).fit(X)
        expected = features.transform(X)
        for n_jobs in (1, 2, 5):
            features.set_params(n_jobs=n_jobs)
            pieces = [features.transform(piece) for piece in np.array_split(X, 7)]
            np.testing.assert_array_equal(np.vstack(pieces), expected)
            for layout in ("fortran", "strided", "reversed", "unaligned"):
                np.testing.assert_array_equal(features.transform(laid_out(X, layout)), expected)


@pytest.mark.parametrize(("dtype", "unit"), [(np.float32, 1e8), (np.float32, 1e25), (float, 1e17)])
def test_rows_too_far_apart_for_a_phase_have_nothing_in_common(dtype, unit):
    X = (np.random.default_rng(0).standard_normal((20, 20)) * unit).astype(dtype)
    for rule in ("rff", "sr33", "orf"):
        features = QuadratureFeatures(Gaussian(1.0), rule=rule, n_components=2001, random_state=0)
        gram = features.fit(X).approximate_kernel(X) - np.eye(20)
        assert np.abs(gram).max() < 0.3
        assert np.abs(gram).mean() < 0.06


def test_a_refit_takes_effect_at_once():
    X = np.random.default_rng(0).standard_normal((9, 50))
    features = QuadratureFeatures(n_components=50, random_state=0).fit(X)
    first, before = features.transform(X), features.map_
    second = features.set_params(random_state=1).fit(X).transform(X)
    assert not np.allclose(first, second)
    np.testing.assert_array_equal(before.columns(X), first)  # a map never changes
    np.testing.assert_array_equal(features.transform(X), second)


@needs_core
def test_many_threads_may_share_a_map():
    X = np.random.default_rng(0).standard_normal((500, 40)).astype(np.float32)
    features = QuadratureFeatures(n_components=300, random_state=0, n_jobs=2).fit(X)
    expected = features.transform(X)
    with ThreadPoolExecutor(16) as pool:
        for given in pool.map(features.transform, [X] * 64):
            np.testing.assert_array_equal(given, expected)


def _in_child(features, X, queue):
    queue.put(features.transform(X))


@needs_core
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_map_works_after_fork():
    X = np.random.default_rng(0).standard_normal((200, 40))
    features = QuadratureFeatures(n_components=300, random_state=0, n_jobs=2).fit(X)
    expected = features.transform(X)
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_in_child, args=(features, X, queue))
    child.start()
    given = queue.get()
    child.join()
    np.testing.assert_array_equal(given, expected)


@needs_core
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to send")
def test_an_interrupt_stops_a_long_transform():
    # One row, repeated with stride 0 and written to one place: hours of work without memory.
    script = """
import numpy as np
from quadfeat import QuadratureFeatures, transform_into
from quadfeat.engine import core as _core
x = np.ones((1, 100), dtype=np.float32)
features = QuadratureFeatures(n_components=1000, random_state=0).fit(x)
compiled = _core.compile_map(features.nodes_, features.kernel_, x.dtype)
X = np.broadcast_to(x, (10**10, 100))
out = np.lib.stride_tricks.as_strided(np.empty(1000, np.float32), (10**10, 1000), (0, 4))
try:
    print("started", flush=True)
    compiled.write(X, out, 2)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    environment = os.environ | {"QUADFEAT_CORE": CORES[0]}
    child = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert child.stdout.readline() == "started\n"
    child.send_signal(signal.SIGINT)
    rest, _ = child.communicate()
    assert rest == "interrupted\n"


@needs_core
def test_the_binding_checks_its_arguments():
    nodes = SphericalRadial(origin="signed").draw(20, 42, Gaussian(0.5), np.random.default_rng(0))
    dtype = np.dtype(np.float64)
    native = _core.native_map(nodes, Gaussian(0.5), dtype, "structured")
    good, out = np.zeros((3, 20)), np.empty((3, 42))
    for X, Z in [
        (np.zeros((3, 19)), out),
        (good, np.empty((2, 42))),
        (good, np.empty((3, 41))),
        (good.astype(np.float32), out),
        (np.zeros(20), out),
        (good.astype(">f8"), out),
    ]:
        with pytest.raises(ValueError, match=r"shape of the map|matrix of float64"):
            native.transform(X, Z, 1, CORES[0])
    read_only = out.copy()
    read_only.flags.writeable = False
    with pytest.raises((ValueError, BufferError), match="read-only"):
        native.transform(good, read_only, 1, CORES[0])
    with pytest.raises(ValueError, match="no core named 'abacus'"):
        native.transform(good, out, 1, "abacus")
    with pytest.raises(ValueError, match="n_threads is 0"):
        native.transform(good, out, 0, CORES[0])
    # Repeated outputs take no memory, but their intermediate results would.
    wide = np.lib.stride_tricks.as_strided(np.ones(1), (42, 2**54), (0, 0))
    with pytest.raises(ValueError, match="products have 18014398509481984 columns"):
        native.multiply(good[:0], wide, wide[:0], 1, CORES[0])


@needs_core
@pytest.mark.parametrize("n_threads", [2**31, 2**63, 2**64 - 1])
def test_any_number_of_threads(n_threads):
    nodes = SphericalRadial().draw(20, 43, Gaussian(0.5), np.random.default_rng(0))
    native = _core.native_map(nodes, Gaussian(0.5), np.dtype(np.float64), "structured")
    X = np.random.default_rng(0).standard_normal((9, 20))
    one, many = np.full((2, 9, 43), np.nan)
    native.transform(X, one, 1, CORES[0])
    native.transform(X, many, n_threads, CORES[0])
    assert_array_equal(many, one)


ENDLESS_HADAMARD = {
    "structure": "hadamard",
    "size": 2**62,
    "rounds": 8,
    "simplex": False,
    "cosines": np.empty(0),
    "sines": np.empty(0),
}


@needs_core
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"permutations": np.full((1, 3, 20), 20, dtype=np.int32)}, "out of range"),
        ({"permutations": np.full((1, 3, 20), -1, dtype=np.int32)}, "out of range"),
        ({"cosines": np.zeros(5)}, "cosines has 5 entries, not 57"),
        ({"below": np.zeros(5)}, "below has 5 entries, not 20"),
        ({"n_blocks": 0}, "not consistent"),
        ({"n_blocks": 2}, "not consistent"),
        ({"n_blocks": 2**62, "rounds": 4}, "not consistent"),
        ({"rounds": 0}, "not consistent"),
        ({"rounds": 2**62}, "not consistent: "),
        ({"d": 2**64 - 1, "size": 2**64 - 1}, "factors has 20 entries, not 18446744073709551615"),
        (ENDLESS_HADAMARD, "not consistent: "),
        ({"size": 32}, "not consistent"),
        ({"structure": "wavelet"}, "unknown name 'wavelet'"),
        ({"phi": "sigmoid"}, "unknown name 'sigmoid'"),
        ({"phi": "ramp", "last_is_single": True}, "columns of a node are not consistent"),
        ({"phi": "identity", "reflected": True}, "columns of a node are not consistent"),
    ],
)
def test_the_binding_checks_a_map_only_once(change, message, monkeypatch):
    nodes = SphericalRadial(origin="signed").draw(20, 42, Gaussian(0.5), np.random.default_rng(0))
    made = _core._native.MapFloat64

    class Module:
        def MapFloat64(**parts):
            return made(**(parts | change))

    monkeypatch.setattr(_core, "_native", Module)
    with pytest.raises(ValueError, match=message):
        _core.native_map(nodes, Gaussian(0.5), np.dtype(np.float64), "structured")


@needs_core
@pytest.mark.parametrize("product", ["structured", "dense"])
def test_parts_of_a_map_need_not_be_aligned(product, monkeypatch):
    """Memory-mapped arrays may be unaligned. ``make sanitize`` finds code that needs alignment."""
    rule = SphericalRadial(origin="signed")
    nodes = rule.draw(20, 42, Gaussian(0.5), np.random.default_rng(0))
    X = np.random.default_rng(1).standard_normal((3, 20))
    expected, given = np.full((2, 3, 42), np.nan)
    dtype, made = X.dtype, _core._native.MapFloat64
    _core.native_map(nodes, Gaussian(0.5), dtype, product).transform(X, expected, 1, CORES[0])

    class Module:
        def MapFloat64(**parts):
            moved = {
                name: laid_out(part, "unaligned") if isinstance(part, np.ndarray) else part
                for name, part in parts.items()
            }
            assert not moved["radii"].flags.aligned
            return made(**moved)

    monkeypatch.setattr(_core, "_native", Module)
    _core.native_map(nodes, Gaussian(0.5), dtype, product).transform(X, given, 1, CORES[0])
    assert_array_equal(given, expected)


def run_python(script, **environment):
    return subprocess.run(
        [sys.executable, "-W", "always", "-c", script],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_the_native_core_there_is_one_warning_and_equal_features():
    script = """
import sys
sys.modules["quadfeat.engine._native"] = None
import numpy as np
from quadfeat import QuadratureFeatures, show_config
X = np.linspace(-1, 1, 120).reshape(4, 30)
print(QuadratureFeatures(n_components=63, random_state=0).fit_transform(X).tolist())
show_config()
"""
    environment = {k: v for k, v in os.environ.items() if k != "QUADFEAT_CORE"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stderr.count("installed without its native core") == 1
    features, *config = done.stdout.splitlines()
    X = np.linspace(-1, 1, 120).reshape(4, 30)
    expected = QuadratureFeatures(n_components=63, random_state=0).fit_transform(X)
    np.testing.assert_allclose(eval(features), expected, atol=1e-13)
    assert any(line.startswith("core       numpy") for line in config)


def test_a_core_can_be_chosen_and_a_wrong_name_raises():
    done = run_python("import quadfeat; quadfeat.show_config()", QUADFEAT_CORE="numpy")
    assert "core       numpy" in done.stdout
    assert done.stderr == ""
    done = run_python("from quadfeat import QuadratureFeatures", QUADFEAT_CORE="numpi")
    assert "QUADFEAT_CORE='numpi' is not known. Did you mean 'numpy'?" in done.stderr


def test_show_config(capsys):
    quadfeat.show_config()
    assert _core.CORE in capsys.readouterr().out


def test_the_map_for_7129_columns_is_small_when_pickled():
    X = np.zeros((1, 7129), dtype=np.float32)
    features = QuadratureFeatures(Gaussian(1.0), n_components=14261, random_state=0).fit(X)
    features.transform(X)
    assert len(pickle.dumps(features)) < 1_000_000
