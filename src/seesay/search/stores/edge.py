"""Vectors in Qdrant's engine within this process, without a server: `qdrant+edge:FOLDER`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import qdrant_edge as edge
from numpy.typing import NDArray

from seesay.errors import first_line
from seesay.paths import replace_text
from seesay.search.filters import Filter
from seesay.search.stores import Found
from seesay.search.stores.database import MARK, NO_MARK, Collection, Columns
from seesay.search.stores.qdrant import SCROLLED, bounds, scored, scrolled


class Shards:
    """The collections in a folder, each a subfolder with a shard and its mark."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._opened: dict[str, edge.EdgeShard] = {}

    def shard(self, name: str) -> edge.EdgeShard:
        """Return the shard of a collection, which this process keeps locked until it is closed."""
        if name not in self._opened:
            self._opened[name] = edge.EdgeShard.load(str(self._folder / name))
        return self._opened[name]

    def get_mark(self, name: str) -> str | None:
        """Return the mark of a collection; None if there is none, or if it was never completely created."""
        try:
            return (self._folder / name / MARK).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def set_mark(self, name: str, mark: str) -> None:
        """Write a mark of a collection, after everything that was written before."""
        self.shard(name).flush()
        replace_text(self._folder / name / MARK, mark)

    def create_collection(self, name: str, dim: int) -> None:
        """Create a collection without vectors."""
        self.delete_collection(name)
        # With vectors in half precision, the engine would round queries, too.
        vectors = edge.EdgeVectorParams(dim, edge.Distance.Dot, memory=edge.Memory.Cold)
        config = edge.EdgeConfig(vectors=vectors)
        self._opened[name] = edge.EdgeShard.create(str(self._folder / name), config)

    def delete_collection(self, name: str) -> None:
        """Delete a collection, if there is one."""
        if name in self._opened:
            self._opened.pop(name).close()
        shutil.rmtree(self._folder / name, ignore_errors=True)

    def upsert(self, name: str, points: list[edge.Point]) -> None:
        """Write vectors, replacing those with the same ids."""
        self.shard(name).update(edge.UpdateOperation.upsert_points(points))

    def close(self) -> None:
        """Close all shards."""
        while self._opened:
            self._opened.popitem()[1].close()


class QdrantEdge(Collection[Shards]):
    """Vectors of one kind in a folder, in single precision, which only one process can use at a time."""

    title, secret, errors = "Qdrant Edge", "", (Exception,)  # whose errors have no type of their own

    def _told(self, failure: Exception) -> str | None:
        if isinstance(failure, OSError):
            return f"cannot be used ({failure.strerror})."
        if type(failure) is not Exception:
            return None
        if "WouldBlock" in str(failure):
            return "another process is using it; close that process, or start a Qdrant server."
        return f"Qdrant Edge cannot be used ({first_line(failure)}); run `seesay index` again to load it."

    def _connect(self) -> Shards:
        return Shards(Path(self.address.removeprefix("edge:")))

    def _marked(self) -> str | None:
        return self.client.get_mark(self.name)

    def _create(self) -> None:
        self.client.create_collection(self.name, self.dim)
        self._mark(NO_MARK)

    def _put(self, ids: list[int], vectors: NDArray[np.float32], columns: Sequence[Columns]) -> None:
        payloads = [each if self._has_facts else None for each in columns]
        self.client.upsert(self.name, list(map(edge.Point, ids, vectors, payloads)))

    def _mark(self, mark: str) -> None:
        self.client.set_mark(self.name, mark)

    def _settle(self) -> None:
        """Build the graph of vectors, from Qdrant's own threshold on, and drop deleted ones."""
        self.client.shard(self.name).optimize()

    def _count(self) -> int:
        return self.client.shard(self.name).count(edge.CountRequest(exact=True))

    def _ids(self) -> Iterator[Sequence[int]]:
        def page(at: Any) -> tuple[Sequence[Any], Any]:
            request = edge.ScrollRequest(offset=at, limit=SCROLLED, with_payload=False, with_vector=False)
            return self.client.shard(self.name).scroll(request)

        return scrolled(page)

    def _delete(self, ids: list[int]) -> None:
        self.client.shard(self.name).update(edge.UpdateOperation.delete_points(list(ids)))

    def _nearest(
        self, query: NDArray[np.float32], count: int, among: edge.Filter | None, exact: bool
    ) -> Found:
        request = edge.QueryRequest(
            limit=count,
            query=edge.Query.Nearest(query.tolist()),
            filter=among,
            params=edge.SearchParams(exact=exact),
            with_payload=False,
        )
        return scored(self.client.shard(self.name).query(request))

    def passing(self, where: Filter) -> edge.Filter:
        """Return the filter in the engine's language."""
        return edge.Filter(must=[_condition(*each) for each in self._conditions(where)])


def _condition(column: str, sign: str, value: Any) -> edge.FieldCondition:
    if column == "folder":
        return edge.FieldCondition(column, match=edge.MatchAny(value))
    if column == "orientation":
        return edge.FieldCondition(column, match=edge.MatchValue(value))
    return edge.FieldCondition(column, range=edge.RangeFloat(**bounds(sign, value)))
