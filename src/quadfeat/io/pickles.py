"""Pickles that know in which format they are, so that another version can tell whether to trust it.

The format is that of files (:mod:`quadfeat.io.migrations`), and the same hook ``migrate`` brings
older ones up to date.
"""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator

from quadfeat._utils.version import __version__
from quadfeat.io.migrations import FORMAT, migrated

FORMAT_KEY = "_quadfeat_format"
VERSION_KEY = "_quadfeat_version"


class VersionedState(BaseEstimator):
    """An estimator whose pickles carry their format, and the version that wrote them.

    Subclasses name in ``needed_attributes`` the attributes without which a fitted object is of no
    use: those that have the first of them have to have all. A static or class method ``migrate``,
    if there is one, brings attributes up to date; parts that are no estimators are as they were
    pickled.
    """

    needed_attributes: tuple[str, ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return state | {FORMAT_KEY: FORMAT, VERSION_KEY: __version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        found, version = state.pop(FORMAT_KEY, 0), state.pop(VERSION_KEY, None)
        name = type(self).__name__
        if not isinstance(found, int) or not 0 <= found <= FORMAT:
            raise ValueError(_unknown(name, found, version))
        state = migrated(type(self), state, found)
        if found == 0 and self.needed_attributes and self.needed_attributes[0] in state:
            missing = [needed for needed in self.needed_attributes if needed not in state]
            if missing:
                raise ValueError(
                    f"this {name} was pickled by an early version of quadfeat and has no "
                    f"{', '.join(missing)}: fit it again."
                )
        super().__setstate__(state)


def _unknown(name: str, found: Any, version: Any) -> str:
    """Return what to say about a format that is not known here."""
    writer = "another version" if version is None else f"version {version}"
    wanted = "a newer version" if version is None else f"quadfeat>={version}"
    return (
        f"this {name} was pickled by {writer} of quadfeat, in format {found!r}; quadfeat "
        f"{__version__} reads formats up to {FORMAT}: install {wanted}, or load it there and "
        "write it by quadfeat.save, whose files more versions read."
    )
