"""Settings that recipes choose, generated from the constructors of what they build, and their registries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, wraps
from inspect import Parameter, signature
from typing import Annotated, Any, ClassVar, Literal, TypeVar, cast, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic_core import ErrorDetails, PydanticCustomError

from seesay.errors import KEYS_ALIKE, MissingExtraError, SeesayError, did_you_mean
from seesay.registry import Registry

C = TypeVar("C", bound=type)

# Annotations of hyperparameters, beside pydantic's `PositiveInt` and `NonNegativeInt`.
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Dropout = Annotated[float, Field(ge=0, lt=1)]  # the share of values that are dropped in training


class Settings(BaseModel):
    """Settings of one implementation in a recipe; unknown keys are errors."""

    implementation: ClassVar[type]  # the registered class that they build
    model_config = ConfigDict(extra="forbid", frozen=True)

    def arguments_for(self, implementation: type) -> dict[str, Any]:
        """Return the settings that are arguments of a class's constructor."""
        wanted = signature(implementation).parameters
        return {name: getattr(self, name) for name in type(self).model_fields if name in wanted}


class SettingsRegistry(Registry[type[Settings]]):
    """Settings of implementations that a recipe chooses by the `kind` of their settings.

    Args:
        what, group, modules: see `Registry`.
        base: what all of these settings derive from.
        inputs: constructor arguments that come from the data and not from the recipe.
    """

    def __init__(
        self,
        what: str,
        group: str,
        base: type[Settings] = Settings,
        inputs: tuple[str, ...] = (),
        modules: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        super().__init__(what, group, modules)
        self._base, self._inputs = base, inputs

    @cached_property
    def unchecked(self) -> type[Settings]:
        """Settings with any keys, for when an extra that the implementations need is not installed."""
        allows = {"model_config": ConfigDict(extra="allow", frozen=True), "__module__": __name__}
        return cast(type[Settings], type("Unchecked", (self._base,), allows))

    def register_class(self, kind: str, settings: type[Settings] | None = None) -> Callable[[C], C]:
        """Return a decorator that registers a class under the `kind` by which recipes name it.

        Its settings are the arguments of its constructor, with their annotations and defaults, except for the
        registry's inputs. The constructor then checks its arguments by the same annotations.

        `settings` are what the generated settings derive from instead of the registry's base, for keys that
        the constructor does not take. Its own keys stay as they are.

        Example:
            >>> shapes = SettingsRegistry("shape", "seesay.shapes")
            >>> @shapes.register_class("square")
            ... class Square:
            ...     def __init__(self, side: Positive = 1.0) -> None:
            ...         self.side = side
            >>> shapes.parse({"kind": "square", "side": 2})
            SquareSettings(kind='square', side=2.0)
            >>> Square(side=-1)
            Traceback (most recent call last):
            seesay.errors.SeesayError: Square: side: input should be greater than 0, got -1.
        """
        base = settings or self._base

        def add(implementation: C) -> C:
            arguments = _annotated_arguments(implementation)
            left_out = {*self._inputs, *base.model_fields}
            fields = {name: field for name, field in arguments.items() if name not in left_out}
            made = create_model(
                f"{implementation.__name__}Settings",
                __base__=base,
                __doc__=f"Settings of `{implementation.__name__}`.",
                __module__=implementation.__module__,
                **{"kind": (Literal[kind], kind), **fields},
            )
            if arguments:
                _check_arguments(implementation, arguments)
            settings_class = cast(type[Settings], made)
            settings_class.implementation = implementation
            self.register(kind)(settings_class)
            return implementation

        return add

    def parse(self, values: object) -> Settings:
        """Check settings given as a mapping with a `kind`; settings are returned as they are.

        Raises:
            SeesayError: the kind is missing or unknown, or a value is not allowed; in the last case the
                message begins with the key.
        """
        if isinstance(values, Settings):
            return values
        if not isinstance(values, Mapping) or "kind" not in values:
            names = list(self)
            raise SeesayError(
                f"give a mapping with 'kind', such as {{kind: {names[0]}}}; there are {', '.join(names)}."
            )
        try:
            try:
                settings = self[str(values["kind"])]
            except MissingExtraError:
                settings = self.unchecked
            return settings.model_validate(values)
        except ValidationError as failure:
            raise SeesayError(describe(failure, settings)) from failure

    def validate(self, values: object) -> Settings:
        """Parse settings that are a field of other settings, with the errors that pydantic expects."""
        try:
            return self.parse(values)
        except SeesayError as failure:
            raise PydanticCustomError("settings", "{problem}", {"problem": str(failure)}) from failure


def _annotated_arguments(implementation: type) -> dict[str, Any]:
    """Return the constructor's arguments as fields of a pydantic model: name to annotation and default."""
    types = get_type_hints(implementation.__init__, include_extras=True)  # type: ignore[misc]
    return {
        name: (types.get(name, Any), ... if argument.default is Parameter.empty else argument.default)
        for name, argument in signature(implementation).parameters.items()
        if argument.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    }


def _check_arguments(implementation: type, arguments: Mapping[str, Any]) -> None:
    """Let a class's constructor check its arguments by their annotations."""
    construct: Callable[..., None] = implementation.__init__  # type: ignore[misc]
    config = ConfigDict(arbitrary_types_allowed=True)
    model = create_model(implementation.__name__, __config__=config, **arguments)
    its_signature = signature(construct)

    @wraps(construct)
    def checked(self: object, *args: Any, **options: Any) -> None:
        try:
            bound = its_signature.bind(self, *args, **options)
        except TypeError as failure:
            raise TypeError(f"{implementation.__name__}: {failure}") from None
        given = {name: value for name, value in bound.arguments.items() if name in arguments}
        try:
            found = model.model_validate(given)
        except ValidationError as failure:
            error = failure.errors(include_url=False)[0]
            got = "" if error["type"] == "value_error" else f", got {error['input']!r}"
            raise SeesayError(
                f"{implementation.__name__}: {error['loc'][0]}: {_text(error)}{got}."
            ) from failure
        bound.arguments.update({name: getattr(found, name) for name in given})
        construct(*bound.args, **bound.kwargs)

    implementation.__init__ = checked  # type: ignore[misc]


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
    text = _text(first)
    message = text if text.endswith("?") else f"{text}."
    if first["type"] == "settings" and first["msg"].startswith("key '"):
        inner = first["msg"].removeprefix("key '")
        return f"key '{'.'.join([*parents, last, inner])}"
    if first["type"] == "extra_forbidden":
        message = f"no such key{_known_keys(last, model, parents)}"
    return f"key '{'.'.join([*parents, last])}': {message}" if last else message


def _text(error: ErrorDetails) -> str:
    """Return the error's message as a part of a sentence."""
    text = error["msg"].removeprefix("Value error, ").rstrip(".")
    return text[:1].lower() + text[1:]


def _known_keys(key: str, model: type[BaseModel], parents: list[str]) -> str:
    """Suggest the key that was probably meant by an unknown one, or list the known keys."""
    for parent in parents:
        found = _types(model.model_fields[parent].annotation) if parent in model.model_fields else []
        if len(found) != 1:  # their class is ambiguous
            return "."
        model = found[0]
    fields = model.model_fields
    below = [
        f"{name}.{inner}"
        for name, field in fields.items()
        for settings in _types(field.annotation)
        for inner in settings.model_fields
    ]
    if deeper := [name for name in below if name.endswith(f".{key}")]:
        return f"; did you mean '{'.'.join([*parents, deeper[0]])}'?"
    known = [name for name in fields if name != "kind"]
    near = did_you_mean(key, known, KEYS_ALIKE).replace(" '", f" '{'.'.join([*parents, ''])}")
    return near or (f"; there are: {', '.join(known)}." if known else ".")


def _types(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for each in get_args(annotation) for found in _types(each)]
