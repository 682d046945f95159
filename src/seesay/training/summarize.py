"""The summary of a training, and probabilities fitted to the val split."""

from __future__ import annotations

import os
import platform
from collections import defaultdict
from collections.abc import Mapping, Sequence
from importlib.metadata import version

import numpy as np
import torch

from seesay import __version__
from seesay.arrays import Mask, refuse_nan
from seesay.data.corpus import Corpus
from seesay.errors import SeesayError
from seesay.losses.softmax import DistillationLoss
from seesay.matchers.base import EmbeddingMatcher
from seesay.protocols.base import PROTOCOLS, Result
from seesay.protocols.evaluate import measure, subject_of
from seesay.protocols.grounding import GROUNDING, fit_boxes
from seesay.protocols.subject import Matrix, RunSubject
from seesay.runs.calibration import Calibration, NothingToFitError, ScoreCalibration
from seesay.runs.export import try_export
from seesay.runs.inputs import run_inputs
from seesay.runs.load import load_run
from seesay.runs.run import Run
from seesay.runs.summary import CorpusPlace, Epoch, GateSummary, MemberSummary, TrainingSummary
from seesay.text.concepts import nouns
from seesay.training.loop import CHECKPOINT
from seesay.training.task import Task

LEAST_IMAGES = 20
"""Images that a split needs for probabilities: fewer are so easily told apart that any answer seems sure."""

_INCLUDED, _COMPARED = "seesay-small", 300
_FITTED = 500  # most queries of a kind to which probabilities are fitted
_WEIGHT = 1e4  # total weight of the answers, so large that the regularisation hardly counts
_SEVERAL = 5  # least number of images of a noun that is a query


def summarize(
    run: Run,
    corpus: Corpus,
    task: Task,
    history: Sequence[Epoch] = (),
    members: Mapping[str, MemberSummary] | None = None,
    gates: Mapping[str, GateSummary] | None = None,
) -> TrainingSummary:
    """Summarize a training.

    Without epochs, such as when members are only combined, the run is measured on the val split.
    """
    best_epoch = max(history, key=lambda epoch: Result.read(epoch.val).monitor, default=None)
    best = Result.read(best_epoch.val) if best_epoch else task.measure(run)
    seconds = sum(epoch.seconds for epoch in history) + sum(m.seconds for m in (members or {}).values())
    train, val = task.sizes()
    is_gpu = run.device.startswith("cuda")
    processor = torch.cuda.get_device_name(run.device) if is_gpu else run.device.partition(":")[0]
    wanted = run.recipe.matcher.concept_count if run.recipe.matcher.predicts_concepts else None
    return TrainingSummary(
        recipe=run.recipe.name,
        seed=run.recipe.seed,
        corpus=CorpusPlace.model_validate(
            {"name": corpus.name, "root": str(corpus.root.resolve()), **corpus.reading}
        ),
        epochs=len(history) or None,
        steps=run.recipe.schedule.steps if history else None,
        best_epoch=best_epoch.epoch if best_epoch else None,
        improving=best_epoch and best_epoch.ridge is None and best_epoch.epoch == len(history),
        seconds=round(seconds, 1),
        train=train,
        val=val,
        broken_images=tuple(str(error) for error in (*task.data.broken, *task.val.broken)),
        concepts={"wanted": wanted, "kept": len(run.vocabulary.words)} if wanted else None,
        members=dict(members) if members else None,
        gates=dict(gates) if gates else None,
        teacher=next((term.fingerprint for term in task.terms if isinstance(term, DistillationLoss)), None),
        vocabulary=len(run.vocabulary),
        versions={"seesay": __version__}
        | {name: version(name) for name in ("torch", "numpy", "onnxruntime")},
        machine=f"{platform.machine()}, {os.cpu_count()} cores, {processor}",
        monitor=PROTOCOLS[best.protocol].monitor,
        best=best.monitor,
        best_val=best.to_dict(),
    )


def calibrate(run: Run, corpus: Corpus) -> str | None:
    """Fit the probabilities of a run that can be indexed or grounds phrases, and store them in its folder.

    Returns why they could not be fitted, or None. Scores then have the default probabilities, and boxes none.
    """
    run.update(calibration=None)
    if not corpus.has_boxes and not isinstance(run.matcher, EmbeddingMatcher):
        return None
    reader = run.sentence_encoder
    if not corpus.has_boxes and reader is not None and not reader.reads_any_text:
        return "this takes vectors of further sentences, which the run's sentence encoder does not have."
    subject = subject_of(run, corpus, "val", PROTOCOLS[GROUNDING if corpus.has_boxes else "standard"])
    assert isinstance(subject, RunSubject)
    if subject.n_images < LEAST_IMAGES:
        return (
            f"{corpus.root}: split 'val' has {subject.n_images} images; probabilities need {LEAST_IMAGES} "
            "that show different things."
        )
    try:
        found = fit_boxes(subject) if corpus.has_boxes else fit_calibration(subject)
        run.update(calibration=found)
    except NothingToFitError as failure:
        return str(failure)
    return None


def fit_calibration(subject: RunSubject) -> ScoreCalibration:
    """Fit the probabilities of queries of a sentence, and of queries of a noun that several images share.

    Images whose sentences contain the noun are right, others wrong. For a sentence its own images are right,
    and those wrong whose sentences share no noun with it; the others are left out. Nouns are English lemmas.
    Without such nouns, single words are judged like sentences.

    Raises:
        NothingToFitError: the split has no such queries, or only right or only wrong answers.
        SeesayError: a score is NaN.
    """
    texts = [" ".join(text.lower().split()) for text in subject.corpus.texts()]
    named = [nouns(text) for text in texts]
    showing: defaultdict[str, Mask] = defaultdict(lambda: np.zeros(subject.n_images, bool))
    own: defaultdict[str, Mask] = defaultdict(lambda: np.zeros(subject.n_images, bool))
    for text, its_nouns, owner in zip(texts, named, subject.owners, strict=True):
        own[text][owner] = True
        for noun in its_nouns:
            showing[noun][owner] = True
    queries = []
    for text, right in own.items():
        column = texts.index(text)
        wrong = ~np.any([right, *(showing[noun] for noun in named[column])], axis=0)
        if named[column] and wrong.any():
            queries.append((column, right, right | wrong))
    if not queries:
        raise NothingToFitError(
            f"{subject.corpus.root}: no sentence of split '{subject.split}' has a noun that the sentences of "
            "other images lack; probabilities need images that do not fit (and English)."
        )
    of_sentences = _fitted(subject.scores.by_direction()[1], queries)
    names = sorted(noun for noun, images in showing.items() if images.sum() >= _SEVERAL and not images.all())
    if not names:
        return ScoreCalibration(of_sentences, of_sentences)
    scores = subject.run.score_prepared(subject.inputs.features, subject.run.prepare(names))
    every = np.ones(subject.n_images, bool)
    of_nouns = _fitted(scores, [(column, showing[name], every) for column, name in enumerate(names)])
    return ScoreCalibration(of_nouns, of_sentences)


def _fitted(scores: Matrix, queries: Sequence[tuple[int, Mask, Mask]]) -> Calibration:
    """Fit to the scores (n, m) of queries: the column of each, its right images, and those that are known."""
    refuse_nan(np.asarray(scores, np.result_type(scores, np.float32)), "scores")
    few = queries[:: -(-len(queries) // _FITTED)]
    values = np.concatenate([scores[known, column] for column, _, known in few]).astype(np.float64)
    outcomes = np.concatenate([right[known] for _, right, known in few])
    return Calibration.fit(values, outcomes, np.full(len(values), _WEIGHT / len(values)))


def compared_with_included(run: Run, corpus: Corpus) -> Result | None:
    """Measure a run on the first images of val, at most 300, and compare it with the included weights.

    Returns:
        The result, with the comparison; None if the run grounds phrases or predicts concepts, or if the
        included weights cannot read these images.
    """
    if corpus.has_boxes or run.config.predicts_concepts:
        return None
    mine = run_inputs(run, corpus, "val").of_first_images(min(run.recipe.val_images or _COMPARED, _COMPARED))
    if any(image.source is None for image in mine.corpus.images):
        return None
    included = load_run(_INCLUDED)
    try:
        theirs_of = run_inputs(included, mine.corpus, "val")
    except SeesayError:  # a run of precomputed features needs no image, and none of these can be read
        return None
    both = ((run, mine), (included, theirs_of))
    ours, theirs = (measure(RunSubject(each, inputs, "val"), "standard") for each, inputs in both)
    if ours.content != theirs.content:  # one of them has skipped an image
        return None
    return ours.model_copy(update={"against": ours.compare(theirs, _INCLUDED)})


def finish(run: Run, corpus: Corpus, summary: TrainingSummary) -> None:
    """Calibrate and export a run; then write its summary, which says that it is finished.

    The checkpoint, several times as large as the weights, is deleted: a finished run is not resumed.
    """
    summary = summary.model_copy(update={"uncalibrated": calibrate(run, corpus)})
    try_export(run)
    summary.save(run.folder)
    (run.folder / CHECKPOINT).unlink(missing_ok=True)
