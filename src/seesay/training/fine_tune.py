"""The second step of two-step learning: the CNN and the matcher end to end, from pixels (GVSE, common VSE).

Images are cropped and mirrored at random. The objective compares all pairs of a batch, so its gradient cannot
be accumulated over parts of the batch; instead the CNN's activations are computed twice, `at_once` images in
memory at a time, which gives the gradient of the whole batch exactly. Batch normalisation keeps the
statistics that it came with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.checkpoint import checkpoint as recomputed

from seesay.data.corpus import CorpusImage
from seesay.data.pixels import decode
from seesay.errors import SeesayError
from seesay.evaluation.measure import measure
from seesay.features.crops import Pixels, random_crop
from seesay.features.efficientnet import LITE, PixelsToFeatures, load_lite
from seesay.features.encode import bytes_of, encode_images, in_threads
from seesay.features.encoder import Arrays, Encoder
from seesay.features.tuned import save_tuned
from seesay.matchers.base import Matcher
from seesay.matchers.run import Run, join_features
from seesay.recipes.matchers import FineTunedSettings
from seesay.recipes.schema import ContrastiveSettings, MarginSettings, Recipe
from seesay.text.sentences import Sentences
from seesay.training import checkpoint
from seesay.training.loop import Loop
from seesay.training.metrics import draw_curves
from seesay.training.objectives import objective_value
from seesay.training.sentence_task import Batch, SentenceTask

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
    """Images as pixels and their sentences."""

    recipe: Recipe
    sentences: SentenceTask
    encoder: str
    headline: str = "mR"
    epoch: int = 0

    @property
    def image_dim(self) -> int:
        """Width of the features that the CNN gives."""
        return self.sentences.image_dim

    def batches(self, epoch: int) -> Sequence[Batch]:
        """Positions of images and of their sentences."""
        self.epoch = epoch
        return self.sentences.batches(epoch)

    def losses(self, matcher: Matcher, batch: Batch, device: str) -> list[Tensor]:
        """The recipe's objective on one mini-batch, of images cropped anew."""
        assert isinstance(matcher, FromPixels)
        objective = self.recipe.objective
        assert isinstance(objective, MarginSettings | ContrastiveSettings)
        images, chosen = batch
        present, place = np.unique(images, return_inverse=True)
        features = matcher.features(torch.from_numpy(self._squares(present)).to(device))
        sentences = self.sentences.data.sentences.take(torch.from_numpy(chosen)).to(device)
        scores = matcher.matcher.training_scores(features[torch.from_numpy(place).to(device)], sentences)
        owners = torch.from_numpy(images).to(device)
        return [objective_value(objective, each.float(), owners) for each in scores]

    def pairs(self) -> Any:
        """Nothing is solved in closed form from pixels."""
        raise NotImplementedError

    def measure(self, run: Run) -> dict[str, Any]:
        """Recalls of the val split by the CNN as it is now."""
        assert isinstance(run.matcher, FromPixels)
        val = replace(self.sentences.val, features=self._val_features(run.matcher, run.device))
        inner = Run(
            run.name, run.folder, run.recipe, run.vocabulary, run.sentence_encoder, run.matcher.matcher
        )
        return measure(inner, val, "val")

    def about(self) -> dict[str, Any]:
        """Sizes of the splits, and broken images."""
        return self.sentences.about()

    def _squares(self, images: NDArray[np.int64]) -> Pixels:
        """Random crops of train images, (n, side, side, 3); they depend on seed, epoch and image alone."""
        network, _, crop = self.encoder.partition(":")
        corpus, size = self.sentences.data.corpus, LITE[network].size

        def square(image: int) -> Pixels:
            there: CorpusImage = corpus.images[image]
            draw = np.random.default_rng((self.recipe.seed, self.epoch, image))
            pixels = decode(bytes_of(there), there.name, max(_DECODED, round(size * 256 / 224)))
            return random_crop(pixels, size, crop, draw)

        return np.stack(list(in_threads(square, images.tolist())))

    def _val_features(self, matcher: FromPixels, device: str) -> Tensor:
        network, _, crop = self.encoder.partition(":")
        dims = {"pooled": LITE[network].dim, "logits": 1000}

        @torch.inference_mode()
        def run(pixels: Pixels) -> Arrays:
            pooled, logits = matcher.network(torch.from_numpy(np.ascontiguousarray(pixels)).to(device))
            return {"pooled": pooled.float().cpu().numpy(), "logits": logits.float().cpu().numpy()}

        encoder = Encoder(self.encoder, "", LITE[network].size, dims, run, crop or "squash")
        images = self.sentences.val.corpus.images
        parts = []
        for start in range(0, len(images), _ENCODED):
            some = images[start : start + _ENCODED]
            encoded = encode_images(
                [encoder], [bytes_of(each) for each in some], [each.name for each in some]
            )
            parts.append(join_features(self.recipe, encoded.arrays))
        return torch.from_numpy(np.concatenate(parts))


def check_tunable(recipe: Recipe) -> None:
    """See that there is a CNN to fine-tune, and an objective for it.

    Raises:
        SeesayError: the recipe's encoder is another, or its objective.
    """
    encoder = recipe.encoders[0]
    if len(recipe.encoders) > 1 or encoder.partition(":")[0] not in LITE:
        raise SeesayError(
            f"Recipe '{recipe.name}': encoders are {', '.join(recipe.encoders)}; what can be fine-tuned is "
            f"one of {', '.join(LITE)}."
        )
    if not isinstance(recipe.objective, MarginSettings | ContrastiveSettings):
        raise SeesayError(
            f"Recipe '{recipe.name}': objective '{recipe.objective.kind}'; fine-tuning takes margin or "
            "contrastive."
        )


def fine_tune(run: Run, task: SentenceTask) -> tuple[Recipe, dict[str, Any], dict[str, Any]]:
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
    name = save_tuned(encoder, module.network, out)
    # Were it left, a member that was trained anew would be passed over for it.
    (out / checkpoint.FILE).unlink()
    kept = max(history, key=lambda row: float(row["val"]["mR"]))
    seconds = round(sum(row["seconds"] for row in history), 1)
    course = {"best_epoch": kept["epoch"], "epochs": len(history), "seconds": seconds}
    return run.recipe.model_copy(update={"encoders": (name,)}), kept["val"], course
