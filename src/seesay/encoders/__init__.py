"""Pretrained encoders of images, regions and sentences, and the store of their features.

Another package adds one by registering a class, and by naming its module as an entry point of the group
`seesay.image_encoders`, `seesay.region_encoders` or `seesay.sentence_encoders`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from seesay.encoders.names import (
    IMAGE_ENCODERS,
    REGION_ENCODERS,
    SENTENCE_ENCODERS,
    register_image_encoder,
    register_region_encoder,
    register_sentence_encoder,
)

if TYPE_CHECKING:
    from seesay.encoders.feature_store import FeatureStore
    from seesay.encoders.images.base import ImageEncoder, list_encoders, load_image_encoder
    from seesay.encoders.images.encode import encode_images, fill_stores
    from seesay.encoders.regions.base import RegionEncoder, load_region_encoder
    from seesay.encoders.sentences.base import (
        SentenceEncoder,
        SentenceFeatures,
        fit_sentence_encoder,
        load_sentence_encoder,
        save_sentence_encoder,
    )

__all__ = [
    "IMAGE_ENCODERS",
    "REGION_ENCODERS",
    "SENTENCE_ENCODERS",
    "FeatureStore",
    "ImageEncoder",
    "RegionEncoder",
    "SentenceEncoder",
    "SentenceFeatures",
    "encode_images",
    "fill_stores",
    "fit_sentence_encoder",
    "list_encoders",
    "load_image_encoder",
    "load_region_encoder",
    "load_sentence_encoder",
    "register_image_encoder",
    "register_region_encoder",
    "register_sentence_encoder",
    "save_sentence_encoder",
]

# Imported when they are first used: some take PyTorch with them.
_MODULES = ("feature_store", "images.base", "images.encode", "regions.base", "sentences.base")


def __getattr__(name: str) -> Any:
    if name in __all__:
        for module in _MODULES:
            found = vars(import_module(f"{__name__}.{module}"))
            if name in found:
                return found[name]
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
