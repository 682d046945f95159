"""The stores of vectors that indexes are tested with."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

DATABASES = ("milvus", "qdrant")
STORES = ("embedded", *DATABASES)
# The addresses of servers, such as http://localhost:6333; without one, the edition within the process.
SERVERS = {"milvus": "SEESAY_TEST_MILVUS", "qdrant": "SEESAY_TEST_QDRANT"}
_NEEDED = {"milvus": ("pymilvus", "milvus_lite"), "qdrant": ("qdrant_client",)}


def address(store: str, folder: Path) -> str:
    """Where an index in that folder keeps its vectors: on a server if one is named, or in the process."""
    if store == "embedded":
        return ""
    there = os.environ.get(SERVERS[store])
    for package in _NEEDED[store][: 1 if there else None]:
        pytest.importorskip(package, reason=f"{package} is not installed")
    return f"{store}+{there or f'path:{folder}/vectors'}"
