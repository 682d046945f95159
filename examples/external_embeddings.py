"""Measure embeddings that other models computed: recall, confidence intervals, and a paired test.

python examples/external_embeddings.py image_of_sentence.npy ours.npz theirs.npz

Each .npz file holds `images` (n, d) and `sentences` (m, d); the score of a pair is their inner product.
`image_of_sentence` (m,) says for each sentence which image it describes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seesay.metrics import bootstrap, embedding_ranks, paired_test, recall_at_k


def sentence_queries(file: Path, image_of_sentence: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each sentence the zero-based rank of its image; print the recalls of both directions."""
    with np.load(file) as arrays:
        ranks = embedding_ranks(arrays["images"], arrays["sentences"], image_of_sentence)
    for direction, found in (("sentence", ranks.sentence), ("image", ranks.image)):
        recalls = "  ".join(f"R@{k} {recall_at_k(found, k):5.1f}" for k in (1, 5, 10))
        print(f"{file.stem}: {direction} retrieval  {recalls}")
    return ranks.image


def main(owners: Path, ours: Path, theirs: Path) -> None:
    image_of_sentence = np.load(owners)
    # Sentences of one image tend to be found together, so intervals and tests draw whole images.
    mine, other = (sentence_queries(file, image_of_sentence) < 10 for file in (ours, theirs))
    low, high = bootstrap(mine, groups=image_of_sentence)
    print(f"{ours.stem}: image retrieval R@10, 95 % interval {100 * low:.1f} to {100 * high:.1f}")
    test = paired_test(mine, other, groups=image_of_sentence)
    if test.difference is not None:  # there is at least one query
        print(f"difference from {theirs.stem}: {100 * test.difference:+.1f}, p = {test.p:.3g}")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*map(Path, sys.argv[1:4]))
