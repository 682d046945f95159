"""Recipes by name or file, with single values changed from the command line."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from seesay.encoders.names import untuned
from seesay.errors import SeesayError, did_you_mean
from seesay.matchers.base import MATCHERS
from seesay.matchers.composed import ComposedSettings
from seesay.matchers.gvse import GVSESettings
from seesay.recipes.schema import Recipe
from seesay.registry import describe

# The changes of a matcher that are a composed one's own, not its members'.
_OWN = ("matcher.members=", "matcher.gate=", "matcher.gate.", "matcher.at_once=")
_INPUTS = ("encoders", "arrays", "sentence_encoder", "sentence_dim", "min_count", "regions")


def list_recipes() -> list[Recipe]:
    """Every shipped recipe for each of its corpora, sorted by name."""
    found = []
    for name, path in sorted(_shipped().items()):
        values = _yaml(path.read_text(encoding="utf-8"), name)
        found += [_validate(_for_corpus(values, corpus, name), name) for corpus in values["corpora"]]
    return found


def load_recipe(name: str, corpus: str | None = None, changes: Sequence[str] = ()) -> Recipe:
    """Load the recipe `name`: a shipped one, `corpus/name`, or the path of a YAML file.

    A recipe file holds the values that its corpora share, and under `corpora` what differs. The values for
    `corpus` are taken if the recipe lists it, and otherwise those for the first corpus listed.

    Args:
        name: a recipe's name, or the path of a YAML file.
        corpus: the name of the corpus at hand, if known.
        changes: `key=value`, dots between levels, the value in YAML: `schedule.epochs=5`. They are also made
            to the recipes of a composed matcher's members, and those to a matcher to these alone.

    Raises:
        SeesayError: no such recipe, or it says something that no recipe may say.
    """
    return _resolved(_load(name, corpus, changes))


def member_recipes(composed: Recipe) -> list[Recipe]:
    """The recipes of a composed matcher's members, for its corpus, with its changes and its seed.

    Raises:
        SeesayError: one is missing, named twice, or cannot be, is of another kind of matcher, or reads other
            inputs.
    """
    assert isinstance(composed.matcher, ComposedSettings)
    changes = [change for change in composed.changes if not change.startswith((*_OWN, "name="))]
    loaded = [_load(name, composed.corpus, changes) for name in composed.matcher.members]
    members = [_resolved(member.model_copy(update={"seed": composed.seed})) for member in loaded]
    if len({member.name for member in members}) < len(members):
        raise SeesayError(f"Recipe '{composed.name}': a member is named twice; each counts once.")
    for member in members:
        check_member(composed, member)
    return members


def check_member(composed: Recipe, member: Recipe) -> None:
    """Whether that recipe's matcher goes together with the composed one's others.

    Raises:
        SeesayError: it is of another kind, or its inputs are others.
    """
    matcher = composed.matcher
    assert isinstance(matcher, ComposedSettings)
    if not matcher.accepts(member.matcher):
        raise SeesayError(
            f"Recipe '{composed.name}': member '{member.name}' is of matcher '{member.matcher.kind}'; "
            f"{matcher.rule}."
        )
    composed, member = (_untuned(recipe) for recipe in (composed, member))
    for key in _INPUTS:
        ours, theirs = getattr(composed, key), getattr(member, key)
        if ours != theirs and not (isinstance(matcher, GVSESettings) and _reads_less(key, composed, member)):
            raise SeesayError(
                f"Recipe '{composed.name}': '{key}' is {ours}, and {theirs} in its member '{member.name}'; "
                f"{matcher.together} read the same inputs."
            )


def is_same(there: Recipe, recipe: Recipe) -> bool:
    """Whether a run's recipe is that recipe: a fine-tuned encoder of the run is that which was fine-tuned."""
    return dump_recipe(_untuned(there)) == dump_recipe(_untuned(recipe))


def _untuned(recipe: Recipe) -> Recipe:
    return recipe.model_copy(update={"encoders": tuple(map(untuned, recipe.encoders))})


def _resolved(recipe: Recipe) -> Recipe:
    """The recipe with its members' settings filled in, if it has members."""
    if not isinstance(recipe.matcher, ComposedSettings):
        return recipe
    members = member_recipes(recipe)
    filled: dict[str, Any] = {"matchers": tuple(member.matcher for member in members)}
    if isinstance(recipe.matcher, GVSESettings):
        arrays = _arrays(recipe)
        filled["parts"] = tuple(tuple(map(arrays.index, _arrays(member))) for member in members)
    whole = recipe.model_copy(update={"matcher": recipe.matcher.model_copy(update=filled)})
    # Again: whether the loss goes with the matcher is known only now.
    return _validate(whole.model_dump(), f"Recipe '{recipe.name}'")


def _reads_less(key: str, composed: Recipe, member: Recipe) -> bool:
    """Whether that key differs because the member does not read all that the composed matcher does."""
    if key == "encoders":
        return set(member.encoders) <= set(composed.encoders)
    if key == "min_count":
        return not member.matcher.reads_words
    return key in ("sentence_encoder", "sentence_dim") and member.sentence_encoder is None


def _arrays(recipe: Recipe) -> list[tuple[str, str]]:
    """The arrays that a recipe's image features are joined from, in order."""
    return [(encoder, name) for encoder in recipe.encoders for name in recipe.arrays]


def parse_recipe(text: str, where: str) -> Recipe:
    """Parse a recipe from YAML text; `where` names it in errors."""
    return _validate(_for_corpus(_yaml(text, where), None, where), where)


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


def _load(name: str, corpus: str | None, changes: Sequence[str]) -> Recipe:
    values, where = _find(name, corpus)
    composed = _is_composed(values)
    for change in changes:
        if not composed or _is_about_all(change):
            _apply(values, change)
    if changes:
        values["changes"] = sorted(changes)
    return _validate(values, where if not changes else f"{where} with {', '.join(changes)}")


def _is_composed(values: dict[str, Any]) -> bool:
    matcher = values.get("matcher")
    kind = matcher.get("kind") if isinstance(matcher, dict) else None
    return kind in MATCHERS and issubclass(MATCHERS[str(kind)].settings, ComposedSettings)


def _is_about_all(change: str) -> bool:
    """Of a composed recipe's changes: not one of its members' matchers."""
    return not change.startswith("matcher.") or change.startswith(_OWN)


def _shipped() -> dict[str, Path]:
    root = Path(str(files("seesay.recipes")))
    return {path.stem: path for path in root.glob("*.yaml")}


def _find(name: str, corpus: str | None) -> tuple[dict[str, Any], str]:
    """The values of the recipe for that corpus, and its name in errors."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise SeesayError(f"{name}: no such recipe file; `seesay recipes` lists the shipped ones.")
        try:
            return _for_corpus(_yaml(path.read_text(encoding="utf-8"), name), corpus, name), name
        except (OSError, UnicodeDecodeError) as failure:
            raise SeesayError(f"{name}: cannot be read as UTF-8 text ({failure}).") from failure
    named, slash, recipe = name.rpartition("/")
    shipped = _shipped()
    if recipe not in shipped:
        raise SeesayError(f"No recipe '{name}'{did_you_mean(recipe, shipped)}; `seesay recipes` lists them.")
    values = _yaml(shipped[recipe].read_text(encoding="utf-8"), name)
    if slash and named not in values["corpora"]:
        raise SeesayError(f"Recipe '{recipe}' is for {', '.join(values['corpora'])}, not for '{named}'.")
    return _for_corpus(values, named or corpus, name), name


def _for_corpus(values: dict[str, Any], corpus: str | None, where: str) -> dict[str, Any]:
    """The values for one corpus: those of `corpora` laid over the shared ones; `departures` are added."""
    shared = dict(values)
    corpora = shared.pop("corpora", None)
    if corpora is None:
        return shared
    if not isinstance(corpora, dict) or not corpora or not all(isinstance(o, dict) for o in corpora.values()):
        raise SeesayError(f"{where}: key 'corpora': a mapping from corpora to what differs for each.")
    chosen = corpus if corpus in corpora else next(iter(corpora))
    overrides = dict(corpora[chosen])
    departures = [*shared.get("departures", ()), *overrides.pop("departures", ())]
    return _laid_over(shared | {"corpus": chosen, "departures": departures}, overrides)


def _laid_over(values: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    """Overrides replace values; mappings are merged key by key unless the override names another `kind`."""
    merged = dict(values)
    for key, value in overrides.items():
        there = merged.get(key)
        if (
            isinstance(there, dict)
            and isinstance(value, dict)
            and value.get("kind") in (None, there.get("kind"))
        ):
            value = _laid_over(there, value)
        merged[key] = value
    return merged


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
        raise SeesayError(f"{where}: {describe(failure, Recipe)}") from failure
