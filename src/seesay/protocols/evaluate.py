"""Evaluation: runs and external scores on a split, alone, combined, compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from seesay.data.corpus import Corpus
from seesay.data.readers import read_corpus
from seesay.errors import SeesayError, check_whole
from seesay.metrics.bootstrap import RESAMPLES
from seesay.metrics.grounding_recall import IoU, PhraseBoxes
from seesay.protocols.base import PROTOCOLS, Options, Protocol, Result, Value, of_part
from seesay.protocols.score_fusion import Combination, check_combination, distinct
from seesay.protocols.score_fusion import combine as combined
from seesay.protocols.subject import ExternalScores, RunSubject, Subject
from seesay.runs.config import RunConfig
from seesay.runs.inputs import Inputs, run_inputs
from seesay.runs.load import load_run
from seesay.runs.run import Run
from seesay.runs.summary import TrainingSummary, is_finished

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

Entry: TypeAlias = Run | ExternalScores
if TYPE_CHECKING:
    Array: TypeAlias = NDArray[Any] | Tensor
    Measurable: TypeAlias = Entry | str | Path | Array | tuple[Array, Array]

NO_OPTIONS = Options()
_FEW = 20.0  # percent; recalls are not compared with a higher chance level


def evaluate(
    run: Measurable | Sequence[Measurable],
    corpus: Corpus | str | Path,
    protocol: str | None = None,
    split: str = "test",
    *,
    combine: Combination | None = None,
    against: Measurable | None = None,
    iou: IoU | None = None,
    boxes: PhraseBoxes | None = None,
    resamples: int = RESAMPLES,
) -> Result:
    """Measure a run, or several as one, on a split of a corpus.

    Args:
        run: a run, its folder or name; or results of another model for the split, in the order of the corpus:
            a score matrix (n_images, n_sentences), a tuple of embeddings (n_images, d) and (n_sentences, d),
            as arrays or tensors, or their files (.npy or .npz; two files of embeddings as
            "images.npy,sentences.npy"). A list of several is combined.
        corpus: captioned images, or phrases with boxes; opened or a path.
        protocol: its name; by default "grounding" or "concepts" for such a run, and "standard" for others.
        split: "train", "val" or "test".
        combine: how several runs are combined: "mean", or "learned", with weights that are chosen on val.
        against: another run to compare with, on the same queries.
        iou: for grounding: "plummer" or "mdetr"; see `seesay.metrics.grounding_recall`.
        boxes: for grounding: "merged" or "any"; see there.
        resamples: bootstrap draws of the intervals; 0 for none.

    Returns:
        The result of the protocol, which prints itself; `to_dict` makes it JSON.

    Raises:
        SeesayError: the runs cannot be combined, or the protocol cannot measure them on the corpus.

    Example:
        >>> import numpy as np
        >>> from PIL import Image
        >>> import seesay
        >>> squares = [(Image.new("RGB", (64, 64), colour), colour) for colour in ("red", "blue")]
        >>> corpus = seesay.corpus_of([(image, [f"a {c} square", c], "test") for image, c in squares])
        >>> scores = np.arange(2)[:, None] == corpus.image_of_sentence()
        >>> print(seesay.evaluate(scores.astype(np.float32), corpus))
        standard, test: 2 images, 4 sentences
        S R@1     100.0  [100.0, 100.0]
        S R@5     100.0  [100.0, 100.0]
        S R@10    100.0  [100.0, 100.0]
        S Med r     1.0  [1.0, 1.0]
        I R@1     100.0  [100.0, 100.0]
        I R@5     100.0  [100.0, 100.0]
        I R@10    100.0  [100.0, 100.0]
        I Med r     1.0  [1.0, 1.0]
        mR        100.0  [100.0, 100.0]
    """
    check_whole(0, resamples=resamples)
    single = isinstance(run, str) or not isinstance(run, Sequence) or ExternalScores.of(run) is not None
    members: Any = [run] if single else run
    entries = [open_entry(each) for each in members]
    if not entries:
        raise SeesayError("run: expected at least one run, got none.")
    other = open_entry(against) if against is not None else None
    check_combination(combine, len(entries))
    chosen = protocol_for(entries, protocol)
    if (iou or boxes) and chosen.needs != "phrases":
        wrong = "iou" if iou else "boxes"
        raise SeesayError(f"{wrong} is for protocol 'grounding', not '{chosen.name}'.")
    options = Options(iou or "plummer", boxes or "merged", resamples)
    if isinstance(corpus, str | Path):
        corpus = read_corpus(Path(corpus), phrases=chosen.needs == "phrases")
    alone = replace(options, resamples=0)
    subjects = [subject_of(entry, corpus, split, chosen) for entry in entries]
    if combine is None:
        result = _told_if_chance(subjects[0], measure(subjects[0], chosen, options))
    elif corpus.has_boxes:
        raise SeesayError(f"{corpus.root}: contains phrases; combine is for whole images and sentences.")
    else:
        learned = entries if combine == "learned" else []
        if external := [entry.name for entry in learned if isinstance(entry, ExternalScores)]:
            raise SeesayError(f"{external[0]}: combine 'learned' chooses weights on val; name runs alone.")
        val = [subject_of(entry, corpus, "val", chosen) for entry in learned]
        result = measure(combined(subjects, combine, val), chosen, options)
        metrics: dict[str, Value] = {}
        for name, member in zip(distinct([each.name for each in subjects]), subjects, strict=True):
            metrics |= of_part(name, measure(member, chosen, alone).metrics)
        result = result.model_copy(update={"metrics": metrics | result.metrics})
    if other is None:
        return result
    baseline = subject_of(other, corpus, split, chosen)
    compared = result.compare(measure(baseline, chosen, alone), baseline.name)
    return result.model_copy(update={"against": compared})


def open_entry(entry: Measurable) -> Entry:
    """Load a run by its folder or name, or open external scores in memory or in files.

    Raises:
        SeesayError: the run does not exist, or the value is something else.
    """
    if isinstance(entry, Run | ExternalScores):
        return entry
    if (external := ExternalScores.of(entry)) is not None:
        return external
    if not isinstance(entry, str | Path):
        raise SeesayError(
            f"run: expected a run, its name or folder, or scores as arrays or files, got "
            f"{type(entry).__name__}; register a matcher of your own (register_matcher), and train it."
        )
    return load_run(str(entry))


def open_entries(names: Sequence[str]) -> list[Entry]:
    """Open runs and external scores by their names.

    Raises:
        SeesayError: one does not exist, or is named twice.
    """
    entries = [open_entry(name) for name in names]
    known = [each.folder.resolve() if isinstance(each, Run) else each.name for each in entries]
    for name, each in zip(names, known, strict=True):
        if known.count(each) > 1:
            raise SeesayError(f"{name}: named twice; name it once.")
    return entries


def protocol_for(entries: Sequence[Entry], name: str | None = None) -> Protocol[Any]:
    """Return the protocol of that name, or the default for such entries.

    Raises:
        SeesayError: there is none of that name.
    """
    first, *others = entries
    default = default_protocol(first.config) if isinstance(first, Run) and not others else "standard"
    return PROTOCOLS[name or default]


def default_protocol(config: RunConfig) -> str:
    """Return the name of the protocol that such a run is measured by."""
    if config.regions is not None:
        return "grounding"
    return "concepts" if config.predicts_concepts else "standard"


def subject_of(entry: Entry, corpus: Corpus, split: str, protocol: Protocol[Any]) -> Subject:
    """Prepare a run or external scores on a split for a protocol.

    Raises:
        SeesayError: the corpus or the protocol does not fit the entry.
    """
    if corpus.has_boxes:
        if protocol.needs != "phrases":
            raise SeesayError(f"{corpus.root}: contains phrases; the protocol for them is 'grounding'.")
        if not isinstance(entry, Run):
            raise SeesayError(f"{entry.name}: protocol '{protocol.name}' needs a run that grounds phrases.")
    elif protocol.needs == "phrases":
        raise SeesayError(f"{corpus.root}: protocol '{protocol.name}' needs phrases with boxes.")
    if not isinstance(entry, Run):
        return entry.subject(corpus, split)
    if entry.config.predicts_concepts and protocol.needs != "run":
        raise SeesayError(f"{entry.name}: predicts concepts; the protocol for them is 'concepts'.")
    inputs = run_inputs(entry, corpus, split)
    return RunSubject(entry, inputs, split, corpus, long=True)


def measure(subject: Subject, protocol: Protocol[Any] | str, options: Options = NO_OPTIONS) -> Result:
    """Measure a prepared subject by a protocol.

    Raises:
        SeesayError: the subject lacks something that the protocol needs.
    """
    chosen = PROTOCOLS[protocol] if isinstance(protocol, str) else protocol
    if chosen.needs == "run" and not isinstance(subject, RunSubject):
        raise SeesayError(f"{subject.name}: protocol '{chosen.name}' needs one run, not scores.")
    result = chosen.measure(subject, options)
    about, notes = result.about | subject.about, [*subject.notes, *result.notes]
    return result.model_copy(update={"about": about, "notes": notes})


def measure_inputs(run: Run, inputs: Inputs, split: str) -> Result:
    """Measure a run on prepared inputs with its default protocol, as after each epoch."""
    return measure(RunSubject(run, inputs, split), default_protocol(run.config))


def _told_if_chance(subject: Subject, result: Result) -> Result:
    """Add a note to the result of external scores that are no better than chance."""
    found, chance = result.metrics.get("I R@10"), 1000 / max(len(subject.corpus.images), 1)
    if isinstance(subject, RunSubject) or found is None or chance > _FEW or found > 2 * chance:
        return result
    hint = "This is chance: do rows and columns stand in the order of the corpus?"
    return result.model_copy(update={"notes": [*result.notes, hint]})


def open_corpus_of(
    runs: Sequence[Run], data: Path | None = None, allow_outside: bool = False, **options: Any
) -> Corpus:
    """Open the corpus to measure on: the one named, or the one that all runs were trained on.

    Without runs, as for external scores, it must be named. `options` are those of `read_corpus`; those that
    are None are as in training.

    Raises:
        SeesayError: it cannot be read, or the runs have no common corpus.
    """
    grounds = {run.config.regions is not None for run in runs}
    if len(grounds) > 1:
        raise SeesayError("Runs that ground phrases and runs that match sentences cannot share a corpus.")
    phrases = True in grounds
    if data is not None:
        return read_corpus(data, phrases=phrases, allow_outside=allow_outside, **options)
    if not runs:
        raise SeesayError("Score files have no corpus; name it with --data.")
    name_it = "name the corpus to measure on with --data."
    places = {TrainingSummary.load(run.folder).corpus for run in runs if is_finished(run.folder)}
    if not places:
        raise SeesayError(f"{', '.join(run.name for run in runs)}: no recorded corpus; {name_it}")
    if len(places) > 1:
        roots = ", ".join(sorted(place.root for place in places))
        raise SeesayError(f"The runs were trained on {roots}; {name_it}")
    place = places.pop()
    if not Path(place.root).exists():
        raise SeesayError(f"{place.root}: the runs' corpus is not there; {name_it}")
    as_trained = place.model_dump(exclude={"name", "root"})
    given = {name: value for name, value in options.items() if value is not None}
    return read_corpus(place.root, phrases=phrases, allow_outside=allow_outside, **(as_trained | given))
