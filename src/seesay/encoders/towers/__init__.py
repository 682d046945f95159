"""Image and text towers of other libraries, by name: CLIP, SigLIP and their relatives, and image encoders.

A name is `LIBRARY:MODEL`, such as `open_clip:ViT-B-32/laion2b_s34b_b79k` or `transformers:./folder`. The
first load needs the library (the `hub` extra); it exports both towers to ONNX, and every later one needs
neither the library nor PyTorch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seesay.encoders.towers.names import (
    IMAGES_ONLY,
    LIBRARIES,
    TowerName,
    absolute_name,
    is_two_tower,
)
from seesay.lazy import lazy_names

if TYPE_CHECKING:
    from seesay.encoders.towers.two_tower import TwoTower, load_two_tower
    from seesay.encoders.towers.write import bring_towers

__all__ = [
    "IMAGES_ONLY",
    "LIBRARIES",
    "TowerName",
    "TwoTower",
    "absolute_name",
    "bring_towers",
    "is_two_tower",
    "load_two_tower",
]

__getattr__ = lazy_names(__name__, ("two_tower", "write"))
