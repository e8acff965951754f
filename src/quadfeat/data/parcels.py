"""Small pickles of objects that contain maps, to send to other processes."""

from __future__ import annotations

import io
from functools import lru_cache
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from quadfeat._utils.lazy import cached_property


class Parcel:
    """A wrapper that pickles an object without the large arrays of its maps.

    The pickle holds the state of the generator that drew the nodes of a large map. Workers draw the
    nodes again; see ``FeatureMap.light``.

    Parameters
    ----------
    content : object
        The object to wrap.
    """

    def __init__(self, content: Any) -> None:
        self.content = content

    @cached_property
    def content(self) -> Any:
        """The wrapped object."""
        return cloudpickle.loads(self._packed)

    @cached_property
    def _packed(self) -> bytes:
        file = io.BytesIO()
        _LightPickler(file).dump(self.content)
        return file.getvalue()

    def __getstate__(self) -> dict[str, Any]:
        return {"_packed": self._packed}


class _LightPickler(cloudpickle.CloudPickler):
    """Pickles the light version of each map."""

    def reducer_override(self, obj: Any) -> Any:
        if hasattr(obj, "light") and hasattr(obj, "unpacked") and not isinstance(obj, type):
            light = obj.light()
            if light is not obj:
                return _unpacked, (cloudpickle.dumps(light), obj.n_jobs)
        return super().reducer_override(obj)


@lru_cache(maxsize=8)
def _unpacked(packed: bytes, n_jobs: int | None) -> Any:
    """Return a map; a process that gets the same map again does not rebuild it."""
    return cloudpickle.loads(packed).unpacked().with_jobs(n_jobs)
