"""Indexing on a Ray cluster, which encodes what an update will embed; the update takes stored features."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from seesay.data.corpus import CorpusImage
from seesay.data.sources import FileSource
from seesay.encoders.feature_store import stores_folder
from seesay.encoders.images.cluster import fill_stores_on_cluster
from seesay.errors import SeesayError
from seesay.runs.run import Run
from seesay.search.index import Index


def encode_on_cluster(index: Index, folders: Sequence[Path], address: str) -> None:
    """Encode the new and changed images of folders by the encoders of an index's run, into the cache.

    Args:
        index: that will be updated from the folders.
        folders: which every node must find at the same paths or URLs; by default all that the index is of.
        address: of the cluster, see `fill_stores_on_cluster`.

    Raises:
        SeesayError: there is no cluster, or the index is not of a run with image encoders alone; or as
            `Index.update_images` does.
        MissingExtraError: Ray is not installed.
    """
    run = index.run
    if not isinstance(run, Run):
        raise SeesayError(
            f"--cluster: {run.name} is not a run of image encoders alone; index without the option."
        )
    seen = index.look(folders)
    before = {seen.path_now(item.path or ""): item.state for item in index.store.items().values()}
    images = [
        CorpusImage(file.path, "", FileSource(seen.file(file.path)))
        for file in seen.there.files.values()
        if before.get(file.path) != file.state
    ]
    fill_stores_on_cluster(run.encoders, stores_folder(), images, address)
