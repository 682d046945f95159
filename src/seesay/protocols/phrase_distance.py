"""The combination of image-sentence and region-phrase distances: eq. 8 and Table 5 of the two-branch paper.

D(x, y) = (1 - α) d(x, y) + α d_rp(x, y), where d is the distance of image and sentence in the space of the
embedding network, and d_rp the mean over the sentence's noun phrases of the distance to the nearest region of
the image. The paper uses annotated phrases; here the chunker finds them. A sentence without a phrase keeps d.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from seesay.data.corpus import Corpus, CorpusImage
from seesay.data.images import EncodedImage
from seesay.device import default_device
from seesay.encoders.regions import (
    box_file_of,
    fill_regions,
    load_region_encoder,
    read_regions,
    region_features,
)
from seesay.encoders.stores import stores_folder
from seesay.errors import SeesayError
from seesay.progress import progress
from seesay.protocols.base import PROTOCOLS, Options, Result
from seesay.protocols.subject import Scores, Subject
from seesay.runs.inputs import run_inputs
from seesay.runs.run import Run
from seesay.text.chunker import noun_phrases

ALPHAS = tuple(round(0.05 * step, 2) for step in range(13))  # 0 to 0.6; the paper's is 0.3

Matrix = NDArray[np.float32]


def measure_combined(sentence_run: Run, phrase_run: Run, corpus: Corpus, split: str) -> Result:
    """Measure the combined distance by the standard protocol, with α (in `about`) chosen by val mR.

    Raises:
        SeesayError: `phrase_run` does not ground phrases, or a run has no embedding.
    """
    name = f"{sentence_run.title} + {phrase_run.title}"

    def measured(part: Corpus, distances: tuple[Matrix, Matrix], on: str, alpha: float) -> Result:
        subject = Subject(name, on, part, Scores(-combined(*distances, alpha)))
        return PROTOCOLS["standard"].measure(subject, Options())

    part, distances = both_distances(sentence_run, phrase_run, corpus, "val")
    alpha = max(ALPHAS, key=lambda alpha: measured(part, distances, "val", alpha).monitor)
    if split != "val":
        part, distances = both_distances(sentence_run, phrase_run, corpus, split)
    result = measured(part, distances, split, alpha)
    return result.model_copy(update={"about": {**result.about, "alpha": alpha}})


def combined(distance: Matrix, phrase_distance: Matrix, alpha: float) -> Matrix:
    """Combine the distances by eq. 8; keep `distance` where `phrase_distance` is NaN (no phrase)."""
    known = np.isfinite(phrase_distance)
    return np.where(known, (1 - alpha) * distance + alpha * np.where(known, phrase_distance, 0), distance)


def both_distances(
    run: Run, phrase_run: Run, corpus: Corpus, split: str
) -> tuple[Corpus, tuple[Matrix, Matrix]]:
    """Return the usable part of a split, and the distances d and d_rp of all its pairs, (n, m)."""
    inputs = run_inputs(run, corpus, split)
    cosines = run.embed_features(inputs.features) @ run.embed_prepared(inputs.sentences).T
    phrases = [[chunk.text for chunk in noun_phrases(text)] for text in inputs.corpus.texts()]
    unique = sorted({phrase for some in phrases for phrase in some})
    nearest = nearest_regions(phrase_run, inputs.corpus, unique)
    distance, to_regions = (np.sqrt(np.clip(2 - 2 * each, 0, None)) for each in (cosines, nearest))
    return inputs.corpus, (distance, mean_over_phrases(to_regions, phrases, unique))


def nearest_regions(run: Run, corpus: Corpus, phrases: list[str]) -> Matrix:
    """Compute the cosine of each phrase and its nearest region in each image, (n_images, n_phrases).

    Images without regions have -1.

    Raises:
        SeesayError: the run does not ground phrases or has no embedding, or no image can be decoded.
    """
    settings = run.config.region_settings
    if settings is None:
        raise SeesayError(f"{run.name}: matches whole images; the combination needs a grounding run.")
    encoder, count = run.config.encoders[0], settings.proposals
    images: Sequence[CorpusImage] = corpus.images
    if settings.geometry:
        sizes = [EncodedImage(i.source.read(), i.name).size if i.source else i.size for i in images]
        images = [replace(image, size=size) for image, size in zip(images, sizes, strict=True)]
    if (file := box_file_of(encoder, corpus.root)) is not None:
        fill = read_regions(file, images, count, further=False)
    else:
        regions = load_region_encoder(encoder, default_device(), run.folder)
        fill = fill_regions(regions, stores_folder(), images, count=count)
    if len(fill.errors) == len(images):
        raise SeesayError(f"{corpus.root}: no image has regions; {fill.errors[0]}")
    vectors = run.embed_sentences(phrases)
    nearest = np.full((len(fill.regions), len(phrases)), -1, np.float32)
    with progress("Phrases against regions", len(fill.regions), "images") as advance:
        for row, image, (boxes, features) in zip(nearest, images, fill.regions, strict=True):
            if len(boxes):
                rows = region_features(features, boxes, image.size, settings.geometry)
                row[:] = (run.embed_features(rows) @ vectors.T).max(axis=0)
            advance(1)
    return nearest


def mean_over_phrases(distance: Matrix, phrases: list[list[str]], unique: list[str]) -> Matrix:
    """Average over each sentence's phrases, (n, m) from (n, n_phrases); NaN for a sentence without one."""
    column = {phrase: number for number, phrase in enumerate(unique)}
    means = np.full((len(distance), len(phrases)), np.nan, np.float32)
    for sentence, some in enumerate(phrases):
        if some:
            means[:, sentence] = distance[:, [column[phrase] for phrase in some]].mean(axis=1)
    return means
