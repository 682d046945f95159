"""Tables for a page about the published rows: every row with seesay's recipe of it, or what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from seesay.errors import SeesayError
from seesay.results.columns import Published, corpus_title, markdown, number, published_figures, sources
from seesay.results.published import PublishedScores, all_rows, papers, published_scores

SUMMARY, MISSING = "summary", "missing"


def published_block(of: str) -> str:
    """A Markdown block of the page.

    Args:
        of: `summary`, the papers and how many of their rows have a recipe; `missing`, the systems without
            one and why; or a paper's file, all of its rows.

    Raises:
        SeesayError: there is no such block.
    """
    if of == SUMMARY:
        return _summary()
    if of == MISSING:
        return _missing()
    if of not in papers():
        names = ", ".join((SUMMARY, MISSING, *papers()))
        raise SeesayError(f"published rows: no block '{of}'; there are {names}.")
    source = papers()[of]["source"]
    rows = [row for row in all_rows() if row.source == source]
    blocks = [_table(number, list(same)) for number, same in groupby(rows, key=lambda row: row.table)]
    blocks += [_scores(scores) for scores in published_scores() if scores.source == source]
    return "\n".join(blocks)


def _summary() -> str:
    lines = []
    for paper in papers().values():
        rows = [row for row in all_rows() if row.source == paper["source"]]
        tables = sorted({row.table for row in rows})
        expressed = sum(_expressed(row) for row in rows)
        names = ", ".join(map(str, tables))
        lines.append([paper["source"], names, str(len(rows)), str(expressed), str(len(rows) - expressed)])
    totals = [str(sum(int(line[column]) for line in lines)) for column in (2, 3, 4)]
    headings = ["paper", "tables", "rows", "with a recipe", "without"]
    return markdown(headings, [*lines, ["all", "", *totals]], left=("paper", "tables"))


def _missing() -> str:
    """Systems that are printed under several names, or in several papers, are one line."""
    systems: dict[str, list[Published]] = {}
    for row in all_rows():
        if row.missing and not _expressed(row):
            systems.setdefault(row.missing, []).append(row)
    lines = [
        [", ".join(dict.fromkeys(row.system for row in rows)), sources(rows), missing]
        for missing, rows in systems.items()
    ]
    return markdown(headings := ["system", "printed in", "missing"], lines, left=headings)


def _table(table: int, rows: Sequence[Published]) -> str:
    columns = list(dict.fromkeys(column for row in rows for column in published_figures(row)))
    shown = [c for c in columns if any(published_figures(row).get(c) is not None for row in rows)]
    named = len({(row.corpus, row.protocol) for row in rows}) > 1
    lines = []
    for row in rows:
        figures = published_figures(row)
        on = [f"{corpus_title(row.corpus)}, {row.protocol}"] if named else []
        lines.append([row.system, *on, *(number(figures.get(column)) for column in shown), _in_seesay(row)])
    headings = ["system", *(["measured on"] if named else []), *shown, "in seesay"]
    left = ("system", "measured on", "in seesay")
    title = f"**Table {table}**" + ("" if named else f", {corpus_title(rows[0].corpus)}, {rows[0].protocol}")
    notes = dict.fromkeys(f"- {row.system}: {row.note}.\n" for row in rows if row.note)
    return f"{title}\n\n{markdown(headings, lines, left)}\n" + ("".join(notes) + "\n" if notes else "")


def _scores(scores: PublishedScores) -> str:
    lines = [[name, *(f"{value:.2f}" for value in row)] for name, row in scores.rows.items()]
    table = markdown(["sentence", *scores.systems], lines, left=("sentence",))
    return f"**Table {scores.table}**: {scores.about}\n\n{table}\n"


def _in_seesay(row: Published) -> str:
    if not _expressed(row):
        return "–"
    recipe = f"`{row.recipe or row.counterpart}`"
    return f"{recipe}, without {row.missing}" if row.missing else recipe


def _expressed(row: Published) -> bool:
    return (row.recipe or row.counterpart) is not None
