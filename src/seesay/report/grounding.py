"""Phrase localization in a report: recalls, and boxes over images as in the two-branch paper's Figure 2."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seesay.metrics.grounding_recall import METRICS, MIN_IOU, region_overlaps
from seesay.protocols.base import Metrics
from seesay.protocols.grounding import UNVOTED, best_box
from seesay.protocols.subject import RunSubject
from seesay.report.page import Frame, Page, Pictures
from seesay.report.queries import SEED, Measured
from seesay.results.formats import Html, Table, joined, numbers, tag

_SAMPLED = 12  # phrases


def add_grounding(page: Page, runs: Sequence[Measured]) -> None:
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


def add_boxes(page: Page, runs: Sequence[Measured]) -> None:
    """Add random phrases with their true box and the best region of each run."""
    corpus = runs[0].subject.corpus
    pictures = Pictures(corpus.images, [image.name for image in corpus.images])
    draw, count = np.random.default_rng(SEED), len(corpus.sentences)
    chosen = draw.choice(count, min(_SAMPLED, count), replace=False).tolist()
    page.section("Phrases and boxes")
    for each in runs:
        assert isinstance(each.subject, RunSubject)
        page.figure(
            f"Random phrases (seed {SEED}), and where {each.name} finds them: the true box (dashed), "
            "the best region (solid), and their IoU, with a tick if the region is correct.",
            *(_card(each.subject, pictures, phrase) for phrase in chosen),
            class_="cards",
        )


def _card(subject: RunSubject, pictures: Pictures, number: int) -> Html:
    phrase, best = subject.corpus.sentences[number], best_box(subject, number)
    size = np.tile(subject.corpus.images[phrase.image].size, 2)
    frames, overlap = [Frame((phrase.box / size).tolist(), "true")], 0.0
    if best is not None:
        frames.append(Frame((best / size).tolist(), "found"))
        overlap = float(region_overlaps([best[None]], [phrase.boxes])[0][0])
    right = overlap >= MIN_IOU
    verdict = tag("span", f"{'✓' if right else '✗'} IoU {overlap:.2f}", class_="number")
    below = tag("p", joined([tag("q", phrase.text), verdict]))
    return tag("div", pictures.show(phrase.image, frames), below, class_="right" if right else None)
