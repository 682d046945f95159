"""Recipes by name or file, with changes from the command line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import yaml
from pydantic import BaseModel, ValidationError

from seesay.encoders.spec import PRECOMPUTED, EncoderSpec
from seesay.errors import SeesayError, did_you_mean
from seesay.matchers.settings import MATCHERS, ComposedSettings
from seesay.recipes.departures import PrintedSettings, leaves
from seesay.recipes.files import Values, find_recipe, included_recipes
from seesay.recipes.schema import Recipe
from seesay.settings import Settings, describe

M = TypeVar("M", bound=BaseModel)

_LABELS = ("name", "about", "system", "departures")
_OF_RUNS = ("concepts", "concepts-regions")  # encoders whose variant is the folder of a run
_INPUTS = ("encoders", "arrays", "sentence_encoder", "sentence_dim", "min_count", "lemmas", "regions")


def load_recipe(
    name: str, corpus: str | None = None, changes: Sequence[str] = (), settings_of: str | None = None
) -> Recipe:
    """Load the recipe `name`: an included one, `corpus/name`, or the path of a YAML file.

    A recipe contains the common values, and the differences between corpora under `corpora`. The values for
    `corpus` are used if the recipe lists it, and otherwise those for the first corpus, which is a departure.
    Departures from the paper are derived from the settings that differ from the printed ones under `paper`.

    Args:
        name: a recipe's name, or the path of a YAML file.
        corpus: the name of the corpus, if known.
        changes: `key=value`, dots between levels, the value in YAML: `schedule.epochs=5`. A key of a mapping
            can be given alone if no other mapping has it: `epochs=5`. Changes also apply to the members of a
            composed matcher, and those of `matcher` only to them.
        settings_of: a corpus whose values are used instead, if the recipe lists it.

    Raises:
        SeesayError: the recipe does not exist, or a key or value is not allowed.
    """
    spelt = [_spelt_out(change, name, corpus) for change in changes]
    return _resolved(_load(name, corpus, spelt, settings_of))


def recipe_with(name: str, corpus: str | None, keywords: Mapping[str, Any]) -> Recipe:
    """Load a recipe with changes given as keywords, as `seesay.train` takes them.

    Keywords are keys as in `load_recipe`: `margin=0.2` is `--set margin=0.2`. A mapping without a `kind`
    changes only the keys in it: `schedule={"epochs": 5}`.

    Raises:
        SeesayError: the recipe or key does not exist, several mappings have the key, or a value is not
            allowed.
    """
    changes: list[str] = []
    for key, value in keywords.items():
        if isinstance(value, Mapping) and "kind" not in value:
            changes += [f"{key}.{inner}={_flow(each)}" for inner, each in value.items()]
        else:
            changes.append(f"{key}={_flow(value)}")
    return load_recipe(name, corpus, changes)


def _spelt_out(change: str, name: str, corpus: str | None) -> str:
    """Complete the key of a change with its mapping: `loss.margin=0.2` for `margin=0.2`."""
    key, equals, _ = change.partition("=")
    if not equals:
        raise SeesayError(f"{change}: write key=value, such as epochs=5.")
    if key == "settings_of":
        raise SeesayError(f"{change}: write CORPUS/{name.rpartition('/')[2]} to take a corpus's settings.")
    if "." in key or key in Recipe.model_fields:
        return change
    values = load_recipe(name, corpus).model_dump()
    mappings = {owner: mapping for owner, mapping in values.items() if isinstance(mapping, dict)}
    owners = [owner for owner, mapping in mappings.items() if key in mapping]
    if len(owners) == 1:
        return f"{owners[0]}.{change}"
    if owners:
        ways = " or ".join(f"{owner}.{key}" for owner in owners)
        raise SeesayError(f"'{key}' is a key of {' and of '.join(owners)}; write {ways}.")
    known = [*Recipe.model_fields, *(inner for mapping in mappings.values() for inner in mapping)]
    raise SeesayError(f"A recipe has no key '{key}'{did_you_mean(key, known) or '.'}")


def _flow(value: Any) -> str:
    """Return a value as YAML on one line."""
    return yaml.safe_dump(_plain(value), default_flow_style=True, width=10**6).removesuffix("...\n").strip()


def _plain(value: Any) -> Any:
    """Return a value with what YAML lacks, such as paths and arrays, as what it has."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return str(value) if isinstance(value, Path) else value


def member_changes(changes: Sequence[str], composed: type[Settings]) -> tuple[str, ...]:
    """Return the changes to a composed recipe that also apply to its members' recipes.

    Args:
        changes: `key=value`.
        composed: the settings of the composed matcher; changes of its own keys are left out.
    """
    return tuple(
        change
        for change in changes
        if not _is_own(change, composed) and change.partition("=")[0] not in _LABELS
    )


def _is_own(change: str, composed: type[Settings]) -> bool:
    """Return whether a change is for a key of the composed matcher itself, such as `matcher.gate.folds`."""
    parent, _, key = change.partition("=")[0].partition(".")
    return parent == "matcher" and key.partition(".")[0] in composed.model_fields.keys() - {"kind"}


def canonical_changes(changes: Iterable[str]) -> list[str]:
    """Return changes sorted and normalised: quotes, spaces and the order of keys do not matter.

    >>> canonical_changes(['encoders=["a", "b"]', "min_count=2"])
    ['encoders=["a", "b"]', 'min_count=2']
    >>> canonical_changes(["min_count=2", "encoders=['a','b']"])
    ['encoders=["a", "b"]', 'min_count=2']
    """
    return sorted(map(_canonical, changes))


@cache
def _canonical(change: str) -> str:
    key, _, value = change.partition("=")
    try:
        return f"{key}={json.dumps(yaml.safe_load(value), sort_keys=True)}"
    except (yaml.YAMLError, TypeError, ValueError, RecursionError):  # not YAML, or a value that JSON lacks
        return change


def learns_phrases(name: str) -> bool:
    """Return whether a recipe is for phrases with boxes, before its corpus is known."""
    return find_recipe(name, None).get("regions") is not None


def member_recipes(composed: Recipe) -> list[Recipe]:
    """Return the recipes of a composed matcher's members, for its corpus, with its changes and its seed.

    Raises:
        SeesayError: a member is missing, invalid, named twice, or cannot be combined.
    """
    changes = member_changes(composed.changes, type(composed.composition))
    names, settings_of = composed.composition.members, composed.settings_of
    loaded = [_load(name, composed.corpus, changes, settings_of) for name in names]
    members = [_resolved(member.model_copy(update={"seed": composed.seed})) for member in loaded]
    if len({member.name for member in members}) < len(members):
        raise SeesayError(f"Recipe '{composed.name}': a member is named twice; name each once.")
    for member in members:
        check_member(composed, member)
    if PRECOMPUTED in composed.encoders and len({m.matcher.instances_per_image for m in members}) > 1:
        raise SeesayError(
            f"Recipe '{composed.name}': its members read precomputed features in two ways, as instances "
            "and as a vector; name encoders, or train the members separately and evaluate them with "
            "--combine."
        )
    return members


def check_member(composed: Recipe, member: Recipe) -> None:
    """Raise a SeesayError if the member's matcher has the wrong kind or other inputs."""
    settings = composed.composition
    if not settings.accepts(member.matcher):
        raise SeesayError(
            f"Recipe '{composed.name}': member '{member.name}' has the matcher '{member.matcher.kind}'; "
            f"{settings.rule}."
        )
    composed, member = (_untuned(recipe) for recipe in (composed, member))
    for key in _INPUTS:
        ours, theirs = getattr(composed, key), getattr(member, key)
        if ours != theirs and not (settings.joins_inputs and _reads_less(key, composed, member)):
            raise SeesayError(
                f"Recipe '{composed.name}': '{key}' is {ours}, and {theirs} in its member '{member.name}'; "
                f"{settings.together} read the same inputs."
            )


def is_same(there: Recipe, recipe: Recipe) -> bool:
    """Return whether a run's recipe equals a recipe, ignoring fine-tuning of encoders."""
    return dump_recipe(_untuned(there)) == dump_recipe(_untuned(recipe))


def differences(there: Recipe, recipe: Recipe, every: bool = False) -> str:
    """Describe how a run's recipe differs from a requested one, in the changed values or in `every` one."""
    unnamed = {*_LABELS, "settings_of"}
    used, asked = (leaves(_untuned(r).model_dump(mode="json", exclude=unnamed)) for r in (there, recipe))
    return "; ".join(
        f"this run used {key}={_flow(used.get(key))}, you asked for {_flow(asked.get(key))}"
        for key in used | asked
        if key != "changes" and used.get(key) != asked.get(key) and (every or _is_named(key, recipe.changes))
    )


def _is_named(key: str, changes: Sequence[str]) -> bool:
    """Return whether changes set that key or a mapping that contains it; True without changes."""
    named = [change.partition("=")[0] for change in changes]
    return not named or any(f"{key}.".startswith(f"{each}.") for each in named)


def _untuned(recipe: Recipe) -> Recipe:
    names = []
    for spec in (EncoderSpec.parse(name).untuned for name in recipe.encoders):
        of_run = spec.variant and spec.name in _OF_RUNS  # its folder can be written in several ways
        names.append(f"{spec.name}:{Path(spec.variant).resolve()}" if of_run else str(spec))
    return recipe.model_copy(update={"encoders": tuple(names)})


def _resolved(recipe: Recipe) -> Recipe:
    """Return the recipe with its members' settings filled in, if it has members."""
    if not recipe.matcher.is_composed:
        return recipe
    members = member_recipes(recipe)
    arrays = _arrays(recipe)
    places = [tuple(map(arrays.index, _arrays(member))) for member in members]
    matcher = recipe.composition.with_members([member.matcher for member in members], places)
    # Validated again: only now is it known whether the loss fits the matcher.
    named = {"matcher": matcher, "departures": _members_departures(recipe, members)}
    values = recipe.model_copy(update=named).model_dump()
    return validated(Recipe, values, f"Recipe '{recipe.name}'")


def _reads_less(key: str, composed: Recipe, member: Recipe) -> bool:
    """Return whether a key differs because the member reads only part of the composed matcher's inputs."""
    if key == "encoders":
        return set(member.encoders) <= set(composed.encoders)
    if key in ("min_count", "lemmas"):
        return not member.matcher.reads_words
    return key in ("sentence_encoder", "sentence_dim") and member.sentence_encoder is None


def _arrays(recipe: Recipe) -> list[tuple[str, str]]:
    """Return the arrays of a recipe's image features, in order."""
    return [(encoder, name) for encoder in recipe.encoders for name in recipe.arrays]


def dump_recipe(recipe: Recipe) -> str:
    """Return the resolved recipe as YAML, with every value."""
    return yaml.safe_dump(recipe.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def settings_digest(recipe: Recipe) -> str:
    """Return a digest of a run's training settings, which its repetitions share.

    Descriptions, changes and the seed are left out, and so are the teacher and the image encoders, which may
    be folders of runs and differ between machines and seeds. Of the members of a composed matcher, only their
    matchers count. Box voting is not part of training. Some keys that were added after rows had been recorded
    only count if they are set.
    """
    named = {"name", "about", "system", "settings_of", "departures", "changes", "encoders", "seed"}
    values = recipe.model_dump(mode="json", exclude={**dict.fromkeys(named, True), "regions": {"box_voting"}})
    values["loss"].pop("teacher", None)
    if values["regions"] and values["regions"]["train_nms"] is None:
        del values["regions"]["train_nms"]
    for matcher in (values["matcher"], *values["matcher"].get("matchers", ())):
        for key, usual in (("word_dim", None), ("frozen", False)):
            if matcher.get(key) is usual:
                matcher.pop(key, None)
    values = {key: value for key, value in values.items() if value or key != "losses"}
    return blake2b(json.dumps(values, sort_keys=True).encode(), digest_size=6).hexdigest()


def validated(model: type[M], values: Mapping[str, Any], where: str) -> M:
    """Return the values as a model; `where` begins the SeesayError if one is not allowed."""
    try:
        return model.model_validate(values)
    except ValidationError as failure:
        raise SeesayError(f"{where}: {describe(failure, model)}") from failure


def corpora_of(recipes: Iterable[Recipe]) -> tuple[str, ...]:
    """Return the corpora that included recipes have settings for."""
    listed = (included_recipes().get(recipe.name, {}).get("corpora", {}) for recipe in recipes)
    return tuple(dict.fromkeys(corpus for corpora in listed for corpus in corpora))


def settings_line(name: str, recipes: Sequence[Recipe]) -> str | None:
    """Say for which corpus settings are, and how to take those for another; None if there are no others.

    Args:
        name: of a recipe or table.
        recipes: the recipe, or those of the table.

    Example:
        >>> settings_line("vse0", [load_recipe("vse0", "pets")])
        'vse0: settings for flickr8k; there are none for pets. Others: flickr30k/vse0, coco/vse0, --set.'
    """
    used: dict[str, set[str]] = {}
    for recipe in recipes:
        if recipe.settings_of is not None:
            used.setdefault(recipe.settings_of, set()).add(recipe.name)
    if not used:
        return None
    known, corpus = corpora_of(recipes), recipes[0].corpus
    others = [f"{each}/{name.rpartition('/')[2]}" for each in known if each not in used]
    if list(used) == [corpus] and not others:
        return None
    main = max(used, key=lambda each: len(used[each]))
    rest = [f", {', '.join(sorted(used[each]))}: {each}" for each in used if each != main]
    none = "" if corpus in known else f"; there are none for {corpus}"
    return f"{name}: settings for {main}{''.join(rest)}{none}. Others: {', '.join([*others, '--set'])}."


def _load(name: str, corpus: str | None, changes: Sequence[str], settings_of: str | None = None) -> Recipe:
    """Load a recipe without its members, with the departures derived from its settings."""
    values, where = find_recipe(name, corpus, settings_of), name
    paper = values.pop("paper", None)
    matcher = values.get("matcher")
    kind = str(matcher.get("kind")) if isinstance(matcher, dict) else ""
    settings = MATCHERS[kind].settings if kind in MATCHERS else Settings
    for change in changes:
        of_members = issubclass(settings, ComposedSettings) and change.startswith("matcher.")
        if not of_members or _is_own(change, settings):
            values = _changed(values, change)
    if changes:
        values["changes"] = sorted(changes)
        where = f"{name} with {', '.join(changes)}"
    recipe = validated(Recipe, values, where)
    departures = list(recipe.departures)
    if paper is not None and "departures" not in values:
        printed = validated(PrintedSettings, paper, f"{where}: key 'paper'")
        try:
            departures = printed.departures_of(recipe.model_dump(mode="json"))
        except SeesayError as failure:
            raise SeesayError(f"{where}: key 'paper.departures': {failure}") from failure
    if recipe.settings_of not in (None, recipe.corpus):
        departures.append(f"the settings for {recipe.settings_of}, on {recipe.corpus}")
    return recipe.model_copy(update={"departures": tuple(departures)})


def _members_departures(recipe: Recipe, members: Sequence[Recipe]) -> tuple[str, ...]:
    """Return the departures of a composed recipe and its members, with the member's name if they differ."""
    lines = list(recipe.departures)
    for member in members:
        for line in member.departures:
            shared = len(members) > 1 and all(line in other.departures for other in members)
            lines.append(line if shared or line in recipe.departures else f"{member.name}: {line}")
    return tuple(dict.fromkeys(lines))


def _changed(values: Values, change: str) -> Values:
    """Return the values with a change; `values` is not modified."""
    key, _, value = change.partition("=")
    try:
        parsed = yaml.safe_load(value)
    except (yaml.YAMLError, ValueError, RecursionError) as failure:  # ValueError: an impossible date
        raise SeesayError(f"{change[:80]}: the value is not YAML.") from failure
    *parents, last = key.split(".")
    changed = at = dict(values)
    for parent in parents:
        there = at.get(parent) or {}
        if not isinstance(there, dict):
            raise SeesayError(f"{change}: '{parent}' is a value, without further keys.")
        at[parent] = at = dict(there)
    at[last] = parsed
    return changed
