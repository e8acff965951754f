"""The classes that files may hold: each one registers itself, and says what is saved of it.

A name in a file is looked up here and nowhere else, so that a file can build nothing but objects of
registered classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from typing import Any, TypeVar, overload

from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator

__all__ = ["UPPER_TRIANGLE", "register"]

Class = TypeVar("Class", bound=type)

# Metadata of a dataclass field: a square matrix of which only the upper triangle counts.
UPPER_TRIANGLE = {"quadfeat.io": "upper triangle"}

# Class attributes that list names.
DECLARATIONS = ("saved_attributes", "unsaved_attributes", "path_parameters")

# Types that a file writes itself, whose names no class can have.
PLAIN_TYPES = frozenset(
    {
        *{"array", "triangle", "objects", "Generator", "RandomState"},  # of NumPy
        *{"float", "scalar", "tuple", "dict", "path"},
    }
)


@dataclass(frozen=True)
class Registration:
    """How objects of a class are saved and built again.

    Attributes
    ----------
    kind : type
    name : str
        What files call it.
    is_model : bool
        Whether ``quadfeat.save`` takes such an object by itself, and not only as a part.
    """

    kind: type[Any]
    name: str
    is_model: bool

    @property
    def is_record(self) -> bool:
        """Whether such an object is its fields, and built by its constructor."""
        return not self.is_estimator and bool(is_dataclass(self.kind) or _is_named_tuple(self.kind))

    @property
    def is_estimator(self) -> bool:
        """Whether such an object has parameters."""
        return issubclass(self.kind, BaseEstimator)

    @property
    def required(self) -> tuple[str, ...]:
        """The attributes that each object of the class has."""
        if self.is_estimator:
            return tuple(self.kind._get_param_names())
        if is_dataclass(self.kind):
            return tuple(field.name for field in fields(self.kind) if field.init)
        return tuple(self.kind._fields) if self.is_record else ()

    @property
    def allowed(self) -> tuple[str, ...]:
        """The attributes that an object of the class may have."""
        return (
            self.required if self.is_record else self.required + self.declared("saved_attributes")
        )

    def declared(self, what: str) -> tuple[str, ...]:
        """Return the names that the class lists: its ``saved_attributes`` and the like."""
        return tuple(getattr(self.kind, what, ()))

    @property
    def triangles(self) -> tuple[str, ...]:
        """The fields that are square matrices of which only the upper triangle counts."""
        if not is_dataclass(self.kind):
            return ()
        return tuple(
            field.name for field in fields(self.kind) if field.metadata.items() >= _TRIANGLE
        )

    def attributes(self, thing: Any) -> dict[str, Any]:
        """Return the attributes of an object, without those that are not saved."""
        if self.is_record:
            return {name: getattr(thing, name) for name in self.required}
        held = dict(vars(thing))  # another thread may be computing one of them
        dropped, paths = self.declared("unsaved_attributes"), self.declared("path_parameters")
        return {
            name: None if name in paths else value
            for name, value in held.items()
            if name not in dropped
        }

    def build(self, attributes: dict[str, Any]) -> Any:
        """Return an object with these attributes, which have to be those of its class."""
        if not set(self.required) <= set(attributes) <= set(self.allowed):
            what = "fields" if self.is_record else "attributes"
            raise ValueError(f"{self.name} has the {what} {sorted(attributes)}")
        for name in self.declared("path_parameters"):
            if attributes.get(name) is not None:
                raise ValueError(f"{name} names a path")
        if self.is_record:
            return self.kind(**attributes)
        made: Any = object.__new__(self.kind)
        vars(made).update(attributes)
        return made


_TRIANGLE = UPPER_TRIANGLE.items()
_BY_NAME: dict[str, Registration] = {}
_BY_CLASS: dict[type[Any], Registration] = {}


@overload
def register(
    kind: Class, /, *, name: str | None = ..., former_names: Iterable[str] = ..., model: bool = ...
) -> Class: ...


@overload
def register(
    kind: None = None,
    /,
    *,
    name: str | None = ...,
    former_names: Iterable[str] = ...,
    model: bool = ...,
) -> Callable[[Class], Class]: ...


def register(
    kind: Any = None,
    /,
    *,
    name: str | None = None,
    former_names: Iterable[str] = (),
    model: bool = False,
) -> Any:
    """Let ``quadfeat.save`` and ``quadfeat.load`` handle objects of a class.

    Use it as a decorator of a kernel, rule, rotation or other part of your own, or call it with the
    class. Files hold names and numbers and no code, so the process that loads a file has to
    register the class too, before it calls ``quadfeat.load``.

    Parameters
    ----------
    kind : type
        The class, which decides what is saved:

        - An estimator, such as a kernel, rule or rotation: its parameters, and the attributes that
          it lists as ``saved_attributes`` (a tuple of strings). It is built without calling
          ``__init__``.
        - A dataclass or named tuple: its fields. It is built by its constructor.
        - Any other class: the attributes that it lists as ``saved_attributes``. It is built without
          calling ``__init__``.

    name : str, default=None
        What files call the class; by default its ``__name__``.
    former_names : iterable of str, default=()
        Names under which older files know it.
    model : bool, default=False
        Whether ``quadfeat.save`` takes such an object by itself, and not only as a part of another.

    Returns
    -------
    type
        The class, as it is.

    Raises
    ------
    ValueError
        If another class has the name. A class of the same module and qualified name, such as that
        of a notebook cell which ran again, is replaced.
    TypeError
        If the class does not say what is to be saved.

    See Also
    --------
    quadfeat.save : Write an object to a file.

    Notes
    -----
    A class can say more by these attributes, all of which are optional:

    ``check_consistency(self)``
        Raises a ``ValueError`` if the parts of the object do not fit together. ``save`` and
        ``load`` call it, for the parts of an object before the object itself. A file of unknown
        origin can give an object any values: this method is where a class defends itself.
    ``migrate(attributes, found_format)``
        A static or class method. Returns the attributes with which to build an object, given those
        in a file (a dict) and the format of the file. Here a class reads what its earlier versions
        wrote.
    ``unsaved_attributes``
        Attributes that ``save`` drops without an error, such as a cache.
    ``path_parameters``
        Parameters that name a path, which no file may choose: they are saved and loaded as None.

    Examples
    --------
    >>> import quadfeat
    >>> from quadfeat.kernels import Gaussian
    >>> @quadfeat.io.register
    ... class Wide(Gaussian):
    ...     def check_consistency(self):
    ...         if not isinstance(self.gamma, str) and self.gamma > 0.1:
    ...             raise ValueError(f"gamma is {self.gamma}")
    >>> quadfeat.save(quadfeat.QuadratureFeatures(Wide(0.5)), "model.quadfeat")
    Traceback (most recent call last):
    ...
    ValueError: the QuadratureFeatures cannot be saved: gamma is 0.5.
    """
    if kind is None:
        return partial(register, name=name, former_names=former_names, model=model)
    if not isinstance(kind, type):
        raise TypeError(f"kind={kind!r} is not valid: give a class.")
    if isinstance(former_names, str):
        raise TypeError(f"former_names={former_names!r} is not valid: give a tuple of strings.")
    entry = Registration(kind, kind.__name__ if name is None else name, model)
    _check_declaration(entry)
    names = (entry.name, *former_names)
    for one in names:
        _check_name(one, kind)
    for known in [known for known in _BY_CLASS if _same(known, kind)]:
        del _BY_CLASS[known]
    for one in [one for one, known in _BY_NAME.items() if _same(known.kind, kind)]:
        del _BY_NAME[one]
    _BY_CLASS[kind] = entry
    _BY_NAME.update(dict.fromkeys(names, entry))
    return kind


def registration_of(kind: type[Any]) -> Registration | None:
    """Return how objects of exactly this class are saved, or None if it is not registered."""
    return _BY_CLASS.get(kind)


def registered_as(name: str) -> Registration:
    """Return the registration of a class by its name in a file."""
    if name not in _BY_NAME:
        raise ValueError(
            f"no class {name!r} is registered here. If it is one of your own, register it with "
            "quadfeat.io.register before you load the file"
        )
    return _BY_NAME[name]


def model_names() -> list[str]:
    """Return the names of the classes that ``quadfeat.save`` takes by themselves."""
    return [entry.name for entry in _BY_CLASS.values() if entry.is_model]


def _check_declaration(entry: Registration) -> None:
    kind = entry.kind
    for what in DECLARATIONS:
        names = getattr(kind, what, ())
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise TypeError(f"{what} of {kind.__name__} is {names!r}: give a tuple of strings.")
    if not (entry.is_record or entry.is_estimator or hasattr(kind, "saved_attributes")):
        raise TypeError(
            f"{kind.__name__} does not say what is to be saved: make it a dataclass (with "
            "@register above @dataclass), a named tuple or an estimator, or list its attributes "
            "in saved_attributes."
        )


def _check_name(name: Any, kind: type[Any]) -> None:
    if not isinstance(name, str) or not name:
        raise TypeError(f"name={name!r} is not valid: give a string.")
    if name in PLAIN_TYPES:
        raise ValueError(
            f"name={name!r} is not valid, since files write values of this type themselves: give "
            "another name to register."
        )
    known = _BY_NAME.get(name)
    if known is not None and not _same(known.kind, kind):
        raise ValueError(
            f"name={name!r} is taken by {known.kind.__module__}.{known.kind.__qualname__}, and "
            f"cannot stand for {kind.__module__}.{kind.__qualname__} too: give another name to "
            "register."
        )


def _same(known: type[Any], kind: type[Any]) -> bool:
    """Return whether two classes are one, or two versions of one."""
    return (known.__module__, known.__qualname__) == (kind.__module__, kind.__qualname__)


def _is_named_tuple(kind: type[Any]) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


# A class of scikit-learn, which cannot register itself; all it has is a parameter.
register(FrozenEstimator)
