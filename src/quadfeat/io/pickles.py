"""Pickles with a format number, so that other versions can reject or convert them.

They have the same format number as files (:mod:`quadfeat.io.migrations`). The same method
``migrate`` converts older formats.
"""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator

from quadfeat._utils.version import __version__
from quadfeat.io.migrations import FORMAT, migrated

FORMAT_KEY = "_quadfeat_format"
VERSION_KEY = "_quadfeat_version"


class VersionedState(BaseEstimator):
    """An estimator whose pickles contain their format, and the version that wrote them.

    Subclasses list in ``needed_attributes`` the attributes that a fitted object must have. An
    object that has the first of them must have all. A static or class method ``migrate``, if there
    is one, converts the attributes of older formats. It must also convert parts that are not
    estimators, since these stay as they were pickled.
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
            raise ValueError(_unknown_format(name, found, version))
        state = migrated(type(self), state, found)
        if found == 0 and self.needed_attributes and self.needed_attributes[0] in state:
            missing = [needed for needed in self.needed_attributes if needed not in state]
            if missing:
                raise ValueError(
                    f"this {name} was pickled by an early version of quadfeat and lacks "
                    f"{', '.join(missing)}: fit it again."
                )
        super().__setstate__(state)


def _unknown_format(name: str, found: Any, version: Any) -> str:
    """Return the error message for a format that this version cannot read."""
    writer = "another version" if version is None else f"version {version}"
    wanted = "a newer version" if version is None else f"quadfeat>={version}"
    return (
        f"this {name} was pickled by {writer} of quadfeat in format {found!r}, but quadfeat "
        f"{__version__} reads formats up to {FORMAT}. Install {wanted}, or load the pickle there "
        "and write it with quadfeat.save, whose files more versions can read."
    )
