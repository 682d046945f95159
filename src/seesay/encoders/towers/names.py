"""Names of towers, `LIBRARY:MODEL` or `onnx:FOLDER`, and where their exports lie.

Imports neither PyTorch nor a library.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import NamedTuple

from seesay.encoders.towers.digest import TOWER
from seesay.errors import SeesayError, did_you_mean
from seesay.paths import cache_dir

# A library by the prefix of its names, and the module that loads its models.
LIBRARIES = {
    "open_clip": "seesay.encoders.towers.libraries.open_clip",
    "sentence-transformers": "seesay.encoders.towers.libraries.sentence_transformers",
    "timm": "seesay.encoders.towers.libraries.timm",
    "transformers": "seesay.encoders.towers.libraries.transformers",
}
IMAGES_ONLY = frozenset({"timm"})
# The prefix of a folder that holds an export: it is used as it is, without any library.
EXPORTED = "onnx"
PREFIXES = (*LIBRARIES, EXPORTED)

# What libraries read of a folder; notes and pictures beside it say nothing of the model.
_READ_SUFFIXES = frozenset({".json", ".model", ".safetensors"})
_READ_NAMES = frozenset({"merges.txt", "vocab.txt"})

_FORMAT = "1"  # of an export; another number exports again


def is_two_tower(name: str) -> bool:
    """Return whether a name is one of a library's models, or of an export; it is not loaded.

    Example:
        >>> is_two_tower("open_clip:ViT-B-32/laion2b_s34b_b79k"), is_two_tower("runs/mine")
        (True, False)
    """
    library, colon, _ = name.partition(":")
    return bool(colon) and library in PREFIXES


class TowerName(NamedTuple):
    """A library, and what it calls the model: a name of its hub, or a folder."""

    library: str
    which: str

    def __str__(self) -> str:
        return f"{self.library}:{self.which}"

    @property
    def title(self) -> str:
        """The name without the folders of this machine."""
        return f"{self.library}:{Path(self.which).name}" if Path(self.which).is_absolute() else str(self)

    @classmethod
    def parse(cls, name: str) -> TowerName:
        """Split a name at its first colon; the path of a folder, or of a file of weights, becomes absolute.

        Raises:
            SeesayError: it names no library or no model, or a folder that does not exist.

        >>> TowerName.parse("open_clip:ViT-B-32/laion2b_s34b_b79k").library
        'open_clip'
        >>> TowerName.parse("openclip:ViT-B-32")
        Traceback (most recent call last):
        seesay.errors.SeesayError: No library of towers 'openclip'; did you mean 'open_clip'? There are: op...
        """
        library, colon, which = name.partition(":")
        if library not in PREFIXES:
            near = did_you_mean(library, PREFIXES) or "."
            raise SeesayError(f"No library of towers '{library}'{near} There are: {', '.join(PREFIXES)}.")
        if not colon or not which:
            raise SeesayError(f"{name}: name a model too, as in {library}:MODEL.")
        if library == EXPORTED and not (Path(which).expanduser() / TOWER).is_file():
            raise SeesayError(
                f"{name}: no tower there (no {TOWER}); the folder of a run that "
                "`seesay export LIBRARY:MODEL --out FOLDER` wrote holds one in its folder `towers`."
            )
        if which.startswith((".", "/", "~")) and not Path(which).expanduser().is_dir():
            raise SeesayError(f"{name}: no such folder; name one that holds a model, or a model of the hub.")
        return cls(library, _absolute(which))

    def export_folder(self) -> Path:
        """Name the folder of this model's export, another one whenever its own files have changed."""
        if self.library == EXPORTED:
            return Path(self.which)
        digest = hashlib.blake2b(_FORMAT.encode(), digest_size=8)
        for path in self._files():
            stat = path.stat()
            digest.update(f"{path} {stat.st_size} {stat.st_mtime_ns}".encode())
        return self._any_export().with_name(f"{self._any_export().name}-{digest.hexdigest()}")

    def outdated(self) -> list[Path]:
        """List exports of this model from before its files changed."""
        current = self.export_folder()
        all_of_them = current.parent.glob(f"{self._any_export().name}-*")
        return [path for path in all_of_them if path != current and path.suffix != ".tmp"]

    def _any_export(self) -> Path:
        """Name the folder without the state of the model's files."""
        digest = hashlib.blake2b(self.which.encode(), digest_size=4).hexdigest()
        safe = re.sub(r"[^\w.-]+", "-", str(self)).strip("-.")[-80:]
        return cache_dir() / "towers" / f"{safe}-{digest}"

    def _files(self) -> list[Path]:
        """List the files that make the model in a folder, or the file of weights behind an architecture."""
        here = Path(self.which)
        if here.is_dir():
            return sorted(path for path in here.rglob("*") if _is_read(path) and path.is_file())
        weights = Path(self.which.partition("/")[2])
        return [weights] if weights.is_file() else []


def _is_read(path: Path) -> bool:
    return path.suffix in _READ_SUFFIXES or path.name in _READ_NAMES


def absolute_name(name: str) -> str:
    """Make the path in a name absolute, so that it means the same in every folder; others stay as they are.

    >>> absolute_name("transformers:google/siglip-base-patch16-224"), absolute_name("minilm")
    ('transformers:google/siglip-base-patch16-224', 'minilm')
    """
    kind, _, which = name.partition(":")
    if which.endswith(".onnx") and (detector := Path(which).expanduser()).is_file():
        return f"{kind}:{detector.resolve()}"
    return f"{kind}:{_absolute(which)}" if is_two_tower(name) else name


def _absolute(which: str) -> str:
    """Make the path of a folder absolute, or of the weights in `ARCHITECTURE/WEIGHTS`."""
    here = Path(which).expanduser()
    if here.is_dir():
        return str(here.resolve())
    architecture, _, weights = which.partition("/")
    if (file := Path(weights).expanduser()).is_file():
        return f"{architecture}/{file.resolve()}"
    return which
