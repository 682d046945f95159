"""The two towers of a model as an image encoder and a sentence encoder, whose vectors have one space."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from seesay.encoders.images.base import Arrays, ImageEncoder, Pixels
from seesay.encoders.sentences.base import SentenceEncoder, Vectors
from seesay.encoders.towers.opened import Towers
from seesay.encoders.towers.tokens import Tokens
from seesay.errors import SeesayError

_BATCH = 64  # sentences


class TowerImageEncoder(ImageEncoder):
    """An image tower: "pooled" holds the projected vectors, of the length that the library gives them.

    Args:
        name: what recipes call it.
        towers: the opened towers.
    """

    def __init__(self, name: str, towers: Towers) -> None:
        self._preprocessing = towers.preprocessing

        def network(pixels: Pixels) -> Arrays:
            return {"pooled": towers.image(np.ascontiguousarray(pixels))}

        weights = str(towers.about["weights"])
        super().__init__(
            name, weights, max(towers.preprocessing.size), {"pooled": towers.about["dim"]}, network
        )
        self.fingerprint = _hash(weights, towers.about["preprocessing"])

    def crops(self, pixels: Pixels) -> Pixels:
        return self._preprocessing.apply(pixels)[None]


class TowerSentenceEncoder(SentenceEncoder):
    """A text tower: projected vectors, of the length that the library gives them.

    Args:
        towers: the opened towers; SeesayError is raised if they are only one, for images.
    """

    def __init__(self, name: str, towers: Towers) -> None:
        if towers.text is None or towers.tokens is None:
            raise SeesayError(f"{name} encodes images only; name a model with a text tower.")
        self.name, self.dim = name, int(towers.about["dim"])
        self.fingerprint = _hash(*(towers.about[key] for key in ("weights", "tokens", "vocabulary")))
        self._network, self._open_tokens = towers.text, towers.tokens

    @cached_property
    def _tokens(self) -> Tokens:
        return self._open_tokens()

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Compute vectors, (m, dim). Batches hold sentences of similar length, so little is padded."""
        vectors = np.empty((len(texts), self.dim), np.float32)
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        for start in range(0, len(order), _BATCH):
            chosen = order[start : start + _BATCH]
            vectors[chosen] = self._network(*self._tokens.ids([texts[i] for i in chosen]))
        return vectors


def _hash(*parts: object) -> str:
    what = json.dumps([*parts, "tower v2"], sort_keys=True)
    return hashlib.blake2b(what.encode(), digest_size=8).hexdigest()
