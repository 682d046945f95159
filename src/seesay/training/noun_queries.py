"""Single nouns as queries for all images of a mini-batch."""

from __future__ import annotations

from collections import Counter

import numpy as np
import torch
from lemminflect import getInflection  # type: ignore[import-untyped]
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from seesay.encoders.sentences.base import SentenceEncoder
from seesay.encoders.sentences.class_names import with_article
from seesay.errors import SeesayError
from seesay.losses.base import Batch
from seesay.matchers.base import EmbeddingMatcher
from seesay.recipes.schema import NounSettings
from seesay.runs.inputs import Inputs, prepare_texts
from seesay.text.concepts import nouns
from seesay.text.vocabulary import Vocabulary
from seesay.training.further import FurtherLoss, Step

_LEAST = 5  # the least number of images whose sentences contain a noun
_POWER = 0.5  # of the number of these images: a noun's weight in the draw
_FORMS = 0.6, 0.2, 0.2  # shares of a noun alone, with its article, and in the plural


class NounQueries(FurtherLoss):
    """Single nouns as queries, to which many images or none are right answers.

    In a mini-batch of pairs, each sentence has one right answer, but a search is often a single word. Nouns
    of the train sentences are therefore queries for every image of a mini-batch, and images whose sentences
    contain the noun are right. The logistic loss of each pair, with a scale and an offset that are the same
    for all (Zhai et al., "Sigmoid Loss for Language Image Pre-Training", ICCV 2023), makes the scores of
    different queries comparable: one threshold separates right from wrong answers for all of them.

    In additional corpora where several images share a name, the names are queries in the same way.

    Args:
        inputs: the train split.
        vocabulary: the vocabulary that numbers words.
        encoder: the sentence encoder, if the matcher reads vectors.
        settings: of the recipe.

    Raises:
        SeesayError: no English noun occurs in the sentences of enough images.
    """

    def __init__(
        self, inputs: Inputs, vocabulary: Vocabulary, encoder: SentenceEncoder | None, settings: NounSettings
    ) -> None:
        super().__init__(5)
        self.settings = settings
        shown = _nouns_of_images(inputs)
        images_of = Counter(noun for each in shown for noun in each)
        self.nouns = sorted(noun for noun, count in images_of.items() if count >= _LEAST)
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

    def add_to(self, losses: list[Tensor], step: Step) -> list[Tensor]:
        """See `FurtherLoss`."""
        matcher = step.matcher
        assert isinstance(matcher, EmbeddingMatcher)
        of_others = (self.loss_of_names(matcher, each) for each in step.others)
        asked = torch.stack([self.loss(matcher, step.images, step.rows), *of_others])
        return [losses[0] + self.settings.weight * asked.sum(), *losses[1:]]

    def loss(self, matcher: EmbeddingMatcher, features: Tensor, images: NDArray[np.int64]) -> Tensor:
        """Return the loss of drawn nouns, for features (n, d) of images and their rows (n,) in the split."""
        count = min(self.settings.count, len(self.nouns))
        chosen = self._draw.choice(len(self.nouns), count, replace=False, p=self._chances)
        forms = self._draw.choice(len(_FORMS), count, p=_FORMS)
        device = str(features.device)
        asked = self._texts.take(chosen * len(_FORMS) + forms).to_tensors(device)
        shown = torch.from_numpy(self._shown[images][:, chosen]).to(device)
        return self._logistic(matcher(features, asked), shown)

    def loss_of_names(self, matcher: EmbeddingMatcher, batch: Batch) -> Tensor:
        """Return the loss of another corpus's names; images with the same number in `image_ids` share one."""
        shown = batch.image_ids[:, None] == batch.image_ids[None, :]
        if int(shown.sum()) == len(shown):  # no name is shared: descriptions of single images are no queries
            return batch.images.new_zeros(())
        return self._logistic(matcher(batch.images, batch.sentences), shown)

    def _logistic(self, scores: Tensor, shown: Tensor) -> Tensor:
        """Return the loss of scores (n, m) and matches (n, m), summed over queries, averaged over images."""
        log_odds = self.settings.scale * (scores - self.settings.offset)
        losses = functional.binary_cross_entropy_with_logits(
            log_odds, shown.to(scores.dtype), reduction="none"
        )
        return losses.sum(dim=1).mean()


def _nouns_of_images(inputs: Inputs) -> list[set[str]]:
    found: list[set[str]] = [set() for _ in inputs.features]
    for text, image in zip(inputs.corpus.texts(), inputs.image_of_sentence, strict=True):
        found[image] |= nouns(text.lower())
    return found


def _forms(noun: str) -> tuple[str, str, str]:
    plurals = getInflection(noun, "NNS")
    return noun, with_article(noun), plurals[0] if plurals else noun
