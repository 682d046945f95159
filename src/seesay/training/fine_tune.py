"""Fine-tuning, the second step of two-step learning: a CNN and its matcher, end to end from pixels.

The reader is a matcher (GVSE, common VSE) or the output layer of the multi-label CNN (SCO, section 3.2).
Images are cropped and mirrored at random. A matcher's loss compares all pairs of a batch, so its gradient
cannot be accumulated over parts of the batch; instead the CNN's activations are computed twice, `at_once`
images in memory at a time, which gives the gradient of the whole batch exactly. Batch normalisation keeps
the statistics of the pretrained network.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from seesay.encoders.images.encode import bytes_of, encode_images, in_threads
from seesay.encoders.images.tuned import save_tuned
from seesay.encoders.networks.lite import PixelsToFeatures, load_lite
from seesay.errors import SeesayError
from seesay.losses.base import Loss, ScoreLoss
from seesay.matchers.composed import FineTunedSettings
from seesay.matchers.sentences import Sentences
from seesay.protocols.base import Result
from seesay.recipes.schema import Recipe
from seesay.runs.run import Run, join_features
from seesay.runs.summary import SplitSize
from seesay.training import checkpoint
from seesay.training.callbacks import Tell
from seesay.training.concept_task import ConceptTask
from seesay.training.history import Epoch, draw_curves
from seesay.training.loop import Loop
from seesay.training.sentence_task import SentenceTask
from seesay.training.task import Task

TunableTask: TypeAlias = SentenceTask | ConceptTask

_DECODED = 320  # the side down to which JPEGs may be decoded, as for encoding
_ENCODED = 64  # val images encoded at a time


class FromPixels(nn.Module):
    """A CNN and the module that reads its features.

    Args:
        network: of the encoder.
        reader: a matcher or a concept classifier that was trained on its features.
        arrays: which of the network's arrays it reads.
        at_once: images whose activations are in memory at a time.
    """

    def __init__(
        self, network: PixelsToFeatures, reader: nn.Module, arrays: Sequence[str], at_once: int
    ) -> None:
        super().__init__()
        self.network, self.matcher = network, reader
        self._arrays, self._at_once = tuple(arrays), at_once

    def train(self, mode: bool = True) -> FromPixels:
        """Set the reader's mode; the CNN keeps its statistics."""
        super().train(mode)
        self.network.eval()
        return self

    def forward(self, pixels: Tensor) -> Tensor:
        """Return joined features (n, d) of squares (n, side, side, 3) uint8."""
        parts = torch.split(pixels, self._at_once)
        if torch.is_grad_enabled():
            return torch.cat([recomputed(self._part, part, use_reentrant=False) for part in parts])
        return torch.cat([self._part(part) for part in parts])

    def _part(self, pixels: Tensor) -> Tensor:
        kind = pixels.device.type
        with torch.autocast(kind, torch.bfloat16, enabled=kind == "cuda"):
            pooled, logits = self.network(pixels)
        of = {"pooled": pooled, "logits": logits}
        return torch.cat([of[name].float() for name in self._arrays], dim=1)


@dataclass
class FineTuneTask:
    """A task whose images are pixels instead of features."""

    recipe: Recipe
    task: TunableTask
    encoder: str
    epoch: int = 0

    @property
    def loss(self) -> Loss:
        """The task's."""
        return self.task.loss

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
        features = module(self._squares(present, device))
        if place is not None:
            features = features[torch.from_numpy(place).to(device)]
        return self.task.losses_of(module.matcher, features, batch, device)

    def pairs(self) -> Iterator[tuple[Tensor, Sentences]]:
        """Raise an error: nothing is solved in closed form from pixels."""
        raise NotImplementedError

    def measure(self, run: Run) -> Result:
        """Measure the val split with the CNN as it is now."""
        assert isinstance(run.matcher, FromPixels)
        val = replace(self.task.val, features=self._val_features(run.matcher, run.device))
        inner = Run.from_matcher(
            run.folder, run.recipe, run.vocabulary, run.sentence_encoder, run.matcher.matcher
        )
        return replace(self.task, val=val).measure(inner)

    def figures(self, run: Run) -> dict[str, float]:
        """Return nothing: there are no further figures."""
        del run
        return {}

    def sizes(self) -> tuple[SplitSize, SplitSize]:
        """Return the sizes of the train and the val split."""
        return self.task.sizes()

    def broken_images(self) -> tuple[str, ...]:
        """Return the images that cannot be decoded, and why."""
        return self.task.broken_images()

    def _squares(self, images: NDArray[np.int64], device: str) -> Tensor:
        """Random crops of train images, (n, side, side, 3); they depend on seed, epoch and image alone."""
        network, _, crop = self.encoder.partition(":")
        corpus, size = self.task.data.corpus, LITE[network].size

        def square(image: int) -> Pixels:
            there: CorpusImage = corpus.images[image]
            draw = np.random.default_rng((self.recipe.seed, self.epoch, image))
            pixels = decode(bytes_of(there), there.name, max(_DECODED, round(size * 256 / 224)))
            return random_crop(pixels, size, crop, draw)

        return torch.from_numpy(np.stack(list(in_threads(square, images.tolist())))).to(device)

    def _val_features(self, matcher: FromPixels, device: str) -> NDArray[np.float32]:
        network, _, crop = self.encoder.partition(":")
        dims = {"pooled": LITE[network].dim, "logits": 1000}

        @torch.inference_mode()
        def run(pixels: Pixels) -> Arrays:
            pooled, logits = matcher.network(torch.from_numpy(np.ascontiguousarray(pixels)).to(device))
            return {"pooled": pooled.float().cpu().numpy(), "logits": logits.float().cpu().numpy()}

        encoder = ImageEncoder(self.encoder, "", LITE[network].size, dims, run, crop or "squash")
        images = self.task.val.corpus.images
        parts = []
        for start in range(0, len(images), _ENCODED):
            some = images[start : start + _ENCODED]
            encoded = encode_images(
                [encoder], [bytes_of(each) for each in some], [each.name for each in some]
            )
            parts.append(join_features(self.recipe, encoded.arrays))
        return np.concatenate(parts)


def check_tunable(recipe: Recipe) -> None:
    """Check that there is a CNN to fine-tune, and a loss that can be computed from pixels.

    Raises:
        SeesayError: the recipe has another encoder, or another loss.
    """
    encoder = recipe.encoders[0]
    if len(recipe.encoders) > 1 or encoder.partition(":")[0] not in LITE:
        raise SeesayError(
            f"Recipe '{recipe.name}': encoders are {', '.join(recipe.encoders)}; one of {', '.join(LITE)} "
            "can be fine-tuned."
        )
    kind = recipe.loss.loss_class
    if not (issubclass(kind, ScoreLoss) or kind.learns_concepts):
        raise SeesayError(
            f"Recipe '{recipe.name}': the loss '{recipe.loss.kind}' is not one for fine-tuning."
        )


def fine_tune(run: Run, task: Task, tell: Tell | None = None) -> tuple[Recipe, list[Epoch]]:
    """Train a run's matcher in place, together with the CNN, which is kept in the run's folder.

    An interrupted fine-tuning continues from the checkpoint in that folder.

    Args:
        run: the first step's weights under the second step's recipe.
        task: of its inputs.
        tell: called after each epoch with its figures.

    Returns:
        The recipe with the name of the fine-tuned encoder, and every epoch.

    Raises:
        SeesayError: there is nothing that can be fine-tuned, or the loss is not finite.
    """
    check_tunable(run.recipe)
    settings, encoder, out = run.recipe.matcher, run.recipe.encoders[0], run.folder
    assert isinstance(settings, FineTunedSettings)
    assert isinstance(task, SentenceTask | ConceptTask)
    torch.manual_seed(run.recipe.seed)
    network = load_lite(encoder.partition(":")[0])
    module = FromPixels(network, run.matcher, run.recipe.arrays, settings.at_once).to(run.device)
    out.mkdir(parents=True, exist_ok=True)
    view = Run.from_matcher(out, run.recipe, run.vocabulary, run.sentence_encoder, module)
    loop = Loop(FineTuneTask(run.recipe, task, encoder), view, tell)
    if (out / checkpoint.FILE).is_file():
        loop.restore()
    weights, history = loop.run()
    module.load_state_dict(weights)
    draw_curves(history, out)
    arrays = {key: value.cpu().numpy() for key, value in module.network.state_dict().items()}
    name = save_tuned(encoder, arrays, out)
    # Were it left, a member that was trained anew would be passed over for it.
    (out / checkpoint.FILE).unlink()
    return run.recipe.model_copy(update={"encoders": (name,)}), history
