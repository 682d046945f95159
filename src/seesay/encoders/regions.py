"""Region encoders: features of boxes of an image.

`roi-pooling` runs EfficientNet-Lite0 once on the whole image and pools its last convolutional maps of stride
16 and 32 in 3 × 3 bins of each box, as Fast R-CNN does in 7 × 7 (Girshick, ICCV 2015). `detector` adds the
classes of a detector in a file, whose boxes are proposals.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from seesay.arrays import Pixels, Vectors
from seesay.data.boxes import iou
from seesay.data.corpus import CorpusImage
from seesay.data.features import BoxFile
from seesay.data.images import content_key, decode
from seesay.encoders import proposals
from seesay.encoders.images.base import resize
from seesay.encoders.images.efficientnet import EIGHT_BITS, MAP_CHANNELS, lite_network, weights_of
from seesay.encoders.images.encode import bytes_of
from seesay.encoders.proposals import NMS, propose
from seesay.encoders.settings import (
    PRECOMPUTED,
    REGION_ENCODERS,
    AnyEncoder,
    Encoder,
    EncoderSettings,
    register_region_encoder,
)
from seesay.encoders.stores import ArrayStore, Encoding, Rows, fill
from seesay.errors import ImageError, SeesayError
from seesay.onnx import compute, onnx_session
from seesay.paths import file_beside, file_digest, home_expanded

Boxes = NDArray[np.float32]

NETWORK = "efficientnet-lite0"
BINS = 3  # per side of each box
SIDE = 448  # pixels, of the square that the whole image is resized to
POOLING, DETECTOR = "roi-pooling", "detector"
MAPS = f"{NETWORK}{EIGHT_BITS}"  # whose pooled maps precede a detector's classes
_OBJECTS = 60  # of an image, at most
_SAME = 0.7  # the IoU above which a proposal is the box of an object

_STRIDES = (8, 16, 32)
_GREY = 114
_MIN_SCORE, _OVERLAP = 0.05, 0.6  # least score of a box, and least IoU of two that are one object


class RegionEncoder(Encoder):
    """A network that turns boxes of images into features.

    Name, weights and what it does with image and boxes identify its features. `compute` maps an image
    (h, w, 3) and boxes (r, 4) inside it to features (r, dim).

    Example:
        >>> import numpy as np
        >>> from seesay.encoders import RegionEncoder
        >>> def areas(pixels, boxes):
        ...     return ((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]))[:, None]
        >>> encoder = RegionEncoder("areas", "v1", "in pixels", 1, areas)
        >>> encoder.encode(np.zeros((30, 40, 3), np.uint8), [[0, 0, 10, 5], [20, 10, 60, 20]]).tolist()
        [[50.0], [200.0]]
    """

    role: ClassVar[str] = "regions"

    def __init__(
        self, name: str, weights: str, what: str, dim: int, compute: Callable[[Pixels, Boxes], Vectors]
    ) -> None:
        self.name, self.dim, self._compute = name, dim, compute
        self.fingerprint = hashlib.blake2b(f"{name} {weights} {what}".encode(), digest_size=8).hexdigest()

    @classmethod
    def load(cls, settings: EncoderSettings, device: str, run: Path | None) -> RegionEncoder:
        """Load the encoder that a recipe names; see `ImageEncoder.load`."""
        raise NotImplementedError

    def propose(self, pixels: Pixels, count: int, nms: float = NMS) -> Boxes:
        """Propose at most `count` boxes (r, 4) of one image (h, w, 3); see `proposals.propose`."""
        return propose(pixels, count, nms)

    def encode(self, pixels: Pixels, boxes: Boxes) -> Vectors:
        """Compute features (r, dim) of boxes (r, 4) of one image (h, w, 3), clipped by `clip_boxes`."""
        return self._compute(pixels, clip_boxes(boxes, *pixels.shape[:2]))


def load_region_encoder(encoder: AnyEncoder, device: str = "cpu", run: Path | None = None) -> RegionEncoder:
    """Load a region encoder by its settings, such as "roi-pooling"; see `load_image_encoder`.

    Example:
        >>> import numpy as np
        >>> from seesay.encoders import load_region_encoder
        >>> encoder = load_region_encoder("roi-pooling")
        >>> encoder.encode(np.zeros((64, 96, 3), np.uint8), [[0, 0, 48, 64], [10, 10, 90, 60]]).shape
        (2, 3888)
    """
    settings = EncoderSettings.parse(encoder)
    if settings.kind == PRECOMPUTED:
        raise SeesayError(
            f"This run was trained on the boxes and features of {settings.get('file')}; without their "
            "encoder it cannot read other images."
        )
    settings = REGION_ENCODERS.checked(settings)
    return cast("type[RegionEncoder]", REGION_ENCODERS[settings.kind]).load(settings, device, run)


def clip_boxes(boxes: Boxes, height: int, width: int) -> Boxes:
    """Clip boxes (r, 4) to the image, at least one pixel in size; raise SeesayError if one is outside."""
    boxes = np.asarray(boxes, np.float32).reshape(-1, 4)
    x1, y1, x2, y2 = boxes.T
    good = (x1 <= x2) & (y1 <= y2) & (x1 < width) & (y1 < height) & (x2 > 0) & (y2 > 0)
    good &= np.isfinite(boxes).all(axis=1)
    if not good.all():
        row = int(np.argmin(good))
        raise SeesayError(
            f"Box {boxes[row].tolist()} (row {row}) is not in an image of {width}×{height} pixels; "
            "boxes are x1 y1 x2 y2 in pixels."
        )
    ends: Boxes = np.array([width, height], np.float32)
    starts: Boxes = np.clip(boxes[:, :2], 0, ends - 1)
    return np.concatenate([starts, np.clip(boxes[:, 2:], starts + 1, ends)], axis=1)


def region_features(
    features: NDArray[np.floating], boxes: Boxes, size: tuple[int, int], geometry: bool
) -> Vectors:
    """Append to features (r, d), if `geometry` is set, box and area as shares of the image: (r, d + 5).

    Boxes (r, 4) are in pixels; `size` is the image's width and height. Raises SeesayError if it is needed and
    not known.
    """
    rows = np.asarray(features, np.float32)
    if not geometry:
        return rows
    if not all(size):
        raise SeesayError("regions.geometry needs the size of every image; add the images to the corpus.")
    shares = boxes / np.tile(size, 2)
    sides = shares[:, 2:] - shares[:, :2]
    return np.concatenate([rows, shares, sides.prod(axis=1, keepdims=True)], axis=1, dtype=np.float32)


def pool_regions(maps: NDArray[np.float32], boxes: Boxes, bins: int) -> Vectors:
    """Average a map (h, w, c), interpolated bilinearly, over each of the bins × bins parts of each box.

    This is precise RoI pooling (Jiang et al., ECCV 2018, eq. 2): the exact integral of the interpolated map
    over each part, where RoIAlign takes samples. It is linear in the map and separates into rows and columns,
    so all boxes, (r, 4) as shares of the image, are pooled by one matrix product.

    The result, (r, bins·bins·c), has the parts row by row, each from left to right.
    """
    height, width, channels = maps.shape
    steps = np.arange(bins + 1, dtype=np.float32)
    x, y = (boxes[:, i, None] + (boxes[:, i + 2] - boxes[:, i])[:, None] * steps / bins for i in (0, 1))
    down, across = _shares(y, height), _shares(x, width)
    shape = len(boxes) * bins * bins, height * width
    weights = (down[:, :, None, :, None] * across[:, None, :, None, :]).reshape(shape)
    rows: Vectors = np.matmul(weights, maps.reshape(height * width, channels), dtype=np.float32)
    return rows.reshape(len(boxes), bins * bins * channels)


def _shares(edges: NDArray[np.floating], cells: int) -> NDArray[np.float32]:
    """Compute the share of each cell of a row in the mean over each bin, (r, bins, cells).

    The map has the value of cell i at i + ½ and is linear between the centres of cells; beyond the outermost
    centres it is constant up to the border.
    """
    starts, ends = edges[:, :-1] * cells, edges[:, 1:] * cells
    middles = np.arange(-1, cells + 1) + 0.5

    def until(ends: NDArray[np.floating]) -> NDArray[np.float64]:
        u = np.clip(ends[..., None] - middles, -1, 1)
        return np.where(u < 0, (1 + u) ** 2 / 2, 1 - (1 - u) ** 2 / 2)

    shares = (until(ends) - until(starts)) / (ends - starts)[..., None]
    shares[..., 1] += shares[..., 0]
    shares[..., -2] += shares[..., -1]
    return shares[..., 1:-1].astype(np.float32)


@register_region_encoder(POOLING)
class PoolingEncoder(RegionEncoder):
    """Maps of one pass of EfficientNet-Lite0 over the image, pooled in the regions."""

    options: ClassVar = {"network": (NETWORK, MAPS)}
    variants: ClassVar = {
        "": f"maps of one pass over the image, pooled in {BINS} × {BINS} bins of each region",
        f"network: {MAPS}": "the same in 8 bits: included, and more than twice as fast on a CPU",
    }

    @classmethod
    def load(cls, settings: EncoderSettings, device: str, run: Path | None) -> RegionEncoder:
        network, dim = settings.get("network") or NETWORK, BINS * BINS * sum(MAP_CHANNELS.values())
        maps_of, sessions = lite_network(network, MAP_CHANNELS, SIDE, device, run)

        def compute(pixels: Pixels, boxes: Boxes) -> Vectors:
            shares: Boxes = np.divide(boxes, np.array(pixels.shape[1::-1] * 2, np.float32))
            strides = maps_of(resize(pixels, SIDE, SIDE)[None])  # maps (1, h, w, c), of stride 16 and 32
            return np.concatenate([pool_regions(maps[0], shares, BINS) for maps in strides.values()], axis=1)

        what = f"side={SIDE} bicubic pool={BINS} v2"
        encoder = cls(f"{network}:roi", weights_of(network), what, dim, compute)
        encoder.sessions = sessions
        return encoder


class Detector:
    """A user's detector in an ONNX file, in the layout of YOLOX (Ge et al. 2021), with `classes` of objects.

    The input is pixels (1, 3, s, s), BGR, from 0 to 255, with the image in the upper left corner and grey
    (114) around it. The output (1, n, 5 + C) has a row for each cell of the grids of stride 8, 16 and 32:
    centre and logarithmic size of a box in cells, and the probabilities of an object and of the C classes.

    Raises:
        SeesayError: the file does not exist or has another layout.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise SeesayError(f"{path}: no such detector; name an ONNX file of YOLOX's layout.")
        self._session = onnx_session(path, 1, "name an ONNX file of YOLOX's layout")
        (given, *more), outputs = self._session.get_inputs(), self._session.get_outputs()
        shape = given.shape
        square = len(shape) == 4 and shape[1:3] == [3, shape[3]] and isinstance(shape[3], int)
        takes_one = square and (shape[0] == 1 or not isinstance(shape[0], int))
        if more or not takes_one or given.type != "tensor(float)" or len(outputs) != 1:
            raise SeesayError(
                f"{path}: not of YOLOX's layout, one input (1, 3, side, side) of float32 and one output; its "
                f"inputs are {[(each.shape, each.type) for each in (given, *more)]}."
            )
        self._name, self._side = given.name, int(shape[2])
        # The upper left corner of each output row's cell, in cells, (n, 2), and its stride, (n, 1).
        sides = [self._side // stride for stride in _STRIDES]
        grids = [np.mgrid[:side, :side].reshape(2, -1) for side in sides]
        self._cells = np.concatenate([grid[::-1].T for grid in grids]).astype(np.float32)
        self._strides = np.repeat(np.array(_STRIDES, np.float32), np.square(sides))[:, None]
        shape = outputs[0].shape
        if len(shape) != 3 or shape[1] != len(self._cells) or not isinstance(shape[2], int) or shape[2] < 6:
            raise SeesayError(
                f"{path}: not of YOLOX's layout, whose output is (1, {len(self._cells)}, 5 + classes); it is "
                f"{shape}."
            )
        self.path, self.classes, self.digest = path, shape[2] - 5, file_digest(path)

    def objects(self, pixels: Pixels, count: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Find at most `count` objects, best first: boxes (r, 4), and confidences in each class, (r, C).

        Boxes that overlap a better one by an IoU of 0.6 or more, with a confidence below 0.05 or with a side
        below one pixel are left out.
        """
        boxes, confidences = self.read(pixels)
        scores, sides = confidences.max(axis=1), boxes[:, 2:] - boxes[:, :2]
        order = np.argsort(-scores, kind="stable")
        left = order[(scores[order] >= _MIN_SCORE) & (sides[order] >= 1).all(axis=1)]
        chosen: list[int] = []
        while len(left) and len(chosen) < count:
            first, left = int(left[0]), left[1:]
            chosen.append(first)
            left = left[iou(boxes[left], boxes[first : first + 1])[:, 0] < _OVERLAP]
        return boxes[chosen], confidences[chosen]

    def read(self, pixels: Pixels) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the box of each cell of the grids, (n, 4), and its confidence in each class, (n, C)."""
        height, width = pixels.shape[:2]
        scale = self._side / max(height, width)
        fitted = resize(pixels, max(1, round(height * scale)), max(1, round(width * scale)))
        square = np.full((self._side, self._side, 3), _GREY, np.float32)
        square[: fitted.shape[0], : fitted.shape[1]] = fitted[:, :, ::-1]
        rows = compute(self.path, self._session, {self._name: square.transpose(2, 0, 1)[None]})[0][0]
        if not np.isfinite(rows).all():
            raise SeesayError(f"{self.path}: returned a number that is not finite; export it again.")
        middles = (rows[:, :2] + self._cells) * self._strides
        sides = np.exp(rows[:, 2:4]) * self._strides
        shares = np.concatenate([middles - sides / 2, middles + sides / 2], axis=1) / scale
        boxes = np.clip(shares, 0, [width, height] * 2).astype(np.float32)
        return boxes, np.clip(rows[:, 4:5] * rows[:, 5:], 0, 1, dtype=np.float32)


@register_region_encoder(DETECTOR)
class DetectedRegionEncoder(RegionEncoder):
    """Pooled maps and the classes of a detector's objects; the paper's detector is Fast R-CNN."""

    options: ClassVar = {"file": ()}
    variants: ClassVar = {
        "file: FILE": "the same and the classes of a detector (ONNX, YOLOX's layout), whose boxes are taken"
    }
    detector: Detector

    @classmethod
    def load(cls, settings: EncoderSettings, device: str, run: Path | None) -> RegionEncoder:
        if not (file := settings.get("file")):
            raise SeesayError("Region encoder 'detector': name its file, {kind: detector, file: FILE.onnx}.")
        detector = Detector(home_expanded(file))
        maps = load_region_encoder({"kind": POOLING, "network": MAPS}, device, run)

        def compute(pixels: Pixels, boxes: Boxes) -> Vectors:
            objects, confidences = detector.objects(pixels, _OBJECTS)
            # For each class the highest confidence of an object times its IoU with the box.
            classes = (iou(boxes, objects)[:, :, None] * confidences).max(axis=1, initial=0)
            return np.concatenate([maps.encode(pixels, boxes), classes], axis=1)

        dim = maps.dim + detector.classes
        # Features do not depend on the path of the file.
        encoder = cls(DETECTOR, maps.fingerprint, f"{detector.digest} {_OBJECTS} {_SAME} v1", dim, compute)
        encoder.detector, encoder.sessions = detector, maps.sessions
        return encoder

    def propose(self, pixels: Pixels, count: int, nms: float = NMS) -> Boxes:
        """Propose the objects' boxes, then Edge Boxes whose IoU is below 0.7; the last is the image."""
        objects, _ = self.detector.objects(pixels, min(_OBJECTS, count - 1))
        edges = propose(pixels, count, nms)
        others = edges[:-1][iou(edges[:-1], objects).max(axis=1, initial=0) < _SAME]
        return np.concatenate([objects, others[: count - 1 - len(objects)], edges[-1:]])


class Regions(NamedTuple):
    """Regions of one image: boxes (r, 4) float32 in its pixels, and features (r, dim)."""

    boxes: Boxes
    features: NDArray[np.floating]


class RegionFill(NamedTuple):
    """Regions of some images, in their order."""

    regions: list[Regions]  # proposals, then the image's extra boxes; empty for a broken image
    proposals: NDArray[np.int64]  # the number of proposals of each
    errors: list[ImageError]  # of the broken images


def region_store(folder: Path, encoder: RegionEncoder) -> ArrayStore:
    """Open the store of an encoder's regions by key, under the folder of all stores."""
    made = f"{encoder.stored_as} proposals v{proposals.VERSION}"
    name = hashlib.blake2b(made.encode(), digest_size=8).hexdigest()
    return ArrayStore(folder / name, {"features": ("<f2", encoder.dim), "boxes": ("<f4", 4)})


def fill_regions(
    encoder: RegionEncoder,
    folder: Path,
    images: Sequence[CorpusImage],
    extra_boxes: Sequence[Boxes] | None = None,
    count: int = 200,
    nms: float = NMS,
) -> RegionFill:
    """Read the regions of every image from the store under `folder`; compute missing ones.

    The regions of an image are at most `count` proposals, and then its `extra_boxes` (k, 4), such as the true
    ones; see `RegionEncoder.propose`. Finished batches are stored, so an interrupted call can be resumed.
    """
    store = region_store(folder, encoder)
    extras = [np.zeros((0, 4), np.float32)] * len(images) if extra_boxes is None else extra_boxes

    def read(item: tuple[CorpusImage, Boxes]) -> tuple[str, tuple[bytes, str, Boxes]]:
        image, extra = item
        data = bytes_of(image)
        what = f"{content_key(data)} {count} {nms} ".encode() + np.asarray(extra, "<f4").tobytes()
        return hashlib.blake2b(what, digest_size=16).hexdigest(), (data, image.name, extra)

    def prepare(content: tuple[bytes, str, Boxes], _: Sequence[int]) -> list[Rows]:
        data, name, extra = content
        pixels = decode(data, name)
        boxes = np.concatenate([encoder.propose(pixels, count, nms), np.reshape(extra, (-1, 4))])
        return [{"boxes": boxes, "features": encoder.encode(pixels, boxes).astype(np.float16)}]

    # Computed where other encoders only prepare, so that one image is in memory at a time.
    encoding = Encoding(read, prepare, lambda _, computed: computed)
    filled = fill("Regions", list(zip(images, extras, strict=True)), [store], encoding)
    none = Regions(np.zeros((0, 4), np.float32), np.zeros((0, encoder.dim), np.float16))
    regions = [none if key is None else Regions(**store[key]) for key in filled.keys]
    counts = [max(len(r.boxes) - len(own), 0) for r, own in zip(regions, extras, strict=True)]
    return RegionFill(regions, np.array(counts, np.int64), filled.errors)


def box_file_of(settings: EncoderSettings, corpus: Path) -> BoxFile | None:
    """Open the file of boxes and features that a recipe names instead of a region encoder, if any.

    A relative path starts in the folder of the corpus.

    Raises:
        SeesayError: no file is named, or it cannot be read.
    """
    if settings.kind != PRECOMPUTED:
        return None
    if not (file := settings.get("file")):
        raise SeesayError(
            "Phrases need a feature of each box; name the file, {kind: precomputed, file: FILE.npy}."
        )
    return BoxFile(file_beside(corpus, file))


def read_regions(file: BoxFile, images: Sequence[CorpusImage], count: int, further: bool) -> RegionFill:
    """Read the regions of every image from a file of boxes and features.

    The first `count` boxes of an image are its proposals; with `further`, the others follow. The errors are
    those of images without boxes.

    Raises:
        SeesayError: a box lies outside its image.
    """
    none = Regions(np.zeros((0, 4), np.float32), np.zeros((0, file.dim), np.float16))
    found = RegionFill([none] * len(images), np.zeros(len(images), np.int64), [])
    for number, image in enumerate(images):
        try:
            boxes, features, found.proposals[number] = file.regions(image.name, image.size, count, further)
        except ImageError as error:
            found.errors.append(error)
        else:
            found.regions[number] = Regions(boxes, features)
    return found
