"""Image encoders: pretrained networks that turn pixels into features."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from seesay.arrays import Pixels
from seesay.data.pixels import middle
from seesay.encoders.settings import (
    IMAGE_ENCODERS,
    PRECOMPUTED,
    ROLES,
    AnyEncoder,
    Encoder,
    EncoderSettings,
    register_image_encoder,
)
from seesay.errors import SeesayError

_SHARED = 260  # pixels

TEN = "ten"  # crops


def squash(pixels: Pixels, size: int) -> Pixels:
    """Resize one image (h, w, 3) to a square, (size, size, 3).

    Resizing a photograph takes as long as an 8-bit network, and encoders need squares of different sizes. So
    an image with both sides above 260 pixels is resized to 260 × 260 once, which `SharedPixels` keep, and
    smaller squares are made from that. An encoder's pixels do not depend on which other encoders are used.
    """
    if size > _SHARED or min(pixels.shape[:2]) <= _SHARED:
        return resize(pixels, size, size)
    shared = pixels if isinstance(pixels, SharedPixels) else pixels.view(SharedPixels)
    if size == _SHARED:
        return shared.square
    import cv2

    return np.asarray(cv2.resize(shared.square, (size, size), interpolation=cv2.INTER_CUBIC))


class SharedPixels(np.ndarray[Any, np.dtype[np.uint8]]):
    """The pixels of one image, (h, w, 3), that several encoders share and none changes."""

    @cached_property
    def square(self) -> Pixels:
        """The image as a square of 260 pixels, after averaging the largest blocks that leave as many."""
        import cv2

        pixels, (height, width) = np.asarray(self), self.shape[:2]
        if (factor := min(height, width) // _SHARED) > 1:
            size = width // factor, height // factor
            pixels = np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA))
        return resize(pixels, _SHARED, _SHARED)


def ten_crops(pixels: Pixels, size: int) -> Pixels:
    """Crop the corners and the centre of the image, resized to a short side of size·256/224; mirror them."""
    large = enlarged(pixels, size)
    down, right = large.shape[0] - size, large.shape[1] - size
    corners = [(0, 0), (0, right), (down, 0), (down, right), (down // 2, right // 2)]
    five = np.stack([large[y : y + size, x : x + size] for y, x in corners])
    return np.concatenate([five, five[:, :, ::-1]])


def enlarged(pixels: Pixels, size: int) -> Pixels:
    """Resize one image so that its short side is size·256/224, of which ten crops are taken."""
    pixels = middle(pixels)
    height, width = pixels.shape[:2]
    scale = size * 256 / 224 / min(height, width)
    return resize(pixels, max(size, round(height * scale)), max(size, round(width * scale)))


def squares_of(pixels: Pixels, boxes: NDArray[np.float32], size: int) -> list[Pixels]:
    """Cut out boxes (r, 4) of one image, rounded outwards to whole pixels, and resize them to squares."""
    ends = np.concatenate([np.floor(boxes[:, :2]), np.ceil(boxes[:, 2:])], axis=1).astype(int)
    return [resize(pixels[y1:y2, x1:x2], size, size) for x1, y1, x2, y2 in ends]


def resize(pixels: Pixels, height: int, width: int) -> Pixels:
    """Resize bicubically with antialiasing; return the same array if the size is already right."""
    if pixels.shape[:2] == (height, width):
        return np.asarray(pixels)
    return np.asarray(Image.fromarray(pixels).resize((width, height), Image.Resampling.BICUBIC))


Arrays = dict[str, NDArray[np.float32]]
# Pixels (n, size, size, 3) uint8 to named arrays of n rows each.
Network = Callable[[Pixels], Arrays]


class ImageEncoder(Encoder):
    """A network with its preprocessing.

    Args:
        name: a name that differs between encoders with other features, such as `EncoderSettings.title`.
        weights: an identifier that changes with the weights.
        size: side in pixels of the network's input.
        dims: the width of each array that it returns, such as {"pooled": 1280, "logits": 1000}.
        network: maps pixels (n, size, size, 3) uint8 to those arrays.
        crop: "squash", or "ten", whose features are averaged over the crops of an image.

    Attributes:
        fingerprint: identifies weights and preprocessing.
        role: what it gives of an image, if its settings do not say; fusions find their parts by it.
        of_run: whether it reads a run's folder, which may be trained again, so that it is not cached.
        uses_gpu: whether it uses a GPU if there is one.
        over_crops: how the arrays of an image's crops become those of the image: their "mean", or the "max".
        settings: the settings that it was loaded by.
        prepared: prepares an image (h, w, 3) as a library does, if it does not crop it as `crop` says.

    Example:
        >>> import numpy as np
        >>> from seesay.encoders import ImageEncoder, load_image_encoder, register_image_encoder
        >>> @register_image_encoder("mean-colour")
        ... class MeanColour(ImageEncoder):
        ...     '''Mean colour of an image.'''
        ...     @classmethod
        ...     def load(cls, settings, device, run):
        ...         def means(pixels):
        ...             return {"pooled": pixels.mean((1, 2))}
        ...         return cls(settings.title, "v1", 8, {"pooled": 3}, means)
        >>> encoder = load_image_encoder("mean-colour")
        >>> encoder.encode([encoder.prepare(np.full((30, 40, 3), 7, np.uint8))])["pooled"].tolist()
        [[7.0, 7.0, 7.0]]
    """

    uses_gpu = True
    over_crops: ClassVar[Literal["mean", "max"]] = "mean"
    role: ClassVar[str] = ROLES[0]
    options: ClassVar[Mapping[str, Sequence[str]]] = {"role": ROLES}
    settings: EncoderSettings
    prepared: Callable[[Pixels], Pixels] | None = None

    def __init__(
        self,
        name: str,
        weights: str,
        size: int,
        dims: dict[str, int],
        network: Network,
        crop: str = "squash",
    ) -> None:
        self.name, self.size, self.dims, self.network, self.crop = name, size, dims, network, crop
        what = f"{name} {weights} size={size} bicubic v{1 if crop == TEN else 2}"
        self.fingerprint = hashlib.blake2b(what.encode(), digest_size=8).hexdigest()

    @classmethod
    def load(cls, settings: EncoderSettings, device: str, run: Path | None) -> ImageEncoder:
        """Load the encoder that a recipe names, ready to encode on that device.

        Args:
            settings: those of its recipe, checked; see `options`.
            device: "cpu" or a device of PyTorch.
            run: the folder of the run whose recipe it is, and which may hold weights; None for no run.
        """
        raise NotImplementedError

    @property
    def source(self) -> ImageEncoder:
        """The encoder whose features are stored: itself, or the one it derives its features from."""
        return self

    def from_source(self, arrays: Arrays) -> Arrays:
        """Compute the arrays of this encoder from those of its source."""
        return arrays

    def prepare(self, pixels: Pixels) -> Any:
        """Prepare one image (h, w, 3) for `encode`: crop it, (c, size, size, 3) uint8."""
        if self.prepared is not None:
            return self.prepared(pixels)[None]
        return ten_crops(pixels, self.size) if self.crop == TEN else squash(pixels, self.size)[None]

    def encode(self, images: Sequence[Any]) -> Arrays:
        """Encode n prepared images to arrays (n, width), one row for all crops of an image."""
        crops = np.stack(images)
        n, c = crops.shape[:2]
        flat = self.network(crops.reshape(n * c, *crops.shape[2:]))
        return {name: getattr(rows.reshape(n, c, -1), self.over_crops)(axis=1) for name, rows in flat.items()}


@register_image_encoder(PRECOMPUTED)
class PrecomputedEncoder(ImageEncoder):
    """Precomputed features that come with a corpus; `is` names what computed them."""

    options: ClassVar = {**ImageEncoder.options, "file": (), "is": ()}
    variants: ClassVar = {
        "": "the array of features that comes with a corpus",
        "file: FILE, is: NAME, role: concepts": "one of several; what computed it and what it gives",
    }

    @classmethod
    def load(cls, settings: EncoderSettings, device: str, run: Path | None) -> ImageEncoder:  # noqa: ARG003
        """Raise a SeesayError: the features of other images cannot be computed."""
        raise SeesayError(
            "This run was trained on precomputed features; without their encoder it cannot read images."
        )


@lru_cache(maxsize=8)
def kept_encoder(settings: EncoderSettings, device: str, run: Path | None) -> ImageEncoder:
    """Load an image encoder, or return the cached one."""
    encoder = cast("type[ImageEncoder]", IMAGE_ENCODERS[settings.kind]).load(settings, device, run)
    encoder.settings = settings
    return encoder


def load_image_encoder(encoder: AnyEncoder, device: str = "cpu", run: Path | None = None) -> ImageEncoder:
    """Load an image encoder by its kind, or a mapping as in a recipe; `list_encoders` lists them.

    Packaged networks run in ONNX Runtime on a CPU and in PyTorch on a GPU, those in 8 bits always on the CPU.
    `run` is the folder of the run whose encoder it is, which holds weights that the run has tuned.

    Example:
        >>> load_image_encoder("efficientnet-lite0").dims
        {'pooled': 1280, 'logits': 1000}
        >>> load_image_encoder("efficientnet-lite7")
        Traceback (most recent call last):
        seesay.errors.SeesayError: No image encoder 'efficientnet-lite7'; did you mean 'efficientnet-lite...
    """
    settings = IMAGE_ENCODERS.checked(encoder)
    is_kept = settings.get("tuned") or not IMAGE_ENCODERS[settings.kind].of_run
    return (kept_encoder if is_kept else kept_encoder.__wrapped__)(settings, device, run)
