"""Queries that a person chose, answered by every run side by side, as the figures of the papers show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seesay.data.corpus import Corpus
from seesay.data.readers.files import read_lines
from seesay.errors import SeesayError, did_you_mean
from seesay.protocols.subject import RunScores, RunSubject
from seesay.report.page import Page
from seesay.report.queries import Answers, SplitGallery, best_answers, query_with_answers
from seesay.report.retrieval import Measured
from seesay.results.formats import Table
from seesay.results.html import Html, joined, tag
from seesay.text.tokens import tokenize
from seesay.text.vocabulary import word_counts

_MOST_LINES, _MOST_CHARACTERS = 200, 1000


@dataclass(frozen=True)
class ChosenQueries:
    """Queries of a file: sentences, images of the split, and pairs of both whose scores are asked for."""

    sentences: tuple[str, ...] = ()
    images: tuple[int, ...] = ()
    pairs: tuple[tuple[int, str], ...] = ()

    @classmethod
    def read(cls, path: Path, split: Corpus) -> ChosenQueries:
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
        pairs = []
        for line in lines:
            name, tab, sentence = line.partition("\t")
            if tab and name not in numbers:
                near = did_you_mean(name, numbers) or "."
                raise SeesayError(f"{path}: no image '{name[:80]}' in this split{near}")
            if tab:
                pairs.append((numbers[name], sentence.strip()))
        alone = [line for line in lines if "\t" not in line]
        sentences = tuple(line for line in alone if line not in numbers)
        return cls(sentences, tuple(numbers[line] for line in alone if line in numbers), tuple(pairs))


def add_chosen(
    page: Page,
    runs: Sequence[Measured],
    answers: Sequence[Answers],
    gallery: SplitGallery,
    chosen: ChosenQueries,
    corpus: Corpus,
) -> None:
    """Add the answers of every run to chosen queries.

    Args:
        page: the report.
        runs: the runs and external scores.
        answers: of each to the chosen images, and to others.
        gallery: the images and sentences of the split.
        chosen: the queries.
        corpus: the corpus with its train split, in which unseen words are counted.
    """
    page.section("Chosen queries")
    texts = list(dict.fromkeys([*chosen.sentences, *(text for _, text in chosen.pairs)]))
    scores = [_scores(each, texts) for each in runs] if texts else []
    if chosen.sentences:
        page.figure(
            "Sentences as queries, and the first three images; those that the split describes so are ticked.",
            *(
                query_with_answers(
                    _sentence(text, corpus),
                    [
                        _images(each, of_run[:, texts.index(text)], gallery, text)
                        for each, of_run in zip(runs, scores, strict=True)
                    ],
                )
                for text in chosen.sentences
            ),
        )
    if chosen.images:
        page.figure(
            "Images as queries, and the first three sentences; the image's own are ticked.",
            *(
                query_with_answers(
                    gallery.pictures.show(i),
                    [gallery.sentences(each.to_images[i], each.name) for each in answers],
                )
                for i in chosen.images
            ),
        )
    if chosen.pairs:
        rows = [
            [
                gallery.corpus.images[image].name,
                text,
                *(_score(of_run[image, texts.index(text)]) for of_run in scores),
            ]
            for image, text in chosen.pairs
        ]
        page.table(
            "The score of an image with a sentence.",
            Table(["image", "sentence", *(each.name for each in runs)], rows, words=(0, 1)),
        )


def _scores(measured: Measured, texts: Sequence[str]) -> NDArray[np.float32]:
    """Return the scores (n, m) of the split's images for sentences; NaN where external scores lack them."""
    subject = measured.subject
    if isinstance(subject, RunSubject):
        inputs = replace(subject.inputs, sentences=subject.run.prepare(texts))
        return np.asarray(RunScores(subject.run, inputs).by_direction()[1], np.float32)
    known = {text: at for at, text in reversed(list(enumerate(subject.corpus.texts())))}
    scores = subject.scores.by_direction()[1]
    found = np.full((subject.n_images, len(texts)), np.nan, np.float32)
    for at, text in enumerate(texts):
        if text in known:
            found[:, at] = scores[:, known[text]]
    return found


def _images(measured: Measured, scores: NDArray[np.float32], gallery: SplitGallery, text: str) -> Html:
    if np.isnan(scores).any():
        return tag("div", tag("p", tag("b", measured.name), " no scores of this sentence", class_="who"))
    described = [sentence.image for sentence in gallery.corpus.sentences if sentence.text == text]
    right = np.isin(np.arange(len(scores)), described)
    return gallery.images(best_answers(scores, right), measured.name)


def _sentence(text: str, corpus: Corpus) -> Html:
    """Return a sentence and, if the corpus has a train split, its words that do not occur there."""
    if "train" not in corpus.splits:
        return tag("q", text)
    counts = word_counts(corpus.split("train").texts())
    unseen = [word for word in dict.fromkeys(tokenize(text)) if not counts[word]]
    return joined([tag("q", text), tag("p", f"Not in train: {', '.join(unseen)}") if unseen else Html()])


def _score(value: float) -> str:
    return f"{value:.3f}" if np.isfinite(value) else "–"
