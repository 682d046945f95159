"""Fine-tuning: CNNs are trained together with the module that reads their features.

This is a matcher, such as the common VSE of GVSE, or the output layer of the multi-label CNN (SCO, section
3.2). A matcher's loss compares all pairs of a batch, so its gradient cannot be accumulated over parts of the
batch; instead the CNN's activations are computed twice, `at_once` images in memory at a time, which gives the
gradient of the whole batch exactly. Batch normalisation keeps the statistics of the pretrained network.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint as recomputed

from seesay.arrays import Pixels
from seesay.data.corpus import CorpusImage
from seesay.data.images import decode
from seesay.encoders.images.base import TEN, Arrays, ImageEncoder, enlarged, load_image_encoder, resize
from seesay.encoders.images.encode import bytes_of, decoded_side, encode_images
from seesay.encoders.settings import EncoderSettings
from seesay.encoders.stores import in_threads
from seesay.losses.base import Batch
from seesay.protocols.base import Result
from seesay.recipes.schema import Recipe
from seesay.runs.prepare import join_features
from seesay.runs.run import Run
from seesay.runs.summary import Size
from seesay.training.task import Task

_ENCODED = 64  # val images encoded at a time


class FromPixels(nn.Module):
    """The networks of encoders, and a matcher or concept classifier that reads `arrays` of them.

    The activations of `at_once` images are in memory at a time.
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
        """Return joined features (n, d) of n images, given squares (n, side, side, 3) of each network."""
        count = len(inputs[0])
        if count <= self._at_once:
            return self._part(*inputs)
        parts = zip(*(torch.split(each, self._at_once) for each in inputs), strict=True)
        if torch.is_grad_enabled():
            return torch.cat([recomputed(self._part, *part, use_reentrant=False) for part in parts])
        return torch.cat([self._part(*part) for part in parts])

    def _part(self, *inputs: Tensor) -> Tensor:
        joined, kind = [], inputs[0].device.type
        for network, squares in zip(self.networks, inputs, strict=True):
            with torch.autocast(kind, torch.bfloat16, enabled=kind == "cuda"):
                found = _named(network(squares))
            joined += [found[name].float() for name in self._arrays]
        return torch.cat(joined, dim=1)


class PixelsTask(Task):
    """A task whose images are pixels instead of features.

    Each epoch shows one of `views` crops of an image: those of its encoder, then random ones. With None each
    epoch has new random ones.
    """

    def __init__(self, recipe: Recipe, task: Task, views: int | None = None) -> None:
        self.recipe, self.task, self.views, self.epoch = recipe, task, views, 0
        self.terms, self.data, self.val = task.terms, task.data, task.val

    def batches(self, epoch: int) -> Sequence[Any]:
        """Return the task's mini-batches."""
        self.epoch = epoch
        return self.task.batches(epoch)

    def drawn(self, batch: Any, device: str, features: Tensor | None = None) -> Batch:
        """Return what the task's mini-batch holds."""
        return self.task.drawn(batch, device, features)

    def losses(self, module: FromPixels, batch: Any, device: str) -> list[Tensor]:
        """Return the task's loss of a mini-batch, with images cropped anew."""
        if not isinstance(batch, tuple):
            features = module(self.inputs(batch, device))
        else:  # of pairs, which may share images
            present, place = np.unique(batch[0], return_inverse=True)
            features = module(self.inputs(present, device))[torch.from_numpy(place).to(device)]
        return self.sum_of_terms(module.matcher, self.drawn(batch, device, features))

    def inputs(self, images: NDArray[np.int64], device: str) -> list[Tensor]:
        """Return crops of train images, (n, side, side, 3) uint8, for each network.

        They depend only on seed, epoch and image, and show each network the same part.
        """
        encoders = [load_image_encoder(name) for name in self.recipe.encoders]

        def squares(image: int) -> list[Pixels]:
            there = self.task.data.corpus.images[image]
            pixels = decode(bytes_of(there), there.name, decoded_side(encoders))
            return [crop(pixels, each, image) for each in encoders]

        def crop(pixels: Pixels, encoder: ImageEncoder, image: int) -> Pixels:
            key = self.recipe.seed, self.epoch, image
            if self.views is not None:
                view = int(np.random.default_rng(key).integers(self.views))
                own = encoder.prepare(pixels)
                if view < len(own):
                    return np.asarray(own[view])
                key = self.recipe.seed, image, view
            return random_crop(pixels, encoder.size, encoder.crop, np.random.default_rng(key))

        columns = zip(*in_threads(squares, images.tolist()), strict=True)
        return [torch.from_numpy(np.stack(column)).to(device) for column in columns]

    def measure(self, run: Run) -> Result:
        """Measure the val split, or `val_images` of it, with the current CNN."""
        assert isinstance(run.matcher, FromPixels)
        task, val, count = copy(self.task), self.task.val, self.recipe.val_images
        val = val if count is None else val.of_first_images(count)
        task.val = replace(val, features=self._encoded(val.corpus.images, run.matcher, run.device))
        inner = run.matcher.matcher
        return task.measure(
            Run.from_matcher(run.folder, run.recipe, run.vocabulary, run.sentence_encoder, inner)
        )

    def sizes(self) -> tuple[Size, Size]:
        """Return the sizes of the train and the val split."""
        return self.task.sizes()

    def _encoded(self, images: Sequence[CorpusImage], module: FromPixels, device: str) -> NDArray[np.float32]:
        """Encode images with the current networks."""
        encoders = [
            _encoder(*each, device) for each in zip(self.recipe.encoders, module.networks, strict=True)
        ]
        parts = []
        for start in range(0, len(images), _ENCODED):
            some = images[start : start + _ENCODED]
            arrays = encode_images(encoders, [bytes_of(each) for each in some], [each.name for each in some])
            parts.append(join_features(self.recipe.arrays, arrays))
        return np.concatenate(parts)


def random_crop(pixels: Pixels, size: int, kind: str, draw: np.random.Generator) -> Pixels:
    """Crop and mirror one image at random, (size, size, 3) uint8, to fine-tune a network.

    The crop is from the image that is resized for the "ten" crops, or for other kinds from a square of side
    size·256/224.
    """
    side = round(size * 256 / 224)
    large = enlarged(pixels, size) if kind == TEN else resize(pixels, side, side)
    y, x = (draw.integers(length - size + 1) for length in large.shape[:2])
    crop = large[y : y + size, x : x + size]
    return crop[:, ::-1] if draw.random() < 0.5 else crop


def _encoder(settings: EncoderSettings, module: nn.Module, device: str) -> ImageEncoder:
    """Create an encoder from a network in training, whose features are in no store."""
    encoder = copy(load_image_encoder(settings))

    @torch.inference_mode()
    def run(pixels: Pixels) -> Arrays:
        found = _named(module(torch.from_numpy(np.ascontiguousarray(pixels)).to(device)))
        return {key: each.float().cpu().numpy() for key, each in found.items()}

    encoder.network, encoder.fingerprint = run, f"{encoder.fingerprint} in training"
    return encoder


def _named(found: Tensor | tuple[Tensor, Tensor]) -> dict[str, Tensor]:
    """Name what a network returns: pooled features and, unless it is one of timm, logits."""
    arrays = (found,) if isinstance(found, Tensor) else found
    return dict(zip(("pooled", "logits"), arrays, strict=False))
