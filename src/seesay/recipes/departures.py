"""Departures from a paper, derived from the settings that differ from the printed ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import islice
from typing import TypeAlias

from pydantic import Field

from seesay.errors import SeesayError
from seesay.recipes.changes import in_one_line
from seesay.recipes.files import Values
from seesay.settings import Settings

Sentence: TypeAlias = str | Mapping[str, str]

_PLACE = re.compile(r"\{([\w.]+)\}")


class PrintedSettings(Settings):
    """The settings that a paper prints, with sentences about departures from them.

    Attributes:
        settings: the printed settings, nested as in a recipe. Values that seesay lacks, such as an encoder,
            only have to differ from its own. Techniques that a paper does not mention count as not used.
        departures: for keys such as `loss.margin`, a sentence, or one for each value (a pattern; for a list,
            one for each item that is not printed). `{value}` and `{printed}` are the two values, and
            `{schedule.epochs}` another setting; a sentence about a setting of another kind of matcher or loss
            is left out. Null means that the sentence of another key covers it. A key without a printed
            setting is a choice that the paper leaves open.
    """

    settings: Mapping[str, object] = Field(default_factory=dict)
    departures: Mapping[str, Sentence | None] = Field(default_factory=dict)

    def departures_of(self, settings: Mapping[str, object]) -> list[str]:
        """Return a sentence for each setting of a recipe that differs from the printed one.

        Example:
            >>> paper = PrintedSettings(
            ...     settings={"loss": {"margin": 0.5}, "batch_size": 250},
            ...     departures={"loss.margin": "a margin of {value} instead of {printed}"},
            ... )
            >>> paper.departures_of({"loss": {"margin": 0.2}, "batch_size": 100})
            ['a margin of 0.2 instead of 0.5', 'batch_size: 100 instead of 250']
        """
        found: list[str] = []
        for key in dict.fromkeys([*self.departures, *leaves(self.settings)]):
            if key in self.departures and self.departures[key] is None:
                continue
            found += self._sentences(key, settings)
        return list(dict.fromkeys(found))

    def _sentences(self, key: str, settings: Mapping[str, object]) -> Iterator[str]:
        try:
            value = _look_up(settings, key)
        except KeyError:  # a setting of another kind of matcher or loss
            return
        try:
            printed, is_printed = _look_up(self.settings, key), True
        except KeyError:
            printed, is_printed = None, False
        value = _as_printed(value, printed)
        if value == printed or (is_printed and self._is_of_another_kind(key, settings)):
            return
        sentence = self.departures.get(key) or {}
        texts: list[tuple[object, str]] = [(value, sentence)] if isinstance(sentence, str) else []
        if not isinstance(sentence, str):
            items = [item for item in _items(value) if item not in _items(printed)]
            for item in items:
                matching = (text for pattern, text in sentence.items() if fnmatchcase(_text(item), pattern))
                texts += [(item, text) for text in islice(matching, 1)]
            if is_printed and len(texts) < max(len(items), 1):
                texts.append((value, f"{key}: {{value}} instead of {{printed}}"))
        for each, text in texts:
            if not _names_another_kind(text, settings):
                yield _filled(text, {"value": each, "printed": printed}, settings)

    def _is_of_another_kind(self, key: str, settings: Mapping[str, object]) -> bool:
        """Return whether the setting belongs to another kind of loss or optimizer than the printed one."""
        owner, _, last = key.rpartition(".")
        if not owner or last == "kind":
            return False
        try:
            return _look_up(self.settings, f"{owner}.kind") != _look_up(settings, f"{owner}.kind")
        except KeyError:
            return False


def leaves(settings: Mapping[str, object], prefix: str = "") -> Values:
    """Return the values of nested settings by their dotted names."""
    found: Values = {}
    for key, value in settings.items():
        found |= leaves(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return found


def _look_up(settings: Mapping[str, object], key: str) -> object:
    """Return the setting with that dotted name; raise KeyError if there is none."""
    value: object = settings
    for part in key.split("."):
        if not isinstance(value, Mapping):
            raise KeyError(key)
        value = value[part]
    return value


def _as_printed(value: object, printed: object) -> object:
    """Return an encoder, or a list of them, where precomputed arrays are replaced by what computed them."""
    if isinstance(value, list):
        return [_as_printed(item, printed) for item in value]
    named = value.get("is") if isinstance(value, Mapping) else None
    if named is None:
        return value
    same = (
        each
        for each in _items(printed)
        if each == named or (isinstance(each, Mapping) and each["kind"] == named)
    )
    return next(same, named)


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _names_another_kind(sentence: str, settings: Mapping[str, object]) -> bool:
    """Return whether a sentence names a setting that this kind of matcher, loss or optimizer lacks."""
    for name in _PLACE.findall(sentence):
        owner = settings.get(name.partition(".")[0])
        try:
            _look_up(settings, name)
        except KeyError:
            if isinstance(owner, Mapping) and "kind" in owner:
                return True
    return False


def _filled(sentence: str, values: Mapping[str, object], settings: Mapping[str, object]) -> str:
    def text(place: re.Match[str]) -> str:
        name = place.group(1)
        try:
            return _text(values[name] if name in values else _look_up(settings, name))
        except KeyError:
            raise SeesayError(f"no setting '{name}', which '{sentence}' names.") from None

    return _PLACE.sub(text, sentence)


def _text(value: object) -> str:
    """Return a setting as written in a sentence: 0.0001, 2,000, true, [1, 4, 0, 0]."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else format(value, "g")
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]" if len(value) != 1 else _text(value[0])
    return in_one_line(value) if isinstance(value, Mapping) else str(value)
