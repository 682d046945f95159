"""Image towers of open_clip, sentence-transformers, timm and transformers by name: the `hub` extra."""

from __future__ import annotations

from typing import ClassVar

from seesay.encoders import register_image_encoder
from seesay.encoders.images.base import ImageEncoder


@register_image_encoder("open_clip")
@register_image_encoder("sentence-transformers")
@register_image_encoder("timm")
@register_image_encoder("transformers")
class HubEncoder(ImageEncoder):
    """An image tower of a library."""

    variants: ClassVar = {":NAME": "any image tower of that library by name; needs seesay[hub]"}

    @classmethod
    def load(cls, name: str, device: str) -> ImageEncoder:
        from seesay.encoders.towers.encoders import TowerImageEncoder
        from seesay.encoders.towers.names import TowerName
        from seesay.encoders.towers.opened import open_towers

        return TowerImageEncoder(name, open_towers(TowerName.parse(name), device))


@register_image_encoder("onnx")
class ExportedTower(HubEncoder):
    """An image tower that `seesay export` wrote."""

    variants: ClassVar = {":FOLDER": "the image tower in a folder that `seesay export` wrote"}
