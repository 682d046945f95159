"""Fine-tuning, the second step of two-step learning: CNNs and their matcher, end to end from pixels.

The reader is a matcher (GVSE, common VSE) or the output layer of the multi-label CNN (SCO, section 3.2).
Images are cropped and mirrored at random. A matcher's loss compares all pairs of a batch, so its gradient
cannot be accumulated over parts of the batch; instead the CNN's activations are computed twice, `at_once`
images in memory at a time, which gives the gradient of the whole batch exactly. Batch normalisation keeps
the statistics of the pretrained network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint as recomputed

from seesay.data.corpus import CorpusImage
from seesay.data.images import decode
from seesay.encoders.images.base import Arrays, ImageEncoder, Pixels, random_crop
from seesay.encoders.images.efficientnet import LITE
from seesay.encoders.images.encode import SHARED_SIDE, bytes_of, encode_images, in_threads
from seesay.encoders.spec import EncoderSpec
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


class FromPixels(nn.Module):
    """CNNs and the module that reads their features.

    Args:
        networks: of the encoders.
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
        """Return joined features (n, d) of what each network is given of n images."""
        count = len(inputs[0])
        if count <= self._at_once:
            return self._part(*inputs)
        parts = zip(*(torch.split(each, self._at_once) for each in inputs), strict=True)
        if torch.is_grad_enabled():
            return torch.cat([recomputed(self._part, *part, use_reentrant=False) for part in parts])
        return torch.cat([self._part(*part) for part in parts])

    def run(self, network: nn.Module, given: Tensor) -> tuple[Tensor, Tensor]:
        """Return pooled features and logits of squares (n, side, side, 3) uint8."""
        kind = given.device.type
        with torch.autocast(kind, torch.bfloat16, enabled=kind == "cuda"):
            found: tuple[Tensor, Tensor] = network(given)
        return found

    def _part(self, *inputs: Tensor) -> Tensor:
        joined = []
        for network, given in zip(self.networks, inputs, strict=True):
            of = dict(zip(("pooled", "logits"), self.run(network, given), strict=True))
            joined += [of[name].float() for name in self._arrays]
        return torch.cat(joined, dim=1)


@dataclass
class PixelsTask(Task):
    """A task whose images are pixels instead of features."""

    recipe: Recipe
    task: TunableTask
    epoch: int = 0

    def __post_init__(self) -> None:
        """Take the task's own loss and splits."""
        self.loss, self.data, self.val = self.task.loss, self.task.data, self.task.val

    @property
    def image_dims(self) -> tuple[int, ...]:
        """Widths of the features that the CNN gives."""
        return self.task.image_dims

    def batches(self, epoch: int) -> Sequence[Any]:
        """Return the task's mini-batches."""
        self.epoch = epoch
        return self.task.batches(epoch)

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
        first, *others = self.task.losses_of(module.matcher, features, batch, device)
        return [first if more is None else first + more, *others]

    def inputs(self, images: NDArray[np.int64], device: str) -> list[Tensor]:
        """Return new crops of train images, (n, side, side, 3).

        The crops only depend on seed, epoch and image.
        """
        corpus = self.task.data.corpus
        specs = map(EncoderSpec.parse, self.recipe.encoders)
        sizes = [(LITE[spec.name].size, spec.variant) for spec in specs]

        def squares(image: int) -> list[Pixels]:
            there: CorpusImage = corpus.images[image]
            pixels = decode(bytes_of(there), there.name, SHARED_SIDE)
            key = self.recipe.seed, self.epoch, image  # the same draws for each network: the same part
            return [random_crop(pixels, size, crop, np.random.default_rng(key)) for size, crop in sizes]

        columns = zip(*in_threads(squares, images.tolist()), strict=True)
        return [torch.from_numpy(np.stack(column)).to(device) for column in columns]

    def penalty(self, features: Tensor, images: NDArray[np.int64]) -> Tensor | None:
        """Return the penalty for images (n,) with features (n, d): zero."""
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


def _encoder(name: str, module: nn.Module, device: str) -> ImageEncoder:
    """Create an encoder from a network in training."""
    spec = EncoderSpec.parse(name)
    lite = LITE[spec.name]
    dims = {"pooled": lite.dim, "logits": 1000}

    @torch.inference_mode()
    def run(pixels: Pixels) -> Arrays:
        pooled, logits = module(torch.from_numpy(np.ascontiguousarray(pixels)).to(device))
        return {"pooled": pooled.float().cpu().numpy(), "logits": logits.float().cpu().numpy()}

    # Its name and version tell it from others that are being trained.
    return ImageEncoder(name, spec.name, lite.size, dims, run, spec.variant or "squash")
