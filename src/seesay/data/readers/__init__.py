"""Readers of the field's formats; every module of this package is imported, and registers its readers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from seesay.data.corpus import Corpus, PhraseCorpus
from seesay.data.finder import outside_allowed
from seesay.data.readers.base import PHRASE_READERS, READERS, choose_reader
from seesay.data.remote import as_remote, path_of
from seesay.errors import SeesayError

for _module in iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)


def read_corpus(path: str | Path, format: str | None = None, allow_outside: bool = False) -> Corpus:
    """Read a corpus from a folder, or from its JSON, table, token file or tar.

    Args:
        path: the folder or file, maybe a URL, such as "s3://bucket/photos".
        format: the name of a reader; without it, the first reader that recognises the path.
        allow_outside: take images that the corpus names by absolute paths outside of its folder.

    Returns:
        The corpus; its `issues` count everything that was dropped, merged or odd.

    Raises:
        SeesayError: nothing is there, no reader recognises it, the format is unknown, or the data cannot be
            read.

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
    """
    with _reading(path, allow_outside):
        path = _existing(path)
        return choose_reader(READERS, path, format).read(path)


def read_phrases(
    path: str | Path,
    images: str | Path | None = None,
    format: str | None = None,
    allow_outside: bool = False,
) -> PhraseCorpus:
    """Read a phrase corpus from a folder or a table; boxes are in pixels of the images that are found.

    Args:
        path: the folder or file.
        images: where images are looked for, in folders and tars; without it, beside the phrases.
        format: the name of a reader; without it, the first reader that recognises the path.
        allow_outside: take images that the corpus names by absolute paths outside of `images`.

    Raises:
        SeesayError: nothing is there, no reader recognises it, the format is unknown, or the data cannot be
            read.

    Example:
        >>> from tempfile import mkdtemp
        >>> from seesay.data.scenes import write_scenes
        >>> folder = mkdtemp()
        >>> write_scenes(folder, images=10, seed=0)
        >>> phrases = read_phrases(folder)
        >>> len(phrases.images), phrases.phrases[0].text
        (10, 'a small blue square')
    """
    with _reading(path, allow_outside):
        path = _existing(path)
        images = _existing(images) if images is not None else path if path.is_dir() else path.parent
        return choose_reader(PHRASE_READERS, path, format).read(path, images)


def open_corpus(
    path: str | Path, *, phrases: bool, images: str | Path | None = None, format: str | None = None
) -> Corpus | PhraseCorpus:
    """Read what a recipe learns from: captioned images, or with `phrases` phrases with boxes."""
    return read_phrases(path, images, format) if phrases else read_corpus(path, format)


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
