"""Indexing on a Ray cluster: workers read and decode photos, embed them and make their thumbnails."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice
from typing import Any

from seesay.data.images import FileSource
from seesay.encoders.images.cluster import Columns, Work, check_fingerprint, done_on_cluster
from seesay.encoders.images.encode import sources_of
from seesay.encoders.stores import CHUNK
from seesay.runs.run import Run
from seesay.search.photo import FileState
from seesay.search.reader import load_embedder
from seesay.search.update import NewPhoto, PhotoEncoder, new_photos


def on_cluster(run: Run, address: str) -> PhotoEncoder:
    """Return a function that encodes photos on a cluster, see `done_on_cluster` for its address.

    Workers load the run by name. Photos and runs must have the same paths on every node.
    """
    named = run.name, run.fingerprint
    uses_gpu = any(source.uses_gpu for source in sources_of(run.encoders).values())

    def encode(
        file_of: Callable[[str], FileSource], files: Mapping[str, FileState], known: Collection[str]
    ) -> Iterator[dict[str, NewPhoto]]:
        items = ({"path": path, "file": file_of(path), "size": state.size} for path, state in files.items())
        shared = *named, frozenset(known)
        for block in done_on_cluster(address, _photos_on_node, shared, items, uses_gpu):
            yield from block

    return encode


def _photos_on_node(shared: Any) -> Work:
    """Return a function that encodes the files of a block.

    `shared` are the name of the run, its expected fingerprint, and the content keys that need not be encoded.
    """
    name, fingerprint, known = shared
    run = load_embedder(name)
    check_fingerprint(name, run.fingerprint, fingerprint)

    def encode(block: Columns) -> Iterator[dict[str, NewPhoto]]:
        files = dict(zip(block["path"].tolist(), block["file"], strict=True))
        sizes = zip(files, block["size"].tolist(), strict=True)
        while some := list(islice(sizes, CHUNK)):  # for one thread: each core has a worker
            states = {path: FileState(0, size, 0) for path, size in some}
            yield from new_photos(run, files.__getitem__, states, known)

    return encode
