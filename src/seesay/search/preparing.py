"""Queries made ready for a search: corrected, and their parts embedded and summed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seesay.data.images import EncodedImage, Photo
from seesay.data.sources import FileSource
from seesay.errors import ImageError, QueryError, SeesayError
from seesay.runs.embedder import Embedder
from seesay.search.query import Embedded, Image, Indexed, Part, Query
from seesay.search.store import Store
from seesay.text.words import description_in

_TINY = 1e-12
_CANCELLED = 1e-4  # of the sum of weights: what is left is the error of half-precision vectors

Vector = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class PreparedQuery:
    """A query with everything that a search needs.

    One part is searched for as it is. Several are the weighted sum of their unit vectors, scaled to the mean
    length of the wanted ones, so that weights mean the same for all parts, and scores the same as for one.

    Attributes:
        query: the query with misspelt words corrected and, for calibrated runs, without words that ask for
            photos.
        corrected: the misspelt words and their corrections, in lower case.
        unknown: unknown words, in lower case.
        rows: the vectors (dim,) of its parts.
        vector: of the whole query, (dim,).
    """

    query: Query
    corrected: Mapping[str, str]
    unknown: Sequence[str]
    rows: Sequence[Vector]
    vector: Vector


def prepare_queries(
    queries: Sequence[Query], run: Embedder, store: Store
) -> list[PreparedQuery | SeesayError]:
    """Prepare queries, or return the error of each; all sentences are embedded at once.

    Args:
        queries: to prepare.
        run: that embeds.
        store: of the images that queries refer to by id.
    """
    words = [run.corrections(query.unquoted) if query.unquoted else {} for query in queries]
    meant = [query.corrected(each) if each else query for query, each in zip(queries, words, strict=True)]
    if run.calibration is not None:  # fitted to captions, which do not ask for photos
        meant = [query.reworded(description_in) for query in meant]
    texts = [text for query in meant for text in query.sentences]
    sentences = iter(finite(run.embed_sentences(texts, query=True)) if texts else ())
    found: list[PreparedQuery | SeesayError] = []
    for query, corrected in zip(meant, words, strict=True):
        own = iter([next(sentences) for _ in query.sentences])  # taken even if another part raises an error
        try:
            rows = [_row(part, own, run, store) for part in query.parts]
            unknown = run.unknown_words(query.sentences) if query.sentences else []
            found.append(PreparedQuery(query, corrected, unknown, rows, _sum(query, rows)))
        except SeesayError as error:
            found.append(error)
    return found


def embed_image(run: Embedder, image: Photo | bytes | str | Path, query: bool = False) -> Vector:
    """Return the vector (dim,) of a photo, an encoded image or an image file.

    Args:
        run: that embeds.
        image: to embed.
        query: embed it as a query for sentences.

    Raises:
        ImageError: the image cannot be read or decoded.
    """
    if not isinstance(image, Photo):
        name = "the image" if isinstance(image, bytes) else str(image)
        data = image if isinstance(image, bytes) else FileSource(Path(image)).read()
        image = EncodedImage(data, name).photo(run.side)
    row: Vector = finite(run.embed_photos([image], query))[0]
    return row


def _sum(query: Query, rows: Sequence[Vector]) -> Vector:
    if len(rows) == 1:
        return rows[0]
    weights, matrix = np.array([part.weight for part in query.parts]), np.array(rows)
    lengths = np.linalg.norm(matrix, axis=1)
    total = (weights / np.maximum(lengths, _TINY)) @ matrix
    length = float(np.linalg.norm(total))
    if length < _CANCELLED * np.abs(weights).sum():
        raise QueryError("The parts of the query cancel each other out; change their weights.")
    found: Vector = (total * np.average(lengths, weights=weights.clip(0)) / length).astype(np.float32)
    return found


def _image(term: Image, run: Embedder) -> Vector:
    try:
        return embed_image(run, term.source)
    except ImageError as error:
        if isinstance(term.source, bytes) or os.path.exists(term.source):  # noqa: PTH110 — or it is too long
            raise
        raise ImageError(f'{error} If this is no image but a sentence, put it in "quotes".') from error


def _row(part: Part, sentences: Iterator[Vector], run: Embedder, store: Store) -> Vector:
    if isinstance(part.term, Embedded):
        return part.term.vector
    if isinstance(part.term, Image):
        return _image(part.term, run)
    if isinstance(part.term, Indexed):
        row = store.vector(part.term.id)
        if row is None:
            raise QueryError(f"{part.term}: no such image in the index; search for its id again.")
        return row
    return next(sentences)


def is_finite(vectors: NDArray[np.float32]) -> bool:
    """Return whether all numbers are finite in half precision, in which an index stores them."""
    with np.errstate(over="ignore"):
        return bool(np.isfinite(vectors.astype(np.float16)).all())


def finite(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the vectors, or raise a `SeesayError` if one is not finite, see `is_finite`."""
    if not is_finite(vectors):
        raise SeesayError(
            "The matcher returned a vector that is not finite or too large for half precision; its weights "
            "may be damaged."
        )
    return vectors
