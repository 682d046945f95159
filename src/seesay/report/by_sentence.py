"""Image retrieval by what the sentence is like that asks: how long it is, how rare its rarest word."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seesay.data.corpus import Corpus
from seesay.metrics.bootstrap import LEVEL
from seesay.metrics.recall import MEASURES
from seesay.protocols.k_shot import BANDS
from seesay.report.breakdown import Bin, bins_of, equal_bins, image_retrieval_of, span
from seesay.report.html import Page
from seesay.report.plots import by_bin
from seesay.report.subject import Subject
from seesay.results.columns import number
from seesay.text.rare_words import rarest_words, word_counts
from seesay.text.vocabulary import tokenize

_DRAWN = "R@10"


def add_by_sentence(page: Page, subjects: Sequence[Subject], corpus: Corpus) -> None:
    """A plot and a table by length, and by how often the rarest word occurs in the corpus' train split."""
    page.section("By sentence")
    texts = subjects[0].scored.corpus.texts()
    lengths = np.array([len(tokenize(text)) for text in texts], np.int64)
    bins = bins_of(lengths, {span(*each): each for each in equal_bins(lengths)})
    _add_bins(page, subjects, bins, "words of the sentence", "how long the sentence is")
    if "train" not in {image.split for image in corpus.images}:
        page.text("The corpus has no train split, so how rare a word is in training is not known.")
        return
    rarest = rarest_words(texts, word_counts(corpus.split("train").texts()))
    bins = bins_of(rarest, {name.replace("-", "–"): band for name, band in BANDS.items()})
    xlabel = "times that its rarest word occurs in training"
    _add_bins(page, subjects, bins, xlabel, "how rare the rarest word of the sentence is")


def _add_bins(page: Page, subjects: Sequence[Subject], bins: Sequence[Bin], xlabel: str, by: str) -> None:
    found = {each.name: [image_retrieval_of(each.answers, b.chosen) for b in bins] for each in subjects}
    names = [each.name for each in bins]
    drawn = {
        name: [(told[_DRAWN], *told["intervals"][_DRAWN]) for told in row] for name, row in found.items()
    }
    told = (
        f"{name}: {', '.join(f'{value[0]:.0f} at {label}' for label, value in zip(names, row, strict=True))}"
        for name, row in drawn.items()
    )
    alt = f"{_DRAWN} of image retrieval in percent by {xlabel}. {'; '.join(told)}."
    page.figure(
        f"{_DRAWN} of image retrieval by {by}, with {LEVEL} % intervals.",
        by_bin(drawn, names, xlabel, f"{_DRAWN}, %", alt),
    )
    rows = [
        [
            label,
            name,
            f"{row[i]['sentences']:,}",
            *(number(row[i][k]) for k in MEASURES),
            _ends(drawn[name][i]),
        ]
        for i, label in enumerate(names)
        for name, row in found.items()
    ]
    columns = [xlabel, "run", "sentences", *MEASURES, f"{LEVEL} % of {_DRAWN}"]
    page.table(f"Image retrieval by {by}.", columns, rows, words=2)


def _ends(sure: Sequence[float]) -> str:
    return f"{sure[1]:.1f}–{sure[2]:.1f}"
