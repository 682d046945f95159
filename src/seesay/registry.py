"""Registries of implementations by name: shipped ones and those that installed packages add."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import iter_modules
from typing import Any, Generic, NamedTuple, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import PydanticCustomError

from seesay.errors import SeesayError, did_you_mean

T = TypeVar("T")
C = TypeVar("C", bound=type)


class Registry(Mapping[str, T], Generic[T]):
    """Implementations by name.

    A package adds one without a change here: it registers it with the decorator, and names the module that
    does so in its own metadata, as an entry point of this registry's group under the same name.

    Args:
        what: what is registered, for error messages, such as "protocol".
        group: the entry-point group, such as "seesay.protocols".
        package: the package whose modules hold the shipped ones; they are imported at the first look-up.

    Example:
        >>> shapes = Registry[type]("shape", "seesay.shapes")
        >>> @shapes.register("square")
        ... class Square: ...
        >>> shapes["square"] is Square
        True
        >>> shapes["squre"]
        Traceback (most recent call last):
        seesay.errors.SeesayError: No shape 'squre'; did you mean 'square'? There are: square.
    """

    def __init__(self, what: str, group: str, package: str | None = None) -> None:
        self.what, self.group = what, group
        self._package = package
        self._known: dict[str, T] = {}
        self._plugins: dict[str, EntryPoint] | None = None

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that registers what it decorates as `name`.

        A class that is defined again, as by a notebook cell that runs twice, replaces the former one.

        Raises:
            SeesayError: something else is registered under that name.
        """

        def add(implementation: T) -> T:
            there = self._known.get(name)
            if there is not None and _origin(there) != _origin(implementation):
                raise SeesayError(f"The {self.what} '{name}' is registered already; choose another name.")
            self._known[name] = implementation
            return implementation

        return add

    def __getitem__(self, name: str) -> T:
        """Return the implementation of that name; import it first if an installed package brings it.

        Raises:
            SeesayError: there is none, or its package cannot be imported.
        """
        self._import_package()
        if name not in self._known and name in self._entry_points():
            self._import(name)
        try:
            return self._known[name]
        except KeyError:
            near = did_you_mean(name, self) or "."
            raise SeesayError(f"No {self.what} '{name}'{near} There are: {', '.join(self)}.") from None

    def __contains__(self, name: object) -> bool:
        """Return whether something is registered under that name; imports no plug-in."""
        self._import_package()
        return name in self._known or name in self._entry_points()

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names: shipped ones in order of registration, then those of installed packages."""
        self._import_package()
        return iter(dict.fromkeys((*self._known, *self._entry_points())))

    def __len__(self) -> int:
        """Return how many names there are."""
        return len(list(iter(self)))

    def _import_package(self) -> None:
        if self._package is not None:
            package, self._package = import_module(self._package), None
            for module in iter_modules(package.__path__):
                import_module(f"{package.__name__}.{module.name}")

    def _entry_points(self) -> dict[str, EntryPoint]:
        if self._plugins is None:
            self._plugins = {}
            for point in entry_points(group=self.group):
                if self._plugins.setdefault(point.name, point).value != point.value:
                    first = self._plugins[point.name]
                    warnings.warn(
                        f"Two packages bring a {self.what} '{point.name}': {first.value} is used, "
                        f"{point.value} is not.",
                        stacklevel=2,
                    )
        return self._plugins

    def _import(self, name: str) -> None:
        point = self._entry_points()[name]
        try:
            found = point.load()
        except Exception as failure:  # whatever somebody else's module raises
            package = point.dist.name if point.dist else point.value
            raise SeesayError(
                f"The {self.what} '{name}' of package '{package}' cannot be imported: {failure}."
            ) from failure
        if name not in self._known:
            raise SeesayError(f"{point.value}: registers no {self.what} '{name}' ({found!r} was found).")


def _origin(implementation: object) -> tuple[str, str]:
    """Where an implementation is defined: its module and its name there."""
    if isinstance(implementation, Registered):
        implementation = implementation.implementation
    found = implementation if isinstance(implementation, type) else type(implementation)
    return found.__module__, found.__qualname__


class Settings(BaseModel):
    """Settings of one implementation in a recipe; unknown keys are errors.

    A subclass stands beside its implementation and gives `kind` its default, a `Literal`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)


class Registered(NamedTuple):
    """An implementation and the settings that build it."""

    settings: type[Settings]
    implementation: type


class SettingsRegistry(Registry[Registered]):
    """Implementations that a recipe chooses by the `kind` of their settings."""

    def register_with(self, settings: type[Settings]) -> Callable[[C], C]:
        """Return a decorator that registers a class under the `kind` of its settings.

        Example:
            >>> shapes = SettingsRegistry("shape", "seesay.shapes")
            >>> class SquareSettings(Settings):
            ...     kind: str = "square"
            ...     side: int = 1
            >>> @shapes.register_with(SquareSettings)
            ... class Square: ...
            >>> shapes.parse({"kind": "square", "side": 2})
            SquareSettings(kind='square', side=2)
        """

        def add(implementation: C) -> C:
            kind = settings.model_fields["kind"].default
            if not isinstance(kind, str):
                raise SeesayError(f"{settings.__name__}: 'kind' needs a default, the name in recipes.")
            self.register(kind)(Registered(settings, implementation))
            return implementation

        return add

    def implementation(self, settings: Settings) -> type:
        """Return the class that such settings build."""
        return self[getattr(settings, "kind")].implementation  # noqa: B009

    def parse(self, values: Any) -> Settings:
        """Check settings given as a mapping with a `kind`; settings are returned as they are.

        Raises:
            SeesayError: the kind is unknown, or a value is not allowed; the message begins with the key.
        """
        if isinstance(values, Settings):
            return values
        if not isinstance(values, Mapping) or "kind" not in values:
            names = list(self)
            raise SeesayError(
                f"give a mapping with 'kind', such as {{kind: {names[0]}}}; there are {', '.join(names)}."
            )
        try:
            settings = self[str(values["kind"])].settings
            return settings.model_validate(values)
        except ValidationError as failure:
            raise SeesayError(describe(failure, settings)) from failure

    def validate(self, values: Any) -> Settings:
        """Parse settings that are a field of other settings, with the errors that pydantic expects."""
        try:
            return self.parse(values)
        except SeesayError as failure:
            raise PydanticCustomError("settings", "{problem}", {"problem": str(failure)}) from failure


def describe(failure: ValidationError, model: type[BaseModel]) -> str:
    """Describe the first error of some settings: its key, what is wrong, and the nearest known key.

    >>> class Example(Settings):
    ...     kind: str = "example"
    ...     epochs: int = 1
    >>> try:
    ...     Example(epoch=5)
    ... except ValidationError as failure:
    ...     print(describe(failure, Example))
    key 'epoch': no such key; did you mean 'epochs'?
    """
    first = failure.errors(include_url=False)[0]
    *parents, last = [str(part) for part in first["loc"]] or [""]
    text = first["msg"].removeprefix("Value error, ").rstrip(".")
    message = f"{text[:1].lower()}{text[1:]}."
    if first["type"] == "settings" and first["msg"].startswith("key '"):
        inner = first["msg"].removeprefix("key '")
        return f"key '{'.'.join([*parents, last, inner])}"
    if first["type"] == "extra_forbidden":
        message = f"no such key{did_you_mean(last, _fields(model, parents)) or '.'}"
    return f"key '{'.'.join([*parents, last])}': {message}" if last else message


def _fields(model: type[BaseModel], parents: list[str]) -> list[str]:
    """The keys of the settings below those parents; none if their class is not certain."""
    for parent in parents:
        field = model.model_fields.get(parent)
        found = _types(field.annotation) if field else []
        if len(found) != 1:
            return []
        model = found[0]
    return list(model.model_fields)


def _types(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for each in get_args(annotation) for found in _types(each)]
