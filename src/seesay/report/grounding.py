"""Phrase localization in a report: recalls, and boxes over images as in the two-branch paper's Figure 2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seesay.data.corpus import Corpus
from seesay.metrics.grounding_recall import METRICS, MIN_IOU, region_overlaps
from seesay.protocols.base import PROTOCOLS, Metrics, Result
from seesay.protocols.evaluate import measure, subject_of
from seesay.protocols.grounding import UNVOTED, best_box
from seesay.protocols.subject import RunSubject
from seesay.report.page import Frame, Page, Pictures
from seesay.report.queries import SEED
from seesay.report.retrieval import Tell
from seesay.results.formats import Table, numbers
from seesay.results.html import Html, joined, tag
from seesay.runs.run import Run

_SAMPLED = 12  # phrases


@dataclass(frozen=True)
class Grounded:
    """A run on a split of phrases."""

    name: str  # unique in the report
    subject: RunSubject
    result: Result

    @property
    def corpus(self) -> Corpus:
        """The split."""
        return self.subject.inputs.corpus


def ground_all(
    runs: Sequence[Run], names: Sequence[str], corpus: Corpus, split: str, tell: Tell
) -> list[Grounded]:
    """Measure runs on a split of phrases.

    Raises:
        SeesayError: the split is empty, or none of its images can be decoded.
    """
    found = []
    for at, (run, name) in enumerate(zip(runs, names, strict=True), start=1):
        tell(f"{at}/{len(runs)} {name}")
        subject = subject_of(run, corpus, split, PROTOCOLS["grounding"])
        assert isinstance(subject, RunSubject)
        found.append(Grounded(name, subject, measure(subject, "grounding")))
    return found


def add_grounding(page: Page, runs: Sequence[Grounded]) -> None:
    """Add the recalls, with baselines, and by kind of phrase."""
    page.section("Recall")
    first = runs[0].result
    kinds = [part for part, row in first.rows.items() if "phrases" in row]
    rows: dict[str, Metrics] = {}
    for each in runs:
        rows[each.name] = each.result.rows[""]
        if UNVOTED in each.result.rows:
            rows[f"{each.name} {UNVOTED}"] = each.result.rows[UNVOTED]
    rows |= {part: row for part, row in first.rows.items() if part not in ("", UNVOTED, *kinds)}
    page.table(
        f"Percentage of phrases with a correct region among the first K: one with an IoU of {MIN_IOU} or "
        f"more with the phrase's {first.about['convention']}. The proposals set the upper bound. The "
        "baselines below the runs need no training.",
        Table(["", *METRICS], [[name, *numbers(row, METRICS)] for name, row in rows.items()]),
    )
    if kinds:
        columns = [f"{each.name} {name}" for each in runs for name in METRICS]
        by_kind = [
            [
                kind,
                f"{first.rows[kind]['phrases']:,}",
                *(cell for each in runs for cell in numbers(each.result.rows[kind], METRICS)),
            ]
            for kind in kinds
        ]
        page.table("Recall by kind of phrase.", Table(["", "phrases", *columns], by_kind))


def add_boxes(page: Page, runs: Sequence[Grounded], pictures: Pictures) -> None:
    """Add random phrases with their true box and the best region of each run."""
    count = len(runs[0].corpus.sentences)
    draw = np.random.default_rng(SEED)
    chosen = draw.choice(count, min(_SAMPLED, count), replace=False).tolist()
    page.section("Phrases and boxes")
    for each in runs:
        page.figure(
            f"Random phrases (seed {SEED}), and where {each.name} finds them: the true box (dashed), "
            "the best region (solid), and their IoU, with a tick if the region is correct.",
            *(_card(each, pictures, phrase) for phrase in chosen),
            class_="cards",
        )


def _card(grounded: Grounded, pictures: Pictures, number: int) -> Html:
    phrase = grounded.corpus.sentences[number]
    best = best_box(grounded.subject, number)
    size = np.tile(grounded.corpus.images[phrase.image].size, 2)
    frames = [Frame((phrase.box / size).tolist(), "true")]
    overlap = 0.0
    if best is not None:
        frames.append(Frame((best / size).tolist(), "found"))
        overlap = float(region_overlaps([best[None]], [phrase.boxes])[0][0])
    right = overlap >= MIN_IOU
    verdict = tag("span", f"{'✓' if right else '✗'} IoU {overlap:.2f}", class_="number")
    below = tag("p", joined([tag("q", phrase.text), verdict]))
    return tag("div", pictures.show(phrase.image, frames), below, class_="right" if right else None)
