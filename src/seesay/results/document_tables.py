"""Tables of the docs, made from results files.

A document holds a block that this module fills:

    <!-- table: flickr8k split=test recipes=irmatch-h,irmatch-s -->
    <!-- /table -->

The first word names a file of the results folder. `split`, `protocol` and `recipes` choose rows, `beside`
the corpus whose published rows stand under them, and `benchmark` one of `benchmarks.jsonl`. `definition`
names a table of `seesay table`, of which the block holds the rows that are measured, and `measures` its
columns. The first word `published` is for what the papers printed, and `of` for which of it
(`published_page`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from seesay.errors import SeesayError
from seesay.paths import replace_text
from seesay.recipes.table import load_table
from seesay.results.columns import (
    Published,
    conventions,
    corpus_title,
    features,
    figures,
    find_published,
    markdown,
    number,
    published_figures,
    spreads,
)
from seesay.results.published_page import published_block
from seesay.results.recorded import recorded_table
from seesay.results.rows import kind, read_rows
from seesay.results.table_formats import markdown_lines

_CHOICES = {"split", "protocol", "recipes", "beside", "benchmark", "definition", "measures", "of"}
_BLOCK = re.compile(r"(<!-- table: (?P<spec>[^\n]*?) -->\n)(?P<body>.*?)(<!-- /table -->)", re.DOTALL)


def results_table(
    rows: Sequence[Mapping[str, Any]],
    corpus: str,
    split: str = "test",
    protocol: str = "standard",
    recipes: Sequence[str] = (),
    beside: str | None = None,
) -> str:
    """Measured rows, each with the published row of the same system under it, as a Markdown table.

    Rows that differ in their seed alone become one: mean ± standard deviation. Columns are those of
    `figures`; recalls in percent.

    Args:
        rows: rows of one results file.
        corpus: whose they are.
        split: the split to show.
        protocol: the protocol to show.
        recipes: which recipes, in this order; all by falling mR (R@1 in one direction) without it.
        beside: another corpus, whose published rows to put beside; they then say so.

    Raises:
        SeesayError: no row is left, or one of `recipes` has none.
    """
    groups = _groups(rows, corpus, split, protocol, recipes)
    columns = list(figures(groups[0][0]))
    lines = []
    for position, group in enumerate(groups):
        lines.append(_measured_line(group, columns))
        following = groups[position + 1][0]["recipe"] if position + 1 < len(groups) else None
        if split != "test" or following == group[0]["recipe"]:
            continue
        system = group[0].get("system") or group[0]["recipe"]
        if published := find_published(system, beside or corpus, protocol):
            lines.append(_published_line(published, columns, beside not in (None, corpus)))
    table = markdown(("system", *columns, "encoder"), lines, left=("system", "encoder"))
    named = conventions(row for group in groups for row in group)
    return f"{table}\n{named}\n" if named else table


def benchmark_table(path: Path, benchmark: str) -> str:
    """One benchmark's recorded rows as a Markdown table, with the machine below it.

    Raises:
        SeesayError: the file holds no row of it.
    """
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    rows = [row for row in map(json.loads, lines) if row["benchmark"] == benchmark]
    if not rows:
        raise SeesayError(f"{path}: no row of benchmark '{benchmark}'; run it with --record.")
    stamp = {"benchmark", "machine", "date"}
    columns = [key for key in rows[0] if key not in stamp]
    left = [key for key in columns if isinstance(rows[0][key], str)]
    cells = [[_plain(row.get(key)) for key in columns] for row in rows]
    return f"{markdown(columns, cells, left)}\n{rows[0]['machine']}; {rows[0]['date']}.\n"


def refresh(document: Path, results: Path, *, check: bool = False) -> bool:
    """Fill every table block of a document from the results folder; True if one had to change.

    Args:
        document: a Markdown file.
        results: the folder of results files.
        check: only look, write nothing.

    Raises:
        SeesayError: a block names what is not there.
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
    if unknown := set(chosen) - _CHOICES:
        raise SeesayError(
            f"{document}: table '{spec}': no choice '{min(unknown)}'; there are {sorted(_CHOICES)}."
        )
    if name == "published":
        return published_block(chosen.get("of", ""))
    path = results / f"{name}.jsonl"
    if "benchmark" in chosen:
        return benchmark_table(path, chosen["benchmark"])
    if "definition" in chosen:
        measures = tuple(filter(None, chosen.get("measures", "").split(",")))
        split, definition = chosen.get("split", "test"), load_table(chosen["definition"])
        table = recorded_table(definition, path, split, measures)
        return markdown_lines(table.only_measured(), names=False)
    recipes = chosen.pop("recipes", "")
    return results_table(read_rows(path), name, recipes=recipes.split(",") if recipes else (), **chosen)


def _groups(
    rows: Sequence[Mapping[str, Any]], corpus: str, split: str, protocol: str, recipes: Sequence[str]
) -> list[list[Mapping[str, Any]]]:
    """The rows to show, in their order; those that differ in their seed alone together."""
    chosen = [row for row in rows if row["split"] == split and row["protocol"] == protocol]
    missing = set(recipes) - {row["recipe"] for row in chosen}
    if missing or not chosen:
        what = f"recipe '{min(missing)}'" if missing else "any recipe"
        raise SeesayError(
            f"results of {corpus}: no row of {what} on split '{split}' by '{protocol}'; measure it first."
        )
    groups = _by_seed(row for row in chosen if not recipes or row["recipe"] in recipes)
    if recipes:
        groups.sort(key=lambda group: recipes.index(group[0]["recipe"]))
    else:
        groups.sort(key=lambda group: -_worth(group))
    return groups


def _by_seed(rows: Iterable[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Rows that differ in nothing but the seed, together."""
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(kind(row), []).append(row)
    return list(groups.values())


def _worth(group: Sequence[Mapping[str, Any]]) -> float:
    """What rows are ordered by: mR, or the first column where there is one direction."""
    return fmean(row["mR"] if "mR" in row else next(iter(figures(row).values())) or 0.0 for row in group)


def _measured_line(group: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> list[str]:
    system = f"`{group[0]['recipe']}`" + (f", {len(group)} seeds" if len(group) > 1 else "")
    return [system, *spreads(group, columns), features(group[0])]


def _published_line(row: Published, columns: Sequence[str], elsewhere: bool) -> list[str]:
    printed = published_figures(row)
    source = f"{row.source}, table {row.table}" + (f", on {corpus_title(row.corpus)}" if elsewhere else "")
    seen = ", ".join(part for part in (row.encoder, row.crops) if part)
    return [f"{row.system} ({source})", *(number(printed.get(column)) for column in columns), seen]


def _plain(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
