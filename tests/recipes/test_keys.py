"""The keywords of `seesay.train`: the keys of recipes and of their parts, with their types."""

from __future__ import annotations

from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel

from seesay.losses.settings import LOSSES
from seesay.matchers.settings import MATCHERS
from seesay.recipes import keys
from seesay.recipes.schema import Recipe
from seesay.settings import Settings

PART = "Mapping[str, Any]"


def models() -> list[type[Settings]]:
    """A recipe, its mappings, and the settings of every matcher and loss that comes with seesay."""
    fields = (field.annotation for field in Recipe.model_fields.values())
    unions = [(each, *get_args(each)) for each in fields if get_origin(each) is not dict]
    parts = [each for union in unions for each in union if is_settings(each)]
    kinds = [registry[kind].settings for registry in (MATCHERS, LOSSES) for kind in registry]
    shipped = [each for each in kinds if each.__module__.startswith("seesay.")]
    return [Recipe, *(each for each in parts if each.model_fields.keys() - {"kind"}), *shipped]


def is_settings(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def types_of(annotation: Any) -> list[str]:
    """The types of a field as a caller writes them: any sequence for a tuple, a mapping for settings."""
    if get_origin(annotation) is Annotated:
        return types_of(get_args(annotation)[0])
    if is_settings(annotation):
        return [PART]
    if get_origin(annotation) is tuple:
        inner = dict.fromkeys(
            name for each in get_args(annotation) if each is not ... for name in types_of(each)
        )
        return [f"Sequence[{' | '.join(inner)}]"]
    if get_origin(annotation) is dict:
        return [PART]
    if annotation in (int, float, bool, str):
        return [annotation.__name__]
    if annotation is type(None):
        return ["None"]
    if str(annotation).startswith("typing.Literal"):
        return ["Literal[" + ", ".join(map(repr, get_args(annotation))) + "]"]
    return [name for each in get_args(annotation) for name in types_of(each)]


def expected() -> dict[str, str]:
    """Each key with the union of its types in all settings that have it."""
    found: dict[str, dict[str, None]] = {}
    for model in models():
        for name, field in model.model_fields.items():
            found.setdefault(name, {}).update(dict.fromkeys(types_of(field.annotation)))
    for key in ("kind", "corpus", "settings_of"):  # never on its own; of `train` itself; of a recipe's name
        del found[key]
    return {
        name: " | ".join(sorted(types, key=lambda each: (each == "None", each)))
        for name, types in found.items()
    }


def test_the_keys_are_those_of_the_settings() -> None:
    written = {name: each.__forward_arg__ for name, each in keys.RecipeKeys.__annotations__.items()}
    assert {name: each.replace('"', "'") for name, each in written.items()} == expected()
