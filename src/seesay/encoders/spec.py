"""Encoders as recipes and runs name them; a name is parsed here and nowhere else."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from seesay.errors import SeesayError, did_you_mean
from seesay.paths import home_expanded

OPEN_CLIP = "open_clip"  # whose models are named `open_clip:MODEL`
TIMM = "timm"  # whose networks, which encode images only, are named `timm:NETWORK`
EXPORTED = "onnx"  # what `seesay export` has written, `onnx:FOLDER`
TOWER = "tower.json"  # in such a folder

_TOWERS = (OPEN_CLIP, TIMM, EXPORTED)
_FILES = (".onnx", ".txt", ".vec")  # of detectors and of word vectors
_NAME = re.compile(r"([^@:]*)(?:@([0-9a-f]{16}))?(?::(.*))?", re.DOTALL)

_ROLES = {  # by the first part of a name; all others encode the context
    "concepts": "concepts",
    "concepts-regions": "concepts",
    "instances": "instances",
}


@dataclass(frozen=True, slots=True)
class EncoderSpec:
    """An encoder: the parts of its name, `name@weights:variant`; the last two are optional.

    Attributes:
        name: the registered name.
        weights: 16 hexadecimal digits that identify a run's weights, of a fine-tuned network or a concept
            head.
        variant: the crop ("ten"), or the file, run or model of the encoder.

    Example:
        >>> from seesay.encoders import EncoderSpec
        >>> EncoderSpec.parse("efficientnet-lite0:ten")
        EncoderSpec(name='efficientnet-lite0', weights='', variant='ten')
    """

    name: str
    weights: str = ""
    variant: str = ""

    @classmethod
    def parse(cls, encoder: str | EncoderSpec) -> EncoderSpec:
        """Split a name into its parts, unless it was parsed before; raise SeesayError for malformed weights.

        >>> EncoderSpec.parse("efficientnet-lite0@0123456789abcdef:ten")
        EncoderSpec(name='efficientnet-lite0', weights='0123456789abcdef', variant='ten')
        >>> EncoderSpec.parse("concepts:runs/concepts").variant
        'runs/concepts'
        """
        if isinstance(encoder, EncoderSpec):
            return encoder
        found = _NAME.fullmatch(encoder)
        if found is None:
            raise SeesayError(f"Encoder '{encoder}': expected 16 hexadecimal digits after the @.")
        return cls(found[1], found[2] or "", found[3] or "")

    @classmethod
    def of_tower(cls, name: str | EncoderSpec, run: Path | None = None) -> EncoderSpec:
        """Parse the name of a library's model or of an export, which may lie in a run's folder.

        The path in it becomes absolute.

        Raises:
            SeesayError: the library is unknown, no model is named, weights are given for another library than
                timm, or the folder does not exist or holds no export.

        >>> EncoderSpec.of_tower("openclip:ViT-B-32")
        Traceback (most recent call last):
        seesay.errors.SeesayError: No library of towers 'openclip'; did you mean 'open_clip'? There are: op...
        """
        spec = cls.parse(name).within(run)
        if spec.name not in _TOWERS:
            near = did_you_mean(spec.name, _TOWERS) or "."
            raise SeesayError(f"No library of towers '{spec.name}'{near} There are: {', '.join(_TOWERS)}.")
        if not spec.variant:
            raise SeesayError(f"{name}: also name a model: {spec.name}:MODEL.")
        if spec.weights and spec.name != TIMM:
            raise SeesayError(f"{name}: only networks of timm are tuned; leave out @{spec.weights}.")
        folder = home_expanded(spec.variant)
        if spec.name == EXPORTED and not (folder / TOWER).is_file():
            raise SeesayError(
                f"{name}: no tower there (no {TOWER}); the folder of a run that "
                "`seesay export open_clip:MODEL --out FOLDER` wrote holds one in its folder `towers`."
            )
        if spec.variant.startswith((".", "/", "~")) and not folder.is_dir():
            raise SeesayError(f"{name}: no such folder; name a folder with a model, or a model of the hub.")
        return spec.absolute

    def within(self, run: Path | None) -> EncoderSpec:
        """The same with the folder of an export that lies in a run's folder, `onnx:./…`, as absolute path."""
        if run is None or self.name != EXPORTED or not self.variant.startswith("./"):
            return self
        return replace(self, variant=str((run / self.variant).resolve()))

    @property
    def absolute(self) -> EncoderSpec:
        """The same with the path of a tower, a detector or word vectors made absolute; others are unchanged.

        The path is a folder or file, or the weights in `ARCHITECTURE/WEIGHTS`.

        >>> str(EncoderSpec.parse("open_clip:ViT-B-32/openai").absolute)
        'open_clip:ViT-B-32/openai'
        """
        if not (self.is_tower or self.file):
            return self
        here = home_expanded(self.variant)
        if here.is_dir() or (here.suffix in _FILES and here.is_file()):
            return replace(self, variant=str(here.resolve()))
        architecture, _, weights = self.variant.partition("/")
        if (file := home_expanded(weights)).is_file():
            return replace(self, variant=f"{architecture}/{file.resolve()}")
        return self

    @property
    def role(self) -> str:
        """What it gives of an image: its "context", "concepts", "instances" or "regions".

        >>> names = ("efficientnet-lite0:ten", "concepts:runs/concepts", "instances:grid")
        >>> [EncoderSpec.parse(name).role for name in names]
        ['context', 'concepts', 'instances']
        """
        of_regions = self.variant == "roi" or self.name == "detector"
        return "regions" if of_regions else _ROLES.get(self.name, "context")

    @property
    def is_tower(self) -> bool:
        """Whether it is a library's model or an exported tower."""
        return self.name in _TOWERS

    @property
    def file(self) -> str:
        """The file of a detector or of word vectors that it reads; an empty string for none."""
        return self.variant if self.variant.endswith(_FILES) and not self.is_tower else ""

    @property
    def names_path(self) -> bool:
        """Whether it names a local path rather than a model.

        >>> names = ("onnx:/models/clip", "open_clip:ViT-B-32/../mine.pt", "timm:vit")
        >>> [EncoderSpec.parse(name).names_path for name in names]
        [True, True, False]
        """
        places = map(Path, (self.variant, self.variant.partition("/")[2]))
        return any(place.anchor or ".." in place.parts or str(place).startswith("~") for place in places)

    @property
    def untuned(self) -> EncoderSpec:
        """The encoder with its original weights."""
        return replace(self, weights="")

    @property
    def title(self) -> str:
        """The name without local folders."""
        path = Path(self.variant)
        return f"{self.name}:{path.name}" if path.is_absolute() or self.name == EXPORTED else str(self)

    def __str__(self) -> str:
        weights = f"@{self.weights}" if self.weights else ""
        return self.name + weights + (f":{self.variant}" if self.variant else "")


PRECOMPUTED = EncoderSpec("precomputed")  # instead of an encoder: the features that come with a corpus


def is_two_tower(name: str) -> bool:
    """Return whether the name of a run is that of a library's model; nothing is loaded.

    >>> is_two_tower("open_clip:ViT-B-32/laion2b_s34b_b79k"), is_two_tower("runs/mine")
    (True, False)
    """
    found = _NAME.fullmatch(name)
    return found is not None and found[1] in _TOWERS and found[3] is not None
