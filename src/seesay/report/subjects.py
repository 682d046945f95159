"""The runs and external scores of a report, measured on one split of one corpus."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from seesay.data.corpus import Corpus
from seesay.errors import SeesayError
from seesay.metrics.bootstrap import RESAMPLES
from seesay.metrics.ranks import Ranks
from seesay.protocols.base import PROTOCOLS, Options, Result
from seesay.protocols.evaluate import Entry, default_protocol, measure, open_entry, subject_of
from seesay.protocols.score_fusion import check_same, distinct
from seesay.protocols.subject import RunSubject, Subject
from seesay.runs.run import Run

Tell = Callable[[str], None]

_STANDARD = "standard"


@dataclass(frozen=True)
class Measured:
    """A run, or external scores, on a split of captioned images."""

    name: str  # unique in the report
    subject: Subject
    result: Result  # of the standard protocol, with intervals

    @property
    def run(self) -> Run | None:
        """The run; None for external scores."""
        return self.subject.run

    @cached_property
    def ranks(self) -> Ranks:
        """The ranks of all queries."""
        return self.subject.retrieval_sample().ranks

    def notes(self) -> list[str]:
        """What was left out, or read only in part."""
        values = self.result.to_dict()
        notes = list(self.result.notes or ())
        if cut := self.result.cut_sentences:
            notes.append(f"{self.name} reads {self.result.max_length} words of a sentence; {cut} are longer.")
        if isinstance(self.subject, RunSubject) and (broken := self.subject.inputs.broken):
            first = "; ".join(str(error) for error in broken[:3])
            notes.append(
                f"{self.name}: {len(broken)} images could not be read and are left out, such as {first}"
            )
        if without := values.get("images_without_sentences"):
            notes.append(f"{without} images have no sentence and are candidates only.")
        return notes


def open_entries(names: Sequence[str]) -> list[Entry]:
    """Open runs and external scores by their names.

    Raises:
        SeesayError: one does not exist, or is named twice.
    """
    entries = [open_entry(name) for name in names]
    known = [entry.name for entry in entries]
    if twice := [name for name in known if known.count(name) > 1]:
        raise SeesayError(f"{twice[0]}: named twice.")
    return entries


def short_names(entries: Sequence[Entry]) -> list[str]:
    """Return a short name for each entry: for a run, the name of its folder."""
    return distinct([entry.folder.name if isinstance(entry, Run) else entry.name for entry in entries])


def protocol_of(entry: Entry) -> str:
    """Return the protocol that an entry is measured by."""
    return default_protocol(entry.recipe) if isinstance(entry, Run) else _STANDARD


def measure_all(
    entries: Sequence[Entry], names: Sequence[str], corpus: Corpus, split: str, tell: Tell
) -> list[Measured]:
    """Measure entries that match images with sentences on a split of a corpus.

    Raises:
        SeesayError: one does not fit the corpus, or they score different images or sentences.
    """
    found = []
    for number, (entry, name) in enumerate(zip(entries, names, strict=True), start=1):
        tell(f"{number}/{len(entries)} {name}")
        subject = subject_of(entry, corpus, split, PROTOCOLS[_STANDARD])
        assert isinstance(subject, Subject)
        found.append(Measured(name, subject, measure(subject, _STANDARD, Options(resamples=RESAMPLES))))
    check_same([each.subject for each in found])
    return found
