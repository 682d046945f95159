"""A result on a terminal, with the published row of the same system beside it.

Any result is shown by its columns. A function registered with `details` for a result class adds what single
protocols show beside these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from typing import TypeVar

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from seesay.protocols.agreement import REPORTED, AgreementResult
from seesay.protocols.base import Part, Result, RetrievalResult, read_result
from seesay.protocols.composition import CompositionResult
from seesay.protocols.concepts import ConceptResult
from seesay.protocols.graded import GradedResult
from seesay.protocols.grounding import GroundingResult
from seesay.protocols.k_shot import ChosenQueries, FewShot, KShotResult
from seesay.protocols.within_modality import ImageToImageResult
from seesay.results.published import PublishedRow, find_published
from seesay.results.tables import Figures, conventions, number

_WAYS = {"S": "sentence", "I": "image"}  # how the columns of each direction of retrieval begin
_COUNTS = {"images": "images", "sentences": "sentences", "n": "phrases"}

T = TypeVar("T")


def print_result(
    result: Result,
    system: str | None = None,
    corpus: str = "",
    differences: Sequence[str] = (),
    console: Console | None = None,
) -> None:
    """Print a result beside the published row of the same system on the same corpus.

    Args:
        result: the result.
        system: the printed name of the system, or the name of its recipe.
        corpus: the name of the corpus.
        differences: how the measured run differs from the paper, in words.
        console: standard output by default.
    """
    console, more = console or Console(), details(result)
    reranked = isinstance(result, RetrievalResult) and result.shortlist is not None
    published = None
    if system and not reranked:
        published = find_published(system, corpus, result.protocol, any_protocol=True)
    parts: list[RenderableType] = [Text(_title(result), "italic")]
    parts += more.tables or [_figures_table(result, more, system, published)]
    if any(result.interval(column) or result.difference(column) for column in result.columns()):
        parts.append(_uncertainty_table(result))
    lines = [*(result.notes or ()), *more.notes]
    if published is not None:
        lines += what_differs(result, published, differences)
    console.print(Group(*parts, *map(Text, lines)))


def what_differs(result: Result, published: PublishedRow, differences: Sequence[str] = ()) -> list[str]:
    """Describe the known differences between a measured and a published row, as lines."""
    named = list(differences)
    for name, here, there in (
        ("protocol", result.protocol, published.protocol),
        ("split", result.split, "test"),
    ):
        if here != there:
            named.append(f"{name} {here}, published {there}")
    lines = [f"What differs: {'; '.join(named)}." if named else "Nothing known differs."]
    lines += [f"The paper's images: {published.images}."] if published.images else []
    return lines + ([f"The paper's row: {published.note}."] if published.note else [])


def _title(result: Result) -> str:
    values = result.to_dict()
    sizes = ", ".join(f"{values[key]} {name}" for key, name in _COUNTS.items() if key in values)
    title = f"{result.split}: {sizes}, {result.protocol}"
    if without := values.get("images_without_sentences"):
        title += f"; {without} images without sentences are candidates only"
    if result.cut_sentences:
        title += f"; {result.cut_sentences} sentences longer than {result.max_length} words, cut"
    return title


def _figures_table(result: Result, more: Details, system: str | None, paper: PublishedRow | None) -> Table:
    """Return a table of members and baselines, the result, the published row and further parts."""
    columns, weights = result.columns(), result.weights or {}
    rows: dict[str, Figures] = {}
    for name, member in (result.members or {}).items():
        label = f"{name}, weight {weights[name]:.2f}" if name in weights else name
        rows[label] = read_result(member).columns()
    rows |= {name: _figures_of(row, columns) for name, row in more.before.items()}
    label = result.combined or more.label
    rows[f"{system}, {label}" if system else label] = columns
    if paper is not None:
        rows[f"{paper.system}, {paper.source}"] = paper.figures
    rows |= {name: _figures_of(row, columns) for name, row in more.after.items()}
    ways = _by_direction(columns)
    table = Table()
    for name in ("", *(["retrieval"] if len(ways) > 1 else [])):
        table.add_column(name)
    measures = list(dict.fromkeys(name for way in ways.values() for name in way))
    for name in measures:
        table.add_column(name, justify="right")
    for label, figures in rows.items():
        known = _by_direction({column: figures.get(column) for column in columns})
        for position, (way, values) in enumerate(known.items()):
            cells = (number(values[name]) if name in values else "" for name in measures)
            first = label if position == 0 else ""
            last = len(known) > 1 and position == len(known) - 1
            table.add_row(first, *([way] if len(ways) > 1 else []), *cells, end_section=last)
    return table


def _uncertainty_table(result: Result) -> Table:
    """Return a row for each column: its interval, and its difference from the result compared with."""
    compared = result.against
    title = "95 % intervals, the images drawn with all their queries"
    if compared is not None:
        title = f"Compared with {compared.name} on the same queries; {title}"
    table = Table(title=title, title_justify="left")
    for name in ("", "figure", "95 %", *(("theirs", "difference", "95 %", "p") if compared else ())):
        table.add_column(name, justify="right" if name else "left")
    for column, value in result.columns().items():
        ends, found = result.interval(column), result.difference(column)
        if ends is None and found is None:
            continue
        cells = [_plain(value), _interval(ends, "–")]
        if found is not None:
            p = "–" if found.p is None else f"{found.p:.3f}" if found.p >= 0.001 else "<0.001"
            signed = _plain(found.difference, "+")
            cells += [_plain(found.theirs), signed, _interval(found.interval, " to "), p]
        table.add_row(column, *cells)
    return table


def _figures_of(row: Part, columns: Figures) -> Figures:
    """Return the figures of another row, under the columns of the result."""
    if isinstance(row, Result):
        return row.columns()
    values = row.model_dump(by_alias=True)
    return {column: values.get(column) for column in columns}


def _by_direction(columns: Mapping[str, T]) -> dict[str, dict[str, T]]:
    """Split columns by direction of retrieval; others, such as mR, go with the first."""
    ways: dict[str, dict[str, T]] = {}
    for column, value in columns.items():
        way, _, name = column.partition(" ")
        if way in _WAYS and name:
            ways.setdefault(_WAYS[way], {})[name] = value
        else:
            ways.setdefault(next(iter(ways), ""), {})[column] = value
    return ways


def _plain(value: float | None, sign: str = "") -> str:
    """Format with one decimal, or two below 1."""
    if value is None:
        return "–"
    return f"{value:{sign}.1f}" if abs(value) >= 1 or value == 0 else f"{value:{sign}.2f}"


def _interval(ends: tuple[float, float] | None, between: str) -> str:
    return between.join(map(_plain, ends)) if ends else "–"


_JUDGEMENTS = {"expert": "three rows a pair", "crowdflower": "the share of yes"}


@dataclass(frozen=True)
class Details:
    """Parts of a result that are shown beside its columns."""

    before: Mapping[str, Part] = field(default_factory=dict)  # rows above it, by their label
    after: Mapping[str, Part] = field(default_factory=dict)  # rows below it
    tables: Sequence[Table] = ()  # in place of the one of the columns
    notes: Sequence[str] = ()  # below the tables
    label: str = "measured"  # of the result's own row


@singledispatch
def details(_: Result) -> Details:
    """Return the details of a result."""
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
