"""Mini-batches of regions and phrases: Algorithm 1 of the two-branch networks.

Regions are numbered through the whole split: `first_region[image]` plus the place in the image.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from seesay.data.boxes import iou
from seesay.losses.base import LabelledPairs, Relations
from seesay.recipes.schema import RegionSettings
from seesay.runs.inputs import NEAR, Inputs

FAR = 0.3  # the IoU with the true region below which a region is a negative one
Numbers = NDArray[np.int64]


class PhraseSampler:
    """Positive and negative regions of every phrase, computed once.

    Args:
        data: of the train split.
        settings: of the recipe.
    """

    def __init__(self, data: Inputs, settings: RegionSettings) -> None:
        self.settings = settings
        counts = [len(regions.boxes) for regions in data.regions]
        self.first_region = np.cumsum([0, *counts])
        owners = data.image_of_sentence
        self.true = self.first_region[owners] + data.true_region
        self.chains = _numbered([(p.image, p.chain or i) for i, p in enumerate(data.corpus.sentences)])
        self.by_chain = np.argsort(self.chains, kind="stable")
        self.chain_cuts = np.searchsorted(self.chains[self.by_chain], np.arange(self.chains.max() + 2))
        self.near: list[Numbers] = []
        self.far: list[Numbers] = []
        truths = data.corpus.enclosing_boxes()
        for phrase, image in enumerate(owners):
            overlap = iou(data.regions[image].boxes, truths[phrase : phrase + 1])[:, 0]
            start, proposed = self.first_region[image], overlap[: data.proposals[image]]
            likely = overlap if settings.positives == "jittered" else proposed
            near = start + np.flatnonzero(likely >= NEAR)
            self.near.append(np.union1d(near, self.true[phrase]))
            self.far.append(start + np.flatnonzero(proposed < FAR))

    def triplets(
        self, phrases: Numbers, neighbours: bool, generator: np.random.Generator
    ) -> tuple[Numbers, Numbers, Relations]:
        """Steps 2 and 3 of the triplet sampling for one set of ground-truth pairs.

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
        far = [self._some_far(phrase, generator) for phrase in present]
        used, row = np.unique(np.concatenate([regions, *far]), return_inverse=True)
        matching = np.zeros((len(used), len(present)), bool)
        matching[row[: len(regions)], column] = True
        # Step 3b: x' lies far from the true region of y, in the same image.
        other_regions = np.zeros_like(matching)
        other_regions[row[len(regions) :], np.repeat(np.arange(len(present)), [len(f) for f in far])] = True
        who = (matching, self._other_phrases(matching, present), other_regions)
        return used, present, Relations(*map(torch.from_numpy, who))

    def _other_phrases(self, matching: NDArray[np.bool_], phrases: Numbers) -> NDArray[np.bool_]:
        """Step 3a: y' is of another coreference chain than every phrase y that matches x, (n, m)."""
        chain = self.chains[phrases]
        same_chain = chain[:, None] == chain[None, :]
        in_chain_of_match = matching.astype(np.float32) @ same_chain.astype(np.float32) > 0
        others: NDArray[np.bool_] = np.asarray(matching.any(axis=1))[:, None] & ~in_chain_of_match
        return others

    def pairs(
        self, phrases: Numbers, generator: np.random.Generator
    ) -> tuple[Numbers, Numbers, LabelledPairs]:
        """The pair sampling: every positive with one negative region of the same image.

        Returns:
            Regions (n,) and phrases (m,) by number, and the pairs of their rows.
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
        if not left:
            left, right, labels = [phrases[:0]], [phrases[:0]], [np.zeros(0)]
        regions, row = np.unique(np.concatenate(left), return_inverse=True)
        present, column = np.unique(np.concatenate(right), return_inverse=True)
        parts = (row, column, np.concatenate(labels).astype(np.float32))
        return regions, present, LabelledPairs(*map(torch.from_numpy, parts))

    def _some_far(self, phrase: int, generator: np.random.Generator) -> Numbers:
        far, most = self.far[phrase], self.settings.negatives
        return far if most is None or len(far) <= most else generator.choice(far, most, replace=False)

    def _with_neighbours(
        self, regions: Numbers, phrases: Numbers, generator: np.random.Generator
    ) -> tuple[Numbers, Numbers]:
        """Step 3c: a second phrase for each region, a second region for each phrase, where there is one."""
        more: list[tuple[int, int]] = []
        for region, phrase in _alone(regions, phrases):
            chain = self.chains[phrase]
            same = self.by_chain[self.chain_cuts[chain] : self.chain_cuts[chain + 1]]
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


def _with_pairs(regions: Numbers, phrases: Numbers, more: list[tuple[int, int]]) -> tuple[Numbers, Numbers]:
    added = np.array(more, np.int64).reshape(-1, 2)
    return np.concatenate([regions, added[:, 0]]), np.concatenate([phrases, added[:, 1]])


def _alone(targets: Numbers, matches: Numbers) -> list[tuple[int, int]]:
    """Each target that has a single match, with it."""
    unique, first = np.unique(targets, return_index=True)
    lowest = np.full(len(unique), np.iinfo(np.int64).max)
    highest = np.full(len(unique), -1)
    place = np.searchsorted(unique, targets)
    np.minimum.at(lowest, place, matches)
    np.maximum.at(highest, place, matches)
    single = lowest == highest
    return list(zip(unique[single].tolist(), matches[first[single]].tolist(), strict=True))


def _numbered(names: Sequence[object]) -> Numbers:
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64)
