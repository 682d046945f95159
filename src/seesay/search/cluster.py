"""Indexing on a Ray cluster: workers read and decode photos, embed them and make their thumbnails."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np

from seesay.data.sources import FileSource
from seesay.encoders.images.cluster import DONE, Columns, check_same, done_on_cluster
from seesay.encoders.images.encode import CHUNK
from seesay.encoders.stores import SortedKeys, sources_of
from seesay.errors import SeesayError
from seesay.runs.run import Run
from seesay.search.encoding import EncodedElsewhere, new_photos, read_ahead
from seesay.search.photo import FileState, NewPhoto
from seesay.search.reader import load_embedder


def on_cluster(run: Run, address: str) -> EncodedElsewhere:
    """Return a function that encodes photos on a cluster.

    Args:
        run: the embedder, which workers load by name. Photos and runs must have the same paths on every node.
        address: of the cluster, see `fill_stores_on_cluster`.

    Raises:
        SeesayError: workers could not load the run.
    """
    from seesay.runs.run import Run

    if not isinstance(run, Run):
        raise SeesayError(f"--cluster: {run.name} cannot be loaded by other nodes; index without the option.")
    named = run.name, run.fingerprint
    uses_gpu = any(source.uses_gpu for source in sources_of(run.encoders).values())

    def encode(
        file_of: Callable[[str], FileSource], files: Mapping[str, FileState], known: Collection[str]
    ) -> Iterator[dict[str, NewPhoto]]:
        items = ({"path": path, "file": file_of(path), "size": state.size} for path, state in files.items())
        shared = *named, SortedKeys(known)
        for block in done_on_cluster(address, PhotoWorker, shared, items, uses_gpu):
            yield from block

    return encode


class PhotoWorker:
    """Encodes blocks of files on one node.

    Args:
        shared: a reference to the name of the run, its expected fingerprint, and the content keys that need
            not be encoded.
    """

    def __init__(self, shared: Any) -> None:
        import ray

        name, fingerprint, self._known = ray.get(shared)
        self._run = load_embedder(name)
        check_same(name, self._run.fingerprint, fingerprint)

    def __call__(self, block: Columns) -> Columns:
        """Return the contents of a block of files."""
        files = dict(zip(block["path"].tolist(), block["file"], strict=True))
        sizes = zip(files, block["size"].tolist(), strict=True)
        made = list[dict[str, NewPhoto]]()
        while some := list(islice(sizes, CHUNK)):  # for one thread: each core has a worker
            states = {path: FileState(0, size, 0) for path, size in some}
            batches = read_ahead(files.__getitem__, states)
            made += [new_photos(each, self._run, self._among_known) for each in batches]
        done = np.empty(len(made), object)
        done[:] = made
        return {DONE: done}

    def _among_known(self, keys: Iterable[str]) -> set[str]:
        return {key for key in keys if key in self._known}
