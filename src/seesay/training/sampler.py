"""Samplers: what goes into a mini-batch."""

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
