"""K-shot matching: recalls of the images and sentences with a word that is rare in training.

Huang, Long and Wang (AAAI 2019) call a test word uncommon if it occurs at most K times in the training
sentences. Their K-shot test set is the sentences with such a word, and the images of these; N is the number
of uncommon words.

These are the queries, and the whole split is the gallery. The paper says only that part of the test set is
selected, but its numbers leave no other reading: VSE++, mR 54.6 at K = 0 on COCO, has 58.9 among all 5,000
images and 79.4 among 1,000, and the images with one of 516 words are fewer still. The recalls with the
selected images and sentences as the gallery are reported as `alone`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from seesay.errors import SeesayError
from seesay.metrics.bootstrap import Keys, RetrievalSample
from seesay.metrics.precision import auc
from seesay.metrics.ranks import NO_ANSWER, Ranks
from seesay.metrics.recall import METRICS
from seesay.protocols.base import (
    PROTOCOLS,
    Cell,
    Details,
    Direction,
    Options,
    Percent,
    PlainTable,
    Protocol,
    Result,
    ResultPart,
    RetrievalResult,
    register_protocol,
    rounded_metrics,
)
from seesay.protocols.subject import RunSubject, Subject
from seesay.text.vocabulary import NO_WORDS, SHOTS, figure_1, rarest_words, uncommon_words, word_counts

# By how often a sentence's rarest word occurs in training; a sentence without words is of none.
BANDS = {
    "0": (0, 0),
    "1": (1, 1),
    "2-3": (2, 3),
    "4-9": (4, 9),
    "10-99": (10, 99),
    "100+": (100, NO_WORDS - 1),
}

Mask = NDArray[np.bool_]


class ChosenQueries(ResultPart):
    """The recalls of some of a split's queries; None unless both images and sentences are among them."""

    images: int = Field(ge=0)
    sentences: int = Field(ge=0)
    sentence_retrieval: Direction | None = None
    image_retrieval: Direction | None = None
    mean_recall: Percent | None = Field(None, alias="mR")

    def cells(self) -> list[Cell]:
        """The row of a table: the counts, the recalls of both directions and mR."""
        ways = (self.sentence_retrieval, self.image_retrieval)
        found = [value for way in ways for value in ((way.r1, way.r5, way.r10) if way else [None] * 3)]
        return [str(self.sentences), str(self.images), *found, self.mean_recall]


class FewShot(ChosenQueries):
    """The test set of one K, with N uncommon words; `alone` if it is the gallery too."""

    n: int = Field(alias="N", ge=0)
    alone: ChosenQueries | None = None


class KShotResult(Result):
    """The K-shot test sets, and the recalls by the frequency of the rarest word.

    Attributes:
        words: see `figure_1`.
        by_k: by K = 0 to 3.
        by_frequency: by band of BANDS, sentences and images by their rarest word.
        gate_auc: of a gated fusion: the AUC of its t for the images and sentences of K = 3.
    """

    images: int = Field(gt=0)
    sentences: int = Field(gt=0)
    words: dict[str, float]
    by_k: dict[str, FewShot] = Field(alias="by K", min_length=1)
    by_frequency: dict[str, ChosenQueries] = Field(alias="by frequency")
    gate_auc: dict[str, float | None] | None = Field(None, alias="gate AUC")

    def metric_keys(self) -> dict[str, Keys]:
        """See `Result`."""
        return {f"{k}-shot mR": ("by K", k, "mR") for k in self.by_k}

    def details(self) -> Details:
        """See `Result`."""
        words = self.words
        notes = [
            "N: words of the split that occur at most K times in training. Queries are the sentences with "
            "one and their images, candidates the whole split. S: sentence retrieval, I: image retrieval.",
            f"Of the split's {words['words']} words {words['below 10']:.1f} % occur less than ten times in "
            f"training, {words['at most 1']:.1f} % at most once.",
        ]
        if self.gate_auc:
            areas = (f"{n}s {'–' if v is None else f'{v:.3f}'}" for n, v in self.gate_auc.items())
            notes.append(f"AUC of the gate for telling those of K = 3 from the others: {', '.join(areas)}.")
        by_k = [[f"K = {k}", str(row.n), *row.cells()] for k, row in self.by_k.items()]
        by_band = [[band, *row.cells()] for band, row in self.by_frequency.items()]
        recalls = [f"{way} {name}" for way in "SI" for name in METRICS[:3]]
        columns = ["sentences", "images", *recalls, "mR"]
        title = "By the frequency in training of a sentence's rarest word"
        tables = [
            PlainTable(["", "N", *columns], by_k),
            PlainTable(["frequency", *columns], by_band, title),
        ]
        return Details(tables=tables, notes=notes)


class OneShotResult(RetrievalResult):
    """One K-shot test set; its images and sentences are the queries."""

    n: int = Field(alias="N", ge=0)
    alone: ChosenQueries | None = None


@register_protocol
class KShot(Protocol):
    """The K-shot test sets of K = 0 to 3, and the recalls by the frequency of the rarest word."""

    name = "k-shot"
    summary = "recalls of images and sentences with words that are rare in training"
    result_type = KShotResult
    options = ("at",)

    def measure(self, subject: Subject, options: Options) -> Result:
        """Measure every K and every band."""
        rare, found = RareWords.from_subject(subject), subject.retrieval_sample(at=options.at)
        by_k: dict[str, FewShot] = {}
        samples: list[tuple[Keys, list[RetrievalSample]]] = []
        for k in SHOTS:
            by_k[str(k)], folds = few_shot(subject, found, rare, k)
            samples += [(("by K", str(k)), folds)] if folds else []
        return self.result(
            subject,
            options,
            samples,
            images=len(rare.of_image),
            sentences=len(rare.rarest),
            words=figure_1(rare.texts, rare.counts),
            by_k=by_k,
            by_frequency={band: recalls(found, *rare.between(*ends)) for band, ends in BANDS.items()},
            **_gate_auc(subject, *rare.between(0, max(SHOTS))),
        )


class OneShot(Protocol):
    """One K of `KShot`: a row of the paper's Table 2."""

    result_type = OneShotResult
    options = ("at",)

    def __init__(self, k: int) -> None:
        self.k = k
        self.name = f"{k}-shot"  # type: ignore[misc]
        self.summary = f"recalls of queries with words seen at most {k} times"  # type: ignore[misc]

    def measure(self, subject: Subject, options: Options) -> Result:
        """Measure this K."""
        rare, found = RareWords.from_subject(subject), subject.retrieval_sample(at=options.at)
        measured, folds = few_shot(subject, found, rare, self.k)
        if not measured.n:
            often = f"training has every word of split '{subject.split}' more than {self.k} times"
            raise SeesayError(f"protocol '{self.name}': {often}.")
        values = measured.model_dump(by_alias=True, exclude_unset=True)
        return self.result(subject, options, [((), folds)] if folds else [], **values)


for _k in SHOTS:
    PROTOCOLS.register(f"{_k}-shot")(OneShot(_k))


@dataclass(frozen=True)
class RareWords:
    """The m texts of a split and the training count of each word.

    `rarest` is the count of the rarest word of each sentence, (m,), and `of_image` of each image, (n,).
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
        """Find the images (n,) and sentences (m,) whose rarest word occurs low to high times."""
        return (low <= self.of_image) & (self.of_image <= high), (low <= self.rarest) & (self.rarest <= high)


def few_shot(
    subject: Subject, found: RetrievalSample, rare: RareWords, k: int
) -> tuple[FewShot, list[RetrievalSample]]:
    """Measure one K; also return the sample of its queries, if there are any."""
    images, sentences = rare.between(0, k)
    values: dict[str, object] = {"N": len(uncommon_words(rare.texts, rare.counts, k))}
    values |= recalls(found, images, sentences).model_dump(by_alias=True, exclude_unset=True)
    if sentences.any():
        texts = np.flatnonzero(sentences)
        owners, own = np.unique(subject.owners[texts], return_inverse=True)
        among = subject.retrieval_sample(owners, texts, own, found.at)
        values["alone"] = recalls(among, np.ones(len(owners), bool), np.ones(len(texts), bool))
    sample = chosen_sample(found, images, sentences)
    return FewShot.model_validate(values), [sample] if sample else []


def recalls(found: RetrievalSample, images: Mask, sentences: Mask) -> ChosenQueries:
    """Measure the chosen queries of a split against the whole split."""
    values: dict[str, object] = {"images": int(images.sum()), "sentences": int(sentences.sum())}
    if sample := chosen_sample(found, images, sentences):
        values |= rounded_metrics([sample])
    return ChosenQueries.model_validate(values)


def chosen_sample(found: RetrievalSample, images: Mask, sentences: Mask) -> RetrievalSample | None:
    """Return the sample of the chosen queries; None without images or without sentences."""
    if not (images.any() and sentences.any()):
        return None
    ranks = found.ranks
    chosen = np.where(images, ranks.sentence, NO_ANSWER), np.where(sentences, ranks.image, NO_ANSWER)
    return RetrievalSample(Ranks(*chosen), found.owners, found.at)


def _gate_auc(subject: Subject, images: Mask, sentences: Mask) -> dict[str, object]:
    """Compute the AUC of the gates of a fusion for the chosen queries; nothing for other matchers."""
    if not isinstance(subject, RunSubject) or not subject.run.asymmetric:
        return {}
    from seesay.runs.predictions import gate_values

    if (values := gate_values(subject.run, subject.inputs)) is None:
        return {}
    of_images, of_sentences = values
    found = {"image": auc(of_images, images), "sentence": auc(of_sentences, sentences)}
    return {"gate_auc": {name: None if area is None else round(area, 4) for name, area in found.items()}}
