"""The stores of vectors that indexes are tested with."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

STORES = ("embedded", pytest.param("qdrant", marks=pytest.mark.slow))
SERVER = "SEESAY_TEST_QDRANT"  # the address of a Qdrant server, such as http://localhost:6333


def address(store: str, folder: Path) -> str:
    """Where an index in that folder keeps its vectors: on a server if one is named, or in the process."""
    if store == "embedded":
        return ""
    pytest.importorskip("qdrant_client", reason="qdrant-client is not installed")
    return "qdrant+" + os.environ.get(SERVER, f"path:{folder / 'vectors'}")
