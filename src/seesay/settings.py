"""Settings of implementations that a recipe chooses, and their registries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from seesay.errors import MissingExtraError, SeesayError, did_you_mean
from seesay.registry import Registry

C = TypeVar("C", bound=type)


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
    """Implementations that a recipe chooses by the `kind` of their settings.

    Args:
        what: what is registered, for error messages, such as "loss".
        group: the entry-point group, such as "seesay.losses".
        package: the package whose modules hold the shipped ones.
        unchecked: settings with any keys, which stand in where an extra that the package needs is missing.
    """

    def __init__(
        self, what: str, group: str, package: str | None = None, unchecked: type[Settings] | None = None
    ) -> None:
        super().__init__(what, group, package)
        self._unchecked = unchecked

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
            settings = self._settings(str(values["kind"]))
            return settings.model_validate(values)
        except ValidationError as failure:
            raise SeesayError(describe(failure, settings)) from failure

    def _settings(self, kind: str) -> type[Settings]:
        try:
            return self[kind].settings
        except MissingExtraError:
            if self._unchecked is None:
                raise
            return self._unchecked

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
        message = f"no such key{_known_keys(last, model, parents)}"
    return f"key '{'.'.join([*parents, last])}': {message}" if last else message


def _known_keys(key: str, model: type[BaseModel], parents: list[str]) -> str:
    """Suggest the keys that are meant by an unknown one, or name those that there are."""
    fields = _fields(model, parents)
    below = [
        f"{name}.{inner}"
        for name, field in fields.items()
        for settings in _types(field.annotation)
        for inner in settings.model_fields
    ]
    if deeper := [name for name in below if name.endswith(f".{key}")]:
        return f"; did you mean '{'.'.join([*parents, deeper[0]])}'?"
    known = [name for name in fields if name != "kind"]
    return did_you_mean(key, known) or (f"; there are: {', '.join(known)}." if known else ".")


def _fields(model: type[BaseModel], parents: list[str]) -> dict[str, FieldInfo]:
    """The fields of the settings below those parents; none if their class is not certain."""
    for parent in parents:
        field = model.model_fields.get(parent)
        found = _types(field.annotation) if field else []
        if len(found) != 1:
            return {}
        model = found[0]
    return model.model_fields


def _types(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for each in get_args(annotation) for found in _types(each)]
