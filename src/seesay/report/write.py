"""Write the report of runs as a self-contained HTML file.

Phrase localization is shown as in the two-branch paper's Figure 2: boxes over images.
"""

from __future__ import annotations

import io
import os
import platform
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from seesay import __version__
from seesay.data.corpus import Corpus
from seesay.errors import SeesayError
from seesay.metrics.bootstrap import LEVEL, RESAMPLES
from seesay.metrics.grounding_recall import METRICS, MIN_IOU, region_overlaps
from seesay.paths import check_file, writing
from seesay.protocols.base import PROTOCOLS, CorpusContent, Metrics, Options, Result
from seesay.protocols.evaluate import Entry, measure, subject_of
from seesay.protocols.grounding import UNVOTED, best_box
from seesay.protocols.score_fusion import check_same, distinct
from seesay.protocols.subject import RunSubject
from seesay.recipes.load import dump_recipe
from seesay.recipes.table import corpus_title
from seesay.report.page import Frame, Html, Page, Pictures, joined, tag
from seesay.report.queries import SEED, Measured, SplitQueries, add_queries
from seesay.results.formats import Cell, Table, numbers
from seesay.results.paper_table import differences_table
from seesay.results.published import find_published, measured_otherwise
from seesay.results.records import differences, encoder_and_crops, source_commit
from seesay.runs.folder import RECIPE
from seesay.runs.run import Run
from seesay.runs.summary import Epoch, TrainingSummary, is_finished, read_history
from seesay.text.vocabulary import word_counts

FORMATS = (".html",)
_MAX_NAMED = 4  # runs in the title
_SAMPLED = 12  # phrases
_PACKAGES = ("torch", "onnxruntime", "numpy")

# Training curves are SVG with the colours of the page, legible on any screen and in print; series differ in
# marker as well as in colour.
_SIZE = (7.2, 2.7)  # inches; the width of a printed page
_COLOURS = 6  # series-0 to series-5 of the page's style
_MARKERS = "osD^vP"
_CURVES = ("S R@1", "S R@10", "I R@1", "I R@10", "mR", "R@1", "R@10", "mAP")

# Placeholders for the page's variables until the plot is drawn.
_INK, _FAINT = "#010101", "#020202"
_VARIABLES = {_INK: "var(--ink)", _FAINT: "var(--line)"} | {
    f"#0300{i:02x}": f"var(--series-{i})" for i in range(_COLOURS)
}
_STYLE: dict[Any, Any] = {
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), _INK),
    **dict.fromkeys(("axes.edgecolor", "grid.color"), _FAINT),
    **dict.fromkeys(("axes.facecolor", "figure.facecolor", "svg.fonttype"), "none"),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
    **dict.fromkeys(("axes.grid", "axes.axisbelow"), True),
    **dict(zip(("font.size", "grid.linewidth", "lines.markersize"), (9, 0.7, 4.5), strict=True)),
    "axes.grid.axis": "y",
    "text.parse_math": False,  # a name may contain a dollar sign
}


def write_report(
    entries: Sequence[Entry],
    corpus: Corpus,
    split: str,
    out: Path,
    tell: Callable[[str], None],
    queries: Path | None = None,
) -> dict[str, Result]:
    """Measure runs on a split of a corpus, write an HTML report, and return the results by name.

    `queries` is a file of further queries, see `SplitQueries.read`; `tell` is called before each step.

    Raises:
        SeesayError: a run does not fit the corpus, or the file cannot be written.
    """
    check_file(out, FORMATS)
    names = distinct([entry.title for entry in entries])
    about = f"Split {split}: {CorpusContent.of(corpus.split(split))}. {date.today().isoformat()}."
    title = f"{len(names)} runs" if len(names) > _MAX_NAMED else ", ".join(names)
    page = Page(f"{title} on {corpus_title(corpus.name)}", about)
    if corpus.has_boxes and queries is not None:
        raise SeesayError(
            f"{queries}: queries are asked of captioned images, but {corpus.root} holds phrases."
        )
    chosen = SplitQueries.read(queries, corpus.split(split)) if queries is not None else None
    protocol = PROTOCOLS["grounding" if corpus.has_boxes else "standard"]
    options = Options(resamples=0 if corpus.has_boxes else RESAMPLES)
    measured = []
    for at, (entry, name) in enumerate(zip(entries, names, strict=True), start=1):
        tell(f"{at}/{len(entries)} {name}")
        subject = subject_of(entry, corpus, split, protocol)
        measured.append(Measured(name, subject, measure(subject, protocol, options)))
    if corpus.has_boxes:
        _add_grounding(page, measured)
        _add_boxes(page, measured)
        page.section("Training")
        for each in measured:
            page.add(tag("h3", each.name))
            if each.subject.run is not None:
                _add_training(page, each.subject.run)
    else:
        check_same([each.subject for each in measured])
        _add_recalls(page, measured, corpus.name)
        tell("queries and answers")
        words = word_counts(corpus.split("train").texts()) if "train" in corpus.splits else None
        _add_answers(page, measured, words, chosen)
    runs = {each.name: each.subject.run for each in measured if each.subject.run is not None}
    _add_provenance(page, runs, corpus, split)
    with writing(out) as beside:
        beside.write_text(page.html(), encoding="utf-8")
    return {each.name: each.result for each in measured}


def _add_grounding(page: Page, runs: Sequence[Measured]) -> None:
    """Add the recalls, with baselines, and by kind of phrase."""
    page.section("Recall")
    first = runs[0].result
    kinds = [part for part, row in first.rows.items() if "phrases" in row]
    rows: dict[str, Metrics] = {}
    for each in runs:
        rows[each.name] = each.result.rows[""]
        if UNVOTED in each.result.rows:
            rows[f"{each.name} {UNVOTED}"] = each.result.rows[UNVOTED]
    rows |= {part: row for part, row in first.rows.items() if part not in ("", UNVOTED, *kinds)}
    page.table(
        f"Percentage of phrases with a correct region among the first K: one with an IoU of {MIN_IOU} or "
        f"more with the phrase's {first.about['convention']}. The proposals set the upper bound. The "
        "baselines below the runs need no training.",
        Table(["", *METRICS], [[name, *numbers(row, METRICS)] for name, row in rows.items()]),
    )
    if kinds:
        columns = [f"{each.name} {name}" for each in runs for name in METRICS]
        by_kind = [
            [
                kind,
                f"{first.rows[kind]['phrases']:,}",
                *(cell for each in runs for cell in numbers(each.result.rows[kind], METRICS)),
            ]
            for kind in kinds
        ]
        page.table("Recall by kind of phrase.", Table(["", "phrases", *columns], by_kind))


def _add_boxes(page: Page, runs: Sequence[Measured]) -> None:
    """Add random phrases with their true box and the best region of each run."""
    corpus = runs[0].subject.corpus
    pictures = Pictures(corpus.images, [image.name for image in corpus.images])
    draw, count = np.random.default_rng(SEED), len(corpus.sentences)
    chosen = draw.choice(count, min(_SAMPLED, count), replace=False).tolist()
    page.section("Phrases and boxes")
    for each in runs:
        assert isinstance(each.subject, RunSubject)
        page.figure(
            f"Random phrases (seed {SEED}), and where {each.name} finds them: the true box (dashed), "
            "the best region (solid), and their IoU, with a tick if the region is correct.",
            *(_card(each.subject, pictures, phrase) for phrase in chosen),
            class_="cards",
        )


def _card(subject: RunSubject, pictures: Pictures, number: int) -> Html:
    phrase, best = subject.corpus.sentences[number], best_box(subject, number)
    size = np.tile(subject.corpus.images[phrase.image].size, 2)
    frames, overlap = [Frame((phrase.box / size).tolist(), "true")], 0.0
    if best is not None:
        frames.append(Frame((best / size).tolist(), "found"))
        overlap = float(region_overlaps([best[None]], [phrase.boxes])[0][0])
    right = overlap >= MIN_IOU
    verdict = tag("span", f"{'✓' if right else '✗'} IoU {overlap:.2f}", class_="number")
    below = tag("p", joined([tag("q", phrase.text), verdict]))
    return tag("div", pictures.show(phrase.image, frames), below, class_="right" if right else None)


def _add_recalls(page: Page, runs: Sequence[Measured], corpus: str) -> None:
    """Add recalls with intervals beside published rows, and the differences between the runs."""
    page.section("Recall")
    about = (
        "S is sentence retrieval (the query is an image), and I is image retrieval (the query is a "
        "sentence). R@K is the percentage of queries with a correct result among the first K, Med r the "
        "median rank, and mR the mean of the six recalls. Ties count against the query."
    )
    page.add(tag("p", about))
    columns = list(runs[0].result.metrics)
    rows: list[Sequence[Cell | str]] = []
    notes = []
    for each in runs:
        ends = [each.result.intervals.get(column) for column in columns]
        below = [f"{each[0]:.1f}–{each[1]:.1f}" if each else "" for each in ends]
        rows.append([each.name, *map(Cell, numbers(each.result.metrics, columns), below)])
        notes += [f"{each.name}: {note}" for note in each.result.notes]
        run = each.subject.run
        recipe = run.recipe if run is not None and run.has_recipe else None
        published = find_published(recipe.system, corpus, "standard") if recipe and recipe.system else None
        if published is not None and recipe is not None:
            rows.append(
                [Cell(f"{published.system}, ", published.source), *numbers(published.metrics, columns)]
            )
            named = [*differences(recipe), *measured_otherwise(each.result, published)] or ["nothing known"]
            notes.append(f"{each.name} differs from {published.system} in: {'; '.join(named)}.")
    page.table(
        f"Recalls, and below each its {LEVEL} % interval: the images of the split are drawn {RESAMPLES:,} "
        "times, each with its sentences.",
        Table(["", *columns], rows),
    )
    page.add(*(tag("p", note) for note in notes))
    first, *others = runs
    if others:
        compared = [(each.name, each.result.compare(first.result, first.name)) for each in others]
        page.table(
            f"Differences of the other runs from {first.name} on the same queries, and the two-sided p of a "
            "paired randomization test. For Med r, a negative difference is better.",
            differences_table(columns, compared),
        )


def _add_answers(
    page: Page, measured: Sequence[Measured], words: Mapping[str, int] | None, chosen: SplitQueries | None
) -> None:
    """Add queries of a file, random ones, and the hardest of each run below its training."""
    split = measured[0].subject.corpus
    if chosen is not None:
        page.section("Chosen queries")
        captions = (
            "Sentences as queries, and the first three images; those that the split describes so are ticked.",
            "Images as queries, and the first three sentences; the image's own are ticked.",
        )
        add_queries(page, measured, chosen, words, captions)
    page.section("Queries and answers")
    about = (
        f"Random queries (seed {SEED}), the same for every run. Correct results are framed and ticked. The "
        "rank is that of the correct result; for an image, that of its best sentence."
    )
    page.add(tag("p", about))
    captions = (
        "Sentences as queries, with the images they describe, and the first three images.",
        "Images as queries, and the first three sentences.",
    )
    add_queries(page, measured, SplitQueries.random(split), words, captions)
    for each in measured:
        page.section(each.name)
        if isinstance(each.subject, RunSubject):
            _add_training(page, each.subject.run)
        captions = (
            f"The sentences whose image {each.name} ranks worst, with that image.",
            f"The images whose best sentence {each.name} ranks worst.",
        )
        hardest = SplitQueries.hardest(split, each.subject.retrieval_sample().ranks)
        add_queries(page, [each], hardest, words, captions)


def _add_training(page: Page, run: Run) -> None:
    """Add the training curves, or a line that says why there are none."""
    history = read_history(run.folder)
    summary = TrainingSummary.load(run.folder) if is_finished(run.folder) else None
    if len(history) < 2 or history[0].ridge is not None:  # CCA has no epochs
        if summary is not None and summary.members:
            why = f"Composed of {', '.join(summary.members)}, each trained separately."
        else:
            why = "There are no curves, because the run has no record of its epochs."
        page.add(tag("p", why))
        return
    on_val = _val_curves(history)
    # A single line has no legend.
    alone = "" if len(on_val) > 1 else f"{next(iter(on_val), '')} "
    curves = {"loss": {"train": [epoch.loss for epoch in history]}, f"{alone}on val, %": on_val}
    kept = (summary and summary.best_epoch) or history[-1].epoch
    last = "; ".join(f"{name} {line[-1]:.1f}" for name, line in on_val.items())
    alt = f"Curves over epoch. At the end: {last}."
    page.figure(
        f"Training: the mean loss, and metrics on val. The dotted line marks epoch {kept}, which was kept.",
        training_curves([epoch.epoch for epoch in history], curves, kept, alt),
    )


def training_curves(
    x: Sequence[float], panels: Mapping[str, Mapping[str, Sequence[float]]], kept: float, alt: str
) -> Html:
    """Draw panels of named lines, by the label of their y axis, over epochs x, and mark the one kept.

    `alt` describes the figure in words.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    out = io.StringIO()
    with rc_context(_STYLE | {"svg.hashsalt": alt}):  # ids that are unique on the page, and reproducible
        figure = Figure(figsize=_SIZE, layout="constrained")
        every = figure.subplots(1, len(panels), squeeze=False).ravel()
        for axes, (ylabel, lines) in zip(every, panels.items(), strict=True):
            for number, (name, line) in enumerate(lines.items()):
                colour, marker = f"#0300{number % _COLOURS:02x}", _MARKERS[number % len(_MARKERS)]
                axes.plot(x, line, color=colour, marker=marker, label=name)
            axes.axvline(kept, color=_INK, linewidth=0.8, linestyle=":")
            axes.set(xlabel="epoch", ylabel=ylabel)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        handles, labels = every[-1].get_legend_handles_labels()
        if len(labels) > 1:
            figure.legend(handles, labels, loc="outside lower center", ncols=3)
        figure.savefig(out, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    # The element scales, and has the page's colours and no ids of its own.
    drawn = out.getvalue()
    drawn = drawn[drawn.index("<svg") :].replace("\n", " ")
    drawn = re.sub(r"<metadata>.*?</metadata>", "", drawn)
    drawn = re.sub(r'<g id="[^"]*">', "<g>", drawn)  # these ids are the same in every figure
    drawn = re.sub(r"> +<", "><", drawn)
    for stand_in, variable in _VARIABLES.items():
        drawn = drawn.replace(stand_in, variable)
    opening = f'<svg role="img" aria-label="{escape(alt)}"'
    return Html(opening + re.sub(r' (?:width|height)="[\d.]+pt"', "", drawn.removeprefix("<svg"), count=2))


def _val_curves(history: Sequence[Epoch]) -> dict[str, list[float]]:
    """Return val metrics, each by epoch, named as in a table."""
    curves: dict[str, list[float]] = {}
    for epoch in history:
        metrics = epoch.val.get("metrics")
        for name, value in metrics.items() if isinstance(metrics, dict) else ():
            if name in _CURVES and isinstance(value, int | float):
                curves.setdefault(name, []).append(value)
    return {name: values for name, values in curves.items() if len(values) == len(history)}


def _add_provenance(page: Page, runs: Mapping[str, Run], corpus: Corpus, split: str) -> None:
    """Add the data, versions and machine, then the training and recipe of each run."""
    page.section("Where it comes from")
    content = CorpusContent.of(corpus.split(split))
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    python = ".".join(map(str, sys.version_info[:3]))
    about = [
        ("corpus", f"{corpus.name}, {corpus.root.resolve()}"),
        ("split", f"{split}: {content}"),
        ("digest", f"{content.digest} (of the split's texts and boxes, as in recorded rows)"),
        ("versions", f"seesay {__version__}, Python {python}, {packages}"),
        ("machine", f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"),
        ("measured", datetime.now().astimezone().isoformat(" ", "minutes")),
    ]
    commit = source_commit()
    page.add(_definitions(about + ([("commit", commit)] if commit else [])))
    for name, run in runs.items():
        page.add(tag("h3", name))
        if run.has_recipe and run.recipe.corpus:
            page.add(_definitions(_about_run(run)), tag("pre", dump_recipe(run.recipe)))
            continue
        score = f"{run.config.logit_scale:.4g} × cosine {run.config.logit_bias:+.4g}"
        weights = f"{run.fingerprint} (of all weights, the preprocessing and the words or tokenizer)"
        about = [("model", run.name), ("hash", weights), *([("score", score)] if run.embeds else [])]
        training = "none here: zero-shot" if run.has_recipe else f"not recorded (no {RECIPE})"
        page.add(_definitions([*about, ("training", training)]))


def _definitions(pairs: Sequence[tuple[str, str]]) -> Html:
    return tag("dl", *(part for name, value in pairs for part in (tag("dt", name), tag("dd", value))))


def _about_run(run: Run) -> list[tuple[str, str]]:
    recipe = run.recipe
    encoders, crops = encoder_and_crops(recipe)
    words = f"by their words, of {len(run.vocabulary.words):,} known"
    found = [
        ("run", str(run.folder.resolve())),
        ("recipe", f"{recipe.name}, {recipe.about}"),
        ("seed", str(recipe.seed)),
        ("images", f"{encoders}, {crops}"),
        ("sentences", str(recipe.sentence_encoder or words)),
        ("departures", "; ".join(differences(recipe)) or "none named"),
    ]
    if is_finished(run.folder):
        summary = TrainingSummary.load(run.folder)
        epochs = f"{summary.epochs} epochs, " if summary.epochs else ""
        versions = ", ".join(f"{name} {number}" for name, number in summary.versions.items())
        found += [
            ("training", f"{epochs}{summary.seconds:,.0f} s; val {summary.monitor} {summary.best:.1f}"),
            ("trained with", f"{versions}; {summary.machine}"),
        ]
    return found
