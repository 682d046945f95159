"""Encoding on a Ray cluster: workers read, decode and encode; this process alone writes the feature store.

Ray Data starts blocks of images again that a lost node was working on, on other nodes. Each block reaches
this process once, however often it was tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seesay.data.corpus import CorpusImage
from seesay.data.images import content_key
from seesay.device import default_device
from seesay.encoders.images.base import ImageEncoder, load_image_encoder
from seesay.encoders.images.encode import CHUNK, Filled, encode_chunk, reading
from seesay.encoders.images.known import KnownKeys
from seesay.encoders.images.stored import one_an_encoder, open_stores
from seesay.errors import ImageError, SeesayError, naming_extras
from seesay.progress import progress

_BLOCK = 32  # images that a worker takes at a time

_OUR_ERROR = f"{SeesayError.__module__}.{SeesayError.__name__}: "  # before its message, in a traceback

Columns = dict[str, NDArray[Any]]


def fill_store_on_cluster(
    encoder: ImageEncoder, folder: Path, images: Sequence[CorpusImage], address: str
) -> Filled:
    """Encode what is missing in the store under `folder`, as `fill_stores` does, on a cluster.

    Finished blocks are kept whatever happens after them. Every node must have seesay and the images at the
    same paths.

    Args:
        encoder: as this process has it; the workers load it by its name.
        folder: of the feature stores, which this process alone writes to.
        images: of the corpus; their files by absolute paths.
        address: of the cluster, such as "ray://head:10001"; "auto" for the one that this machine belongs to.

    Raises:
        SeesayError: there is no cluster, a worker has other weights, or all workers have failed.
        MissingExtraError: Ray is not installed.
    """
    source = encoder.source
    opened = open_stores([encoder], folder)
    (store,) = opened.values()
    there, known = frozenset(store.keys()), KnownKeys(folder)
    keys = [key if (key := known.key(image)) in there else None for image in images]
    filled = Filled(keys=list(keys))
    filled.stores = one_an_encoder([encoder], opened)
    todo = [{"place": place, "image": images[place]} for place, key in enumerate(keys) if key is None]
    if not todo:
        return filled
    with _cluster(address) as ray, progress("Encoding", len(todo), "images") as advance:
        blocks = ray.data.from_items(todo, override_num_blocks=max(-(-len(todo) // _BLOCK), 1)).map_batches(
            Worker,
            fn_constructor_args=(source.name, source.fingerprint, there),
            batch_size=_BLOCK,
            compute=ray.data.ActorPoolStrategy(
                min_size=1, max_size=max(int(ray.cluster_resources().get("CPU", 1)), 1)
            ),
            num_gpus=1 if source.uses_gpu and ray.cluster_resources().get("GPU") else None,
        )
        for block in blocks.iter_batches(batch_size=None):
            _keep(block, store, filled)
            for place, key in zip(block["place"].tolist(), block["key"].tolist(), strict=True):
                if key:
                    known.note(images[place], key)
            known.keep()
            advance(len(block["place"]))
    return filled


def _keep(block: Mapping[str, NDArray[Any]], store: Any, filled: Filled) -> None:
    """Write what a block has encoded; equal files in several blocks are written once."""
    new: dict[str, int] = {}
    for row, (place, key, error) in enumerate(zip(block["place"], block["key"], block["error"], strict=True)):
        if error:
            filled.errors.append(ImageError(str(error)))
            continue
        filled.keys[int(place)] = str(key)
        if block["encoded"][row] and key not in store:
            new.setdefault(str(key), row)
    if new:
        rows = list(new.values())
        store.append(list(new), {name: np.stack(list(block[name][rows])) for name in store.dims})
        filled.encoded += len(new)


class Worker:
    """Encodes blocks of images on one node.

    Args:
        name: of the encoder.
        fingerprint: which it must have.
        known: content keys that need not be encoded.
    """

    def __init__(self, name: str, fingerprint: str, known: frozenset[str]) -> None:
        self.encoder = load_image_encoder(name, default_device())
        self.known = known
        if self.encoder.fingerprint != fingerprint:
            raise SeesayError(f"{name}: this node has other weights or another seesay; install the same.")

    def __call__(self, block: Columns) -> Columns:
        """Return of each image place, key, error, whether it was encoded, and the arrays, zeros if not."""
        images = list(block["image"])
        keys, errors = [""] * len(images), [""] * len(images)
        todo: list[tuple[int, bytes]] = []
        for row, read in enumerate(reading(images)):
            try:
                data = read()
            except ImageError as error:
                errors[row] = str(error)
                continue
            keys[row] = content_key(data)
            if keys[row] not in self.known:
                todo.append((row, data))
        encoded = np.zeros(len(images), bool)
        arrays = {n: np.zeros((len(images), d), np.float32) for n, d in self.encoder.dims.items()}
        for start in range(0, len(todo), CHUNK):
            rows, data_of = zip(*todo[start : start + CHUNK], strict=True)
            part = encode_chunk([self.encoder], data_of, [images[row].name for row in rows])
            good = [row for row, broken in zip(rows, part.errors, strict=True) if broken is None]
            for row, broken in zip(rows, part.errors, strict=True):
                errors[row] = str(broken or "")
            encoded[good] = True
            for name, values in (part.arrays[0] if good else {}).items():
                arrays[name][good] = values
        about = {
            "place": block["place"],
            "key": np.array(keys),
            "error": np.array(errors),
            "encoded": encoded,
        }
        return about | arrays


@contextmanager
def _cluster(address: str) -> Iterator[Any]:
    """Connect to a cluster, and disconnect unless somebody else had connected.

    What a worker raises, and Ray passes on with its tracebacks, becomes a SeesayError of one line.
    """
    with naming_extras():
        import ray
        import ray.data
    mine = not ray.is_initialized()
    if mine:
        try:
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        except (ConnectionError, ValueError, RuntimeError) as failure:
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
            f"--cluster {address}: a worker failed ({reason.removeprefix(_OUR_ERROR)[:500]}); run the same "
            "command again to go on."
        ) from failure
    finally:
        context.enable_progress_bars = shown
        if mine:
            ray.shutdown()
