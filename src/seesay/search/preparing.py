"""Queries made ready for a search: corrected, and their parts embedded and summed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seesay.arrays import Vector
from seesay.data.images import DecodedImage, EncodedImage, FileSource
from seesay.errors import ImageError, QueryError, SeesayError
from seesay.runs.run import Run
from seesay.search.query import Embedded, Image, Query, Text
from seesay.search.store import Store
from seesay.text.tokens import replace_words
from seesay.text.words import description_in

_TINY = 1e-12
_CANCELLED = 1e-4  # of the sum of weights: what is left is the error of half-precision vectors


@dataclass(frozen=True, slots=True, eq=False)
class PreparedQuery:
    """A query with everything that a search needs.

    One part is searched for as it is. Several are the weighted sum of their unit vectors, scaled to the mean
    length of the wanted ones, so that weights mean the same for all parts, and scores the same as for one.

    Attributes:
        given: the query.
        query: the query with misspelt words corrected and, for calibrated runs, without words that ask for
            photos.
        corrected: the misspelt words and their corrections, in lower case.
        unknown: unknown words, in lower case.
        rows: the vectors (dim,) of its parts.
        vector: of the whole query, (dim,).
    """

    given: Query
    query: Query
    corrected: Mapping[str, str]
    unknown: Sequence[str]
    rows: Sequence[Vector]
    vector: Vector


def prepare_query(query: Query, run: Run, store: Store) -> PreparedQuery:
    """Correct and embed a query; all its sentences are embedded at once.

    Raises:
        SeesayError: a part cannot be embedded, or the parts cancel each other out.
    """
    corrected = run.corrections(query.unquoted) if query.unquoted else {}
    meant = query.reworded(lambda text: replace_words(text, corrected)) if corrected else query
    if run.calibration is not None:  # fitted to captions, which do not ask for photos
        meant = meant.reworded(description_in)
    sentences = iter(finite(run.embed_sentences(meant.sentences, query=True)) if meant.sentences else ())
    rows = list[Vector]()
    for term in (part.term for part in meant.parts):
        if isinstance(term, Text):
            rows.append(next(sentences))
        elif isinstance(term, Embedded):
            rows.append(term.vector)
        elif isinstance(term, Image):
            rows.append(_image(term, run))
        elif (row := store.vector(term.id)) is not None:
            rows.append(row)
        else:
            raise QueryError(f"{term}: no such image in the index; search for its id again.")
    unknown = run.unknown_words(meant.sentences) if meant.sentences else []
    return PreparedQuery(query, meant, corrected, unknown, rows, _sum(meant, rows))


def embed_image(run: Run, image: DecodedImage | bytes | str | Path, query: bool = False) -> Vector:
    """Return the vector (dim,) of a photo, an encoded image or an image file, perhaps as a query.

    Raises:
        ImageError: the image cannot be read or decoded.
    """
    if not isinstance(image, DecodedImage):
        name = "the image" if isinstance(image, bytes) else str(image)
        data = image if isinstance(image, bytes) else FileSource(Path(image)).read()
        image = EncodedImage(data, name).decoded(run.side)
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


def _image(term: Image, run: Run) -> Vector:
    try:
        return embed_image(run, term.source)
    except ImageError as error:
        if isinstance(term.source, bytes) or os.path.exists(term.source):  # noqa: PTH110 — or it is too long
            raise
        raise ImageError(f'{error} If this is no image but a sentence, put it in "quotes".') from error


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
