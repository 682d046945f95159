"""CLIP models of open_clip and image networks of timm, by their names there.

Both libraries are in the extra `hub`. They load the weights and prepare images and sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from seesay.arrays import Vectors
from seesay.device import default_device
from seesay.encoders.images.base import TEN, ImageEncoder, register_image_encoder
from seesay.encoders.sentences.base import SentenceEncoder, register_sentence_encoder
from seesay.encoders.settings import OPEN_CLIP, TIMM, EncoderSettings
from seesay.errors import SeesayError, first_line, naming_extras
from seesay.paths import home_expanded

if TYPE_CHECKING:
    from seesay.encoders.networks.hub import ClipModel, TimmNetwork

_BATCH = 64  # sentences


@register_image_encoder(OPEN_CLIP)
class OpenClipEncoder(ImageEncoder):
    """The image tower of a model of open_clip: "pooled" holds projected vectors, not normalised.

    `model` is an architecture, a folder, or hf-hub:REPOSITORY; `weights` are published ones of an
    architecture, or a file.
    """

    options: ClassVar = {**ImageEncoder.options, "model": (), "weights": ()}
    variants: ClassVar = {"model: NAME, weights: NAME": "any image tower of open_clip; needs seesay[hub]"}

    @classmethod
    def load(cls, settings: EncoderSettings, device: str, run: Path | None) -> ImageEncoder:  # noqa: ARG003
        model = open_clip_model(settings, device)
        encoder = cls(settings.title, "", model.size, {"pooled": model.dim}, model.encode_images)
        encoder.fingerprint, encoder.prepared = model.image_fingerprint, model.prepared
        return encoder


@register_sentence_encoder(OPEN_CLIP)
class OpenClipSentenceEncoder(SentenceEncoder):
    """The text tower of a model of open_clip: projected vectors, not normalised."""

    options: ClassVar = {"model": (), "weights": ()}
    variants: ClassVar = {"model: NAME, weights: NAME": "any text tower of open_clip; needs seesay[hub]"}

    def __init__(self, model: ClipModel) -> None:
        self.dim, self.fingerprint, self._encode = model.dim, model.text_fingerprint, model.encode_texts

    @classmethod
    def load(cls, settings: EncoderSettings, run: Path | None) -> SentenceEncoder:  # noqa: ARG003
        return cls(open_clip_model(settings, default_device()))

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Compute vectors, (m, dim)."""
        starts = range(0, len(texts), _BATCH)
        parts = [self._encode(texts[start : start + _BATCH]) for start in starts]
        return np.concatenate([np.zeros((0, self.dim), np.float32), *parts])


@register_image_encoder(TIMM)
class TimmEncoder(ImageEncoder):
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

    @classmethod
    def load(cls, settings: EncoderSettings, device: str, run: Path | None) -> ImageEncoder:
        module, crop = load_timm_network(settings, run), settings.get("crops") or "own"
        if crop == TEN and module.height != module.width:
            raise SeesayError(
                f"{settings}: ten crops are squares, and it takes others; leave out crops: {TEN}."
            )
        network = module.on(device)
        dim = network(np.zeros((1, module.height, module.width, 3), np.uint8))["pooled"].shape[1]
        encoder = cls(settings.title, module.fingerprint, module.width, {"pooled": dim}, network, crop)
        encoder.prepared = None if crop == TEN else module.cropped
        return encoder


def open_clip_model(settings: EncoderSettings, device: str) -> ClipModel:
    """Load both towers of a model of open_clip onto a device; see `_loading`."""
    with _loading(settings) as checked:
        from seesay.encoders.networks.hub import load_clip

        return load_clip(checked, device)


def load_timm_network(settings: EncoderSettings, run: Path | None = None) -> TimmNetwork:
    """Load a network of timm; `run` is the folder of the run that holds tuned weights; see `_loading`."""
    with _loading(settings) as checked:
        from seesay.encoders.networks.hub import load_timm

        return load_timm(checked, run)


def checked_model(settings: EncoderSettings) -> EncoderSettings:
    """Return the settings of a model with absolute paths.

    Raises:
        SeesayError: no model is named, or its folder does not exist.
    """
    if not (model := settings.get("model")):
        raise SeesayError(f"Encoder {settings}: also name its model.")
    if model.startswith((".", "/", "~")) and not home_expanded(model).is_dir():
        raise SeesayError(f"{model}: no such folder; name a folder with a model, or a model of the hub.")
    return settings.absolute


@contextmanager
def _loading(settings: EncoderSettings) -> Iterator[EncoderSettings]:
    """Yield checked settings; whatever a library raises while it loads the model becomes a SeesayError.

    Raises:
        SeesayError: the model does not exist, cannot be loaded, or brings code of its own.
        MissingExtraError: the library is not installed.
    """
    try:
        with naming_extras(of="hub"):
            yield checked_model(settings)
    except SeesayError:
        raise
    except Exception as failure:
        reason = first_line(failure)
        raise SeesayError(f"{settings.kind} could not load '{settings.get('model')}': {reason}") from failure
