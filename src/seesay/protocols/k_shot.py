"""K-shot matching: recalls of the images and sentences with a word that is rare in training.

Huang, Long and Wang (AAAI 2019) call a test word uncommon if it occurs at most K times in the training
sentences. Their K-shot test set is the sentences with such a word, and the images of these; N is the number
of uncommon words.

These are the queries, and the whole split is the gallery. The paper only says that part of the test set is
selected, but its numbers allow no other reading: VSE++, mR 54.6 at K = 0 on COCO, has 58.9 among all 5,000
images and 79.4 among 1,000, and the images with one of 516 words are fewer still. The recalls with the
selected images and sentences as the gallery are reported as `alone`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from seesay.arrays import Mask
from seesay.errors import SeesayError
from seesay.metrics.bootstrap import RetrievalSample
from seesay.metrics.precision import auc
from seesay.metrics.ranks import NO_ANSWER, Ranks
from seesay.protocols.base import (
    PROTOCOLS,
    Metrics,
    Options,
    Protocol,
    Result,
    Value,
    of_part,
    register_protocol,
    rounded_metrics,
)
from seesay.protocols.standard import BOTH_WAYS
from seesay.protocols.subject import RunSubject, Subject
from seesay.text.vocabulary import NO_WORDS, SHOTS, figure_1, rarest_words, uncommon_words, word_counts

# How often a sentence's rarest word occurs in training; a sentence without words is in no band.
BANDS = {
    "0": (0, 0),
    "1": (1, 1),
    "2-3": (2, 3),
    "4-9": (4, 9),
    "10-99": (10, 99),
    "100+": (100, NO_WORDS - 1),
}

FREQUENCY = "frequency"  # the prefix of the bands' names in results


@register_protocol
class KShot(Protocol[Subject]):
    """The K-shot test sets of K = 0 to 3, and the recalls by the frequency of the rarest word.

    For a gated fusion, also the AUC of its gate's t in separating images and sentences of K = 3 from others.
    """

    name = "k-shot"
    summary = "recalls of images and sentences with words that are rare in training"
    monitor = "0-shot: mR"
    columns = tuple(f"{k}-shot: mR" for k in SHOTS)
    options = ("at",)

    def measure(self, subject: Subject, options: Options) -> Result:
        """Measure every K and every band."""
        rare, found = RareWords.from_subject(subject), subject.retrieval_sample(at=options.at)
        samples: list[tuple[str, list[RetrievalSample]]] = []
        further: dict[str, Value] = {}
        for k in SHOTS:
            counts, of_k = few_shot(subject, found, rare, k)
            samples += [(f"{k}-shot", [sample]) for sample in of_k[:1]]
            further |= of_part(f"{k}-shot", counts)
            further |= _recalls(of_k[1:], f"{k}-shot alone")
        for band, ends in BANDS.items():
            chosen = rare.between(*ends)
            counts = {"images": int(chosen[0].sum()), "sentences": int(chosen[1].sum())}
            further |= of_part(f"{FREQUENCY} {band}", counts)
            further |= _recalls(chosen_sample(found, *chosen), f"{FREQUENCY} {band}")
        words = figure_1(rare.texts, rare.counts)
        gates = _gate_auc(subject, *rare.between(0, max(SHOTS)))
        about: dict[str, JsonValue] = {"images": len(rare.of_image), "sentences": len(rare.rarest)}
        about["words"] = {**words}
        if gates:
            about["gate AUC"] = {**gates}
        return self.result(subject, options, samples, about, further, self._notes(words, gates))

    def _notes(self, words: Mapping[str, float], gates: Mapping[str, float | None]) -> list[str]:
        notes = [
            "N: words of the split that occur at most K times in training. Queries are the sentences with "
            "one and their images, candidates the whole split; alone: these sentences and images.",
            f"{FREQUENCY.capitalize()}: by how often a sentence's rarest word occurs in training.",
            f"Of the split's {words['words']} words {words['below 10']:.1f} % occur less than ten times in "
            f"training, {words['at most 1']:.1f} % at most once.",
        ]
        if gates:
            areas = (f"{name}s {'–' if value is None else f'{value:.3f}'}" for name, value in gates.items())
            notes.append(f"AUC of the gate for telling those of K = 3 from the others: {', '.join(areas)}.")
        return notes


class OneShot(Protocol[Subject]):
    """One K of `KShot`: a row of the paper's Table 2."""

    metrics = BOTH_WAYS
    options = ("at",)

    def __init__(self, k: int) -> None:
        self.k = k
        self.name = f"{k}-shot"  # type: ignore[misc]
        self.summary = f"recalls of queries with words seen at most {k} times"  # type: ignore[misc]

    def measure(self, subject: Subject, options: Options) -> Result:
        """Measure this K."""
        rare, found = RareWords.from_subject(subject), subject.retrieval_sample(at=options.at)
        about, samples = few_shot(subject, found, rare, self.k)
        if not about["N"]:
            often = f"training has every word of split '{subject.split}' more than {self.k} times"
            raise SeesayError(f"protocol '{self.name}': {often}.")
        return self.result(subject, options, [("", samples[:1])], {**about}, _recalls(samples[1:], "alone"))


for _k in SHOTS:
    PROTOCOLS.register(f"{_k}-shot")(OneShot(_k))


@dataclass(frozen=True)
class RareWords:
    """The m texts of a split and the training count of each word.

    `rarest` is the count of the rarest word of each sentence, (m,), and `of_image` that of each image, (n,).
    """

    texts: Sequence[str]
    counts: Mapping[str, int]
    rarest: NDArray[np.int64]
    of_image: NDArray[np.int64]

    @classmethod
    def from_subject(cls, subject: Subject) -> RareWords:
        """Count the words of a split in its corpus's train split."""
        texts, counts = subject.corpus.texts(), word_counts(subject.train_texts())
        rarest = rarest_words(texts, counts)
        of_image = np.full(subject.n_images, NO_WORDS)
        np.minimum.at(of_image, subject.owners, rarest)
        return cls(texts, counts, rarest, of_image)

    def between(self, low: int, high: int) -> tuple[Mask, Mask]:
        """Return masks of the images (n,) and sentences (m,) whose rarest word occurs low to high times."""
        return (low <= self.of_image) & (self.of_image <= high), (low <= self.rarest) & (self.rarest <= high)


def few_shot(
    subject: Subject, found: RetrievalSample, rare: RareWords, k: int
) -> tuple[dict[str, int], list[RetrievalSample]]:
    """Count the uncommon words and the queries of one K, and return the samples of the queries.

    The first sample has the split as the gallery, the second only the queries; without queries there is none.
    """
    images, sentences = rare.between(0, k)
    about = {
        "N": len(uncommon_words(rare.texts, rare.counts, k)),
        "images": int(images.sum()),
        "sentences": int(sentences.sum()),
    }
    samples = chosen_sample(found, images, sentences)
    if samples:
        texts = np.flatnonzero(sentences)
        owners, own = np.unique(subject.owners[texts], return_inverse=True)
        samples.append(subject.retrieval_sample(owners, texts, own, found.at))
    return about, samples


def chosen_sample(found: RetrievalSample, images: Mask, sentences: Mask) -> list[RetrievalSample]:
    """Return a list with the sample of the chosen queries on the split; empty without images or sentences."""
    if not (images.any() and sentences.any()):
        return []
    ranks = found.ranks
    chosen = np.where(images, ranks.sentence, NO_ANSWER), np.where(sentences, ranks.image, NO_ANSWER)
    return [RetrievalSample(Ranks(*chosen), found.owners, found.at)]


def _recalls(samples: Sequence[RetrievalSample], part: str) -> Metrics:
    return rounded_metrics(samples, part) if samples else {}


def _gate_auc(subject: Subject, images: Mask, sentences: Mask) -> dict[str, float | None]:
    """Compute how well a fusion's gates separate the chosen queries (AUC); empty for other matchers."""
    if not isinstance(subject, RunSubject) or not subject.run.asymmetric:
        return {}
    from seesay.runs.predictions import gate_values

    if (values := gate_values(subject.run, subject.inputs)) is None:
        return {}
    of_images, of_sentences = values
    found = {"image": auc(of_images, images), "sentence": auc(of_sentences, sentences)}
    return {name: None if area is None else round(area, 4) for name, area in found.items()}
