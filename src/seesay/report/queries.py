"""Queries and their results: random ones, and the hardest of each run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seesay.data.corpus import Corpus
from seesay.report.page import Page, Pictures
from seesay.report.retrieval import Measured
from seesay.results.html import Html, joined, tag

SEED = 0
_SAMPLED = 6  # queries of each direction
_SHOWN = 3  # candidates of a query
_HARDEST = 4
_TICK = tag("span", "✓", class_="tick", role="img", aria_label="right")


@dataclass(frozen=True, slots=True)
class RankedAnswer:
    """The answer to one query."""

    rank: int | None  # of the first right answer, from 1; None if there is none
    best: tuple[int, ...]  # the best candidates
    right: tuple[bool, ...]  # whether each of them is a right answer


@dataclass(frozen=True)
class Answers:
    """The answers of one run to the queries that a report shows: images and sentences, by number."""

    name: str
    to_images: dict[int, RankedAnswer]
    to_sentences: dict[int, RankedAnswer]
    hardest_images: Sequence[int]
    hardest_sentences: Sequence[int]


def sample(corpus: Corpus, count: int = _SAMPLED) -> tuple[list[int], list[int]]:
    """Draw images that have sentences, and sentences; the same ones for the same corpus."""
    draw = np.random.default_rng(SEED)
    described = np.unique(corpus.image_of_sentence())
    images = draw.choice(described, min(count, len(described)), replace=False)
    sentences = draw.choice(len(corpus.sentences), min(count, len(corpus.sentences)), replace=False)
    return images.tolist(), sentences.tolist()


def answer_queries(measured: Measured, images: Sequence[int], sentences: Sequence[int]) -> Answers:
    """Return a run's answers to those queries, and to its own hardest ones."""
    ranks, owners = measured.ranks, measured.subject.owners
    worst = hardest(ranks.sentence), hardest(ranks.image)
    by_image, by_sentence = measured.subject.scores.by_direction()
    numbers = np.arange(len(ranks.sentence))
    return Answers(
        measured.name,
        {i: best_answers(by_image[i], owners == i) for i in dict.fromkeys([*images, *worst[0]])},
        {
            j: best_answers(by_sentence[:, j], numbers == owners[j])
            for j in dict.fromkeys([*sentences, *worst[1]])
        },
        *worst,
    )


def best_answers(scores: NDArray[Any], right: NDArray[np.bool_]) -> RankedAnswer:
    """Return the answer to a query, from the scores (n,) of its candidates; ties count against the query."""
    order = np.lexsort((right, -np.asarray(scores, np.float64)))
    first = order[:_SHOWN]
    rank = int(np.argmax(right[order])) + 1 if right.any() else None
    return RankedAnswer(rank, tuple(first.tolist()), tuple(right[first].tolist()))


def hardest(ranks: NDArray[np.int64]) -> list[int]:
    """Return the queries with the worst ranks, the worst first; negative ranks are not queries."""
    order = np.argsort(-ranks, kind="stable")[:_HARDEST]
    return [int(query) for query in order if ranks[query] >= 0]


@dataclass(frozen=True)
class SplitGallery:
    """The images and sentences of a split, to show queries and answers."""

    corpus: Corpus
    pictures: Pictures

    def add_sample(self, page: Page, answers: Sequence[Answers]) -> None:
        """Add the answers of every run to the queries that `sample` draws."""
        images, sentences = sample(self.corpus)
        page.section("Queries and answers")
        page.text(
            f"Random queries (seed {SEED}), the same for every run. Correct results are framed and "
            "ticked. The rank is that of the correct result; for an image, that of its best sentence."
        )
        of_sentences = {j: [self.images(a.to_sentences[j], a.name) for a in answers] for j in sentences}
        of_images = {i: [self.sentences(a.to_images[i], a.name) for a in answers] for i in images}
        page.figure(
            "Sentences as queries, with the images they describe, and the first three images.",
            *(query_with_answers(self._sentence(j), found) for j, found in of_sentences.items()),
        )
        page.figure(
            "Images as queries, and the first three sentences.",
            *(query_with_answers(self.pictures.show(i), found) for i, found in of_images.items()),
        )

    def add_hardest(self, page: Page, answers: Answers) -> None:
        """Add the queries that a run answers worst."""
        to = answers.to_sentences
        page.figure(
            f"The sentences whose image {answers.name} ranks worst, with that image.",
            *(query_with_answers(self._sentence(j), [self.images(to[j])]) for j in answers.hardest_sentences),
        )
        page.figure(
            f"The images whose best sentence {answers.name} ranks worst, with their first sentence.",
            *(
                query_with_answers(self._image(i), [self.sentences(answers.to_images[i])])
                for i in answers.hardest_images
            ),
        )

    def images(self, answer: RankedAnswer, name: str = "") -> Html:
        """Return the best images of a query with its rank, after the name of the run."""
        return _answer(name, answer, [self.pictures.show(i) for i in answer.best], "images")

    def sentences(self, answer: RankedAnswer, name: str = "") -> Html:
        """Return the best sentences of a query with its rank, after the name of the run."""
        texts = [tag("span", self.corpus.sentences[j].text) for j in answer.best]
        return _answer(name, answer, texts, "sentences")

    def _sentence(self, number: int) -> Html:
        sentence = self.corpus.sentences[number]
        return joined([tag("q", sentence.text), self.pictures.show(sentence.image)])

    def _image(self, number: int) -> Html:
        first = next(sentence.text for sentence in self.corpus.sentences if sentence.image == number)
        return joined([self.pictures.show(number), tag("q", first)])


def query_with_answers(query: Html, answers: Sequence[Html]) -> Html:
    """Return a query with the answers of every run beside it."""
    parts = tag("div", query, class_="query-item"), tag("div", *answers, class_="answers")
    return tag("div", *parts, class_="query")


def _answer(name: str, answer: RankedAnswer, candidates: Sequence[Html], kind: str) -> Html:
    who = joined([tag("b", name), " "]) if name else Html()
    items = (
        tag("li", each, _TICK if right else Html(), class_="right" if right else None)
        for each, right in zip(candidates, answer.right, strict=True)
    )
    rank = "" if answer.rank is None else f"rank {answer.rank:,}"
    return tag("div", tag("p", who, rank, class_="who"), tag("ol", *items, class_=kind))
