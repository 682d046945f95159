"""Write the report of runs as a self-contained HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path

from seesay.data.corpus import Corpus
from seesay.errors import SeesayError
from seesay.paths import check_file, writing
from seesay.protocols.base import PROTOCOLS, Content, Result
from seesay.protocols.evaluate import Entry, measure, protocol_for, subject_of
from seesay.protocols.score_fusion import distinct
from seesay.protocols.subject import RunSubject
from seesay.recipes.table import corpus_title
from seesay.report.grounding import add_boxes, add_grounding, ground_all
from seesay.report.page import Page, Pictures
from seesay.report.provenance import add_provenance
from seesay.report.queries import SEED, SplitGallery, SplitQueries
from seesay.report.retrieval import Measured, Tell, add_recalls, measure_all
from seesay.report.training import add_training
from seesay.results.formats import Table, numbers
from seesay.runs.run import Run
from seesay.text.vocabulary import word_counts

FORMATS = (".html",)
_MAX_NAMED = 4  # runs in the title
_CONCEPTS = "concepts"


def short_names(entries: Sequence[Entry]) -> list[str]:
    """Return distinct names; for a run, the name of its folder."""
    return distinct([entry.title if isinstance(entry, Run) else entry.name for entry in entries])


def write_report(
    entries: Sequence[Entry],
    corpus: Corpus,
    split: str,
    out: Path,
    tell: Tell,
    queries: Path | None = None,
) -> dict[str, Result]:
    """Measure runs on a split of a corpus, write an HTML report, and return the results by name.

    Args:
        entries: runs that match sentences or predict concepts, and external scores; or runs that ground.
        corpus: captioned images, or phrases.
        split: the split to measure.
        out: the file to write.
        tell: called with a line before each step.
        queries: a file of further queries, one a line, see `Queries`.

    Raises:
        SeesayError: a run does not fit the corpus, or the file cannot be written.
    """
    check_file(out, FORMATS)
    if queries is not None and corpus.has_boxes:
        raise SeesayError(
            f"{queries}: queries are asked of captioned images, but {corpus.root} holds phrases."
        )
    if queries is not None:
        SplitQueries.read(queries, corpus.split(split))  # before anything is measured
    names = short_names(entries)
    about = f"Split {split}: {Content.of(corpus.split(split))}. {date.today().isoformat()}."
    title = f"{len(names)} runs" if len(names) > _MAX_NAMED else ", ".join(names)
    page = Page(f"{title} on {corpus_title(corpus.name)}", about)
    runs = {name: each for name, each in zip(names, entries, strict=True) if isinstance(each, Run)}
    if corpus.has_boxes:
        if len(runs) < len(entries):
            raise SeesayError(f"{corpus.root}: holds phrases; a report of scores needs captioned images.")
        results = _add_grounding(page, runs, corpus, split, tell)
    else:
        results = _add_matching(page, entries, names, corpus, split, tell, queries)
        for name, run in runs.items():
            if protocol_for([run]).name == _CONCEPTS:
                tell(name)
                results[name] = _add_concepts(page, run, name, corpus, split)
    add_provenance(page, runs, corpus, split)
    with writing(out) as beside:
        beside.write_text(page.html(), encoding="utf-8")
    return results


def _add_matching(
    page: Page,
    entries: Sequence[Entry],
    names: Sequence[str],
    corpus: Corpus,
    split: str,
    tell: Tell,
    queries: Path | None,
) -> dict[str, Result]:
    """Add the entries that match images with sentences."""
    both = zip(entries, names, strict=True)
    matching = [(entry, name) for entry, name in both if protocol_for([entry]).name != _CONCEPTS]
    if not matching:
        return {}
    measured = measure_all([e for e, _ in matching], [n for _, n in matching], corpus, split, tell)
    add_recalls(page, measured, corpus.name)
    tell("queries and answers")
    _add_queries(page, measured, corpus, queries)
    return {each.name: each.result for each in measured}


def _add_queries(page: Page, measured: Sequence[Measured], corpus: Corpus, queries: Path | None) -> None:
    """Add queries of a file, random ones, and the hardest of each run below its training."""
    split = measured[0].subject.corpus
    words = word_counts(corpus.split("train").texts()) if "train" in corpus.splits else None
    gallery = SplitGallery(split, _pictures(split), words)
    if queries is not None:
        page.section("Chosen queries")
        gallery.add(
            page,
            measured,
            SplitQueries.read(queries, split),
            "Sentences as queries, and the first three images; those that the split describes so are ticked.",
            "Images as queries, and the first three sentences; the image's own are ticked.",
        )
    page.section("Queries and answers")
    page.text(
        f"Random queries (seed {SEED}), the same for every run. Correct results are framed and ticked. The "
        "rank is that of the correct result; for an image, that of its best sentence."
    )
    gallery.add(
        page,
        measured,
        SplitQueries.random(split),
        "Sentences as queries, with the images they describe, and the first three images.",
        "Images as queries, and the first three sentences.",
    )
    for each in measured:
        page.section(each.name)
        if isinstance(each.subject, RunSubject):
            add_training(page, each.subject.run)
        gallery.add(
            page,
            [each],
            SplitQueries.hardest(split, each.subject.retrieval_sample().ranks),
            f"The sentences whose image {each.name} ranks worst, with that image.",
            f"The images whose best sentence {each.name} ranks worst.",
        )


def _add_concepts(page: Page, run: Run, name: str, corpus: Corpus, split: str) -> Result:
    result = measure(subject_of(run, corpus, split, PROTOCOLS[_CONCEPTS]), _CONCEPTS)
    page.section(name)
    page.table(
        f"The prediction of {result.about['concepts']} concepts, in percent: mean average precision over "
        "concepts, and over images.",
        Table(
            ["", *result.row],
            [[part or name, *numbers(row, result.row)] for part, row in result.rows.items()],
        ),
    )
    add_training(page, run)
    return result


def _add_grounding(
    page: Page, runs: dict[str, Run], corpus: Corpus, split: str, tell: Tell
) -> dict[str, Result]:
    grounded = ground_all(list(runs.values()), list(runs), corpus, split, tell)
    add_grounding(page, grounded)
    part = grounded[0].corpus
    add_boxes(page, grounded, Pictures(part.images, [image.name for image in part.images]))
    page.section("Training")
    for each in grounded:
        page.heading(each.name)
        add_training(page, each.subject.run)
    return {each.name: each.result for each in grounded}


def _pictures(corpus: Corpus) -> Pictures:
    """Return the images, each with its first sentence as alternative text."""
    alt = [image.name for image in corpus.images]
    for sentence in reversed(corpus.sentences):
        alt[sentence.image] = f"{corpus.images[sentence.image].name}: {sentence.text}"
    return Pictures(corpus.images, alt)
