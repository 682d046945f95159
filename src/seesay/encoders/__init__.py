"""Pretrained encoders of images, regions and sentences, and the store of their features.

Another package adds an encoder by registering a class and naming its module as an entry point of the group
`seesay.image_encoders`, `seesay.region_encoders` or `seesay.sentence_encoders`.

A recipe names an encoder by its `kind`, or by a mapping of that and its further settings.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from seesay.encoders.registries import IMAGE_ENCODERS, REGION_ENCODERS, SENTENCE_ENCODERS, list_encoders
from seesay.encoders.settings import EncoderSettings
from seesay.errors import SeesayError
from seesay.lazy import lazy_names
from seesay.onnx import Session

if TYPE_CHECKING:
    from seesay.encoders.images.base import ImageEncoder, load_image_encoder
    from seesay.encoders.images.encode import encode_images, fill_stores
    from seesay.encoders.regions import RegionEncoder, load_region_encoder
    from seesay.encoders.sentences.base import (
        FittedEncoder,
        SentenceEncoder,
        fit_sentence_encoder,
        load_sentence_encoder,
        save_sentence_encoder,
    )
    from seesay.encoders.stores import ArrayStore

__all__ = [
    "IMAGE_ENCODERS",
    "REGION_ENCODERS",
    "SENTENCE_ENCODERS",
    "ArrayStore",
    "EncoderSettings",
    "FittedEncoder",
    "ImageEncoder",
    "RegionEncoder",
    "SentenceEncoder",
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

register_image_encoder = IMAGE_ENCODERS.register
"""Return a decorator that registers an `ImageEncoder` under the `kind` by which recipes name it."""

register_region_encoder = REGION_ENCODERS.register
"""Return a decorator that registers a `RegionEncoder` under the `kind` by which recipes name it."""

register_sentence_encoder = SENTENCE_ENCODERS.register
"""Return a decorator that registers a `SentenceEncoder`; a `FittedEncoder` is fitted to a train split."""


def included_file(name: str) -> Path:
    """Return the path of a file of the encoders that seesay includes, such as "minilm.onnx"."""
    return Path(str(files("seesay"))) / "weights" / "encoders" / name


def package_folder(package: str) -> Path:
    """Find the folder of an installed package without importing it; raise SeesayError if it is missing."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise SeesayError(f"The package {package.replace('_', '-')} is missing; pip install it.")
    return Path(spec.origin).parent


class Encoder:
    """What encoders of images, regions and sentences share.

    Attributes:
        options: the settings besides the kind. For each, the values that it may have, the default first; any
            text if none are listed.
        variants: settings in YAML, and a line about the encoder with them; by default the first line of the
            docstring.
        fingerprint: identifies weights and preprocessing.
        sessions: the networks that it runs in ONNX Runtime.
    """

    options: ClassVar[Mapping[str, Sequence[str]]] = {}
    variants: ClassVar[Mapping[str, str]] = {}
    fingerprint: str
    sessions: Sequence[Session] = ()

    @property
    def stored_as(self) -> str:
        """The key of what is stored of its outputs: the fingerprint.

        Networks that a run has brought may be others than they say, so their outputs are stored apart.
        """
        if not (brought := "".join(session.brought for session in self.sessions)):
            return self.fingerprint
        return hashlib.sha256(f"{self.fingerprint} {brought}".encode()).hexdigest()[:16]


__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "stores": ("ArrayStore",),
        "images.base": ("ImageEncoder", "load_image_encoder"),
        "images.encode": ("encode_images", "fill_stores"),
        "regions": ("RegionEncoder", "load_region_encoder"),
        "sentences.base": (
            "SentenceEncoder",
            "FittedEncoder",
            "fit_sentence_encoder",
            "load_sentence_encoder",
            "save_sentence_encoder",
        ),
    },
)
