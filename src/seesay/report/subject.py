"""What a report is of: runs, or given scores, measured on one split of one corpus."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seesay.data.corpus import Corpus
from seesay.data.phrases import PhraseCorpus
from seesay.data.readers import open_corpus
from seesay.errors import SeesayError
from seesay.metrics.bootstrap import RESAMPLES, Answers
from seesay.protocols.entries import Entry, open_entry
from seesay.protocols.measure import score_run
from seesay.protocols.score_fusion import check_same, distinct
from seesay.protocols.scored import Scored, answers, measure_scored
from seesay.runs.inputs import Inputs, split_inputs
from seesay.runs.run import Run
from seesay.training.table_of_runs import open_corpus_of

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Subject:
    """A run, or given scores, on a split.

    Attributes:
        name: unlike any other's of the report.
        scored: the split as it scores it.
        measured: by the standard protocol, with intervals.
        answers: the ranks behind that.
        run: None of given scores.
        inputs: what the run was given; None of given scores.
    """

    name: str
    scored: Scored
    measured: dict[str, Any]
    answers: Answers
    run: Run | None = None
    inputs: Inputs | None = None


def open_entries(names: Sequence[str]) -> list[Entry]:
    """The runs and the given scores of those names.

    Raises:
        SeesayError: one is not there, or stands twice.
    """
    entries = [open_entry(name) for name in names]
    told = [entry.name for entry in entries]
    if twice := [name for name in told if told.count(name) > 1]:
        raise SeesayError(f"{twice[0]}: stands there twice.")
    return entries


def names_of(entries: Sequence[Entry]) -> list[str]:
    """A short name for each: of a run its folder's."""
    return distinct([entry.folder.name if isinstance(entry, Run) else entry.name for entry in entries])


def corpus_of(
    entries: Sequence[Entry], data: Path | None, images: Path | None, format: str | None
) -> Corpus | PhraseCorpus:
    """The corpus that is named, or else the one that all runs learned from.

    Raises:
        SeesayError: it cannot be read; nothing tells which it is; or what is measured shares none.
    """
    runs = [entry for entry in entries if isinstance(entry, Run)]
    if runs and not (len(runs) < len(entries) and runs[0].recipe.regions is not None):
        return open_corpus_of(runs, data, images, format)
    if runs:
        raise SeesayError(f"{runs[0].name}: grounds phrases, and scores are of whole images and sentences.")
    if data is None:
        raise SeesayError("files of scores do not say of which corpus they are; name it with --data.")
    return open_corpus(data, phrases=False, images=images, format=format)


def predicts_concepts(entry: Entry) -> bool:
    """Whether it is a run that names what an image shows, and matches no sentences."""
    return isinstance(entry, Run) and entry.recipe.matcher.predicts_concepts


def measure_subjects(
    entries: Sequence[Entry], names: Sequence[str], corpus: Corpus, split: str, tell: Tell
) -> list[Subject]:
    """Every entry on a split of captioned images.

    Args:
        entries: that match images with sentences.
        names: of them.
        corpus: with that split.
        split: its name.
        tell: is given a line about each.

    Raises:
        SeesayError: one does not go with the corpus, or they score not the same images and sentences.
    """
    subjects = []
    for number, (entry, name) in enumerate(zip(entries, names, strict=True), start=1):
        tell(f"{number}/{len(entries)} {name}")
        subjects.append(_measured(entry, name, corpus, split))
    check_same([subject.scored for subject in subjects])
    return subjects


def _measured(entry: Entry, name: str, corpus: Corpus, split: str) -> Subject:
    inputs = None
    if isinstance(entry, Run):
        inputs = split_inputs(entry.recipe, corpus, split, entry.vocabulary, entry.sentence_encoder)
        scored = score_run(entry, inputs, split)
    else:
        scored = entry.of_split(corpus, split)
    measured = measure_scored(scored, "standard", list, RESAMPLES)
    (found,) = answers(scored, "standard")
    return Subject(name, scored, measured, found, entry if isinstance(entry, Run) else None, inputs)
