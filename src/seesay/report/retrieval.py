"""Retrieval in a report: recalls with intervals, and differences between runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from seesay.data.corpus import Corpus
from seesay.metrics.bootstrap import LEVEL, RESAMPLES
from seesay.protocols.base import PROTOCOLS, Options, Result
from seesay.protocols.evaluate import Entry, measure, subject_of
from seesay.protocols.score_fusion import check_same
from seesay.protocols.subject import Subject
from seesay.report.page import Page
from seesay.results.formats import Cell, Table, numbers
from seesay.results.published import find_published, measured_otherwise
from seesay.results.rows import differences
from seesay.results.tables import differences_table

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Measured:
    """A run, or external scores, on a split of captioned images."""

    name: str  # unique in the report
    subject: Subject
    result: Result  # of the standard protocol, with intervals


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
    """Add recalls with intervals and the differences between the runs."""
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
            differences_table(list(first.result.metrics), compared),
        )


def _add_table(page: Page, runs: Sequence[Measured], corpus: str) -> None:
    columns = list(runs[0].result.metrics)
    rows: list[Sequence[Cell | str]] = []
    notes = []
    for each in runs:
        ends = [each.result.intervals.get(column) for column in columns]
        below = [f"{each[0]:.1f}–{each[1]:.1f}" if each else "" for each in ends]
        rows.append([each.name, *map(Cell, numbers(each.result.metrics, columns), below)])
        notes += [f"{each.name}: {note}" for note in each.result.notes]
        run = each.subject.run
        recipe = run.recipe if run is not None and run.has_recipe else None
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
