"""An encoder as recipes and runs choose it: its kind, and its other settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from seesay.errors import SeesayError
from seesay.paths import home_expanded

PRECOMPUTED = "precomputed"  # instead of an encoder: arrays of features that come with a corpus
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
        if self.kind == PRECOMPUTED:  # whose files lie beside a corpus
            return self
        found = {key: home_expanded(value) for key, value in self.options if key in _PATHS and key != "run"}
        return self.replaced(**{key: str(path.resolve()) for key, path in found.items() if path.exists()})

    def __str__(self) -> str:
        """Return the settings as YAML on one line."""
        values = "".join(f", {key}: {value}" for key, value in self.options)
        return f"{{kind: {self.kind}{values}}}" if values else self.kind
