"""Which encoders exist, how recipes and runs choose them, and what all encoders share."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, TypeVar

from seesay.errors import SeesayError, did_you_mean
from seesay.onnx import Session
from seesay.paths import home_expanded
from seesay.registry import Registry

# Instead of an encoder: arrays of images' features and of sentences' vectors that come with a corpus.
PRECOMPUTED, VECTORS = "precomputed", "vectors"
OPEN_CLIP, TIMM = "open_clip", "timm"  # libraries of models
ROLES = ("context", "concepts", "instances", "regions")

_PATHS = ("file", "run", "model", "weights")  # keys whose values may be paths
_NOT_IN_TITLE = ("role", "tuned", "is")
_TUNED = re.compile(r"[0-9a-f]{16}")

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

    def dump(self) -> str | dict[str, str]:
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
    def is_tower(self) -> bool:
        """Whether it is a model of open_clip or timm."""
        return self.kind in (OPEN_CLIP, TIMM)

    @property
    def untuned(self) -> EncoderSettings:
        """The encoder with its original weights."""
        return self.replaced(tuned="")

    @property
    def names_path(self) -> bool:
        """Whether it names a path outside the folder of its run.

        >>> EncoderSettings.parse({"kind": "open_clip", "model": "/models/clip"}).names_path
        True
        >>> EncoderSettings.parse({"kind": "timm", "model": "vit"}).names_path
        False
        """
        paths = [Path(value) for key, value in self.options if key in _PATHS]
        return any(path.anchor or ".." in path.parts or str(path).startswith("~") for path in paths)

    @property
    def absolute(self) -> EncoderSettings:
        """The same with absolute paths of files and folders that exist; runs of concepts are unchanged."""
        if self.kind in (PRECOMPUTED, VECTORS):  # whose files lie beside a corpus
            return self
        found = {key: home_expanded(value) for key, value in self.options if key in _PATHS and key != "run"}
        return self.replaced(**{key: str(path.resolve()) for key, path in found.items() if path.exists()})

    def __str__(self) -> str:
        """Return the settings as YAML on one line."""
        values = "".join(f", {key}: {value}" for key, value in self.options)
        return f"{{kind: {self.kind}{values}}}" if values else self.kind


def included_file(name: str) -> Path:
    """Return the path of a file of the encoders that seesay includes, such as "minilm.onnx"."""
    return Path(str(files("seesay"))) / "weights" / "encoders" / name


def package_folder(package: str) -> Path:
    """Find the folder of an installed package without importing it; raise SeesayError if it is missing."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise SeesayError(f"The package {package.replace('_', '-')} is missing; pip install it.")
    return Path(spec.origin).parent


def hashed(*parts: object) -> str:
    """Return 16 hexadecimal digits that identify plain values, for fingerprints."""
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=8).hexdigest()


class Encoder:
    """What encoders of images, regions and sentences share.

    Attributes:
        options: the settings besides the kind. For each, the values that it may have, the default first; any
            text if none are listed.
        variants: settings in YAML, and a line about the encoder with them; by default the first line of the
            docstring.
        role: what it gives of an image, if its settings do not say; fusions find their parts by it.
        of_run: whether it reads a run's folder, which may be trained again, so that it is not cached.
        fingerprint: identifies weights and preprocessing.
        sessions: the networks that it runs in ONNX Runtime.
    """

    options: ClassVar[Mapping[str, Sequence[str]]] = {}
    variants: ClassVar[Mapping[str, str]] = {}
    role: ClassVar[str] = ""
    of_run: ClassVar[bool] = False
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


Class = TypeVar("Class", bound=type[Encoder])


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
        defaults["role"] = self[settings.kind].role
        kept = (pair for pair in settings.options if pair[1] != defaults[pair[0]])
        return replace(settings, options=tuple(kept))


IMAGE_ENCODERS: EncoderRegistry[type[Encoder]] = EncoderRegistry(
    "image encoder",
    "seesay.image_encoders",
    modules={
        "seesay.encoders.images.efficientnet": [
            *(f"efficientnet-lite{number}{bits}" for bits in ("", "-int8") for number in range(3)),
            "efficientnet-lite0-stages",
        ],
        "seesay.encoders.images.concepts": ["concepts", "concepts-regions"],
        "seesay.encoders.images.instances": ["instances"],
        "seesay.encoders.images.base": [PRECOMPUTED],
        "seesay.encoders.towers": [OPEN_CLIP, TIMM],
    },
)
register_image_encoder = IMAGE_ENCODERS.register
"""Return a decorator that registers an `ImageEncoder` under the `kind` by which recipes name it."""

REGION_ENCODERS: EncoderRegistry[type[Encoder]] = EncoderRegistry(
    "region encoder",
    "seesay.region_encoders",
    modules={"seesay.encoders.regions": ["roi-pooling", "detector"]},
)
register_region_encoder = REGION_ENCODERS.register
"""Return a decorator that registers a `RegionEncoder` under the `kind` by which recipes name it."""

SENTENCE_ENCODERS: EncoderRegistry[type[Encoder]] = EncoderRegistry(
    "sentence encoder",
    "seesay.sentence_encoders",
    modules={
        "seesay.encoders.sentences.word_vectors": ["mean"],
        "seesay.encoders.sentences.fisher": ["gmm", "lmm", "hglmm", "gmm+hglmm"],
        "seesay.encoders.sentences.minilm": ["minilm", "minilm-int8"],
        "seesay.encoders.sentences.quick_thought": ["quick-thought"],
        "seesay.encoders.sentences.given": ["vectors"],
        "seesay.encoders.towers": [OPEN_CLIP],
    },
)
register_sentence_encoder = SENTENCE_ENCODERS.register
"""Return a decorator that registers a `SentenceEncoder`; a `FittedEncoder` is fitted to a train split."""


def role_of(settings: EncoderSettings) -> str:
    """Return what an image encoder gives of an image: its context, concepts, instances or regions."""
    registry = REGION_ENCODERS if settings.kind in REGION_ENCODERS else IMAGE_ENCODERS
    return settings.get("role") or registry[settings.kind].role


def checked_encoder(values: object) -> EncoderSettings:
    """Return the settings of an image encoder or of a region encoder; see `EncoderRegistry.checked`."""
    settings = EncoderSettings.parse(values)
    registry = REGION_ENCODERS if settings.kind in REGION_ENCODERS else IMAGE_ENCODERS
    return registry.checked(settings)


def list_encoders(registry: EncoderRegistry[Any] = IMAGE_ENCODERS) -> list[tuple[str, str]]:
    """List the encoders of a registry, such as SENTENCE_ENCODERS, with a line about each.

    Example:
        >>> dict(list_encoders())["{kind: efficientnet-lite0, crops: ten}"]
        "the same, ten crops averaged (the papers' protocol)"
    """
    return [
        (f"{{kind: {kind}, {own}}}" if own else kind, line)
        for kind, encoder in sorted(registry.items())
        for own, line in (
            encoder.variants or {"": (encoder.__doc__ or "").partition("\n")[0].rstrip(".")}
        ).items()
    ]
