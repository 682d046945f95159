"""Recipes by name or file, with single values changed from the command line."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from seesay.errors import SeesayError
from seesay.recipes.schema import Recipe

DEFAULT_CORPORA = ("flickr8k", "flickr8k-phrases")


def list_recipes() -> list[Recipe]:
    """Every recipe that comes with seesay, by corpus and name."""
    return [parse_recipe(text, where) for where, text in sorted(_shipped().items())]


def load_recipe(name: str, corpus: str | None = None, changes: Sequence[str] = ()) -> Recipe:
    """The recipe `name`: a YAML file's path, `corpus/name`, or `name`.

    A bare name means the recipe for the corpus at hand where there is one, and else that for Flickr8k.

    Args:
        name: of a recipe, or the path of a YAML file.
        corpus: the name of the corpus at hand, if one is.
        changes: `key=value`, dots between levels, the value in YAML: `schedule.epochs=5`.

    Raises:
        SeesayError: no such recipe, or it says something that no recipe may say.
    """
    where, text = _find(name, corpus)
    values = _yaml(text, where)
    for change in changes:
        _apply(values, change)
    if changes:
        values["changes"] = sorted(changes)
    return _validate(values, where if not changes else f"{where} with {', '.join(changes)}")


def parse_recipe(text: str, where: str) -> Recipe:
    """A recipe from YAML text; `where` names it in errors."""
    return _validate(_yaml(text, where), where)


def read_recipe(path: Path) -> Recipe:
    """The recipe in a run's folder.

    Raises:
        SeesayError: the file is missing, no UTF-8, or no recipe.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as failure:
        raise SeesayError(f"{path}: cannot be read ({failure}).") from failure
    return parse_recipe(text, str(path))


def dump_recipe(recipe: Recipe) -> str:
    """The resolved recipe as YAML, every value written out."""
    return yaml.safe_dump(recipe.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def _shipped() -> dict[str, str]:
    root = Path(str(files("seesay.recipes")))
    return {
        f"{path.parent.name}/{path.stem}": path.read_text(encoding="utf-8") for path in root.glob("*/*.yaml")
    }


def _find(name: str, corpus: str | None) -> tuple[str, str]:
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise SeesayError(f"{name}: no such recipe file; `seesay recipes` lists the shipped ones.")
        try:
            return name, path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as failure:
            raise SeesayError(f"{name}: cannot be read as UTF-8 text ({failure}).") from failure
    shipped = _shipped()
    for key in (name, f"{corpus}/{name}", *(f"{default}/{name}" for default in DEFAULT_CORPORA)):
        if key in shipped:
            return key, shipped[key]
    raise SeesayError(f"No recipe '{name}'; `seesay recipes` lists them: {', '.join(sorted(shipped))}.")


def _yaml(text: str, where: str) -> dict[str, Any]:
    try:
        values = yaml.safe_load(text)
    except yaml.YAMLError as failure:
        raise SeesayError(f"{where}: not YAML: {' '.join(str(failure).split())}") from failure
    if not isinstance(values, dict):
        raise SeesayError(f"{where}: a recipe is a mapping of keys to values.")
    return values


def _apply(values: dict[str, Any], change: str) -> None:
    key, equals, value = change.partition("=")
    if not equals:
        raise SeesayError(f"--set {change}: write key=value, such as schedule.epochs=5.")
    *parents, last = key.split(".")
    at: Any = values
    for parent in parents:
        at = at.setdefault(parent, {})
        if not isinstance(at, dict):
            raise SeesayError(f"--set {change}: '{parent}' holds a value, not further keys.")
    try:
        at[last] = yaml.safe_load(value)
    except yaml.YAMLError as failure:
        raise SeesayError(f"--set {change}: the value is not YAML.") from failure


def _validate(values: dict[str, Any], where: str) -> Recipe:
    try:
        return Recipe.model_validate(values)
    except ValidationError as failure:
        first = failure.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise SeesayError(f"{where}: key '{key}': {first['msg'].lower()}.") from failure
