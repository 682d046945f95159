"""Vectors in Milvus, a database that grows past one machine: `milvus+http://…`, `milvus+path:FOLDER`."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pymilvus import DataType, MilvusClient
from pymilvus.exceptions import ConnectionConfigException, MilvusException

from seesay.progress import tell
from seesay.search.filters import Filter
from seesay.search.stores import Found, register_store
from seesay.search.stores.database import (
    FOLDER,
    MARK,
    NO_MARK,
    SECONDS,
    Collection,
    Columns,
    checked_url,
)

TOKEN = "MILVUS_TOKEN"
LIMIT = 16_384  # vectors that Milvus returns for a query, at most
_READ = 10_000  # ids in a request
_HALVES = (2, 4)  # version with vectors in half precision; the edition within a process has none

# When it is imported, the client gives its logger a handler, which prints each error that it also raises.
logging.getLogger("pymilvus").setLevel(logging.CRITICAL)


def checked_address(address: str) -> str:
    """Return an address as an index stores it; raise a SeesayError if it is invalid."""
    return checked_url("milvus", address, "path", TOKEN)


@register_store("milvus")
class Milvus(Collection[MilvusClient]):
    """Vectors of one kind in a collection of Milvus, in half precision on a server from 2.4 on.

    The address is "http://HOST:PORT", "https://…", or "path:FOLDER" for the embedded edition, Milvus Lite,
    which only one process can open at a time. The environment variable MILVUS_TOKEN, USER:PASSWORD or a key,
    is sent to a server.
    """

    title, secret, errors = "Milvus", TOKEN, (MilvusException, OSError)
    _loaded_by: MilvusClient | None = None
    _precision: type[np.floating] = np.float32  # of the collection

    def _told(self, failure: Exception) -> str | None:
        if isinstance(failure, ConnectionConfigException):
            return (
                "cannot be opened; install Milvus Lite (pip install milvus-lite), and close other programs "
                "that use the folder."
            )
        return super()._told(failure)

    def _connect(self) -> MilvusClient:
        if self._is_remote():
            return MilvusClient(self.address, token=os.environ.get(TOKEN, ""), timeout=SECONDS)
        file = self._file()
        file.parent.mkdir(parents=True, exist_ok=True)
        return MilvusClient(str(file))

    def _marked(self) -> str | None:
        if not self.client.has_collection(self.name):
            return None
        if self._loaded_by is not self.client:  # what is not in memory is not searched
            self.client.load_collection(self.name, timeout=SECONDS)
            self._loaded_by = self.client
        described = self.client.describe_collection(self.name)
        kinds = {field["name"]: field["type"] for field in described["fields"]}
        self._precision = np.float16 if kinds["vector"] == DataType.FLOAT16_VECTOR else np.float32
        return str((described.get("properties") or {}).get(MARK, NO_MARK))

    def _create(self) -> None:
        schema = self.client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("id", DataType.INT64, is_primary=True)
        self._precision = np.float16 if self._knows_halves() else np.float32
        halves = self._precision is np.float16
        schema.add_field("vector", DataType.FLOAT16_VECTOR if halves else DataType.FLOAT_VECTOR, dim=self.dim)
        if self._has_facts:
            schema.add_field("folder", DataType.VARCHAR, max_length=4 * FOLDER)
            schema.add_field("orientation", DataType.VARCHAR, max_length=len("landscape"))
            for name in ("time", "width", "height"):
                schema.add_field(name, DataType.INT64)
            schema.add_field("added", DataType.DOUBLE)
        indexes = self.client.prepare_index_params()
        indexes.add_index("vector", index_type="AUTOINDEX", metric_type="IP")
        # So that the next search sees an update that has ended.
        self.client.create_collection(
            self.name, schema=schema, index_params=indexes, consistency_level="Strong", timeout=SECONDS
        )

    def _knows_halves(self) -> bool:
        """Whether vectors can be in half precision; asking an older server for that ends its process."""
        if not self._is_remote():
            return False
        version = str(self.client.get_server_version())
        numbers = re.findall("[0-9]+", version)[:2]
        if tuple(map(int, numbers)) >= _HALVES:
            return True
        tell(f"{self.address}: Milvus {version} has no vectors in half precision; they take twice the bytes.")
        return False

    def _put(self, ids: list[int], vectors: NDArray[np.float32], columns: Sequence[Columns]) -> None:
        items = [
            {"id": id_, "vector": row, **(each if self._has_facts else {})}
            for id_, row, each in zip(ids, self._as_stored(vectors), columns, strict=True)
        ]
        self.client.upsert(self.name, items, timeout=SECONDS)

    def _mark(self, mark: str) -> None:
        self.client.alter_collection_properties(self.name, {MARK: mark})

    def _count(self) -> int:
        (found,) = self.client.query(self.name, "", output_fields=["count(*)"], timeout=SECONDS)
        return int(found["count(*)"])

    def _ids(self) -> Iterator[Sequence[int]]:
        pages = self.client.query_iterator(
            self.name, batch_size=_READ, filter="id >= 0", output_fields=["id"]
        )
        while rows := pages.next():
            yield [row["id"] for row in rows]
        pages.close()

    def _delete(self, ids: list[int]) -> None:
        self.client.delete(self.name, ids=ids, timeout=SECONDS)

    def _nearest(self, query: NDArray[np.float32], count: int, among: str | None, exact: bool) -> Found:
        del exact  # Milvus has no such choice; its index decides
        (found,) = self.client.search(
            self.name,
            [self._as_stored(query)],
            filter=among or "",
            limit=min(count, LIMIT),
            output_fields=["id"],
            timeout=SECONDS,
        )
        ids = np.array([hit["id"] for hit in found], np.int64)
        return ids, np.array([hit["distance"] for hit in found], np.float32)

    def passing(self, where: Filter) -> str:
        """Return the filter as an expression of Milvus."""
        return " and ".join(_condition(*each) for each in self._conditions(where))

    def _disconnect(self, client: MilvusClient) -> None:
        client.close()
        if not self._is_remote():
            from milvus_lite.server_manager import server_manager_instance

            server_manager_instance.release_server(str(self._file()))  # and its lock of the folder

    def _file(self) -> Path:
        """The data file of the embedded edition."""
        return Path(self.address.removeprefix("path:")).resolve() / "milvus.db"

    def _as_stored(self, vectors: NDArray[np.float32]) -> NDArray[np.floating]:
        return vectors.astype(self._precision)


def _condition(column: str, sign: str, value: Any) -> str:
    # Milvus reads JSON's strings, whatever they contain. No item has an id below zero.
    if column == "folder":
        return f"folder in {json.dumps(value, ensure_ascii=False)}" if value else "id < 0"
    return f"{column} {'==' if sign == '=' else sign} {json.dumps(value)}"
