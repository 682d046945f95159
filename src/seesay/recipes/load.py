"""Recipes by name or file, with changes from the command line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from seesay.encoders.settings import PRECOMPUTED, EncoderSettings, checked_encoder, role_of
from seesay.errors import KEYS_ALIKE, SeesayError, did_you_mean
from seesay.losses.settings import LOSSES
from seesay.matchers.settings import MATCHERS, ComposedSettings
from seesay.paths import is_file_name
from seesay.recipes import schema
from seesay.recipes.departures import PrintedSettings, by_name
from seesay.recipes.files import (
    Change,
    Values,
    changes_of,
    find_recipe,
    in_one_line,
    included_recipes,
    whole_of,
)
from seesay.recipes.schema import Recipe
from seesay.settings import Settings, SettingsRegistry, describe

M = TypeVar("M", bound=BaseModel)

LABELS = ("name", "about", "system", "departures")
_INSTEAD = {"schedule.steps": "schedule.epochs", "schedule.epochs": "schedule.steps"}  # one or the other
_INPUTS = ("encoders", "arrays", "sentence_encoder", "sentence_dim", "min_count", "lemmas", "regions")


def load_recipe(
    name: str,
    corpus: str | None = None,
    changes: Sequence[str | Change] | Mapping[str, object] = (),
    settings_of: str | None = None,
    seed: int | None = None,
    of_all: Sequence[Change] = (),
) -> Recipe:
    """Load the recipe `name`: an included one, `corpus/name`, or the path of a YAML file.

    A recipe contains the common values, and the differences between corpora under `corpora`. The values for
    `corpus` are used if the recipe lists it, and otherwise those for the first corpus, which is a departure.
    Departures from the paper are derived from the settings that differ from the printed ones under `paper`.

    Args:
        name: a recipe's name, or the path of a YAML file.
        corpus: the name of the corpus, if known.
        changes: texts `key=value`, dots between levels, the value in YAML: `schedule.epochs=5`. A key of a
            mapping can be given alone if no other mapping has it: `epochs=5`. Changes also apply to the
            members of a composed matcher, and those of `matcher` only to them. Or a mapping from such keys to
            values, as `seesay.train` takes them.
        settings_of: a corpus whose values are used instead, if the recipe lists it.
        seed: replaces the recipe's, and is no change.
        of_all: further changes, of several recipes; see `changes_by_role`.

    Raises:
        SeesayError: the recipe or key does not exist, several mappings have the key, or a value is not
            allowed.
    """
    values, where = find_recipe(name, corpus, settings_of), name
    paper = values.pop("paper", None)
    by_key: dict[str, str] = {}

    def given() -> Iterator[Change]:
        yield from changes_of(changes)
        if of_all:
            encoders = list(map(checked_encoder, values.get("encoders", ())))
            yield from changes_by_role([c for c in of_all if _concerns(c, values, encoders)], name, encoders)

    for each in given():
        change = _with_mapping(each, values, name, corpus, settings_of)
        by_key[change.key] = str(change)
        values = _with_change(values, change)
        other = _INSTEAD.get(change.key)
        if other and other not in by_key and change.value is not None:
            values = _with_change(values, Change(other, None))
    if by_key:
        values["changes"] = [by_key[key] for key in sorted(by_key)]  # a mapping before the keys in it
        where = f"{name} with {', '.join(values['changes'])}"
    recipe = validated(Recipe, values, where)
    if not is_file_name(recipe.name):  # folders of runs and members are named after it
        raise SeesayError(f"{where}: key 'name': '{ascii(recipe.name)[1:-1]}' cannot name a folder.")
    departures = recipe.departures
    if paper is not None and "departures" not in values:
        printed = validated(PrintedSettings, paper, f"{where}: key 'paper'")
        try:
            departures = tuple(printed.departures_of(recipe.model_dump(mode="json")))
        except SeesayError as failure:
            raise SeesayError(f"{where}: key 'paper.departures': {failure}") from failure
    if recipe.settings_of not in (None, recipe.corpus):
        departures += (f"the settings for {recipe.settings_of}, on {recipe.corpus}",)
    seed = recipe.seed if seed is None else seed
    recipe = recipe.model_copy(update={"departures": departures, "seed": seed})
    recipe = _with_members(recipe) if recipe.matcher.is_composed else recipe
    for key, problem in schema.unread(recipe):
        raise SeesayError(f"{where}: key '{key}': {problem}.")
    return recipe


def _with_mapping(
    change: Change, values: Values, name: str, corpus: str | None, settings_of: str | None = None
) -> Change:
    """Complete the key of a change to the recipe `name` with its mapping: `loss.margin` for `margin`.

    A key of a member's matcher is completed like one of the composed matcher, and reaches the members.

    Raises:
        SeesayError: no mapping has the key, or several have.
    """
    key = change.key
    if key == "settings_of":
        raise SeesayError(f"{change}: write CORPUS/{name.rpartition('/')[2]} to take a corpus's settings.")
    if key.partition(".")[0] == "changes":
        raise SeesayError(f"{change}: give each change as a key of its own, such as epochs=5.")
    if "." in key or key in Recipe.model_fields:
        return change
    keys_of: dict[str, Iterable[str]] = {
        "matcher": _matcher_keys(values, corpus, settings_of),
        "loss": _settings(LOSSES, values.get("loss")).model_fields,
        "optimizer": schema.OptimizerSettings.model_fields,
        "schedule": schema.ScheduleSettings.model_fields,
        "words": schema.WordSettings.model_fields if values.get("words") is not None else (),
        "regions": schema.RegionSettings.model_fields if values.get("regions") is not None else (),
    }
    owners = [owner for owner, keys in keys_of.items() if key in keys]
    if len(owners) == 1:
        return Change(f"{owners[0]}.{key}", change.value)
    if owners:
        ways = " or ".join(f"{owner}.{key}" for owner in owners)
        raise SeesayError(f"'{key}' is a key of {' and of '.join(owners)}; write {ways}.")
    known = [*Recipe.model_fields, *(each for keys in keys_of.values() for each in keys)]
    raise SeesayError(f"Recipe '{name}' has no key '{key}'{did_you_mean(key, known, KEYS_ALIKE) or '.'}")


def _with_change(values: Values, change: Change) -> Values:
    """Return the values with a change; those of a composed recipe that only its members take are left out."""
    composed = _settings(MATCHERS, values.get("matcher"))
    of_matcher = change.key.startswith("matcher.") and issubclass(composed, ComposedSettings)
    if of_matcher and reaches_members(change.key, composed):
        return values
    *parents, last = change.key.split(".")
    changed = at = dict(values)
    for parent in parents:
        there = at.get(parent) or {}
        if not isinstance(there, dict):
            raise SeesayError(f"{change}: '{parent}' is a value, without further keys.")
        at[parent] = at = dict(there)
    at[last] = change.value
    return changed


def reaches_members(key: str, composed: type[Settings]) -> bool:
    """Return whether a change of that key also applies to the members of a composed recipe.

    Descriptions do not, nor do keys of the composed matcher itself, such as `matcher.gate.folds`.
    """
    of_matcher = key.removeprefix("matcher.").partition(".")[0]
    return key not in LABELS and of_matcher not in composed.model_fields.keys() - {"kind"}


def _matcher_keys(values: Values, corpus: str | None, settings_of: str | None) -> set[str]:
    """Return the keys of a recipe's matcher and of those of its members."""
    matcher = values.get("matcher")
    settings = _settings(MATCHERS, matcher)
    keys = set(settings.model_fields)
    if issubclass(settings, ComposedSettings) and isinstance(matcher, dict):
        for member in matcher.get("members") or ():
            keys |= _matcher_keys(find_recipe(str(member), corpus, settings_of), corpus, settings_of)
    return keys


def _settings(registry: SettingsRegistry, values: object) -> type[Settings]:
    """Return the settings of a kind that has not been checked yet; those without keys if there is none."""
    kind = str(values.get("kind")) if isinstance(values, dict) else ""
    return registry[kind] if kind in registry else Settings  # noqa: SIM401 — registries raise no KeyError


def learns_phrases(name: str) -> bool:
    """Return whether a recipe is for phrases with boxes, before its corpus is known."""
    return find_recipe(name, None).get("regions") is not None


def member_recipes(composed: Recipe) -> list[Recipe]:
    """Return the recipes of a composed matcher's members, for its corpus, with its changes and its seed.

    Raises:
        SeesayError: a member is missing, invalid, named twice, or cannot be combined.
    """
    settings_of, changes = composed.settings_of, changes_of(composed.changes)
    passed = [each for each in changes if reaches_members(each.key, type(composed.composition))]
    members = [
        load_recipe(name, composed.corpus, (), settings_of, composed.seed, passed)
        for name in composed.composition.members
    ]
    if len({member.name for member in members}) < len(members):
        raise SeesayError(f"Recipe '{composed.name}': a member is named twice; name each once.")
    for member in members:
        _check_member(composed, member)
    read = {encoder for member in members for encoder in _untuned(member).encoders}
    if composed.composition.joins_inputs and (unread := set(_untuned(composed).encoders) - read):
        raise SeesayError(
            f"Recipe '{composed.name}': none of its members reads {min(map(str, unread))}; leave it out."
        )
    for encoder in (each for each in composed.encoders if each.kind == PRECOMPUTED):
        if len({each.matcher.instances_per_image for each in members if encoder in each.encoders}) > 1:
            raise SeesayError(
                f"Recipe '{composed.name}': its members read {encoder} in two ways, as instances and as a "
                "vector; name it twice, once with role: instances."
            )
    return members


def changes_by_role(
    changes: Sequence[Change], name: str, encoders: Sequence[EncoderSettings]
) -> list[Change]:
    """Return changes to the recipe `name` in which other encoders replace only `encoders` of the same role.

    All those of a recipe that reads regions alone are replaced.

    Raises:
        SeesayError: the other encoders lack one of the roles, or one of them does not exist.
    """
    found, roles = [], set(map(role_of, encoders))
    for change in changes:
        if change.key == "encoders" and isinstance(change.value, list) and roles != {"regions"}:
            given = list(map(checked_encoder, change.value))
            if missing := roles - set(map(role_of, given)):
                role = min(missing)
                raise SeesayError(
                    f"Recipe '{name}' reads {' and '.join(sorted(roles))}, but {change} has nothing of the "
                    f"role {role}; name an encoder for it, too."
                )
            change = Change("encoders", [each.dump() for each in given if role_of(each) in roles])
        found.append(change)
    return found


def _concerns(change: Change, values: Values, encoders: Sequence[EncoderSettings]) -> bool:
    """Return whether a recipe with these values and encoders can take a change that is meant for several."""
    if change.key == "sentence_encoder":
        return values.get("sentence_encoder") is not None
    matcher = values.get("matcher")
    tunes = isinstance(matcher, dict) and matcher.get("kind") == "fine-tuned"
    if not tunes or change.key != "encoders" or not isinstance(change.value, list):
        return True
    roles = set(map(role_of, encoders))
    given = [each for each in map(checked_encoder, change.value) if role_of(each) in roles]
    return all(each.kind != PRECOMPUTED for each in given)  # the CNN that it tunes is no array


def _check_member(composed: Recipe, member: Recipe) -> None:
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


def differences(there: Recipe, recipe: Recipe) -> str:
    """Describe how a run's recipe differs from a requested one.

    The description is empty if only descriptions differ, or encoders that the run has fine-tuned.
    """
    about = {"about", "system", "departures"}
    used, asked = (by_name(_untuned(r).model_dump(mode="json", exclude=about)) for r in (there, recipe))
    keys = [key for key in used | asked if used.get(key) != asked.get(key)]
    keys = [key for key in keys if not any(other.startswith(f"{key}.") for other in keys)]
    return "; ".join(
        f"this run used {key}={in_one_line(used.get(key))}, you asked for {in_one_line(asked.get(key))}"
        for key in [key for key in keys if key not in ("name", "settings_of", "changes")] or keys
    )


def _untuned(recipe: Recipe) -> Recipe:
    runs = [each.get("run") for each in recipe.encoders]  # whose folders can be written in several ways
    found = zip((each.untuned for each in recipe.encoders), runs, strict=True)
    encoders = (each.replaced(run=str(Path(run).resolve())) if run else each for each, run in found)
    return recipe.model_copy(update={"encoders": tuple(encoders)})


def _with_members(recipe: Recipe) -> Recipe:
    """Return a composed recipe with its members' settings filled in, and their departures.

    A departure begins with the member's name if the others have another.
    """
    members = member_recipes(recipe)
    arrays, *of_members = map(_joined_arrays, (recipe, *members))
    places = [tuple(map(arrays.index, some)) for some in of_members]
    matcher = recipe.composition.with_members([member.matcher for member in members], places)
    lines = list(recipe.departures)
    for member in members:
        for line in member.departures:
            shared = len(members) > 1 and all(line in other.departures for other in members)
            lines.append(line if shared or line in recipe.departures else f"{member.name}: {line}")
    filled = recipe.model_copy(update={"matcher": matcher, "departures": tuple(dict.fromkeys(lines))})
    for key, problem in schema.misfits(filled):  # only now is it known whether the loss fits the matcher
        raise SeesayError(f"Recipe '{recipe.name}': key '{key}': {problem}.")
    return filled


def _joined_arrays(recipe: Recipe) -> list[tuple[EncoderSettings, str]]:
    """Return the arrays that image features are joined from; precomputed features are one array each."""
    arrays = recipe.arrays
    of = ((each, arrays[:1] if each.kind == PRECOMPUTED else arrays) for each in recipe.encoders)
    return [(each, name) for each, names in of for name in names]


def _reads_less(key: str, composed: Recipe, member: Recipe) -> bool:
    """Return whether a key differs because the member reads only part of the composed matcher's inputs."""
    if key == "encoders":
        return set(member.encoders) <= set(composed.encoders)
    if key in ("min_count", "lemmas"):
        return not member.matcher.reads_words
    return key in ("sentence_encoder", "sentence_dim") and member.sentence_encoder is None


def dump_recipe(recipe: Recipe, *left_out: str) -> str:
    """Return the resolved recipe as YAML, with every value but those of the keys left out."""
    values = recipe.model_dump(mode="json", exclude=set(left_out))
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True, default_flow_style=None, width=100)


def settings_digest(recipe: Recipe) -> str:
    """Return a digest of a run's training settings, which its repetitions share.

    Descriptions, changes and the seed are left out, and so are the teacher and the image encoders, which may
    be folders of runs and differ between machines and seeds. Of the members of a composed matcher, only their
    matchers count. Box voting is not part of training.
    """
    left_out = dict.fromkeys((*LABELS, "settings_of", "changes", "encoders", "seed"), True)
    inner = {"loss": {"teacher"}, "regions": {"box_voting"}}
    values = recipe.model_dump(mode="json", exclude={**left_out, **inner})
    if recipe.shared_sentences is None:  # as the corpus has it
        del values["shared_sentences"]
    if recipe.schedule.steps is None:
        del values["schedule"]["steps"]
    return blake2b(json.dumps(values, sort_keys=True).encode(), digest_size=6).hexdigest()


def validated(model: type[M], values: Mapping[str, object], where: str) -> M:
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
    """Say for which corpus the settings of a recipe are, or of those of a table; None if there are no others.

    Example:
        >>> settings_line("vse0", [load_recipe("vse0", "pets")])
        'vse0: settings for flickr8k; there are none for pets. Others: flickr30k/vse0, coco/vse0, --set.'
    """
    counted = Counter(recipe.settings_of for recipe in recipes if recipe.settings_of is not None)
    used = [corpus for corpus, _ in counted.most_common()]
    known, corpus = corpora_of(recipes), recipes[0].corpus
    others = [f"{each}/{name.rpartition('/')[2]}" for each in known if each not in used]
    if not used or (used == [corpus] and not others):
        return None
    none = "" if whole_of(corpus) in known else f"; there are none for {corpus}"
    return f"{name}: settings for {', '.join(used)}{none}. Others: {', '.join([*others, '--set'])}."
