"""A scored split, and the protocols that need no more than its scores: of a run, of files, of an ensemble."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seesay.data.corpus import Corpus
from seesay.errors import SeesayError
from seesay.metrics.bootstrap import Answers
from seesay.metrics.ranks import owners_of
from seesay.protocols.k_shot import K_SHOT, SHOT, k_shot, one_shot
from seesay.protocols.people import NOBODY, RELEVANCE, People, measure_relevance
from seesay.protocols.retrieval import PROTOCOLS, answers_of_folds, protocol_named, summary_of_folds
from seesay.protocols.sentence_to_sentence import PROTOCOL, sentence_to_sentence
from seesay.runs.split_scores import EmbeddingScores, SplitScores


@dataclass(frozen=True)
class Scored:
    """A split with its scores.

    Attributes:
        name: of the run, the file or the ensemble.
        split: the split's name.
        corpus: its images and sentences that have scores, in the scores' order.
        scores: of all its images and sentences.
        about: what else there is to say of it, for the row: weights, cut sentences, `notes`.
    """

    name: str
    split: str
    corpus: Corpus
    scores: SplitScores
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def owners(self) -> NDArray[np.int64]:
        """For each sentence the row of its image, (m,)."""
        return self.corpus.image_of_sentence()


def answers(scored: Scored, protocol: str) -> list[Answers]:
    """The ranks of each fold of a protocol of PROTOCOLS."""
    n, texts = len(scored.corpus.images), scored.corpus.sentences
    owners = owners_of(scored.owners, n, len(texts))
    return answers_of_folds(scored.scores.ranks, owners, n, protocol_named(protocol), scored.split)


def measure_scored(
    scored: Scored,
    protocol: str,
    train_texts: Callable[[], Sequence[str]],
    resamples: int = 0,
    people: People = NOBODY,
) -> dict[str, Any]:
    """A scored split by a protocol, as `seesay evaluate --json` prints it.

    Args:
        scored: what is measured.
        protocol: one that needs scores alone, or the vectors behind them.
        train_texts: gives the sentences that the K-shot protocols count words in.
        resamples: of the bootstrap intervals; without them there are none.
        people: what they said, for the protocols that compare with it.

    Raises:
        SeesayError: the protocol needs more than there is, see also there.
    """
    split, scores = scored.split, scored.scores
    if protocol in PROTOCOLS:
        folds = answers(scored, protocol)
        return summary_of_folds(folds, protocol_named(protocol), split, resamples) | scored.about
    if protocol == K_SHOT:
        return k_shot(scores.ranks, scored.corpus, train_texts(), split, resamples) | scored.about
    if protocol in SHOT:
        found = one_shot(scores.ranks, scored.corpus, train_texts(), split, SHOT[protocol], resamples)
        return found | scored.about
    if protocol == PROTOCOL:
        if not isinstance(scores, EmbeddingScores):
            raise SeesayError(f"{scored.name}: protocol '{PROTOCOL}' compares vectors; it has scores alone.")
        found = sentence_to_sentence(scores.sentences, scored.owners, resamples)
        return found | {"split": split} | scored.about
    if protocol in RELEVANCE:
        found = measure_relevance(scores, scored.corpus, split, protocol, people, resamples)
        return found | scored.about
    raise SeesayError(f"{scored.name}: protocol '{protocol}' needs one run, not scores.")
