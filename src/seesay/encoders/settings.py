"""Settings of encoders in recipes and runs, and the registries of encoders."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from seesay.errors import SeesayError, did_you_mean
from seesay.paths import home_expanded
from seesay.registry import Registry

if TYPE_CHECKING:
    from seesay.encoders import Encoder
    from seesay.encoders.images.base import ImageEncoder
    from seesay.encoders.regions import RegionEncoder
    from seesay.encoders.sentences.base import SentenceEncoder, SentenceFeatures

PRECOMPUTED = "precomputed"  # instead of an encoder: arrays of features that come with a corpus
OPEN_CLIP = "open_clip"
TIMM = "timm"  # whose networks encode images only
EXPORTED = "exported"  # towers that `seesay export` has written
TOWERS = (OPEN_CLIP, TIMM, EXPORTED)
ROLES = ("context", "concepts", "instances", "regions")

_PATHS = ("file", "folder", "run", "model", "weights")  # keys whose values may be paths
_NOT_IN_TITLE = ("role", "tuned", "is")
_TUNED = re.compile(r"[0-9a-f]{16}")

Values: TypeAlias = str | dict[str, str]
"""An encoder in a recipe: its kind, or a mapping with its kind and its other settings."""


AnyEncoder: TypeAlias = "str | Mapping[str, str] | EncoderSettings"
"""An encoder as callers name it: as in a recipe, or its settings."""


@dataclass(frozen=True)
class EncoderSettings:
    """An encoder as recipes and runs choose it.

    Attributes:
        kind: the registered name.
        options: the other settings that differ from their defaults, sorted by their keys.

    Example:
        >>> ten = EncoderSettings.parse({"kind": "efficientnet-lite0", "crops": "ten"})
        >>> str(ten), ten.get("crops"), ten.get("tuned")
        ('{kind: efficientnet-lite0, crops: ten}', 'ten', '')
        >>> EncoderSettings.parse("minilm") == EncoderSettings.parse({"kind": "minilm"})
        True
    """

    kind: str
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, values: object) -> EncoderSettings:
        """Read settings as a recipe or a run has them: the kind alone, or a mapping.

        The kind need not exist, and so its keys are not checked; see `checked`.

        Raises:
            SeesayError: a value is not a text, the kind is missing, or `tuned` is malformed.
        """
        if isinstance(values, EncoderSettings):
            return values
        found = {"kind": values} if isinstance(values, str) else values
        if not isinstance(found, Mapping) or "kind" not in found:
            raise SeesayError("name an encoder, such as minilm, or give a mapping with its kind.")
        for key, value in found.items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise SeesayError(f"{found['kind']}: '{key}' is {value!r}; write a text.")
        tuned = found.get("tuned", "")
        if tuned and not _TUNED.fullmatch(tuned):
            raise SeesayError(f"{found['kind']}: 'tuned' is {tuned!r}; expected 16 hexadecimal digits.")
        return cls(found["kind"], tuple(sorted((key, found[key]) for key in found if key != "kind")))

    def get(self, key: str) -> str:
        """Return a setting; an empty string for the default."""
        return dict(self.options).get(key, "")

    def replaced(self, **values: str) -> EncoderSettings:
        """Return the same settings with other values; an empty string is the default."""
        options = {**dict(self.options), **values}
        return replace(self, options=tuple(sorted((key, value) for key, value in options.items() if value)))

    def dump(self) -> Values:
        """Return what `parse` reads."""
        return {"kind": self.kind, **dict(self.options)} if self.options else self.kind

    @property
    def title(self) -> str:
        """A short text for tables, names of files and fingerprints; nothing parses it.

        >>> EncoderSettings.parse({"kind": "efficientnet-lite0", "crops": "ten"}).title
        'efficientnet-lite0:ten'
        """
        named_first = sorted(self.options, key=lambda option: option[0] not in _PATHS)
        given = "/".join(value for key, value in named_first if key not in _NOT_IN_TITLE)
        tuned = f"@{self.get('tuned')}" if self.get("tuned") else ""
        return self.kind + tuned + (f":{given}" if given else "")

    @property
    def role(self) -> str:
        """What an image encoder gives of an image: its context, concepts, instances or regions."""
        return self.get("role") or _images_or_regions(self.kind)[self.kind].role

    @property
    def is_tower(self) -> bool:
        """Whether it is a library's model or an exported tower."""
        return self.kind in TOWERS

    @property
    def untuned(self) -> EncoderSettings:
        """The encoder with its original weights."""
        return self.replaced(tuned="")

    @property
    def names_path(self) -> bool:
        """Whether it names a path outside the folder of its run.

        >>> EncoderSettings.parse({"kind": "exported", "folder": "/models/clip"}).names_path
        True
        >>> EncoderSettings.parse({"kind": "timm", "model": "vit"}).names_path
        False
        """
        paths = [Path(value) for key, value in self.options if key in _PATHS]
        return any(path.anchor or ".." in path.parts or str(path).startswith("~") for path in paths)

    @property
    def absolute(self) -> EncoderSettings:
        """The same with absolute paths of files and folders that exist; runs of concepts are unchanged."""
        if self.kind == PRECOMPUTED:  # whose files lie beside a corpus
            return self
        found = {key: home_expanded(value) for key, value in self.options if key in _PATHS and key != "run"}
        return self.replaced(**{key: str(path.resolve()) for key, path in found.items() if path.exists()})

    def within(self, run: Path | None) -> EncoderSettings:
        """The same with the folder of an export that lies in a run's folder, `./…`, as absolute path."""
        folder = self.get("folder")
        return (
            self.replaced(folder=str((run / folder).resolve())) if run and folder.startswith("./") else self
        )

    def __str__(self) -> str:
        """Return the settings as YAML on one line."""
        values = "".join(f", {key}: {value}" for key, value in self.options)
        return f"{{kind: {self.kind}{values}}}" if values else self.kind


Class = TypeVar("Class", bound="type[Encoder] | type[SentenceFeatures]")


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
        ("images.precomputed", [PRECOMPUTED]),
        ("towers.encoders", TOWERS),
    ),
)
REGION_ENCODERS: EncoderRegistry[type[RegionEncoder]] = EncoderRegistry(
    "region encoder", "seesay.region_encoders", modules=_modules(("regions", ["roi-pooling", "detector"]))
)
SENTENCE_ENCODERS: EncoderRegistry[type[SentenceEncoder] | type[SentenceFeatures]] = EncoderRegistry(
    "sentence encoder",
    "seesay.sentence_encoders",
    modules=_modules(
        ("sentences.word_vectors", ["mean", "tfidf"]),
        ("sentences.fisher", ["gmm", "lmm", "hglmm", "gmm+hglmm"]),
        ("sentences.minilm", ["minilm", "minilm-int8"]),
        ("sentences.quick_thought", ["quick-thought"]),
        ("sentences.given", ["vectors"]),
        ("towers.encoders", [OPEN_CLIP, EXPORTED]),
    ),
)


def _images_or_regions(
    kind: str,
) -> EncoderRegistry[type[ImageEncoder]] | EncoderRegistry[type[RegionEncoder]]:
    return REGION_ENCODERS if kind in REGION_ENCODERS else IMAGE_ENCODERS


def checked_encoder(values: object) -> EncoderSettings:
    """Return the settings of an image encoder or of a region encoder; see `EncoderRegistry.checked`."""
    settings = EncoderSettings.parse(values)
    return _images_or_regions(settings.kind).checked(settings)
