"""Vectors in Qdrant, a database that grows past one machine: `qdrant+http://…`, `qdrant+path:FOLDER`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import httpx
import numpy as np
from numpy.typing import NDArray
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ApiException

from seesay.search.filters import Filter, Limit
from seesay.search.store import Facts
from seesay.search.stores import Found, register_store
from seesay.search.stores.database import (
    MARK,
    NO_MARK,
    SECONDS,
    Collection,
    facts_to_filter,
    moment,
)

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


@register_store("qdrant")
class Qdrant(Collection[QdrantClient]):
    """Vectors of one kind in a collection of Qdrant, in half precision.

    The address is "http://HOST:PORT", "https://…", or "path:FOLDER" for the embedded edition, which compares
    all vectors and which only one process can open at a time. The environment variable QDRANT_API_KEY is sent
    to a server as the key.
    """

    title, secret, errors = "Qdrant", KEY, (ApiException, httpx.HTTPError, OSError)

    def _told(self, failure: Exception) -> str | None:
        if isinstance(failure, RuntimeError) and "already accessed" in str(failure):
            return "another process is using it; close that process, or start a Qdrant server."
        if isinstance(failure, ValueError) and "not found" in str(failure):  # of the edition in this process
            return f"Qdrant cannot be used ({failure}); run `seesay index` again to load it."
        return super()._told(failure)

    def _connect(self) -> QdrantClient:
        if not self._is_remote():
            return QdrantClient(path=self.address.removeprefix("path:"))
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
        if self._is_remote():
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
            search_params=models.SearchParams(exact=True) if exact and self._is_remote() else None,
            with_payload=False,
        )
        ids = np.array([point.id for point in answer.points], np.int64)
        return ids, np.array([point.score for point in answer.points], np.float32)

    def passing(self, where: Filter) -> models.Filter:
        """Return the filter in Qdrant's language."""
        return models.Filter(
            must=[
                self._in_folder(limit) if limit.field == "folder" else _condition(limit)
                for limit in where.limits
            ]
        )

    def _in_folder(self, limit: Limit) -> models.FieldCondition:
        return models.FieldCondition(key="folder", match=models.MatchAny(any=self._folders(limit)))


def _condition(limit: Limit) -> models.FieldCondition:
    if limit.field == "orientation":
        return models.FieldCondition(key="orientation", match=models.MatchValue(value=str(limit.value)))
    value = moment(str(limit.value)) if limit.field == "time" else float(limit.value)
    signs = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
    names = ["gte", "lte"] if limit.sign == "=" else [signs[limit.sign]]
    return models.FieldCondition(key=limit.field, range=models.Range(**dict.fromkeys(names, value)))
