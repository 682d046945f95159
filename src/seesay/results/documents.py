"""Tables of the documentation, made from results files.

A document holds blocks that this module fills:

    <!-- table: flickr8k split=test recipes=irmatch-h,irmatch-s -->
    <!-- /table -->

The first word names a file of the results folder. `split`, `protocol` and `recipes` choose rows, `beside`
names the corpus whose published rows are shown below them, and `benchmark` names a benchmark of
`benchmarks.jsonl`. `definition` names a table of `seesay table`, whose measured rows are shown, and
`measures` its columns. `published of=...` shows what papers print (`published_page`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from seesay.errors import SeesayError, did_you_mean
from seesay.paths import replace_text
from seesay.recipes.table import corpus_title, load_table
from seesay.results.figures import conventions, markdown, number, spread, values_of
from seesay.results.formats import markdown_table
from seesay.results.published import PublishedRow, find_published
from seesay.results.published_page import published_block
from seesay.results.rows import Row, read_rows, repetitions
from seesay.results.tables import recorded_table

_OPTIONS = ("split", "protocol", "recipes", "beside", "benchmark", "definition", "measures", "of")
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

    Rows that differ only in their seed become one: mean ± standard deviation. `recipes` are shown in their
    order, and all by falling figure by default; `beside` is another corpus whose published rows to show.

    Raises:
        SeesayError: no row is left, or one of `recipes` has none.
    """
    groups = _groups(rows, corpus, split, protocol, recipes)
    columns = list(groups[0][0].result.columns())
    lines = []
    for group, following in zip(groups, [*groups[1:], None], strict=True):
        lines.append(_measured_line(group, columns))
        origin = group[0].provenance
        if split != "test" or (following and following[0].provenance.recipe == origin.recipe):
            continue
        if published := find_published(origin.system or origin.recipe, beside or corpus, protocol):
            lines.append(_published_line(published, columns, beside not in (None, corpus)))
    table = markdown(("system", *columns, "encoder"), lines, left=("system", "encoder"))
    convention = conventions(row.result for group in groups for row in group)
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
    left = [key for key in columns if isinstance(rows[0][key], str)]
    cells = [[_plain(row.get(key)) for key in columns] for row in rows]
    return f"{markdown(columns, cells, left)}\n{rows[0]['machine']}; {rows[0]['date']}.\n"


def refresh(document: Path, results: Path, *, check: bool = False) -> bool:
    """Fill every table block of a document from the results folder; return True if one had to change.

    With `check` nothing is written.

    Raises:
        SeesayError: a block names something that does not exist.
    """
    before = document.read_text(encoding="utf-8")
    after = _BLOCK.sub(
        lambda block: f"{block[1]}\n{_table(block['spec'], results, document)}\n{block[4]}", before
    )
    if after == before:
        return False
    if not check:
        replace_text(document, after)
    return True


def _table(spec: str, results: Path, document: Path) -> str:
    name, *choices = spec.split()
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
        measures = tuple(filter(None, chosen.get("measures", "").split(",")))
        table = recorded_table(load_table(chosen["definition"]), path, chosen.get("split", "test"), measures)
        return markdown_table(table.only_measured(), names=False)
    recipes = chosen.pop("recipes", "")
    return results_table(read_rows(path), name, recipes=recipes.split(",") if recipes else (), **chosen)


def _groups(
    rows: Sequence[Row], corpus: str, split: str, protocol: str, recipes: Sequence[str]
) -> list[list[Row]]:
    """The rows to show, in their order, grouped by all but the seed."""
    chosen = [row for row in rows if (row.result.split, row.result.protocol) == (split, protocol)]
    missing = set(recipes) - {row.provenance.recipe for row in chosen}
    if missing or not chosen:
        what = f"recipe '{min(missing)}'" if missing else "any recipe"
        raise SeesayError(
            f"Results of {corpus}: no row of {what} on split '{split}' by '{protocol}'; measure it first."
        )
    groups = repetitions(row for row in chosen if not recipes or row.provenance.recipe in recipes)
    if recipes:
        return sorted(groups, key=lambda group: recipes.index(group[0].provenance.recipe))
    return sorted(groups, key=lambda group: -fmean(row.result.monitor for row in group))


def _measured_line(group: Sequence[Row], columns: Sequence[str]) -> list[str]:
    origin = group[0].provenance
    system = f"`{origin.recipe}`" + (f", {len(group)} seeds" if len(group) > 1 else "")
    figures = [row.result.columns() for row in group]
    cells = (spread(values_of(figures, column)) for column in columns)
    return [system, *cells, ", ".join([group[0].features, *group[0].changes])]


def _published_line(row: PublishedRow, columns: Sequence[str], elsewhere: bool) -> list[str]:
    source = f"{row.source}, table {row.table}" + (f", on {corpus_title(row.corpus)}" if elsewhere else "")
    figures = (number(row.figures.get(column)) for column in columns)
    return [f"{row.system} ({source})", *figures, row.images]


def _plain(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
