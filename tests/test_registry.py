"""Test user-defined classes in files: registered, checked, migrated, or rejected by name."""

import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator

import quadfeat
from quadfeat import QuadratureFeatures, QuadratureRidge, load, save
from quadfeat.io import register, registry
from quadfeat.io.encoding import Decoder
from quadfeat.io.migrations import FORMAT
from quadfeat.io.pickles import FORMAT_KEY, VersionedState
from quadfeat.kernels import Gaussian
from quadfeat.rules import MonteCarlo
from test_persistence import forged, load_or_refusal, round_trip, with_tree

X = np.random.default_rng(0).standard_normal((50, 5))

OWN = """
from dataclasses import dataclass

import numpy as np
from quadfeat.io import checks, register
from quadfeat.kernels import SeparationKernel
from quadfeat.kernels.spectra import NormalSpectrum
from quadfeat.rotations import DrawnMatrices, Rotation
from quadfeat.rules import Draw, Rule
from quadfeat.rules.nodes import DenseDirections


@register
class Bell(SeparationKernel):
    scale_parameter = "width"

    def __init__(self, width="scale", *, height=1.0):
        self.width = width
        self.height = height

    @property
    def constant(self):
        return self.height

    @property
    def spectrum(self):
        return NormalSpectrum()

    def value_at(self, separations):
        return self.height * np.exp(-separations / 2)

    def slope_at(self, separations):
        return -self.value_at(separations) / 2

    def scale_to_factor(self, width):
        return 1 / width

    def factor_to_scale(self, factor):
        return 1 / factor

    def default_scale(self, d, deviation):
        return np.sqrt(d) * deviation


@register(name="example.Plain")
class Plain(Rule):
    def __init__(self, *, reflect=True):
        self.reflect = reflect

    def draw_nodes(self, d, layout, kernel, rng):
        n = layout.n_nodes
        frequencies = kernel.spectrum.frequencies(rng.random((n, kernel.spectrum.n_uniforms(d))), d)
        return Draw(DenseDirections(frequencies), np.ones(n), np.full(n, 1 / n))


@register
class Shuffle(Rotation):
    def draw(self, d, rng, count=1):
        order = np.broadcast_to(np.arange(d, dtype=np.int32), (count, d))
        return Shuffles(rng.permuted(order, axis=-1))


@register
@dataclass(frozen=True, eq=False)
class Shuffles(DrawnMatrices):
    orders: np.ndarray

    @property
    def count(self):
        return self.orders.shape[0]

    @property
    def size(self):
        return self.orders.shape[1]

    def check_consistency(self):
        checks.check_permutations(self.orders, (self.count, self.size), "orders")

    def turn(self, columns):
        return columns[self.orders]
"""

USE = """
import sys
import numpy as np
from quadfeat import QuadratureFeatures, QuadratureRidge, load, save
from quadfeat.rules import SphericalRadial

path, outcome, step = sys.argv[1:]
X = np.random.default_rng(0).standard_normal((50, 5))
if step == "save":
    from own import Bell, Plain, Shuffle

    features = QuadratureFeatures(
        Bell(height=2.0), rule=SphericalRadial(rotation=Shuffle()), n_components=24, random_state=0
    ).fit(X)
    model = QuadratureRidge(Bell(), rule=Plain(), n_components=24, random_state=0).fit(X, X[:, 0])
    save(features, path + "features")
    save(model, path + "model")
    np.savez(outcome, features.transform(X), model.predict(X))
else:
    if step == "register":
        import own
    features, model = load(path + "features"), load(path + "model")
    kept = np.load(outcome)
    np.testing.assert_array_equal(features.transform(X), kept["arr_0"])
    np.testing.assert_array_equal(model.predict(X), kept["arr_1"])
    assert repr(model.kernel) == "Bell()" and features.kernel_.height == 2.0
"""


def test_user_defined_parts_load_where_they_are_registered(tmp_path):
    (tmp_path / "own.py").write_text(textwrap.dedent(OWN))

    def run(step):
        command = [
            sys.executable,
            "-c",
            USE,
            f"{tmp_path}{os.sep}",
            f"{tmp_path}/outcome.npz",
            step,
        ]
        environment = os.environ | {"PYTHONPATH": str(tmp_path)}
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    for step in ("save", "register"):
        done = run(step)
        assert done.returncode == 0, done.stderr
    # The class could be imported from the path, but loading never imports by name.
    reason = run("load").stderr.splitlines()[-1]
    assert reason.startswith("ValueError: path=")
    assert "no class 'Bell' is registered" in reason
    assert "register it with quadfeat.io.register before you load" in reason


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch):
    """Undo the registrations of a test."""
    for name in ("_BY_NAME", "_BY_CLASS"):
        monkeypatch.setattr(registry, name, dict(getattr(registry, name)))


class NewKernel(Gaussian):
    pass


class Pair(NamedTuple):
    low: float
    high: float

    def check_consistency(self):
        if self.low > self.high:
            raise ValueError(f"low={self.low} is above high={self.high}")


@dataclass(frozen=True)
class Record:
    pair: Pair
    numbers: Any
    size: int = 3

    @property
    def total(self):
        return self.size * len(self.numbers)


class Thing:
    """Built without calling ``__init__``."""

    saved_attributes = ("record", "answer")
    unsaved_attributes = ("cache",)

    def __init__(self, record):
        self.record = record
        self.cache = object()


def registered_thing(tmp_path, pair=None):
    for kind in (Pair, Record):
        register(kind)
    register(Thing, model=True)
    return Thing(Record(pair or Pair(1.0, np.inf), np.arange(4.0)))


class TestSavedAttributes:
    def test_fields_and_listed_attributes(self, tmp_path):
        thing = registered_thing(tmp_path)
        loaded = round_trip(thing, tmp_path)
        assert type(loaded) is Thing
        assert vars(loaded).keys() == {"record"}
        assert loaded.record.pair == Pair(1.0, np.inf)
        assert type(loaded.record.pair) is Pair
        assert loaded.record.total == 12
        assert_array_equal(loaded.record.numbers, np.arange(4.0))

    def test_unlisted_attributes_are_rejected(self, tmp_path):
        thing = registered_thing(tmp_path)
        thing.answer, thing.other = 42, 43
        with pytest.raises(ValueError, match=r"^Thing\.other cannot be saved.*unsaved_attributes"):
            save(thing, tmp_path / "model")
        del thing.other
        assert round_trip(thing, tmp_path).answer == 42

    def test_parameters_and_learned_attributes_of_an_estimator(self, tmp_path):
        @register(model=True)
        class Own(BaseEstimator):
            saved_attributes = ("mean_",)

            def __init__(self, power=2):
                self.power = power

        own = Own(3)
        own.mean_ = np.ones(2)
        loaded = round_trip(own, tmp_path)
        assert loaded.power == 3
        assert_array_equal(loaded.mean_, own.mean_)

    def test_user_defined_models(self, tmp_path):
        class Own(QuadratureFeatures):
            pass

        features = Own(n_components=8, random_state=0).fit(X)
        with pytest.raises(TypeError, match=r"call quadfeat\.io\.register\(Own, model=True\)"):
            save(features, tmp_path / "model")
        register(Own, model=True)
        assert type(round_trip(features, tmp_path)) is Own
        assert_array_equal(round_trip(features, tmp_path).transform(X), features.transform(X))

    def test_parts_cannot_be_saved_as_models(self, tmp_path):
        register(Pair)
        with pytest.raises(TypeError, match="is not valid: pass a QuadratureFeatures"):
            save(Pair(1.0, 2.0), tmp_path / "model")


class TestChecks:
    def test_on_saving(self, tmp_path):
        thing = registered_thing(tmp_path, Pair(2.0, 1.0))
        with pytest.raises(ValueError, match=r"^the Thing cannot be saved: low=2.0 is above high"):
            save(thing, tmp_path / "model")

    def test_on_loading(self, tmp_path):
        save(registered_thing(tmp_path), tmp_path / "model")
        content = (tmp_path / "model").read_bytes()

        def change(tree):
            record = tree["attributes"]["record"]["attributes"]
            record["pair"]["attributes"] = {"low": 3.0, "high": 2}

        _, refusal = load_or_refusal(with_tree(content, change), tmp_path)
        assert "its content is not valid (low=3.0 is above high=2)" in refusal

    @pytest.mark.parametrize(
        "attributes", [{}, {"low": 1.0}, {"low": 1.0, "high": 2.0, "check_consistency": None}]
    )
    def test_fields_must_match_the_class(self, tmp_path, attributes):
        save(registered_thing(tmp_path), tmp_path / "model")
        content = (tmp_path / "model").read_bytes()

        def change(tree):
            tree["attributes"]["record"]["attributes"]["pair"]["attributes"] = attributes

        _, refusal = load_or_refusal(with_tree(content, change), tmp_path)
        assert "Pair has the fields" in refusal

    def test_parts_of_a_map_are_checked(self, tmp_path):
        @register
        class Careful(MonteCarlo):
            def check_consistency(self):
                if self.reflect is None:
                    raise ValueError("reflect is None")

        save(QuadratureFeatures(rule=Careful()), tmp_path / "model")
        with pytest.raises(ValueError, match="cannot be saved: reflect is None"):
            save(QuadratureFeatures(rule=Careful(reflect=None)), tmp_path / "model")

    def test_a_path_is_never_loaded(self, tmp_path):
        @register(model=True)
        class Own(BaseEstimator):
            path_parameters = ("folder",)

            def __init__(self, folder=None):
                self.folder = folder

        save(Own("/somewhere"), tmp_path / "model")
        content = (tmp_path / "model").read_bytes()
        assert b"somewhere" not in content
        assert load(tmp_path / "model").folder is None
        changed = with_tree(content, lambda tree: tree["attributes"].update(folder="/etc"))
        assert "folder contains a path" in load_or_refusal(changed, tmp_path)[1]


def of_format(content, number):
    comment = f"quadfeat model, format {number}, version {quadfeat.__version__}, sha256 "
    return forged(content, comment=comment.encode())


class TestMigrations:
    def old_file(self, tmp_path):
        @register(model=True)
        @dataclass(frozen=True)
        class Square:
            size: int

        save(Square(3), tmp_path / "model")
        content = (tmp_path / "model").read_bytes()
        del registry._BY_CLASS[Square], registry._BY_NAME["Square"]
        return content

    @pytest.mark.parametrize("number", range(1, FORMAT + 1))
    def test_other_attributes_and_another_name(self, tmp_path, number):
        content = of_format(self.old_file(tmp_path), number)
        assert "no class 'Square' is registered" in load_or_refusal(content, tmp_path)[1]

        @register(model=True, former_names=["Square"])
        @dataclass(frozen=True)
        class Rectangle:
            width: int
            height: int
            read_from: int

            @staticmethod
            def migrate(attributes, found_format):
                size = attributes["size"]
                return {"width": size, "height": size, "read_from": found_format}

        loaded, _ = load_or_refusal(content, tmp_path)
        assert loaded == Rectangle(3, 3, number)

    def test_of_estimators_before_they_are_built(self, tmp_path):
        # Test a model that now keeps two learned attributes in one record.
        @register(model=True)
        class Own(BaseEstimator):
            saved_attributes = ("low_", "high_")

        own = Own()
        own.low_, own.high_ = 1.0, 2.0
        save(own, tmp_path / "model")
        content = (tmp_path / "model").read_bytes()
        del registry._BY_CLASS[Own], registry._BY_NAME["Own"]
        register(Pair)

        @register(model=True, name="Own")
        class Newer(VersionedState):
            saved_attributes = ("pair_",)

            @classmethod
            def migrate(cls, attributes, found_format):
                assert cls is Newer
                if "low_" in attributes:
                    pair = Pair(attributes.pop("low_"), attributes.pop("high_"))
                    return attributes | {"pair_": pair, "found_": found_format}
                return attributes

        Newer.saved_attributes += ("found_",)
        loaded, _ = load_or_refusal(of_format(content, 1), tmp_path)
        assert loaded.pair_ == Pair(1.0, 2.0)
        assert loaded.found_ == 1
        # Pickles use the same hook.
        unpickled = Newer()
        unpickled.__setstate__({"low_": 1.0, "high_": 2.0, FORMAT_KEY: FORMAT})
        assert unpickled.pair_ == Pair(1.0, 2.0)
        assert unpickled.found_ == FORMAT
        # The result of a migration is checked too.
        broken = with_tree(content, lambda tree: tree["attributes"].update(low_=9.0))
        assert "low=9.0 is above high=2.0" in load_or_refusal(broken, tmp_path)[1]


class TestRegistering:
    def test_the_error_shows_how_to_register(self, tmp_path):
        features = QuadratureFeatures(NewKernel(1.0))
        with pytest.raises(
            ValueError, match=r"quadfeat\.io\.register\(NewKernel\) here, and again bef"
        ):
            save(features, tmp_path / "model")
        register(NewKernel)
        assert type(round_trip(features, tmp_path).kernel) is NewKernel

    def test_functions_are_still_rejected(self, tmp_path):
        with pytest.raises(ValueError, match="but no code"):
            save(QuadratureRidge("gaussian", alpha=1.0, alphas=[lambda: 1]), tmp_path / "model")

    def test_two_classes_with_the_same_name(self):
        class Gaussian(NewKernel):
            pass

        with pytest.raises(
            ValueError, match=r"'Gaussian' is the name of quadfeat\.kernels\.stationary\.Gaussian"
        ):
            register(Gaussian)
        with pytest.raises(ValueError, match="'Laplacian' is the name of"):
            register(Gaussian, name="mine", former_names=["Laplacian"])
        assert registry.registration_of(Gaussian) is None
        register(Gaussian, name="mine.Gaussian")
        assert registry.registered_as("mine.Gaussian").kind is Gaussian

    def test_a_redefined_class_replaces_the_first(self, tmp_path):
        def run_cell():
            @register
            class Cell(Gaussian):
                pass

            return Cell

        first, second = run_cell(), run_cell()
        assert registry.registration_of(first) is None
        assert type(round_trip(QuadratureFeatures(second()), tmp_path).kernel) is second

    @pytest.mark.parametrize("name", ["tuple", "array", "Generator"])
    def test_names_of_plain_values(self, name):
        with pytest.raises(ValueError, match="the name of a built-in type"):
            register(NewKernel, name=name)

    def test_all_plain_values_are_reserved(self):
        assert set(Decoder(lambda name: name, FORMAT)._makers) == registry.PLAIN_TYPES

    @pytest.mark.parametrize("kind", [object(), "Gaussian", lambda: 1])
    def test_objects_that_are_not_classes(self, kind):
        with pytest.raises(TypeError, match="is not valid: pass a class"):
            register(kind)

    @pytest.mark.parametrize("name", ["", 3])
    def test_invalid_names(self, name):
        with pytest.raises(TypeError, match="pass a string"):
            register(NewKernel, name=name)

    def test_classes_without_declared_attributes(self):
        class Silent:
            pass

        class Listed:
            saved_attributes = "one"

        with pytest.raises(TypeError, match="Silent does not declare the attributes to save"):
            register(Silent)
        with pytest.raises(TypeError, match=r"Listed\.saved_attributes is 'one': pass a tuple"):
            register(Listed)


def test_former_names_given_as_one_string_are_rejected():
    with pytest.raises(TypeError, match="former_names='Older' is not valid"):
        register(type("Newer", (Gaussian,), {}), former_names="Older")
