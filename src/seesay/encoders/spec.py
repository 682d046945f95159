"""The names of encoders, as recipes and runs have them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from seesay.errors import SeesayError

_NAME = re.compile(r"([^@:]*)(?:@([0-9a-f]{16}))?(?::(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class EncoderSpec:
    """The parts of an encoder's name, `name@weights:variant`, of which the last two may be missing.

    Attributes:
        name: what it is registered by.
        weights: 16 hexadecimal digits that identify the weights that a run holds: those of a network that it
            has fine-tuned, or of a concept head.
        variant: how an image is cropped ("ten"), or the file, run or model that the encoder is made of.
    """

    name: str
    weights: str = ""
    variant: str = ""

    @classmethod
    def parse(cls, encoder: str) -> EncoderSpec:
        """Split a name into its parts; raise SeesayError for what cannot name weights.

        >>> EncoderSpec.parse("efficientnet-lite0@0123456789abcdef:ten")
        EncoderSpec(name='efficientnet-lite0', weights='0123456789abcdef', variant='ten')
        >>> EncoderSpec.parse("concepts:runs/concepts").variant
        'runs/concepts'
        """
        found = _NAME.fullmatch(encoder)
        if found is None:
            raise SeesayError(f"Encoder '{encoder}': 16 hexadecimal digits are wanted after the @.")
        return cls(found[1], found[2] or "", found[3] or "")

    @property
    def untuned(self) -> EncoderSpec:
        """The encoder with the weights that it comes with."""
        return replace(self, weights="")

    def __str__(self) -> str:
        weights = f"@{self.weights}" if self.weights else ""
        return self.name + weights + (f":{self.variant}" if self.variant else "")


def untuned(encoder: str) -> str:
    """Remove the weights from a name: the encoder as it was before fine-tuning.

    >>> untuned("efficientnet-lite0@0123456789abcdef:ten")
    'efficientnet-lite0:ten'
    """
    return str(EncoderSpec.parse(encoder).untuned)
