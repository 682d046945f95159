"""Print results: as JSON, or as tables and lines for people."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, TextIO

from seesay.progress import CONTROLS, visible

if TYPE_CHECKING:
    from rich.console import Console

    from seesay.data.corpus import Issues
    from seesay.grounding import Grounding
    from seesay.protocols.base import Result
    from seesay.runs.summary import TrainingSummary
    from seesay.search import Answer, Hit, Index
    from seesay.search.hits import TextHit
    from seesay.search.photo import Photo
    from seesay.search.update import UpdateReport


_UNSURE = {
    "perhaps": "Perhaps: the first of these images is more likely to be wrong than right.",
    "nothing": "Probably nothing here fits: these images are the nearest, but probably none is right.",
}
_OWN = r"\x1b\[[0-9;]*[mKA]|\x1b\[\?25[lh]"  # colours, and the moves of a progress bar
_FOREIGN = re.compile(rf"({_OWN})|([^\n\r\t\x20-\x7e\xa0-\u2029\u202f-\u2065\u206a-\U0010ffff])")


def show(result: Any, as_json: bool, for_people: Callable[..., None], *more: Any) -> None:
    """Print a result as JSON, or with the function that prints it for people."""
    if as_json:
        print_json(result)
    else:
        for_people(result, *more)


def print_json(result: object) -> None:
    """Print one JSON document; objects are printed as their `to_dict()` or their fields."""

    def plain(value: Any) -> object:
        if isinstance(value, Path):
            return str(value)
        return value.to_dict() if hasattr(value, "to_dict") else asdict(value)

    text = json.dumps(result, ensure_ascii=False, indent=1, default=plain)
    print(CONTROLS.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text))


def show_newest(index: Index, where: str, count: int, as_json: bool) -> bool:
    """Print the files of the newest images that match a filter; return whether there are any."""
    from seesay.search.filters import Filter
    from seesay.search.photo import shown_path

    roots, photos = index.roots(), index.store.newest(count, Filter.parse(where))
    rows = _marked(index, photos, [{"id": each.id, "path": shown_path(roots, each.path)} for each in photos])
    if as_json:
        print_json({"where": where, "results": rows})
    for row in rows if not as_json else ():
        print(for_screen(str(row["path"])))
    _tell_gone(index, rows)
    return bool(rows)


def show_answer(answer: Answer, index: Index, as_json: bool, by_score: bool) -> None:
    """Print an answer as JSON or as a line for each hit, and notes about it on standard error.

    A line begins with the probability that the hit is right, or with its score if it has no probability or
    the hits are ordered by the scores of another run (`by_score`). A note separates those that are unlikely.
    In JSON, an image whose file is missing has `"gone": true`.
    """
    roots = index.roots()
    rows = _marked(index, answer, [hit.to_dict(roots) for hit in answer])
    texts = _marked(index, answer.text_hits, [hit.to_dict(roots) for hit in answer.text_hits])
    if as_json:
        print_json(answer.to_dict(roots) | {"results": rows, "text_hits": texts})
    else:
        for (words, of), hits in groupby(texts, itemgetter("words", "of")):
            tell(f"Text read in pictures: {words} of {of} word{'s' * (of > 1)}:")
            for each in hits:
                print(for_screen(f"       {each['path']}"))
        if texts and answer:
            tell("What pictures show:")
        fitted = True
        for hit, row in zip(answer, rows, strict=True):
            if fitted and not hit.fits and not by_score:
                tell("Unlikely:" if answer.certainty == "nothing" else "Less likely:")
                fitted = False
            number = row["score"] if by_score or hit.probability is None else row["probability"]
            print(for_screen(f"{number:.3f}  {row.get('path', hit.text)}"))
    if answer and answer.certainty != "sure" and not texts:
        tell(_UNSURE[answer.certainty])
    if answer.query_meant:
        tell(f"Did you mean: {answer.query_meant}?")
    if answer and answer.where_meant:
        tell(f"Files or folders have that name: --where {quote(answer.where_meant)}")
    for typed, meant in answer.corrected_words.items():
        tell(f"Searched for '{meant}', not for '{typed}'; a sentence in double quotes is not corrected.")
    if answer.unknown_words:
        words = ", ".join(f"'{word}'" for word in answer.unknown_words[:20])
        tell(f"Unknown words: {words}.")
    _tell_gone(index, [*rows, *texts])


def _marked(
    index: Index, images: Sequence[Hit | TextHit | Photo], rows: list[dict[str, object]]
) -> list[dict[str, object]]:
    """Return the rows of images, with `"gone": true` in those whose file is missing."""
    for image, row in zip(images, rows, strict=True):
        if image.path is not None and index.file_at(image.path) is None:
            row["gone"] = True
    return rows


def _tell_gone(index: Index, rows: Sequence[Mapping[str, object]]) -> None:
    """Say how many of the files are missing, and what to do."""
    if gone := {row["id"] for row in rows if "gone" in row}:
        away = [str(root.folder) for root in index.absent()]
        hint = f"connect {', '.join(away)}, or update" if away else "update"
        tell(
            f"{len(gone)} of these files are missing; {hint} the index: "
            f"seesay index --out {quote(index.place)}"
        )


def print_grounding(found: Grounding | Mapping[str, Grounding]) -> None:
    """Print a line for each box: its probability, or its score if it has none, the box and the phrase."""
    if isinstance(found, Mapping):
        for run, grounding in found.items():
            print(f"{run}:")
            print_grounding(grounding)
        return
    for phrase in found.phrases:
        for each in phrase.boxes:
            numbers = "  ".join(f"{value:6.0f}" for value in each.box)
            shown = each.score if each.probability is None else each.probability
            print(f"{shown:.3f}  {numbers}  {phrase.text}")
        if phrase.boxes and not phrase.fits:
            tell(f"'{phrase.text}': probably not in this image; the box is the best guess.")
        if not phrase.known:
            tell(f"'{phrase.text}': the run knows none of its words.")


def show_names(rows: Sequence[tuple[str, str]], as_json: bool = False) -> None:
    """Print names with their descriptions, as JSON or in two columns."""
    if as_json:
        print_json([{"name": name, "about": about} for name, about in rows])
        return
    width = max((len(name) for name, _ in rows), default=0)
    for name, about in rows:
        print(f"{name:<{width}}  {about}")


def print_training(
    summary: TrainingSummary, folder: Path, compared: Result | None, outside: bool = False
) -> None:
    """Print where the run is, its result on val, and how it compares with the included weights."""
    several = "" if summary.epochs == 1 else "s"
    course, best = f"{summary.epochs} epoch{several}", f"best on val at epoch {summary.best_epoch}, "
    if summary.members:
        course, best = f"{len(summary.members)} members", "on val "
    print(
        f"{folder}: {summary.recipe}, {course} in {summary.seconds:.0f} s; "
        f"{best}{summary.monitor} {summary.best:.1f}."
    )
    print_skipped(summary.broken_images)
    if (found := summary.concepts) and found["kept"] < found["wanted"]:
        tell(f"Only {found['kept']} of {found['wanted']} concepts occur in enough sentences.")
    if summary.improving and summary.epochs:
        more = f"steps={2 * summary.steps}" if summary.steps else f"epochs={2 * summary.epochs}"
        tell(f"The last epoch was the best; more may help: --set schedule.{more}")
    if summary.uncalibrated:
        tell(f"Probabilities were not fitted to val: {summary.uncalibrated}")
    if compared is not None and compared.content and compared.against:
        from seesay.results.formats import number, p_value

        test = compared.against.metrics["mR"]
        assert test.p is not None
        assert test.difference is not None
        better = "better" if test.difference > 0 else "worse"
        print(
            f"mR {number(compared.monitor)} against {number(test.theirs)} of the included weights "
            f"({compared.against.name}) on {compared.content.images} val images, which also chose this run's "
            f"weights: {f'clearly {better}' if test.p < 0.05 else 'no clear difference'} ({p_value(test.p)})."
        )
    print(f"Next: seesay evaluate {quote(str(folder))}{' --allow-outside' if outside else ''}")


def print_update(place: str, report: UpdateReport, added: int, images: int, sentences: int) -> None:
    """Print what `seesay index` did, with `added` sentences, and what the index holds now."""
    from seesay.data.walk import unread_lines

    counts = {name: getattr(report, name) for name in ("added", "changed", "moved", "deleted", "unchanged")}
    changes = ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "nothing new"
    print(f"{place}: {images} images ({changes}) in {report.seconds:.1f} s")
    if sentences:
        print(f"{place}: {sentences} sentences ({added} added)")
    for line in unread_lines(report.not_read):
        tell(f"Skipped: {line}.")
    for absent in report.absent:
        tell(
            f"{absent}: missing or empty; its images stay in the index. If they are gone for good: "
            f"seesay index --out {quote(str(place))} --remove {quote(str(absent))}"
        )
    print_skipped([f"{path}: {reason}" for path, reason in report.skipped])


def tell(line: str) -> None:
    """Print a line on standard error."""
    print(visible(line), file=sys.stderr, flush=True)


def for_screen(text: str) -> str:
    """Return a line for standard output, escaped if that is a terminal."""
    return visible(text) if sys.stdout.isatty() else text


class Screen:
    """A terminal on which only colours and progress bars control anything, whatever is printed."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal

    def write(self, text: str) -> int:
        """Write text, with control characters and other escape sequences escaped."""
        return self._terminal.write(_FOREIGN.sub(lambda found: found[1] or visible(found[2]), text))

    def __getattr__(self, name: str) -> Any:
        """Return what else a stream has."""
        return getattr(self._terminal, name)


def print_corpus(summary: Mapping[str, Any]) -> None:
    """Print the splits of a corpus, its vocabulary and its data-quality issues."""
    from seesay.results.formats import Table

    text = "phrase" if "phrases" in summary else "sentence"
    headings = ("split", "images", f"{text}s", f"{text}s per image", f"words per {text}")
    keys = ("images", f"{text}s", f"{text}s_per_image", f"words_per_{text}")

    def count(of: int | Mapping[str, float]) -> str:  # of each, or the range and mean of several
        return str(of) if isinstance(of, int) else f"{of['min']}-{of['max']}, mean {of['mean']:.1f}"

    rows = [[name, *(count(split[key]) for key in keys)] for name, split in summary["splits"].items()]
    out, lines = wide(), []
    out.print(Table(headings, rows, title=f"{summary['corpus']}: {summary['root']}").terminal())
    if columns := summary["columns"]:
        rows_of = ", ".join(f"{name} ({count})" for name, count in columns.items())
        lines.append(for_screen(f"Columns that were read, and in how many rows: {rows_of}."))
    for name, split in summary["splits"].items():
        if shared := split.get("shared"):
            lines.append(
                f"Shared sentences ({name}): {shared['sentences']} are those of several images, so R@1 is at "
                f"most {shared['i2t']} for sentences (i2t) and {shared['t2i']} for images (t2i); "
                "--protocol shared-sentences credits each of these images."
            )
    if rare_words := summary.get("rare_words"):
        lines.append(
            f"Rare words: of {rare_words['words']} test words {rare_words['below 10']:.1f} % occur less than "
            f"ten times in train, {rare_words['at most 1']:.1f} % at most once."
        )
    if similar_sentences := summary.get("similar_sentences"):
        shares = ", ".join(f"{share:.1f}" for share in similar_sentences["by_pairs"])
        lines.append(
            f"Similar sentences: % of {similar_sentences['images']} images by how many of the ten pairs of "
            f"five sentences have a cosine of at least {similar_sentences['threshold']} (0 to 10): {shares}."
        )
    for kind, found in summary["issues"].items():
        lines.append(for_screen(f"{found['count']} × {kind}, such as {'; '.join(found['examples'][:3])}"))
    for line in lines:
        out.print(line, highlight=False, markup=False)


def print_omissions(issues: Issues) -> None:
    """Print on standard error what a corpus lacks of what its files list, if anything."""
    for kind in issues.omissions:
        count, places = issues.counts[kind], issues.examples[kind]
        tell(f"{count} × {kind}{', such as' if count > len(places) else ''}:")
        _print_some(places)


def print_info(info: Mapping[str, Any]) -> None:
    """Print the result of `Index.info`."""
    for name, value in info.items():
        if name == "folders":
            away = {True: "", False: " (not available)"}
            value = {each["name"]: each["folder"] + away[each["available"]] for each in value}
        if isinstance(value, dict):
            lines = [f"{len(value)}", *(f"  {key}: {each}" for key, each in value.items())]
        else:
            lines = [", ".join(value) if isinstance(value, list) else str(value)]
        print(f"{name}: " + "\n".join(map(for_screen, lines)))


def wide() -> Console:
    """Return standard output as a console; 140 columns wide if it is not a terminal."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 140)


def print_skipped(broken: Sequence[str]) -> None:
    """Print on standard error what was skipped, if anything was."""
    if broken:
        tell(f"{len(broken)} skipped:")
        _print_some(broken, " (all with --json)")


def _print_some(lines: Sequence[str], how: str = "") -> None:
    for line in lines[:20]:
        tell(f"  {line}")
    if len(lines) > 20:
        tell(f"  and {len(lines) - 20} more{how}")
