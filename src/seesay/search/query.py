"""Queries: sentences, images and indexed images, added and subtracted with weights.

    query    = [sign] part {sign part}
    sign     = "+" or "-" at the beginning or after a space, before a space, a letter, a quote or a weight
    part     = [number "*"] term; without a number it has weight 1 after "+", 0.5 after "-"
    term     = '"' sentence '"'  |  "id:" number  |  "image:" path  |  path of an image  |  sentence

Hyphens inside words, dashes, negative numbers, and characters inside quotes are not signs.

For a search, misspelt words are corrected, and the parts are embedded and summed (`prepare_query`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from seesay.arrays import Vector
from seesay.data.formats import IMAGE_SUFFIXES, unread_kind
from seesay.data.images import DecodedImage, EncodedImage, FileSource
from seesay.data.texts import LONE_SURROGATE, composed
from seesay.errors import ImageError, QueryError
from seesay.runs.run import Run
from seesay.search.store import Store, finite
from seesay.text.tokens import QUOTED, replace_words
from seesay.text.words import description_in

MAX_PARTS = 16
MAX_CHARACTERS = 10_000
MAX_WEIGHT = 100.0
# Without a number. A part subtracted with weight 1 loses much of what is wanted, too: things that occur
# together have similar vectors.
_WEIGHTS = {"+": 1.0, "-": 0.5}

_NUMBER = r"(?:[0-9]{1,9}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})"
_SIGN = re.compile(rf'(?:^|(?<=\s))[+-](?=\s|$|"|[^\W\d_]|{_NUMBER} ?\*)')
_WEIGHT = re.compile(rf"({_NUMBER}) ?\*\s*(?=\S)")
_FILE_NAME = re.compile(r"(?=.*(?:[\d_]|\.\w))[\w().~-]{4,200}")
_MOST_SHOWN = 60  # characters of a query in a message
_TINY = 1e-12
_CANCELLED = 1e-4  # of the sum of weights: what is left is the error of half-precision vectors


@dataclass(frozen=True, slots=True)
class Text:
    """A description of what images show; a quoted one is not corrected."""

    text: str
    quoted: bool = False

    def __str__(self) -> str:
        """Return the term, in quotes if it is quoted or would otherwise be parsed differently."""
        return f'"{self.text}"' if self.quoted or not _is_plain(self.text) else self.text


@dataclass(frozen=True, slots=True)
class Image:
    """An image: the path of its file, or its encoded bytes."""

    source: Path | bytes

    def __str__(self) -> str:
        """Return the term."""
        if isinstance(self.source, bytes):
            return "image:…"
        name = str(self.source)
        return f"image:{name}" if list(_split(name)) == [("+", name)] else f'image:"{name}"'


@dataclass(frozen=True, slots=True)
class Indexed:
    """An image of the index by its id."""

    id: int

    def __str__(self) -> str:
        """Return the term."""
        return f"id:{self.id}"


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """Anything with a known vector (dim,) and a name; not part of the grammar."""

    name: str
    vector: NDArray[np.float32]

    def __str__(self) -> str:
        """Return the name."""
        return self.name


Term: TypeAlias = Text | Image | Indexed | Embedded


@dataclass(frozen=True, slots=True)
class Part:
    """A term and its weight, which is negative for unwanted parts."""

    term: Term
    weight: float = 1.0

    def __str__(self) -> str:
        """Return the part with its sign, as after another part."""
        sign, size = "-" if self.weight < 0 else "+", abs(self.weight)
        written = str(self.term)
        plain = size == _WEIGHTS[sign] and not _WEIGHT.match(written)
        return f"{sign} {written}" if plain else f"{sign} {_number(size)}*{written}"


@dataclass(frozen=True, slots=True)
class Query:
    """A query: one or more parts, at least one with a positive weight.

    Example:
        >>> from seesay.search.query import Query
        >>> for part in Query.parse("2*sunset + photo.jpg - people on a beach").parts:
        ...     print(part.weight, part.term)
        2.0 sunset
        1.0 image:photo.jpg
        -0.5 people on a beach
        >>> len(Query.parse("a t-shirt").parts)
        1
    """

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        """Raise a QueryError for too many parts, no wanted part, or a weight out of range."""
        if len(self.parts) > MAX_PARTS:
            raise QueryError(f"The query has {len(self.parts)} parts; the limit is {MAX_PARTS}.")
        for part in self.parts:
            if not 0 < abs(part.weight) <= MAX_WEIGHT:
                raise QueryError(
                    f"The weight of '{_shortened(str(part.term))}' is {_number(abs(part.weight))}; use "
                    f"a weight above 0 and at most {MAX_WEIGHT:g}."
                )
        if not any(part.weight > 0 for part in self.parts):
            raise QueryError("The query only subtracts; add something to search for.")

    def __str__(self) -> str:
        """Return the query as `parse` reads it."""
        return " ".join(map(str, self.parts)).removeprefix("+ ")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a query.

        Raises:
            QueryError: the query is empty or too long, has too many, empty or no wanted parts, or an invalid
                weight or id.
        """
        if not text.strip():
            raise QueryError("The sentence is empty; describe what the images show.")
        if len(text) > MAX_CHARACTERS:
            raise QueryError(f"The query has {len(text)} characters; the limit is {MAX_CHARACTERS}.")
        return cls(tuple(_part(sign, written, text) for sign, written in _split(text)))

    @classmethod
    def of(cls, query: str | Path | bytes | Query) -> Query:
        """Return the query of a text, an image's file or encoded image, or the query itself."""
        if isinstance(query, str):
            return cls.parse(query)
        return query if isinstance(query, Query) else Query((Part(Image(query)),))

    @property
    def sentences(self) -> list[str]:
        """The sentences among the parts."""
        return [part.term.text for part in self.parts if isinstance(part.term, Text)]

    @property
    def wanted(self) -> list[str]:
        """The sentences with positive weights."""
        return [part.term.text for part in self.parts if isinstance(part.term, Text) and part.weight > 0]

    @property
    def name(self) -> str | None:
        """The query if it is a single word that looks like a file's name, such as IMG_2021; else None."""
        words = self.unquoted if len(self.parts) == 1 else []
        return words[0] if words and _FILE_NAME.fullmatch(words[0]) else None

    @property
    def unquoted(self) -> list[str]:
        """The sentences that are not in quotes."""
        return [part.term.text for part in self.parts if isinstance(part.term, Text) and not part.term.quoted]

    def reworded(self, reword: Callable[[str], str]) -> Query:
        """Return the query with other texts of its sentences, except of those in quotes."""

        def part_of(part: Part) -> Part:
            if not isinstance(part.term, Text) or part.term.quoted:
                return part
            return replace(part, term=Text(reword(part.term.text)))

        return Query(tuple(map(part_of, self.parts)))

    @property
    def is_text(self) -> bool:
        """Whether all parts are sentences."""
        return len(self.sentences) == len(self.parts)


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
            try:
                rows.append(embed_image(run, term.source))
            except ImageError as error:
                if isinstance(term.source, bytes) or os.path.exists(term.source):  # noqa: PTH110 — or too long
                    raise
                what = f'{error} If this is no image but a sentence, put it in "quotes".'
                raise ImageError(what) from error
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


def _split(text: str) -> Iterator[tuple[str, str]]:
    """Yield each part with its sign, "+" or "-"."""
    # Quoted text has no signs: it is covered by letters of the same length while they are looked for.
    covered = QUOTED.sub(lambda found: '"' + "x" * (len(found[0]) - 2) + '"', text)
    signs = list(_SIGN.finditer(covered))
    first, *others = [*(sign.start() for sign in signs), len(text)]
    if text[:first].strip():
        yield "+", text[:first]
    for sign, end in zip(signs, others, strict=True):
        yield sign[0], text[sign.end() : end]


def _part(sign: str, written: str, query: str) -> Part:
    written = written.strip()
    if not written:
        raise QueryError(
            f"'{_shortened(query)}': nothing follows a '{sign}'; name what to {_VERBS[sign]}, or put a "
            'sentence with that sign in "quotes".'
        )
    weight = _WEIGHTS[sign]
    if found := _WEIGHT.match(written):
        weight, written = float(found[1]), written[found.end() :]
    return Part(_term(written), -weight if sign == "-" else weight)


_VERBS = {"+": "add", "-": "take away"}


def _term(written: str) -> Term:
    if QUOTED.fullmatch(written):
        text = written[1:-1].strip()
        if not text:
            raise QueryError("The sentence in quotes is empty; describe what the images show.")
        return _sentence(text, quoted=True)
    kind, colon, value = written.partition(":")
    kind, value = kind.lower() + colon, value.strip()
    if kind == "id:":
        if not re.fullmatch(r"[0-9]{1,18}", value):
            raise QueryError(f"'{_shortened(written)}': an id is a number, such as id:12.")
        return Indexed(int(value))
    if kind == "image:":
        path = value[1:-1] if QUOTED.fullmatch(value) else value
        if not path.strip() or "\0" in path:
            raise QueryError(f"'{_shortened(written)}': name an image file, such as image:photo.jpg.")
        return Image(Path(path))
    named = Path(written).suffix.lower() in IMAGE_SUFFIXES or unread_kind(written)
    return Image(Path(written)) if named and "\0" not in written else _sentence(written)


def _sentence(text: str, quoted: bool = False) -> Text:
    if LONE_SURROGATE.search(text):
        shown = _shortened(ascii(text)[1:-1])
        raise QueryError(f"'{shown}': contains a lone surrogate, not a character; type it again.")
    return Text(composed(text), quoted)


def _is_plain(text: str) -> bool:
    """Whether a sentence needs no quotes after a sign and a weight.

    A server reads the name of an image file as a sentence, and shows it as it was typed.
    """
    try:
        return list(_split(text)) == [("+", text)] and _term(text) in (Text(text), Image(Path(text)))
    except QueryError:
        return False


def _number(value: float) -> str:
    return f"{value:.9f}".rstrip("0").rstrip(".")


def _shortened(text: str) -> str:
    text = " ".join(text.split())  # messages are one line
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
