"""Readers: the interface, the two registries, and the choice among the readers of one kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, TypeVar

from seesay.data.corpus import Corpus, PhraseCorpus
from seesay.errors import SeesayError
from seesay.registry import Registry


class Reader(ABC):
    """Reads one format.

    Attributes:
        name: the name of the format, as `--format` takes it.
        looks_like: what a folder of this format holds, in a few words, for error messages.
        order: readers are asked in ascending order whether they recognise a path, so formats with an
            unmistakable sign stand first. `folder`, which takes any images, is asked last, at 1000.
    """

    name: ClassVar[str]
    looks_like: ClassVar[str]
    order: ClassVar[int] = 100

    def files(self, path: Path) -> list[Path]:  # noqa: ARG002
        """Return the path itself if it is a file of this format, or the files of this format in a folder."""
        return []

    def recognises(self, path: Path) -> bool:
        """Return True if a file or folder looks like this format: by default, if it has such `files`."""
        return bool(self.files(path))

    def find(self, path: Path, single: bool = False) -> list[Path]:
        """Return the path itself if it is a file, or else the files of this format in the folder.

        Raises SeesayError if there is none, or with `single` more than one.
        """
        files = [path] if path.is_file() else self.files(path)
        if not files:
            raise SeesayError(f"{path}: no {self.looks_like} there.")
        if single and len(files) > 1:
            names = ", ".join(file.name for file in files)
            raise SeesayError(f"{path}: expected one {self.looks_like}, found {names}; give the file's path.")
        return files


class CorpusReader(Reader):
    """Reads captioned images."""

    @abstractmethod
    def read(self, path: Path) -> Corpus:
        """Read a corpus; raise SeesayError if that cannot be done."""


class PhraseReader(Reader):
    """Reads phrases with boxes."""

    @abstractmethod
    def read(self, path: Path, images: Path) -> PhraseCorpus:
        """Read a phrase corpus whose images lie below `images`; raise SeesayError if that cannot be done."""


READERS = Registry[CorpusReader]("format", "seesay.readers")
PHRASE_READERS = Registry[PhraseReader]("format of phrases", "seesay.phrase_readers")

R = TypeVar("R", bound=Reader)
C = TypeVar("C", bound=type[CorpusReader])
P = TypeVar("P", bound=type[PhraseReader])


def register_reader(reader: C) -> C:
    """Register a class that reads corpora under its `name`; for use as a decorator."""
    READERS.register(reader.name)(reader())
    return reader


def register_phrase_reader(reader: P) -> P:
    """Register a class that reads phrase corpora under its `name`; see `register_reader`."""
    PHRASE_READERS.register(reader.name)(reader())
    return reader


def choose_reader(readers: Registry[R], path: Path, format: str | None) -> R:
    """Return the reader of that format, or the first that recognises the path; raise SeesayError if none."""
    if format is not None:
        return readers[format]
    in_order = sorted(readers.values(), key=lambda reader: reader.order)
    for reader in in_order:
        if reader.recognises(path):
            return reader
    known = "; ".join(f"{reader.name}: {reader.looks_like}" for reader in in_order)
    raise SeesayError(f"{path}: not in a {readers.what} that seesay recognises. It reads {known}.")
