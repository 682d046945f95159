"""The report of some runs as one file that needs nothing beside it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path

from seesay.data.corpus import Corpus
from seesay.data.phrases import PhraseCorpus
from seesay.errors import SeesayError
from seesay.paths import replace_text
from seesay.protocols.concepts import measure_concepts
from seesay.protocols.entries import Entry
from seesay.report.by_sentence import add_by_sentence
from seesay.report.html import Page
from seesay.report.insides import add_insides
from seesay.report.phrases import add_boxes, add_grounding, ground_subjects
from seesay.report.pictures import Pictures
from seesay.report.queries import Gallery, answer, sample
from seesay.report.recalls import add_recalls
from seesay.report.runs import add_provenance, add_training
from seesay.report.subject import Tell, measure_subjects, names_of, predicts_concepts
from seesay.results.columns import corpus_title, number
from seesay.runs.inputs import split_inputs
from seesay.runs.run import Run

SUFFIX = ".html"
_NAMED = 4  # runs in the title


def check_out(out: Path) -> None:
    """See that a report can be written there, before anything is computed for it.

    Raises:
        SeesayError: it is named otherwise than HTML, or there is no such folder.
    """
    if out.suffix.lower() != SUFFIX:
        raise SeesayError(f"{out}: the report is HTML; name a file that ends in {SUFFIX}.")
    if not out.parent.is_dir():
        raise SeesayError(f"{out.parent}: no such folder to write {out.name} to; make it first.")


def write_report(
    entries: Sequence[Entry],
    corpus: Corpus | PhraseCorpus,
    split: str,
    out: Path,
    tell: Tell,
    commit: str | None = None,
) -> None:
    """Measure runs on a split of a corpus, and write what there is to see of it to one HTML file.

    Args:
        entries: runs and given scores of one kind: of sentences (with runs of concepts), or of phrases.
        corpus: of that kind.
        split: of it.
        out: the file, written beside and renamed.
        tell: is given lines about what is being done.
        commit: of the source, for the record.

    Raises:
        SeesayError: a run does not go with the corpus; the file cannot be written.
    """
    check_out(out)
    names = names_of(entries)
    page = Page(f"{_listed(names)} on {corpus_title(corpus.name)}", [_about(corpus, split)])
    if isinstance(corpus, PhraseCorpus):
        _add_grounding(page, entries, names, corpus, split, tell)
    else:
        _add_matching(page, entries, names, corpus, split, tell)
    tell("hash of the data")
    runs = {name: each for name, each in zip(names, entries, strict=True) if isinstance(each, Run)}
    add_provenance(page, runs, corpus, split, commit)
    try:
        replace_text(out, page.html())
    except OSError as error:
        raise SeesayError(f"{out}: cannot be written ({error.strerror}); choose another place.") from error


def _add_matching(
    page: Page, entries: Sequence[Entry], names: Sequence[str], corpus: Corpus, split: str, tell: Tell
) -> None:
    """Runs that match images with sentences, and runs that see concepts."""
    both = list(zip(entries, names, strict=True))
    matching = [pair for pair in both if not predicts_concepts(pair[0])]
    if matching:
        subjects = measure_subjects([e for e, _ in matching], [n for _, n in matching], corpus, split, tell)
        add_recalls(page, subjects, corpus.name)
        add_by_sentence(page, subjects, corpus)
        part = subjects[0].scored.corpus
        images, sentences = sample(part)
        gallery = Gallery(part, _pictures(part))
        tell("queries and answers")
        found = [answer(subject, images, sentences) for subject in subjects]
        gallery.add_sample(page, found)
        for subject, answered in zip(subjects, found, strict=True):
            page.section(subject.name)
            if subject.run is not None:
                add_training(page, subject.run)
            gallery.add_hardest(page, answered)
            if subject.run is not None and subject.inputs is not None:
                add_insides(page, subject.run, subject.inputs, gallery.pictures, images)
    for entry, name in both:
        if isinstance(entry, Run) and predicts_concepts(entry):
            tell(name)
            _add_concepts(page, entry, name, corpus, split)


def _add_concepts(page: Page, run: Run, name: str, corpus: Corpus, split: str) -> None:
    inputs = split_inputs(run.recipe, corpus, split, run.vocabulary, run.sentence_encoder)
    measured = measure_concepts(run, inputs, split)
    page.section(name)
    rows = {name: measured} | measured["baselines"] | measured["by kind"]
    columns = ("mAP", "image mAP")
    page.table(
        f"How well {measured['concepts']} concepts are predicted, in percent: mean average precision over "
        "concepts, and over images.",
        ["", *columns],
        [[label, *(number(row.get(column)) for column in columns)] for label, row in rows.items()],
    )
    add_training(page, run)
    add_insides(page, run, inputs, _pictures(inputs.corpus), sample(inputs.corpus)[0])


def _add_grounding(
    page: Page, entries: Sequence[Entry], names: Sequence[str], corpus: PhraseCorpus, split: str, tell: Tell
) -> None:
    runs = [entry for entry in entries if isinstance(entry, Run)]
    found = ground_subjects(runs, names, corpus, split, tell)
    add_grounding(page, found)
    part = found[0].corpus
    add_boxes(page, found, Pictures(part.images, [image.name for image in part.images]))
    page.section("Training")
    for each in found:
        page.heading(each.name)
        add_training(page, each.run)


def _pictures(corpus: Corpus) -> Pictures:
    """The images, each told by its first sentence."""
    told = [image.name for image in corpus.images]
    for sentence in reversed(corpus.sentences):
        told[sentence.image] = f"{corpus.images[sentence.image].name}: {sentence.text}"
    return Pictures(corpus.images, told)


def _about(corpus: Corpus | PhraseCorpus, split: str) -> str:
    part = corpus.split(split)
    texts, what = (
        (part.phrases, "phrases") if isinstance(part, PhraseCorpus) else (part.sentences, "sentences")
    )
    return f"Split {split}: {len(part.images):,} images, {len(texts):,} {what}. {date.today().isoformat()}."


def _listed(names: Sequence[str]) -> str:
    if len(names) > _NAMED:
        return f"{len(names)} runs"
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
