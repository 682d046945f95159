"""The registries of encoders, by the `kind` of their settings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from seesay.encoders.settings import OPEN_CLIP, PRECOMPUTED, TIMM, EncoderSettings
from seesay.errors import SeesayError, did_you_mean
from seesay.registry import Registry

if TYPE_CHECKING:
    from seesay.encoders import Encoder
    from seesay.encoders.images.base import ImageEncoder
    from seesay.encoders.regions import RegionEncoder
    from seesay.encoders.sentences.base import SentenceEncoder

Class = TypeVar("Class", bound="type[Encoder]")


class EncoderRegistry(Registry[Class]):
    """Encoders by the `kind` of their settings; the class of each lists its further settings (`options`)."""

    def checked(self, values: object) -> EncoderSettings:
        """Return settings of one of these encoders, without the values that are its defaults.

        Raises:
            SeesayError: the kind or a key does not exist, or a value is not allowed.
        """
        settings = EncoderSettings.parse(values)
        options = self[settings.kind].options
        for key, value in settings.options:
            if key not in options:
                near = did_you_mean(key, options) or (f"; it has {', '.join(options)}." if options else ".")
                raise SeesayError(f"The {self.what} '{settings.kind}' has no setting '{key}'{near}")
            if options[key] and value not in options[key]:
                known = ", ".join(options[key])
                raise SeesayError(f"{settings}: '{key}' is {value}; there are {known}.")
        defaults = {key: next(iter(values), "") for key, values in options.items()}
        defaults["role"] = getattr(self[settings.kind], "role", "")
        kept = (pair for pair in settings.options if pair[1] != defaults[pair[0]])
        return replace(settings, options=tuple(kept))


def _modules(*groups: tuple[str, Iterable[str]]) -> dict[str, str]:
    return {kind: f"seesay.encoders.{module}" for module, kinds in groups for kind in kinds}


_LITE = [f"efficientnet-lite{number}{bits}" for bits in ("", "-int8") for number in range(3)]

IMAGE_ENCODERS: EncoderRegistry[type[ImageEncoder]] = EncoderRegistry(
    "image encoder",
    "seesay.image_encoders",
    modules=_modules(
        ("images.efficientnet", [*_LITE, "efficientnet-lite0-stages"]),
        ("images.concepts", ["concepts", "concepts-regions"]),
        ("images.instances", ["instances"]),
        ("images.base", [PRECOMPUTED]),
        ("towers", [OPEN_CLIP, TIMM]),
    ),
)
REGION_ENCODERS: EncoderRegistry[type[RegionEncoder]] = EncoderRegistry(
    "region encoder", "seesay.region_encoders", modules=_modules(("regions", ["roi-pooling", "detector"]))
)
SENTENCE_ENCODERS: EncoderRegistry[type[SentenceEncoder]] = EncoderRegistry(
    "sentence encoder",
    "seesay.sentence_encoders",
    modules=_modules(
        ("sentences.word_vectors", ["mean"]),
        ("sentences.fisher", ["gmm", "lmm", "hglmm", "gmm+hglmm"]),
        ("sentences.minilm", ["minilm", "minilm-int8"]),
        ("sentences.quick_thought", ["quick-thought"]),
        ("sentences.given", ["vectors"]),
        ("towers", [OPEN_CLIP]),
    ),
)


def _images_or_regions(
    kind: str,
) -> EncoderRegistry[type[ImageEncoder]] | EncoderRegistry[type[RegionEncoder]]:
    return REGION_ENCODERS if kind in REGION_ENCODERS else IMAGE_ENCODERS


def role_of(settings: EncoderSettings) -> str:
    """Return what an image encoder gives of an image: its context, concepts, instances or regions."""
    return settings.get("role") or _images_or_regions(settings.kind)[settings.kind].role


def checked_encoder(values: object) -> EncoderSettings:
    """Return the settings of an image encoder or of a region encoder; see `EncoderRegistry.checked`."""
    settings = EncoderSettings.parse(values)
    return _images_or_regions(settings.kind).checked(settings)


def list_encoders(registry: EncoderRegistry[Any] = IMAGE_ENCODERS) -> list[tuple[str, str]]:
    """List the encoders of a registry, such as SENTENCE_ENCODERS, with a line about each.

    Example:
        >>> dict(list_encoders())["{kind: efficientnet-lite0, crops: ten}"]
        "the same, ten crops averaged (the papers' protocol)"
    """
    listed = []
    for kind in sorted(registry):
        first_line = (registry[kind].__doc__ or "").partition("\n")[0].rstrip(".")
        for own, line in (registry[kind].variants or {"": first_line}).items():
            listed.append((f"{{kind: {kind}, {own}}}" if own else kind, line))
    return listed
