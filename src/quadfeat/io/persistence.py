r"""Models and unfinished fits in files that hold numbers and no code.

A file is an archive with a checksum (:mod:`quadfeat.io.archive`) of a tree of plain values and
arrays (:mod:`quadfeat.io.encoding`), which can build objects of registered classes only
(:mod:`quadfeat.io.registry`). Since a checksum can be forged, each object checks that its parts fit
together (:mod:`quadfeat.io.checks`). Files of older formats are brought up to date by the classes
themselves (:mod:`quadfeat.io.migrations`).

The package skops saves these models too, given the list of their classes as ``trusted``. It has no
checksums, does not check whether native code may use the arrays of a map, and does not tell formats
apart, which is why quadfeat has a format of its own.
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

# The formats that can be read; checkpoints only in the present one.
READABLE = {"model": range(1, FORMAT + 1), "checkpoint": (FORMAT,)}


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a map or model to a file that holds numbers and no code.

    Parameters
    ----------
    model : QuadratureFeatures, QuadratureRidge or QuadratureRidgeClassifier
        Fitted or not. What is loaded gives the same results to the bit, and goes on where this one
        is: ``partial_fit``, ``merge`` and ``grow`` work as before.
    path : str or path
        Where to. A file that is there is replaced, as a whole or not at all.

    See Also
    --------
    load : The way back.

    Notes
    -----
    A function of your own (``PointwiseNonlinear``) is code and cannot be saved; a pickle can hold
    it. A kernel, rule or rotation of a class of your own can be saved if the class is registered
    with :func:`quadfeat.io.register`. Metadata requests (``set_fit_request``) and the path of a
    ``checkpoint`` are not saved.

    The file of a fitted classifier holds up to 2048 of the rows it was fitted to, by which
    probabilities are calibrated.

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
    if not entry.is_record:  # a fit in another thread replaces all attributes at once
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
            f"path={str(path)!r} cannot be written: {error.strerror or error}."
        ) from error


def reason_against_saving(model: Any) -> str | None:
    """Return why a fitted map cannot be saved, or None if it can."""
    try:
        Encoder().encode(model, type(model).__name__)
    except ValueError as error:
        return str(error)
    return None


def _no_model(given: Any) -> TypeError:
    """Return the error for an object that cannot be saved by itself."""
    names = model_names()
    choices = f"{', a '.join(names[:-1])} or a {names[-1]}"
    message = f"model={check.one_line(given)} is not valid: give a {choices}"
    bases = [registration_of(base) for base in type(given).__mro__[1:]]
    if any(base is not None and base.is_model for base in bases):
        message += f", or call quadfeat.io.register({type(given).__name__}, model=True)."
    else:
        message += ", such as a step of a pipeline."
    return TypeError(message)


def write_checkpoint(kept: dict[str, Any], path: Path, mode: int) -> None:
    """Write the state of a fit; see ``quadfeat.data.checkpoints``."""
    encoder = Encoder()
    tree = encoder.encode(kept, "checkpoint")
    _write(path, tree, encoder.arrays, "checkpoint", mode)


def read_checkpoint(
    path: Path, check_state: Callable[[Any], None] = lambda state: None
) -> dict[str, Any]:
    """Return the state of a fit, after checks that it is whole and fits together.

    ``check_state`` raises an error if the entry ``"state"`` is not what the fit has written. The
    objects in it are checked already.
    """

    def check_kept(kept: Any) -> None:
        check_kind(kept, dict, "the checkpoint")
        expect(set(kept) == {"identity", "rows", "state"}, f"the checkpoint has {sorted(kept)}")
        check_kind(kept["identity"], dict, "identity")
        check_kind(kept["rows"], str, "rows")
        check_state(kept["state"])

    way_out = "delete the file, or give another path"
    kept: dict[str, Any] = _loaded(path, "checkpoint", check_kept, way_out)
    return kept


def _write(path: Path, tree: Any, arrays: dict[str, Array], kind: str, mode: int) -> None:
    """Write a file as a whole or not at all."""
    with atomic_write(path, mode) as file:
        write_archive(file, tree, arrays, kind)


def load(path: str | os.PathLike[str]) -> Any:
    """Return the map or model in a file that :func:`save` has written.

    Runs no code from the file, and builds nothing but quadfeat's own objects and those of classes
    that you registered with :func:`quadfeat.io.register`: a file of unknown origin can make a bad
    model, and no more than that.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    QuadratureFeatures, QuadratureRidge or QuadratureRidgeClassifier
        As it was saved.

    Raises
    ------
    ValueError
        If there is no such file, or it is something else, or not whole, or has been changed, or is
        of a newer format.

    See Also
    --------
    save : Where there is an example.
    """
    return _loaded(_checked_path(path), "model", _check_model)


def _check_model(found: Any) -> None:
    entry = registration_of(type(found))
    expect(entry is not None and entry.is_model, f"it holds a {type(found).__name__}")


def _loaded(path: Path, kind: str, check_found: Callable[[Any], None], way_out: str = "") -> Any:
    """Return what is in a file of a kind, or raise a ValueError that says why not."""

    def refusal(reason: str) -> ValueError:
        name = "path" if kind == "model" else "checkpoint"
        end = f": {way_out}" if way_out else ""
        return ValueError(f"{name}={str(path)!r} cannot be loaded: {reason.rstrip('.')}{end}.")

    try:
        with path.open("rb") as file:
            found_format = check_whole(file, kind, READABLE[kind])
            with opened_archive(file) as (tree, read_array):
                found = Decoder(read_array, found_format).decode(tree)
        check_parts(found)
        check_found(found)
        return found
    except OSError as error:
        raise refusal(error.strerror or str(error)) from error
    except NotRead as error:
        raise refusal(str(error)) from error
    except MemoryError:  # arrays are no larger than the file, which may be right
        raise
    except Exception as error:  # whatever it is that a forged file leads to
        reason = f"{error}" if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise refusal(f"it is not as quadfeat writes it ({reason})") from error


def _checked_path(path: Any) -> Path:
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path={check.one_line(path)} is not valid: give the path of a file.")
    if "\0" in os.fsdecode(path):
        raise ValueError(f"path={path!r} is not valid: give one without null characters.")
    return Path(path)
