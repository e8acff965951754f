"""The classes that files may contain, and the attributes to save.

Loading looks up the names of classes here and nowhere else, so a file can build only objects of
registered classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from importlib import import_module
from inspect import signature
from typing import Any, TypeVar, overload

from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator

__all__ = ["UPPER_TRIANGLE", "register"]

Class = TypeVar("Class", bound=type)

# Metadata of a dataclass field that is a square matrix: only its upper triangle is saved.
UPPER_TRIANGLE = {"quadfeat.io": "upper triangle"}

# Class attributes that list names.
# Importing these modules registers all classes of quadfeat.
BUILT_IN = (
    "quadfeat.kernels",
    "quadfeat.rotations",
    "quadfeat.rules",
    "quadfeat.solvers",
    "quadfeat.tables",
    "quadfeat.models",
    "quadfeat.front_door",
)

DECLARATIONS = ("saved_attributes", "unsaved_attributes", "path_parameters")

# Names that files use for built-in and NumPy types. No class can be registered under them.
PLAIN_TYPES = frozenset(
    {
        *{"array", "triangle", "objects", "Generator", "RandomState"},  # NumPy
        *{"float", "scalar", "tuple", "dict", "path"},
    }
)


@dataclass(frozen=True)
class Registration:
    """How to save and load objects of a class.

    Attributes
    ----------
    kind : type
        The class.
    name : str
        The name of the class in files.
    is_model : bool
        Whether ``quadfeat.save`` accepts such an object on its own, not only as a part.
    parameters : tuple of str or None
        For a class of another package whose constructor only stores its parameters: their names.
    """

    kind: type[Any]
    name: str
    is_model: bool
    parameters: tuple[str, ...] | None = None

    @property
    def is_record(self) -> bool:
        """Whether the constructor builds an object: that of a dataclass, for example."""
        if self.parameters is not None:
            return True
        return not self.is_estimator and bool(is_dataclass(self.kind) or _is_named_tuple(self.kind))

    @property
    def is_estimator(self) -> bool:
        """Whether the class is an estimator, which has parameters."""
        return issubclass(self.kind, BaseEstimator)

    @property
    def required(self) -> tuple[str, ...]:
        """The attributes that every object of the class has."""
        if self.parameters is not None:
            return self.parameters
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
        """Return the names in a class attribute such as ``saved_attributes``."""
        return tuple(getattr(self.kind, what, ()))

    @property
    def triangles(self) -> tuple[str, ...]:
        """The fields that are square matrices whose upper triangle is saved."""
        if not is_dataclass(self.kind):
            return ()
        return tuple(
            field.name for field in fields(self.kind) if field.metadata.items() >= _TRIANGLE
        )

    def attributes(self, thing: Any) -> dict[str, Any]:
        """Return the attributes to save, given an object."""
        if self.is_record:
            return {name: getattr(thing, name) for name in self.required}
        held = dict(vars(thing))  # a copy, since another thread may add an attribute
        dropped, paths = self.declared("unsaved_attributes"), self.declared("path_parameters")
        return {
            name: None if name in paths else value
            for name, value in held.items()
            if name not in dropped
        }

    def build(self, attributes: dict[str, Any]) -> Any:
        """Build an object; reject attributes that its class does not have."""
        if not set(self.required) <= set(attributes) <= set(self.allowed):
            what = "fields" if self.is_record else "attributes"
            raise ValueError(f"{self.name} has the {what} {sorted(attributes)}")
        for name in self.declared("path_parameters"):
            if attributes.get(name) is not None:
                raise ValueError(f"{name} contains a path")
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
    """Register a class, so that ``quadfeat.save`` and ``quadfeat.load`` accept its objects.

    Use it as a decorator of a user-defined kernel, rule, rotation or other part, or call it with
    the class. Files contain names and numbers, but no code. So the process that loads a file also
    has to register the class, before it calls ``quadfeat.load``.

    Parameters
    ----------
    kind : type
        The class, which determines the attributes to save:

        - An estimator, such as a kernel, rule or rotation: its parameters, and the attributes that
          it lists as ``saved_attributes`` (a tuple of strings). ``load`` does not call
          ``__init__``.
        - A dataclass or named tuple: its fields. ``load`` calls the constructor.
        - Any other class: the attributes that it lists as ``saved_attributes``. ``load`` does not
          call ``__init__``.

    name : str, default=None
        The name of the class in files; None means its ``__name__``.
    former_names : iterable of str, default=()
        Names of the class in older files.
    model : bool, default=False
        Whether ``quadfeat.save`` accepts such an object on its own, not only as a part of another.

    Returns
    -------
    type
        The class, unchanged.

    Raises
    ------
    ValueError
        If another class has the name. A class with the same module and qualified name is replaced,
        such as one that is defined in a notebook cell that runs again.
    TypeError
        If the class does not declare the attributes to save.

    See Also
    --------
    quadfeat.save : Write an object to a file.

    Notes
    -----
    A class can also define these optional attributes:

    ``check_consistency(self)``
        Raises a ``ValueError`` if the parts of the object do not fit together. ``save`` and
        ``load`` call it, for the parts of an object before the object itself. A file from an
        unknown source can contain any values, and this method has to reject invalid ones.
    ``before_saving(self)``
        Computes attributes that have to be saved, but are otherwise computed on first use.
    ``migrate(attributes, found_format)``
        A static or class method that converts the attributes of older formats. It takes the
        attributes in a file (a dict) and the format of the file, and returns the attributes of the
        new object.
    ``unsaved_attributes``
        Attributes that ``save`` drops without an error, such as a cache.
    ``path_parameters``
        Parameters that are paths. They are saved and loaded as None, so that a file cannot choose
        a path.

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
        raise TypeError(f"kind={kind!r} is not valid: pass a class.")
    if isinstance(former_names, str):
        raise TypeError(f"former_names={former_names!r} is not valid: pass a tuple of strings.")
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


def register_by_parameters(kind: Class) -> Class:
    """Register a class of scikit-learn whose constructor only stores its parameters."""
    entry = Registration(kind, kind.__name__, False, tuple(signature(kind).parameters))
    _check_name(entry.name, kind)
    _BY_CLASS[kind] = _BY_NAME[entry.name] = entry
    return kind


def registration_of(kind: type[Any]) -> Registration | None:
    """Return the registration of exactly this class; None if it is not registered."""
    return _BY_CLASS.get(kind)


def registered_as(name: str) -> Registration:
    """Return the registration of a class by its name in a file."""
    if name not in _BY_NAME:
        _register_built_in()
    if name not in _BY_NAME:
        raise ValueError(
            f"no class {name!r} is registered. If you defined it, register it with "
            "quadfeat.io.register before you load the file"
        )
    return _BY_NAME[name]


def model_names() -> list[str]:
    """Return the names of the classes whose objects ``quadfeat.save`` accepts on their own."""
    _register_built_in()
    return [entry.name for entry in _BY_CLASS.values() if entry.is_model]


def _register_built_in() -> None:
    """Import the modules of quadfeat that register classes; ``import quadfeat`` does not."""
    for name in BUILT_IN:
        import_module(name)


def _check_declaration(entry: Registration) -> None:
    kind = entry.kind
    for what in DECLARATIONS:
        names = getattr(kind, what, ())
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise TypeError(f"{kind.__name__}.{what} is {names!r}: pass a tuple of strings.")
    if not (entry.is_record or entry.is_estimator or hasattr(kind, "saved_attributes")):
        raise TypeError(
            f"{kind.__name__} does not declare the attributes to save. Make it a dataclass (with "
            "@register above @dataclass), a named tuple or an estimator, or list them in "
            "saved_attributes."
        )


def _check_name(name: Any, kind: type[Any]) -> None:
    if not isinstance(name, str) or not name:
        raise TypeError(f"name={name!r} is not valid: pass a string.")
    if name in PLAIN_TYPES:
        raise ValueError(
            f"name={name!r} is the name of a built-in type in files: pass another name to register."
        )
    if kind.__module__.partition(".")[0] not in ("quadfeat", "sklearn"):
        _register_built_in()
    known = _BY_NAME.get(name)
    if known is not None and not _same(known.kind, kind):
        raise ValueError(
            f"name={name!r} is the name of {known.kind.__module__}.{known.kind.__qualname__}, so "
            f"{kind.__module__}.{kind.__qualname__} cannot have it: pass another name to register."
        )


def _same(known: type[Any], kind: type[Any]) -> bool:
    """Return whether two classes are the same, or one is a redefinition of the other."""
    return (known.__module__, known.__qualname__) == (kind.__module__, kind.__qualname__)


def _is_named_tuple(kind: type[Any]) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


# A class of scikit-learn with one parameter, which cannot register itself.
register(FrozenEstimator)
