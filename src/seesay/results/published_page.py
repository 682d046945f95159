"""Tables of the page about published rows: each with seesay's recipe of it, or what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from seesay.errors import SeesayError
from seesay.recipes.table import corpus_title
from seesay.results.figures import markdown, number
from seesay.results.published import PublishedRow, PublishedScores, papers, published_rows, sources

SUMMARY, MISSING = "summary", "missing"


def published_block(of: str) -> str:
    """Return a Markdown block of the page.

    `summary` counts the papers' rows that have a recipe, `missing` lists the systems without one and why, and
    the name of a paper's file gives all of its rows.

    Raises:
        SeesayError: there is no such block.
    """
    if of == SUMMARY:
        return _summary()
    if of == MISSING:
        return _missing()
    if of not in papers():
        names = ", ".join((SUMMARY, MISSING, *papers()))
        raise SeesayError(f"Published rows: no block '{of}'; there are {names}.")
    paper = papers()[of]
    blocks = [_table(number, list(rows)) for number, rows in groupby(paper.rows, key=lambda row: row.table)]
    return "\n".join([*blocks, *map(_scores, paper.scores)])


def _summary() -> str:
    lines, totals = [], [0, 0, 0]
    for paper in papers().values():
        tables = sorted({row.table for row in paper.rows})
        expressed = sum(_recipe(row) is not None for row in paper.rows)
        counts = [len(paper.rows), expressed, len(paper.rows) - expressed]
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
        lines.append([paper.source, ", ".join(map(str, tables)), *map(str, counts)])
    headings = ["paper", "tables", "rows", "with a recipe", "without"]
    return markdown(headings, [*lines, ["all", "", *map(str, totals)]], left=("paper", "tables"))


def _missing() -> str:
    """Systems printed under several names, or in several papers, are one line."""
    systems: dict[str, list[PublishedRow]] = {}
    for row in published_rows():
        if row.missing and _recipe(row) is None:
            systems.setdefault(row.missing, []).append(row)
    lines = [
        [", ".join(dict.fromkeys(row.system for row in rows)), sources(rows), missing]
        for missing, rows in systems.items()
    ]
    return markdown(headings := ["system", "printed in", "missing"], lines, left=headings)


def _table(table: int, rows: Sequence[PublishedRow]) -> str:
    columns = dict.fromkeys(column for row in rows for column in row.figures)
    shown = [column for column in columns if any(row.figures.get(column) is not None for row in rows)]
    several = len({(row.corpus, row.protocol) for row in rows}) > 1
    measured_on = [f"{corpus_title(row.corpus)}, {row.protocol}" for row in rows]
    lines = [
        [
            row.system,
            *([on] if several else []),
            *(number(row.figures.get(column)) for column in shown),
            _in_seesay(row),
        ]
        for row, on in zip(rows, measured_on, strict=True)
    ]
    headings = ["system", *(["measured on"] if several else []), *shown, "in seesay"]
    title = f"**Table {table}**" + ("" if several else f", {measured_on[0]}")
    notes = dict.fromkeys(f"- {row.system}: {row.note}.\n" for row in rows if row.note)
    filled = markdown(headings, lines, left=("system", "measured on", "in seesay"))
    return f"{title}\n\n{filled}\n" + ("".join(notes) + "\n" if notes else "")


def _scores(scores: PublishedScores) -> str:
    lines = [[name, *(f"{value:.2f}" for value in row)] for name, row in scores.rows.items()]
    table = markdown(["sentence", *scores.systems], lines, left=("sentence",))
    return f"**Table {scores.table}**: {scores.about}\n\n{table}\n"


def _in_seesay(row: PublishedRow) -> str:
    recipe = _recipe(row)
    if recipe is None:
        return "–"
    return f"`{recipe}`, without {row.missing}" if row.missing else f"`{recipe}`"


def _recipe(row: PublishedRow) -> str | None:
    return row.recipe or row.counterpart
