"""Fine-tuning of the last stages of CNNs, on maps that the earlier stages compute once.

The stages after stride 16 have most of a CNN's weights and do a third of its work. Their inputs, the maps of
an image's crops and of a few random ones, are stored in the run's folder during training.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from seesay.data.corpus import CorpusImage
from seesay.data.images import decode
from seesay.device import multiplies_bfloat16
from seesay.encoders.images.base import Pixels, crops_of, random_crop
from seesay.encoders.images.efficientnet import LITE, run_squares
from seesay.encoders.images.encode import CHUNK, SHARED_SIDE, bytes_of, in_threads
from seesay.encoders.networks.lite import PixelsToStages, last_stages, load_lite, tunable_parts
from seesay.encoders.spec import EncoderSpec
from seesay.progress import progress
from seesay.runs.run import Run
from seesay.training.from_pixels import FromPixels, PixelsTask, TunableTask

_STREAM = 2  # of random numbers, beside the sampler's and that of images of classes
_ENCODED = 64  # val images at a time


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

    def run(self, network: nn.Module, given: Tensor) -> tuple[Tensor, Tensor]:
        """Return pooled features and logits of maps (n, h, w, c)."""
        kind = given.device.type
        fast = self.training and multiplies_bfloat16(kind)
        with torch.autocast(kind, torch.bfloat16, enabled=fast):
            return last_stages(network.network, given.float())


@dataclass(frozen=True)
class Seen:
    """The outputs of the untuned network for views of n images.

    Attributes:
        maps: of stride 16, (n, views, h, w, c) float16.
        logits: of the classes, (n, views, 1000) float16, where they are held on to.
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
        """Return the divergence of the classifiers' outputs from those before tuning."""
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
    """Create the task, whose maps are in the run's folder until it ends."""
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
    """Compute what each network's first stages make of images: of their crops, and of `views` at least.

    With `logits` it is also computed, and held on to, what its classifier makes of them.
    """
    folder.mkdir()
    specs = [EncoderSpec.parse(encoder) for encoder in run.recipe.encoders]
    outputs = ["maps", "logits"] if logits else ["maps"]
    networks = [
        run_squares(spec.name, partial(_stages, spec.name, logits), LITE[spec.name].size, outputs, run.device)
        for spec in specs
    ]
    of = [(LITE[spec.name].size, spec.variant) for spec in specs]

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
    """Make a file for each array, which has rows for the views of the first `chunk` images."""
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
    return Seen(*files)


def _stages(name: str, logits: bool) -> nn.Module:
    return PixelsToStages(load_lite(name).network, logits)
