"""What single protocols show on a terminal beside their columns.

A function registered for a result class adds to what `terminal` shows of every result; a protocol that needs
no more than its columns needs none.
"""

from __future__ import annotations

from collections.abc import Mapping
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


def heading(result: Result, system: str | None) -> str:
    """Return the label of a result's own row."""
    if isinstance(result, RetrievalResult) and result.shortlist is not None:
        return "re-ranked"
    label = result.combined or "measured"
    return f"{system}, {label}" if system else label


@singledispatch
def rows_before(result: Result) -> Mapping[str, Part]:
    """Return the rows that are shown above the result: the members of an ensemble, baselines."""
    weights = result.weights or {}
    return {
        f"{name}, weight {weights[name]:.2f}" if name in weights else name: type(result).model_validate(
            member
        )
        for name, member in (result.members or {}).items()
    }


@rows_before.register
def _(result: RetrievalResult) -> Mapping[str, Part]:
    return {**(result.baselines or {}), **rows_before.dispatch(Result)(result)}


@singledispatch
def more_rows(result: Result) -> Mapping[str, Part]:
    """Return the rows that are shown below the result: baselines, kinds."""
    return {}


@more_rows.register(GroundingResult)
@more_rows.register(ConceptResult)
def _(result: GroundingResult | ConceptResult) -> Mapping[str, Part]:
    return {**(result.baselines or {}), **result.by_kind}


@singledispatch
def own_tables(result: Result, system: str | None) -> list[Table]:
    """Return the tables that a protocol shows in place of its columns; most show none."""
    return []


@own_tables.register
def _(result: CompositionResult, system: str | None) -> list[Table]:
    table = _table(heading(result, system), "true order higher, %", "± s.e.", "ties, %", "by, s.d.", "pairs")
    table.add_column("left out", justify="right")
    for kind, row in result.by_kind.items():
        shares = map(number, (row.true_order, row.standard_error, row.ties))
        by = "–" if row.difference is None else f"{round(row.difference, 2) + 0.0:+.2f}"  # no -0.00
        table.add_row(kind, *shares, by, str(row.n), str(row.left_out))
    return [table]


@own_tables.register
def _(result: KShotResult, system: str | None) -> list[Table]:
    by_k = {f"K = {k}": row for k, row in result.by_k.items()}
    frequency = _k_shot_table("frequency", result.by_frequency)
    frequency.title = "By the frequency in training of a sentence's rarest word"
    return [_k_shot_table(heading(result, system), by_k), frequency]


@singledispatch
def notes_of(result: Result) -> list[str]:
    """Return what is said below the tables of a result."""
    return []


@notes_of.register
def _(result: RetrievalResult) -> list[str]:
    cost = result.cost
    if cost is None:
        return []
    return [
        f"Re-ranked: the best {result.shortlist} of each query, {cost.pairs:,} pairs; mR {result.gain:+.1f}.",
        "Once images have their features, a query takes on average "
        f"{cost.embedding_ms:.2f} ms by the embedding, and {cost.rerank_ms:.2f} ms more to be re-ranked.",
    ]


@notes_of.register
def _(result: GroundingResult) -> list[str]:
    return [conventions([result])]


@notes_of.register
def _(_: CompositionResult) -> list[str]:
    return ["A tie counts half. Left out: sentences without two different words, or without two nouns."]


@notes_of.register
def _(result: KShotResult) -> list[str]:
    words = result.words
    lines = [
        "N: words of the split that occur at most K times in training. Queries are the sentences with one "
        "and their images, candidates the whole split. S: sentence retrieval, I: image retrieval.",
        f"Of the split's {words['words']} words {words['below 10']:.1f} % occur less than ten times in "
        f"training, {words['at most 1']:.1f} % at most once.",
    ]
    if result.gate_auc:
        areas = (f"{n}s {'–' if v is None else f'{v:.3f}'}" for n, v in result.gate_auc.items())
        lines.append(f"AUC of the gate for telling those of K = 3 from the others: {', '.join(areas)}.")
    return lines


@notes_of.register
def _(result: GradedResult) -> list[str]:
    right = "the image's own sentences, the sentence's own image"
    if result.answers != "own":
        right = f"those of the file, {result.left_out} names of which are not in the split"
    chance = ", ".join(f"{way} {number(row.by_chance)}" for way, row in result.by_direction.items())
    queries = ", ".join(f"{way} {row.queries}" for way, row in result.by_direction.items())
    return [
        f"nDCG: relevance is {result.relevance}; by chance: {chance}.",
        f"R-precision, mAP@R, R@1: right answers are {right}; queries with some: {queries}.",
    ]


@notes_of.register
def _(result: AgreementResult) -> list[str]:
    how = _JUDGEMENTS[result.judgements]
    return [
        f"Kendall's τ × 100 between scores and judgements ({result.judgements}: {how}); the field reports "
        f"{REPORTED[result.judgements]}.",
        f"{result.pairs} pairs, {result.ratings} judgements.",
        *(
            f"Left out, {why}: {count}, such as {', '.join(result.examples[why][:2])}."
            for why, count in result.left_out.items()
        ),
    ]


@notes_of.register
def _(result: ImageToImageResult) -> list[str]:
    return [
        f"R@K, Med r: of the {result.queries} images ({result.answered:.1f} %) that share a sentence, by its "
        "content words, with another.",
        f"nDCG: of all; relevance is {result.relevance} between their sentences; by chance "
        f"{number(result.by_chance)}.",
    ]


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
