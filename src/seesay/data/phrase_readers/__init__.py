"""Readers of phrase corpora, one module each, and the choice among them.

A reader has `NAME`, `LOOKS_LIKE`, `recognises(path) -> bool` and `read(path, images) -> PhraseCorpus`; to
add one, write the module and put it into `READERS`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from seesay.data.phrase_readers import flickr30k_entities, refcoco, table
from seesay.data.phrases import PhraseCorpus
from seesay.data.readers._choice import choose
from seesay.errors import SeesayError


class Reader(Protocol):
    """What a module of this package offers."""

    NAME: str
    LOOKS_LIKE: str

    def recognises(self, path: Path) -> bool:
        """Whether the path looks like this format; cheap."""
        ...

    def read(self, path: Path, images: Path) -> PhraseCorpus:
        """The phrase corpus; raises SeesayError."""
        ...


READERS: tuple[Reader, ...] = (flickr30k_entities, refcoco, table)


def read_phrases(path: Path, images: Path | None = None, format: str | None = None) -> PhraseCorpus:
    """Read a phrase corpus from a folder or a table; boxes come out in pixels of the images at hand.

    Images are looked for below `images`, in folders and tars, or beside the phrases. The reader is the first
    that recognises the path; `format` names one instead.

    Raises:
        SeesayError: nothing there, no reader recognises it, the format is unknown, or its reader cannot
            read it.
    """
    path = Path(path).expanduser()
    images = Path(images).expanduser() if images is not None else path if path.is_dir() else path.parent
    for place in (path, images):
        if not place.exists():
            raise SeesayError(f"{place}: no such folder or file.")
    try:
        return choose(READERS, path, format, "phrase corpus").read(path, images)
    except OSError as error:
        raise SeesayError(f"{error.filename or path}: cannot be read ({error.strerror}).") from error
