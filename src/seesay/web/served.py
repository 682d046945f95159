"""A served index: its queries, with caches, and its updates."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Generic, TypeVar

from fastapi import HTTPException

from seesay.arrays import Vector
from seesay.data.images import DecodedImage
from seesay.search.index import Index
from seesay.search.photo import Photo
from seesay.search.preparing import PreparedQuery
from seesay.search.query import Embedded, Indexed, Query, Text
from seesay.web.updates import Updates

T = TypeVar("T")
V = TypeVar("V")

_Key = tuple[str, int]
_UPLOAD = re.compile("upload:[0-9a-f]{32}")  # anything else is a sentence
_REMEMBERED = 1000  # vectors of uploads, and as many of queries, of some kilobytes each


class Recent(Generic[T, V]):
    """A cache of the newest values. Thread-safe."""

    def __init__(self) -> None:
        self._values: dict[T, V] = {}
        self._lock = threading.Lock()

    def put(self, key: T, value: V) -> None:
        """Remember a value."""
        with self._lock:
            self._values.pop(key, None)
            self._values[key] = value
            if len(self._values) > _REMEMBERED:
                del self._values[next(iter(self._values))]

    def get(self, key: T) -> V | None:
        """Return a value, or None if it is no longer cached."""
        return self._values.get(key)


class Served:
    """A served index, with its caches and updates.

    Args:
        name: the name of the index for clients.
        index: the index.
        photos: folders of images that updates add.
    """

    def __init__(self, name: str, index: Index, photos: Sequence[Path]) -> None:
        self.name, self.index = name, index
        self.updates = Updates(index, photos, name)
        self._uploads: Recent[str, Vector] = Recent()  # so that further pages need no upload
        self._asked: Recent[_Key, PreparedQuery] = Recent()
        self._stacked: tuple[int, list[list[int]]] | None = None  # with the generation
        self._lock = threading.Lock()

    def prepared(self, query: Query) -> PreparedQuery:
        """Correct and embed a query, unless it was asked lately, as for a further page.

        Raises:
            SeesayError: the query cannot be answered.
        """
        key = _key(query, self.index.store.generation())
        if known := self._asked.get(key):
            return known
        prepared = self.index.prepare(query)
        self._asked.put(key, prepared)
        return prepared

    def remember(self, image: DecodedImage) -> Embedded:
        """Embed an uploaded image; return a term for it, which `recalled` resolves for a while."""
        term = Embedded(f"upload:{image.key}", self.index.embed_image(image))
        self._uploads.put(term.name, term.vector)
        return term

    def recalled(self, query: Query) -> Query:
        """Return a query with terms such as upload:HASH resolved; 410 if an upload is no longer cached."""
        parts = (
            replace(part, term=self._recalled(part.term.text))
            if isinstance(part.term, Text) and _UPLOAD.fullmatch(part.term.text)
            else part
            for part in query.parts
        )
        return Query(tuple(parts))

    def _recalled(self, name: str) -> Embedded:
        vector = self._uploads.get(name)
        if vector is None:
            raise HTTPException(410, f"{name}: no longer available; upload the image again.")
        return Embedded(name, vector)

    def stacks(self) -> list[list[Photo]]:
        """Return groups of copies and burst shots; cached until the index changes."""
        with self._lock:
            generation = self.index.store.generation()
            if self._stacked is None or self._stacked[0] != generation:
                self._stacked = generation, self.index.stacks()
            groups = self._stacked[1]
        images = self.index.store.photos([id_ for group in groups for id_ in group])
        kept = [[images[id_] for id_ in group if id_ in images] for group in groups]
        return [group for group in kept if len(group) > 1]

    def image(self, id_: int) -> Photo:
        """Return an image of the index; 404 if it does not exist, or is not to be shown."""
        photo = self.index.photo(id_)
        if photo is None or not self.index.may_show(photo):
            raise HTTPException(404, f"No image {id_} in the index.")
        return photo


def _key(query: Query, generation: int) -> _Key:
    """Return the cache key of a query: its text and, if it names images of the index, the generation."""
    of_index = any(isinstance(part.term, Indexed) for part in query.parts)
    return str(query), generation if of_index else 0
