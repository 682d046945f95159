"""Phrase localization as a training task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seesay.data.corpus import Corpus
from seesay.encoders.sentences.base import SentenceEncoder
from seesay.errors import SeesayError
from seesay.losses.base import Batch, LabelledPairs, Relations
from seesay.matchers.base import Matcher
from seesay.matchers.sentences import Sentences
from seesay.recipes.schema import Recipe, RegionSettings
from seesay.runs.inputs import Inputs, split_inputs
from seesay.runs.summary import SplitSize
from seesay.text.vocabulary import Vocabulary
from seesay.training.phrase_sampler import PhraseSampler
from seesay.training.sentence_task import fits
from seesay.training.task import Task

_BATCH = 4096


@dataclass(frozen=True)
class PhraseSet:
    """Ground-truth pairs by their phrases, and the random numbers that the rest is drawn with."""

    phrases: NDArray[np.int64]
    seed: tuple[int, int, int]


class PhraseTask(Task):
    """Matching phrases with the regions of an image that they name.

    Attributes:
        kept_on_cpu: bytes of region features that stay in memory.
    """

    kept_on_cpu = 1 << 28

    def __init__(self, recipe: Recipe, settings: RegionSettings, data: Inputs, val: Inputs) -> None:
        self.recipe, self.settings, self.data, self.val = recipe, settings, data, val
        self.loss = recipe.loss.build()
        self.sampler = PhraseSampler(data, settings)
        self._on_device: dict[str, Tensor | None] = {}
        # A broken image has no regions, and so its phrases have no true one.
        self._usable = np.flatnonzero(data.proposals[data.image_of_sentence] > 0)

    @classmethod
    def from_corpus(
        cls, recipe: Recipe, corpus: Corpus, vocabulary: Vocabulary, encoder: SentenceEncoder | None
    ) -> PhraseTask:
        """Create the task of a corpus, proposing and encoding missing regions."""
        train, val = (split_inputs(recipe, corpus, split, vocabulary, encoder) for split in ("train", "val"))
        assert recipe.regions is not None
        return cls(recipe, recipe.regions, train, val)

    @property
    def image_dims(self) -> tuple[int, ...]:
        """Width of the region features."""
        return (self._read(np.zeros(1, np.int64)).shape[1],)

    def batches(self, epoch: int) -> Sequence[PhraseSet]:
        """Return the shuffled phrases in sets; sets with fewer than two usable phrases are left out.

        Raises:
            SeesayError: no set is left.
        """
        seed, size = self.recipe.seed, self.recipe.batch_size
        shuffled = np.random.default_rng([seed, epoch]).permutation(self._usable)
        sets = [
            PhraseSet(shuffled[start : start + size], (seed, epoch, start))
            for start in range(0, len(shuffled), size)
        ]
        # Batch normalisation takes two; a pair takes a proposal far from the true region.
        paired = self.loss.phrases == "pairs"
        far = self.sampler.far
        kept = [each for each in sets if sum(not paired or len(far[p]) > 0 for p in each.phrases) > 1]
        if not kept:
            raise SeesayError(
                f"{self.data.corpus.root}: split 'train' has no two phrases with distinguishable "
                f"regions; add phrases, or increase regions.proposals."
            )
        return kept

    def losses(self, matcher: Matcher, batch: PhraseSet, device: str) -> list[Tensor]:
        """Return the loss of a mini-batch, whose regions and negatives are drawn now."""
        generator = np.random.default_rng(batch.seed)
        relations: Relations | None = None
        pairs: LabelledPairs | None = None
        if self.loss.phrases == "pairs":
            regions, phrases, pairs = self.sampler.pairs(batch.phrases, generator)
        else:
            neighbours = self.recipe.sampler == "neighbourhood"
            regions, phrases, relations = self.sampler.triplets(batch.phrases, neighbours, generator)
        drawn = Batch(
            self._features(regions, device),
            self._phrases(phrases).to(device),
            torch.from_numpy(regions).to(device),
            relations=relations and relations.to(device),
            pairs=pairs and pairs.to(device),
        )
        return self.loss.batch_losses(matcher, drawn)

    def pairs(self) -> Iterator[tuple[Tensor, Sentences]]:
        """Iterate over all phrases with the features of their true regions, in batches."""
        for start in range(0, len(self._usable), _BATCH):
            phrases = self._usable[start : start + _BATCH]
            yield self._features(self.sampler.true[phrases]), self._phrases(phrases)

    def sizes(self) -> tuple[SplitSize, SplitSize]:
        """Return the sizes of the train and the val split."""
        train, val = (
            SplitSize(images=len(part.regions), phrases=len(part.sentences)) for part in (self.data, self.val)
        )
        positives = round(float(np.mean([len(near) for near in self.sampler.near])), 2)
        return train.model_copy(update={"positives": positives}), val

    def _phrases(self, chosen: NDArray[np.int64]) -> Sentences:
        return self.data.sentences.take(chosen).to_tensors()

    def _features(self, regions: NDArray[np.int64], device: str = "cpu") -> Tensor:
        """Features (n, d) of regions by their numbers, in ascending order or not."""
        if (kept := self._kept(device)) is not None:
            return kept[torch.from_numpy(regions).to(device)].float()
        return self._read(regions).to(device)

    def _kept(self, device: str) -> Tensor | None:
        """All features (r, d) in half precision; None where they are too large."""
        if device not in self._on_device:
            width = self._read(np.zeros(1, np.int64)).shape[1]
            count = int(self.sampler.first_region[-1])
            size, on_cpu = 2 * count * width, torch.device(device).type == "cpu"
            self._on_device[device] = None
            if size <= self.kept_on_cpu if on_cpu else fits(device, size):
                everything = torch.empty(count, width, dtype=torch.float16, device=device)
                for image, start in enumerate(self.sampler.first_region[:-1]):
                    rows = self.data.region_features(image, slice(None), self.settings.geometry)
                    everything[start : start + len(rows)] = torch.from_numpy(rows)
                self._on_device[device] = everything
        return self._on_device[device]

    def _read(self, regions: NDArray[np.int64]) -> Tensor:
        """Read features (n, d) from the store."""
        owners = np.searchsorted(self.sampler.first_region, regions, side="right") - 1
        rows: list[NDArray[np.float32]] = []
        order = np.argsort(owners, kind="stable")
        images, starts = np.unique(owners[order], return_index=True)
        for image, mine in zip(images, np.split(order, starts[1:]), strict=True):
            local = regions[mine] - self.sampler.first_region[image]
            rows.append(self.data.region_features(image, local, self.settings.geometry))
        features = np.empty((len(regions), rows[0].shape[1]), np.float32)
        features[order] = np.concatenate(rows)
        return torch.from_numpy(features)
