"""Indexing on a Ray cluster, which encodes what an update will embed; the update takes stored features."""

from __future__ import annotations

from pathlib import Path

from seesay.data.corpus import CorpusImage
from seesay.data.images import FileSource
from seesay.encoders.feature_store import stores_folder
from seesay.encoders.images.cluster import fill_store_on_cluster
from seesay.encoders.images.stored import sources_of
from seesay.errors import SeesayError
from seesay.runs.run import Run
from seesay.search.index import Index
from seesay.search.update import walk


def encode_on_cluster(index: Index, root: Path, address: str) -> None:
    """Encode the new and changed images of a folder by the encoders of an index's run, into the cache.

    Args:
        index: that will be updated from the folder.
        root: the folder, which every node must find at the same path.
        address: of the cluster, see `fill_store_on_cluster`.

    Raises:
        SeesayError: there is no cluster, or the index is not of a run with image encoders alone.
        MissingExtraError: Ray is not installed.
    """
    run = index.run
    if not isinstance(run, Run):
        raise SeesayError(
            f"--cluster: {run.name} is not a run of image encoders alone; index without the option."
        )
    root = root.resolve()
    before = {item.path: (item.mtime_ns, item.size) for item in index.store.items().values()}
    images = [
        CorpusImage(file.path, "", FileSource(root / file.path))
        for file in walk(root, leave_out=index.folder.resolve()).files.values()
        if before.get(file.path) != (file.mtime_ns, file.size)
    ]
    for encoder in sources_of(run.encoders).values():
        fill_store_on_cluster(encoder, stores_folder(), images, address)
