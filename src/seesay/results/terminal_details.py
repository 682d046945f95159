"""What single protocols show on a terminal beside their columns.

A function registered with `details` for a result class adds to what `terminal` shows of every result. A
protocol whose columns say it all needs none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatch

from rich.table import Table

from seesay.protocols.agreement import REPORTED, AgreementResult
from seesay.protocols.base import Part, Result, RetrievalResult
from seesay.protocols.composition import CompositionResult
from seesay.protocols.concepts import ConceptResult
from seesay.protocols.graded import GradedResult
from seesay.protocols.grounding import GroundingResult
from seesay.protocols.image_to_image import ImageToImageResult
from seesay.protocols.k_shot import ChosenQueries, FewShot, KShotResult
from seesay.results.figures import conventions, number

_JUDGEMENTS = {"expert": "three rows a pair", "crowdflower": "the share of yes"}


@dataclass(frozen=True)
class Details:
    """What is shown beside the columns of a result."""

    before: Mapping[str, Part] = field(default_factory=dict)  # rows above it, by their label
    after: Mapping[str, Part] = field(default_factory=dict)  # rows below it
    tables: Sequence[Table] = ()  # in place of the one of the columns
    notes: Sequence[str] = ()  # below the tables
    label: str = "measured"  # of the result's own row


@singledispatch
def details(_: Result) -> Details:
    """Return what a result shows beside its columns."""
    return Details()


@details.register
def _(result: RetrievalResult) -> Details:
    before, cost = result.baselines or {}, result.cost
    if cost is None:
        return Details(before)
    notes = [
        f"Re-ranked: the best {result.shortlist} of each query, {cost.pairs:,} pairs; mR {result.gain:+.1f}.",
        "Once images have their features, a query takes on average "
        f"{cost.embedding_ms:.2f} ms by the embedding, and {cost.rerank_ms:.2f} ms more to be re-ranked.",
    ]
    return Details(before, notes=notes, label="re-ranked")


@details.register
def _(result: GroundingResult) -> Details:
    return Details(after={**(result.baselines or {}), **result.by_kind}, notes=[conventions([result])])


@details.register
def _(result: ConceptResult) -> Details:
    return Details(after={**result.baselines, **result.by_kind})


@details.register
def _(result: CompositionResult) -> Details:
    table = _table("", "true order higher, %", "± s.e.", "ties, %", "by, s.d.", "pairs", "left out")
    for kind, row in result.by_kind.items():
        shares = map(number, (row.true_order, row.standard_error, row.ties))
        by = "–" if row.difference is None else f"{round(row.difference, 2) + 0.0:+.2f}"  # no -0.00
        table.add_row(kind, *shares, by, str(row.n), str(row.left_out))
    note = "A tie counts half. Left out: sentences without two different words, or without two nouns."
    return Details(tables=[table], notes=[note])


@details.register
def _(result: KShotResult) -> Details:
    words = result.words
    notes = [
        "N: words of the split that occur at most K times in training. Queries are the sentences with one "
        "and their images, candidates the whole split. S: sentence retrieval, I: image retrieval.",
        f"Of the split's {words['words']} words {words['below 10']:.1f} % occur less than ten times in "
        f"training, {words['at most 1']:.1f} % at most once.",
    ]
    if result.gate_auc:
        areas = (f"{n}s {'–' if v is None else f'{v:.3f}'}" for n, v in result.gate_auc.items())
        notes.append(f"AUC of the gate for telling those of K = 3 from the others: {', '.join(areas)}.")
    by_k = _k_shot_table("", {f"K = {k}": row for k, row in result.by_k.items()})
    by_frequency = _k_shot_table("frequency", result.by_frequency)
    by_frequency.title = "By the frequency in training of a sentence's rarest word"
    return Details(tables=[by_k, by_frequency], notes=notes)


@details.register
def _(result: GradedResult) -> Details:
    right = "the image's own sentences, the sentence's own image"
    if result.answers != "own":
        right = f"those of the file, {result.left_out} names of which are not in the split"
    chance = ", ".join(f"{way} {number(row.by_chance)}" for way, row in result.by_direction.items())
    queries = ", ".join(f"{way} {row.queries}" for way, row in result.by_direction.items())
    gains = f"nDCG: relevance is {result.relevance}; by chance: {chance}."
    answers = f"R-precision, mAP@R, R@1: right answers are {right}; queries with some: {queries}."
    return Details(notes=[gains, answers])


@details.register
def _(result: AgreementResult) -> Details:
    kind = result.judgements
    notes = [
        f"Kendall's τ × 100 between scores and judgements ({kind}: {_JUDGEMENTS[kind]}); the field reports "
        f"{REPORTED[kind]}.",
        f"{result.pairs} pairs, {result.ratings} judgements.",
    ]
    for why, count in result.left_out.items():
        notes.append(f"Left out, {why}: {count}, such as {', '.join(result.examples[why][:2])}.")
    return Details(notes=notes)


@details.register
def _(result: ImageToImageResult) -> Details:
    notes = [
        f"R@K, Med r: of the {result.queries} images ({result.answered:.1f} %) that share a sentence, by its "
        "content words, with another.",
        f"nDCG: of all; relevance is {result.relevance} between their sentences; by chance "
        f"{number(result.by_chance)}.",
    ]
    return Details(notes=notes)


def _k_shot_table(label: str, rows: Mapping[str, ChosenQueries]) -> Table:
    counts = ["N"] if any(isinstance(row, FewShot) for row in rows.values()) else []
    recalls = [f"{way} {name}" for way in "SI" for name in ("R@1", "R@5", "R@10")]
    table = _table(label, *counts, "sentences", "images", *recalls, "mR")
    for name, row in rows.items():
        n = [str(row.n)] if isinstance(row, FewShot) else []
        ways = (row.sentence_retrieval, row.image_retrieval)
        found = [value for way in ways for value in ((way.r1, way.r5, way.r10) if way else [None] * 3)]
        table.add_row(name, *n, str(row.sentences), str(row.images), *map(number, [*found, row.mean_recall]))
    return table


def _table(label: str, *numbers: str) -> Table:
    table = Table(title_justify="left")
    table.add_column(label)
    for name in numbers:
        table.add_column(name, justify="right")
    return table
