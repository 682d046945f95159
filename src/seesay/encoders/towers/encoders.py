"""The towers of open_clip's models and of exports, and networks of timm, as encoders by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from seesay.arrays import Pixels, Vectors
from seesay.encoders import register_image_encoder, register_sentence_encoder
from seesay.encoders.images.base import TEN, Arrays, ImageEncoder
from seesay.encoders.sentences.base import SentenceEncoder
from seesay.encoders.settings import EXPORTED, OPEN_CLIP, TIMM, EncoderSettings
from seesay.errors import SeesayError

if TYPE_CHECKING:
    from seesay.encoders.towers.opened import Towers

_BATCH = 64  # sentences
_CROPS = 16  # whose activations are in memory at a time: VGG-19's first take 13 MB per crop


class TowerImageEncoder(ImageEncoder):
    """An image tower: "pooled" holds the projected vectors, not normalised."""

    def __init__(self, settings: EncoderSettings, towers: Towers) -> None:
        self._preprocessing = towers.preprocessing

        def network(pixels: Pixels) -> Arrays:
            starts = range(0, len(pixels), _CROPS)
            parts = [towers.image(np.ascontiguousarray(pixels[start : start + _CROPS])) for start in starts]
            return {"pooled": np.concatenate(parts)}

        ten = towers.preprocessing.ten
        side = max(towers.preprocessing.crop if ten else towers.preprocessing.size)
        dims = {"pooled": towers.dim}
        super().__init__(settings.title, towers.weights, side, dims, network, TEN if ten else "squash")
        self.fingerprint = towers.fingerprint("preprocessing")

    @classmethod
    def load(cls, settings: EncoderSettings, device: str, run: Path | None) -> ImageEncoder:
        from seesay.encoders.towers.opened import open_towers

        return cls(settings, open_towers(settings, device, run))

    def crops(self, pixels: Pixels) -> Pixels:
        return super().crops(pixels) if self.crop == TEN else self._preprocessing.apply(pixels)[None]


@register_image_encoder(OPEN_CLIP)
class OpenClipEncoder(TowerImageEncoder):
    """The image tower of a model of open_clip.

    `model` is an architecture, a folder, or hf-hub:REPOSITORY; `weights` are published ones of an
    architecture, or a file.
    """

    options: ClassVar = {**ImageEncoder.options, "model": (), "weights": ()}
    variants: ClassVar = {"model: NAME, weights: NAME": "any image tower of open_clip; needs seesay[hub]"}


@register_image_encoder(EXPORTED)
class ExportedEncoder(TowerImageEncoder):
    """An image tower that `seesay export` has written."""

    options: ClassVar = {**ImageEncoder.options, "folder": ()}
    variants: ClassVar = {"folder: FOLDER": "the image tower in a folder that `seesay export` wrote"}


@register_image_encoder(TIMM)
class TimmEncoder(TowerImageEncoder):
    """An image network of timm.

    `weights: random` keeps the seeded initial weights, and nothing is downloaded. `layer: before-relu` leaves
    out the last activation function before the classifier of VGG, after fc7.
    """

    options: ClassVar = {
        **ImageEncoder.options,
        "model": (),
        "weights": ("published", "random"),
        "layer": ("last", "before-relu"),
        "crops": ("own", TEN),
        "tuned": (),
    }
    variants: ClassVar = {
        "model: NAME": "any image network of timm; needs seesay[hub]",
        "model: NAME, crops: ten": "the same, ten crops averaged (the papers' protocol)",
        "model: VGG, layer: before-relu, crops: ten": "fc7 of a VGG network before its ReLU, ten crops",
    }


class TowerSentenceEncoder(SentenceEncoder):
    """A text tower: projected vectors, not normalised.

    Raises:
        SeesayError: the model encodes images only.
    """

    def __init__(self, name: str, towers: Towers) -> None:
        if not towers.has_text:
            raise SeesayError(f"{name} encodes images only; name a model with a text tower.")
        self.dim, self._towers = towers.dim, towers
        self.fingerprint = towers.fingerprint("tokens", "vocabulary")

    @classmethod
    def load(cls, settings: EncoderSettings, run: Path | None) -> SentenceEncoder:
        from seesay.encoders.towers.opened import open_towers

        return cls(str(settings), open_towers(settings, run=run))

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Compute vectors, (m, dim)."""
        vectors = np.empty((len(texts), self.dim), np.float32)
        for start in range(0, len(texts), _BATCH):
            batch = slice(start, start + _BATCH)
            vectors[batch] = self._towers.text(self._towers.tokens.ids(texts[batch]))
        return vectors


@register_sentence_encoder(OPEN_CLIP)
class OpenClipSentenceEncoder(TowerSentenceEncoder):
    """The text tower of a model of open_clip."""

    options: ClassVar = {"model": (), "weights": ()}
    variants: ClassVar = {"model: NAME, weights: NAME": "any text tower of open_clip; needs seesay[hub]"}


@register_sentence_encoder(EXPORTED)
class ExportedSentenceEncoder(TowerSentenceEncoder):
    """A text tower that `seesay export` has written."""

    options: ClassVar = {"folder": ()}
    variants: ClassVar = {"folder: FOLDER": "the text tower in a folder that `seesay export` wrote"}
