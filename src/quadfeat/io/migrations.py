"""The format of files and pickles, and the conversion of older formats.

The format is an integer. It increases when attributes of saved objects are added, removed or
renamed, or change their meaning. A class that can read older formats has a static or class method
``migrate``, such as::

    @staticmethod
    def migrate(attributes: dict[str, Any], found_format: int) -> dict[str, Any]:
        if found_format < 3:
            attributes = attributes | {"width": attributes["size"] + 1}
            del attributes["size"]
        return attributes

It takes the attributes from the file or pickle, whose parts are migrated already, and returns the
attributes of the new object. Register a class that was renamed with ``former_names``.
"""

from __future__ import annotations

from typing import Any

# The current format of files and pickles.
#
# 0  pickles from before formats were numbered, otherwise as 1
# 1  the first numbered format
# 2  moments have a control; rows of classifiers have indices of classes, and weights that include
#    class weights; files have no paths
# 3  kernel, nodes and states of generators are one object, the map; solutions are renamed
# 4  models have time_limit, and kernel="auto" as default; regressions keep rows with their targets;
#    classifiers keep a calibration instead of a temperature
# 5  estimators have gamma
# 6  SphericalRadial(rotation=None) has two rounds of butterflies for most d, instead of three
FORMAT = 6


def migrated(kind: type[Any], attributes: dict[str, Any], found_format: int) -> dict[str, Any]:
    """Return the attributes of a new object, given those of any format."""
    migrate = getattr(kind, "migrate", None)
    if migrate is None:
        return attributes
    found: dict[str, Any] = migrate(attributes, found_format)
    return found
