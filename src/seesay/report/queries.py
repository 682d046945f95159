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
from seesay.data.texts import read_lines
from seesay.errors import SeesayError, did_you_mean
from seesay.metrics.ranks import Ranks
from seesay.protocols.base import Result
from seesay.protocols.subject import RunSubject, Subject, run_scores
from seesay.report.page import Html, Page, Pictures, joined, tag
from seesay.results.formats import Table
from seesay.text.tokens import tokenize

SEED = 0
_SAMPLED = 6  # random queries of each direction
_SHOWN = 3  # candidates of a query
_HARDEST = 4
_MOST_LINES, _MOST_CHARACTERS = 200, 1000


@dataclass(frozen=True)
class Measured:
    """A run, or external scores, on a split."""

    name: str  # unique in the report
    subject: Subject
    result: Result


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
            SeesayError: the file cannot be read, is empty or too long, or names an image of no such split.
        """
        lines = [line.strip() for line in read_lines(path) if line.strip()]
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
        return cls(_numbered(split, sentences.tolist()), images.tolist())

    @classmethod
    def hardest(cls, split: Corpus, ranks: Ranks) -> SplitQueries:
        """Return the queries that a run ranks worst, the worst first; negative ranks are not queries."""
        images, sentences = (
            [int(query) for query in np.argsort(-way, kind="stable")[:_HARDEST] if way[query] >= 0]
            for way in (ranks.sentence, ranks.image)
        )
        return cls(_numbered(split, sentences), images)


def _numbered(split: Corpus, sentences: Sequence[int]) -> list[tuple[str, Sequence[int]]]:
    """Return those sentences, each with its image."""
    return [(split.sentences[number].text, [split.sentences[number].image]) for number in sentences]


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


def add_queries(
    page: Page,
    runs: Sequence[Measured],
    queries: SplitQueries,
    words: Container[str] | None,
    captions: tuple[str, str],
) -> None:
    """Add the answers of runs to queries, by the images and sentences of their split.

    Words of a sentence that are not among `words`, those of the train split, are named. The captions are of
    the sentences and of the images.
    """
    split = runs[0].subject.corpus
    alt = {sentence.image: sentence.text for sentence in reversed(split.sentences)}
    described = [
        f"{image.name}: {alt[at]}" if at in alt else image.name for at, image in enumerate(split.images)
    ]
    show = Pictures(split.images, described).show
    texts = list(dict.fromkeys([text for text, _ in queries.sentences] + [text for _, text in queries.pairs]))
    scores = [_scores(each, queries.images, texts) for each in runs]
    names = [each.name if len(runs) > 1 else "" for each in runs]
    parts = []
    for text, right in queries.sentences:
        asked = [tag("q", text)]
        new = [word for word in dict.fromkeys(tokenize(text)) if words is not None and word not in words]
        asked += [tag("p", f"Not in train: {', '.join(new)}")] if new else []
        is_right, answers = np.isin(np.arange(len(split.images)), right), []
        for name, (_, of_texts) in zip(names, scores, strict=True):
            column = of_texts[:, texts.index(text)]
            if np.isnan(column).any():
                none = tag("p", tag("b", name), " no scores of this sentence", class_="who")
                answers.append(tag("div", none))
            else:
                answer = RankedAnswer.of(column, is_right)
                answers.append(_answer(name, answer, [show(image) for image in answer.best], "images"))
        parts.append(_with_answers(joined([*asked, *map(show, right[:1])]), answers))
    if parts:
        page.figure(captions[0], *parts)
    parts = []
    for row, image in enumerate(queries.images):
        answers = []
        for name, (rows, _) in zip(names, scores, strict=True):
            answer = RankedAnswer.of(rows[row], split.image_of_sentence() == image)
            best = [tag("span", split.sentences[sentence].text) for sentence in answer.best]
            answers.append(_answer(name, answer, best, "sentences"))
        parts.append(_with_answers(show(image), answers))
    if parts:
        page.figure(captions[1], *parts)
    if queries.pairs:
        pairs = []
        for image, text in queries.pairs:
            found = [of_texts[image, texts.index(text)] for _, of_texts in scores]
            cells = [f"{score:.3f}" if np.isfinite(score) else "–" for score in found]
            pairs.append([split.images[image].name, text, *cells])
        headings = ["image", "sentence", *(each.name for each in runs)]
        page.table("The score of an image with a sentence.", Table(headings, pairs, words=(0, 1)))


def _scores(
    measured: Measured, images: Sequence[int], texts: Sequence[str]
) -> tuple[NDArray[Any], NDArray[np.float32]]:
    """Return the scores of some images for the split's sentences, (k, m), and of all images for texts.

    The latter, (n, t), are NaN where external scores lack a text.
    """
    subject = measured.subject
    of_images, of_sentences = subject.scores.by_direction()
    known = {text: at for at, text in reversed(list(enumerate(subject.corpus.texts())))}
    of_texts = np.full((subject.n_images, len(texts)), np.nan, np.float32)
    for at, text in enumerate(texts):
        if text in known:
            of_texts[:, at] = of_sentences[:, known[text]]
    unknown = [at for at, text in enumerate(texts) if text not in known]
    if unknown and isinstance(subject, RunSubject):
        inputs = replace(subject.inputs, sentences=subject.run.prepare([texts[at] for at in unknown]))
        of_texts[:, unknown] = run_scores(subject.run, inputs).by_direction()[1]
    return of_images[list(images)], of_texts


def _with_answers(query: Html, answers: Sequence[Html]) -> Html:
    parts = tag("div", query, class_="query-item"), tag("div", *answers, class_="answers")
    return tag("div", *parts, class_="query")


def _answer(name: str, answer: RankedAnswer, candidates: Sequence[Html], kind: str) -> Html:
    tick = tag("span", "✓", class_="tick", role="img", aria_label="right")
    items = (
        tag("li", each, tick if right else Html(), class_="right" if right else None)
        for each, right in zip(candidates, answer.right, strict=True)
    )
    who = joined([tag("b", name), " "]) if name else Html()
    rank = "" if answer.rank is None else f"rank {answer.rank:,}"
    return tag("div", tag("p", who, rank, class_="who"), tag("ol", *items, class_=kind))
