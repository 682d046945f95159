"""How well concepts are predicted: mean average precision, against the concepts' own frequency."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from seesay.encoders.images.base import load_image_encoder
from seesay.encoders.images.encode import fill_stores
from seesay.errors import SeesayError
from seesay.matchers.concepts import ConceptPredictor
from seesay.metrics.bootstrap import ends, how_drawn, image_draws, mean_intervals
from seesay.runs.concepts import run_concepts
from seesay.runs.inputs import Inputs, stores_folder
from seesay.runs.run import Run, default_device
from seesay.text.concepts import PARTS_OF_SPEECH, ConceptVocabulary, concept_targets

# Protocols: the run's own features of whole images, and the highest score of 50 regions of each.
CONCEPTS, REGIONS = "concepts", "concepts-regions"

Scores = NDArray[np.floating]
Targets = NDArray[np.bool_]


def average_precision(scores: Scores, targets: Targets) -> NDArray[np.float64]:
    """The average precision of each column, (k,): the mean of the precision at each target found.

    Rows with one score are found together, so a constant scorer gets the share of the targets. NaN where a
    column has no target.

    Args:
        scores: (n, k).
        targets: (n, k).

    Raises:
        SeesayError: a score is not a number.
    """
    if np.isnan(scores).any():
        raise SeesayError("A concept's score is not a number; train the concepts again.")
    columns = zip(np.asarray(scores).T, targets.T, strict=True)
    return np.array([_one_column(column, which) for column, which in columns], np.float64)


def _one_column(scores: Scores, targets: Targets) -> float:
    if not targets.any():
        return float("nan")
    order, last = _ranked(scores)
    found = np.cumsum(targets[order])[last]
    gained = np.diff(found, prepend=0)
    return float((gained * found / (last + 1)).sum() / found[-1])


def _ranked(scores: Scores) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows by falling score, and where each score's last one stands."""
    order = np.argsort(-scores, kind="stable")
    return order, np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)


def concept_measures(scores: Scores, targets: Targets, vocabulary: ConceptVocabulary) -> dict[str, Any]:
    """Mean average precisions in percent, of scores (n, K) against what the images' sentences name, (n, K).

    `mAP` is the mean over the concepts that occur: each ranks the images. `image mAP` is the mean over the
    images that have any: each ranks the concepts. The baseline predicts how frequent a concept is in the
    train split, whatever the image.
    """
    parts = np.array([concept.part_of_speech for concept in vocabulary.concepts])
    precision = average_precision(scores, targets)
    frequency = np.array([concept.count for concept in vocabulary.concepts], np.float64)
    constant = np.broadcast_to(frequency, targets.shape)
    kinds = {part: precision[parts == part] for part in PARTS_OF_SPEECH}
    return {
        "images": len(targets),
        "concepts": int(targets.any(axis=0).sum()),
        "images_without_concepts": int((~targets.any(axis=1)).sum()),
        "mAP": _mean(precision),
        "image mAP": _mean(average_precision(scores.T, targets.T)),
        "baselines": {
            "training frequency": {
                "mAP": _mean(average_precision(constant, targets)),
                "image mAP": _mean(average_precision(constant.T, targets.T)),
            }
        },
        "by kind": {f"{part}s": {"mAP": _mean(kinds[part])} for part in PARTS_OF_SPEECH if len(kinds[part])},
    }


def concept_intervals(scores: Scores, targets: Targets, resamples: int) -> dict[str, Any]:
    """Bootstrap intervals of `mAP` and `image mAP`, images being drawn."""
    columns = [(scores[:, k], targets[:, k]) for k in np.flatnonzero(targets.any(axis=0))]
    draws = image_draws(np.random.default_rng(0), len(targets), resamples)
    drawn = [
        np.nanmean([_drawn_precision(column, which, weights) for column, which in columns], axis=0)
        for _, weights in draws
    ]
    of_images = 100 * average_precision(scores.T, targets.T)
    by_image = mean_intervals(("image mAP",), of_images[:, None], np.arange(len(targets)), resamples)
    return how_drawn(resamples) | {"mAP": ends(100 * np.concatenate(drawn)[:, None])[0]} | by_image


def _drawn_precision(scores: Scores, targets: Targets, weights: NDArray[np.int32]) -> NDArray[np.float64]:
    """`_one_column` where row i stands there weights[:, i] times, (b,) from (b, n); NaN without a target."""
    order, last = _ranked(scores)
    there = weights[:, order]
    seen, found = there.cumsum(axis=1)[:, last], (there * targets[order]).cumsum(axis=1)[:, last]
    gained = np.diff(found, prepend=0, axis=1)
    with np.errstate(invalid="ignore"):
        precision: NDArray[np.float64] = (gained * found / np.maximum(seen, 1)).sum(axis=1) / found[:, -1]
    return precision


def measure_concepts(
    run: Run, inputs: Inputs, split: str, protocol: str = CONCEPTS, resamples: int = 0
) -> dict[str, Any]:
    """A run of concepts on one split, with `intervals` where it is resampled.

    Raises:
        SeesayError: the run is no such run; no sentence of the split names a concept.
    """
    vocabulary = run_concepts(run)
    words = [concept.word for concept in vocabulary.concepts]
    targets = concept_targets(words, inputs.corpus)
    if not targets.any():
        raise SeesayError(f"{inputs.corpus.root}: split '{split}' names none of the concepts of {run.name}.")
    scores = _region_scores(run, inputs) if protocol == REGIONS else _scores(run, inputs)
    told = {"intervals": concept_intervals(scores, targets, resamples)} if resamples else {}
    return {"protocol": protocol, "split": split, **concept_measures(scores, targets, vocabulary), **told}


@torch.inference_mode()
def _scores(run: Run, inputs: Inputs) -> Scores:
    assert isinstance(run.matcher, ConceptPredictor)
    return torch.sigmoid(run.matcher.logits(inputs.features.to(run.device))).cpu().numpy()


def _region_scores(run: Run, inputs: Inputs) -> Scores:
    encoder = load_image_encoder(f"concepts-regions:{run.folder}", default_device())
    report = fill_stores([encoder], stores_folder(), inputs.corpus.images)
    keys = [key for key in report.keys if key is not None]
    return report.stores[0].read(keys, "pooled")


def _mean(precisions: NDArray[np.float64]) -> float | None:
    there = precisions[~np.isnan(precisions)]
    return 100 * float(there.mean()) if there.size else None
