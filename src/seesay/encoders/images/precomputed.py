"""Precomputed features: arrays that come with a corpus, instead of an encoder."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from seesay.encoders import register_image_encoder
from seesay.encoders.images.base import ImageEncoder
from seesay.encoders.settings import PRECOMPUTED, EncoderSettings
from seesay.errors import SeesayError


@register_image_encoder(PRECOMPUTED)
class PrecomputedEncoder(ImageEncoder):
    """Precomputed features that come with a corpus; `is` names what computed them."""

    options: ClassVar = {**ImageEncoder.options, "file": (), "is": ()}
    variants: ClassVar = {
        "": "the array of features that comes with a corpus",
        "file: FILE, is: NAME, role: concepts": "one of several; what computed it and what it gives",
    }

    @classmethod
    def load(cls, settings: EncoderSettings, device: str, run: Path | None) -> ImageEncoder:  # noqa: ARG003
        """Raise a SeesayError: the features of other images cannot be computed."""
        raise SeesayError(
            "This run was trained on precomputed features; without their encoder it cannot read images."
        )
