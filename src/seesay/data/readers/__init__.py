"""Readers of the field's formats, one module each, and the choice among them.

A reader has `NAME`, `LOOKS_LIKE`, `recognises(path) -> bool` and `read(path) -> Corpus`; to add one, write
the module and put it into `READERS`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from seesay.data.corpus import Corpus
from seesay.data.readers import captions, coco, flickr_token, folder, karpathy, precomp, table, webdataset
from seesay.data.readers._choice import choose
from seesay.errors import SeesayError


class Reader(Protocol):
    """What a module of this package offers."""

    NAME: str
    LOOKS_LIKE: str

    def recognises(self, path: Path) -> bool:
        """Whether the path looks like this format; cheap."""
        ...

    def read(self, path: Path) -> Corpus:
        """The corpus; raises SeesayError."""
        ...


# In the order in which they are asked: the sure signs first, "any images" last.
READERS: tuple[Reader, ...] = (karpathy, coco, flickr_token, precomp, captions, table, webdataset, folder)


def read_corpus(path: Path, format: str | None = None) -> Corpus:
    """Read a corpus from a folder, or from the JSON, table, token file or tar itself.

    The reader is the first that recognises the path; `format` names one instead.

    Raises:
        SeesayError: nothing there, no reader recognises it, the format is unknown, or its reader cannot
            read it.
    """
    path = Path(path).expanduser()
    if not path.exists():
        raise SeesayError(f"{path}: no such folder or file.")
    try:
        return choose(READERS, path, format, "corpus").read(path)
    except OSError as error:
        raise SeesayError(f"{error.filename or path}: cannot be read ({error.strerror}).") from error
