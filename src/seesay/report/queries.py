"""Queries in a report and the answers of every run side by side, as the figures of the papers show them.

They are those of a file, random ones, and the hardest of each run.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seesay.data.corpus import Corpus
from seesay.data.readers.files import read_lines
from seesay.errors import SeesayError, did_you_mean
from seesay.metrics.ranks import Ranks
from seesay.protocols.subject import RunSubject, run_scores
from seesay.report.page import Page, Pictures
from seesay.report.retrieval import Measured
from seesay.results.formats import Table
from seesay.results.html import Html, joined, tag
from seesay.text.tokens import tokenize

SEED = 0
_SAMPLED = 6  # random queries of each direction
_SHOWN = 3  # candidates of a query
_HARDEST = 4
_MOST_LINES, _MOST_CHARACTERS = 200, 1000
_TICK = tag("span", "✓", class_="tick", role="img", aria_label="right")


@dataclass(frozen=True)
class SplitQueries:
    """Queries of a split.

    Attributes:
        sentences: each with the numbers of the images that are right.
        images: their numbers.
        pairs: an image's number and a sentence, whose score is asked for.
    """

    sentences: Sequence[tuple[str, Sequence[int]]] = ()
    images: Sequence[int] = ()
    pairs: Sequence[tuple[int, str]] = ()

    @classmethod
    def read(cls, path: Path, split: Corpus) -> SplitQueries:
        """Read one query a line: a sentence, an image's name, or both with a tab between them.

        Raises:
            SeesayError: the file cannot be read, is empty or too long, or names an image that is not in the
                split.
        """
        lines = [line.strip() for line in read_lines(path)]
        lines = [line for line in lines if line]
        if not 0 < len(lines) <= _MOST_LINES or max(map(len, lines)) > _MOST_CHARACTERS:
            raise SeesayError(
                f"{path}: expected 1 to {_MOST_LINES} lines of up to {_MOST_CHARACTERS} characters."
            )
        numbers = {image.name: at for at, image in enumerate(split.images)}
        sentences: list[tuple[str, Sequence[int]]] = []
        images, pairs = [], []
        for line in lines:
            name, tab, sentence = line.partition("\t")
            if tab and name not in numbers:
                near = did_you_mean(name, numbers) or "."
                raise SeesayError(f"{path}: no image '{name[:80]}' in this split{near}")
            if tab:
                pairs.append((numbers[name], sentence.strip()))
            elif line in numbers:
                images.append(numbers[line])
            else:
                sentences.append((line, [each.image for each in split.sentences if each.text == line]))
        return cls(sentences, images, pairs)

    @classmethod
    def random(cls, split: Corpus) -> SplitQueries:
        """Draw sentences, and images that have sentences; the same ones for the same split."""
        draw = np.random.default_rng(SEED)
        described = np.unique(split.image_of_sentence())
        images = draw.choice(described, min(_SAMPLED, len(described)), replace=False)
        count = len(split.sentences)
        sentences = draw.choice(count, min(_SAMPLED, count), replace=False)
        return cls.numbered(split, sentences.tolist(), images.tolist())

    @classmethod
    def hardest(cls, split: Corpus, ranks: Ranks) -> SplitQueries:
        """Return the queries that a run ranks worst."""
        return cls.numbered(split, _worst(ranks.image), _worst(ranks.sentence))

    @classmethod
    def numbered(cls, split: Corpus, sentences: Sequence[int], images: Sequence[int]) -> SplitQueries:
        """Return those sentences, each with its image, and images of a split."""
        chosen = [split.sentences[number] for number in sentences]
        return cls([(sentence.text, [sentence.image]) for sentence in chosen], images)


@dataclass(frozen=True, slots=True)
class RankedAnswer:
    """The answer to one query."""

    rank: int | None  # of the first right candidate, from 1; None if there is none
    best: tuple[int, ...]  # the best candidates
    right: tuple[bool, ...]  # whether each of them is right

    @classmethod
    def of(cls, scores: NDArray[Any], right: NDArray[np.bool_]) -> RankedAnswer:
        """Rank candidates by their scores (n,); ties count against the query."""
        order = np.lexsort((right, -np.asarray(scores, np.float64)))
        first = order[:_SHOWN]
        rank = int(np.argmax(right[order])) + 1 if right.any() else None
        return cls(rank, tuple(first.tolist()), tuple(right[first].tolist()))


@dataclass(frozen=True)
class SplitGallery:
    """The images and sentences of a split, which answer queries.

    `words` are the words of the train split, by which a sentence's unseen words are told; None without one.
    """

    split: Corpus
    pictures: Pictures
    words: Container[str] | None

    def add(
        self, page: Page, runs: Sequence[Measured], queries: SplitQueries, of_sentences: str, of_images: str
    ) -> None:
        """Add the answers of runs to queries; the captions say which sentences and images these are."""
        texts = list(dict.fromkeys([text for text, _ in queries.sentences] + [t for _, t in queries.pairs]))
        scores = [_scores(each, queries.images, texts) for each in runs]
        names = [each.name if len(runs) > 1 else "" for each in runs]
        if queries.sentences:
            found = [
                [
                    self._images(of_texts[:, texts.index(text)], images, name)
                    for (_, of_texts), name in zip(scores, names, strict=True)
                ]
                for text, images in queries.sentences
            ]
            asked = [self._sentence(*sentence) for sentence in queries.sentences]
            page.figure(of_sentences, *map(_with_answers, asked, found))
        if queries.images:
            found = [
                [
                    self._sentences(rows[row], image, name)
                    for (rows, _), name in zip(scores, names, strict=True)
                ]
                for row, image in enumerate(queries.images)
            ]
            page.figure(of_images, *map(_with_answers, map(self.pictures.show, queries.images), found))
        if queries.pairs:
            pairs = [
                [
                    self.split.images[image].name,
                    text,
                    *(_score(of_texts[image, texts.index(text)]) for _, of_texts in scores),
                ]
                for image, text in queries.pairs
            ]
            headings = ["image", "sentence", *(each.name for each in runs)]
            page.table("The score of an image with a sentence.", Table(headings, pairs, words=(0, 1)))

    def _images(self, scores: NDArray[np.float32], right: Sequence[int], name: str) -> Html:
        """Return the images with the best scores (n,) for a sentence, after the name of the run."""
        if np.isnan(scores).any():
            return tag("div", tag("p", tag("b", name), " no scores of this sentence", class_="who"))
        answer = RankedAnswer.of(scores, np.isin(np.arange(len(scores)), right))
        return _answer(name, answer, [self.pictures.show(i) for i in answer.best], "images")

    def _sentences(self, scores: NDArray[Any], image: int, name: str) -> Html:
        """Return the sentences with the best scores (m,) for an image, after the name of the run."""
        answer = RankedAnswer.of(scores, self.split.image_of_sentence() == image)
        texts = [tag("span", self.split.sentences[j].text) for j in answer.best]
        return _answer(name, answer, texts, "sentences")

    def _sentence(self, text: str, images: Sequence[int]) -> Html:
        """Return a sentence with its words that do not occur in training, and the first of its images."""
        parts = [tag("q", text)]
        if self.words is not None:
            unseen = [word for word in dict.fromkeys(tokenize(text)) if word not in self.words]
            parts += [tag("p", f"Not in train: {', '.join(unseen)}")] if unseen else []
        return joined([*parts, *map(self.pictures.show, images[:1])])


def _worst(ranks: NDArray[np.int64]) -> list[int]:
    """Return the queries with the worst ranks, the worst first; negative ranks are not queries."""
    order = np.argsort(-ranks, kind="stable")[:_HARDEST]
    return [int(query) for query in order if ranks[query] >= 0]


def _scores(
    measured: Measured, images: Sequence[int], texts: Sequence[str]
) -> tuple[NDArray[Any], NDArray[np.float32]]:
    """Return the scores of some images for the split's sentences, (k, m), and of all images for texts.

    The latter, (n, t), are NaN where external scores lack a text.
    """
    subject = measured.subject
    of_images, of_sentences = subject.scores.by_direction()
    known = {text: at for at, text in reversed(list(enumerate(subject.corpus.texts())))}
    columns = [known.get(text) for text in texts]
    of_texts = np.full((subject.n_images, len(texts)), np.nan, np.float32)
    for at, column in enumerate(columns):
        if column is not None:
            of_texts[:, at] = of_sentences[:, column]
    unknown = [at for at, column in enumerate(columns) if column is None]
    if unknown and isinstance(subject, RunSubject):
        inputs = replace(subject.inputs, sentences=subject.run.prepare([texts[at] for at in unknown]))
        of_texts[:, unknown] = run_scores(subject.run, inputs).by_direction()[1]
    return of_images[list(images)], of_texts


def _score(value: float) -> str:
    return f"{value:.3f}" if np.isfinite(value) else "–"


def _with_answers(query: Html, answers: Sequence[Html]) -> Html:
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
