"""Markdown tables of the documentation, made from results files and the published rows.

A document contains blocks that this module fills:

    <!-- table: flickr8k split=test recipes=irmatch-h,irmatch-s -->
    <!-- /table -->

The first word names a file of the results folder. `split`, `protocol` and `recipes` choose rows, `beside`
names the corpus whose published rows are shown below them, and `benchmark` a benchmark of `benchmarks.jsonl`.
`definition` names a table of `seesay table`, whose measured rows are shown, or some of them (`rows`), and
`metrics` its columns. `orders=a<b,b<c:batch_size=250` shows by how much recipes are above others, over runs
of the same seeds. A changed recipe is named as in a shipped table, or by its name and a change without a
comma. With `beside`, the differences that papers print are also shown. `falls=a,b to=0-shot` shows by how
much recipes fall from the standard protocol to another. `published of=...` shows what papers print: all rows
of a paper, named by its file, a `summary` of how many have a recipe, or the rows for which one is `missing`,
and why. A value with spaces, such as the name of an ensemble, is quoted.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any

from seesay.errors import SeesayError, did_you_mean
from seesay.paths import replace_text
from seesay.protocols.grounding import conventions
from seesay.recipes.table import corpus_title, load_table
from seesay.results.formats import Table, numbers, spread
from seesay.results.paper_table import recorded_table
from seesay.results.published import (
    PublishedRow,
    find_published,
    papers,
    published_rows,
    sources,
)
from seesay.results.records import Row, read_rows, repetitions
from tools.orders import falls_table, orders_table, read_claims
from tools.variants import row_name

_OPTIONS = (
    "split", "protocol", "recipes", "beside", "benchmark", "definition", "rows", "metrics", "of", "orders",
    "falls", "to",
)  # fmt: skip
_BLOCK = re.compile(r"(<!-- table: (?P<spec>[^\n]*?) -->\n)(?P<body>.*?)(<!-- /table -->)", re.DOTALL)


def results_table(
    rows: Sequence[Row],
    corpus: str,
    split: str = "test",
    protocol: str = "standard",
    recipes: Sequence[str] = (),
    beside: str | None = None,
) -> str:
    """Return measured rows of a corpus, each above the published row of its system, as a Markdown table.

    Rows that differ only in their seed become one: mean ± standard deviation. By default all recipes are
    shown, best first; `beside` is another corpus, whose published rows are shown.

    Raises:
        SeesayError: no row is left, or one of `recipes` has none.
    """
    groups = _groups(rows, corpus, split, protocol, recipes)
    columns = list(groups[0][0].shown)
    lines = []
    for group, following in zip(groups, [*groups[1:], None], strict=True):
        lines.append(_measured_line(group, columns))
        origin = group[0]
        if split != "test" or (following and following[0].recipe == origin.recipe):
            continue
        if published := find_published(origin.system or origin.recipe, beside or corpus, protocol):
            lines.append(_published_line(published, columns, beside not in (None, corpus)))
    headings = ["system", *columns, "encoder"]
    table = Table(headings, lines, words={0, len(headings) - 1}).markdown()
    convention = conventions(row.about for group in groups for row in group)
    return f"{table}\n{convention}\n" if convention else table


def benchmark_table(path: Path, benchmark: str) -> str:
    """Return one benchmark's recorded rows as a Markdown table, with the machine below it.

    Raises:
        SeesayError: the file has no row of it.
    """
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    rows = [row for row in map(json.loads, lines) if row["benchmark"] == benchmark]
    if not rows:
        raise SeesayError(f"{path}: no row of benchmark '{benchmark}'; run it with --record.")
    columns = [key for key in rows[0] if key not in ("benchmark", "machine", "date")]
    words = {at for at, key in enumerate(columns) if isinstance(rows[0][key], str)}
    cells = [[_plain(row.get(key)) for key in columns] for row in rows]
    return f"{Table(columns, cells, words=words).markdown()}\n{rows[0]['machine']}; {rows[0]['date']}.\n"


def refresh(document: Path, results: Path, *, check: bool = False) -> bool:
    """Fill every table block of a document from the results folder; return True if any changed.

    With `check` nothing is written.

    Raises:
        SeesayError: a block names something that does not exist.
    """
    before = document.read_text(encoding="utf-8")
    after = _BLOCK.sub(lambda b: f"{b[1]}\n{_table(b['spec'], results, document)}\n{b[4]}", before)
    if after == before:
        return False
    if not check:
        replace_text(document, after)
    return True


def _table(spec: str, results: Path, document: Path) -> str:
    try:
        name, *choices = shlex.split(spec)
    except ValueError as error:
        raise SeesayError(f"{document}: table '{spec}': {error}; close the quotes.") from error
    chosen = dict(choice.partition("=")[::2] for choice in choices)
    for key in chosen:
        if key not in _OPTIONS:
            near = did_you_mean(key, _OPTIONS) or "."
            raise SeesayError(f"{document}: table '{spec}': no option '{key}'{near}")
    if name == "published":
        return published_block(chosen.get("of", ""))
    path = results / f"{name}.jsonl"
    if "benchmark" in chosen:
        return benchmark_table(path, chosen["benchmark"])
    if "definition" in chosen:
        metrics = tuple(filter(None, chosen.get("metrics", "").split(",")))
        definition = load_table(chosen["definition"]).only([*filter(None, chosen.get("rows", "").split(","))])
        table = recorded_table(definition, path, chosen.get("split", "test"), metrics)
        table.lines = [line for line in table.lines if line.rows]
        if not table.lines:
            raise SeesayError(f"Table {definition.name}: no row is measured on {table.corpus}.")
        return table.table().markdown()
    if "orders" in chosen:
        claims = read_claims(chosen.pop("orders"))
        return orders_table(read_rows(path), claims, **chosen)
    if "falls" in chosen:
        return falls_table(read_rows(path), chosen.pop("falls").split(","), **chosen)
    recipes = chosen.pop("recipes", "")
    return results_table(read_rows(path), name, recipes=recipes.split(",") if recipes else (), **chosen)


def _groups(
    rows: Sequence[Row], corpus: str, split: str, protocol: str, recipes: Sequence[str]
) -> list[list[Row]]:
    """Return the rows to show, in their order, grouped by all but the seed."""
    chosen = [row for row in rows if (row.split, row.protocol) == (split, protocol)]
    missing = set(recipes) - {row.recipe for row in chosen}
    if missing or not chosen:
        what = f"recipe '{min(missing)}'" if missing else "any recipe"
        raise SeesayError(
            f"Results of {corpus}: no row of {what} on {split} by '{protocol}'; measure it first."
        )
    groups = repetitions(row for row in chosen if not recipes or row.recipe in recipes)
    if recipes:
        return sorted(groups, key=lambda group: recipes.index(group[0].recipe))
    return sorted(groups, key=lambda group: -fmean(row.monitor for row in group))


def _measured_line(group: Sequence[Row], columns: Sequence[str]) -> list[str]:
    system = f"`{row_name(group[0])}`" + (f", {len(group)} seeds" if len(group) > 1 else "")
    measured = [row.shown for row in group]
    cells = (
        spread([value for row in measured if (value := row.get(column)) is not None]) for column in columns
    )
    return [system, *cells, ", ".join([group[0].features, *group[0].variant])]


def _published_line(row: PublishedRow, columns: Sequence[str], elsewhere: bool) -> list[str]:
    source = f"{row.source}, table {row.table}" + (f", on {corpus_title(row.corpus)}" if elsewhere else "")
    return [f"{row.system} ({source})", *numbers(row.metrics, columns), row.images]


def _plain(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


SUMMARY, MISSING = "summary", "missing"


def published_block(of: str) -> str:
    """Return the Markdown of `published of=...`; see the module.

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
    blocks = [
        _printed_table(number, list(rows)) for number, rows in groupby(paper.rows, key=lambda row: row.table)
    ]
    return "\n".join([*blocks, *map(_scores, paper.scores)])


def _summary() -> str:
    lines, totals = [], [0, 0, 0]
    for paper in papers().values():
        tables = sorted({row.table for row in paper.rows})
        expressed = sum(_recipe_of(row) is not None for row in paper.rows)
        counts = [len(paper.rows), expressed, len(paper.rows) - expressed]
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
        lines.append([paper.source, ", ".join(map(str, tables)), *map(str, counts)])
    headings = ["paper", "tables", "rows", "with a recipe", "without"]
    return Table(headings, [*lines, ["all", "", *map(str, totals)]], words={0, 1}).markdown()


def _missing() -> str:
    """List the systems without a recipe, one line for all that lack the same."""
    systems: dict[str, list[PublishedRow]] = {}
    for row in published_rows():
        if row.missing and _recipe_of(row) is None:
            systems.setdefault(row.missing, []).append(row)
    lines = [
        [", ".join(dict.fromkeys(row.system for row in rows)), sources(rows), missing]
        for missing, rows in systems.items()
    ]
    return Table(["system", "printed in", "missing"], lines, words={0, 1, 2}).markdown()


def _printed_table(table: int, rows: Sequence[PublishedRow]) -> str:
    columns = dict.fromkeys(column for row in rows for column in row.metrics)
    shown = [column for column in columns if any(row.metrics.get(column) is not None for row in rows)]
    several = len({(row.corpus, row.protocol) for row in rows}) > 1
    measured_on = [f"{corpus_title(row.corpus)}, {row.protocol}" for row in rows]
    lines = [
        [
            row.system,
            *([on] if several else []),
            *numbers(row.metrics, shown),
            _in_seesay(row),
        ]
        for row, on in zip(rows, measured_on, strict=True)
    ]
    headings = ["system", *(["measured on"] if several else []), *shown, "in seesay"]
    title = f"**Table {table}**" + ("" if several else f", {measured_on[0]}")
    notes = dict.fromkeys(f"- {row.system}: {row.note}.\n" for row in rows if row.note)
    words = {0, len(headings) - 1, *([1] if several else [])}
    filled = Table(headings, lines, words=words).markdown()
    return f"{title}\n\n{filled}\n" + ("".join(notes) + "\n" if notes else "")


def _scores(scores: Mapping[str, Any]) -> str:
    lines = [[name, *(f"{value:.2f}" for value in row)] for name, row in scores["rows"].items()]
    table = Table(["sentence", *scores["systems"]], lines).markdown()
    return f"**Table {scores['table']}**: {scores['about']}\n\n{table}\n"


def _recipe_of(row: PublishedRow) -> str | None:
    """The recipe of the system, if seesay has one."""
    return row.recipe or row.counterpart


def _in_seesay(row: PublishedRow) -> str:
    recipe = _recipe_of(row)
    if recipe is None:
        return "–"
    return f"`{recipe}`" + (f", without {row.missing}" if row.missing else "")
