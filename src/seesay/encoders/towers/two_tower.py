"""An image encoder and a sentence encoder with one space, and how their cosines become scores."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from seesay.encoders.images.base import Arrays, ImageEncoder, Pixels
from seesay.encoders.sentences.base import SentenceEncoder, Vectors
from seesay.encoders.towers.names import IMAGES_ONLY, LIBRARIES, TowerName
from seesay.encoders.towers.opened import OpenTowers, open_towers
from seesay.encoders.towers.tokens import Tokens
from seesay.errors import SeesayError

_BATCH = 64  # sentences


class TowerImageEncoder(ImageEncoder):
    """An image tower: "pooled" holds the projected vectors, of the length that the library gives them.

    Args:
        name: what recipes call it.
        towers: the opened towers.
    """

    def __init__(self, name: str, towers: OpenTowers) -> None:
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

    def __init__(self, name: str, towers: OpenTowers) -> None:
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


@dataclass(frozen=True)
class TwoTower:
    """A model that embeds images and sentences in one space.

    Attributes:
        name: LIBRARY:MODEL.
        fingerprint: changes with the weights of either tower, the preprocessing and the tokenizer.
        dim: width of the vectors.
        logit_scale: the model's score of a pair is this times the cosine of its vectors,
        logit_bias: plus this.
        image: encodes images; its vectors, "pooled", are not normalised.
        text: encodes sentences; its vectors are not normalised.
    """

    name: str
    fingerprint: str
    dim: int
    logit_scale: float
    logit_bias: float
    image: ImageEncoder
    text: SentenceEncoder

    def scores(self, images: Vectors, sentences: Vectors) -> NDArray[np.float32]:
        """Score vectors (n, dim) and (m, dim) as the library does: logits (n, m)."""
        cosines = unit_rows(images) @ unit_rows(sentences).T
        return np.asarray(self.logit_scale * cosines + self.logit_bias, np.float32)


def unit_rows(vectors: Vectors) -> Vectors:
    """Bring vectors (n, d) to length 1; those of length 0 stay."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12), np.float32)


def load_two_tower(name: str, device: str | None = None) -> TwoTower:
    """Load a model by its name, LIBRARY:MODEL.

    The first load exports both towers, which run in ONNX Runtime; on a GPU images run in PyTorch, and many
    sentences.

    Args:
        name: such as "open_clip:ViT-B-32/laion2b_s34b_b79k" or "transformers:./folder".
        device: "cpu" or a device of PyTorch; by default a GPU if there is one.

    Raises:
        SeesayError: there is no such library or model, it has no text tower, its library is not installed,
            its weights are pickled, or its inputs are prepared in a way that seesay does not know.
    """
    parsed = TowerName.parse(name)
    if parsed.library in IMAGES_ONLY:
        others = ", ".join(sorted(set(LIBRARIES) - IMAGES_ONLY))
        raise SeesayError(
            f"{name} encodes images only; a run needs a text tower too, as models of {others} have."
        )
    towers = open_towers(parsed, device)
    image, text = TowerImageEncoder(name, towers), TowerSentenceEncoder(name, towers)
    scale, bias = (float(towers.about[key]) for key in ("logit_scale", "logit_bias"))
    fingerprint = _hash(image.fingerprint, text.fingerprint, scale, bias)
    return TwoTower(name, fingerprint, text.dim, scale, bias, image, text)


def _hash(*parts: object) -> str:
    what = json.dumps([*parts, "tower v2"], sort_keys=True)
    return hashlib.blake2b(what.encode(), digest_size=8).hexdigest()
