"""Recipe files, one per system with its variants and the differences between corpora, and changes to them.

A variant overrides the settings of its file, or those of an earlier variant that `like` names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import yaml

from seesay.errors import SeesayError, did_you_mean

Values: TypeAlias = dict[str, Any]
"""A mapping of YAML that has not been checked yet."""

SUFFIXES = (".yaml", ".yml")

# More than any included file has; much larger ones would take seconds to parse.
_MAX_CHARACTERS, _MAX_VALUES = 20_000, 10_000


@cache
def included_recipes() -> Mapping[str, Values]:
    """Return the values of every included recipe by name, with the differences between its corpora."""
    found: dict[str, Values] = {}
    for path in sorted(Path(str(files("seesay.recipes"))).glob("*.yaml")):
        found |= _variants(read_yaml(path, path.name))
    return found


def find_recipe(name: str, corpus: str | None, settings_of: str | None = None) -> Values:
    """Return the values of the recipe `name`, `corpus/name` or of a YAML file, for training on `corpus`.

    The settings are those for the corpus in the name, or else for `settings_of` or for `corpus`.

    Raises:
        SeesayError: the recipe does not exist, or is not for the corpus in its name.
    """
    path = Path(name)
    if path.suffix in SUFFIXES:
        if not path.is_file():
            raise SeesayError(f"{name}: no such recipe file; `seesay recipes` lists the included recipes.")
        return values_for(read_yaml(path, name), (settings_of, corpus), name)
    named, slash, recipe = name.rpartition("/")
    if (values := included_recipes().get(recipe)) is None:
        near = did_you_mean(recipe, included_recipes()) or "."
        raise SeesayError(f"No recipe '{name}'{near} `seesay recipes` lists them.")
    if slash and named not in values["corpora"]:
        raise SeesayError(f"Recipe '{recipe}' is for {', '.join(values['corpora'])}, not for '{named}'.")
    own = {key: value for key, value in values.items() if key != "source"}  # the paper, for lists
    return values_for(own, (named, settings_of, corpus), name)


def values_for(values: Values, wanted: Sequence[str | None], where: str) -> Values:
    """Return a recipe's values for the first corpus wanted that it has settings for, or else for its first.

    The last one wanted is the corpus for training; a subset of it has its settings. `settings_of` names the
    corpus whose settings are taken.
    """
    shared = dict(values)
    corpora, corpus = shared.pop("corpora", None), wanted[-1]
    if corpora is None:
        return shared if corpus is None else {"corpus": corpus} | shared
    if not isinstance(corpora, dict) or not corpora or not all(isinstance(o, dict) for o in corpora.values()):
        raise SeesayError(f"{where}: key 'corpora': expected a mapping from corpora to their settings.")
    known = (name for name in (*wanted, whole_of(corpus or "")) if name in corpora)
    chosen = next(known, next(iter(corpora)))
    named = {"corpus": corpus or chosen, "settings_of": chosen}
    return lay_over(shared | named, corpora[chosen])


def whole_of(corpus: str) -> str:
    """Return the name of the corpus of which one is a subset, or its own.

    >>> whole_of("flickr30k-1000"), whole_of("flickr30k"), whole_of("flickr30k-entities")
    ('flickr30k', 'flickr30k', 'flickr30k-entities')
    """
    return re.sub("-[0-9]+$", "", corpus)


def lay_over(values: Values, overrides: Values) -> Values:
    """Return the values with overrides; mappings are merged unless the override names another `kind`."""
    merged = dict(values)
    for key, value in overrides.items():
        there = merged.get(key)
        if isinstance(there, dict) and isinstance(value, dict):
            merge = value.get("kind") in (None, there.get("kind"))
            merged[key] = lay_over(there, value) if merge else value
        else:
            merged[key] = value
    return merged


def read_yaml(path: Path, where: str) -> Values:
    """Read a YAML file that holds a mapping.

    Raises:
        SeesayError: it cannot be read, is too large, or is not a mapping; the message begins with `where`.
    """
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(_MAX_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError) as failure:
        raise SeesayError(f"{where}: cannot be read as UTF-8 text ({failure}).") from failure
    if len(text) > _MAX_CHARACTERS:
        raise SeesayError(f"{where}: more than {_MAX_CHARACTERS} characters, too many for a recipe.")
    try:
        values = yaml.safe_load(text)
        values_in_all = _count_values(values, {})
    except (yaml.YAMLError, ValueError, RecursionError) as failure:  # ValueError: an impossible date
        raise SeesayError(f"{where}: not YAML: {' '.join(str(failure).split())}") from failure
    if values_in_all > _MAX_VALUES:
        raise SeesayError(f"{where}: its aliases expand to {values_in_all} values, too many for a recipe.")
    if not isinstance(values, dict):
        raise SeesayError(f"{where}: not a mapping of keys to values.")
    return values


def _variants(content: Values) -> dict[str, Values]:
    """Return the recipes of an included file by name; a variant removes a corpus by setting it to null."""
    shared = dict(content)
    variants = shared.pop("variants", {content.get("name", ""): {}})
    found: dict[str, Values] = {}
    for name, own in variants.items():
        overrides = dict(own)
        like = overrides.pop("like", None)
        values = lay_over(shared if like is None else found[like], overrides)
        corpora = {corpus: other for corpus, other in values["corpora"].items() if other is not None}
        found[name] = values | {"name": name, "corpora": corpora}
    return found


def _count_values(value: object, known: dict[int, int]) -> int:
    """Count the values in YAML including aliases, which could fill the memory if expanded.

    Raises:
        ValueError: a text has half of a surrogate pair, which is no character and cannot be stored.
    """
    for each in value if isinstance(value, dict) else [value]:
        if isinstance(each, str):
            each.encode()
    if isinstance(value, dict | list) and id(value) not in known:
        inner = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_count_values(each, known) for each in inner)
    return known.get(id(value), 1)


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
            found = yaml.safe_load(value)
            _count_values(found, {})
            return cls(key, found)
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
    changes: dict[str, object] = {}
    for key, value in given.items():
        if isinstance(value, Mapping) and "kind" not in value:
            changes |= {f"{key}.{inner}": each for inner, each in value.items()}
        else:
            changes[key] = value
    return [Change(key, _plain(value)) for key, value in changes.items()]


def _plain(value: object) -> object:
    """Return a value with what YAML lacks, such as paths and arrays, as what it has."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return str(value) if isinstance(value, Path) else value
