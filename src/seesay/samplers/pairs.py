"""Samplers of image-sentence pairs: what goes into a mini-batch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray


def pair_batches(
    image_of_sentence: NDArray[np.int64], batch: int, seed: int, epoch: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """One epoch: every sentence once, with its image, in batches of pairs of different images.

    The sentences are dealt in rounds: round r holds the r-th of each image's shuffled sentences,
    so a batch repeats an image only where two rounds meet. The order depends on seed and epoch
    alone: a resumed run sees the batches it would have seen.

    Yields:
        Positions of images and sentences, both (batch,); the last batch may be smaller, and one
        of a single pair, which has no negatives, is left out.
    """
    generator = np.random.default_rng([seed, epoch])
    shuffled = generator.permutation(len(image_of_sentence))
    owners = image_of_sentence[shuffled]
    by_owner = np.argsort(owners, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(owners[by_owner]) != 0])
    counts = np.diff(np.r_[starts, len(owners)])
    rounds = np.empty(len(owners), np.int64)
    rounds[by_owner] = np.arange(len(owners)) - np.repeat(starts, counts)
    # Within a round the order is the shuffle's, so neighbours differ from epoch to epoch.
    dealt = shuffled[np.lexsort((generator.permutation(len(owners)), rounds))]
    for start in range(0, len(dealt), batch):
        sentences = dealt[start : start + batch]
        if len(sentences) > 1:
            yield image_of_sentence[sentences], sentences


def random_batches(
    image_of_sentence: NDArray[np.int64], batch: int, seed: int, epoch: int, neighbours: bool
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """One epoch of shuffled pairs, as the two-branch networks take them (section 5.1).

    With `neighbours`, each image that has one sentence in a batch brings a second one along, drawn
    from its others (section 3.2.3): such a batch holds up to twice as many pairs.

    Yields:
        Positions of images and sentences, both (batch,) or longer; the last batch may be smaller. One of a
        single image is left out: it has no negatives, and nothing to normalise a batch by.
    """
    generator = np.random.default_rng([seed, epoch])
    shuffled = generator.permutation(len(image_of_sentence))
    by_image = np.argsort(image_of_sentence, kind="stable")
    counts = np.bincount(image_of_sentence)
    starts = np.cumsum(counts) - counts
    place = np.empty(len(by_image), np.int64)
    place[by_image] = np.arange(len(by_image)) - starts[image_of_sentence[by_image]]
    for start in range(0, len(shuffled), batch):
        sentences = shuffled[start : start + batch]
        if neighbours:
            images, first, times = np.unique(
                image_of_sentence[sentences], return_index=True, return_counts=True
            )
            alone = (times == 1) & (counts[images] > 1)
            images, only = images[alone], sentences[first[alone]]
            # Any but the one that is there: a step of 1 to count - 1 round the image's sentences.
            step = generator.integers(1, counts[images])
            second = by_image[starts[images] + (place[only] + step) % counts[images]]
            sentences = np.concatenate([sentences, second])
        if len(np.unique(image_of_sentence[sentences])) > 1:
            yield image_of_sentence[sentences], sentences
