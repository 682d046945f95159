"""Readers of common corpus formats. Every module of this package is imported and registers its readers."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, ClassVar, TypeVar

import numpy as np
from PIL import Image

from seesay.data.corpus import Corpus, canonical_split
from seesay.data.formats import ARCHIVE, unpacking, unread_kind
from seesay.data.images import FileSource, MemorySource, Source, content_key
from seesay.data.readers.builder import CorpusBuilder
from seesay.data.readers.shards import SHARD, members_of
from seesay.data.readers.table_files import tables_in
from seesay.data.walk import walk_files
from seesay.errors import SeesayError
from seesay.paths import home_expanded
from seesay.registry import Registry


def read_corpus(
    path: str | Path,
    format: str | None = None,
    *,
    phrases: bool = False,
    images: str | Path | None = None,
    allow_outside: bool = False,
    image_column: str | None = None,
    caption_column: str | None = None,
    subset: int | None = None,
) -> Corpus:
    r"""Read a corpus from a folder, or from a JSON file, table, token file or shard.

    Args:
        path: the folder or file.
        format: the name of a reader; by default, the first reader that recognises the path.
        phrases: read phrases with boxes, in pixels of the images that are found, instead of sentences.
        images: the folder to search for images, and its folders; by default, that of the sentences.
        allow_outside: accept images that the corpus names by absolute paths or links outside its folder.
        image_column: the column of a table that names the images, if it has an unusual name.
        caption_column: the column of a table that holds the sentences; `text` also means `text1`, `text2`, ….
        subset: the number of images to keep, drawn by a hash of their names: the same ones everywhere.

    Returns:
        The corpus; its `issues` count everything that was dropped, merged or unusual.

    Raises:
        SeesayError: the path does not exist, no reader recognises it, the format is unknown, or the data
            cannot be read.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import mkdtemp
        >>> from PIL import Image
        >>> from seesay import read_corpus
        >>> folder = Path(mkdtemp())
        >>> Image.new("RGB", (64, 64), "red").save(folder / "red.jpg")
        >>> _ = (folder / "captions.csv").write_text("image,caption,split\nred.jpg,a red square,test\n")
        >>> read_corpus(folder).sentences[0].text
        'a red square'
    """
    try:
        path = _existing(path)
        below = _existing(images) if images is not None else None
        if below is not None:
            _check_unpacked([below])
        columns = {"image_column": image_column, "caption_column": caption_column}
        named = [name for name, column in columns.items() if column]
        if named and not phrases:
            format = format or "table"
        reader = choose_reader(path, format, phrases)
        if named and not reader.names_columns:
            raise SeesayError(f"{reader.name} has no columns to be named; leave out {' and '.join(named)}.")
        builder = CorpusBuilder(path, below, allow_outside, **columns)
        builder.uses(*reader.files(path))
        reader.add(path, builder)
        corpus = builder.finish()
        return corpus if subset is None else corpus.subset(subset)
    except OSError as error:
        raise SeesayError(f"{error.filename or path}: cannot be read ({error.strerror}).") from error


def corpus_of(rows: Iterable[tuple[Any, str | Sequence[str], str | None]], name: str = "memory") -> Corpus:
    """Make a corpus of images with sentences.

    Rows with the same image are sentences of one image. Images that are not files are encoded in memory.

    Args:
        rows: for each an image (a path, encoded bytes, a PIL image, an array (h, w, 3) of bytes, or a mapping
            with `bytes` or `path`, as `datasets` has without decoding), its sentence or sentences, and its
            split; without any split, images are divided 80/10/10 by a hash of their names.
        name: the name of the corpus.

    Raises:
        SeesayError: a row is none, or there are no rows.

    Example:
        >>> from PIL import Image
        >>> from seesay import corpus_of
        >>> red, blue = Image.new("RGB", (8, 8), "red"), Image.new("RGB", (8, 8), "blue")
        >>> corpus_of([(red, ["a red square", "red"], "train"), (blue, "a blue square", "test")])
        <Corpus 'memory': 2 images, 3 sentences>
    """
    builder = CorpusBuilder(Path(f"{name} (in memory)"))  # no folder, which a run would be measured on
    builder.name = name
    names = dict[str, str]()
    for number, row in enumerate(rows):
        where = f"rows[{number}]"
        try:
            image, sentences, split = row
            source = _source(image)
            said = [sentences] if isinstance(sentences, str) else list(map(str, sentences))
        except (TypeError, ValueError, KeyError, OSError) as error:
            raise SeesayError(f"{where}: expected image, sentences and split ({error}).") from error
        key = str(source.path) if isinstance(source, FileSource) else content_key(source.read())
        known = names.setdefault(key, key if isinstance(source, FileSource) else f"{number:06d}")
        named = canonical_split(str(split), where) if split not in (None, "") else None
        at = builder.image(known, named, source)
        for sentence in said:
            builder.sentence(sentence, at, where)
    return builder.finish()


def _source(image: Any) -> Source:
    if isinstance(image, Mapping):
        image = image["path"] if image.get("bytes") is None else image["bytes"]
    if isinstance(image, str | Path):
        return FileSource(home_expanded(image))
    if isinstance(image, bytes):
        return MemorySource(image)
    picture = Image.fromarray(image) if isinstance(image, np.ndarray) else image
    if not isinstance(picture, Image.Image):
        raise TypeError(f"the image is {type(image).__name__}")
    profile, out = picture.info.get("icc_profile"), io.BytesIO()
    picture.save(out, "PNG", icc_profile=profile, exif=picture.getexif(), compress_level=1)
    return MemorySource(out.getvalue())


def _existing(path: str | Path) -> Path:
    path = home_expanded(path)
    if not path.exists():
        raise SeesayError(f"{path}: no such folder or file.")
    return path


def _check_unpacked(files: Iterable[Path]) -> None:
    for file in files:
        if unread_kind(file.name) == ARCHIVE:
            if file.suffix.lower() == SHARD:
                deque(members_of(file), maxlen=0)  # which says what is wrong with it
            raise SeesayError(
                f"{file}: an archive, which is read only if it is a plain .tar of images beside texts; "
                f"unpack it: {unpacking(file)}"
            )


class Reader(ABC):
    """Reads one format.

    Attributes:
        name: the name of the format, as `--format` takes it.
        has_boxes: True if it reads phrases with boxes, False if it reads sentences.
        looks_like: what a folder of this format contains, in a few words, for error messages.
        patterns: of the names of its files, below the folder.
        names_columns: True if the columns of images and of sentences can be named.
        order: readers try to recognise a path in ascending order. Distinctive formats come first, and
            `folder`, which accepts any images, last, at 1000.
    """

    name: ClassVar[str]
    looks_like: ClassVar[str]
    patterns: ClassVar[tuple[str, ...]] = ()
    has_boxes: ClassVar[bool] = False
    names_columns: ClassVar[bool] = False
    order: ClassVar[int] = 100

    def files(self, path: Path) -> list[Path]:
        """Return the path if it is a file of this format, or the files of this format in a folder."""
        if path.is_file():
            return [path] if any(map(path.match, self.patterns)) else []
        return sorted(file for pattern in self.patterns for file in path.glob(pattern))

    def recognises(self, path: Path) -> bool:
        """Return True if a file or folder looks like this format: by default, if it has any `files`."""
        return bool(self.files(path))

    def find(self, path: Path, single: bool = False) -> list[Path]:
        """Return the path if it is a file, or else the files of this format in the folder.

        Raises SeesayError if there is none or, with `single`, more than one.
        """
        files = [path] if path.is_file() else self.files(path)
        _check_unpacked(files or walk_files(path))
        if not files:
            raise SeesayError(f"{path}: contains no {self.looks_like}.")
        if single and len(files) > 1:
            names = ", ".join(file.name for file in files)
            raise SeesayError(f"{path}: expected one {self.looks_like}, found {names}; give the file's path.")
        return files

    @abstractmethod
    def add(self, path: Path, builder: CorpusBuilder) -> None:
        """Add the images and sentences of a path to the builder of a corpus.

        Raises:
            SeesayError: the corpus cannot be read.
        """


READERS = Registry[Reader]("format", "seesay.readers")

R = TypeVar("R", bound=type[Reader])


def register_reader(reader: R) -> R:
    """Decorator that registers a reader under its `name`."""
    READERS.register(reader.name)(reader())
    return reader


def choose_reader(path: Path, format: str | None, phrases: bool) -> Reader:
    """Return the reader of that format, or the first that recognises the path; see `read_corpus`."""
    if format is not None:
        if READERS[format].has_boxes != phrases:
            kind = "phrases with boxes" if phrases else "sentences"
            raise SeesayError(f"Format '{format}' does not contain {kind}; choose another.")
        return READERS[format]
    readers = [reader for reader in READERS.values() if reader.has_boxes == phrases]
    readers.sort(key=lambda reader: reader.order)
    for reader in readers:
        if reader.recognises(path):
            return reader
    for other in READERS.values():
        if other.has_boxes != phrases and other.name != "folder" and other.recognises(path):
            there, kind = ("sentences", "whole images") if phrases else ("phrases with boxes", "grounding")
            advice = (
                f"take a recipe or run for {kind}, or read it {'without' if phrases else 'with'} --phrases"
            )
            raise SeesayError(f"{path}: {there} ({other.name}); {advice}.")
    tables = [] if phrases else tables_in(path)
    of_shards = {table.stem for table in tables}  # img2dataset writes 00000.tar and 00000.parquet
    below = walk_files(path) if path.is_dir() else [path]
    _check_unpacked(file for file in below if not tables or file.name.partition(".")[0] in of_shards)
    if tables:
        return READERS["table"]  # it says which columns are missing
    known = "; ".join(f"{reader.name}: {reader.looks_like}" for reader in readers)
    what = "format of phrases" if phrases else "format"
    raise SeesayError(f"{path}: not in a {what} that seesay recognises. It reads {known}.")


for _module in iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)
