"""Results of a query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from seesay.search.certainty import FITS, SURE
from seesay.search.photo import Root, shown_path

Certainty: TypeAlias = Literal["sure", "perhaps", "nothing"]

Ranked = tuple[NDArray[np.int64], NDArray[np.float32]]
"""Ids and scores (n,) of items, best first."""


@dataclass(frozen=True, slots=True)
class Hit:
    """An image or a sentence found for a query.

    Attributes:
        id: its number in the index.
        score: higher is a better match.
        probability: the probability of being right; None if undefined, as for a sentence found for an image.
        path: of an image, relative to the indexed folder, beginning with the folder's name if the index has
            several. None for a sentence.
        text: a sentence; None for an image.
        width: of an image, in pixels, upright.
        height: of an image.

    Example:
        >>> from seesay import Hit
        >>> Hit(id=3, score=0.41, path="sofa.jpg", text=None, width=640, height=480).to_dict()
        {'id': 3, 'score': 0.41, 'probability': None, 'path': 'sofa.jpg'}
    """

    id: int
    score: float
    path: str | None
    text: str | None
    width: int | None = None
    height: int | None = None
    probability: float | None = None

    @property
    def fits(self) -> bool:
        """False if the hit is probably wrong: its probability is below `FITS`."""
        return self.probability is None or self.probability >= FITS

    def to_dict(self, roots: Sequence[Root] = ()) -> dict[str, object]:
        """Return plain values for JSON; with `roots`, the path is that of the file."""
        probability = None if self.probability is None else round(self.probability, 4)
        values: dict[str, object] = {"id": self.id, "score": round(self.score, 4), "probability": probability}
        if self.path is None:
            return values | {"sentence": self.text}
        return values | {"path": shown_path(roots, self.path)}


@dataclass(frozen=True, slots=True)
class TextHit:
    """An image in which words of a query were read, which says nothing about what it shows.

    Attributes:
        id: see `Hit`, as for path, width and height.
        words: how many of the query's words were read.
        of: how many there are, see `content_words`.
    """

    id: int
    path: str
    width: int
    height: int
    words: int
    of: int

    def to_dict(self, roots: Sequence[Root] = ()) -> dict[str, object]:
        """Return plain values for JSON; with `roots`, the path is that of the file."""
        path = shown_path(roots, self.path)
        return {"id": self.id, "words": self.words, "of": self.of, "path": path}


@dataclass(frozen=True, slots=True)
class PageEnd:
    """The end of a page of hits, after which the next one begins.

    Attributes:
        score: of the last hit.
        id: of the last hit; hits with equal scores are in the order of their ids.
        seen: the number of hits up to the end.
    """

    score: float
    id: int
    seen: int


class Answer(list[Hit]):
    """Hits, best first, with notes about the query.

    Attributes:
        unknown_words: words of the query that the run does not know, in lower case.
        corrected_words: misspelt words of the query, and their corrections.
        end: the end of the page; None if there are no more hits.
        where_meant: a filter for files or folders that are named like the query, if nothing fits it; else
            None.
        text_hits: the images in which most words of the query were read, those with the most words first.
        query_meant: the English name of a thing that the query names in another language; else None.
        asks_for_style: whether the query only says how a picture is made, which captions seldom do.

    Example:
        >>> from seesay.search import Answer
        >>> answer = Answer([], unknown_words=["xyzzy"])
        >>> len(answer), answer.unknown_words, answer.certainty
        (0, ('xyzzy',), 'nothing')
    """

    def __init__(
        self,
        hits: Iterable[Hit] = (),
        unknown_words: Sequence[str] = (),
        end: PageEnd | None = None,
        corrected_words: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(hits)
        self.unknown_words = tuple(unknown_words)
        self.end = end
        self.corrected_words = dict(corrected_words or {})
        self.where_meant: str | None = None
        self.text_hits: list[TextHit] = []
        self.query_meant: str | None = None
        self.asks_for_style = False

    @property
    def certainty(self) -> Certainty:
        """Whether the best hit is "sure", "perhaps" right, or probably "nothing" fits.

        Sentences, which have no probability, are "perhaps" right, as are pictures of a style.
        """
        best = max((FITS if hit.probability is None else hit.probability for hit in self), default=0.0)
        if best >= SURE:
            return "sure"
        return "perhaps" if best >= FITS or (self and self.asks_for_style) else "nothing"

    def to_dict(self, roots: Sequence[Root] = ()) -> dict[str, object]:
        """Return plain values for JSON; with `roots`, paths are those of files."""
        return {
            "results": [hit.to_dict(roots) for hit in self],
            "unknown_words": list(self.unknown_words),
            "corrected_words": self.corrected_words,
            "certainty": self.certainty,
            "text_hits": [hit.to_dict(roots) for hit in self.text_hits],
        }
