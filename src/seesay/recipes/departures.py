"""Departures from a paper, derived from the settings that differ from the printed ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import islice
from typing import TypeAlias

from pydantic import Field

from seesay.errors import SeesayError
from seesay.recipes.files import Values, in_one_line
from seesay.settings import Settings

Sentence: TypeAlias = str | Mapping[str, str]

_EPOCHS = re.compile(r"\{(?:schedule\.epochs|value)\} epochs")
_PLACE = re.compile(r"\{([\w.]+)\}")


class PrintedSettings(Settings):
    """The settings that a paper prints, with sentences about departures from them.

    Attributes:
        settings: the printed settings, nested as in a recipe. Values that seesay lacks, such as an encoder,
            only have to differ from its own; `A or B` is either. Techniques that a paper does not mention
            count as not used. Of several printed encoders, a row may read some.
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
        ours, printed = by_name(settings), by_name(self.settings)
        told = (key for key in dict.fromkeys([*self.departures, *printed]) if self.departures.get(key, key))
        found = (line for key in told if key in ours for line in self._sentences(key, ours, printed))
        return list(dict.fromkeys(found))

    def _sentences(self, key: str, ours: Values, printed: Values) -> Iterator[str]:
        wanted = printed.get(key)
        value = _as_printed(ours[key], wanted)
        kind = f"{key.rpartition('.')[0]}.kind"  # of the loss or optimizer that the setting belongs to
        of_another = key in printed and key != kind and ours.get(kind) != printed.get(kind, ours.get(kind))
        of_row = key == "encoders" and _is_part(_items(value), _items(wanted))
        if (
            value == wanted
            or of_row
            or of_another
            or (isinstance(wanted, Mapping) and key not in self.departures)
        ):
            return
        sentence = self.departures.get(key) or {}
        texts: list[tuple[object, str]] = [(value, sentence)] if isinstance(sentence, str) else []
        if not isinstance(sentence, str):
            items = [item for item in _items(value) if item not in _items(wanted)]
            for item in items:
                matching = (text for pattern, text in sentence.items() if fnmatchcase(_text(item), pattern))
                texts += [(item, text) for text in islice(matching, 1)]
            if key in printed and len(texts) < max(len(items), 1):
                texts.append((value, f"{key}: {{value}} instead of {{printed}}"))
        for each, text in texts:
            if ours.get("schedule.steps") is not None:
                text = _EPOCHS.sub("{schedule.steps} steps", text)
                text = text.replace("steps instead of {printed}", "steps instead of {printed} epochs")
            named = [name for name in _PLACE.findall(text) if name not in (*ours, "value", "printed")]
            if any(f"{name.partition('.')[0]}.kind" in ours for name in named):
                continue  # it is about another kind of matcher, loss or optimizer
            if named:
                raise SeesayError(f"no setting '{named[0]}', which '{text}' names.")
            values = ours | {"value": each, "printed": wanted}
            yield _PLACE.sub(lambda place, of=values: _text(of[place.group(1)]), text)  # type: ignore[misc]


def by_name(settings: Mapping[str, object], prefix: str = "") -> Values:
    """Return the values of nested settings by their dotted names, the nested mappings themselves included."""
    found: Values = {}
    for key, value in settings.items():
        found[prefix + key] = value
        if isinstance(value, Mapping):
            found |= by_name(value, f"{prefix}{key}.")
    return found


def _as_printed(value: object, printed: object) -> object:
    """Return an encoder, or a list of them, where precomputed arrays are replaced by what computed them."""
    if isinstance(value, list):
        return [_as_printed(item, printed) for item in value]
    named = value.get("is") if isinstance(value, Mapping) else None
    if named is None:
        return value
    kinds = [(each["kind"] if isinstance(each, Mapping) else each, each) for each in _items(printed)]
    return next((each for kind, each in kinds if named in str(kind).split(" or ")), named)


def _is_part(some: list[object], of_all: list[object]) -> bool:
    """Return whether the items are different ones of a list."""
    return all(each in of_all for each in some) and all(some.count(each) == 1 for each in some)


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _text(value: object) -> str:
    """Return a setting as written in a sentence: 0.0001, 2,000, true, [1, 4, 0, 0]."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else format(value, "g")
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]" if len(value) != 1 else _text(value[0])
    return in_one_line(value) if isinstance(value, Mapping) else str(value)
