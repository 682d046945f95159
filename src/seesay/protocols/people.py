"""Protocols beyond finding the one right answer: what people said, what is relevant, what looks alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seesay.data.corpus import Corpus
from seesay.data.judgements import Judgements, read_answers, read_judgements
from seesay.errors import SeesayError
from seesay.protocols.agreement import AGREEMENT, measure_agreement
from seesay.protocols.graded import GRADED, measure_graded
from seesay.protocols.image_to_image import IMAGE_TO_IMAGE, image_to_image
from seesay.runs.pair_scores import pairs_of_scores
from seesay.runs.split_scores import EmbeddingScores, SplitScores

RELEVANCE = (AGREEMENT, GRADED, IMAGE_TO_IMAGE)


@dataclass(frozen=True)
class People:
    """What people said, from the files that a protocol takes: judgements of pairs, or right answers."""

    judgements: Judgements | None = None
    answers: Mapping[str, Sequence[str]] | None = None


NOBODY = People()


def read_people(protocol: str, judgements: Path | None = None, answers: Path | None = None) -> People:
    """The files that a protocol takes.

    Raises:
        SeesayError: one is missing, is another protocol's, or cannot be read.
    """
    for option, path, taker in (("--judgements", judgements, AGREEMENT), ("--answers", answers, GRADED)):
        if path is not None and protocol != taker:
            raise SeesayError(f"{option} is for protocol '{taker}', not '{protocol}'.")
    people = People(
        read_judgements(judgements) if judgements else None, read_answers(answers) if answers else None
    )
    if protocol == AGREEMENT:
        judged_by(people)
    return people


def judged_by(people: People) -> Judgements:
    """The judgements that agreement is measured with.

    Raises:
        SeesayError: none were given.
    """
    if people.judgements is None:
        raise SeesayError(
            f"protocol '{AGREEMENT}': name people's judgements with --judgements FILE, such as Flickr8k's "
            "ExpertAnnotations.txt or CrowdFlowerAnnotations.txt."
        )
    return people.judgements


def measure_relevance(
    scores: SplitScores,
    corpus: Corpus,
    split: str,
    protocol: str,
    people: People = NOBODY,
    resamples: int = 0,
) -> dict[str, Any]:
    """The scores of a split by a protocol of RELEVANCE.

    Raises:
        SeesayError: scores alone, where vectors are compared; see also the protocols.
    """
    if protocol == AGREEMENT:
        return measure_agreement(pairs_of_scores(scores), corpus, judged_by(people), split, resamples)
    if protocol == GRADED:
        return measure_graded(scores, corpus, split, people.answers, resamples)
    if not isinstance(scores, EmbeddingScores):
        raise SeesayError(f"protocol '{IMAGE_TO_IMAGE}' compares image vectors; there are scores alone.")
    return image_to_image(scores.images, corpus, split, scores.asking_images, resamples)
