"""One evaluation on a terminal, with the published row of the same system beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from seesay.metrics.recall import MEASURES
from seesay.results.columns import (
    BY_DIRECTION,
    BY_FREQUENCY,
    BY_K,
    BY_KIND,
    SENTENCE,
    figures,
    is_composition,
    number,
)
from seesay.results.published import PublishedRow, published_row
from seesay.results.terminal_relevance import graded_report, said_beside
from seesay.results.terminal_uncertainty import drawn, interval, interval_row, uncertainty_tables


def print_report(
    result: Mapping[str, Any],
    system: str | None,
    corpus: str,
    differences: Sequence[str] = (),
    console: Console | None = None,
) -> None:
    """Print an evaluation beside what was published for the same system and corpus, and what differs.

    Args:
        result: the object of `evaluate_scores`.
        system: the system's name in the paper or its recipe's, if it has one.
        corpus: the corpus' name.
        differences: how the measured run departs from the paper, in words: encoder, crops.
        console: where to print; standard output without it.
    """
    if is_composition(result):
        (console or Console()).print(composition_report(result, system))
        return
    if BY_K in result:
        (console or Console()).print(k_shot_report(result, system))
        return
    if BY_DIRECTION in result:
        (console or Console()).print(graded_report(result, _title(result), system))
        return
    if SENTENCE not in result:
        (console or Console()).print(one_direction_report(result, system))
        return
    published = published_row(system, corpus, result["protocol"]) if system else None
    (console or Console()).print(evaluation_report(result, system, published, differences))


def one_direction_report(result: Mapping[str, Any], system: str | None = None) -> Group:
    """What `print_report` prints of a protocol with one direction: phrases, or sentence to sentence."""
    rows = {f"{system}, measured" if system else "measured": result}
    rows |= result.get("baselines", {}) | result.get("by kind", {})
    columns = figures(result)
    table = Table(title=_title(result), title_justify="left")
    table.add_column("")
    for name in columns:
        table.add_column(name, justify="right")
    for label, row in rows.items():
        table.add_row(label, *(number(row.get(name)) for name in columns))
        if told := row.get("intervals"):
            table.add_row(*interval_row(told, told, columns))
    return Group(table, Text("\n".join(filter(None, (said_beside(result), drawn(result))))))


def composition_report(result: Mapping[str, Any], system: str | None = None) -> Group:
    """What `print_report` prints of composition: a row a kind of reordering."""
    table = Table(title=_title(result), title_justify="left")
    table.add_column(f"{system}, measured" if system else "measured")
    for name in ("true order higher, %", "± s.e.", "ties, %", "by, s.d.", "pairs", "left out"):
        table.add_column(name, justify="right")
    for kind, row in result[BY_KIND].items():
        shares = (number(row[name]) for name in ("true order", "standard error", "ties"))
        counts = (str(row[name]) for name in ("n", "left out"))
        table.add_row(kind, *shares, _signed(row["difference"]), *counts)
        if told := row.get("intervals"):
            by = interval(told["difference"], " to ", 2) if told["difference"] else "–"
            table.add_row(f"{told['level']} %", interval(told["true order"]), "", "", by)
    first = "A tie counts half. Left out: sentences without two different words, or without two nouns."
    lines = dict.fromkeys((first, *map(drawn, result[BY_KIND].values())))
    return Group(table, Text("\n".join(filter(None, lines))))


def k_shot_report(result: Mapping[str, Any], system: str | None = None) -> Group:
    """What `print_report` prints of K-shot: a row a K, then a row a band of word frequencies."""
    tables = []
    heading = f"{system}, measured" if system else "measured"
    for title, key, label in (
        (_title(result), BY_K, heading),
        ("By the frequency in training of a sentence's rarest word", BY_FREQUENCY, "frequency"),
    ):
        table = Table(title=title, title_justify="left")
        table.add_column(label)
        counts = [name for name in ("N", "sentences", "images") if name in next(iter(result[key].values()))]
        columns = [f"{way} {name}" for way in "SI" for name in MEASURES[:3]]
        known = any("intervals" in row for row in result[key].values())
        for name in (*counts, *columns, "mR", *(["95 % of mR"] if known else [])):
            table.add_column(name, justify="right")
        for name, row in result[key].items():
            shown = figures(row) if SENTENCE in row else {}
            cells = [
                *(str(row[count]) for count in counts),
                *(number(shown.get(c)) for c in (*columns, "mR")),
                *([interval(row["intervals"]["mR"])] if "intervals" in row else []),
            ]
            table.add_row(f"K = {name}" if key == BY_K else name, *cells)
        tables.append(table)
    words = result["words"]
    lines = [
        "N: words of the split that occur at most K times in training. Queries are the sentences that hold",
        "one and their images, candidates the whole split. S: sentence retrieval, I: image retrieval.",
        f"Of the split's {words['words']} words {words['below 10']:.1f} % occur less than ten times in "
        f"training, {words['at most 1']:.1f} % at most once.",
    ]
    if auc := result.get("gate AUC"):
        told = ", ".join(f"{name}s {'–' if value is None else f'{value:.3f}'}" for name, value in auc.items())
        lines.append(f"The gate tells those of K = 3 with an AUC of: {told}.")
    return Group(*tables, Text("\n".join(lines)))


def evaluation_report(
    result: Mapping[str, Any],
    system: str | None = None,
    published: PublishedRow | None = None,
    differences: Sequence[str] = (),
) -> Group:
    """The table and the lines that `print_report` prints."""
    table = Table(title=_title(result), title_justify="left")
    for name in ("", "retrieval"):
        table.add_column(name)
    for name in (*MEASURES, "mR"):
        table.add_column(name, justify="right")
    for label, row in (result.get("baselines", {}) | _members(result)).items():
        _add_rows(table, label, row["sentence_retrieval"], row["image_retrieval"], row["mR"])
    reranked = "shortlist" in result
    label = "re-ranked" if reranked else result.get("combined") or "measured"
    label = f"{system}, {label}" if system and not reranked else label
    _add_rows(table, label, result["sentence_retrieval"], result["image_retrieval"], result["mR"])
    lines = list(result.get("notes", ()))
    if reranked:
        lines.append(gain_and_cost(result))
    elif published is not None:
        label = f"{published.system}, {published.source}"
        ways = (published.sentence_retrieval, published.image_retrieval)
        _add_rows(table, label, *ways, published.mean_recall)
        lines.append(what_differs(result, published, differences))
    return Group(table, *uncertainty_tables(result), *(Text(line) for line in lines))


def _members(result: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """An ensemble's members by name, with their weights where these were learned."""
    weights = result.get("weights", {})
    return {
        f"{name}, weight {weights[name]:.2f}" if name in weights else name: row
        for name, row in result.get("members", {}).items()
    }


def gain_and_cost(result: Mapping[str, Any]) -> str:
    """What re-ranking gained and cost, in two lines."""
    cost = result["cost"]
    return (
        f"Re-ranked: the best {result['shortlist']} of each query, {cost['pairs']:,} pairs; mR "
        f"{result['gain']:+.1f}.\nImage features at hand, a query takes on average "
        f"{cost['embedding_ms']:.2f} ms by the embedding, and {cost['rerank_ms']:.2f} more to be re-ranked."
    )


def what_differs(result: Mapping[str, Any], published: PublishedRow, differences: Sequence[str] = ()) -> str:
    """What stands between a measured row and the published one, in a line or a few."""
    named = list(differences)
    for name, here, there in (
        ("protocol", result["protocol"], published.protocol),
        ("split", result["split"], "test"),
    ):
        if here != there:
            named.append(f"{name} {here}, published {there}")
    features = ", ".join(part for part in (published.encoder, published.crops) if part)
    lines = [f"What differs: {'; '.join(named)}." if named else "Nothing known differs."]
    if features:
        lines.append(f"The paper's images: {features}.")
    if published.note:
        lines.append(f"The paper's row: {published.note}.")
    return "\n".join(lines)


def _title(result: Mapping[str, Any]) -> str:
    counts = {"images": "images", "sentences": "sentences", "n": "phrases"}
    sizes = ", ".join(f"{result[key]} {name}" for key, name in counts.items() if key in result)
    title = f"{result['split']}: {sizes}, {result['protocol']}"
    if without := result.get("images_without_sentences"):
        title += f"; {without} images without sentences are candidates only"
    if cut := result.get("cut_sentences"):
        title += f"; {cut} sentences longer than {result['max_length']} words, cut"
    return title


def _add_rows(
    table: Table,
    label: str,
    sentence: Mapping[str, float | None],
    image: Mapping[str, float | None],
    mean: float | None,
) -> None:
    """One row a direction; mR, which is of both, stands in the first."""
    table.add_row(label, "sentence", *(_number(sentence[name]) for name in MEASURES), _number(mean))
    table.add_row("", "image", *(_number(image[name]) for name in MEASURES), end_section=True)


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{round(value, 2) + 0.0:+.2f}"  # no -0.00


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"
