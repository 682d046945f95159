"""Phrase localization in a report: recalls, curves, and boxes over images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seesay.data.corpus import Corpus
from seesay.metrics.grounding_recall import METRICS, MIN_IOU, first_right, region_overlaps
from seesay.protocols.base import PROTOCOLS, Metrics, Result
from seesay.protocols.evaluate import measure, subject_of
from seesay.protocols.grounding import (
    UNVOTED,
    proposal_scores,
    proposed_boxes,
    ranked_boxes,
)
from seesay.protocols.subject import RunSubject
from seesay.report.page import Frame, Page, Pictures
from seesay.report.plots import recall_curves
from seesay.report.queries import SEED
from seesay.report.retrieval import Tell, recall_curve
from seesay.results.formats import Table, numbers
from seesay.results.html import Html, joined, tag
from seesay.runs.run import Run

_SAMPLED = 12  # phrases
_MAX_K = 100


@dataclass(frozen=True)
class Grounded:
    """A run on a split of phrases."""

    name: str  # unique in the report
    run: Run
    corpus: Corpus  # the split
    result: Result
    first: NDArray[np.float64]  # see `first_right`
    best: Sequence[tuple[NDArray[np.float32], float] | None]  # the best region of each phrase and its IoU


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
        result = measure(subject, "grounding")
        inputs = subject.inputs
        phrases = inputs.corpus.sentences
        scores = proposal_scores(run, inputs)
        ranked = ranked_boxes(run, proposed_boxes(inputs), scores)
        overlaps = region_overlaps(ranked, [phrase.boxes for phrase in phrases])
        top = [int(np.argmax(some)) if len(some) else None for some in scores]
        best = [
            None if at is None else (boxes[at], float(overlap[at]))
            for at, boxes, overlap in zip(top, ranked, overlaps, strict=True)
        ]
        found.append(Grounded(name, run, inputs.corpus, result, first_right(scores, overlaps), best))
    return found


def add_grounding(page: Page, runs: Sequence[Grounded]) -> None:
    """Add the recalls, with baselines, at every K, and by kind of phrase."""
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
    curves = {
        each.name: {"phrases": recall_curve(np.minimum(each.first, _MAX_K).astype(np.int64), _MAX_K)}
        for each in runs
    }
    ends = "; ".join(
        f"{name} {ways['phrases'][0]:.0f} at 1, {ways['phrases'][-1]:.0f} at {_MAX_K}"
        for name, ways in curves.items()
    )
    page.figure(f"Recall at K = 1 to {_MAX_K}.", recall_curves(curves, f"Recall at K in percent: {ends}."))
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
    phrases = runs[0].corpus.sentences
    draw = np.random.default_rng(SEED)
    chosen = draw.choice(len(phrases), min(_SAMPLED, len(phrases)), replace=False).tolist()
    page.section("Phrases and boxes")
    for each in runs:
        page.figure(
            f"Random phrases (seed {SEED}), and where {each.name} finds them: the true box (dashed), "
            "the best region (solid), and their IoU, with a tick if the region is correct.",
            *(_card(each, pictures, phrase) for phrase in chosen),
            class_="cards",
        )


def _card(grounded: Grounded, pictures: Pictures, number: int) -> Html:
    phrase, best = grounded.corpus.sentences[number], grounded.best[number]
    size = np.tile(grounded.corpus.images[phrase.image].size, 2)
    frames = [Frame((phrase.box / size).tolist(), "true")]
    if best is not None:
        frames.append(Frame((best[0] / size).tolist(), "found"))
    overlap = best[1] if best is not None else 0.0
    right = overlap >= MIN_IOU
    verdict = tag("span", f"{'✓' if right else '✗'} IoU {overlap:.2f}", class_="number")
    below = tag("p", joined([tag("q", phrase.text), verdict]))
    return tag("div", pictures.show(phrase.image, frames), below, class_="right" if right else None)
