"""Test the promises of SECURITY.md: files run no code, contain no paths and fill no memory."""

import ast
import io
import json
import os
import pickle
import tracemalloc
import zipfile
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

import quadfeat
from quadfeat import QuadratureRidge, QuadratureRidgeClassifier, load, save
from quadfeat.io.persistence import FORMAT
from test_persistence import comment_of, forged, npy, signed

SOURCES = sorted(Path(quadfeat.__file__).parent.rglob("*.py"))
FIXTURES = Path(__file__).parent / "fixtures"

rng = np.random.default_rng(0)
X = rng.standard_normal((60, 3))
y = X[:, 0] + 0.1 * rng.standard_normal(60)


class Bomb:
    """Create a file when unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return (os.mkdir, (self.path,))


def test_no_function_unpickles_a_file():
    """No function evaluates strings either. ``pickle.dumps`` is allowed for sizes and for Dask."""
    forbidden = {
        ("pickle", "load"), ("pickle", "loads"), ("pickle", "Unpickler"), ("joblib", "load"),
        ("np", "load"), ("numpy", "load"), ("pd", "read_pickle"), ("pandas", "read_pickle"),
        ("builtins", "eval"), ("builtins", "exec"), ("dill", "load"), ("cloudpickle", "load"),
        ("yaml", "load"), ("marshal", "load"), ("shelve", "open"),
    }  # fmt: skip
    calls = 0
    for source in SOURCES:
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    assert (node.module, alias.name) not in forbidden, source
            if not isinstance(node, ast.Call):
                continue
            calls += 1
            function = node.func
            if isinstance(function, ast.Name):
                assert function.id not in ("eval", "exec", "__import__"), source
            if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
                name = (function.value.id, function.attr)
                allowed = name == ("np", "load") and any(
                    keyword.arg == "allow_pickle" and keyword.value.value is False
                    for keyword in node.keywords
                )
                assert name not in forbidden or allowed, (source, name)
    assert calls > 1000


class TestPaths:
    def test_a_saved_model_contains_no_paths(self, tmp_path):
        model = QuadratureRidge(
            "gaussian", alpha=1.0, n_components=9, checkpoint=tmp_path / "here"
        ).fit(X, y)
        save(model, tmp_path / "model")
        assert b"here" not in (tmp_path / "model").read_bytes()
        assert load(tmp_path / "model").checkpoint is None

    @pytest.mark.parametrize("form", ["state", {"type": "path", "value": "state"}])
    @pytest.mark.parametrize("number", [1, FORMAT])
    def test_a_forged_path_has_no_effect(self, number, form, tmp_path):
        content = (FIXTURES / f"ridge_format_{number}.quadfeat").read_bytes()
        stem = comment_of(quadfeat.__version__).replace(
            b"format %d" % FORMAT, b"format %d" % number
        )

        def change(members):
            tree = json.loads(members["model.json"])
            tree["attributes"]["checkpoint"] = form
            members["model.json"] = json.dumps(tree).encode()

        path = tmp_path / "model"
        path.write_bytes(forged(content, change, comment=stem))
        if number == FORMAT and isinstance(form, str):
            with pytest.raises(ValueError, match="checkpoint contains a path"):
                load(path)
        else:
            assert load(path).checkpoint is None

    def test_a_file_that_is_both_a_model_and_a_pickle_is_rejected(self, tmp_path):
        """Test a pickle in front of an archive. Zip readers skip such a prefix."""
        save(QuadratureRidge("gaussian", alpha=1.0, n_components=9), tmp_path / "model")
        content = (tmp_path / "model").read_bytes()
        path, trace = tmp_path / "both", tmp_path / "trace"
        for writer in (pickle.dumps, _joblib_bytes):
            path.write_bytes(signed(writer(Bomb(trace)) + content))
            with pytest.raises(ValueError, match="there are unexpected bytes before"):
                load(path)
            model = QuadratureRidge("gaussian", alpha=1.0, n_components=9, checkpoint=path)
            with pytest.raises(ValueError, match=r"checkpoint='.*both' cannot be loaded"):
                model.fit(X, y)
            with pytest.raises(ValueError, match=r"checkpoint='.*both' cannot be loaded"):
                cross_val_score(model, X, y, error_score="raise", cv=2)
            path.write_bytes(writer(Bomb(trace)))
            with pytest.raises(ValueError, match=r"it is a pickle, .* can run code"):
                model.fit(X, y)
            with pytest.raises(ValueError, match="it was not written by quadfeat"):
                load(path)
        assert not trace.exists()

    def test_bytes_between_and_after_members_are_rejected(self, tmp_path):
        save(QuadratureRidge("gaussian", alpha=1.0, n_components=9), tmp_path / "model")
        content = (tmp_path / "model").read_bytes()
        directory = content.index(b"PK\x01\x02")
        shifted = content[:directory] + b"#!" + content[directory:]
        path = tmp_path / "changed"
        path.write_bytes(signed(shifted))
        with pytest.raises(ValueError, match="there are unexpected bytes"):
            load(path)


def with_parameter(content, name, value):
    """Return a file whose model has a changed parameter."""

    def change(members):
        tree = json.loads(members["model.json"])
        tree["attributes"][name] = value
        members["model.json"] = json.dumps(tree).encode()

    return forged(content, change)


class TestUnexpectedContent:
    def content(self):
        return (FIXTURES / f"ridge_format_{FORMAT}.quadfeat").read_bytes()

    @pytest.mark.parametrize("name", ["payload.py", "evil.html", "999.npy"])
    def test_unused_members_are_rejected(self, name, tmp_path):
        path = tmp_path / "model"
        path.write_bytes(forged(self.content(), lambda members: members.update({name: b"x"})))
        with pytest.raises(ValueError, match="members are not those"):
            load(path)

    def test_duplicate_members_and_extra_fields_are_rejected(self, tmp_path):
        path = tmp_path / "model"
        for twice, field in ((True, b""), (False, b"\xfe\xca\x04\x00%PDF")):
            file = io.BytesIO()
            with (
                zipfile.ZipFile(io.BytesIO(self.content())) as archive,
                zipfile.ZipFile(file, "w") as other,
            ):
                for name in archive.namelist():
                    member = zipfile.ZipInfo(name)
                    member.extra = field
                    other.writestr(member, archive.read(name))
                if twice:
                    with pytest.warns(UserWarning, match="Duplicate name"):
                        other.writestr("model.json", archive.read("model.json"))
                other.comment = comment_of(1) + b"0" * 64
            path.write_bytes(signed(file.getvalue()))
            with pytest.raises(ValueError, match=r"members are not those|an unknown field"):
                load(path)


def _joblib_bytes(value):
    file = io.BytesIO()
    joblib.dump(value, file)
    return file.getvalue()


class TestMemory:
    def largest(self, content, tmp_path):
        """Return the peak number of bytes allocated by an attempt to load a file."""
        path = tmp_path / "model"
        path.write_bytes(content)
        tracemalloc.start()
        try:
            with pytest.raises(ValueError, match="cannot be loaded"):
                load(path)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    @pytest.mark.parametrize("descr", ["|S0", "<U0", "|V0"])
    @pytest.mark.parametrize("shape", [(300_000_000,), (300_000_000, 2)])
    def test_entries_without_bytes(self, descr, shape, tmp_path):
        content = (FIXTURES / f"classifier_format_{FORMAT}.quadfeat").read_bytes()
        file = io.BytesIO()
        header = {"descr": descr, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for name in self.members(content):
            changed = forged(content, lambda m, n=name: m.update({n: file.getvalue()}))
            assert self.largest(changed, tmp_path) < 2**21

    @pytest.mark.parametrize("shape", [(300_000_000, 0), (0, 300_000_000), (3, 0, 300_000_000)])
    def test_shapes_without_entries(self, shape, tmp_path):
        content = (FIXTURES / f"ridge_format_{FORMAT}.quadfeat").read_bytes()
        for name in self.members(content):
            changed = forged(content, lambda m, n=name: m.update({n: npy(np.empty(shape))}))
            assert self.largest(changed, tmp_path) < 2**21

    def test_numbers_that_would_expand_to_bytes(self, tmp_path):
        content = (FIXTURES / f"ridge_format_{FORMAT}.quadfeat").read_bytes()
        for dtype, value in (("S1", 600_000_000), ("S1", "a"), ("<f8", [1.0]), ("<i8", 1.5)):
            tree = {"type": "scalar", "dtype": dtype, "value": value}
            assert self.largest(with_parameter(content, "n_components", tree), tmp_path) < 2**21

    def test_trees_of_many_lists(self, tmp_path):
        content = (FIXTURES / f"ridge_format_{FORMAT}.quadfeat").read_bytes()
        changed = with_parameter(content, "alphas", [[]] * 300_000)
        assert self.largest(changed, tmp_path) < 8 * len(changed)

    def members(self, content):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return [name for name in archive.namelist() if name.endswith(".npy")]


def test_a_classifier_of_the_first_format_can_be_continued(tmp_path):
    old = load(FIXTURES / "classifier_format_1.quadfeat")
    new = load(FIXTURES / f"classifier_format_{FORMAT}.quadfeat")
    assert isinstance(old, QuadratureRidgeClassifier)
    rows = rng.standard_normal((6, 3))
    labels = ["above", "below", "above", "between", "below", "above"]
    for model in (old, new):
        model.partial_fit(rows, labels)
        save(model, tmp_path / "model")
    found, expected = (one.predict_proba(rows) for one in (old, new))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert old.temperature_ == pytest.approx(new.temperature_, rel=1e-6)
