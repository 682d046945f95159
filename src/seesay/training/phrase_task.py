"""Phrase localization as a training task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seesay.data.phrases import PhraseCorpus
from seesay.encoders.sentences.encoder import SentenceEncoder
from seesay.errors import SeesayError
from seesay.losses.triplet import Relations, logistic_loss, triplet_loss
from seesay.matchers.base import EmbeddingMatcher, Matcher, PairMatcher
from seesay.matchers.sentences import Sentences
from seesay.protocols.evaluate import measure_inputs
from seesay.recipes.schema import (
    LogisticSettings,
    Recipe,
    RegionSettings,
    TripletSettings,
)
from seesay.runs.phrase_inputs import PhraseInputs, phrase_inputs
from seesay.runs.run import Run
from seesay.text.vocabulary import Vocabulary
from seesay.training.phrase_sampler import PhraseSampler

_BATCH = 4096


@dataclass(frozen=True)
class Batch:
    """Ground-truth pairs by their phrases, and the random numbers that the rest is drawn with."""

    phrases: NDArray[np.int64]
    seed: tuple[int, int, int]


class PhraseTask:
    """Phrases and the regions that they name."""

    monitor = "R@1"

    def __init__(
        self, recipe: Recipe, settings: RegionSettings, data: PhraseInputs, val: PhraseInputs
    ) -> None:
        self.recipe, self.settings, self.data, self.val = recipe, settings, data, val
        self.sampler = PhraseSampler(data, settings)
        # A broken image has no regions, and so its phrases have no true one.
        self._usable = np.flatnonzero(data.proposals[data.corpus.image_of_phrase()] > 0)

    @classmethod
    def of(
        cls, recipe: Recipe, corpus: PhraseCorpus, vocabulary: Vocabulary, encoder: SentenceEncoder | None
    ) -> PhraseTask:
        """The task of a corpus; regions that are missing are proposed and encoded first."""
        if recipe.regions is None:
            raise SeesayError(
                f"Recipe '{recipe.name}' matches whole images with sentences; "
                f"{corpus.root} holds phrases, which a grounding recipe takes (ground-…)."
            )
        train, val = (phrase_inputs(recipe, corpus, split, vocabulary, encoder) for split in ("train", "val"))
        return cls(recipe, recipe.regions, train, val)

    @property
    def image_dim(self) -> int:
        """Width of the region features."""
        return self._features(np.zeros(1, np.int64)).shape[1]

    def batches(self, epoch: int) -> Sequence[Batch]:
        """The shuffled phrases in sets; one with less than two phrases to learn from is left out.

        Raises:
            SeesayError: no set is left.
        """
        seed, size = self.recipe.seed, self.recipe.batch_size
        shuffled = np.random.default_rng([seed, epoch]).permutation(self._usable)
        sets = [
            Batch(shuffled[start : start + size], (seed, epoch, start))
            for start in range(0, len(shuffled), size)
        ]
        # Batch normalisation takes two; a pair takes a proposal far from the true region.
        paired = isinstance(self.recipe.loss, LogisticSettings)
        far = self.sampler.far
        kept = [each for each in sets if sum(not paired or len(far[p]) > 0 for p in each.phrases) > 1]
        if not kept:
            raise SeesayError(
                f"{self.data.corpus.root}: split 'train' has no two phrases with regions to tell apart; "
                "give it more phrases, or more regions.proposals."
            )
        return kept

    def losses(self, matcher: Matcher, batch: Batch, device: str) -> list[Tensor]:
        """The recipe's loss on one mini-batch."""
        generator = np.random.default_rng(batch.seed)
        loss = self.recipe.loss
        if isinstance(loss, TripletSettings) and isinstance(matcher, EmbeddingMatcher):
            neighbours = self.recipe.sampler == "neighbourhood"
            drawn = self.sampler.triplets(batch.phrases, neighbours, generator)
            regions = matcher.embed_images(self._features(drawn.regions).to(device))
            phrases = matcher.embed_sentences(self._phrases(drawn.phrases).to(device))
            who = (drawn.matching, drawn.other_phrases, drawn.other_regions)
            relations = Relations(*(torch.from_numpy(each).to(device) for each in who))
            return [triplet_loss(regions.float(), phrases.float(), relations, loss)]
        if isinstance(loss, LogisticSettings) and isinstance(matcher, PairMatcher):
            pairs = self.sampler.pairs(batch.phrases, generator)
            used, row = np.unique(pairs.regions, return_inverse=True)
            present, column = np.unique(pairs.phrases, return_inverse=True)
            left = matcher.encode_images(self._features(used).to(device))[row]
            right = matcher.encode_sentences(self._phrases(present).to(device))[column]
            labels = torch.from_numpy(pairs.labels).to(device)
            return [logistic_loss(matcher.score_pairs(left, right).float(), labels)]
        raise SeesayError(
            f"Recipe '{self.recipe.name}': phrases are learned with a triplet loss and an embedding "
            "network, or a logistic one and a similarity network."
        )

    def pairs(self) -> Iterator[tuple[Tensor, Sentences]]:
        """Every phrase with its true region."""
        for start in range(0, len(self._usable), _BATCH):
            phrases = self._usable[start : start + _BATCH]
            yield self._features(self.sampler.true[phrases]), self._phrases(phrases)

    def measure(self, run: Run) -> dict[str, Any]:
        """Recalls of the val split."""
        return measure_inputs(run, self.val, "val").to_dict()

    def about(self) -> dict[str, Any]:
        """Sizes of the splits, and broken images."""
        sizes = {
            name: {"images": len(part.regions), "phrases": len(part.sentences)}
            for name, part in (("train", self.data), ("val", self.val))
        }
        return sizes | {"broken_images": [str(error) for error in (*self.data.broken, *self.val.broken)]}

    def _phrases(self, chosen: NDArray[np.int64]) -> Sentences:
        return self.data.sentences.take(torch.from_numpy(chosen))

    def _features(self, regions: NDArray[np.int64]) -> Tensor:
        """Features (n, d) of regions by their numbers, in ascending order or not."""
        owners = np.searchsorted(self.sampler.first_region, regions, side="right") - 1
        rows: list[NDArray[np.float32]] = []
        order = np.argsort(owners, kind="stable")
        images, starts = np.unique(owners[order], return_index=True)
        for image, mine in zip(images, np.split(order, starts[1:]), strict=True):
            local = regions[mine] - self.sampler.first_region[image]
            rows.append(self.data.features(image, local, self.settings.geometry))
        features = np.empty((len(regions), rows[0].shape[1]), np.float32)
        features[order] = np.concatenate(rows)
        return torch.from_numpy(features)
