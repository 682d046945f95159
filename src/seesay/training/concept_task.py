"""The prediction of concepts as a training task: SCO's multi-label CNN."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seesay.data.corpus import Corpus
from seesay.errors import SeesayError
from seesay.losses.base import Batch, Loss
from seesay.matchers.sentences import Sentences
from seesay.protocols.concepts import measure_concepts
from seesay.recipes.schema import Recipe
from seesay.runs.inputs import Inputs, split_inputs
from seesay.runs.run import Run
from seesay.text.concepts import ConceptVocabulary, concept_targets
from seesay.text.vocabulary import Vocabulary

Positions = NDArray[np.int64]


def learned_words(recipe: Recipe, texts: Sequence[str]) -> tuple[Vocabulary, ConceptVocabulary | None]:
    """The words of a recipe; those of concepts, which come with them, are what it learns to predict."""
    count = recipe.matcher.concept_count
    if count is None:
        return Vocabulary.of(texts, recipe.min_count), None
    concepts = ConceptVocabulary.of(texts, count, recipe.min_count)
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
        train, val = (split_inputs(recipe, corpus, split, vocabulary) for split in ("train", "val"))
        targets = torch.from_numpy(concept_targets(vocabulary.words, train.corpus))
        return cls(recipe, train, val, targets, recipe.matcher.concept_count or 0)

    @property
    def image_dim(self) -> int:
        """Width of the image features."""
        return self.data.features.shape[1]

    def batches(self, epoch: int) -> Sequence[Positions]:
        """Positions of images, each once."""
        shuffled = np.random.default_rng([self.recipe.seed, epoch]).permutation(len(self.data.features))
        return [
            shuffled[i : i + self.recipe.batch_size] for i in range(0, len(shuffled), self.recipe.batch_size)
        ]

    def losses(self, loss: Loss, matcher: nn.Module, chosen: Positions, device: str) -> list[Tensor]:
        """The loss on one mini-batch."""
        return loss.batch_losses(matcher, self.batch(self.data.features[chosen].to(device), chosen))

    def batch(self, features: Tensor, chosen: Positions) -> Batch:
        """A mini-batch of those images, given as their features (n, d)."""
        targets = self.targets[chosen].to(features.device)
        return Batch(features, None, torch.from_numpy(chosen).to(features.device), targets=targets)

    def pairs(self) -> Iterator[tuple[Tensor, Sentences]]:
        """None: what is solved in closed form takes sentences.

        Raises:
            SeesayError: always.
        """
        raise SeesayError(f"Recipe '{self.recipe.name}': concepts are not learned in closed form.")

    def measure(self, run: Run) -> dict[str, Any]:
        """Mean average precision of the val split."""
        return measure_concepts(run, self.val, "val")

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
