"""Readers of the field's formats. Every module of this package is imported and registers its readers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from seesay.data.corpus import Corpus
from seesay.data.finder import outside_allowed
from seesay.data.readers.base import choose_reader
from seesay.data.remote import as_remote, path_of
from seesay.errors import SeesayError

for _module in iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)


def read_corpus(
    path: str | Path,
    format: str | None = None,
    *,
    phrases: bool = False,
    images: str | Path | None = None,
    allow_outside: bool = False,
) -> Corpus:
    """Read a corpus from a folder, or from its JSON, table, token file or tar.

    Args:
        path: the folder or file, or a URL such as "s3://bucket/photos".
        format: the name of a reader; by default, the first reader that recognises the path.
        phrases: read phrases with boxes, in pixels of the images that are found, and not sentences.
        images: the folder to search for images, in folders and tars; by default, beside the sentences.
        allow_outside: accept images that the corpus names by absolute paths outside its folder.

    Returns:
        The corpus; its `issues` count everything that was dropped, merged or odd.

    Raises:
        SeesayError: the path does not exist, no reader recognises it, the format is unknown, or the data
            cannot be read.

    Example:
        >>> from tempfile import mkdtemp
        >>> from seesay.data.scenes import write_scenes
        >>> folder = mkdtemp()
        >>> write_scenes(folder, images=10, seed=0)
        >>> corpus = read_corpus(folder)
        >>> len(corpus.images), len(corpus.sentences), len(corpus.split("test").images)
        (10, 50, 1)
        >>> corpus.sentences[0].text
        'a small blue square is to the left of a small yellow circle'
        >>> read_corpus(folder, phrases=True).sentences[0].text
        'a small blue square'
    """
    with _reading(path, allow_outside):
        path = _existing(path)
        below = _existing(images) if images is not None else None
        return choose_reader(path, format, phrases).read(path, below)


@contextmanager
def _reading(path: str | Path, allow_outside: bool) -> Iterator[None]:
    try:
        with outside_allowed() if allow_outside else nullcontext():
            yield
    except OSError as error:
        raise SeesayError(f"{error.filename or path}: cannot be read ({error.strerror}).") from error


def _existing(path: str | Path) -> Path:
    path = path_of(path).expanduser()
    if remote := as_remote(path):
        remote.forget()
    if not path.exists():
        raise SeesayError(f"{path}: no such folder or file.")
    return path
