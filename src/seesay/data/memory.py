"""Corpora from memory: images with sentences as a program has them, such as rows of `datasets`."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from seesay.data.corpus import Corpus
from seesay.data.images import content_key
from seesay.data.readers.builder import CorpusBuilder
from seesay.data.readers.files import canonical_split
from seesay.data.sources import FileSource, MemorySource, Source
from seesay.errors import SeesayError
from seesay.paths import home_expanded


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
    builder = CorpusBuilder(Path(name))
    builder.name, builder.root = name, Path(name)
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
        at = builder.image(known, canonical_split(split, where) if split else None, source)
        builder.issues.rows += 1
        builder.row(said, at, known, where)
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
