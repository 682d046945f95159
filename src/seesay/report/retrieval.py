"""Retrieval in a report: recalls with intervals, differences between runs, curves, recall by sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from seesay.arrays import Ints
from seesay.data.corpus import Corpus
from seesay.metrics.bootstrap import LEVEL, RESAMPLES, RankSample, intervals, mean_metrics
from seesay.metrics.ranks import Ranks
from seesay.metrics.recall import METRICS
from seesay.protocols.base import PROTOCOLS, Options, Result
from seesay.protocols.evaluate import Entry, measure, subject_of
from seesay.protocols.k_shot import BANDS
from seesay.protocols.score_fusion import check_same
from seesay.protocols.subject import Subject
from seesay.report.page import Page
from seesay.report.plots import Estimate, estimates_by_bin, recall_curves
from seesay.results.comparison import differences_in
from seesay.results.formats import Cell, Table, number, numbers
from seesay.results.published import find_published, measured_otherwise
from seesay.results.rows import differences
from seesay.text.tokens import tokenize
from seesay.text.vocabulary import rarest_words, word_counts

Tell = Callable[[str], None]
Bins = dict[str, NDArray[np.bool_]]  # masks (m,) of sentences, by the name of the bin

_SENTENCE, _IMAGE = "sentence retrieval", "image retrieval"
_MAX_K = 100
_BINNED = "R@10"


@dataclass(frozen=True)
class Measured:
    """A run, or external scores, on a split of captioned images."""

    name: str  # unique in the report
    subject: Subject
    result: Result  # of the standard protocol, with intervals

    @cached_property
    def ranks(self) -> Ranks:
        """The ranks of all queries."""
        return self.subject.retrieval_sample().ranks


def measure_all(
    entries: Sequence[Entry], names: Sequence[str], corpus: Corpus, split: str, tell: Tell
) -> list[Measured]:
    """Measure entries that match images with sentences on a split of a corpus.

    Raises:
        SeesayError: one does not fit the corpus, or they score different images or sentences.
    """
    found = []
    for at, (entry, name) in enumerate(zip(entries, names, strict=True), start=1):
        tell(f"{at}/{len(entries)} {name}")
        subject = subject_of(entry, corpus, split, PROTOCOLS["standard"])
        found.append(Measured(name, subject, measure(subject, "standard", Options(resamples=RESAMPLES))))
    check_same([each.subject for each in found])
    return found


def add_recalls(page: Page, runs: Sequence[Measured], corpus: str) -> None:
    """Add recalls with intervals, the differences between the runs, and recall at every K."""
    page.section("Recall")
    page.text(
        "S is sentence retrieval (the query is an image), and I is image retrieval (the query is a "
        "sentence). R@K is the percentage of queries with a correct result among the first K, Med r the "
        "median rank, and mR the mean of the six recalls. Ties count against the query."
    )
    _add_table(page, runs, corpus)
    first, *others = runs
    if others:
        compared = [(each.name, each.result.compare(first.result, first.name)) for each in others]
        page.table(
            f"Differences of the other runs from {first.name} on the same queries, and the two-sided p of a "
            "paired randomization test. For Med r, a negative difference is better.",
            differences_in(list(first.result.metrics), compared),
        )
    curves = {
        each.name: {_SENTENCE: recall_curve(each.ranks.sentence), _IMAGE: recall_curve(each.ranks.image)}
        for each in runs
    }
    ends = [
        f"{name}, {way}: {line[0]:.0f} at 1, {line[9]:.0f} at 10, {line[-1]:.0f} at {_MAX_K}"
        for name, ways in curves.items()
        for way, line in ways.items()
    ]
    page.figure(
        f"Recall at K = 1 to {_MAX_K}: {_SENTENCE} solid, {_IMAGE} dashed.",
        recall_curves(curves, f"Recall at K in percent. {'; '.join(ends)}."),
    )


def add_by_sentence(page: Page, runs: Sequence[Measured], corpus: Corpus) -> None:
    """Add image retrieval by the length of the sentence, and by how rare its rarest word is in training."""
    page.section("By sentence")
    texts = runs[0].subject.corpus.texts()
    lengths = np.array([len(tokenize(text)) for text in texts], np.int64)
    bins = bins_of(lengths, {span(*each): each for each in equal_bins(lengths)})
    _add_bins(page, runs, bins, "words of the sentence", "the length of the sentence")
    if "train" not in corpus.splits:
        page.text("The corpus has no train split, so it is not known how rare a word is in training.")
        return
    rarest = rarest_words(texts, word_counts(corpus.split("train").texts()))
    bins = bins_of(rarest, {name.replace("-", "–"): band for name, band in BANDS.items()})
    _add_bins(
        page, runs, bins, "occurrences of the rarest word in training", "the rarest word of the sentence"
    )


def recall_curve(ranks: Ints, max_k: int = _MAX_K) -> NDArray[np.float64]:
    """Return the recall in percent at K = 1 … `max_k` of zero-based ranks; negative ranks are not queries.

    >>> recall_curve(np.array([0, 2, 2, 9, -1]), 4).tolist()
    [25.0, 25.0, 75.0, 75.0]
    """
    queries = ranks[ranks >= 0]
    found = np.bincount(queries[queries < max_k], minlength=max_k).cumsum()
    return 100.0 * found / max(len(queries), 1)


def equal_bins(values: Ints, count: int = 5) -> list[tuple[int, int]]:
    """Return bins (first, last) with about equally many values; equal values are in one bin.

    >>> equal_bins(np.array([5, 5, 5, 6, 7, 8, 9, 20]), 4)
    [(5, 5), (6, 6), (7, 8), (9, 20)]
    """
    shares = np.arange(1, count + 1) / count
    ends = np.unique(np.quantile(values, shares, method="inverted_cdf")).astype(int).tolist()
    starts = [int(values.min()), *(end + 1 for end in ends[:-1])]
    return list(zip(starts, ends, strict=True))


def bins_of(values: Ints, named: Mapping[str, tuple[int, int]]) -> Bins:
    """Return a mask of the sentences in each band of values; empty bands are left out."""
    bins = {name: (low <= values) & (values <= high) for name, (low, high) in named.items()}
    return {name: chosen for name, chosen in bins.items() if chosen.any()}


def span(low: int, high: int) -> str:
    """Format a range, such as 4–7."""
    return str(low) if low == high else f"{low}–{high}"


def _add_table(page: Page, runs: Sequence[Measured], corpus: str) -> None:
    columns = list(runs[0].result.metrics)
    rows: list[Sequence[Cell | str]] = []
    notes = []
    for each in runs:
        ends = [each.result.intervals.get(column) for column in columns]
        below = [f"{each[0]:.1f}–{each[1]:.1f}" if each else "" for each in ends]
        rows.append([each.name, *map(Cell, numbers(each.result.metrics, columns), below)])
        notes += [f"{each.name}: {note}" for note in each.result.notes]
        recipe = each.subject.run.recipe if each.subject.run is not None else None
        published = find_published(recipe.system, corpus, "standard") if recipe and recipe.system else None
        if published is not None and recipe is not None:
            name = Cell(f"{published.system}, ", published.source)
            rows.append([name, *numbers(published.metrics, columns)])
            named = [*differences(recipe), *measured_otherwise(each.result, published)] or ["nothing known"]
            notes.append(f"{each.name} differs from {published.system} in: {'; '.join(named)}.")
    page.table(
        f"Recalls, and below each its {LEVEL} % interval: the images of the split are drawn {RESAMPLES:,} "
        "times, each with its sentences.",
        Table(["", *columns], rows),
    )
    page.text(*notes)


def _add_bins(page: Page, runs: Sequence[Measured], bins: Bins, xlabel: str, by: str) -> None:
    rows: list[list[str]] = []
    estimates: dict[str, list[Estimate]] = {each.name: [] for each in runs}
    for name, chosen in bins.items():
        for run in runs:
            metrics, low, high = image_retrieval_of(run, chosen)
            estimates[run.name].append((metrics[_BINNED], low, high))
            cells = (number(metrics[metric]) for metric in METRICS)
            rows.append([name, run.name, f"{chosen.sum():,}", *cells, f"{low:.1f}–{high:.1f}"])
    values = (
        f"{run}: {', '.join(f'{value[0]:.0f} at {name}' for name, value in zip(bins, row, strict=True))}"
        for run, row in estimates.items()
    )
    alt = f"{_BINNED} of image retrieval in percent by {xlabel}. {'; '.join(values)}."
    page.figure(
        f"{_BINNED} of image retrieval by {by}, with {LEVEL} % intervals.",
        estimates_by_bin(estimates, list(bins), xlabel, f"{_BINNED}, %", alt),
    )
    columns = [xlabel, "run", "sentences", *METRICS, f"{LEVEL} % of {_BINNED}"]
    page.table(f"Image retrieval by {by}.", Table(columns, rows, words={0, 1}))


def image_retrieval_of(
    run: Measured, chosen: NDArray[np.bool_], resamples: int = RESAMPLES
) -> tuple[dict[str, float], float, float]:
    """Return the metrics of image retrieval for some sentences, and the ends of R@10's interval."""
    sample = RankSample(run.ranks.image[chosen], run.subject.owners[chosen])
    ends = intervals([sample], resamples)[_BINNED]
    assert ends is not None  # there is a sentence
    return {name: round(value, 3) for name, value in mean_metrics([sample]).items()}, *ends.rounded()
