"""What the commands print: JSON, or tables and lines for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from seesay.data.summary import CorpusSummary
    from seesay.explain.explanation import Explanation
    from seesay.grounding.ground import Grounding
    from seesay.search.index import Hit, Index
    from seesay.search.rerank import Reranked


def show(result: Any, as_json: bool, for_people: Callable[..., None], *more: Any) -> None:
    """Print a result as JSON, or with the function that prints it for people."""
    if as_json:
        print_json(result)
    else:
        for_people(result, *more)


def print_json(result: Any) -> None:
    """One JSON document on standard output."""
    json.dump(result, sys.stdout, ensure_ascii=False, indent=1)
    sys.stdout.write("\n")


def hit_rows(index: Index, hits: Sequence[Hit]) -> list[dict[str, Any]]:
    """Hits as plain rows: score, and the image's path or the sentence; re-ranked, what the shortlist said."""
    root = index.root()
    rows: list[dict[str, Any]] = []
    for hit in hits:
        row: dict[str, Any] = {"score": round(hit.score, 4)}
        if hit.shortlist_rank is not None and hit.shortlist_score is not None:
            row |= {"shortlist_score": round(hit.shortlist_score, 4), "shortlist_rank": hit.shortlist_rank}
        if hit.path is not None:
            row["path"] = str(root / hit.path) if root else hit.path
        else:
            row["sentence"] = hit.text
        rows.append(row)
    return rows


def print_hits(rows: Sequence[dict[str, Any]], query: str) -> None:
    """The query, then a line a hit; re-ranked, with its place in the shortlist."""
    if sys.stdout.isatty():
        Console().print(Text(query, style="bold"))
    reranked = any("shortlist_rank" in row for row in rows)
    for row in rows:
        was = f"was {row['shortlist_rank']}" if "shortlist_rank" in row else ""
        column = f"{was:<9}" if reranked else ""
        print(f"{row['score']:.3f}  {column}{row.get('path', row.get('sentence'))}")


def tell_reranking(reranked: Reranked) -> None:
    """How many were re-ranked and in what time, and which could not be."""
    now = f", features of {reranked.encoded} computed now" if reranked.encoded else ""
    tell(f"{reranked.compared} re-ranked in {reranked.seconds:.2f} s{now}.")
    if reranked.left:
        tell(f"{len(reranked.left)} could not be re-ranked and stand behind:")
        _list([str(error) for error in reranked.left])


def grounding_row(grounding: Grounding) -> dict[str, Any]:
    """A grounding as plain values: the image's size, and each phrase with its boxes."""
    phrases = [
        {
            "phrase": phrase.text,
            "start": phrase.start,
            "end": phrase.end,
            "known": phrase.known,
            "boxes": [
                {"box": [round(value, 1) for value in place.box], "score": round(place.score, 4)}
                for place in phrase.places
            ],
        }
        for phrase in grounding.phrases
    ]
    return {"width": grounding.width, "height": grounding.height, "phrases": phrases}


def print_grounding(found: dict[str, Any], sentence: str) -> None:
    """The sentence with its phrases coloured, on a terminal; then a line a box."""
    from seesay.grounding.draw import colour

    styles = [f"bold {colour(i)}" for i in range(len(found["phrases"]))]
    out = wide()
    if sys.stdout.isatty():
        coloured = Text(sentence)
        for phrase, style in zip(found["phrases"], styles, strict=True):
            coloured.stylize(style, phrase["start"], phrase["end"])
        out.print(coloured)
    for phrase, style in zip(found["phrases"], styles, strict=True):
        for place in phrase["boxes"]:
            numbers = "  ".join(f"{value:6.0f}" for value in place["box"])
            out.print(
                Text(f"{place['score']:.3f}  {numbers}  "),
                Text(phrase["phrase"], style),
                sep="",
                soft_wrap=True,
            )
        if not phrase["known"]:
            print(f"'{phrase['phrase']}': the run knows no word of it.", file=sys.stderr)


def print_written(rows: Sequence[dict[str, Any]]) -> None:
    """A line a sentence: its log-likelihood, then the sentence."""
    for row in rows:
        print(f"{row['log_likelihood']:7.2f}  {row['sentence']}")


def print_concepts(told: dict[str, Any]) -> None:
    """A line a concept: in how many sentences it stands, what it most often is, and the word."""
    for concept in told["concepts"]:
        print(f"{concept['count']:7}  {concept['part_of_speech']:<9}  {concept['word']}")
    tell(
        f"{len(told['concepts'])} concepts of {told['sentences']} training sentences; "
        f"{told['without']} of these have no content word."
    )
    _tell_fewer(len(told["concepts"]), told["wanted"])


def print_image_concepts(rows: Sequence[dict[str, Any]]) -> None:
    """A line a concept of an image: its score, what it most often is, and the word."""
    for row in rows:
        print(f"{row['score']:.3f}  {row['part_of_speech']:<9}  {row['word']}")


def print_explanation(explanation: Explanation, count: int) -> None:
    """For each reading its score, on a terminal the coloured sentence, and the windows that matter most."""
    from seesay.explain.colours import terminal_style

    out = wide()
    if len(explanation.readings) > 1:
        out.print(Text(f"{explanation.score:.3f}  All of them together", "bold"), soft_wrap=True)
    for reading in explanation.readings:
        out.print(Text(f"{reading.score:.3f}  {reading.title}", "bold"), soft_wrap=True)
        if sys.stdout.isatty():
            pieces = explanation.pieces(reading)
            out.print(Text.assemble(*((text, terminal_style(strength or 0.0)) for text, strength in pieces)))
        strongest = max((abs(window.contribution) for window in reading.windows), default=0.0) or 1.0
        for window in reading.best(count):
            style = terminal_style(window.contribution / strongest)
            line = Text.assemble((f"{window.contribution:+.3f}", style), f"  {explanation.text(window)}")
            out.print(line, soft_wrap=True)
    for note in explanation.notes():
        print(note, file=sys.stderr)


def print_lines(rows: Sequence[dict[str, str]]) -> None:
    """Names with what they are, in two columns."""
    width = max((len(row["name"]) for row in rows), default=0)
    for row in rows:
        print(f"{row['name']:<{width}}  {row['about']}")


def print_training(report: dict[str, Any], folder: Path) -> None:
    """Where the run is, and how well it does on val."""
    monitor = report["monitor"]
    course, best = f"{report.get('epochs')} epochs", f"best on val at epoch {report.get('best_epoch')}, "
    if "members" in report:
        course, best = f"{len(report['members'])} members", "on val "
    print(
        f"{folder}: {report['recipe']}, {course} in {report['seconds']:.0f} s; "
        f"{best}{monitor} {report['best_val'][monitor]:.1f}."
    )
    _print_broken(report["broken_images"])
    if "concepts" in report:
        _tell_fewer(report["concepts"]["kept"], report["concepts"]["wanted"])
    print(f"Next: seesay evaluate {folder}")


def print_update(found: dict[str, Any], folder: Path) -> None:
    """What updating an index met."""
    met = ", ".join(
        f"{found[key]} {key}" for key in ("added", "changed", "moved", "deleted", "unchanged") if found[key]
    )
    print(f"{folder}: {found['images']} images ({met or 'nothing new'}) in {found['seconds']:.1f} s")
    if found["sentences"]:
        print(f"{folder}: {found['sentences']} sentences ({found['sentences_added']} added)")
    _print_broken([f"{path}: {reason}" for path, reason in found["skipped"]])


def print_features(result: dict[str, Any]) -> None:
    """What a store holds now."""
    arrays = ", ".join(f"{name} ({width})" for name, width in result["arrays"].items())
    print(f"{result['store']}: {arrays} of {result['images']} images, {result['encoded']} encoded now")
    _print_broken(result["broken"])


def tell(line: str) -> None:
    """A line about long work, on standard error."""
    print(line, file=sys.stderr, flush=True)


def print_corpus(
    summary: CorpusSummary,
    vocabulary: dict[str, float] | None = None,
    rare_words: dict[str, Any] | None = None,
) -> None:
    """Print the splits of a corpus, its vocabulary and its data-quality issues."""
    table = Table(title=escape(f"{summary.corpus}: {summary.root}"), title_justify="left")
    text = summary.text
    for column in ("split", "images", f"{text}s", f"{text}s per image", f"words per {text}"):
        table.add_column(column, justify="left" if column == "split" else "right")
    for name, split in summary.splits.items():
        spreads = [
            f"{s.min}-{s.max}, mean {s.mean:.1f}" for s in (split.texts_per_image, split.words_per_text)
        ]
        table.add_row(name, str(split.images), str(split.texts), *spreads)
    out = wide()
    out.print(table)
    if vocabulary:
        out.print(
            f"Vocabulary (train): {vocabulary['words']} words, {vocabulary['once']} of them once; "
            f"{vocabulary['unseen_test']:.2f} % of the test words are not among them.",
            highlight=False,
        )
    if rare_words:
        ks = ", ".join(rare_words["uncommon"])
        counts = ", ".join(str(of["N"]) for of in rare_words["uncommon"].values())
        out.print(
            f"Rare words: of {rare_words['words']} test words {rare_words['below 10']:.1f} % occur less than "
            f"ten times in train, {rare_words['at most 1']:.1f} % at most once; "
            f"at most K = {ks} times: {counts}.",
            highlight=False,
        )
    for kind, count in summary.issues.counts.most_common():
        line = f"{count} × {kind}, such as {'; '.join(summary.issues.examples[kind][:3])}"
        out.print(line, highlight=False, markup=False)


def wide() -> Console:
    """Standard output; piped, a table must not be folded to the eighty columns of no terminal."""
    return Console(width=None if sys.stdout.isatty() else 140)


def _print_broken(broken: Sequence[str]) -> None:
    if broken:
        print(f"{len(broken)} skipped:", file=sys.stderr)
    _list(broken, "all with --json")


def _tell_fewer(concepts: int, wanted: int) -> None:
    if concepts < wanted:
        tell(f"Fewer than the {wanted} wanted: no other word stands in enough training sentences.")


def _list(lines: Sequence[str], rest: str = "") -> None:
    for line in lines[:20]:
        print(f"  {line}", file=sys.stderr)
    if len(lines) > 20:
        print(f"  and {len(lines) - 20} more{f' ({rest})' if rest else ''}", file=sys.stderr)
