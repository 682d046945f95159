"""Phrase localization as a training task, by Algorithm 1 of the two-branch networks.

Regions are numbered across the split: `first_region[image]` plus the index in the image.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seesay.arrays import Ints
from seesay.data.boxes import iou
from seesay.device import fits
from seesay.errors import SeesayError
from seesay.losses.base import Batch, Relations
from seesay.matchers.sentences import Sentences
from seesay.recipes.schema import Recipe, RegionSettings
from seesay.runs.inputs import NEAR, Inputs
from seesay.runs.prepare import rows_of_each
from seesay.runs.summary import Size
from seesay.training.task import Task

FAR = 0.3  # the IoU with the true region below which a region is a negative one
_BATCH = 4096  # phrases given at a time to what is fitted to all pairs


class PhraseSampler:
    """Positive and negative regions of every phrase of the train split, computed once."""

    def __init__(self, data: Inputs, settings: RegionSettings) -> None:
        self.settings = settings
        counts = [len(regions.boxes) for regions in data.regions]
        self.first_region = np.cumsum([0, *counts])
        owners = data.image_of_sentence
        self.true = self.first_region[owners] + data.true_region
        numbers: dict[tuple[int, str | int], int] = {}
        chains = ((phrase.image, phrase.chain or i) for i, phrase in enumerate(data.corpus.sentences))
        self.chains = np.array([numbers.setdefault(chain, len(numbers)) for chain in chains], np.int64)
        self.of_chain = rows_of_each(self.chains, int(self.chains.max()) + 1)
        self.near: list[Ints] = []
        self.far: list[Ints] = []
        truths = data.corpus.enclosing_boxes()
        for phrase, image in enumerate(owners):
            overlap = iou(data.regions[image].boxes, truths[phrase : phrase + 1])[:, 0]
            start, proposed = self.first_region[image], overlap[: data.proposals[image]]
            likely = overlap if settings.positives == "jittered" else proposed
            near = start + np.flatnonzero(likely >= NEAR)
            self.near.append(np.union1d(near, self.true[phrase]))
            self.far.append(start + np.flatnonzero(proposed < FAR))

    def triplets(
        self, phrases: Ints, neighbours: bool, generator: np.random.Generator
    ) -> tuple[Ints, Ints, Relations]:
        """Perform steps 2 and 3 of the triplet sampling for one set of ground-truth pairs.

        The loss keeps the K hardest triplets of those that steps 3a and 3b enumerate.

        Returns:
            Regions (n,) and phrases (m,) by number, and their relations.
        """
        regions = self.true[phrases]
        if self.settings.positives != "single":  # step 2
            regions = np.array([generator.choice(self.near[phrase]) for phrase in phrases])
        if neighbours:  # step 3c
            regions, phrases = self._with_neighbours(regions, phrases, generator)
        present, column = np.unique(phrases, return_inverse=True)
        far, most = [self.far[phrase] for phrase in present], self.settings.negatives
        if most is not None:
            far = [f if len(f) <= most else generator.choice(f, most, replace=False) for f in far]
        used, row = np.unique(np.concatenate([regions, *far]), return_inverse=True)
        matching = np.zeros((len(used), len(present)), bool)
        matching[row[: len(regions)], column] = True
        # Step 3b: x' lies far from the true region of y, in the same image.
        other_regions = np.zeros_like(matching)
        other_regions[row[len(regions) :], np.repeat(np.arange(len(present)), [len(f) for f in far])] = True
        # Step 3a: y' is in another coreference chain than every phrase y that matches x.
        chain = self.chains[present]
        in_chain_of_match = matching.astype(np.float32) @ np.equal.outer(chain, chain).astype(np.float32) > 0
        other_phrases = matching.any(axis=1, keepdims=True) & ~in_chain_of_match
        return used, present, Relations(*map(torch.from_numpy, (matching, other_phrases, other_regions)))

    def pairs(
        self, phrases: Ints, generator: np.random.Generator
    ) -> tuple[Ints, Ints, tuple[Tensor, Tensor, Tensor]]:
        """Perform the pair sampling: each positive pair, and one with a negative region of the same image.

        Returns:
            Regions (n,) and phrases (m,) by number, and the pairs of their rows with labels, see `Batch`.
        """
        augmented = self.settings.positives != "single"
        left, right, labels = [], [], []
        for phrase in phrases:
            far = self.far[phrase]
            if not len(far):
                continue
            near = self.near[phrase] if augmented else self.true[phrase : phrase + 1]
            left += [near, generator.choice(far, len(near))]
            right.append(np.full(2 * len(near), phrase))
            labels += [np.ones(len(near)), -np.ones(len(near))]
        regions, row = np.unique(np.concatenate(left), return_inverse=True)
        present, column = np.unique(np.concatenate(right), return_inverse=True)
        label = torch.from_numpy(np.concatenate(labels).astype(np.float32))
        return regions, present, (torch.from_numpy(row), torch.from_numpy(column), label)

    def _with_neighbours(
        self, regions: Ints, phrases: Ints, generator: np.random.Generator
    ) -> tuple[Ints, Ints]:
        """Step 3c: a second phrase for each region, a second region for each phrase, where there is one."""
        more: list[tuple[int, int]] = []
        for region, phrase in _alone(regions, phrases):
            same = self.of_chain[self.chains[phrase]]
            others = same[same != phrase]
            if len(others):
                more.append((region, int(generator.choice(others))))
        regions, phrases = _with_pairs(regions, phrases, more)
        if self.settings.positives == "single":
            return regions, phrases
        more = []
        for phrase, region in _alone(phrases, regions):
            others = self.near[phrase][self.near[phrase] != region]
            if len(others):
                more.append((int(generator.choice(others)), phrase))
        return _with_pairs(regions, phrases, more)


def _with_pairs(regions: Ints, phrases: Ints, more: list[tuple[int, int]]) -> tuple[Ints, Ints]:
    added = np.array(more, np.int64).reshape(-1, 2)
    return np.concatenate([regions, added[:, 0]]), np.concatenate([phrases, added[:, 1]])


def _alone(targets: Ints, matches: Ints) -> list[tuple[int, int]]:
    """Return each target that has a single match, and this match."""
    unique, first = np.unique(targets, return_index=True)
    lowest = np.full(len(unique), np.iinfo(np.int64).max)
    highest = np.full(len(unique), -1)
    place = np.searchsorted(unique, targets)
    np.minimum.at(lowest, place, matches)
    np.maximum.at(highest, place, matches)
    single = lowest == highest
    return list(zip(unique[single].tolist(), matches[first[single]].tolist(), strict=True))


class PhraseSet(NamedTuple):
    """Ground-truth pairs by their phrases, and the seed of the random numbers that the rest is drawn with."""

    phrases: Ints
    seed: tuple[int, int, int]


class PhraseTask(Task):
    """Matching phrases with the regions of an image that they name.

    Attributes:
        kept_on_cpu: the largest size, in bytes, at which all region features are kept in memory on a CPU.
    """

    kept_on_cpu = 1 << 28

    def __init__(self, recipe: Recipe, data: Inputs, val: Inputs) -> None:
        super().__init__(recipe, data, val)
        assert recipe.regions is not None
        self.settings, self.sampler = recipe.regions, PhraseSampler(data, recipe.regions)
        self._on_device: dict[str, Tensor | None] = {}
        # A broken image has no regions, and so its phrases have no true one.
        self._usable = np.flatnonzero(data.proposals[data.image_of_sentence] > 0)

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
        starts = range(0, len(shuffled), size)
        sets = [PhraseSet(shuffled[start : start + size], (seed, epoch, start)) for start in starts]
        # Batch normalisation needs two phrases, and a pair a proposal far from the true region.
        paired, far = self.loss.phrases == "pairs", self.sampler.far
        kept = [each for each in sets if sum(not paired or len(far[p]) > 0 for p in each.phrases) > 1]
        if not kept:
            raise SeesayError(
                f"{self.data.corpus.root}: split 'train' has no two phrases with distinguishable "
                f"regions; add phrases, or increase regions.proposals."
            )
        return kept

    def drawn(self, batch: PhraseSet, device: str, features: Tensor | None = None) -> Batch:
        """Return a mini-batch, whose regions and negatives are drawn now."""
        assert features is None
        generator = np.random.default_rng(batch.seed)
        how: dict[str, Any] = {}
        if self.loss.phrases == "pairs":
            regions, phrases, pairs = self.sampler.pairs(batch.phrases, generator)
            how["pairs"] = tuple(each.to(device) for each in pairs)
        else:
            neighbours = self.recipe.sampler == "neighbourhood"
            regions, phrases, relations = self.sampler.triplets(batch.phrases, neighbours, generator)
            how["relations"] = Relations(*(each.to(device) for each in relations))
        numbers = torch.from_numpy(regions).to(device)
        return Batch(self._features(regions, device), self._phrases(phrases).to(device), numbers, **how)

    def pairs(self) -> Iterator[tuple[Tensor, Sentences]]:
        """Iterate over all phrases with the features of their true regions, in batches."""
        for start in range(0, len(self._usable), _BATCH):
            phrases = self._usable[start : start + _BATCH]
            yield self._features(self.sampler.true[phrases]), self._phrases(phrases)

    def sizes(self) -> tuple[Size, Size]:
        """Return the sizes of the train and the val split."""
        train, val = super().sizes()
        positives = round(float(np.mean([len(near) for near in self.sampler.near])), 2)
        return train | {"positives": positives}, val

    def _phrases(self, chosen: NDArray[np.int64]) -> Sentences:
        return self.data.sentences.take(chosen).to_tensors()

    def _features(self, regions: NDArray[np.int64], device: str = "cpu") -> Tensor:
        """Return the features (n, d) of regions by their numbers, in any order."""
        if (kept := self._kept(device)) is not None:
            return kept[torch.from_numpy(regions).to(device)].float()
        return self._read(regions).to(device)

    def _kept(self, device: str) -> Tensor | None:
        """Return all features (r, d) in half precision; None if they are too large for the device."""
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
        order = np.argsort(owners, kind="stable")
        images, starts = np.unique(owners[order], return_index=True)
        features = np.empty((0, 0), np.float32)
        for image, mine in zip(images, np.split(order, starts[1:]), strict=True):
            local = regions[mine] - self.sampler.first_region[image]
            rows = self.data.region_features(image, local, self.settings.geometry)
            if not features.size:
                features = np.empty((len(regions), rows.shape[1]), np.float32)
            features[mine] = rows
        return torch.from_numpy(features)
