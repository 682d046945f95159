"""How alike an image's sentences are (Figure 1 of Ke, Li, Wang, Li 2017).

The paper counts the similar pairs among an image's five sentences by a network that was trained on judged
pairs (Mueller and Thyagarajan 2016), with an unpublished threshold. Here a pair is similar if the cosine of
its vectors reaches a threshold.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from seesay.data.corpus import Corpus
from seesay.encoders.sentences.base import SentenceEncoder

SENTENCES = 5  # of an image; further ones do not count, and images with fewer are left out
THRESHOLD = 0.65  # with which as many images of COCO have ten similar pairs as in the paper


def similar_summary(
    corpus: Corpus, encoder: SentenceEncoder, threshold: float = THRESHOLD
) -> dict[str, int | float | list[float]]:
    """Compute the paper's Figure 1: the percentage of `images` with 0, 1, … 10 similar pairs (`by_pairs`)."""
    texts: dict[int, list[str]] = {}
    for sentence in corpus.sentences:
        texts.setdefault(sentence.image, []).append(sentence.text)
    chosen = [some[:SENTENCES] for some in texts.values() if len(some) >= SENTENCES]
    vectors = encoder.encode([text for some in chosen for text in some])
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = (vectors / np.maximum(lengths, 1e-12)).reshape(len(chosen), SENTENCES, vectors.shape[1])
    left, right = np.array(list(combinations(range(SENTENCES), 2))).T
    pairs = (np.einsum("npd,npd->np", vectors[:, left], vectors[:, right]) >= threshold).sum(axis=1)
    shares = np.bincount(pairs, minlength=len(left) + 1) / max(len(pairs), 1)
    by_pairs = [round(100 * float(share), 2) for share in shares]
    return {"images": len(pairs), "threshold": threshold, "by_pairs": by_pairs}
