"""Names of encoders: `network`, `network:crop`, and `network@weights:crop` where it was fine-tuned."""

from __future__ import annotations

import re
from typing import NamedTuple

_TUNED = re.compile(r"([\w-]+)@([0-9a-f]{16})(?::(\w+))?")


class TunedName(NamedTuple):
    """The name of a fine-tuned encoder in its parts; `weights` are 16 hexadecimal digits."""

    network: str
    weights: str
    crop: str = ""

    def __str__(self) -> str:
        """As a recipe names it."""
        return f"{self.network}@{self.weights}" + (f":{self.crop}" if self.crop else "")

    @classmethod
    def of(cls, encoder: str) -> TunedName | None:
        """The parts of a name; None of one that is not fine-tuned."""
        found = _TUNED.fullmatch(encoder)
        return cls(found[1], found[2], found[3] or "") if found else None


def untuned(encoder: str) -> str:
    """The encoder that was fine-tuned; the name itself of any other.

    >>> untuned("efficientnet-lite0@0123456789abcdef:ten")
    'efficientnet-lite0:ten'
    """
    name = TunedName.of(encoder)
    return encoder if name is None else name.network + (f":{name.crop}" if name.crop else "")
