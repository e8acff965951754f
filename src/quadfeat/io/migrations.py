"""The format of files and pickles, and how classes read older ones.

The format is a small number. It goes up when attributes of saved objects are added or removed, or
change their names or meaning, so that other versions could not read them. A class that can read
what earlier versions wrote has a static or class method ``migrate``, such as::

    @staticmethod
    def migrate(attributes: dict[str, Any], found_format: int) -> dict[str, Any]:
        if found_format < 3:
            attributes = attributes | {"width": attributes["size"] + 1}
            del attributes["size"]
        return attributes

It gets the attributes that are in the file or pickle, whose parts are migrated already, and returns
those with which the object is built. A class that has another name in older files is registered
with ``former_names``.
"""

from __future__ import annotations

from typing import Any

# The format in which files and pickles are written.
#
# 0  pickles from before they were numbered, otherwise as 1
# 1  the first one
# 2  moments have a control; rows of classifiers have indices of classes, and weights that include
#    those of the classes; files have no paths
# 3  kernel, nodes and states of generators are one object, the map; solutions have other names
# 4  models have a time_limit, and kernel="auto" as default; regressions keep rows with their
#    targets; classifiers keep a calibration, not a temperature
FORMAT = 4


def migrated(kind: type[Any], attributes: dict[str, Any], found_format: int) -> dict[str, Any]:
    """Return the attributes with which to build an object, from those of any format."""
    migrate = getattr(kind, "migrate", None)
    if migrate is None:
        return attributes
    found: dict[str, Any] = migrate(attributes, found_format)
    return found
