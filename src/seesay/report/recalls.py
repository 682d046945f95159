"""Tables and plots of retrieval: recalls and how sure they are, what runs differ by, recall at every K."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seesay.metrics.bootstrap import DIRECTIONS, LEVEL, MEAN_RECALL, RESAMPLES
from seesay.metrics.paired import compare
from seesay.metrics.recall import MEASURES
from seesay.protocols.measure import differences
from seesay.report.breakdown import rank_bins, rank_shares, recall_curve, span
from seesay.report.html import Html, Page, joined, tag
from seesay.report.plots import rank_histograms, recall_curves
from seesay.report.subject import Subject
from seesay.results.columns import find_published, number, published_figures

_SENTENCE, _IMAGE = "sentence retrieval", "image retrieval"
_COLUMNS = [f"{way} {name}" for way in "SI" for name in MEASURES] + [MEAN_RECALL]
_MOST = 100  # K


def add_recalls(page: Page, subjects: Sequence[Subject], corpus: str) -> None:
    """What was measured, how sure it is, what differs between the runs, and recall at every K."""
    page.section("Recall")
    page.text(
        "S is sentence retrieval (an image asks), I image retrieval (a sentence asks). R@K is the percentage "
        "of queries with a right answer among the first K, Med r the median rank, mR the mean of the six "
        "recalls. Equal scores count against the query."
    )
    _add_table(page, subjects, corpus)
    if len(subjects) > 1:
        _add_differences(page, subjects)
    _add_curves(page, subjects)
    _add_ranks(page, subjects)


def _add_table(page: Page, subjects: Sequence[Subject], corpus: str) -> None:
    rows, notes = [], []
    for subject in subjects:
        rows.append([subject.name, *_cells(subject.measured)])
        notes += _notes(subject)
        system = subject.run.recipe.system if subject.run is not None else None
        published = find_published(system, corpus, "standard") if system else None
        if published is not None and subject.run is not None:
            shown = published_figures(published)
            name = joined([f"{published.system}, ", tag("i", published.source)])
            rows.append([name, *(number(shown.get(column)) for column in _COLUMNS)])
            named = differences(subject.run.recipe) or ["nothing known"]
            notes.append(f"{subject.name} differs from {published.system} in: {'; '.join(named)}.")
    told = (
        f"Recalls, and below each its {LEVEL} % interval: the split's images drawn {RESAMPLES:,} times, each "
    )
    page.table(f"{told} with its sentences.", ["", *_COLUMNS], rows)
    page.text(*notes)


def _notes(subject: Subject) -> list[str]:
    """What was left out or read in part."""
    measured = subject.measured
    notes = list(measured.get("notes", ()))
    if cut := measured.get("cut_sentences"):
        read = measured["max_length"]
        notes.append(f"{subject.name} reads {read} words of a sentence; {cut} sentences are longer.")
    if broken := subject.inputs.broken if subject.inputs is not None else []:
        first = "; ".join(str(error) for error in broken[:3])
        notes.append(
            f"{subject.name}: {len(broken)} images could not be read and are left out, such as {first}"
        )
    if without := measured.get("images_without_sentences"):
        notes.append(f"{without} images have no sentence and are candidates alone.")
    return notes


def _cells(measured: Mapping[str, Any]) -> list[Html]:
    sure = measured["intervals"]
    ways = [(measured[way][name], sure[way][name]) for way in DIRECTIONS for name in MEASURES]
    return [_sure(*cell) for cell in (*ways, (measured[MEAN_RECALL], sure[MEAN_RECALL]))]


def _sure(value: float, ends: Sequence[float]) -> Html:
    return joined([number(value), tag("small", f"{ends[0]:.1f}–{ends[1]:.1f}")])


def _add_differences(page: Page, subjects: Sequence[Subject]) -> None:
    first, *others = subjects
    rows = []
    for other in others:
        found = compare([other.answers], [first.answers])
        told = [*(found[way][name] for way in DIRECTIONS for name in MEASURES), found[MEAN_RECALL]]
        cells = [
            joined([f"{cell['difference']:+.1f}".replace("-", "−"), tag("small", f"p {_p(cell['p'])}")])
            for cell in told
        ]
        rows.append([other.name, *cells])
    page.table(
        f"What the other runs' figures differ by from those of {first.name} on the same queries, and the "
        "two-sided p of a paired randomisation test. Of Med r a negative difference is the better one.",
        ["", *_COLUMNS],
        rows,
    )


def _p(value: float) -> str:
    return f"= {value:.3f}" if value >= 0.001 else "< 0.001"


def _add_curves(page: Page, subjects: Sequence[Subject]) -> None:
    curves = {each.name: {way: recall_curve(r, _MOST) for way, r in _ways(each)} for each in subjects}
    told = [
        f"{name}, {way}: {line[0]:.0f} at 1, {line[9]:.0f} at 10, {line[-1]:.0f} at {_MOST}"
        for name, ways in curves.items()
        for way, line in ways.items()
    ]
    page.figure(
        f"Recall at K = 1 to {_MOST}: {_SENTENCE} in whole lines, {_IMAGE} in dashes.",
        recall_curves(curves, f"Recall at K in percent. {'; '.join(told)}."),
    )


def _add_ranks(page: Page, subjects: Sequence[Subject]) -> None:
    bins = rank_bins(1 + max(int(r.max()) for each in subjects for _, r in _ways(each)))
    shares = {each.name: {way: rank_shares(r, bins) for way, r in _ways(each)} for each in subjects}
    alt = f"Percentage of queries by rank of the right answer, for {', '.join(shares)}."
    page.figure(
        "Ranks of the right answers, of an image its best sentence's. Each bin is twice as wide as the last.",
        rank_histograms(shares, [span(*each) for each in bins], alt),
    )


def _ways(subject: Subject) -> tuple[tuple[str, NDArray[np.int64]], ...]:
    """The ranks of both directions."""
    return (_SENTENCE, subject.answers.ranks.sentence), (_IMAGE, subject.answers.ranks.image)
