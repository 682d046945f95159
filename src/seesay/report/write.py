"""Write the report of runs as a self-contained HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path

from seesay.data.corpus import Corpus
from seesay.errors import SeesayError
from seesay.paths import check_file, writing
from seesay.protocols.base import PROTOCOLS, Result
from seesay.protocols.evaluate import Entry, measure, protocol_for, subject_of
from seesay.protocols.score_fusion import distinct
from seesay.protocols.subject import RunSubject
from seesay.recipes.table import corpus_title
from seesay.report.chosen import ChosenQueries, add_chosen
from seesay.report.grounding import add_boxes, add_grounding, ground_all
from seesay.report.internals import add_internals
from seesay.report.page import Page, Pictures
from seesay.report.provenance import add_provenance, add_training, split_size
from seesay.report.queries import SplitGallery, answer_queries, sample
from seesay.report.retrieval import Tell, add_by_sentence, add_recalls, measure_all
from seesay.results.formats import Table, numbers
from seesay.runs.run import Run

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
    commit: str | None = None,
    queries: Path | None = None,
) -> dict[str, Result]:
    """Measure runs on a split of a corpus, write an HTML report, and return the results by name.

    Args:
        entries: runs that match sentences or predict concepts, and external scores; or runs that ground.
        corpus: captioned images, or phrases.
        split: the split to measure.
        out: the file to write.
        tell: called with a line before each step.
        commit: the commit of the source, to name in the report.
        queries: a file of further queries, one a line, see `ChosenQueries`.

    Raises:
        SeesayError: a run does not fit the corpus, or the file cannot be written.
    """
    check_file(out, FORMATS)
    if queries is not None and corpus.has_boxes:
        raise SeesayError(
            f"{queries}: queries are asked of captioned images, but {corpus.root} holds phrases."
        )
    chosen = ChosenQueries.read(queries, corpus.split(split)) if queries is not None else None
    names = short_names(entries)
    about = f"Split {split}: {split_size(corpus, split)}. {date.today().isoformat()}."
    title = f"{len(names)} runs" if len(names) > _MAX_NAMED else ", ".join(names)
    page = Page(f"{title} on {corpus_title(corpus.name)}", about)
    runs = {name: each for name, each in zip(names, entries, strict=True) if isinstance(each, Run)}
    if corpus.has_boxes:
        if len(runs) < len(entries):
            raise SeesayError(f"{corpus.root}: holds phrases; a report of scores needs captioned images.")
        results = _add_grounding(page, runs, corpus, split, tell)
    else:
        results = _add_matching(page, entries, names, corpus, split, tell, chosen)
        for name, run in runs.items():
            if protocol_for([run]).name == _CONCEPTS:
                tell(name)
                results[name] = _add_concepts(page, run, name, corpus, split)
    tell("hash of the data")
    add_provenance(page, runs, corpus, split, commit)
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
    chosen: ChosenQueries | None,
) -> dict[str, Result]:
    """Add the entries that match images with sentences."""
    both = zip(entries, names, strict=True)
    matching = [(entry, name) for entry, name in both if protocol_for([entry]).name != _CONCEPTS]
    if not matching:
        return {}
    measured = measure_all([e for e, _ in matching], [n for _, n in matching], corpus, split, tell)
    add_recalls(page, measured, corpus.name)
    add_by_sentence(page, measured, corpus)
    part = measured[0].subject.corpus
    images, sentences = sample(part)
    gallery = SplitGallery(part, _pictures(part))
    tell("queries and answers")
    asked = [*images, *(chosen.images if chosen is not None else ())]
    answers = [answer_queries(each, asked, sentences) for each in measured]
    if chosen is not None:
        add_chosen(page, measured, answers, gallery, chosen, corpus)
    gallery.add_sample(page, answers)
    for each, answered in zip(measured, answers, strict=True):
        page.section(each.name)
        if isinstance(each.subject, RunSubject):
            add_training(page, each.subject.run)
        gallery.add_hardest(page, answered)
        if isinstance(each.subject, RunSubject):
            add_internals(page, each.subject.run, each.subject.inputs, gallery.pictures, images)
    return {each.name: each.result for each in measured}


def _add_concepts(page: Page, run: Run, name: str, corpus: Corpus, split: str) -> Result:
    subject = subject_of(run, corpus, split, PROTOCOLS[_CONCEPTS])
    assert isinstance(subject, RunSubject)
    result = measure(subject, _CONCEPTS)
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
    part = subject.inputs.corpus
    add_internals(page, run, subject.inputs, _pictures(part), sample(part)[0])
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
        add_training(page, each.run)
    return {each.name: each.result for each in grounded}


def _pictures(corpus: Corpus) -> Pictures:
    """Return the images, each with its first sentence as alternative text."""
    alt = [image.name for image in corpus.images]
    for sentence in reversed(corpus.sentences):
        alt[sentence.image] = f"{corpus.images[sentence.image].name}: {sentence.text}"
    return Pictures(corpus.images, alt)
