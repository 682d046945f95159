"""What a report shows of runs that ground phrases: recalls, curves, and boxes over their images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seesay.data.boxes import iou
from seesay.data.phrases import PhraseCorpus
from seesay.protocols.grounding import LEAST_IOU, MEASURES, baselines, grounding_recall
from seesay.protocols.measure import rank_proposals
from seesay.report.breakdown import recall_curve
from seesay.report.html import Html, Page, joined, tag
from seesay.report.pictures import Frame, Pictures
from seesay.report.plots import recall_curves
from seesay.report.queries import SEED
from seesay.report.subject import Tell
from seesay.results.columns import number
from seesay.runs.phrase_inputs import phrase_inputs
from seesay.runs.run import Run

_DRAWN = 12  # phrases
_MOST = 100  # K

Boxes = Sequence[NDArray[np.float32]]


@dataclass(frozen=True)
class Grounded:
    """A run on a split of phrases.

    Attributes:
        name: unlike any other's of the report.
        run: that ranked.
        corpus: the split.
        ranked: for each phrase its image's proposals, best first, (r, 4).
        measured: what `grounding_recall` says, and its baselines.
    """

    name: str
    run: Run
    corpus: PhraseCorpus
    ranked: Boxes
    measured: Mapping[str, Any]


def ground_subjects(
    runs: Sequence[Run], names: Sequence[str], corpus: PhraseCorpus, split: str, tell: Tell
) -> list[Grounded]:
    """Every run on a split of phrases.

    Raises:
        SeesayError: the split is empty, or no image of it can be decoded.
    """
    found = []
    for at, (run, name) in enumerate(zip(runs, names, strict=True), start=1):
        tell(f"{at}/{len(runs)} {name}")
        inputs = phrase_inputs(run.recipe, corpus, split, run.vocabulary, run.sentence_encoder)
        ranked, part = rank_proposals(run, inputs), inputs.corpus
        given = [inputs.regions[i].boxes[: inputs.proposals[i]] for i in part.image_of_phrase()]
        measured = grounding_recall(ranked, part.phrases) | {"baselines": baselines(given, part)}
        found.append(Grounded(name, run, part, ranked, measured))
    return found


def add_grounding(page: Page, found: Sequence[Grounded]) -> None:
    """Recalls beside those of no matcher, at every K, and by kind."""
    page.section("Recall")
    first = found[0].measured
    rows = {each.name: each.measured for each in found} | first["baselines"]
    page.table(
        f"Phrases with a right region among the first K, in percent: one with an IoU of {LEAST_IOU} or "
        f"more with the phrase's {first['convention']}. The upper bound is the proposals'. Below the runs "
        "stands what needs no matcher.",
        ["", *MEASURES],
        [[name, *(number(row.get(column)) for column in MEASURES)] for name, row in rows.items()],
    )
    curves = {each.name: {"phrases": recall_curve(first_right(each), _MOST)} for each in found}
    told = "; ".join(
        f"{name} {ways['phrases'][0]:.0f} at 1, {ways['phrases'][-1]:.0f} at {_MOST}"
        for name, ways in curves.items()
    )
    page.figure(f"Recall at K = 1 to {_MOST}.", recall_curves(curves, f"Recall at K in percent: {told}."))
    if kinds := first["by kind"]:
        columns = [f"{each.name} {name}" for each in found for name in MEASURES]
        cells = {
            kind: [number(each.measured["by kind"][kind][name]) for each in found for name in MEASURES]
            for kind in kinds
        }
        rows_of = [[kind, f"{kinds[kind]['n']:,}", *cells[kind]] for kind in kinds]
        page.table("Recall by kind of phrase.", ["", "phrases", *columns], rows_of)


def first_right(found: Grounded) -> NDArray[np.int64]:
    """For each phrase the zero-based rank of its first right region; as many as there are where none is."""
    first = np.empty(len(found.ranked), np.int64)
    for at, (boxes, phrase) in enumerate(zip(found.ranked, found.corpus.phrases, strict=True)):
        right = np.flatnonzero(_overlaps(boxes, phrase.box) >= LEAST_IOU)
        first[at] = right[0] if right.size else np.iinfo(np.int64).max
    return first


def _overlaps(boxes: NDArray[np.float32], truth: NDArray[np.float32]) -> NDArray[np.float32]:
    return iou(boxes, truth[None])[:, 0]


def add_boxes(page: Page, found: Sequence[Grounded], pictures: Pictures) -> None:
    """Some phrases with their true box and the first that each run finds."""
    corpus = found[0].corpus
    draw = np.random.default_rng(SEED)
    chosen = draw.choice(len(corpus.phrases), min(_DRAWN, len(corpus.phrases)), replace=False).tolist()
    page.section("Phrases and boxes")
    for each in found:
        cards = (_card(each, pictures, number_) for number_ in chosen)
        says = f"Phrases drawn at random (seed {SEED}), and where {each.name} finds them: "
        key = (
            "the true box in dashes, the found one in a whole line, and their IoU; ticked where it is right."
        )
        page.figure(says + key, *cards, class_="cards")


def _card(found: Grounded, pictures: Pictures, phrase: int) -> Html:
    named, corpus = found.corpus.phrases[phrase], found.corpus
    size = np.tile(corpus.sizes[named.image], 2)
    frames = [Frame((named.box / size).tolist(), "true")]
    boxes = found.ranked[phrase]
    overlap = 0.0
    if len(boxes):
        frames.append(Frame((boxes[0] / size).tolist(), "found"))
        overlap = float(_overlaps(boxes[:1], named.box)[0])
    right = overlap >= LEAST_IOU
    told = joined(
        [tag("q", named.text), tag("span", f"{'✓' if right else '✗'} IoU {overlap:.2f}", class_="number")]
    )
    return tag("div", pictures.of(named.image, frames), tag("p", told), class_="right" if right else None)
