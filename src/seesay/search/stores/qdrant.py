"""Vectors in Qdrant, a database that grows past one machine: `qdrant+http://…`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ApiException

from seesay.errors import naming_extras
from seesay.search.filters import Filter
from seesay.search.sqlite_file import Kind
from seesay.search.store import Store
from seesay.search.stores import Found, Queries, VectorStore, register_store
from seesay.search.stores.database import (
    MARK,
    NO_MARK,
    SECONDS,
    Collection,
    Columns,
    checked_url,
)

KEY = "QDRANT_API_KEY"
SCROLLED = 10_000  # ids in a request

_FIELDS = {
    "folder": models.PayloadSchemaType.KEYWORD,
    "orientation": models.PayloadSchemaType.KEYWORD,
    "time": models.PayloadSchemaType.INTEGER,
    "width": models.PayloadSchemaType.INTEGER,
    "height": models.PayloadSchemaType.INTEGER,
    "added": models.PayloadSchemaType.FLOAT,
}


def checked_address(address: str) -> str:
    """Return an address as an index stores it; raise a SeesayError if it is invalid."""
    return checked_url("qdrant", address, "edge", KEY)


class Qdrant(Collection[QdrantClient]):
    """Vectors of one kind in a collection of Qdrant, in half precision.

    The address is "http://HOST:PORT" or "https://…". The environment variable QDRANT_API_KEY is sent as the
    key.
    """

    title, secret, errors = "Qdrant", KEY, (ApiException, httpx.HTTPError, OSError)

    def _connect(self) -> QdrantClient:
        key = os.environ.get(KEY)
        return QdrantClient(url=self.address, api_key=key, timeout=SECONDS, check_compatibility=False)

    def _marked(self) -> str | None:
        if not self.client.collection_exists(self.name):
            return None
        metadata = self.client.get_collection(self.name).config.metadata or {}
        return str(metadata.get(MARK, NO_MARK))

    def _create(self) -> None:
        vectors = models.VectorParams(
            size=self.dim, distance=models.Distance.DOT, datatype=models.Datatype.FLOAT16, on_disk=True
        )
        self.client.create_collection(self.name, vectors_config=vectors)
        for name, type_ in _FIELDS.items():
            self.client.create_payload_index(self.name, name, type_)

    def _put(self, ids: list[int], vectors: NDArray[np.float32], columns: Sequence[Columns]) -> None:
        payloads = [each if self._has_facts else {} for each in columns]
        self.client.upsert(self.name, models.Batch(ids=ids, vectors=vectors.tolist(), payloads=payloads))

    def _mark(self, mark: str) -> None:
        self.client.update_collection(self.name, metadata={MARK: mark})

    def _count(self) -> int:
        return self.client.count(self.name, exact=True).count

    def _ids(self) -> Iterator[Sequence[int]]:
        return scrolled(
            lambda at: self.client.scroll(
                self.name, limit=SCROLLED, offset=at, with_payload=False, with_vectors=False
            )
        )

    def _delete(self, ids: list[int]) -> None:
        self.client.delete(self.name, models.PointIdsList(points=list(ids)))

    def _nearest(
        self, query: NDArray[np.float32], count: int, among: models.Filter | None, exact: bool
    ) -> Found:
        answer = self.client.query_points(
            self.name,
            query=query.tolist(),
            limit=count,
            query_filter=among,
            search_params=models.SearchParams(exact=exact),
            with_payload=False,
        )
        return scored(answer.points)

    def passing(self, where: Filter) -> models.Filter:
        """Return the filter in Qdrant's language."""
        return models.Filter(must=[_condition(*each) for each in self._conditions(where)])


def _condition(column: str, sign: str, value: Any) -> models.FieldCondition:
    if column == "folder":
        return models.FieldCondition(key=column, match=models.MatchAny(any=value))
    if column == "orientation":
        return models.FieldCondition(key=column, match=models.MatchValue(value=value))
    return models.FieldCondition(key=column, range=models.Range(**bounds(sign, value)))


def scrolled(page: Callable[[Any], tuple[Sequence[Any], Any]]) -> Iterator[list[int]]:
    """Iterate over the ids of all points.

    Args:
        page: returns some points from an offset on (None at the beginning), and the offset of the next.
    """
    points, at = page(None)
    yield [int(str(point.id)) for point in points]
    while at is not None:
        points, at = page(at)
        yield [int(str(point.id)) for point in points]


def scored(points: Sequence[Any]) -> Found:
    """Return the ids and scores of points."""
    ids, scores = [each.id for each in points], [each.score for each in points]
    return np.array(ids, np.int64), np.array(scores, np.float32)


def bounds(sign: str, value: float) -> dict[str, float]:
    """The least and greatest numbers of a condition, by Qdrant's names (`gte`, `lt`, …)."""
    names = {">": ("gt",), ">=": ("gte",), "<": ("lt",), "<=": ("lte",), "=": ("gte", "lte")}
    return dict.fromkeys(names[sign], value)


@register_store("qdrant")
def open_qdrant(address: str, store: Store, kind: Kind, queries: Queries) -> VectorStore:
    """Open the vectors of one kind on a server, or in a folder ("edge:FOLDER") within this process."""
    if not address.startswith("edge:"):
        return Qdrant(address, store, kind, queries)
    with naming_extras():
        from seesay.search.stores.edge import QdrantEdge

    return QdrantEdge(address, store, kind, queries)
