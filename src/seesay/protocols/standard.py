"""Retrieval in a whole split: the standard protocol in both directions, its variants, and that of sentences.

The variants are COCO's of 1,000 and 5,000 images, and the one that credits every image with a shared text.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seesay.arrays import as_array, refuse_nan
from seesay.data.summary import shared_sentences
from seesay.errors import SeesayError
from seesay.metrics.bootstrap import RankSample, RetrievalSample
from seesay.metrics.ranks import NO_ANSWER, owners_of, shared_ranks
from seesay.metrics.recall import METRICS
from seesay.protocols.base import Options, Protocol, Result, register_protocol
from seesay.protocols.subject import Subject

_ATTAINABLE = 90.0  # percent; a lower highest R@1 is noted
_CELLS = 1 << 22  # scores of sentences held at a time; 16 MiB of float32
BOTH_WAYS = (*(f"{way} {name}" for way in "SI" for name in METRICS), "mR")


@register_protocol
class Standard(Protocol[Subject]):
    """Every image and every sentence is a query, and the whole split the gallery.

    With `fold`, sequential folds of that many images are measured separately, and the metrics averaged.
    """

    name = "standard"
    metrics = BOTH_WAYS
    fold: int | None = None

    def measure(self, subject: Subject, options: Options) -> Result:
        """Measure R@1, R@5, R@10 and Med r in both directions, and mR."""
        n = subject.n_images
        owners = owners_of(subject.owners, n, len(subject.owners))
        if self.images is not None and n != self.images:
            raise SeesayError(
                f"protocol '{self.name}' is for {self.images} images; split '{subject.split}' has {n} images "
                "with scores."
            )
        size = self.fold or n
        folds = []
        for start in range(0, n, size):
            chosen = np.flatnonzero((owners >= start) & (owners < start + size))
            # A slice copies nothing.
            together = chosen.size and chosen[-1] - chosen[0] + 1 == chosen.size
            sentences = slice(int(chosen[0]), int(chosen[-1]) + 1) if together else chosen
            own = owners[sentences] - start
            folds.append(subject.retrieval_sample(slice(start, start + size), sentences, own))
        without = n - len(np.unique(owners))
        notes = [f"{without} images without sentences are candidates only."] if without else []
        shared = shared_sentences(subject.corpus)
        if shared is not None and min(shared["i2t"], shared["t2i"]) < _ATTAINABLE:
            notes.append(
                f"{shared['sentences']} sentences are those of several images, so R@1 is at most "
                f"{shared['i2t']:.1f} for sentences and {shared['t2i']:.1f} for images; protocol "
                f"{SharedSentences.name} credits each of these images."
            )
        about = {"images": n, "sentences": len(owners)}
        return self.result(subject, options, [("", folds)], about, notes=notes)


@register_protocol
class SharedSentences(Protocol[Subject]):
    """The standard protocol, but a sentence is right for every image that carries the same text.

    It is for corpora with many equal texts, such as products named alike, where even a perfect matcher cannot
    tell whose sentence is asked for. No paper measures it.
    """

    name = "shared-sentences"
    metrics = BOTH_WAYS

    def measure(self, subject: Subject, options: Options) -> Result:
        """Measure R@1, R@5, R@10 and Med r in both directions, and mR."""
        texts, owners = subject.corpus.text_numbers(), subject.owners
        sample = RetrievalSample(shared_ranks(*subject.scores.by_direction(), owners, texts), owners)
        shared = shared_sentences(subject.corpus)
        about = {"images": subject.n_images, "sentences": len(owners)}
        about["shared sentences"] = int(shared["sentences"]) if shared else 0
        note = f"Right for several images, which carry the same text: {about['shared sentences']} sentences."
        return self.result(subject, options, [("", [sample])], about, notes=[note])


@register_protocol
class Coco1K(Standard):
    """COCO's test split: the mean of five sequential folds of 1,000 images."""

    name = "coco-1k"
    images = 5000
    fold = 1000


@register_protocol
class Coco5K(Standard):
    """COCO's whole test split, 5,000 images."""

    name = "coco-5k"
    images = 5000


@register_protocol
class SentenceToSentence(Protocol[Subject]):
    """Every sentence is a query for the other sentences of its image, ranked by inner product.

    Table 4 of the two-branch paper (Wang, Li, Huang, Lazebnik 2019) is measured so.
    """

    name = "sentence-to-sentence"
    monitor = "R@1"
    metrics = METRICS

    def measure(self, subject: Subject, options: Options) -> Result:
        """Measure R@1, R@5, R@10 and Med r."""
        ranks = sentence_ranks(subject.sentence_vectors(), subject.owners)
        queries = int((ranks != NO_ANSWER).sum())
        if not queries:
            raise SeesayError(
                f"protocol '{self.name}': no image has two sentences, so no query has an answer."
            )
        samples = [("", [RankSample(ranks, subject.owners)])]
        return self.result(subject, options, samples, {"sentences": len(ranks), "queries": queries})


def sentence_ranks(vectors: ArrayLike, image_of_sentence: ArrayLike) -> NDArray[np.int64]:
    """Rank, for each sentence, the best other one of its image, (m,); NO_ANSWER without one.

    The query itself is not a candidate (in the authors' code it is the first, and the top 2, 6 and 11
    count). Ties count against the query.

    Args:
        vectors: (m, d), of unit length for cosines; reduced precisions are multiplied in float32.
        image_of_sentence: (m,), for each sentence the number of its image, from 0.

    >>> sentence_ranks([[1, 0], [0, 1], [0.8, 0.6], [0.6, 0.8]], [0, 0, 1, 1]).tolist()
    [2, 2, 0, 0]
    """
    rows = as_array(vectors, "vectors", "m", "d")
    owners = np.asarray(image_of_sentence)
    owners = owners_of(owners, int(owners.max(initial=0)) + 1, len(rows))
    ranks = np.empty(len(rows), np.int64)
    rows = rows.astype(np.result_type(rows, np.float32), copy=False)
    step = max(1, _CELLS // len(rows))
    for start in range(0, len(rows), step):
        with np.errstate(invalid="ignore", over="ignore"):  # a NaN is reported with its place
            scores = rows[start : start + step] @ rows.T
        refuse_nan(scores, "sentence scores", start)
        queries = np.arange(start, start + len(scores))
        own = owners[queries, None] == owners
        others = own.copy()
        others[np.arange(len(queries)), queries] = False
        best = np.max(scores, axis=1, where=others, initial=-np.inf)
        before = np.count_nonzero((scores >= best[:, None]) & ~own, axis=1)
        ranks[queries] = np.where(others.any(axis=1), before, NO_ANSWER)
    return ranks
