"""On a terminal: graded relevance, agreement with people, image to image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from seesay.results.columns import BY_DIRECTION, number
from seesay.results.terminal_uncertainty import drawn, interval_row


def graded_report(result: Mapping[str, Any], title: str, system: str | None = None) -> Group:
    """A row a direction, and what counted as relevant and as right."""
    table = Table(title=title, title_justify="left")
    for name in (f"{system}, measured" if system else "measured", "retrieval"):
        table.add_column(name)
    ways = result[BY_DIRECTION]
    names = [name for name in next(iter(ways.values())) if name != "queries"]
    for name in (*names, "queries"):
        table.add_column("by chance" if name.endswith("by chance") else name, justify="right")
    for way, row in ways.items():
        cells = (number(row[name]) for name in names)
        table.add_row("", way.removesuffix(" retrieval"), *cells, str(row["queries"]))
        if told := result.get("intervals"):
            table.add_row("", *interval_row(told, told[BY_DIRECTION][way], names))
    right = "the image's own sentences, the sentence's own image"
    if result["answers"] == "given":
        right = f"those of the file, {result['left out']} names of which are not in the split"
    lines = f"nDCG: relevance is {result['relevance']}. R-precision, mAP@R, R@1: right answers are {right}."
    return Group(table, Text("\n".join(filter(None, (lines, drawn(result))))))


def said_beside(result: Mapping[str, Any]) -> str:
    """What a row of one direction needs said below it; empty for most protocols."""
    if "judgements" in result:
        of = {"expert": ("tau-c", "three rows a pair"), "crowdflower": ("tau-b", "the share of yes")}
        tau, rows = of[result["judgements"]]
        lines = [
            f"Kendall's τ × 100 between scores and judgements ({result['judgements']}: {rows}); the field "
            f"reports {tau}.",
            f"{result['pairs']} pairs, {result['ratings']} judgements.",
        ]
        for why, count in result["left out"].items():
            lines.append(f"Left out, {why}: {count}, such as {', '.join(result['examples'][why][:2])}.")
        return "\n".join(lines)
    if "answered" in result:
        return (
            f"R@K, Med r: of the {result['queries']} images ({result['answered']:.1f} %) that share a "
            f"sentence, by its content words, with another.\nnDCG: of all; relevance is "
            f"{result['relevance']} between their sentences; by chance {number(result['nDCG@25 by chance'])}."
        )
    return ", ".join(f"{key}: {result[key]}" for key in ("convention", "IoU") if key in result)
