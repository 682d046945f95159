"""Image towers of other libraries' models by name: the `hub` extra."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from seesay.encoders import register_image_encoder
from seesay.encoders.images.base import Arrays, ImageEncoder, Pixels
from seesay.encoders.spec import EXPORTED

if TYPE_CHECKING:
    from seesay.encoders.towers.opened import Towers


@register_image_encoder("open_clip")
@register_image_encoder("timm")
@register_image_encoder("transformers")
@register_image_encoder(EXPORTED)
class TowerImageEncoder(ImageEncoder):
    """An image tower: "pooled" holds the projected vectors, not normalised."""

    def __init__(self, name: str, towers: Towers) -> None:
        self._preprocessing = towers.preprocessing

        def network(pixels: Pixels) -> Arrays:
            return {"pooled": towers.image(np.ascontiguousarray(pixels))}

        side = max(towers.preprocessing.size)
        super().__init__(name, towers.weights, side, {"pooled": towers.dim}, network)
        self.fingerprint = towers.fingerprint("preprocessing")

    @classmethod
    def load(cls, name: str, device: str) -> ImageEncoder:
        from seesay.encoders.towers.opened import open_towers

        return cls(name, open_towers(name, device))

    @classmethod
    def describe(cls, name: str) -> list[tuple[str, str]]:
        if name == EXPORTED:
            return [(f"{name}:FOLDER", "the image tower in a folder that `seesay export` wrote")]
        return [(f"{name}:NAME", "any image tower of that library by name; needs seesay[hub]")]

    def crops(self, pixels: Pixels) -> Pixels:
        return self._preprocessing.apply(pixels)[None]
