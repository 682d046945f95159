"""Retrieval within one modality: of images by an image, and of sentences by a sentence.

Sentence-to-sentence retrieval is Table 4 of the two-branch paper (Wang, Li, Huang, Lazebnik 2019): two
sentences belong together if they describe one image. Image-to-image retrieval is its dual: two images belong
together if they share a sentence, that is if some sentence of one and some of the other have the same content
words (nouns, adjectives, verbs and numbers, as lemmas, in any order; English), such as "Two dogs run in the
snow." and "two dogs running through snow". Few corpora have human judgements of image pairs (COCO has:
Parekh et al., EACL 2021), and few images share a sentence, so nDCG of all images is measured too: an image is
as relevant to another as the mean ROUGE-L of its sentences against the other's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import JsonValue

from seesay.data.corpus import Corpus
from seesay.errors import SeesayError
from seesay.metrics import NO_ANSWER
from seesay.metrics.bootstrap import MeanSample, RankSample
from seesay.metrics.inputs import as_array, refuse_nan
from seesay.metrics.ndcg import ndcg, ndcg_by_chance
from seesay.metrics.ranks import owners_of
from seesay.metrics.rouge import rouge_l
from seesay.protocols.base import Options, Protocol, Result, Samples, register_protocol
from seesay.protocols.graded import CHANCE, NDCG, RELEVANCE
from seesay.protocols.subject import Subject
from seesay.text.concepts import content_words
from seesay.text.vocabulary import tokenize

_CELLS = 1 << 22  # scores held at a time; 16 MiB of float32


@register_protocol
class ImageToImage(Protocol):
    """Every image is a query for the images that share a sentence with it, by inner product.

    Its rank is that of the best of them. The query itself is not a candidate, and ties count against it.
    """

    name = "image-to-image"
    summary = "every image is a query for the images that are described alike"
    needs = "embeddings"
    monitor = "R@1"
    options = ("at",)

    def measure(self, subject: Subject, options: Options) -> Result:
        """Measure R@K and Med r of every image that shares a sentence, and nDCG@25 of all."""
        corpus, embedded = subject.corpus, subject.embeddings()
        alike = images_alike(corpus)
        answered = sum(bool(len(some)) for some in alike)
        if not answered:
            raise SeesayError(
                f"protocol '{self.name}': no two images of {corpus.root}, split '{subject.split}', share a "
                "sentence."
            )
        queries = embedded.images if embedded.query_images is None else embedded.query_images
        ranks, gains, chance = _measured(embedded.images, queries, alike, image_relevance(corpus))
        images = np.arange(len(ranks))
        gained = MeanSample([NDCG], 100 * gains[:, None], images)
        samples: Samples = [("", [RankSample(ranks, images, at=options.at)]), ("", [gained])]
        about: dict[str, JsonValue] = {"images": len(ranks), "queries": answered, "relevance": RELEVANCE}
        notes = [
            f"R@K, Med r: of the {answered} images ({100 * answered / len(ranks):.1f} %) that share a "
            "sentence, by its content words, with another.",
            f"nDCG: of all; relevance is {RELEVANCE} between their sentences.",
        ]
        by_chance = {CHANCE: round(100 * float(np.nanmean(chance)), 3)}
        return self.result(subject, options, samples, about, by_chance, notes)


def _measured(
    gallery: NDArray[Any],
    queries: NDArray[Any],
    alike: list[NDArray[np.int64]],
    relevance: NDArray[np.float32],
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Rank each image's best one alike, (n,), and compute its nDCG and that by chance, (n,) each."""
    ranks, (gains, chance) = np.full(len(queries), NO_ANSWER), np.full((2, len(queries)), np.nan)
    for start, block in _score_blocks(queries, gallery, "image scores"):
        scores = _others(block, start)
        stop = start + len(scores)
        relevant = _others(relevance[start:stop], start)
        gains[start:stop], chance[start:stop] = ndcg(scores, relevant), ndcg_by_chance(relevant)
        for query, mine in enumerate(scores, start):
            if len(right := alike[query]):
                right = right - (right > query)  # the query has left the row
                ranks[query] = (mine >= mine[right].max()).sum() - (mine[right] >= mine[right].max()).sum()
    return ranks, gains, chance


def images_alike(corpus: Corpus) -> list[NDArray[np.int64]]:
    """Find for each image the others that share a sentence with it, ascending."""
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
    """Compute how relevant image j is to image i, (n, n): the mean ROUGE-L of j's sentences against i's."""
    texts, owners = [tokenize(text) for text in corpus.texts()], corpus.image_of_sentence()
    order = np.argsort(owners, kind="stable")
    scores = rouge_l([texts[i] for i in order], texts, owners, len(corpus.images))
    relevance = np.zeros((len(scores), len(scores)), np.float32)
    images, starts, counts = np.unique(owners[order], return_index=True, return_counts=True)
    relevance[:, images] = np.add.reduceat(scores, starts, axis=1) / counts
    return relevance


def _others(block: NDArray[Any], start: int) -> NDArray[Any]:
    """Take the diagonal out of rows of a square matrix, (q, n) from number `start` on: (q, n - 1)."""
    kept = np.ones(block.shape, bool)
    kept[np.arange(len(block)), start + np.arange(len(block))] = False
    return block[kept].reshape(len(block), -1)


@register_protocol
class SentenceToSentence(Protocol):
    """Every sentence is a query for the other sentences of its image, by inner product."""

    name = "sentence-to-sentence"
    summary = "every sentence is a query for the other sentences of its image"
    needs = "embeddings"
    monitor = "R@1"
    options = ("at",)

    def measure(self, subject: Subject, options: Options) -> Result:
        """Measure R@1, R@5, R@10 and Med r."""
        ranks = sentence_ranks(subject.embeddings().sentences, subject.owners)
        queries = int((ranks != NO_ANSWER).sum())
        if not queries:
            raise SeesayError(f"protocol '{self.name}': no image has two sentences: no query has an answer.")
        samples = [("", [RankSample(ranks, subject.owners, at=options.at)])]
        return self.result(subject, options, samples, {"sentences": len(ranks), "queries": queries})


def sentence_ranks(vectors: ArrayLike, image_of_sentence: ArrayLike) -> NDArray[np.int64]:
    """Rank, for each sentence, the best other one of its image, (m,); NO_ANSWER without one.

    The query itself is not a candidate (the authors' code leaves it in, as the first, and counts the top 2, 6
    and 11). Ties count against it.

    Args:
        vectors: (m, d), unit ones for cosine; reduced precisions are multiplied in float32.
        image_of_sentence: (m,), for each sentence the number of its image, from 0.

    >>> sentence_ranks([[1, 0], [0, 1], [0.8, 0.6], [0.6, 0.8]], [0, 0, 1, 1]).tolist()
    [2, 2, 0, 0]
    """
    rows = as_array(vectors, "vectors", "m", "d")
    owners = np.asarray(image_of_sentence)
    owners = owners_of(owners, int(owners.max(initial=0)) + 1, len(rows))
    ranks = np.empty(len(rows), np.int64)
    for start, scores in _score_blocks(rows, rows, "sentence scores"):
        queries = np.arange(start, start + len(scores))
        own = owners[queries, None] == owners
        others = own.copy()
        others[np.arange(len(queries)), queries] = False
        best = np.max(scores, axis=1, where=others, initial=-np.inf)
        before = np.count_nonzero((scores >= best[:, None]) & ~own, axis=1)
        ranks[queries] = np.where(others.any(axis=1), before, NO_ANSWER)
    return ranks


def _score_blocks(
    queries: NDArray[Any], gallery: NDArray[Any], name: str
) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield blocks (b, c) of the inner products of queries (q, d) and a gallery (c, d), each with its row."""
    rows, columns = (each.astype(np.result_type(each, np.float32), copy=False) for each in (queries, gallery))
    step = max(1, _CELLS // len(columns))
    for start in range(0, len(rows), step):
        with np.errstate(invalid="ignore", over="ignore"):  # a NaN is reported with its place
            scores = rows[start : start + step] @ columns.T
        refuse_nan(scores, name, start)
        yield start, scores
