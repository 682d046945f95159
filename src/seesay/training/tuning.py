"""The inputs of fine-tuning: pixels, or maps that the earlier stages of a CNN compute once.

The CNNs' features are read by a matcher, such as the common VSE of GVSE, or by the output layer of the
multi-label CNN (SCO, section 3.2). Images are cropped and mirrored at random. A matcher's loss compares all
pairs of a batch, so its gradient cannot be accumulated over parts of the batch; instead the CNN's activations
are computed twice, `at_once` images in memory at a time, which gives the gradient of the whole batch exactly.
Batch normalisation keeps the statistics of the pretrained network.

The stages after stride 16 have most of a CNN's weights and do a third of its work. With maps, only they are
tuned: their inputs, the maps of an image's crops and of a few random ones, are stored in the run's folder
during training.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint as recomputed

from seesay.arrays import Pixels
from seesay.data.corpus import CorpusImage
from seesay.data.images import decode
from seesay.device import multiplies_bfloat16
from seesay.encoders.images.base import (
    Arrays,
    ImageEncoder,
    crops_of,
    load_image_encoder,
    random_crop,
)
from seesay.encoders.images.efficientnet import LITE, load_lite, run_squares
from seesay.encoders.images.encode import (
    CHUNK,
    SHARED_SIDE,
    bytes_of,
    decoded_side,
    encode_images,
    in_threads,
)
from seesay.encoders.networks.lite import last_stages, tunable_parts
from seesay.encoders.settings import EncoderSettings
from seesay.errors import naming_extras
from seesay.losses.base import Batch
from seesay.progress import progress
from seesay.protocols.base import Result
from seesay.recipes.schema import Recipe
from seesay.runs.images import join_features
from seesay.runs.run import Run
from seesay.runs.summary import SplitSize
from seesay.training.concept_task import ConceptTask
from seesay.training.sentence_task import SentenceTask
from seesay.training.task import Task

TunableTask: TypeAlias = SentenceTask | ConceptTask

_ENCODED = 64  # val images encoded at a time
_STREAM = 2  # of random numbers; the sampler and further losses have others


class FromPixels(nn.Module):
    """CNNs and the module that reads their features.

    Args:
        networks: those of the encoders.
        reader: a matcher or a concept classifier that was trained on their features.
        arrays: which of the networks' arrays it reads.
        at_once: images whose activations are in memory at a time.
    """

    def __init__(
        self, networks: Sequence[nn.Module], reader: nn.Module, arrays: Sequence[str], at_once: int
    ) -> None:
        super().__init__()
        self.networks, self.matcher = nn.ModuleList(networks), reader
        self._arrays, self._at_once = tuple(arrays), at_once

    def train(self, mode: bool = True) -> FromPixels:
        """Set the reader's mode; the CNNs keep their statistics."""
        super().train(mode)
        self.networks.eval()
        return self

    def forward(self, inputs: Sequence[Tensor]) -> Tensor:
        """Return joined features (n, d) of n images, given the input of each network."""
        count = len(inputs[0])
        if count <= self._at_once:
            return self._part(*inputs)
        parts = zip(*(torch.split(each, self._at_once) for each in inputs), strict=True)
        if torch.is_grad_enabled():
            return torch.cat([recomputed(self._part, *part, use_reentrant=False) for part in parts])
        return torch.cat([self._part(*part) for part in parts])

    def run(self, network: nn.Module, given: Tensor) -> dict[str, Tensor]:
        """Return the arrays of squares (n, side, side, 3) uint8."""
        kind = given.device.type
        with torch.autocast(kind, torch.bfloat16, enabled=kind == "cuda"):
            return _named(network(given))

    def _part(self, *inputs: Tensor) -> Tensor:
        joined = []
        for network, given in zip(self.networks, inputs, strict=True):
            of = self.run(network, given)
            joined += [of[name].float() for name in self._arrays]
        return torch.cat(joined, dim=1)


@dataclass
class PixelsTask(Task):
    """A task whose images are pixels instead of features."""

    recipe: Recipe
    task: TunableTask
    epoch: int = 0

    def __post_init__(self) -> None:
        """Take the task's own terms and splits."""
        self.terms, self.data, self.val = self.task.terms, self.task.data, self.task.val

    def batches(self, epoch: int) -> Sequence[Any]:
        """Return the task's mini-batches."""
        self.epoch = epoch
        return self.task.batches(epoch)

    def drawn(self, batch: Any, device: str, features: Tensor | None = None) -> Batch:
        """Return what the task's mini-batch holds."""
        return self.task.drawn(batch, device, features)

    def losses(self, module: FromPixels, batch: Any, device: str) -> list[Tensor]:
        """Return the task's loss of a mini-batch, with images cropped anew."""
        images = batch[0] if isinstance(batch, tuple) else batch
        present, place = (
            np.unique(images, return_inverse=True) if isinstance(batch, tuple) else (images, None)
        )
        features = module(self.inputs(present, device))
        more = self.penalty(features, present)
        if place is not None:
            features = features[torch.from_numpy(place).to(device)]
        first, *others = self.sum_of_terms(module.matcher, self.drawn(batch, device, features))
        return [first if more is None else first + more, *others]

    def inputs(self, images: NDArray[np.int64], device: str) -> list[Tensor]:
        """Return new random crops of train images, (n, side, side, 3) uint8, for each network.

        The crops depend only on seed, epoch and image.
        """
        corpus = self.task.data.corpus
        encoders = [load_image_encoder(name) for name in self.recipe.encoders]

        def squares(image: int) -> list[Pixels]:
            there: CorpusImage = corpus.images[image]
            pixels = decode(bytes_of(there), there.name, decoded_side(encoders))
            key = self.recipe.seed, self.epoch, image  # the same draws for each network: the same part
            return [
                random_crop(pixels, each.size, each.crop, np.random.default_rng(key)) for each in encoders
            ]

        columns = zip(*in_threads(squares, images.tolist()), strict=True)
        return [torch.from_numpy(np.stack(column)).to(device) for column in columns]

    def penalty(self, features: Tensor, images: NDArray[np.int64]) -> Tensor | None:
        """Return a penalty for images (n,) with features (n, d), added to the loss; None for none."""
        del features, images
        return None

    def measure(self, run: Run) -> Result:
        """Measure the val split with the current CNN."""
        assert isinstance(run.matcher, FromPixels)
        val = replace(self.task.val, features=self.val_features(run.matcher, run.device))
        inner = Run.from_matcher(
            run.folder, run.recipe, run.vocabulary, run.sentence_encoder, run.matcher.matcher
        )
        return replace(self.task, val=val).measure(inner)

    def sizes(self) -> tuple[SplitSize, SplitSize]:
        """Return the sizes of the train and the val split."""
        return self.task.sizes()

    def val_features(self, module: FromPixels, device: str) -> NDArray[np.float32]:
        """Encode the val images with the current networks."""
        encoders = [
            _encoder(name, network, device)
            for name, network in zip(self.recipe.encoders, module.networks, strict=True)
        ]
        images = self.task.val.corpus.images
        parts = []
        for start in range(0, len(images), _ENCODED):
            some = images[start : start + _ENCODED]
            encoded = encode_images(encoders, [bytes_of(each) for each in some], [each.name for each in some])
            parts.append(join_features(self.recipe.arrays, encoded.arrays))
        return np.concatenate(parts)


def _encoder(settings: EncoderSettings, module: nn.Module, device: str) -> ImageEncoder:
    """Create an encoder from a network in training."""
    untuned = load_image_encoder(settings)

    @torch.inference_mode()
    def run(pixels: Pixels) -> Arrays:
        found = _named(module(torch.from_numpy(np.ascontiguousarray(pixels)).to(device)))
        return {key: each.float().cpu().numpy() for key, each in found.items()}

    return untuned.with_network(run)


def _named(found: Tensor | tuple[Tensor, Tensor]) -> dict[str, Tensor]:
    """Name what a network returns: pooled features and, unless it is one of timm, logits."""
    return (
        {"pooled": found}
        if isinstance(found, Tensor)
        else dict(zip(("pooled", "logits"), found, strict=True))
    )


def load_tunable(settings: EncoderSettings) -> nn.Module:
    """Load an encoder's network, from squares (n, side, side, 3) uint8 to the arrays that it returns."""
    if settings.kind in LITE:
        return load_lite(settings.kind)
    with naming_extras(of="hub"):
        from seesay.encoders.towers.export import PixelsToVectors, load_towers
    loaded = load_towers(settings)
    return PixelsToVectors(loaded.image, loaded.preprocessing).eval()


class FromMaps(FromPixels):
    """The last stages of CNNs, and the module that reads their features; arguments as of `FromPixels`."""

    def __init__(
        self, networks: Sequence[nn.Module], reader: nn.Module, arrays: Sequence[str], at_once: int
    ) -> None:
        super().__init__(networks, reader, arrays, at_once)
        self.networks.requires_grad_(False)
        for network in networks:
            for part in tunable_parts(network.network):
                part.requires_grad_(True)

    def run(self, network: nn.Module, given: Tensor) -> dict[str, Tensor]:
        """Return the arrays of maps (n, h, w, c)."""
        kind = given.device.type
        fast = self.training and multiplies_bfloat16(kind)
        with torch.autocast(kind, torch.bfloat16, enabled=fast):
            return _named(last_stages(network.network, given.float()))


@dataclass(frozen=True)
class Seen:
    """The outputs of the untuned network for views of n images.

    Attributes:
        maps: of stride 16, (n, views, h, w, c) float16.
        logits: of the classes, (n, views, 1000) float16; None if they are not needed.
    """

    maps: NDArray[np.float16]
    logits: NDArray[np.float16] | None = None


@dataclass
class MapsTask(PixelsTask):
    """A task whose images are maps; `seen_train` and `seen_val` have one `Seen` for each network."""

    seen_train: Sequence[Seen] = ()
    seen_val: Sequence[Seen] = ()
    keep_classes: float = 0.0
    _view: NDArray[np.int64] | None = None  # of each train image in this epoch

    def batches(self, epoch: int) -> Sequence[Any]:
        """Return the task's mini-batches, and draw a view of each image."""
        images, views = self.seen_train[0].maps.shape[:2]
        draw = np.random.default_rng([self.recipe.seed, epoch, _STREAM])
        self._view = np.asarray(draw.integers(views, size=images))
        return super().batches(epoch)

    def inputs(self, images: NDArray[np.int64], device: str) -> list[Tensor]:
        """Return this epoch's maps of train images."""
        assert self._view is not None
        view = self._view[images]
        return [torch.from_numpy(seen.maps[images, view]).to(device) for seen in self.seen_train]

    def penalty(self, features: Tensor, images: NDArray[np.int64]) -> Tensor | None:
        """Return the weighted divergence of the classifiers' outputs from those before tuning, if any."""
        if not self.keep_classes:
            return None
        assert self._view is not None
        seen = [each.logits for each in self.seen_train if each.logits is not None]
        parts = torch.split(features, list(self.image_dims), dim=1)
        now = [part for part in parts if part.shape[1] == seen[0].shape[2]]
        moved = features.new_zeros(())
        for logits, untuned in zip(now, seen, strict=True):
            before = torch.from_numpy(untuned[images, self._view[images]]).to(logits)
            shares, wanted = (functional.log_softmax(each, dim=1) for each in (logits, before))
            moved = moved + functional.kl_div(shares, wanted, reduction="batchmean", log_target=True)
        return self.keep_classes * moved / len(now)

    @torch.inference_mode()
    def val_features(self, module: FromPixels, device: str) -> NDArray[np.float32]:
        """Encode the val images from the maps of their crops, as their mean."""
        images, crops = self.seen_val[0].maps.shape[:2]
        parts = []
        for start in range(0, images, _ENCODED):
            maps = [
                torch.from_numpy(seen.maps[start : start + _ENCODED]).to(device) for seen in self.seen_val
            ]
            features = module([each.flatten(0, 1) for each in maps]).unflatten(0, (-1, crops))
            parts.append(features.mean(dim=1).float().cpu().numpy())
        return np.concatenate(parts)


@contextmanager
def maps_task(run: Run, task: TunableTask, views: int, keep_classes: float) -> Iterator[MapsTask]:
    """Create the task, whose maps are stored in the run's folder until the context ends."""
    folder = run.folder / "maps"
    shutil.rmtree(folder, ignore_errors=True)  # of a training that was killed
    folder.mkdir(parents=True)
    try:
        seen = [
            _see(run, split.corpus.images, least_views, folder / name, logits)
            for name, split, least_views, logits in (
                ("train", task.data, views, keep_classes > 0),
                ("val", task.val, 0, False),
            )
        ]
        yield MapsTask(run.recipe, task, seen_train=seen[0], seen_val=seen[1], keep_classes=keep_classes)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _see(run: Run, images: Sequence[CorpusImage], views: int, folder: Path, logits: bool) -> list[Seen]:
    """Compute the outputs of each network's first stages for the crops of images and, up to `views`, others.

    With `logits`, those of its classifier are also computed and stored.
    """
    folder.mkdir()
    encoders = run.recipe.encoders
    outputs = ["maps", "logits"] if logits else ["maps"]
    networks = [run_squares(each.kind, outputs, LITE[each.kind].size, run.device) for each in encoders]
    of = [(LITE[each.kind].size, each.get("crops")) for each in encoders]

    def compute(chunk: range) -> list[list[NDArray[np.float32]]]:
        squares = [_views(images[i], of, views, (run.recipe.seed, i)) for i in chunk]
        columns = zip(*squares, strict=True)
        return [
            network(np.stack(list(chain(*each)))) for network, each in zip(networks, columns, strict=True)
        ]

    seen: list[Seen] = []
    chunks = [range(start, min(start + CHUNK, len(images))) for start in range(0, len(images), CHUNK)]
    with progress("Encoding for fine-tuning", len(images), "images") as advance:
        for chunk, found in zip(chunks, in_threads(compute, chunks), strict=True):
            if not seen:
                seen = [
                    _files(folder / str(k), len(images), len(chunk), *each) for k, each in enumerate(found)
                ]
            for each, arrays in zip(seen, found, strict=True):
                files = [each.maps] if each.logits is None else [each.maps, each.logits]
                for file, rows in zip(files, arrays, strict=True):
                    file[chunk.start : chunk.stop] = rows.reshape(len(chunk), *file.shape[1:])
            advance(len(chunk))
    return seen


def _views(
    image: CorpusImage, of: Sequence[tuple[int, str]], views: int, seed: tuple[int, int]
) -> list[list[Pixels]]:
    """Return, for each size and kind of crop, the crops of an image and random ones up to `views` in all."""
    pixels = decode(bytes_of(image), image.name, SHARED_SIDE)
    found = []
    for size, kind in of:
        crops = list(crops_of(pixels, size, kind))
        for view in range(len(crops), views):
            crops.append(random_crop(pixels, size, kind, np.random.default_rng((*seed, view))))
        found.append(crops)
    return found


def _files(path: Path, images: int, chunk: int, *arrays: NDArray[np.float32]) -> Seen:
    """Create a file for each array; `arrays` hold the views of the first `chunk` images."""
    path.mkdir()
    files = [
        np.lib.format.open_memmap(
            path / f"{number}.npy",
            mode="w+",
            dtype=np.float16,
            shape=(images, len(each) // chunk, *each.shape[1:]),
        )
        for number, each in enumerate(arrays)
    ]
    for file in sorted(path.iterdir()) if hasattr(os, "posix_fallocate") else ():
        with file.open("r+b") as opened:  # else a full disk would end the process when a page is written
            try:
                os.posix_fallocate(opened.fileno(), 0, file.stat().st_size)
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):  # file systems without it
                    raise
    return Seen(*files)
