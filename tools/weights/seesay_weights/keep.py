"""Loss: the scores of a run are kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from pydantic import PositiveInt
from torch import Tensor
from torch.nn import functional

from seesay.errors import SeesayError
from seesay.losses import Batch, register_loss
from seesay.matchers import EmbeddingMatcher
from seesay.matchers.sentences import Sentences
from seesay.runs.inputs import prepare_texts
from seesay.runs.prepare import PreparedSentences
from seesay.runs.run import Run
from seesay.settings import NonNegative, Positive
from seesay_weights.class_phrases import class_phrases, with_article
from seesay_weights.drawn import DrawnLoss


@register_loss("keep")
class Keep(DrawnLoss):
    """The divergence from a run's scores, for the pairs of a mini-batch and for names outside the corpus.

    After Hinton, Vinyals, Dean 2015, and Li and Hoiem, "Learning without Forgetting", ECCV 2016: the
    Kullback–Leibler divergence between the softmax of the matcher's scores and that of the run's.

    Args:
        run: the run, which reads the same features and words.
        scale: factor applied to both scores.
        weight: of the loss on the mini-batch's own pairs.
        count: names of ImageNet classes and words drawn for each mini-batch, scored against mixtures of its
            images.
        phrase_weight: of the loss on these.
    """

    needs = ("embed_images", "embed_sentences")

    def __init__(
        self,
        run: str,
        scale: Positive = 30.0,
        weight: NonNegative = 1.0,
        count: PositiveInt = 500,
        phrase_weight: NonNegative = 1.0,
    ) -> None:
        super().__init__()
        self.run, self.scale, self.weight = run, scale, weight
        self.count, self.phrase_weight = count, phrase_weight

    def begin(self, task: Any) -> None:
        """See `Loss`.

        Raises:
            SeesayError: the run has no embedding.
        """
        super().begin(task)
        self.learn(Run.load(self.run))

    def learn(self, run: Run) -> None:
        """Take the scores of a run; see `begin`."""
        if not isinstance(run.matcher, EmbeddingMatcher):
            raise SeesayError(f"{run.name}: a pair matcher has no embeddings; keep another run.")
        # In a tuple, so that its weights are no part of this loss.
        self._kept = (run.matcher.eval().requires_grad_(False),)
        self._known = known_phrases(run)

    def batch_losses(self, matcher: Any, batch: Batch) -> list[Tensor]:
        """See `Loss`."""
        images, device = batch.images, batch.images.device
        count = min(self.count, len(self._known))
        chosen = self._draw.choice(len(self._known), count, replace=False)
        phrases = self._known.take(chosen).to_tensors(str(device))
        shares = torch.from_numpy(self._draw.uniform(0, 0.5, (len(images), 1)).astype(np.float32)).to(device)
        others = torch.from_numpy(self._draw.permutation(len(images))).to(device)
        mixed = torch.lerp(images, images[others], shares)  # images of several things
        pairs = self._distance(matcher, images, batch.sentences)
        return [self.weight * pairs + self.phrase_weight * self._distance(matcher, mixed, phrases)]

    def _distance(self, matcher: Any, images: Tensor, sentences: Sentences) -> Tensor:
        with torch.no_grad():
            wanted = self.scale * self._kept[0].to(images.device)(images, sentences)
        found = self.scale * matcher(images, sentences)
        both = ((found, wanted), (found.T, wanted.T))
        ways = [
            functional.kl_div(a.log_softmax(1), b.log_softmax(1), reduction="batchmean", log_target=True)
            for a, b in both
        ]
        return (ways[0] + ways[1]) / 2


def known_phrases(run: Run) -> PreparedSentences:
    """Return the names of the ImageNet classes, and a run's words, alone and with an article."""
    words = [word for word in run.vocabulary.words if word.isalpha()]
    texts = [*class_phrases().texts, *words, *map(with_article, words)]
    return prepare_texts(texts, run.vocabulary, run.sentence_encoder)
