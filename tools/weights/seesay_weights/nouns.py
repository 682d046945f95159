"""Loss: single nouns as queries for all images of a mini-batch."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import torch
from lemminflect import getInflection  # type: ignore[import-untyped]
from pydantic import PositiveInt
from torch import Tensor
from torch.nn import functional

from seesay.encoders import SentenceEncoder
from seesay.errors import SeesayError
from seesay.losses import Batch, register_loss
from seesay.runs.inputs import Inputs, prepare_texts
from seesay.settings import Positive
from seesay.text.concepts import nouns
from seesay.text.vocabulary import Vocabulary
from seesay_weights.class_phrases import with_article
from seesay_weights.drawn import DrawnLoss

_LEAST = 5  # the least number of images whose sentences contain a noun
_POWER = 0.5  # of the number of these images: a noun's weight in the draw
_FORMS = 0.6, 0.2, 0.2  # shares of a noun alone, with its article, and in the plural
_SCALE, _OFFSET = 12.5, 0.5  # an image shows a noun with a probability of one half at this score


@register_loss("nouns")
class NounQueries(DrawnLoss):
    """Single nouns as queries, to which many images or none are right answers.

    In a mini-batch of pairs, each sentence has one right answer, but a search is often a single word. Nouns
    of the train sentences are therefore queries for every image of a mini-batch, and images whose sentences
    contain the noun are right. The logistic loss of each pair, with a scale and an offset that are the same
    for all (Zhai et al., "Sigmoid Loss for Language Image Pre-Training", ICCV 2023), makes the scores of
    different queries comparable: one threshold separates right from wrong answers for all of them.

    Args:
        count: nouns drawn for each mini-batch.
        weight: of their loss; that of the corpus is 1.
    """

    needs = ("embed_images", "embed_sentences")

    def __init__(self, count: PositiveInt = 300, weight: Positive = 0.3) -> None:
        super().__init__()
        self.count, self.weight = count, weight

    def begin(self, task: Any) -> None:
        """See `Loss`.

        Raises:
            SeesayError: no English noun occurs in the sentences of enough images.
        """
        super().begin(task)
        self.learn(task.data, task.vocabulary, task.encoder)

    def learn(self, inputs: Inputs, vocabulary: Vocabulary, encoder: SentenceEncoder | None) -> None:
        """Find the nouns of a train split, whose words a vocabulary and an encoder read; see `begin`."""
        shown = _nouns_of_images(inputs)
        images_of = Counter(noun for each in shown for noun in each)
        self.nouns = sorted(noun for noun, images in images_of.items() if images >= _LEAST)
        if not self.nouns:
            raise SeesayError(
                f"nouns: no English noun is in the sentences of {_LEAST} images of train; leave out nouns."
            )
        number = {noun: i for i, noun in enumerate(self.nouns)}
        self._shown = np.zeros((len(shown), len(self.nouns)), bool)
        for row, each in zip(self._shown, shown, strict=True):
            row[[number[noun] for noun in each if noun in number]] = True
        often = np.array([images_of[noun] for noun in self.nouns]) ** _POWER
        self._chances = often / often.sum()
        texts = [form for noun in self.nouns for form in _forms(noun)]
        self._texts = prepare_texts(texts, vocabulary, encoder)

    def batch_losses(self, matcher: Any, batch: Batch) -> list[Tensor]:
        """Return the loss of drawn nouns; `image_ids` are the rows of the images in the train split."""
        count = min(self.count, len(self.nouns))
        chosen = self._draw.choice(len(self.nouns), count, replace=False, p=self._chances)
        forms = self._draw.choice(len(_FORMS), count, p=_FORMS)
        device = batch.images.device
        asked = self._texts.take(chosen * len(_FORMS) + forms).to_tensors(str(device))
        shown = torch.from_numpy(self._shown[batch.image_ids.cpu().numpy()][:, chosen]).to(device)
        return [self.weight * loss_of_matches(matcher(batch.images, asked), shown)]


def loss_of_matches(scores: Tensor, shown: Tensor) -> Tensor:
    """Return the loss of scores (n, m) and matches (n, m), summed over queries, averaged over images."""
    log_odds = _SCALE * (scores - _OFFSET)
    losses = functional.binary_cross_entropy_with_logits(log_odds, shown.to(scores.dtype), reduction="none")
    return losses.sum(dim=1).mean()


def _nouns_of_images(inputs: Inputs) -> list[set[str]]:
    found: list[set[str]] = [set() for _ in inputs.features]
    for text, image in zip(inputs.corpus.texts(), inputs.image_of_sentence, strict=True):
        found[image] |= nouns(text.lower())
    return found


def _forms(noun: str) -> tuple[str, str, str]:
    plurals = getInflection(noun, "NNS")
    return noun, with_article(noun), plurals[0] if plurals else noun
