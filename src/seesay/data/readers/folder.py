"""A plain folder of images, at any depth, without sentences."""

from __future__ import annotations

from pathlib import Path

from seesay.data.readers import Reader, register_reader
from seesay.data.readers.builder import CorpusBuilder, read_options
from seesay.data.readers.files import tables_in
from seesay.data.sources import FileSource
from seesay.data.suffixes import IMAGE_SUFFIXES, unread_kind
from seesay.data.walk import LINK_OUT, walk_files
from seesay.errors import SeesayError

UNREADABLE_KIND = "file in an unsupported format"


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
        return path.is_dir() and not tables_in(path) and any(map(_is_image, walk_files(path)))

    def add(self, path: Path, builder: CorpusBuilder) -> None:
        if not path.is_dir():
            raise SeesayError(f"{path}: expected a folder of images.")
        root = path.resolve()

        def problem(file: Path, reason: str, _unread: bool) -> None:
            if _is_image(file) or file.is_dir():
                hint = " (--allow-outside takes it)" if reason == LINK_OUT else ""
                builder.issues.add(f"{reason}, ignored{hint}", str(file))

        # Links are followed as in an index.
        for file in walk_files(root, None if read_options().outside else problem):
            if _is_image(file):
                builder.image(file.relative_to(root).as_posix(), "test", FileSource(file))
            elif unread_kind(file.name):
                builder.issues.add(UNREADABLE_KIND, str(file))


def _is_image(file: Path) -> bool:
    return file.suffix.lower() in IMAGE_SUFFIXES
