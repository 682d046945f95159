"""The prediction of concepts as a training task: SCO's multi-label CNN."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from seesay.data.corpus import Corpus
from seesay.errors import SeesayError
from seesay.matchers.base import Matcher
from seesay.matchers.concepts import ConceptPredictor
from seesay.matchers.sentences import Sentences
from seesay.protocols.evaluate import measure_inputs
from seesay.recipes.matchers import concept_settings
from seesay.recipes.schema import Recipe
from seesay.runs.inputs import Inputs, split_inputs
from seesay.runs.run import Run
from seesay.text.concepts import ConceptVocabulary, concept_targets
from seesay.text.vocabulary import Vocabulary

Batch = NDArray[np.int64]


def multi_label_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """The sum over concepts of log(1 + exp(-y z)), its mean over images: SCO's eq. 1.

    Printed are y in {0, 1} and the score sigmoid(z) in the place of z. Then a concept that is absent costs
    log 2 whatever its score, so that nothing keeps scores from all being 1. With y in {-1, 1} and the logit
    z it is the logistic loss, the cross-entropy of the sigmoid; it never exponentiates what is large.

    Args:
        logits: z, (n, K).
        targets: which concepts are there, (n, K), 0 or 1.
    """
    signs = 2 * targets.to(logits.dtype) - 1
    return functional.softplus(-signs * logits).sum(dim=1).mean()


def learned_words(recipe: Recipe, texts: Sequence[str]) -> tuple[Vocabulary, ConceptVocabulary | None]:
    """The words of a recipe; those of concepts, which come with them, are what it learns to predict."""
    settings = concept_settings(recipe.matcher)
    if settings is None:
        return Vocabulary.of(texts, recipe.min_count), None
    concepts = ConceptVocabulary.of(texts, settings.count, recipe.min_count)
    return concepts.vocabulary(), concepts


def learned_from(run: Run, texts: Sequence[str]) -> bool:
    """Whether the run's words are those that its recipe learns from these sentences of a train split."""
    return learned_words(run.recipe, texts)[0].words == run.vocabulary.words


@dataclass
class ConceptTask:
    """Images and the concepts that their sentences name: `targets`, (n, K), where `wanted` were to be K."""

    recipe: Recipe
    data: Inputs
    val: Inputs
    targets: Tensor
    wanted: int
    monitor: str = "mAP"

    @classmethod
    def of(cls, recipe: Recipe, corpus: Corpus, vocabulary: Vocabulary) -> ConceptTask:
        """The task of a corpus, whose vocabulary is its concepts; what lacks features is encoded first."""
        settings = concept_settings(recipe.matcher)
        assert settings is not None
        train, val = (split_inputs(recipe, corpus, split, vocabulary) for split in ("train", "val"))
        targets = torch.from_numpy(concept_targets(vocabulary.words, train.corpus))
        return cls(recipe, train, val, targets, settings.count)

    @property
    def image_dim(self) -> int:
        """Width of the image features."""
        return self.data.features.shape[1]

    def batches(self, epoch: int) -> Sequence[Batch]:
        """Positions of images, each once."""
        shuffled = np.random.default_rng([self.recipe.seed, epoch]).permutation(len(self.data.features))
        return [
            shuffled[i : i + self.recipe.batch_size] for i in range(0, len(shuffled), self.recipe.batch_size)
        ]

    def losses(self, matcher: Matcher, batch: Batch, device: str) -> list[Tensor]:
        """Eq. 1 on one mini-batch."""
        return [self.loss(matcher, self.data.features[batch].to(device), batch)]

    def loss(self, matcher: Matcher, features: Tensor, batch: Batch) -> Tensor:
        """Eq. 1 on images given as their features, (n, d)."""
        assert isinstance(matcher, ConceptPredictor)
        return multi_label_loss(matcher.logits(features).float(), self.targets[batch].to(features.device))

    def pairs(self) -> Iterator[tuple[Tensor, Sentences]]:
        """None: what is solved in closed form takes sentences.

        Raises:
            SeesayError: always.
        """
        raise SeesayError(f"Recipe '{self.recipe.name}': concepts are not learned in closed form.")

    def measure(self, run: Run) -> dict[str, Any]:
        """Mean average precision of the val split."""
        return measure_inputs(run, self.val, "val").to_dict()

    def about(self) -> dict[str, Any]:
        """Sizes of the splits, broken images, and images whose sentences name no concept."""
        sizes = {
            name: {"images": len(part.features), "sentences": len(part.sentences)}
            for name, part in (("train", self.data), ("val", self.val))
        }
        kept: dict[str, Any] = {"concepts": {"wanted": self.wanted, "kept": self.targets.shape[1]}}
        sizes["train"]["images_without_concepts"] = int((~self.targets.any(dim=1)).sum())
        return (
            sizes | kept | {"broken_images": [str(error) for error in (*self.data.broken, *self.val.broken)]}
        )
