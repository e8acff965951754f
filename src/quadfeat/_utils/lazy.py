"""Attributes that are computed when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value")
Self = TypeVar("Self", bound="cached_property[Any]")


class CopiedState:
    """Pickle a copy of the attributes, since another thread may be computing one of them."""

    def __getstate__(self) -> dict[str, Any]:
        return dict(vars(self))


class cached_property(Generic[Value]):
    """Compute an attribute once, without a lock.

    Before Python 3.12, ``functools.cached_property`` holds a lock that all instances share. Threads
    with different models would wait for each other, and a process that is forked while one of them
    computes would wait forever. Here threads that ask at the same time all compute, and get equal
    values.

    Examples
    --------
    >>> class Circle:
    ...     @cached_property
    ...     def area(self):
    ...         print("computed")
    ...         return 3.14
    >>> circle = Circle()
    >>> circle.area + circle.area
    computed
    6.28
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self.compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self: Self, instance: None, owner: Any = None) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: Any = None) -> Value: ...

    def __get__(self, instance: object | None, owner: Any = None) -> Any:
        if instance is None:
            return self
        value = self.compute(instance)
        # Python looks here first the next time, since there is no __set__. If another thread was
        # faster, all have its value.
        return vars(instance).setdefault(self.name, value)
