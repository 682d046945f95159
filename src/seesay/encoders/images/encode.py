"""From images to stored features: each image decoded once for all encoders, and broken ones skipped.

Each thread decodes a few images and runs the networks on them. Both release the GIL, so all cores are used,
and only a few chunks are in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seesay.arrays import Pixels
from seesay.data.images import content_key, decode
from seesay.device import default_device
from seesay.encoders.images.base import TEN, Arrays, ImageEncoder, SharedPixels, load_image_encoder
from seesay.encoders.stores import (
    CHUNK,
    ArrayStore,
    Encoded,
    Encoding,
    Filled,
    Rows,
    encode_missing,
    fill,
    in_threads,
    store_encoded,
)
from seesay.errors import ImageError, UnavailableImageError

if TYPE_CHECKING:
    from seesay.data.corpus import CorpusImage

# Side in pixels down to which a JPEG may be decoded for any packaged encoder: the features of an image must
# not depend on the other encoders for which it is decoded.
SHARED_SIDE = 320


def encode_images(
    encoders: Sequence[ImageEncoder], images: Sequence[bytes | Pixels], names: Sequence[str]
) -> list[Arrays]:
    """Compute the features of images, each decoded once for all encoders; return the arrays of each encoder.

    Images are encoded bytes, such as JPEG, or pixels (h, w, 3) uint8; error messages have their names.

    Raises:
        ImageError: an image is broken.
        UnavailableImageError: there is not enough memory now.

    Example:
        >>> import io
        >>> from PIL import Image
        >>> from seesay.encoders import encode_images, load_image_encoder
        >>> Image.new("RGB", (64, 48), "red").save(png := io.BytesIO(), "PNG")
        >>> (arrays,) = encode_images([load_image_encoder("efficientnet-lite0")], [png.getvalue()], ["a.png"])
        >>> arrays["pooled"].shape
        (1, 1280)
    """
    sources, given = sources_of(encoders), list(zip(images, names, strict=True))
    encoding = image_encoding(list(sources.values()))

    def encoded(chunk: Sequence[tuple[bytes | Pixels, str]]) -> list[Sequence[Rows]]:
        columns = zip(*(encoding.prepare(each, range(len(sources))) for each in chunk), strict=True)
        return [encoding.encode(number, column) for number, column in enumerate(columns)]

    parts = list(in_threads(encoded, (given[i : i + CHUNK] for i in range(0, len(given), CHUNK))))
    computed = {
        key: {
            name: np.concatenate(
                [np.zeros((0, dim), np.float32), *(rows[name] for part in parts for rows in part[number])]
            )
            for name, dim in source.dims.items()
        }
        for number, (key, source) in enumerate(sources.items())
    }
    return [encoder.from_source(computed[encoder.source.stored_as]) for encoder in encoders]


def fill_stores(
    encoders: Sequence[ImageEncoder], folder: Path, images: Sequence[CorpusImage], cluster: str = ""
) -> Filled:
    """Encode the images that are missing in the stores under `folder`; see `fill`.

    Returns also the stores of each encoder's source. With `cluster`, the address of a Ray cluster, its nodes
    load the encoders by their settings. Every node must have seesay, and the images at the same absolute
    paths; see `done_on_cluster`.

    Raises:
        SeesayError: there is no cluster, a node has other weights, or all workers have failed.
        MissingExtraError: Ray is not installed.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import mkdtemp
        >>> from PIL import Image
        >>> import seesay
        >>> from seesay.encoders import fill_stores, load_image_encoder
        >>> squares = [Image.new("RGB", (64, 64), colour) for colour in ("red", "blue")]
        >>> images = seesay.corpus_of([(image, "a square", None) for image in squares]).images
        >>> filled = fill_stores([load_image_encoder("efficientnet-lite0")], Path(mkdtemp()), images)
        >>> len(filled.stores[0])
        2
    """
    sources, of_sources = sources_of(encoders), open_stores(encoders, folder)
    stores = list(of_sources.values())
    if cluster:
        from seesay.encoders.images.cluster import done_on_cluster

        known = [frozenset(store.keys()) for store in stores]
        named = [(source.settings.dump(), source.fingerprint) for source in sources.values()]
        items = ({"place": place, "image": image} for place, image in enumerate(images))
        uses_gpu = any(source.uses_gpu for source in sources.values())
        blocks = done_on_cluster(cluster, _images_on_node, (named, known), items, uses_gpu)
        filled = store_encoded("Encoding", len(images), stores, chain.from_iterable(blocks))
    else:
        filled = fill("Encoding", images, stores, image_encoding(list(sources.values())))
    return filled._replace(stores=[of_sources[encoder.source.stored_as] for encoder in encoders])


def image_encoding(encoders: Sequence[ImageEncoder]) -> Encoding[CorpusImage, tuple[bytes | Pixels, str]]:
    """Return how the features of images, encoded bytes or pixels with a name, are computed by encoders."""
    side = decoded_side(encoders)

    def read(image: CorpusImage) -> tuple[str, tuple[bytes | Pixels, str]]:
        data = bytes_of(image)
        return content_key(data), (data, image.name)

    def prepare(content: tuple[bytes | Pixels, str], lacking: Sequence[int]) -> list[Any]:
        data, name = content
        pixels = data if isinstance(data, np.ndarray) else decode(data, name, side)
        shared = pixels.view(SharedPixels)
        try:  # for all encoders at once: several full-size scans would take gigabytes
            return [encoders[number].prepare(shared) for number in lacking]
        except MemoryError as error:
            raise UnavailableImageError(f"{name}: not enough memory to crop it now.") from error

    def encode(number: int, prepared: Sequence[Any]) -> list[Rows]:
        arrays = encoders[number].encode(prepared)
        return [{name: rows[i : i + 1] for name, rows in arrays.items()} for i in range(len(prepared))]

    return Encoding(read, prepare, encode)


def _images_on_node(shared: Any) -> Callable[[dict[str, NDArray[Any]]], Iterator[Encoded]]:
    """Return a function that encodes the images of a block, a few at a time.

    `shared` are the settings and fingerprints of the encoders, and the content keys that each can skip.
    """
    from seesay.encoders.images.cluster import check_fingerprint

    named, known = shared
    encoders = [load_image_encoder(settings, default_device()) for settings, _ in named]
    for encoder, (_, fingerprint) in zip(encoders, named, strict=True):
        check_fingerprint(encoder.name, encoder.fingerprint, fingerprint)
    encoding = image_encoding(encoders)

    def encode(block: dict[str, NDArray[Any]]) -> Iterator[Encoded]:
        numbered, claims = zip(block["place"].tolist(), block["image"], strict=True), dict[str, object]()
        while some := list(islice(numbered, CHUNK)):
            yield encode_missing(encoding, known, claims, some)

    return encode


def sources_of(encoders: Sequence[ImageEncoder]) -> dict[str, ImageEncoder]:
    """Collect the distinct encoders whose features are computed from pixels, by the keys of their stores."""
    return {encoder.source.stored_as: encoder.source for encoder in encoders}


def open_stores(encoders: Sequence[ImageEncoder], folder: Path) -> dict[str, ArrayStore]:
    """Open, or create, the stores of the sources of encoders, by their keys; features are half floats."""
    return {
        key: ArrayStore(folder / key, {name: ("<f2", dim) for name, dim in source.dims.items()})
        for key, source in sources_of(encoders).items()
    }


def read_features(
    encoder: ImageEncoder, store: ArrayStore, keys: Sequence[str], name: str
) -> NDArray[np.floating]:
    """Read one array of an encoder, (n, width), as stored, or compute it from the arrays of its source."""
    if encoder.source is encoder:
        return store.read(keys, name)
    stored = {each: np.asarray(store.read(keys, each), np.float32) for each in encoder.source.dims}
    return encoder.from_source(stored)[name]


def bytes_of(image: CorpusImage) -> bytes:
    """Read the encoded image; raise ImageError if the corpus does not contain it."""
    if image.source is None:
        raise ImageError(f"{image.name}: the corpus does not contain this image.")
    return image.source.read()


def decoded_side(encoders: Sequence[ImageEncoder]) -> int:
    """Return the side in pixels down to which JPEGs may be decoded.

    Ten crops are from an image whose shorter side is 256/224 times as long.
    """
    sides = [round(e.size * 256 / 224) if e.crop == TEN else e.size for e in encoders]
    return max(SHARED_SIDE, *sides)
