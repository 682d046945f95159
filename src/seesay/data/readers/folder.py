"""A plain folder of images, at any depth, without sentences."""

from __future__ import annotations

from pathlib import Path

from seesay.data.corpus import Corpus
from seesay.data.pixels import IMAGE_SUFFIXES
from seesay.data.readers._builder import CorpusBuilder
from seesay.data.readers._finder import walk_files
from seesay.data.sources import FileSource
from seesay.errors import SeesayError

NAME = "folder"
LOOKS_LIKE = "any images"
UNREADABLE_KIND = "file of a kind that seesay does not read"
# Kinds that people keep among their photos and expect to find again: say so, rather than pass them over.
_UNREADABLE = frozenset(
    {
        *(".heic", ".heif", ".jxl", ".svg", ".psd"),
        *(".raw", ".cr2", ".cr3", ".nef", ".arw", ".dng", ".orf", ".rw2"),
    }
)


def recognises(path: Path) -> bool:
    """A folder with an image file somewhere below it."""
    return path.is_dir() and any(file.suffix.lower() in IMAGE_SUFFIXES for file in walk_files(path))


def read(path: Path) -> Corpus:
    """Read the folder; images are named by their path below it.

    All are in split `test`: without sentences nothing can be trained on them, and `test` is what commands
    that only look at images read by default.

    Raises:
        SeesayError: no folder, or no image in it.
    """
    if not path.is_dir():
        raise SeesayError(f"{path}: a folder of images is wanted.")
    builder = CorpusBuilder(path.resolve().name, path)
    for file in walk_files(path):
        suffix = file.suffix.lower()
        if suffix in IMAGE_SUFFIXES:
            builder.image(file.relative_to(path).as_posix(), "test", FileSource(file))
        elif suffix in _UNREADABLE:
            builder.issues.add(UNREADABLE_KIND, str(file))
    return builder.finish()
