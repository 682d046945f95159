"""What `seesay evaluate` is asked to measure: a run, given scores, an ensemble; and against what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from seesay.data.corpus import Corpus
from seesay.data.phrases import PhraseCorpus
from seesay.errors import SeesayError
from seesay.metrics.bootstrap import RESAMPLES
from seesay.metrics.paired import compare
from seesay.protocols.external_scores import SPLIT, Given, order_hint
from seesay.protocols.k_shot import train_texts
from seesay.protocols.measure import score_run
from seesay.protocols.people import NOBODY, People
from seesay.protocols.retrieval import PROTOCOLS
from seesay.protocols.score_fusion import LEARNED, check_same, combine, distinct
from seesay.protocols.scored import Scored, answers, measure_scored
from seesay.runs.inputs import split_inputs
from seesay.runs.run import Run

Entry = Run | Given


def open_entry(name: str) -> Entry:
    """A run by its folder or name, or somebody else's scores by their files.

    Raises:
        SeesayError: there is no such run.
    """
    return Given(name) if Given.is_named(name) else Run.load(name)


def score_entry(entry: Entry, corpus: Corpus, split: str) -> Scored:
    """A split of a corpus, scored by a run or by what its files say."""
    if isinstance(entry, Given):
        return entry.of_split(corpus, split)
    recipe = entry.recipe
    return score_run(
        entry, split_inputs(recipe, corpus, split, entry.vocabulary, entry.sentence_encoder), split
    )


def measure_entries(
    entries: Sequence[Entry],
    corpus: Corpus | PhraseCorpus,
    split: str,
    protocol: str,
    how: str | None = None,
    against: Entry | None = None,
    people: People = NOBODY,
) -> dict[str, Any]:
    """One entry or the ensemble of several on a split, as `seesay evaluate --json` prints it.

    Args:
        entries: runs and given scores.
        corpus: captioned images.
        split: the split to measure.
        protocol: one that needs scores alone.
        how: how to put several entries together, one of COMBINATIONS.
        against: another entry to compare with, query by query.
        people: what they said, for the protocols that compare with it.

    Returns:
        What `measure_scored` gives, with `intervals`. Of an ensemble also `combined`, `weights` where
        they were learned, and `members`, the same of each alone. With `against` what `compare` says, and
        its `name`.

    Raises:
        SeesayError: the entries do not go together, or not with the corpus or the protocol.
    """
    if isinstance(corpus, PhraseCorpus):
        raise SeesayError(f"{corpus.root}: holds phrases; scores are of whole images and sentences.")
    if against is not None and protocol not in PROTOCOLS:
        raise SeesayError(f"--against compares by {', '.join(PROTOCOLS)}, not by '{protocol}'.")
    val = _val(entries, corpus) if how == LEARNED else []
    members = [score_entry(entry, corpus, split) for entry in entries]
    scored = combine(members, how, val) if how else members[0]

    def measured(each: Scored, resamples: int = 0) -> dict[str, Any]:
        return measure_scored(each, protocol, lambda: train_texts(corpus), resamples, people)

    result = measured(scored, RESAMPLES)
    if isinstance(entries[0], Given) and (hint := order_hint(result)):
        result["notes"] = [*result.get("notes", ()), *hint]
    if how:
        names = distinct([member.name for member in members])
        result["members"] = {name: measured(member) for name, member in zip(names, members, strict=True)}
    if against is not None:
        other = score_entry(against, corpus, split)
        check_same([scored, other])
        found = compare(answers(scored, protocol), answers(other, protocol))
        result["against"] = {"name": other.name} | found
    return result


def _val(entries: Sequence[Entry], corpus: Corpus) -> list[Scored]:
    """The entries' scores of val, by which weights are chosen."""
    for entry in entries:
        if isinstance(entry, Given) and SPLIT not in entry.name:
            raise SeesayError(
                f"{entry.name}: --combine learned chooses weights on val, and this is of one split; name the "
                f"files of val and test as one, with {SPLIT} where they differ, such as scores-{SPLIT}.npy."
            )
    return [score_entry(entry, corpus, "val") for entry in entries]
