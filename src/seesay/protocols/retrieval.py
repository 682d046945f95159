"""Protocols: how the scores of a split become the numbers of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seesay.errors import SeesayError
from seesay.metrics.bootstrap import Answers, intervals
from seesay.metrics.ranks import NO_ANSWER, Ranks, embedding_ranks, owners_of, ranks
from seesay.metrics.recall import mean_of, mean_recall, retrieval

# Ranks of one fold: from its images, its sentences (slices or positions) and, for each of these, its image.
Part = slice | NDArray[np.int64]
RanksOfFold = Callable[[Part, Part, NDArray[np.int64]], Ranks]


@dataclass(frozen=True, slots=True)
class Protocol:
    """What is ranked against what: the whole split, or sequential folds of it, averaged.

    `images` is the number of images that the protocol is defined for, `fold` the images of one fold.
    """

    name: str
    summary: str
    images: int | None = None
    fold: int | None = None


PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        Protocol("standard", "every image and sentence of the split"),
        Protocol("coco-1k", "mean of five sequential folds of 1,000 images", images=5000, fold=1000),
        Protocol("coco-5k", "all 5,000 test images of COCO", images=5000),
    )
}


def protocol_named(name: str) -> Protocol:
    """The protocol of that name.

    Raises:
        SeesayError: there is none.
    """
    try:
        return PROTOCOLS[name]
    except KeyError:
        raise SeesayError(f"no protocol '{name}'; there are: {', '.join(PROTOCOLS)}.") from None


def evaluate_scores(
    scores: ArrayLike,
    image_of_sentence: ArrayLike,
    protocol: str = "standard",
    split: str = "test",
    resamples: int = 0,
) -> dict[str, Any]:
    """Measure a score matrix: the object that `seesay evaluate --json` prints.

    Args:
        scores: (n_images, n_sentences), higher is better.
        image_of_sentence: (n_sentences,), for each sentence the row of its image.
        protocol: a name in PROTOCOLS.
        split: the split that the scores are of, for the record.
        resamples: of the bootstrap intervals; without them there are none.

    Returns:
        protocol, split, images, sentences, sentence_retrieval and image_retrieval (R@1, R@5, R@10 in
        percent and Med r) and mR; also `images_without_sentences` where there are some: candidates only;
        and `intervals`, see there.

    Raises:
        SeesayError: see `ranks`; an unknown protocol; a protocol for another number of images.
    """
    matrix = np.asarray(scores)
    if matrix.ndim != 2:
        raise SeesayError(f"score matrix: shape {matrix.shape}; it must be (n_images, n_sentences).")
    owners = owners_of(image_of_sentence, *matrix.shape)
    return evaluate_folds(
        lambda images, sentences, own: ranks(matrix[images][:, sentences], own),
        owners,
        len(matrix),
        protocol_named(protocol),
        split,
        resamples,
    )


def evaluate_embeddings(
    images: ArrayLike,
    sentences: ArrayLike,
    image_of_sentence: ArrayLike,
    protocol: str = "standard",
    split: str = "test",
    resamples: int = 0,
) -> dict[str, Any]:
    """As `evaluate_scores` of all inner products, which are never held at once.

    Args:
        images: (n_images, d).
        sentences: (n_sentences, d).
        image_of_sentence: (n_sentences,), for each sentence the row of its image.
        protocol: a name in PROTOCOLS.
        split: the split that the embeddings are of, for the record.
        resamples: of the bootstrap intervals; without them there are none.

    Raises:
        SeesayError: see `evaluate_scores`.
    """
    rows, columns = np.asarray(images), np.asarray(sentences)
    owners = owners_of(image_of_sentence, len(rows), len(columns))
    return evaluate_folds(
        lambda of_images, of_sentences, own: embedding_ranks(rows[of_images], columns[of_sentences], own),
        owners,
        len(rows),
        protocol_named(protocol),
        split,
        resamples,
    )


def evaluate_folds(
    ranks_of: RanksOfFold,
    owners: NDArray[np.int64],
    n_images: int,
    protocol: Protocol,
    split: str,
    resamples: int = 0,
) -> dict[str, Any]:
    """As `evaluate_scores`, from the ranks of each fold of the protocol; `owners` are checked already.

    With `resamples` also `intervals`, see there.
    """
    folds = answers_of_folds(ranks_of, owners, n_images, protocol, split)
    return summary_of_folds(folds, protocol, split, resamples)


def answers_of_folds(
    ranks_of: RanksOfFold, owners: NDArray[np.int64], n_images: int, protocol: Protocol, split: str
) -> list[Answers]:
    """The ranks of each fold of the protocol.

    Raises:
        SeesayError: the protocol is for another number of images.
    """
    if protocol.images not in (None, n_images):
        raise SeesayError(
            f"protocol '{protocol.name}' is for {protocol.images} images; split '{split}' has {n_images}. "
            "Use --protocol standard."
        )
    size = protocol.fold or n_images
    folds = []
    for start in range(0, n_images, size):
        chosen = _sentences_of(owners, start, start + size)
        own = owners[chosen] - start
        folds.append(Answers(ranks_of(slice(start, start + size), chosen, own), own))
    return folds


def summary_of_folds(
    folds: Sequence[Answers], protocol: Protocol, split: str, resamples: int = 0
) -> dict[str, Any]:
    """What `evaluate_folds` returns, from the ranks of each fold."""
    sentence = mean_of([retrieval(fold.ranks.sentence) for fold in folds])
    image = mean_of([retrieval(fold.ranks.image) for fold in folds])
    result: dict[str, Any] = {"protocol": protocol.name, "split": split}
    result["images"] = sum(len(fold.ranks.sentence) for fold in folds)
    result["sentences"] = sum(len(fold.owners) for fold in folds)
    if without := sum(int((fold.ranks.sentence == NO_ANSWER).sum()) for fold in folds):
        result["images_without_sentences"] = without
    result["sentence_retrieval"] = {name: round(value, 3) for name, value in sentence.as_dict().items()}
    result["image_retrieval"] = {name: round(value, 3) for name, value in image.as_dict().items()}
    result["mR"] = round(mean_recall(sentence, image), 3)
    return result | ({"intervals": intervals(folds, resamples)} if resamples else {})


def _sentences_of(owners: NDArray[np.int64], start: int, stop: int) -> Part:
    """The sentences of images start to stop; a slice where they stand together, which copies nothing."""
    chosen = np.flatnonzero((owners >= start) & (owners < stop))
    if chosen.size and chosen[-1] - chosen[0] + 1 == chosen.size:
        return slice(int(chosen[0]), int(chosen[-1]) + 1)
    return chosen
