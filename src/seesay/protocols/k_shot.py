"""K-shot matching: recalls of the images and sentences with a word that is rare in training.

Huang, Long and Wang (AAAI 2019) call a test word uncommon if it occurs at most K times in the training
sentences. Their K-shot test set is the sentences with such a word, and the images of these; N is the number
of uncommon words.

These are the queries, and the whole split is the gallery. The paper only says that part of the test set is
selected, but its numbers allow no other reading: VSE++, mR 54.6 at K = 0 on COCO, has 58.9 among all 5,000
images and 79.4 among 1,000, and the images with one of 516 words are fewer still.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from seesay.errors import SeesayError
from seesay.metrics.bootstrap import RetrievalSample
from seesay.metrics.ranks import NO_ANSWER, Ranks
from seesay.protocols.base import PROTOCOLS, Options, Protocol, Result, Value, of_part, register_protocol
from seesay.protocols.standard import BOTH_WAYS
from seesay.protocols.subject import Subject
from seesay.text.vocabulary import SHOTS, rarest_words, uncommon_words, word_counts

_NOTE = (
    "N: words of the split that occur at most K times in training. Queries are the sentences with one and "
    "their images, candidates the whole split."
)


@register_protocol
class KShot(Protocol[Subject]):
    """The K-shot test sets of K = 0 to 3."""

    name = "k-shot"
    monitor = "0-shot: mR"
    columns = tuple(f"{k}-shot: mR" for k in SHOTS)

    def measure(self, subject: Subject, options: Options) -> Result:
        """Measure every K."""
        found, known = subject.retrieval_sample(), word_counts(subject.train_texts())
        samples: list[tuple[str, list[RetrievalSample]]] = []
        further: dict[str, Value] = {}
        for k in SHOTS:
            counts, sample = few_shot(subject, found, known, k)
            samples += [(f"{k}-shot", [sample])] if sample is not None else []
            further |= of_part(f"{k}-shot", counts)
        about = {"images": subject.n_images, "sentences": len(subject.owners)}
        return self.result(subject, options, samples, about, further, [_NOTE])


class OneShot(Protocol[Subject]):
    """One K of `KShot`: a row of the paper's Table 2."""

    metrics = BOTH_WAYS

    def __init__(self, k: int) -> None:
        self.k = k
        self.name = f"{k}-shot"  # type: ignore[misc]

    def measure(self, subject: Subject, options: Options) -> Result:
        """Measure this K."""
        found, known = subject.retrieval_sample(), word_counts(subject.train_texts())
        about, sample = few_shot(subject, found, known, self.k)
        if sample is None:
            often = f"training has every word of split '{subject.split}' more than {self.k} times"
            raise SeesayError(f"protocol '{self.name}': {often}.")
        return self.result(subject, options, [("", [sample])], {**about})


for _k in SHOTS:
    PROTOCOLS.register(f"{_k}-shot")(OneShot(_k))


def few_shot(
    subject: Subject, found: RetrievalSample, known: Mapping[str, int], k: int
) -> tuple[dict[str, int], RetrievalSample | None]:
    """Count the uncommon words and the queries of one K, and choose the queries' sample from the split's.

    `known` are the counts of the words in training; without queries, there is no sample.
    """
    texts = subject.corpus.texts()
    sentences = rarest_words(texts, known) <= k
    images = np.bincount(subject.owners, sentences, subject.n_images) > 0
    about = {
        "N": len(uncommon_words(texts, known, k)),
        "images": int(images.sum()),
        "sentences": int(sentences.sum()),
    }
    if not sentences.any():
        return about, None
    ranks = found.ranks
    chosen = np.where(images, ranks.sentence, NO_ANSWER), np.where(sentences, ranks.image, NO_ANSWER)
    return about, RetrievalSample(Ranks(*chosen), found.owners)
