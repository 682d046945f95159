"""Image to image: which images are described alike?

The dual of sentence-to-sentence retrieval. There two sentences belong together that describe one image;
here two images do that share a sentence: some sentence of one and some of the other have the same content
words (nouns, adjectives, verbs and numbers, as lemmas, in any order; English). "Two dogs run in the snow."
and "two dogs running through snow" are such. Corpora have people's own judgements of image pairs seldom
(COCO has: Parekh et al., EACL 2021), and few images share a sentence: how many do is printed. So
nDCG stands beside, of all images: an image is as relevant to another as the mean ROUGE-L of the other's
sentences against its own.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seesay.data.corpus import Corpus
from seesay.errors import SeesayError
from seesay.metrics.bootstrap import mean_intervals, rank_intervals
from seesay.metrics.ranks import NO_ANSWER
from seesay.metrics.recall import retrieval
from seesay.metrics.rouge import rouge_l
from seesay.protocols.graded import CHANCE, NDCG, RELEVANCE, ndcg, ndcg_by_chance, refuse_nan
from seesay.text.concepts import content_words

IMAGE_TO_IMAGE = "image-to-image"

_CELLS = 1 << 22  # scores held at a time; 16 MiB of float32


def image_to_image(
    vectors: ArrayLike,
    corpus: Corpus,
    split: str = "test",
    asking: ArrayLike | None = None,
    resamples: int = 0,
) -> dict[str, Any]:
    """R@K and Med r of every image that shares a sentence, and nDCG@25 of all, by inner product.

    A query is answered at the rank of the best image that it shares a sentence with; an image that shares
    none and scores as high stands before. The query is no candidate itself.

    Args:
        vectors: (n, d), unit ones for cosine.
        corpus: the n images and their sentences.
        split: its name, for the record.
        asking: (n, d), the vectors of images that ask, where they are others.
        resamples: of the bootstrap intervals; without them there are none.

    Returns:
        protocol, split, images, `queries` (how many share a sentence), `answered` (their share in percent),
        R@1, R@5, R@10 in percent, Med r, `relevance`, and nDCG@25 in percent, also by chance; `intervals`.

    Raises:
        SeesayError: shapes do not fit, a score is NaN, or no two images share a sentence.
    """
    rows = _vectors(vectors, corpus)
    queries = rows if asking is None else _vectors(asking, corpus)
    alike = images_alike(corpus)
    asked = sum(bool(len(some)) for some in alike)
    if not asked:
        raise SeesayError(
            f"protocol '{IMAGE_TO_IMAGE}': no two images of {corpus.root}, split '{split}', share a sentence."
        )
    relevance = image_relevance(corpus)
    ranks, (gains, chance) = np.full(len(rows), NO_ANSWER), np.full((2, len(rows)), np.nan)
    step = max(1, _CELLS // len(rows))
    for start in range(0, len(rows), step):
        with np.errstate(invalid="ignore", over="ignore"):  # a NaN is reported with its place
            scores = _others(queries[start : start + step] @ rows.T, start)
        refuse_nan(scores, start, IMAGE_TO_IMAGE)
        stop = start + len(scores)
        relevant = _others(relevance[start:stop], start)
        gains[start:stop], chance[start:stop] = ndcg(scores, relevant), ndcg_by_chance(relevant)
        for query, mine in enumerate(scores, start):
            if len(right := alike[query]):
                right = right - (right > query)  # the query has left the row
                ranks[query] = (mine >= mine[right].max()).sum() - (mine[right] >= mine[right].max()).sum()
    found = retrieval(ranks).as_dict() | {
        NDCG: 100 * float(np.nanmean(gains)),
        CHANCE: 100 * float(np.nanmean(chance)),
    }
    about = {"protocol": IMAGE_TO_IMAGE, "split": split, "images": len(rows), "queries": asked}
    about |= {"answered": round(100 * asked / len(rows), 3), "relevance": RELEVANCE}
    about |= {name: round(value, 3) for name, value in found.items()}
    if resamples:
        images = np.arange(len(rows))
        told = rank_intervals(ranks, images, resamples)
        about["intervals"] = told | mean_intervals((NDCG,), 100 * gains[:, None], images, resamples)
    return about


def images_alike(corpus: Corpus) -> list[NDArray[np.int64]]:
    """For each image the others that share a sentence with it, ascending."""
    described: dict[frozenset[str], set[int]] = defaultdict(set)
    for sentence in corpus.sentences:
        if words := frozenset(word.lemma for word in content_words(sentence.text)):
            described[words].add(sentence.image)
    alike: list[set[int]] = [set() for _ in corpus.images]
    for images in described.values():
        for image in images:
            alike[image] |= images - {image}
    return [np.array(sorted(some), np.int64) for some in alike]


def image_relevance(corpus: Corpus) -> NDArray[np.float32]:
    """How relevant image j is to image i, (n, n): the mean ROUGE-L of j's sentences against those of i."""
    texts, owners = corpus.texts(), corpus.image_of_sentence()
    order = np.argsort(owners, kind="stable")
    scores = rouge_l([texts[i] for i in order], texts, owners, len(corpus.images))
    relevance = np.zeros((len(scores), len(scores)), np.float32)
    images, starts, counts = np.unique(owners[order], return_index=True, return_counts=True)
    relevance[:, images] = np.add.reduceat(scores, starts, axis=1) / counts
    return relevance


def _vectors(vectors: ArrayLike, corpus: Corpus) -> NDArray[Any]:
    rows = np.asarray(vectors)
    if rows.ndim != 2 or len(rows) != len(corpus.images) or rows.dtype.kind not in "fiu":
        raise SeesayError(
            f"image vectors: {rows.dtype} {rows.shape}; they must be real numbers ({len(corpus.images)}, d), "
            f"one row for each image of {corpus.root}."
        )
    return rows.astype(np.result_type(rows, np.float32), copy=False)


def _others(block: NDArray[Any], start: int) -> NDArray[Any]:
    """Rows of a square matrix, (q, n) from number `start` on, without its diagonal: (q, n - 1)."""
    kept = np.ones(block.shape, bool)
    kept[np.arange(len(block)), start + np.arange(len(block))] = False
    return block[kept].reshape(len(block), -1)
