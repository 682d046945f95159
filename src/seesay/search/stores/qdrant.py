"""Vectors in Qdrant, a database that grows past one machine: `qdrant+http://…`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import httpx
import numpy as np
from numpy.typing import NDArray
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ApiException

from seesay.errors import naming_extras
from seesay.search.filters import Filter, Limit
from seesay.search.sqlite_file import Kind
from seesay.search.store import Facts, Store
from seesay.search.stores import Found, Queries, register_store
from seesay.search.stores.database import (
    MARK,
    NO_MARK,
    SECONDS,
    Collection,
    bounds,
    facts_to_filter,
)

if TYPE_CHECKING:
    from seesay.search.stores.edge import Shards

KEY = "QDRANT_API_KEY"
_SCROLLED = 10_000  # ids in a request

_FIELDS = {
    "folder": models.PayloadSchemaType.KEYWORD,
    "orientation": models.PayloadSchemaType.KEYWORD,
    "time": models.PayloadSchemaType.INTEGER,
    "width": models.PayloadSchemaType.INTEGER,
    "height": models.PayloadSchemaType.INTEGER,
    "added": models.PayloadSchemaType.FLOAT,
}


class Qdrant(Collection[QdrantClient]):
    """Vectors of one kind in a collection of Qdrant, in half precision.

    The address is "http://HOST:PORT" or "https://…". The environment variable QDRANT_API_KEY is sent as the
    key.
    """

    title, secret, errors = "Qdrant", KEY, (ApiException, httpx.HTTPError, OSError)

    def _connect(self) -> QdrantClient:
        key = os.environ.get(KEY)
        return QdrantClient(url=self.address, api_key=key, timeout=SECONDS, check_compatibility=False)

    def _marked(self, client: QdrantClient) -> str | None:
        if not client.collection_exists(self.name):
            return None
        metadata = client.get_collection(self.name).config.metadata or {}
        return str(metadata.get(MARK, NO_MARK))

    def _create(self, client: QdrantClient) -> None:
        vectors = models.VectorParams(
            size=self.dim, distance=models.Distance.DOT, datatype=models.Datatype.FLOAT16, on_disk=True
        )
        client.create_collection(self.name, vectors_config=vectors)
        for name, type_ in _FIELDS.items():
            client.create_payload_index(self.name, name, type_)

    def _put(
        self,
        client: QdrantClient,
        ids: list[int],
        vectors: NDArray[np.float32],
        facts: Sequence[Facts | None],
    ) -> None:
        payloads = [facts_to_filter(each) if each else {} for each in facts]
        client.upsert(self.name, models.Batch(ids=ids, vectors=vectors.tolist(), payloads=payloads))

    def _mark(self, client: QdrantClient, mark: str) -> None:
        client.update_collection(self.name, metadata={MARK: mark})

    def _count(self, client: QdrantClient, among: models.Filter | None = None) -> int:
        return client.count(self.name, count_filter=among, exact=True).count

    def _ids(self, client: QdrantClient) -> Iterator[Sequence[int]]:
        at = None
        while True:
            points, at = client.scroll(
                self.name, limit=_SCROLLED, offset=at, with_payload=False, with_vectors=False
            )
            yield [int(str(point.id)) for point in points]
            if at is None:
                return

    def _delete(self, client: QdrantClient, ids: list[int]) -> None:
        client.delete(self.name, models.PointIdsList(points=list(ids)))

    def _nearest(
        self,
        client: QdrantClient,
        query: NDArray[np.float32],
        count: int,
        among: models.Filter | None,
        exact: bool,
    ) -> Found:
        answer = client.query_points(
            self.name,
            query=query.tolist(),
            limit=count,
            query_filter=among,
            search_params=models.SearchParams(exact=exact),
            with_payload=False,
        )
        ids = np.array([point.id for point in answer.points], np.int64)
        return ids, np.array([point.score for point in answer.points], np.float32)

    def passing(self, where: Filter) -> models.Filter:
        """Return the filter in Qdrant's language."""
        return models.Filter(must=list(map(self._condition, where.limits)))

    def _condition(self, limit: Limit) -> models.FieldCondition:
        if limit.field == "folder":
            return models.FieldCondition(key=limit.field, match=models.MatchAny(any=self._folders(limit)))
        if limit.field == "orientation":
            return models.FieldCondition(key=limit.field, match=models.MatchValue(value=str(limit.value)))
        return models.FieldCondition(key=limit.field, range=models.Range(**bounds(limit)))


@register_store("qdrant")
def open_qdrant(
    address: str, store: Store, kind: Kind, queries: Queries | None = None
) -> Collection[QdrantClient] | Collection[Shards]:
    """Open the vectors of one kind on a server, or in a folder ("edge:FOLDER") within this process."""
    if not address.startswith("edge:"):
        return Qdrant(address, store, kind, queries)
    with naming_extras():
        from seesay.search.stores.edge import QdrantEdge

    return QdrantEdge(address, store, kind, queries)
