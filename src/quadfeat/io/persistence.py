r"""Save models and unfinished fits to files that contain numbers, but no code.

A file is an archive with a checksum (:mod:`quadfeat.io.archive`). It contains a tree of plain
values and arrays (:mod:`quadfeat.io.encoding`), from which only objects of registered classes can
be built (:mod:`quadfeat.io.registry`). Since a checksum can be forged, each object checks that its
parts fit together (:mod:`quadfeat.io.checks`). Classes convert files of older formats
(:mod:`quadfeat.io.migrations`).

The package skops can also save these models, if their classes are listed as ``trusted``. But it has
no checksums and no format numbers, and it does not check that arrays are safe for native code. So
quadfeat has its own format.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from quadfeat._utils import validation as check
from quadfeat._utils.fitted import snapshot
from quadfeat._utils.validation import Array
from quadfeat.io.archive import NotRead, check_whole, opened_archive, write_archive
from quadfeat.io.checks import check_kind, check_parts, expect
from quadfeat.io.encoding import Decoder, Encoder
from quadfeat.io.files import USUAL, atomic_write
from quadfeat.io.migrations import FORMAT
from quadfeat.io.registry import model_names, registration_of

__all__ = ["load", "save"]

# The formats that can be read. Checkpoints are read in the current format only.
READABLE = {"model": range(1, FORMAT + 1), "checkpoint": (FORMAT,)}


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a model or transformer to a file that contains numbers, but no code.

    Parameters
    ----------
    model : object
        A model or transformer of quadfeat, fitted or not. The loaded one gives bit-identical
        results, and supports ``partial_fit``, ``merge`` and ``grow`` like the original.
    path : str or path
        Path of the file. Missing folders are created, and an existing file is replaced atomically.

    See Also
    --------
    load : Load a file.

    Notes
    -----
    A user-defined function (``PointwiseNonlinear``) is code and cannot be saved; use a pickle
    instead. A user-defined kernel, rule or rotation can be saved if its class is registered with
    :func:`quadfeat.io.register`. Metadata requests (``set_fit_request``) and the path of a
    ``checkpoint`` are not saved.

    The file of a fitted model contains training rows. A model on features has up to 2048 of them,
    for intervals and calibrated probabilities, and a model on nearest rows has all of them.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import quadfeat
    >>> X = np.random.default_rng(0).standard_normal((100, 3))
    >>> features = quadfeat.QuadratureFeatures(n_components=64, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     quadfeat.save(features, f"{folder}/features.quadfeat")
    ...     loaded = quadfeat.load(f"{folder}/features.quadfeat")
    >>> bool((loaded.transform(X) == features.transform(X)).all())
    True
    """
    entry = registration_of(type(model))
    if entry is None or not entry.is_model:
        raise _no_model(model)
    path = _checked_path(path)
    if not entry.is_record:  # another thread may fit the model at the same time
        model = snapshot(model)
    encoder = Encoder()
    tree = encoder.encode(model, type(model).__name__)
    try:
        check_parts(model)
    except ValueError as error:
        raise ValueError(f"the {type(model).__name__} cannot be saved: {error}.") from error
    try:
        _write(path, tree, encoder.arrays, "model", USUAL)
    except OSError as error:
        raise OSError(
            f"path={str(path)!r} cannot be written: {error.strerror or error}. Use a path in a "
            "folder that you can write to."
        ) from error


def reason_against_saving(model: Any) -> str | None:
    """Return why a fitted map cannot be saved; None if it can."""
    try:
        Encoder().encode(model, type(model).__name__)
    except ValueError as error:
        return str(error)
    return None


def _no_model(given: Any) -> TypeError:
    """Return the error for an object that cannot be saved by itself."""
    if isinstance(given, (str, os.PathLike)):
        return TypeError(
            f"model={os.fspath(given)!r} is a path. The model comes first: save(model, path)."
        )
    names = model_names()
    choices = f"{', a '.join(names[:-1])} or a {names[-1]}"
    message = f"model={check.one_line(given)} is not valid: pass a {choices}"
    bases = [registration_of(base) for base in type(given).__mro__[1:]]
    if any(base is not None and base.is_model for base in bases):
        message += f", or call quadfeat.io.register({type(given).__name__}, model=True)."
    else:
        message += (
            ". Save a pipeline with joblib; or save its last step here, which expects transformed "
            "rows, and the steps before it with skops (recipe 'Saving pipelines')."
        )
    return TypeError(message)


def write_checkpoint(kept: dict[str, Any], path: Path, mode: int) -> None:
    """Write the state of a fit; see ``quadfeat.data.checkpoints``."""
    encoder = Encoder()
    tree = encoder.encode(kept, "checkpoint")
    _write(path, tree, encoder.arrays, "checkpoint", mode)


def read_checkpoint(
    path: Path, check_state: Callable[[Any], None] = lambda state: None
) -> dict[str, Any]:
    """Return the content of a checkpoint, after checks that it is complete and consistent.

    ``check_state`` raises an error if the entry ``"state"`` is not valid. It may assume that the
    objects in the state are valid.
    """

    def check_kept(kept: Any) -> None:
        check_kind(kept, dict, "the checkpoint")
        expected = {"identity", "sample", "rows", "state"}
        expect(set(kept) == expected, f"the checkpoint has {sorted(kept)}")
        check_kind(kept["identity"], dict, "identity")
        check_kind(kept["sample"], str, "sample")
        check_kind(kept["rows"], str, "rows")
        check_state(kept["state"])

    way_out = "Delete the file, or use another path"
    kept: dict[str, Any] = _loaded(path, "checkpoint", check_kept, way_out)
    return kept


def _write(path: Path, tree: Any, arrays: dict[str, Array], kind: str, mode: int) -> None:
    """Write a file atomically."""
    with atomic_write(path, mode) as file:
        write_archive(file, tree, arrays, kind)


def load(path: str | os.PathLike[str]) -> Any:
    """Load a map or model from a file that :func:`save` has written.

    Loading runs no code from the file. It builds only objects of quadfeat, and of classes that you
    registered with :func:`quadfeat.io.register`. At worst, a file from an unknown source yields a
    bad model.

    Parameters
    ----------
    path : str or path
        Path of the file.

    Returns
    -------
    object
        The saved model or transformer.

    Raises
    ------
    OSError
        If the file cannot be read; FileNotFoundError if it does not exist.
    ValueError
        If the file was not written by :func:`save`, is corrupt, or has a newer format.

    See Also
    --------
    save : Save a map or model, with an example.
    """
    return _loaded(_checked_path(path), "model", _check_model)


def _check_model(found: Any) -> None:
    entry = registration_of(type(found))
    expect(entry is not None and entry.is_model, f"it contains a {type(found).__name__}")


def _loaded(path: Path, kind: str, check_found: Callable[[Any], None], way_out: str = "") -> Any:
    """Return the content of a model or checkpoint file; raise a ValueError if it is not valid."""

    def message(reason: str) -> str:
        name = "path" if kind == "model" else "checkpoint"
        end = f". {way_out}" if way_out else ""
        return f"{name}={str(path)!r} cannot be loaded: {reason.rstrip('.')}{end}."

    try:
        with path.open("rb") as file:
            found_format = check_whole(file, kind, READABLE[kind])
            with opened_archive(file) as (tree, read_array):
                found = Decoder(read_array, found_format).decode(tree)
        check_parts(found)
        check_found(found)
        return found
    except OSError as error:
        raise type(error)(message(error.strerror or str(error))) from error
    except NotRead as error:
        raise ValueError(message(str(error))) from error
    except MemoryError:  # the file may be valid: its arrays are not larger than the file
        raise
    except Exception as error:  # a forged file can cause any error
        reason = f"{error}" if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise ValueError(message(f"its content is not valid ({reason})")) from error


def _checked_path(path: Any) -> Path:
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path={check.one_line(path)} is not valid: pass the path of a file.")
    if "\0" in os.fsdecode(path):
        raise ValueError(f"path={path!r} is not valid: pass a path without null characters.")
    return Path(path)
