"""Names of encoders: `network`, `network:crop`, and `network@weights:crop` where its weights are a run's own.

A run's own are those of a network that it fine-tuned, and of the concepts that it sees (`concepts@weights`,
with the run that they came from behind the colon).
"""

from __future__ import annotations

import re
from typing import NamedTuple

_TUNED = re.compile(r"([\w-]+)@([0-9a-f]{16})(?::(.+))?")


class TunedName(NamedTuple):
    """The name of an encoder of a run's own in its parts; `weights` are 16 hexadecimal digits."""

    network: str
    weights: str
    crop: str = ""

    def __str__(self) -> str:
        """As a recipe names it."""
        return f"{self.network}@{self.weights}" + (f":{self.crop}" if self.crop else "")

    @classmethod
    def of(cls, encoder: str) -> TunedName | None:
        """The parts of a name; None where no weights are named."""
        found = _TUNED.fullmatch(encoder)
        return cls(found[1], found[2], found[3] or "") if found else None


def untuned(encoder: str) -> str:
    """The name without weights: the encoder that was fine-tuned; the name itself of any other.

    >>> untuned("efficientnet-lite0@0123456789abcdef:ten")
    'efficientnet-lite0:ten'
    """
    name = TunedName.of(encoder)
    return encoder if name is None else name.network + (f":{name.crop}" if name.crop else "")


def kind_of(name: str) -> str:
    """An encoder's name up to weights, run or crop."""
    return re.split("[@:]", name, maxsplit=1)[0]
