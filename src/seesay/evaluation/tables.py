"""Tables of the docs, made from results files.

A document holds a block that this module fills:

    <!-- table: flickr8k split=test recipes=irmatch-h,irmatch-s -->
    <!-- /table -->

The first word names a file of the results folder. `split`, `protocol` and `recipes` choose rows, and
`benchmark` one of `benchmarks.jsonl`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from seesay.errors import SeesayError
from seesay.evaluation.published import PublishedRow, published_row
from seesay.evaluation.recall import MEASURES
from seesay.evaluation.results import kind, read_rows
from seesay.paths import replace_text

_WAYS = ("sentence_retrieval", "image_retrieval")
_COLUMNS = ("system", *(f"{way} {name}" for way in ("S", "I") for name in MEASURES), "mR", "encoder")
_CHOICES = {"split", "protocol", "recipes", "benchmark"}
_BLOCK = re.compile(r"(<!-- table: (?P<spec>[^\n]*?) -->\n)(?P<body>.*?)(<!-- /table -->)", re.DOTALL)


def results_table(
    rows: Sequence[Mapping[str, Any]],
    corpus: str,
    split: str = "test",
    protocol: str = "standard",
    recipes: Sequence[str] = (),
) -> str:
    """Measured rows, each with the published row of the same system under it, as a Markdown table.

    Rows that differ in their seed alone become one: mean ± standard deviation. S is sentence retrieval
    (image query), I image retrieval (sentence query); recalls in percent.

    Args:
        rows: rows of one results file.
        corpus: whose published rows to put beside.
        split: the split to show.
        protocol: the protocol to show.
        recipes: which recipes, in this order; all by falling mR without it.

    Raises:
        SeesayError: no row is left, or one of `recipes` has none.
    """
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
        groups.sort(key=lambda group: -fmean(row["mR"] for row in group))
    lines = []
    for position, group in enumerate(groups):
        lines.append(_measured_line(group))
        last_of_recipe = (
            position + 1 == len(groups) or groups[position + 1][0]["recipe"] != group[0]["recipe"]
        )
        published = published_row(group[0].get("system") or group[0]["recipe"], corpus)
        if last_of_recipe and published and published.protocol == protocol and split == "test":
            lines.append(_published_line(published))
    return _markdown(_COLUMNS, lines, left=("system", "encoder"))


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
    return f"{_markdown(columns, cells, left)}\n{rows[0]['machine']}; {rows[0]['date']}.\n"


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
    path = results / f"{name}.jsonl"
    if "benchmark" in chosen:
        return benchmark_table(path, chosen["benchmark"])
    recipes = chosen.pop("recipes", "")
    return results_table(read_rows(path), name, recipes=recipes.split(",") if recipes else (), **chosen)


def _by_seed(rows: Iterable[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Rows that differ in nothing but the seed, together."""
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(kind(row), []).append(row)
    return list(groups.values())


def _measured_line(group: Sequence[Mapping[str, Any]]) -> list[str]:
    first = group[0]
    system = f"`{first['recipe']}`" + (f", {len(group)} seeds" if len(group) > 1 else "")
    numbers = [_spread([row[way][name] for row in group]) for way in _WAYS for name in MEASURES]
    changes = [change for change in first.get("changes") or () if not change.startswith("seed=")]
    features = ", ".join(part for part in (first["encoder"], first.get("crops"), *changes) if part)
    return [system, *numbers, _spread([row["mR"] for row in group]), features]


def _published_line(row: PublishedRow) -> list[str]:
    numbers = [
        _number(way[name]) for way in (row.sentence_retrieval, row.image_retrieval) for name in MEASURES
    ]
    features = ", ".join(part for part in (row.encoder, row.crops) if part)
    return [f"{row.system} ({row.source}, table {row.table})", *numbers, _number(row.mean_recall), features]


def _spread(values: Sequence[float]) -> str:
    mean = _number(fmean(values))
    return f"{mean} ± {stdev(values):.1f}" if len(values) > 1 else mean


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def _plain(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) and abs(value) < 1000 else str(value)


def _markdown(columns: Sequence[str], lines: Iterable[Sequence[str]], left: Iterable[str]) -> str:
    rules = ["---" if column in left else "---:" for column in columns]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (columns, rules, *lines))
