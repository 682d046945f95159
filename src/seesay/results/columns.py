"""What a row of a table shows: its measures by column, measured or published.

In both directions of retrieval S stands for sentence retrieval (image query), I for image retrieval
(sentence query). Protocols with one direction have their recalls, and what else they measure.
Composition has, for each kind of reordering, how often the true order scores higher, and by how many
standard deviations. K-shot has mR by K. Graded relevance has, for both directions, nDCG, R-precision and
mAP@R; agreement with people has Kendall's τ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev
from string import capwords
from typing import Any

from seesay.metrics.recall import MEASURES
from seesay.results.published import PublishedRecalls, PublishedRow, published_recalls, published_rows

Published = PublishedRow | PublishedRecalls
Figures = dict[str, float | None]

SENTENCE, IMAGE = "sentence_retrieval", "image_retrieval"
MEDIAN_RANK = "Med r"
_ONE_DIRECTION = (*MEASURES, "upper bound", "mAP", "image mAP", "nDCG@25", "tau-b", "tau-c")
BY_KIND, TRUE_ORDER, DIFFERENCE = "by kind", "true order", "difference"  # of composition
BY_K, BY_FREQUENCY = "by K", "by frequency"  # of K-shot
BY_DIRECTION = "by direction"  # of graded relevance
_PLOTTED = ("R@1", "%")  # how the headings of columns end that a plot shows
_PUBLISHED_AS = {"grounding": "phrase-localization"}  # where the measured protocol has a name of its own


def figures(row: Mapping[str, Any]) -> Figures:
    """A measured row's numbers by column, of whichever protocol."""
    if SENTENCE in row:
        return _both(row[SENTENCE], row[IMAGE], row["mR"])
    if is_composition(row):
        kinds = row[BY_KIND].items()
        shares = {f"{kind}: {TRUE_ORDER} %": values[TRUE_ORDER] for kind, values in kinds}
        return shares | {f"{kind}: {DIFFERENCE}": values[DIFFERENCE] for kind, values in kinds}
    if BY_K in row:
        return {f"{k}-shot mR": values.get("mR") for k, values in row[BY_K].items()}
    if BY_DIRECTION in row:
        ways = row[BY_DIRECTION].items()
        return {
            f"{way[0].upper()} {name}": value
            for way, of in ways
            for name, value in of.items()
            if name != "queries" and not name.endswith("by chance")
        }
    return {name: row[name] for name in _ONE_DIRECTION if row.get(name) is not None}


def is_composition(row: Mapping[str, Any]) -> bool:
    """Whether a measured row is of the composition protocol, whose measures are by kind."""
    return any(TRUE_ORDER in values for values in row.get(BY_KIND, {}).values())


def is_plotted(column: str) -> bool:
    """Whether a plot of a table shows that column."""
    return column.endswith(_PLOTTED)


def published_figures(row: Published) -> Figures:
    """A published row's numbers by column; None where the paper prints none."""
    if isinstance(row, PublishedRow):
        return _both(row.sentence_retrieval, row.image_retrieval, row.mean_recall)
    return dict(row.recalls)


def find_published(
    name: str, corpus: str, protocol: str, table: tuple[str, int] | None = None
) -> Published | None:
    """The published row of a system, by its printed name or its recipe's; None where there is none.

    Args:
        name: the system's or the recipe's.
        corpus: on which it was measured.
        protocol: as measured rows name it.
        table: source and number, where it must be that table's.
    """
    wanted = name.casefold()
    for row in _published(corpus, protocol):
        known = {row.system.casefold(), (row.recipe or row.system).casefold()}
        if wanted in known and table in (None, (row.source, row.table)):
            return row
    return None


def is_published(corpus: str, protocol: str, table: tuple[str, int]) -> bool:
    """Whether that table of a paper has rows on that corpus."""
    return any((row.source, row.table) == table for row in _published(corpus, protocol))


def sources(rows: Iterable[Published], corpus: str | None = None) -> str:
    """Which tables of which papers rows are from, and of which corpus where that is not the one given."""
    tables: dict[tuple[str, str | None], set[int]] = {}
    for row in rows:
        there = row.corpus if corpus not in (None, row.corpus) else None
        tables.setdefault((row.source, there), set()).add(row.table)
    return "; ".join(
        f"{source}, table{'s' * (len(numbers) > 1)} {', '.join(map(str, sorted(numbers)))}"
        + (f", on {corpus_title(there)}" if there else "")
        for (source, there), numbers in tables.items()
    )


def spread(values: Sequence[float]) -> str:
    """Mean ± standard deviation, or the one value."""
    mean = number(fmean(values))
    return f"{mean} ± {stdev(values):.1f}" if len(values) > 1 else mean


def number(value: float | None) -> str:
    """One decimal; a dash for what is not known."""
    return "–" if value is None else f"{value:.1f}"


def spreads(rows: Sequence[Mapping[str, Any]], columns: Iterable[str]) -> list[str]:
    """Each column over rows that differ in their seed alone."""
    shown = [figures(row) for row in rows]
    known = ([value for f in shown if (value := f.get(column)) is not None] for column in columns)
    return [spread(values) if values else number(None) for values in known]


def conventions(rows: Iterable[Mapping[str, Any]]) -> str:
    """How boxes were compared, in a sentence; empty for rows that compare none."""
    used = {f"{row['convention']}, IoU {row['IoU']}" for row in rows if "convention" in row}
    return f"Right at IoU ≥ 0.5; several boxes: {'; '.join(sorted(used))}." if used else ""


def corpus_title(name: str) -> str:
    """A corpus' name in prose: Flickr30k Entities."""
    return capwords(name.replace("-", " ")).replace("Coco", "COCO")


def features(row: Mapping[str, Any]) -> str:
    """What a measured row saw of the images, and what the command line changed."""
    return ", ".join([image_features(row), *changes_of(row)])


def image_features(row: Mapping[str, Any]) -> str:
    """The encoders of a measured row, and their crops."""
    return ", ".join(part for part in (row["encoder"], row.get("crops")) if part)


def changes_of(row: Mapping[str, Any]) -> list[str]:
    """What the command line changed of a measured row's recipe, but for the seed, which is the row's own."""
    return [change for change in row.get("changes") or () if not change.startswith("seed=")]


def markdown(columns: Sequence[str], lines: Iterable[Sequence[str]], left: Iterable[str]) -> str:
    """A Markdown table; columns not named in `left` stand right."""
    rules = ["---" if column in left else "---:" for column in columns]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (columns, rules, *lines))


def _both(
    sentence: Mapping[str, float | None], image: Mapping[str, float | None], mean: float | None
) -> Figures:
    ways = (("S", sentence), ("I", image))
    return {f"{way} {name}": values[name] for way, values in ways for name in MEASURES} | {"mR": mean}


def _published(corpus: str, protocol: str) -> list[Published]:
    named = _PUBLISHED_AS.get(protocol, protocol)
    both = [row for row in published_rows(corpus) if row.protocol == named]
    return [*both, *published_recalls(named, corpus)]
