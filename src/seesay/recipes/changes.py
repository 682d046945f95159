"""Changes to recipes: a key, with dots between its levels, and a value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import yaml

from seesay.errors import KEYS_ALIKE, SeesayError, did_you_mean
from seesay.losses.settings import LOSSES
from seesay.matchers.settings import MATCHERS, ComposedSettings
from seesay.recipes.files import Values, find_recipe
from seesay.recipes.schema import OptimizerSettings, Recipe, RegionSettings, ScheduleSettings, WordSettings
from seesay.settings import Settings, SettingsRegistry

LABELS = ("name", "about", "system", "departures")


class Change(NamedTuple):
    """A change to a recipe, such as `schedule.epochs` and 5; its text is `schedule.epochs=5`."""

    key: str
    value: object

    @classmethod
    def parse(cls, text: str) -> Change:
        """Read `key=value`, the value in YAML.

        Raises:
            SeesayError: there is no `=`, or the value is not YAML.
        """
        key, equals, value = text.partition("=")
        if not equals:
            raise SeesayError(f"{text}: write key=value, such as epochs=5.")
        try:
            return cls(key, yaml.safe_load(value))
        except (yaml.YAMLError, ValueError, RecursionError) as failure:  # ValueError: an impossible date
            raise SeesayError(f"{text[:80]}: the value is not YAML.") from failure

    def __str__(self) -> str:
        return f"{self.key}={in_one_line(self.value)}"


def in_one_line(value: object) -> str:
    """Return a value as YAML on one line, `kind` first in a mapping and the other keys sorted.

    >>> in_one_line([{"crops": "ten", "kind": "efficientnet-lite0"}])
    '[{kind: efficientnet-lite0, crops: ten}]'
    """
    text = yaml.safe_dump(_in_order(value), default_flow_style=True, width=10**6, sort_keys=False)
    return text.removesuffix("...\n").strip()


def _in_order(value: object) -> object:
    if isinstance(value, list):
        return [_in_order(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    return {key: _in_order(value[key]) for key in sorted(value, key=lambda key: (key != "kind", str(key)))}


def changes_of(given: Sequence[str | Change] | Mapping[str, object]) -> list[Change]:
    """Return changes given as texts `key=value` or as they are, or as keywords.

    A keyword whose value is a mapping without a `kind` changes only the keys in it.

    >>> changes_of(["epochs=5"]) == changes_of({"epochs": 5})
    True
    >>> changes_of({"schedule": {"epochs": 5}})
    [Change(key='schedule.epochs', value=5)]
    """
    if not isinstance(given, Mapping):
        return [each if isinstance(each, Change) else Change.parse(each) for each in given]
    changes = []
    for key, value in given.items():
        if isinstance(value, Mapping) and "kind" not in value:
            changes += [Change(f"{key}.{inner}", _plain(each)) for inner, each in value.items()]
        else:
            changes.append(Change(key, _plain(value)))
    return changes


def _plain(value: object) -> object:
    """Return a value with what YAML lacks, such as paths and arrays, as what it has."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return str(value) if isinstance(value, Path) else value


def with_mapping(
    change: Change, values: Values, name: str, corpus: str | None, settings_of: str | None = None
) -> Change:
    """Complete the key of a change with its mapping: `loss.margin` for `margin`.

    A key of a member's matcher is completed like one of the composed matcher, and reaches the members.

    Args:
        change: to a recipe.
        values: of that recipe.
        name: of the recipe, as it was given.
        corpus: the corpus for training, if known.
        settings_of: a corpus whose values are used instead.

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
        "optimizer": OptimizerSettings.model_fields,
        "schedule": ScheduleSettings.model_fields,
    }
    optional: dict[str, type[Settings]] = {"words": WordSettings, "regions": RegionSettings}
    keys_of |= {owner: kind.model_fields for owner, kind in optional.items() if values.get(owner) is not None}
    owners = [owner for owner, keys in keys_of.items() if key in keys]
    if len(owners) == 1:
        return Change(f"{owners[0]}.{key}", change.value)
    if owners:
        ways = " or ".join(f"{owner}.{key}" for owner in owners)
        raise SeesayError(f"'{key}' is a key of {' and of '.join(owners)}; write {ways}.")
    known = [*Recipe.model_fields, *(each for keys in keys_of.values() for each in keys)]
    raise SeesayError(f"Recipe '{name}' has no key '{key}'{did_you_mean(key, known, KEYS_ALIKE) or '.'}")


def with_change(values: Values, change: Change) -> Values:
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


@cache
def as_recorded(change: str) -> str:
    """Return a change as recipes record it: quotes, spaces and the order of keys do not matter.

    >>> as_recorded('encoders=["a","b"]'), as_recorded("encoders=['a', 'b']")
    ('encoders=[a, b]', 'encoders=[a, b]')
    """
    try:
        return str(Change.parse(change))
    except SeesayError:  # no change, in a file that somebody has written
        return change


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
