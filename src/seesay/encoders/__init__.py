"""Pretrained encoders of images, regions and sentences, and the store of their features.

Another package adds an encoder by registering a class and naming its module as an entry point of the group
`seesay.image_encoders`, `seesay.region_encoders` or `seesay.sentence_encoders`.

A recipe names an encoder by its `kind`, or by a mapping of that and its further settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seesay.lazy import lazy_names

if TYPE_CHECKING:
    from seesay.encoders.images.base import ImageEncoder as ImageEncoder
    from seesay.encoders.images.base import load_image_encoder as load_image_encoder
    from seesay.encoders.images.encode import encode_images as encode_images
    from seesay.encoders.images.encode import fill_stores as fill_stores
    from seesay.encoders.regions import RegionEncoder as RegionEncoder
    from seesay.encoders.regions import load_region_encoder as load_region_encoder
    from seesay.encoders.sentences.base import FittedEncoder as FittedEncoder
    from seesay.encoders.sentences.base import SentenceEncoder as SentenceEncoder
    from seesay.encoders.sentences.base import fit_sentence_encoder as fit_sentence_encoder
    from seesay.encoders.sentences.base import load_sentence_encoder as load_sentence_encoder
    from seesay.encoders.sentences.base import save_sentence_encoder as save_sentence_encoder
    from seesay.encoders.settings import IMAGE_ENCODERS as IMAGE_ENCODERS
    from seesay.encoders.settings import REGION_ENCODERS as REGION_ENCODERS
    from seesay.encoders.settings import SENTENCE_ENCODERS as SENTENCE_ENCODERS
    from seesay.encoders.settings import EncoderSettings as EncoderSettings
    from seesay.encoders.settings import list_encoders as list_encoders
    from seesay.encoders.settings import register_image_encoder as register_image_encoder
    from seesay.encoders.settings import register_region_encoder as register_region_encoder
    from seesay.encoders.settings import register_sentence_encoder as register_sentence_encoder
    from seesay.encoders.stores import ArrayStore as ArrayStore

__getattr__, __dir__ = lazy_names(__name__)
