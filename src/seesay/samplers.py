"""Samplers: which image-sentence pairs make up the mini-batches of an epoch.

Positions only depend on seed and epoch, so a resumed run sees the same batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import numpy as np

from seesay.arrays import Ints
from seesay.registry import Registry

Sampler: TypeAlias = Callable[[Ints, int, int, int], Iterator[tuple[Ints, Ints]]]
"""A function that yields the batches of an epoch: positions of images and of their sentences, both (batch,).

Its arguments are for each sentence the position of its image, (m,); the number of pairs in a batch, to which
some samplers add; the seed of the run; and the number of the epoch, from 1. The last batch may be smaller;
batches without negatives are left out.
"""

SAMPLERS: Registry[Sampler] = Registry("sampler", "seesay.samplers")
register_sampler = SAMPLERS.register


@register_sampler("rounds")
def rounds(image_of_sentence: Ints, batch_size: int, seed: int, epoch: int) -> Iterator[tuple[Ints, Ints]]:
    """Yield every sentence once, with its image, in batches of pairs of different images.

    The sentences are dealt in rounds: round r holds the r-th of each image's shuffled sentences, so a batch
    repeats an image only where two rounds meet. Batches at the end with sentences of only one image are left
    out.
    """
    generator = np.random.default_rng([seed, epoch])
    shuffled = generator.permutation(len(image_of_sentence))
    owners = image_of_sentence[shuffled]
    by_owner = np.argsort(owners, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(owners[by_owner]) != 0])
    counts = np.diff(np.r_[starts, len(owners)])
    number = np.empty(len(owners), np.int64)
    number[by_owner] = np.arange(len(owners)) - np.repeat(starts, counts)
    # Within a round the order is the shuffle's, so neighbours differ from epoch to epoch.
    dealt = shuffled[np.lexsort((generator.permutation(len(owners)), number))]
    return _with_negatives(np.split(dealt, range(batch_size, len(dealt), batch_size)), image_of_sentence)


@register_sampler("random")
def random(image_of_sentence: Ints, batch_size: int, seed: int, epoch: int) -> Iterator[tuple[Ints, Ints]]:
    """Yield shuffled pairs, as for the two-branch networks (section 5.1)."""
    shuffled = np.random.default_rng([seed, epoch]).permutation(len(image_of_sentence))
    return _with_negatives(
        np.split(shuffled, range(batch_size, len(shuffled), batch_size)), image_of_sentence
    )


@register_sampler("neighbourhood")
def neighbourhood(
    image_of_sentence: Ints, batch_size: int, seed: int, epoch: int
) -> Iterator[tuple[Ints, Ints]]:
    """Yield shuffled pairs with two sentences of each image (section 3.2.3 of the two-branch networks).

    For each image with one sentence in a batch, a second one is drawn from its others, if it has any, so a
    batch holds up to twice as many pairs.
    """
    generator = np.random.default_rng([seed, epoch])
    shuffled = generator.permutation(len(image_of_sentence))
    by_image = np.argsort(image_of_sentence, kind="stable")
    counts = np.bincount(image_of_sentence)
    starts = np.cumsum(counts) - counts
    place = np.empty(len(by_image), np.int64)
    place[by_image] = np.arange(len(by_image)) - starts[image_of_sentence[by_image]]
    batches = []
    for sentences in np.split(shuffled, range(batch_size, len(shuffled), batch_size)):
        images, first, times = np.unique(image_of_sentence[sentences], return_index=True, return_counts=True)
        alone = (times == 1) & (counts[images] > 1)
        images, only = images[alone], sentences[first[alone]]
        # Any other than the one that is there: 1 to count - 1 steps round the image's sentences.
        step = generator.integers(1, counts[images])
        second = by_image[starts[images] + (place[only] + step) % counts[images]]
        batches.append(np.concatenate([sentences, second]))
    return _with_negatives(batches, image_of_sentence)


@register_sampler("images")
def images(image_of_sentence: Ints, batch_size: int, seed: int, epoch: int) -> Iterator[tuple[Ints, Ints]]:
    """Yield every image once, with all its sentences, in batches of about `batch_size` pairs.

    If images are encoded at each step, this is the cheapest order: each image is encoded once per epoch.
    """
    order = np.random.default_rng([seed, epoch]).permutation(int(image_of_sentence.max(initial=0)) + 1)
    rank = order[image_of_sentence]
    dealt = np.argsort(rank, kind="stable")
    # Batches end at the first pair of an image; a batch of a single image is joined with the next one.
    ends = np.unique(np.searchsorted(rank[dealt], rank[dealt][batch_size::batch_size]))
    batches: list[Ints] = []
    for sentences in np.split(dealt, ends):
        if batches and not _has_negatives(image_of_sentence[batches[-1]]):
            batches[-1] = np.concatenate([batches[-1], sentences])
        else:
            batches.append(sentences)
    if len(batches) > 1 and not _has_negatives(image_of_sentence[batches[-1]]):
        batches[-2:] = [np.concatenate(batches[-2:])]
    return _with_negatives(batches, image_of_sentence)


def _with_negatives(batches: Iterable[Ints], image_of_sentence: Ints) -> Iterator[tuple[Ints, Ints]]:
    for sentences in batches:
        if _has_negatives(image_of_sentence[sentences]):
            yield image_of_sentence[sentences], sentences


def _has_negatives(images: Ints) -> bool:
    """Return whether a batch has several images; one has no negatives and cannot be batch-normalised."""
    return len(np.unique(images)) > 1
