"""Image encoders: pretrained networks that turn pixels into features."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seesay.encoders.images.crops import Pixels, crops_of
from seesay.encoders.names import IMAGE_ENCODERS, Described, kind_of
from seesay.registry import Registry

Arrays = dict[str, NDArray[np.float32]]
# Pixels (n, size, size, 3) uint8 to named arrays of n rows each.
Network = Callable[[Pixels], Arrays]


class ImageEncoder(Described):
    """A network with its preprocessing.

    Args:
        name: the name that recipes use, crops included.
        weights: an identifier that changes with the weights.
        size: side in pixels of the squares that the network takes.
        dims: width of each array that it returns, such as {"pooled": 1280, "logits": 1000}.
        network: maps pixels (n, size, size, 3) uint8 to those arrays.
        crop: "squash", "mirror" or "ten"; features are averaged over the crops of an image.

    Attributes:
        fingerprint: changes with the weights or the preprocessing; the key of the feature store.

    Example:
        >>> import numpy as np
        >>> from seesay.encoders import ImageEncoder, load_image_encoder, register_image_encoder
        >>> @register_image_encoder("mean-colour")
        ... class MeanColour(ImageEncoder):
        ...     '''Mean colour of an image.'''
        ...     @classmethod
        ...     def load(cls, name, device):
        ...         return cls(name, "v1", 8, {"pooled": 3}, lambda pixels: {"pooled": pixels.mean((1, 2))})
        >>> encoder = load_image_encoder("mean-colour")
        >>> encoder.encode(encoder.crops(np.full((30, 40, 3), 7, np.uint8))[None])["pooled"].tolist()
        [[7.0, 7.0, 7.0]]
    """

    def __init__(
        self, name: str, weights: str, size: int, dims: dict[str, int], network: Network, crop: str = "squash"
    ) -> None:
        self.name, self.size, self.dims, self.crop = name, size, dims, crop
        self._network = network
        what = f"{name} {weights} size={size} bicubic v1"
        self.fingerprint = hashlib.blake2b(what.encode(), digest_size=8).hexdigest()

    @classmethod
    def load(cls, name: str, device: str) -> ImageEncoder:
        """Load the variant that a recipe names, ready to encode on that device."""
        raise NotImplementedError

    @property
    def source(self) -> ImageEncoder:
        """The encoder whose features are stored; another one if these are computed from its features."""
        return self

    def from_source(self, arrays: Arrays) -> Arrays:
        """Compute this encoder's arrays from those of its source."""
        return arrays

    def crops(self, pixels: Pixels) -> Pixels:
        """Cut one image (h, w, 3) into what the network sees of it, (c, size, size, 3) uint8."""
        return crops_of(pixels, self.size, self.crop)

    def prepare(self, pixels: Pixels) -> Any:
        """Prepare one image (h, w, 3) for `encode_prepared`."""
        return self.crops(pixels)

    def encode_prepared(self, images: Sequence[Any]) -> Arrays:
        """Encode n prepared images: arrays of n rows."""
        return self.encode(np.stack(images))

    def encode(self, crops: Pixels) -> Arrays:
        """Encode crops (n, c, size, size, 3) uint8 to arrays (n, width), averaged over each image's crops."""
        n, c = crops.shape[:2]
        flat = self._network(crops.reshape(n * c, *crops.shape[2:]))
        return {name: rows.reshape(n, c, -1).mean(axis=1) for name, rows in flat.items()}


@lru_cache(maxsize=8)
def load_image_encoder(name: str, device: str = "cpu") -> ImageEncoder:
    """Load an image encoder by its name, such as "efficientnet-lite0:ten"; `list_encoders` lists them.

    On a CPU the packaged networks run in ONNX Runtime, on a GPU in PyTorch.

    Raises:
        SeesayError: there is no such encoder, or a part of it is not installed.

    Example:
        >>> load_image_encoder("efficientnet-lite0").dims
        {'pooled': 1280, 'logits': 1000}
        >>> load_image_encoder("efficientnet-lite7")
        Traceback (most recent call last):
        seesay.errors.SeesayError: No image encoder 'efficientnet-lite7'; did you mean 'efficientnet-lite...
    """
    return IMAGE_ENCODERS[kind_of(name)].load(name, device)


def list_encoders(registry: Registry[Any] = IMAGE_ENCODERS) -> list[tuple[str, str]]:
    """List the encoders of a registry, such as SENTENCE_ENCODERS, by name, each with a line about it.

    Example:
        >>> dict(list_encoders())["efficientnet-lite0:mirror"]
        'the same, image and mirror image averaged'
    """
    return [line for name in sorted(registry) for line in registry[name].describe(name)]
