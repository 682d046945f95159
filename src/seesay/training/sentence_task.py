"""Image-sentence retrieval as a training task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seesay.data.corpus import Corpus
from seesay.encoders.sentences.encoder import SentenceEncoder
from seesay.errors import SeesayError
from seesay.losses.pair_margin import pair_margin
from seesay.losses.ranking import distillation, loss_value
from seesay.losses.total_correlation import total_correlation
from seesay.losses.triplet import Relations, logistic_loss, triplet_loss
from seesay.matchers.base import EmbeddingMatcher, Matcher, PairMatcher
from seesay.matchers.dcca import DCCA
from seesay.matchers.sco import SCO
from seesay.matchers.sentences import Sentences
from seesay.protocols.evaluate import measure_inputs
from seesay.recipes.schema import (
    ContrastiveSettings,
    DistillationSettings,
    HingeRankSettings,
    LogisticSettings,
    MarginSettings,
    PairMarginSettings,
    Recipe,
    TotalCorrelationSettings,
    TripletSettings,
)
from seesay.runs.cut import count_cut
from seesay.runs.inputs import Inputs, split_inputs
from seesay.runs.run import Run
from seesay.samplers.pairs import pair_batches, random_batches
from seesay.text.vocabulary import Vocabulary
from seesay.training.teacher import Teacher

Batch = tuple[NDArray[np.int64], NDArray[np.int64]]
_PAIRED = 300  # val images that a pair matcher is measured on after each epoch
_BATCH = 4096


@dataclass
class SentenceTask:
    """Sentences and the whole images that they describe."""

    recipe: Recipe
    data: Inputs
    val: Inputs
    teacher: Teacher | None = None
    monitor: str = "mR"
    passed: float = 0.0  # 0 in the first epoch, 1 in the last

    @classmethod
    def of(
        cls, recipe: Recipe, corpus: Corpus, vocabulary: Vocabulary, encoder: SentenceEncoder | None
    ) -> SentenceTask:
        """The task of a corpus; images that lack features are encoded first."""
        train, val = (split_inputs(recipe, corpus, split, vocabulary, encoder) for split in ("train", "val"))
        loss = recipe.loss
        if not isinstance(loss, DistillationSettings):
            return cls(recipe, train, val)
        return cls(recipe, train, val, Teacher.of(loss, corpus, train))

    @property
    def image_dim(self) -> int:
        """Width of the image features."""
        return self.data.features.shape[1]

    def batches(self, epoch: int) -> Sequence[Batch]:
        """Positions of images and of their sentences."""
        recipe, owners = self.recipe, self.data.image_of_sentence
        self.passed = (epoch - 1) / max(recipe.schedule.epochs - 1, 1)
        if recipe.sampler == "rounds":
            batches = list(pair_batches(owners, recipe.batch_size, recipe.seed, epoch))
        else:
            neighbours = recipe.sampler == "neighbourhood"
            batches = list(random_batches(owners, recipe.batch_size, recipe.seed, epoch, neighbours))
        if isinstance(recipe.loss, TotalCorrelationSettings):
            # The fewer pairs, the more of their correlation is chance.
            return [each for each in batches if len(each[0]) >= recipe.batch_size] or batches
        return batches

    def losses(self, matcher: Matcher, batch: Batch, device: str) -> list[Tensor]:
        """The recipe's loss on one mini-batch; eq. 4 of SCO where the matcher generates sentences."""
        losses = self._matching(matcher, batch, device)
        if isinstance(matcher, SCO) and matcher.generation is not None:
            features, sentences = self._read(batch, device)
            losses = [losses[0] + matcher.generation_loss(features, sentences, self.passed)]
        return losses

    def _read(self, batch: Batch, device: str) -> tuple[Tensor, Sentences]:
        images, sentences = (torch.from_numpy(part) for part in batch)
        return self.data.features[images].to(device), self.data.sentences.take(sentences).to(device)

    def _matching(self, matcher: Matcher, batch: Batch, device: str) -> list[Tensor]:
        loss, owners = self.recipe.loss, torch.from_numpy(batch[0]).to(device)
        if isinstance(loss, TripletSettings) and isinstance(matcher, EmbeddingMatcher):
            return [self._triplets(matcher, batch, device, loss)]
        features, sentences = self._read(batch, device)
        if isinstance(loss, LogisticSettings) and isinstance(matcher, PairMatcher):
            return [_balanced_logistic(matcher, features, sentences, owners)]
        if isinstance(loss, PairMarginSettings) and isinstance(matcher, PairMatcher):
            return [pair_margin(matcher, features, sentences, owners, loss)]
        if isinstance(loss, TotalCorrelationSettings) and isinstance(matcher, DCCA):
            return [-total_correlation(*matcher.outputs(features, sentences), loss.ridge)]
        if isinstance(loss, DistillationSettings) and self.teacher is not None:
            wanted = self.teacher.scores(batch, device)
            scores = matcher.training_scores(features, sentences)
            return [distillation(each.float(), wanted, owners, loss.scale) for each in scores]
        if not isinstance(loss, MarginSettings | HingeRankSettings | ContrastiveSettings):
            raise SeesayError(
                f"Recipe '{self.recipe.name}': loss '{loss.kind}' does not go with matcher "
                f"'{self.recipe.matcher.kind}': triplets need an embedding matcher, logistic and "
                "pair-margin a pair matcher, total-correlation dcca."
            )
        scores = matcher.training_scores(features, sentences)
        return [loss_value(loss, each.float(), owners) for each in scores]

    def _triplets(
        self, matcher: EmbeddingMatcher, batch: Batch, device: str, loss: TripletSettings
    ) -> Tensor:
        images, chosen = (torch.from_numpy(part) for part in batch)
        present = torch.unique(images)
        vectors = matcher.embed_images(self.data.features[present].to(device)).float()
        relations = Relations.of_owners(present.to(device), images.to(device))
        texts = matcher.embed_sentences(self.data.sentences.take(chosen).to(device)).float()
        return triplet_loss(vectors, texts, relations, loss)

    def pairs(self) -> Iterator[tuple[Tensor, Sentences]]:
        """Every sentence with its image."""
        for start in range(0, len(self.data.sentences), _BATCH):
            images = torch.from_numpy(self.data.image_of_sentence[start : start + _BATCH])
            chosen = torch.arange(start, start + len(images))
            yield self.data.features[images], self.data.sentences.take(chosen)

    def measure(self, run: Run) -> dict[str, Any]:
        """Recalls of the val split, both ways; a pair matcher's of its first 300 images.

        All its pairs would take longer than the epoch.
        """
        self._fit_projections(run)
        few = isinstance(run.matcher, PairMatcher)
        val = self.val.of_first_images(_PAIRED) if few else self.val
        return measure_inputs(run, val, "val").to_dict()

    def _fit_projections(self, run: Run) -> None:
        loss = self.recipe.loss
        if isinstance(run.matcher, DCCA) and isinstance(loss, TotalCorrelationSettings):
            pairs = ((images.to(run.device), texts.to(run.device)) for images, texts in self.pairs())
            run.matcher.fit_projections(pairs, loss.ridge)

    def about(self) -> dict[str, Any]:
        """Sizes of the splits, and broken images."""
        sizes = {
            name: {"images": len(part.features), "sentences": len(part.sentences)}
            | count_cut(self.recipe.matcher, part.sentences)
            for name, part in (("train", self.data), ("val", self.val))
        }
        return sizes | {"broken_images": [str(error) for error in (*self.data.broken, *self.val.broken)]}


def _balanced_logistic(
    matcher: PairMatcher, features: Tensor, sentences: Sentences, owners: Tensor
) -> Tensor:
    """Eq. 7 on each pair (x, y) and on (x, y') with a sentence y' of the batch that is not of x."""
    images, texts = matcher.encode_images(features), matcher.encode_sentences(sentences)
    others = (owners[:, None] != owners[None, :]).float()
    usable = others.any(dim=1)
    images, matching = images[usable], texts[usable]
    negatives = torch.multinomial(others[usable], 1)[:, 0]
    scores = torch.cat([matcher.score_pairs(images, matching), matcher.score_pairs(images, texts[negatives])])
    labels = torch.ones_like(scores)
    labels[len(images) :] = -1
    return logistic_loss(scores.float(), labels)
