"""The second step of two-step learning: the CNN and what reads its features end to end, from pixels.

That is a matcher (GVSE, common VSE), or the output layer of the multi-label CNN (SCO, section 3.2). Images
are cropped and mirrored at random. A matcher's loss compares all pairs of a batch, so that its gradient
cannot be accumulated over parts of the batch; instead the CNN's activations are computed twice, `at_once`
images in memory at a time, which gives the gradient of the whole batch exactly. Batch normalisation keeps
the statistics that it came with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.checkpoint import checkpoint as recomputed

from seesay.data.corpus import CorpusImage
from seesay.data.pixels import decode
from seesay.encoders.images.base import Arrays, ImageEncoder
from seesay.encoders.images.crops import Pixels, random_crop
from seesay.encoders.images.efficientnet import LITE, PixelsToFeatures, load_lite
from seesay.encoders.images.encode import bytes_of, encode_images, in_threads
from seesay.encoders.images.tuned import save_tuned
from seesay.errors import SeesayError
from seesay.losses.ranking import loss_value
from seesay.matchers.base import Matcher
from seesay.matchers.sentences import Sentences
from seesay.recipes.matchers import FineTunedSettings
from seesay.recipes.schema import ContrastiveSettings, MarginSettings, MultiLabelSettings, Recipe
from seesay.runs.run import Run, join_features
from seesay.training import checkpoint
from seesay.training.concept_task import ConceptTask
from seesay.training.loop import Loop
from seesay.training.metrics import draw_curves
from seesay.training.sentence_task import Batch, SentenceTask

TunableTask: TypeAlias = SentenceTask | ConceptTask

_DECODED = 320  # the side down to which JPEGs may be decoded, as for encoding
_ENCODED = 64  # val images encoded at a time


class FromPixels(Matcher):
    """A CNN and the matcher that reads its features, as one module.

    Args:
        network: of the encoder.
        matcher: trained on its features.
        arrays: which of them it reads.
        at_once: images whose activations are in memory at a time.
    """

    def __init__(
        self, network: PixelsToFeatures, matcher: Matcher, arrays: Sequence[str], at_once: int
    ) -> None:
        super().__init__()
        self.network, self.matcher = network, matcher
        self._arrays, self._at_once = tuple(arrays), at_once

    def train(self, mode: bool = True) -> FromPixels:
        """Puts the matcher into training mode; the CNN keeps its statistics."""
        super().train(mode)
        self.network.eval()
        return self

    def features(self, pixels: Tensor) -> Tensor:
        """Joined features (n, d) of squares (n, side, side, 3) uint8."""
        parts = torch.split(pixels, self._at_once)
        if torch.is_grad_enabled():
            return torch.cat([recomputed(self._part, part, use_reentrant=False) for part in parts])
        return torch.cat([self._part(part) for part in parts])

    def score(self, images: Tensor, sentences: Sentences) -> Tensor:
        """The score matrix (n, m) of images given as squares."""
        return self.matcher.score(self.features(images), sentences)

    def _part(self, pixels: Tensor) -> Tensor:
        pooled, logits = self.network(pixels)
        of = {"pooled": pooled, "logits": logits}
        return torch.cat([of[name].float() for name in self._arrays], dim=1)


@dataclass
class FineTuneTask:
    """A task's images as pixels, in the place of their features."""

    recipe: Recipe
    task: TunableTask
    encoder: str
    epoch: int = 0

    @property
    def monitor(self) -> str:
        """The val measure that chooses the epoch."""
        return self.task.monitor

    @property
    def image_dim(self) -> int:
        """Width of the features that the CNN gives."""
        return self.task.image_dim

    def batches(self, epoch: int) -> Sequence[Any]:
        """Positions of images, and of their sentences where these are matched."""
        self.epoch = epoch
        return self.task.batches(epoch)

    def losses(self, matcher: Matcher, batch: Any, device: str) -> list[Tensor]:
        """The recipe's loss on one mini-batch, of images cropped anew."""
        assert isinstance(matcher, FromPixels)
        if isinstance(self.task, ConceptTask):
            features = matcher.features(self._squares(batch, device))
            return [self.task.loss(matcher.matcher, features, batch)]
        return self._matching(self.task, matcher, batch, device)

    def _matching(self, task: SentenceTask, matcher: FromPixels, batch: Batch, device: str) -> list[Tensor]:
        loss = self.recipe.loss
        assert isinstance(loss, MarginSettings | ContrastiveSettings)
        images, chosen = batch
        present, place = np.unique(images, return_inverse=True)
        features = matcher.features(self._squares(present, device))
        sentences = task.data.sentences.take(torch.from_numpy(chosen)).to(device)
        scores = matcher.matcher.training_scores(features[torch.from_numpy(place).to(device)], sentences)
        owners = torch.from_numpy(images).to(device)
        return [loss_value(loss, each.float(), owners) for each in scores]

    def pairs(self) -> Any:
        """Nothing is solved in closed form from pixels."""
        raise NotImplementedError

    def measure(self, run: Run) -> dict[str, Any]:
        """The task's measures of the val split by the CNN as it is now."""
        assert isinstance(run.matcher, FromPixels)
        val = replace(self.task.val, features=self._val_features(run.matcher, run.device))
        inner = Run(
            run.name, run.folder, run.recipe, run.vocabulary, run.sentence_encoder, run.matcher.matcher
        )
        return replace(self.task, val=val).measure(inner)

    def about(self) -> dict[str, Any]:
        """Sizes of the splits, and broken images."""
        return self.task.about()

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

    def _val_features(self, matcher: FromPixels, device: str) -> Tensor:
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
        return torch.from_numpy(np.concatenate(parts))


def check_tunable(recipe: Recipe) -> None:
    """See that there is a CNN to fine-tune, and an loss for it.

    Raises:
        SeesayError: the recipe's encoder is another, or its loss.
    """
    encoder = recipe.encoders[0]
    if len(recipe.encoders) > 1 or encoder.partition(":")[0] not in LITE:
        raise SeesayError(
            f"Recipe '{recipe.name}': encoders are {', '.join(recipe.encoders)}; what can be fine-tuned is "
            f"one of {', '.join(LITE)}."
        )
    if not isinstance(recipe.loss, MarginSettings | ContrastiveSettings | MultiLabelSettings):
        raise SeesayError(
            f"Recipe '{recipe.name}': loss '{recipe.loss.kind}'; fine-tuning takes margin, "
            "contrastive or multi-label."
        )


def fine_tune(run: Run, task: TunableTask) -> tuple[Recipe, dict[str, Any], dict[str, Any]]:
    """Train a run's matcher in place, together with the CNN, which is kept in the run's folder.

    An interrupted fine-tuning goes on from the checkpoint in that folder.

    Args:
        run: the first step's weights under the second step's recipe.
        task: of its inputs.

    Returns:
        The recipe with the name of the fine-tuned encoder, val's measures of the epoch that val likes best,
        and which that is, of how many, in how many seconds.

    Raises:
        SeesayError: there is nothing that can be fine-tuned, or the loss is not finite.
    """
    check_tunable(run.recipe)
    settings, encoder, out = run.recipe.matcher, run.recipe.encoders[0], run.folder
    assert isinstance(settings, FineTunedSettings)
    torch.manual_seed(run.recipe.seed)
    network = load_lite(encoder.partition(":")[0])
    module = FromPixels(network, run.matcher, run.recipe.arrays, settings.at_once).to(run.device)
    out.mkdir(parents=True, exist_ok=True)
    view = Run(run.name, out, run.recipe, run.vocabulary, run.sentence_encoder, module)
    loop = Loop(FineTuneTask(run.recipe, task, encoder), view)
    if (out / checkpoint.FILE).is_file():
        loop.restore()
    best, history = loop.run()
    module.load_state_dict(best)
    draw_curves(history, out)
    name = save_tuned(encoder, module.network.state_dict(), out)
    # Were it left, a member that was trained anew would be passed over for it.
    (out / checkpoint.FILE).unlink()
    kept = max(history, key=lambda row: float(row["val"][task.monitor]))
    seconds = round(sum(row["seconds"] for row in history), 1)
    course = {"best_epoch": kept["epoch"], "epochs": len(history), "seconds": seconds}
    return run.recipe.model_copy(update={"encoders": (name,)}), kept["val"], course
