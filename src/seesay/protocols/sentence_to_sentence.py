"""Retrieval of sentences by a sentence: Table 4 of the two-branch paper (Wang, Li, Huang, Lazebnik 2019).

Two sentences belong together if they describe one image.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seesay.errors import SeesayError
from seesay.metrics import NO_ANSWER
from seesay.metrics.bootstrap import RankSample
from seesay.metrics.inputs import as_array, refuse_nan
from seesay.metrics.ranks import owners_of
from seesay.metrics.recall import METRICS
from seesay.protocols.base import Options, Protocol, Result, register_protocol
from seesay.protocols.subject import Subject

_CELLS = 1 << 22  # scores held at a time; 16 MiB of float32


@register_protocol
class SentenceToSentence(Protocol[Subject]):
    """Every sentence is a query for the other sentences of its image, ranked by inner product."""

    name = "sentence-to-sentence"
    summary = "every sentence is a query for the other sentences of its image"
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
