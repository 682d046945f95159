"""Internals of a run's matcher and encoders: concepts, attended instances, gates."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from seesay.data.corpus import Corpus
from seesay.encoders.images.base import ImageEncoder, load_image_encoder
from seesay.encoders.images.concepts import CONCEPT_ENCODERS
from seesay.encoders.images.encode import encode_images
from seesay.encoders.images.instances import INSTANCES
from seesay.encoders.spec import EncoderSpec
from seesay.errors import ImageError, SeesayError
from seesay.matchers.gvse import GVSE, UncommonVSE
from seesay.matchers.sco import ConceptClassifier
from seesay.report.page import Frame, Page, Pictures
from seesay.report.plots import histograms
from seesay.results.formats import Table
from seesay.results.html import Html, tag
from seesay.runs.inputs import Inputs
from seesay.runs.predictions import concept_probabilities, gate_values
from seesay.runs.run import Run
from seesay.text.concepts import FILE, ConceptVocabulary, concept_targets

_CONCEPTS = 8  # shown for each image
_FRAMES = 3  # instances shown for each step
_SENTENCES = 5  # shown with the highest and with the lowest gate values


def add_internals(page: Page, run: Run, inputs: Inputs, pictures: Pictures, images: Sequence[int]) -> None:
    """Add figures of the internals of a run, if it has any, for some images."""
    _add_concepts(page, run, inputs, pictures, images)
    _add_attention(page, run, inputs, pictures, images)
    _add_gates(page, run, inputs)


def concept_scores(
    run: Run, inputs: Inputs, images: Sequence[int]
) -> tuple[Sequence[str], NDArray[np.float32]] | None:
    """Return the concepts that a run predicts or reads, and their scores (k, K) in k images, if any."""
    features = inputs.features[list(images)]
    if isinstance(run.matcher, ConceptClassifier):
        return run.vocabulary.words, concept_probabilities(run, features)
    place = _columns(run, inputs, CONCEPT_ENCODERS)
    if place is None:
        return None
    encoder, columns = place
    folder = Path(encoder.variant)
    try:
        words = [concept.word for concept in ConceptVocabulary.load(folder / FILE).concepts]
    except SeesayError:
        return None  # without the run of the concepts, their names are unknown
    scores = np.asarray(features[:, columns], np.float32)
    return (words, scores) if len(words) == scores.shape[1] else None


def _add_concepts(page: Page, run: Run, inputs: Inputs, pictures: Pictures, images: Sequence[int]) -> None:
    found = concept_scores(run, inputs, images)
    if found is None:
        return
    words, scores = found
    targets = concept_targets(words, inputs.corpus)
    blocks = (
        tag("div", pictures.show(i), _concepts(words, scores[row], targets[i]), class_="seen")
        for row, i in enumerate(images)
    )
    page.figure(
        f"The {min(_CONCEPTS, len(words))} most probable concepts of some images. A tick marks those that "
        "one of its sentences mentions.",
        *blocks,
        class_="cards",
    )


def _concepts(words: Sequence[str], scores: NDArray[np.float32], named: NDArray[np.bool_]) -> Html:
    first = np.argsort(-scores, kind="stable")[:_CONCEPTS].tolist()
    items = (
        tag(
            "li",
            tag("span", words[c], " ✓" if named[c] else "", class_="word"),
            tag("meter", f"{scores[c]:.2f}", value=f"{scores[c]:.3f}", min=0, max=1, aria_label=words[c]),
            tag("span", f"{scores[c]:.2f}", class_="number"),
            class_="right" if named[c] else None,
        )
        for c in first
    )
    return tag("ul", *items, class_="scores")


def _columns(run: Run, inputs: Inputs, kinds: Sequence[str]) -> tuple[EncoderSpec, slice] | None:
    """Find an encoder of one of those kinds, and the columns of its `pooled` array in the features."""
    at = 0
    arrays = product(run.recipe.encoders, run.recipe.arrays)
    for (encoder, array), width in zip(arrays, inputs.image_dims, strict=False):  # precomputed: one width
        if encoder.name in kinds and array == "pooled":
            return encoder, slice(at, at + width)
        at += width
    return None


def _add_attention(page: Page, run: Run, inputs: Inputs, pictures: Pictures, images: Sequence[int]) -> None:
    members = run.matcher.members if isinstance(run.matcher, GVSE) else [run.matcher]
    attending = (m for m in members if isinstance(m, UncommonVSE) and m.relation is not None)
    matcher, place = next(attending, None), _columns(run, inputs, [INSTANCES])
    if matcher is None or place is None:
        return
    features = torch.from_numpy(inputs.features[list(images)])[:, place[1]]
    saliencies = matcher.saliencies(features.to(run.device)).cpu().numpy()
    encoder = load_image_encoder(place[0], run.device, run.folder)
    boxes = _instance_boxes(encoder, inputs.corpus, images)
    if boxes is None or boxes.shape[1] != saliencies.shape[2]:
        return
    blocks = (
        tag("div", *(_step(pictures, i, t, p, own) for t, p in enumerate(steps)), class_="steps")
        for i, steps, own in zip(images, saliencies, boxes, strict=True)
    )
    page.figure(
        f"What each step attends to: the {_FRAMES} instances with the highest saliencies (more opaque "
        "if higher), and the highest saliency.",
        *blocks,
        class_="cards",
    )


def _instance_boxes(
    encoder: ImageEncoder, corpus: Corpus, images: Sequence[int]
) -> NDArray[np.float32] | None:
    """Compute the instances' boxes as shares of each image, (k, I, 4); None if one cannot be read."""
    chosen = [corpus.images[i] for i in images]
    try:
        data = [image.source.read() for image in chosen if image.source is not None]
    except ImageError:
        return None
    if len(data) < len(chosen):
        return None
    found = encode_images([encoder], data, [image.name for image in chosen]).arrays[0]["boxes"]
    return found.reshape(len(chosen), -1, 4)


def _step(
    pictures: Pictures, image: int, step: int, p: NDArray[np.float32], boxes: NDArray[np.float32]
) -> Html:
    first = np.argsort(-p, kind="stable")[:_FRAMES]
    frames = [Frame(boxes[i].tolist(), "found", float(p[i] / p[first[0]])) for i in first if boxes[i].any()]
    highest = tag("span", f"step {step + 1}: {p[first[0]]:.2f}", class_="number")
    return tag("div", pictures.show(image, frames), highest)


def _add_gates(page: Page, run: Run, inputs: Inputs) -> None:
    found = gate_values(run, inputs)
    if found is None:
        return
    of_images, of_sentences = found
    values = {"image queries": of_images, "sentence queries": of_sentences}
    means = ", ".join(f"{name} {t.mean():.2f}" for name, t in values.items())
    page.figure(
        "Gate values t: a query is compared by the uncommon VSE (1) or by the common VSE (0).",
        histograms(values, f"Histograms of the gate values. Means: {means}."),
    )
    order = np.argsort(-of_sentences, kind="stable")
    texts = inputs.corpus.texts()
    ends = [*order[:_SENTENCES], *order[-_SENTENCES:]] if len(order) > 2 * _SENTENCES else [*order]
    rows = [[f"{of_sentences[j]:.3f}", texts[j]] for j in ends]
    table = Table(["t", "sentence"], rows, words={0, 1})
    page.table("The sentences with the highest and the lowest gate values.", table)
