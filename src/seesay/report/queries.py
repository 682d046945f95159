"""Queries and what runs answer: the hardest ones, and some drawn at random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from seesay.data.corpus import Corpus
from seesay.report.breakdown import Shown, best, hardest
from seesay.report.html import Html, Page, joined, tag
from seesay.report.pictures import Pictures
from seesay.report.subject import Subject

SEED = 0
_DRAWN = 6  # queries of each direction
_HARDEST = 4

Answered = Mapping[int, Shown]


@dataclass(frozen=True)
class Answering:
    """The queries that a report shows of one run: images, and sentences, by their number."""

    name: str
    images: Answered
    sentences: Answered
    hardest_images: Sequence[int]
    hardest_sentences: Sequence[int]


def sample(corpus: Corpus, count: int = _DRAWN) -> tuple[list[int], list[int]]:
    """Images that have sentences, and sentences, drawn at random; each time the same."""
    draw = np.random.default_rng(SEED)
    described = np.unique(corpus.image_of_sentence())
    images = draw.choice(described, min(count, len(described)), replace=False)
    sentences = draw.choice(len(corpus.sentences), min(count, len(corpus.sentences)), replace=False)
    return images.tolist(), sentences.tolist()


def answer(subject: Subject, images: Sequence[int], sentences: Sequence[int]) -> Answering:
    """How a run answers those queries, and its own hardest."""
    ranks, owners = subject.answers.ranks, subject.answers.owners
    worst = hardest(ranks.sentence, _HARDEST), hardest(ranks.image, _HARDEST)
    by_image, by_sentence = subject.scored.scores.by_direction()
    numbers = np.arange(len(ranks.sentence))
    return Answering(
        subject.name,
        {i: best(by_image[i], owners == i) for i in dict.fromkeys([*images, *worst[0]])},
        {j: best(by_sentence[:, j], numbers == owners[j]) for j in dict.fromkeys([*sentences, *worst[1]])},
        *worst,
    )


@dataclass(frozen=True)
class Gallery:
    """Queries of a split beside what runs answer."""

    corpus: Corpus
    pictures: Pictures

    def add_sample(self, page: Page, found: Sequence[Answering]) -> None:
        """The same queries, drawn by `sample`, to every run."""
        images, sentences = sample(self.corpus)
        page.section("Queries and answers")
        page.text(
            f"Drawn at random (seed {SEED}), the same for every run. Right answers are framed and ticked; "
            "the rank is the right answer's, of an image its best sentence's."
        )
        page.figure(
            "Sentences that ask, with the images they describe, and the first three images.",
            *(
                _query(self._sentence(j), [self._images(f.sentences[j], f.name) for f in found])
                for j in sentences
            ),
        )
        page.figure(
            "Images that ask, and the first three sentences.",
            *(
                _query(self.pictures.of(i), [self._sentences(f.images[i], f.name) for f in found])
                for i in images
            ),
        )

    def add_hardest(self, page: Page, found: Answering) -> None:
        """The queries that a run answers worst."""
        page.figure(
            f"The sentences whose image {found.name} ranks worst, with that image.",
            *(_query(self._sentence(j), [self._images(found.sentences[j])]) for j in found.hardest_sentences),
        )
        page.figure(
            f"The images whose best sentence {found.name} ranks worst, with their first one.",
            *(_query(self._image(i), [self._sentences(found.images[i])]) for i in found.hardest_images),
        )

    def _images(self, shown: Shown, name: str = "") -> Html:
        return _answer(name, shown, [self.pictures.of(i) for i in shown.first], "images")

    def _sentences(self, shown: Shown, name: str = "") -> Html:
        return _answer(
            name, shown, [tag("span", self.corpus.sentences[j].text) for j in shown.first], "sentences"
        )

    def _sentence(self, number: int) -> Html:
        sentence = self.corpus.sentences[number]
        return joined([tag("q", sentence.text), self.pictures.of(sentence.image)])

    def _image(self, number: int) -> Html:
        first = next(sentence.text for sentence in self.corpus.sentences if sentence.image == number)
        return joined([self.pictures.of(number), tag("q", first)])


def _query(asks: Html, answers: Sequence[Html]) -> Html:
    return tag("div", tag("div", asks, class_="asks"), tag("div", *answers, class_="answers"), class_="query")


def _answer(name: str, shown: Shown, found: Sequence[Html], kind: str) -> Html:
    told = joined([tag("b", name), " "]) if name else Html()
    items = (
        tag("li", each, _TICK if right else Html(), class_="right" if right else None)
        for each, right in zip(found, shown.right, strict=True)
    )
    return tag("div", tag("p", told, f"rank {shown.rank:,}", class_="who"), tag("ol", *items, class_=kind))


_TICK = tag("span", "✓", class_="tick", role="img", aria_label="right")
