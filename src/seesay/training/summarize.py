"""The summary of a training, and probabilities fitted to the val split."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version

import torch

from seesay import __version__
from seesay.data.corpus import Corpus
from seesay.losses.softmax import DistillationLoss
from seesay.matchers.base import EmbeddingMatcher
from seesay.protocols.base import PROTOCOLS, read_result
from seesay.protocols.evaluate import subject_of
from seesay.protocols.grounding import GROUNDING, fit_boxes
from seesay.protocols.subject import RunSubject
from seesay.runs.calibration import NothingToFitError
from seesay.runs.export import try_export
from seesay.runs.run import Run
from seesay.runs.summary import (
    CorpusPlace,
    Epoch,
    GateSummary,
    MemberSummary,
    TrainingSummary,
)
from seesay.training.calibrate import fit_calibration
from seesay.training.loop import CHECKPOINT
from seesay.training.task import Task


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
    best_epoch = max(history, key=lambda epoch: read_result(epoch.val).monitor, default=None)
    best = read_result(best_epoch.val) if best_epoch else task.measure(run)
    seconds = sum(epoch.seconds for epoch in history) + sum(m.seconds for m in (members or {}).values())
    train, val = task.sizes()
    is_gpu = run.device.startswith("cuda")
    processor = torch.cuda.get_device_name(run.device) if is_gpu else run.device.partition(":")[0]
    wanted = run.recipe.matcher.concept_count if run.recipe.matcher.predicts_concepts else None
    return TrainingSummary(
        recipe=run.recipe.name,
        seed=run.recipe.seed,
        corpus=CorpusPlace(
            name=corpus.name,
            root=str(corpus.root.resolve()),
            images=str(corpus.images_root.resolve()) if corpus.images_root else None,
            format=corpus.format,
            image_column=corpus.image_column,
            caption_column=corpus.caption_column,
            subset=corpus.subset_size,
        ),
        epochs=len(history) or None,
        best_epoch=best_epoch.epoch if best_epoch else None,
        improving=best_epoch and best_epoch.ridge is None and best_epoch.epoch == run.recipe.schedule.epochs,
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

    Returns:
        Why they could not be fitted, or None. For example, without English nouns no images are known not to
        fit a query. Scores then have the default probabilities, and boxes none.
    """
    run.update(calibration=None)
    if not corpus.has_boxes and not isinstance(run.matcher, EmbeddingMatcher):
        return None
    reader = run.sentence_encoder
    if not corpus.has_boxes and reader is not None and not reader.reads_any_text:
        return "this takes vectors of further sentences, which the run's sentence encoder does not have."
    subject = subject_of(run, corpus, "val", PROTOCOLS[GROUNDING if corpus.has_boxes else "standard"])
    assert isinstance(subject, RunSubject)
    try:
        found = fit_boxes(subject) if corpus.has_boxes else fit_calibration(subject)
        run.update(calibration=found)
    except NothingToFitError as failure:
        return str(failure)
    return None


def finish(run: Run, corpus: Corpus, summary: TrainingSummary) -> None:
    """Calibrate and export a run; then write its summary, which says that it is finished.

    The checkpoint, several times as large as the weights, is deleted: a finished run is not resumed.
    """
    summary = summary.model_copy(update={"uncalibrated": calibrate(run, corpus)})
    try_export(run)
    summary.save(run.folder)
    (run.folder / CHECKPOINT).unlink(missing_ok=True)
