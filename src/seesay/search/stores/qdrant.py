"""Vectors in Qdrant, a vector database that grows past one machine: `qdrant+http://…`, `qdrant+path:FOLDER`.

A collection holds the vectors of one kind of an index in half precision, and of images the facts that filters
ask about. Its metadata names the generation of the index that it has; that is written last, so that an update
which is cut off is made again. What is lost on the server is loaded again by the next update.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ApiException

from seesay.errors import SeesayError
from seesay.search.filters import Filter, Limit
from seesay.search.hits import Place
from seesay.search.store import Facts, Kind, Store
from seesay.search.stores.base import Found, next_page, register_store

KEY = "QDRANT_API_KEY"
_AT_ONCE = 1000  # points in a request: about 2 MB at 512 dimensions
_GENERATION = "seesay_generation"
_SECONDS = 60


@register_store("qdrant")
class Qdrant:
    """Vectors of one kind in a collection of Qdrant.

    Args:
        address: "http://HOST:PORT", "https://…", or "path:FOLDER" for the edition within this process, which
            compares all vectors and which one process may open at a time. The environment variable
            QDRANT_API_KEY is sent to a server as the key.
        store: of the items.
        kind: of the items.
    """

    def __init__(self, address: str, store: Store, kind: Kind) -> None:
        self._address, self._store, self._kind = address, store, kind
        self.collection = f"seesay-{store.meta['identity']}-{kind}"
        self._seen = -1  # generation of the items at the last look

    def refresh(self) -> None:
        """Look whether the collection is there, once a generation; who updates the index fills it."""
        generation = self._store.generation()
        if self._seen == generation:
            return
        if self._loaded() == 0 and self._store.count(self._kind):
            raise SeesayError(
                f"{self._address}: has no vectors of this index; run `seesay index` again to load them."
            )
        self._seen = generation

    def save(self) -> None:
        """Write what the collection has not, and delete what the index has no more."""
        since, generation = self._loaded(), self._store.generation()
        if since == generation:
            return
        if since > generation:  # an older copy of the index's folder was put back
            since = 0
        with self._client() as client:
            if not client.collection_exists(self.collection):
                self._create(client)
            changes = self._store.changes(self._kind, since)
            for start in range(0, len(changes.ids), _AT_ONCE):
                some = slice(start, start + _AT_ONCE)
                self._put(client, changes.ids[some], changes.vectors[some])
            if client.count(self.collection, exact=True).count != len(changes.alive):
                self._delete_all_but(client, changes.alive)
            client.update_collection(self.collection, metadata={_GENERATION: changes.generation})

    def passing(self, where: Filter) -> models.Filter:
        """Return the filter in Qdrant's own terms, so that the database applies it while it searches."""
        return models.Filter(must=[_condition(limit) for limit in where.limits])

    def search(
        self,
        query: NDArray[np.float32],
        k: int,
        among: models.Filter | None = None,
        after: Place | None = None,
    ) -> Found:
        """See `VectorStore`; all vectors are compared for the pages behind the first."""
        with self._client() as client:
            if not client.collection_exists(self.collection):  # nothing of this kind was ever indexed
                return np.empty(0, np.int64), np.empty(0, np.float32)
            if after is None:
                return self._best(client, query, k, among, exact=False)
            total = client.count(self.collection, count_filter=among, exact=True).count
            return next_page(
                lambda asked: self._best(client, query, asked, among, exact=True), k, after, total
            )

    def close(self) -> None:
        """Close the connection."""
        if client := _CLIENTS.pop(self._address, None):
            client.close()

    def _best(
        self, client: QdrantClient, query: NDArray[np.float32], k: int, among: Any, exact: bool
    ) -> Found:
        asked = k + 1
        while True:
            answer = client.query_points(
                self.collection,
                query=query.tolist(),
                limit=asked,
                query_filter=among,
                search_params=models.SearchParams(exact=True) if exact and self._is_remote() else None,
                with_payload=False,
            )
            ids = np.array([point.id for point in answer.points], np.int64)
            scores = np.array([point.score for point in answer.points], np.float32)
            # Of equal ones those with the lowest ids are wanted, and Qdrant gives any: ask for all of them.
            if len(ids) < asked or scores[-1] < scores[k - 1]:
                order = np.lexsort((ids, -scores))[:k]
                return ids[order], scores[order]
            asked *= 2

    def _loaded(self) -> int:
        """The generation of the index that the collection has; 0 if there is none or it is unfinished."""
        with self._client() as client:
            if not client.collection_exists(self.collection):
                return 0
            metadata = client.get_collection(self.collection).config.metadata or {}
        return int(metadata.get(_GENERATION, 0))

    def _create(self, client: QdrantClient) -> None:
        vectors = models.VectorParams(
            size=self._store.dim, distance=models.Distance.DOT, datatype=models.Datatype.FLOAT16, on_disk=True
        )
        client.create_collection(self.collection, vectors_config=vectors)
        if self._is_remote():
            for name, type_ in _FIELDS.items():
                client.create_payload_index(self.collection, name, type_)

    def _put(self, client: QdrantClient, ids: NDArray[np.int64], vectors: NDArray[np.float16]) -> None:
        facts = self._store.facts(ids.tolist()) if self._kind == "image" else {}
        payloads = [_payload(facts[id_]) if id_ in facts else {} for id_ in ids.tolist()]
        rows = vectors.astype(np.float32).tolist()
        client.upsert(self.collection, models.Batch(ids=ids.tolist(), vectors=rows, payloads=payloads))

    def _delete_all_but(self, client: QdrantClient, alive: NDArray[np.int64]) -> None:
        at = None
        while True:
            points, at = client.scroll(
                self.collection, limit=10 * _AT_ONCE, offset=at, with_payload=False, with_vectors=False
            )
            gone = np.setdiff1d([int(str(point.id)) for point in points], alive)
            if len(gone):
                client.delete(self.collection, models.PointIdsList(points=gone.tolist()))
            if at is None:
                return

    def _is_remote(self) -> bool:
        return not self._address.startswith("path:")

    @contextmanager
    def _client(self) -> Iterator[QdrantClient]:
        """The client of the address, which the kinds of an index share; its errors in one line."""
        try:
            if self._address not in _CLIENTS:
                _CLIENTS[self._address] = _connect(self._address)
            yield _CLIENTS[self._address]
        except (ApiException, httpx.HTTPError, OSError) as failure:
            raise SeesayError(
                f"{self._address}: Qdrant cannot be used ({_first_line(failure)}); start it, or check the "
                f"address and {KEY}."
            ) from failure
        except RuntimeError as failure:
            if "already accessed" not in str(failure):
                raise
            raise SeesayError(
                f"{self._address}: another process uses it; close that, or start a Qdrant server."
            ) from failure


_CLIENTS: dict[str, QdrantClient] = {}

_FIELDS = {
    "folders": models.PayloadSchemaType.KEYWORD,
    "orientation": models.PayloadSchemaType.KEYWORD,
    "taken": models.PayloadSchemaType.INTEGER,
    "width": models.PayloadSchemaType.INTEGER,
    "height": models.PayloadSchemaType.INTEGER,
    "added": models.PayloadSchemaType.FLOAT,
}


def _connect(address: str) -> QdrantClient:
    if address.startswith("path:"):
        return QdrantClient(path=address.removeprefix("path:"))
    return QdrantClient(url=address, api_key=os.environ.get(KEY), timeout=_SECONDS, check_compatibility=False)


def _payload(facts: Facts) -> dict[str, Any]:
    """What filters ask about an image; `folders` are all paths of folders above it, and their ends."""
    parts = facts.path.lower().split("/")[:-1]
    folders = ["/".join(parts[i:j]) for i in range(len(parts)) for j in range(i + 1, len(parts) + 1)]
    orientation = "square" if facts.width == facts.height else "landscape"
    payload = {
        "folders": folders,
        "orientation": "portrait" if facts.height > facts.width else orientation,
        "width": facts.width,
        "height": facts.height,
        "added": facts.added,
    }
    return payload | ({"taken": _moment(facts.taken)} if facts.taken else {})


def _condition(limit: Limit) -> models.FieldCondition:
    if limit.field == "folder":
        return models.FieldCondition(key="folders", match=models.MatchValue(value=str(limit.value).lower()))
    if limit.field == "orientation":
        return models.FieldCondition(key="orientation", match=models.MatchValue(value=str(limit.value)))
    value = _moment(str(limit.value)) if limit.field == "taken" else float(limit.value)
    signs = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
    names = ["gte", "lte"] if limit.sign == "=" else [signs[limit.sign]]
    return models.FieldCondition(key=limit.field, range=models.Range(**dict.fromkeys(names, value)))


def _moment(text: str) -> int:
    """20190630120000 of "2019-06-30T12:00:00" or of the beginning of one."""
    return int("".join(letter for letter in text if letter.isdigit()).ljust(14, "0"))


def _first_line(failure: Exception) -> str:
    return (str(failure).strip() or type(failure).__name__).splitlines()[0][:200]
