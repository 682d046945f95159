"""Names of splits, and the split that a corpus without one gets."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from seesay.errors import SeesayError

_ALIASES = {
    "train": "train",
    "training": "train",
    "trn": "train",
    "restval": "train",  # COCO: validation images that Karpathy's split trains on
    "val": "val",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "test": "test",
    "testing": "test",
}
_WORD = re.compile(r"[a-z]+")


def canonical_split(name: str, where: str) -> str:
    """`train`, `val` or `test` for the names the field gives them.

    Raises:
        SeesayError: another name; `where` says where it stood.
    """
    split = _ALIASES.get(name.strip().lower())
    if split is None:
        raise SeesayError(f"{where}: split '{name}' is not known; use train, val or test.")
    return split


def split_in_name(name: str) -> str | None:
    """The split that a file name tells: `captions_val2014.json`, `cc3m-train-0001`; None when it does not."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
    found = {_ALIASES[word] for word in _WORD.findall(spaced) if word in _ALIASES}
    return found.pop() if len(found) == 1 else None


def seeded_splits(names: Iterable[str], seed: int = 0) -> dict[str, str]:
    """80 / 10 / 10 by image, from the names alone: the order of the images changes nothing.

    Names are ranked by a hash; from three images on, each split has at least one.
    """
    ranked = sorted(set(names), key=lambda name: (_hash(seed, name), name))
    tenth = max(len(ranked) // 10, 1) if len(ranked) >= 3 else 0
    return {
        name: "val" if rank < tenth else "test" if rank < 2 * tenth else "train"
        for rank, name in enumerate(ranked)
    }


def _hash(seed: int, name: str) -> bytes:
    return hashlib.blake2b(f"{seed}:{name}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
