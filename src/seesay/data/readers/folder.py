"""A plain folder of images, at any depth, without sentences."""

from __future__ import annotations

from pathlib import Path

from seesay.data.readers import Reader, register_reader
from seesay.data.readers.builder import CorpusBuilder
from seesay.data.readers.tables import tables_in
from seesay.data.suffixes import is_image
from seesay.data.walk import walk_files
from seesay.errors import SeesayError


@register_reader
class FolderReader(Reader):
    """Reads images, named by their path below the folder.

    All images are in split `test`: without sentences they cannot be used for training, and commands that only
    look at images read `test` by default.
    """

    name = "folder"
    looks_like = "any images"
    order = 1000

    def recognises(self, path: Path) -> bool:
        return path.is_dir() and not tables_in(path) and any(map(is_image, walk_files(path, outside=True)))

    def add(self, path: Path, builder: CorpusBuilder) -> None:
        if not path.is_dir():
            raise SeesayError(f"{path}: expected a folder of images.")
        for name, source in builder.finder.take_all():
            builder.image(name, "test", source)
