"""Encoding on a Ray cluster: workers read, decode and encode; only this process writes the feature store.

Ray Data restarts the blocks of lost nodes on other nodes. Each block reaches this process exactly once.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from seesay.data.corpus import CorpusImage
from seesay.device import default_device
from seesay.encoders.feature_store import (
    FeatureStore,
    KnownKeys,
    SortedKeys,
    one_an_encoder,
    open_stores,
    sources_of,
)
from seesay.encoders.images.base import ImageEncoder, load_image_encoder
from seesay.encoders.images.encode import CHUNK, Filled, missing_features
from seesay.errors import ImageError, SeesayError, naming_extras
from seesay.progress import progress

_BLOCK = 32  # images that a worker takes at a time
PART = 65_536  # images that Ray is given at a time: about 120 MB as it holds them
_SECONDS = 5  # in which a cluster's address has to answer
_ENCODED = ""  # the name of the column that says which images an encoder has encoded

_OUR_ERROR = f"{SeesayError.__module__}.{SeesayError.__name__}: "  # before its message, in a traceback

Columns = dict[str, NDArray[Any]]


def fill_stores_on_cluster(
    encoders: Sequence[ImageEncoder], folder: Path, images: Sequence[CorpusImage], address: str
) -> Filled:
    """Encode missing images of the stores under `folder` on a cluster, like `fill_stores`.

    Each image is read and decoded once for all encoders. Finished blocks are kept. Every node must have
    seesay, and the images at the same paths.

    Args:
        encoders: the encoders of this process, which workers load by name.
        folder: of the feature stores, which only this process writes.
        images: of the corpus; their files by absolute paths.
        address: of the cluster, such as "ray://head:10001"; "auto" for the cluster of this machine, "local"
            for one that is started here and ends with the call.

    Raises:
        SeesayError: there is no cluster, a worker has other weights, or all workers have failed.
        MissingExtraError: Ray is not installed.
    """
    sources = sources_of(encoders)
    opened = open_stores(encoders, folder)
    stores, known = list(opened.values()), KnownKeys(folder)

    def stored(key: str | None) -> bool:
        return key is not None and all(key in store for store in stores)

    keys = [key if stored(key := known.key(image)) else None for image in images]
    filled = Filled(keys=list(keys))
    filled.stores = one_an_encoder(encoders, opened)
    todo = [place for place, key in enumerate(keys) if key is None]
    if not todo:
        return filled
    names = {source.name: fingerprint for fingerprint, source in sources.items()}
    with _cluster(address) as ray, progress("Encoding", len(todo), "images") as advance:
        resources = ray.cluster_resources()
        on_gpus = resources.get("GPU") and any(source.uses_gpu for source in sources.values())
        there = [ray.put(np.sort(np.array(store.keys(), "S32"))) for store in stores]
        for start in range(0, len(todo), PART):
            part = [{"place": place, "image": images[place]} for place in todo[start : start + PART]]
            blocks = ray.data.from_items(part, override_num_blocks=-(-len(part) // _BLOCK)).map_batches(
                Worker,
                fn_constructor_args=(names, there),
                batch_size=_BLOCK,
                compute=ray.data.ActorPoolStrategy(min_size=1, max_size=max(int(resources.get("CPU", 1)), 1)),
                num_gpus=1 if on_gpus else None,
            )
            for block in blocks.iter_batches(batch_size=None):
                _keep(block, stores, filled)
                for place, key in zip(block["place"].tolist(), block["key"].tolist(), strict=True):
                    if key:
                        known.note(images[place], key)
                known.keep()
                advance(len(block["place"]))
    return filled


def _keep(block: Mapping[str, NDArray[Any]], stores: Sequence[FeatureStore], filled: Filled) -> None:
    """Write the features of a block; equal files in several blocks are written once."""
    for place, key, error in zip(block["place"], block["key"], block["error"], strict=True):
        if error:
            filled.errors.append(ImageError(str(error)))
        else:
            filled.keys[int(place)] = str(key)
    encoded: set[str] = set()
    for e, store in enumerate(stores):
        new: dict[str, int] = {}
        for row in np.flatnonzero(block[_column(e, _ENCODED)]):
            if (key := str(block["key"][row])) not in store:
                new.setdefault(key, int(row))
        if new:
            rows = list(new.values())
            store.append(list(new), {n: np.stack(list(block[_column(e, n)][rows])) for n in store.dims})
            encoded |= new.keys()
    filled.encoded += len(encoded)


class Worker:
    """Encodes blocks of images on one node.

    Args:
        names: of the encoders, with their expected fingerprints.
        known: for each encoder the content keys (n,) that need not be encoded, sorted, in Ray's store of
            objects: the workers of a node share one copy.
    """

    def __init__(self, names: Mapping[str, str], known: Sequence[Any]) -> None:
        import ray

        self.encoders = [load_image_encoder(name, default_device()) for name in names]
        self.known = [SortedKeys(sorted_) for sorted_ in ray.get(known)]
        for encoder, (name, fingerprint) in zip(self.encoders, names.items(), strict=True):
            if encoder.fingerprint != fingerprint:
                raise SeesayError(f"{name}: this node has other weights or another seesay; install the same.")

    def __call__(self, block: Columns) -> Columns:
        """Return for each image its place, key and error, and for each encoder its arrays and whether it ran.

        If it did not run, the arrays are zeros.
        """
        images, claims = list(block["image"]), dict[str, object]()
        parts = [
            missing_features(self.encoders, self.known, claims, images[i : i + CHUNK])
            for i in range(0, len(images), CHUNK)
        ]
        keys = [key for filled, _ in parts for key in filled.keys]
        errors = iter([error for filled, _ in parts for error in filled.errors])
        found: Columns = {
            "place": block["place"],
            "key": np.array([key or "" for key in keys]),
            "error": np.array(["" if key else str(next(errors)) for key in keys]),
        }
        for e, encoder in enumerate(self.encoders):
            computed = [features[e] for _, features in parts if features[e][0]]
            rows = [keys.index(key) for encoded, _ in computed for key in encoded]
            found[_column(e, _ENCODED)] = np.isin(np.arange(len(keys)), rows)
            for name, dim in encoder.dims.items():
                column = found[_column(e, name)] = np.zeros((len(keys), dim), np.float32)
                if rows:
                    column[rows] = np.concatenate([arrays[name] for _, arrays in computed])
        return found


def _column(encoder: int, name: str) -> str:
    """The column of a block that has an array of an encoder, by its number."""
    return f"{encoder}:{name}"


def _check_answers(address: str) -> None:
    """Raise OSError unless something answers at HOST:PORT; Ray would ask for five minutes."""
    place = urlsplit(address if "//" in address else f"//{address}")
    if place.hostname and place.port:
        socket.create_connection((place.hostname, place.port), timeout=_SECONDS).close()


@contextmanager
def _cluster(address: str) -> Iterator[Any]:
    """Connect to a cluster, and disconnect unless somebody else had connected.

    Errors of workers, which Ray reports with tracebacks, become a one-line SeesayError.
    """
    with naming_extras():
        import ray
        import ray.data
    mine = not ray.is_initialized()
    if mine:
        try:
            _check_answers(address)
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        except (OSError, ValueError, RuntimeError) as failure:
            reason = (str(failure).strip() or type(failure).__name__).splitlines()[0]
            raise SeesayError(
                f"--cluster {address}: no cluster there ({reason}); start one with `ray start --head`, or "
                "omit the option."
            ) from failure
    context = ray.data.DataContext.get_current()
    shown, context.enable_progress_bars = context.enable_progress_bars, False
    try:
        yield ray
    except ray.exceptions.RayError as failure:
        lines = [line.strip() for line in str(failure).splitlines() if line.strip()]
        reason = lines[-1] if lines else type(failure).__name__
        raise SeesayError(
            f"--cluster {address}: a worker failed ({reason.removeprefix(_OUR_ERROR)[:500]}); run the "
            f"same command again to continue."
        ) from failure
    finally:
        context.enable_progress_bars = shown
        if mine:
            ray.shutdown()
