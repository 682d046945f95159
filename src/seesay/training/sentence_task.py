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
from seesay.errors import SeesayError
from seesay.evaluation.measure import measure
from seesay.matchers.base import EmbeddingMatcher, Matcher, PairMatcher
from seesay.matchers.cut import count_cut
from seesay.matchers.dcca import DCCA
from seesay.matchers.inputs import Inputs, split_inputs
from seesay.matchers.run import Run
from seesay.matchers.sco import SCO
from seesay.recipes.schema import (
    ContrastiveSettings,
    DistilledSettings,
    HingeRankSettings,
    LogisticSettings,
    MarginSettings,
    PairMarginSettings,
    Recipe,
    TotalCorrelationSettings,
    TripletSettings,
)
from seesay.text.encoders import SentenceEncoder
from seesay.text.sentences import Sentences
from seesay.text.vocabulary import Vocabulary
from seesay.training.objectives import distilled, objective_value
from seesay.training.pair_margin import pair_margin
from seesay.training.sampler import pair_batches, random_batches
from seesay.training.teacher import Teacher
from seesay.training.total_correlation import total_correlation
from seesay.training.triplets import Relations, logistic_objective, triplet_objective

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
    headline: str = "mR"
    passed: float = 0.0  # 0 in the first epoch, 1 in the last

    @classmethod
    def of(
        cls, recipe: Recipe, corpus: Corpus, vocabulary: Vocabulary, encoder: SentenceEncoder | None
    ) -> SentenceTask:
        """The task of a corpus; images that lack features are encoded first."""
        train, val = (split_inputs(recipe, corpus, split, vocabulary, encoder) for split in ("train", "val"))
        objective = recipe.objective
        if not isinstance(objective, DistilledSettings):
            return cls(recipe, train, val)
        return cls(recipe, train, val, Teacher.of(objective, corpus, train))

    @property
    def image_dim(self) -> int:
        """Width of the image features."""
        return self.data.features.shape[1]

    def batches(self, epoch: int) -> Sequence[Batch]:
        """Positions of images and of their sentences."""
        recipe, owners = self.recipe, self.data.image_of_sentence
        self.passed = (epoch - 1) / max(recipe.schedule.epochs - 1, 1)
        if recipe.sampler == "rounds":
            batches = list(pair_batches(owners, recipe.batch, recipe.seed, epoch))
        else:
            neighbours = recipe.sampler == "neighbourhood"
            batches = list(random_batches(owners, recipe.batch, recipe.seed, epoch, neighbours))
        if isinstance(recipe.objective, TotalCorrelationSettings):
            # The fewer pairs, the more of their correlation is chance.
            return [each for each in batches if len(each[0]) >= recipe.batch] or batches
        return batches

    def losses(self, matcher: Matcher, batch: Batch, device: str) -> list[Tensor]:
        """The recipe's objective on one mini-batch; eq. 4 of SCO where the matcher generates sentences."""
        losses = self._matching(matcher, batch, device)
        if isinstance(matcher, SCO) and matcher.generation is not None:
            features, sentences = self._read(batch, device)
            losses = [losses[0] + matcher.generation_loss(features, sentences, self.passed)]
        return losses

    def _read(self, batch: Batch, device: str) -> tuple[Tensor, Sentences]:
        images, sentences = (torch.from_numpy(part) for part in batch)
        return self.data.features[images].to(device), self.data.sentences.take(sentences).to(device)

    def _matching(self, matcher: Matcher, batch: Batch, device: str) -> list[Tensor]:
        objective, owners = self.recipe.objective, torch.from_numpy(batch[0]).to(device)
        if isinstance(objective, TripletSettings) and isinstance(matcher, EmbeddingMatcher):
            return [self._triplets(matcher, batch, device, objective)]
        features, sentences = self._read(batch, device)
        if isinstance(objective, LogisticSettings) and isinstance(matcher, PairMatcher):
            return [_balanced_logistic(matcher, features, sentences, owners)]
        if isinstance(objective, PairMarginSettings) and isinstance(matcher, PairMatcher):
            return [pair_margin(matcher, features, sentences, owners, objective)]
        if isinstance(objective, TotalCorrelationSettings) and isinstance(matcher, DCCA):
            return [-total_correlation(*matcher.outputs(features, sentences), objective.ridge)]
        if isinstance(objective, DistilledSettings) and self.teacher is not None:
            wanted = self.teacher.scores(batch, device)
            scores = matcher.training_scores(features, sentences)
            return [distilled(each.float(), wanted, owners, objective.scale) for each in scores]
        if not isinstance(objective, MarginSettings | HingeRankSettings | ContrastiveSettings):
            raise SeesayError(
                f"Recipe '{self.recipe.name}': objective '{objective.kind}' does not go with matcher "
                f"'{self.recipe.matcher.kind}': triplets need an embedding matcher, logistic and "
                "pair-margin a pair matcher, total-correlation dcca."
            )
        scores = matcher.training_scores(features, sentences)
        return [objective_value(objective, each.float(), owners) for each in scores]

    def _triplets(
        self, matcher: EmbeddingMatcher, batch: Batch, device: str, objective: TripletSettings
    ) -> Tensor:
        images, chosen = (torch.from_numpy(part) for part in batch)
        present = torch.unique(images)
        vectors = matcher.embed_images(self.data.features[present].to(device)).float()
        relations = Relations.of_owners(present.to(device), images.to(device))
        texts = matcher.embed_sentences(self.data.sentences.take(chosen).to(device)).float()
        return triplet_objective(vectors, texts, relations, objective)

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
        return measure(run, self.val.of_first_images(_PAIRED) if few else self.val, "val")

    def _fit_projections(self, run: Run) -> None:
        objective = self.recipe.objective
        if isinstance(run.matcher, DCCA) and isinstance(objective, TotalCorrelationSettings):
            pairs = ((images.to(run.device), texts.to(run.device)) for images, texts in self.pairs())
            run.matcher.fit_projections(pairs, objective.ridge)

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
    return logistic_objective(scores.float(), labels)
