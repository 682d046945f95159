"""Names of splits, and the seeded split of a corpus without one."""

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
    """Return `train`, `val` or `test` for any of the names that the field gives them.

    Raises:
        SeesayError: another name, found at `where`.
    """
    split = _ALIASES.get(name.strip().lower())
    if split is None:
        raise SeesayError(f"{where}: split '{name}' is not known; use train, val or test.")
    return split


def split_in_name(name: str) -> str | None:
    """Return the split in a file name, such as `captions_val2014.json`; None without one, or with several."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
    found = {_ALIASES[word] for word in _WORD.findall(spaced) if word in _ALIASES}
    return found.pop() if len(found) == 1 else None


def seeded_splits(names: Iterable[str], seed: int = 0) -> dict[str, str]:
    """Split images 80 / 10 / 10 by a hash of their names, whatever their order.

    From three images on, each split has at least one.
    """
    ranked = sorted(set(names), key=lambda name: (_hash(seed, name), name))
    tenth = max(len(ranked) // 10, 1) if len(ranked) >= 3 else 0
    return {
        name: "val" if rank < tenth else "test" if rank < 2 * tenth else "train"
        for rank, name in enumerate(ranked)
    }


def _hash(seed: int, name: str) -> bytes:
    return hashlib.blake2b(f"{seed}:{name}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
