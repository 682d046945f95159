"""The towers of open_clip's models and of exports, and networks of timm, as encoders by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from seesay.arrays import Pixels, Vectors
from seesay.encoders import register_image_encoder, register_sentence_encoder
from seesay.encoders.images.base import TEN, Arrays, ImageEncoder
from seesay.encoders.sentences.base import SentenceEncoder
from seesay.encoders.spec import EXPORTED, OPEN_CLIP, TIMM, EncoderSpec
from seesay.errors import SeesayError

if TYPE_CHECKING:
    from seesay.encoders.towers.opened import Towers

_BATCH = 64  # sentences
_CROPS = 16  # whose activations are in memory at a time: VGG-19's first take 13 MB per crop


@register_image_encoder(OPEN_CLIP)
@register_image_encoder(TIMM)
@register_image_encoder(EXPORTED)
class TowerImageEncoder(ImageEncoder):
    """An image tower: "pooled" holds the projected vectors, not normalised."""

    def __init__(self, name: str | EncoderSpec, towers: Towers) -> None:
        self._preprocessing = towers.preprocessing

        def network(pixels: Pixels) -> Arrays:
            starts = range(0, len(pixels), _CROPS)
            parts = [towers.image(np.ascontiguousarray(pixels[start : start + _CROPS])) for start in starts]
            return {"pooled": np.concatenate(parts)}

        ten = towers.preprocessing.ten
        side = max(towers.preprocessing.crop if ten else towers.preprocessing.size)
        dims = {"pooled": towers.dim}
        super().__init__(name, towers.weights, side, dims, network, TEN if ten else "squash")
        self.fingerprint = towers.fingerprint("preprocessing")

    @classmethod
    def load(cls, spec: EncoderSpec, device: str, run: Path | None) -> ImageEncoder:
        from seesay.encoders.towers.opened import open_towers

        return cls(spec, open_towers(spec, device, run))

    @classmethod
    def describe(cls, name: str) -> list[tuple[str, str]]:
        if name == EXPORTED:
            return [(f"{name}:FOLDER", "the image tower in a folder that `seesay export` wrote")]
        lines = [(f"{name}:NAME", "any image tower of that library by name; needs seesay[hub]")]
        if name == TIMM:
            lines.append((f"{TIMM}:NAME:ten", "the same, ten crops averaged (the papers' protocol)"))
            lines.append(
                (f"{TIMM}:VGG@before-relu:ten", "fc7 of a VGG network before its ReLU, ten crops averaged")
            )
        return lines

    def crops(self, pixels: Pixels) -> Pixels:
        return super().crops(pixels) if self.crop == TEN else self._preprocessing.apply(pixels)[None]


@register_sentence_encoder(OPEN_CLIP)
@register_sentence_encoder(EXPORTED)
class TowerSentenceEncoder(SentenceEncoder):
    """A text tower: projected vectors, not normalised.

    Raises:
        SeesayError: the model encodes images only.
    """

    def __init__(self, name: str | EncoderSpec, towers: Towers) -> None:
        if not towers.has_text:
            raise SeesayError(f"{name} encodes images only; name a model with a text tower.")
        self.dim, self._towers = towers.dim, towers
        self.fingerprint = towers.fingerprint("tokens", "vocabulary")

    @classmethod
    def load(cls, spec: EncoderSpec, run: Path | None) -> SentenceEncoder:
        from seesay.encoders.towers.opened import open_towers

        return cls(spec, open_towers(spec, run=run))

    @classmethod
    def describe(cls, name: str) -> list[tuple[str, str]]:
        if name == EXPORTED:
            return [(f"{name}:FOLDER", "the text tower in a folder that `seesay export` wrote")]
        return [(f"{name}:NAME", "any text tower of that library by name; needs seesay[hub]")]

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Compute vectors, (m, dim)."""
        vectors = np.empty((len(texts), self.dim), np.float32)
        for start in range(0, len(texts), _BATCH):
            batch = slice(start, start + _BATCH)
            vectors[batch] = self._towers.text(self._towers.tokens.ids(texts[batch]))
        return vectors
