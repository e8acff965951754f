"""Attributes that are computed on first access."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value")
Self = TypeVar("Self", bound="cached_property[Any]")


class CopiedState:
    """Pickle a copy of the attributes, since another thread may add one at the same time."""

    def __getstate__(self) -> dict[str, Any]:
        return dict(vars(self))


class cached_property(Generic[Value]):
    """Compute an attribute once, without a lock.

    Before Python 3.12, ``functools.cached_property`` holds a lock that all instances share. Threads
    with different models would wait for each other, and a process forked during a computation would
    wait forever. Here, threads that access the attribute at the same time each compute it and get
    equal values.

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
        # From now on Python finds the value in the instance first, since there is no __set__. If
        # another thread was faster, every thread gets its value.
        return vars(instance).setdefault(self.name, value)
