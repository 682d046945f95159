"""Composition: how often the true word order of a sentence scores higher than another order.

Table 4 of the m-CNN paper (Ma et al. 2015) scores one image with its sentence and three random shuffles of
its words. Here every pair of a split is scored with two kinds of reorderings: all words shuffled, and two
nouns exchanged. For a bag of words, all orders are ties.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seesay.errors import SeesayError
from seesay.metrics.bootstrap import MeanSample
from seesay.progress import Advance, progress
from seesay.protocols.base import Metrics, Options, Protocol, Result, Value, of_part, register_protocol
from seesay.protocols.subject import RunSubject
from seesay.runs.run import Run
from seesay.text.chunker import noun_phrases, word_class
from seesay.text.tokens import tokenize

_NOTE = (
    "True order %: how often it scores higher; a tie counts half. Standard error: over images. Difference: "
    "of the scores, in standard deviations. Left out: sentences without two different words, or two nouns."
)
_SHUFFLES = 3  # of a sentence, as in the paper
_SEED = 0
_TIE = 1e-4  # standard deviations; smaller differences are mostly due to rounding
_AT_ONCE = 512  # sentences scored at a time


@dataclass(frozen=True)
class Reordered:
    """Sentences with their words in another order."""

    texts: list[str]  # (n,)
    source: NDArray[np.int64]  # number of each one's true sentence, (n,)
    left_out: int  # true sentences that cannot be reordered this way


@register_protocol
class Composition(Protocol[RunSubject]):
    """The true order of a sentence's words against three shuffles of them and one exchange of two nouns.

    All orders consist of the tokenizer's words, without capitals and punctuation. The reorderings are the
    same for every run on the same sentences. Scores tie if they differ by at most 1e-4 standard deviations,
    because summing terms in another order changes the rounding. The standard error is over images, because an
    image's sentences are not independent.
    """

    name = "composition"
    summary = "the true order of a sentence's words against other orders"
    needs = "run"
    monitor = "shuffle: true order %"
    columns = ("shuffle: true order %", "swap: true order %", "shuffle: difference", "swap: difference")

    def measure(self, subject: RunSubject, options: Options) -> Result:
        """Measure each kind of reordering that any sentence allows."""
        texts, owners = subject.corpus.texts(), subject.owners
        kinds = {"shuffle": shuffles(texts, _SHUFFLES, _SEED), "swap": noun_swaps(texts, _SEED)}
        if not kinds["shuffle"].texts:
            raise SeesayError(
                f"protocol '{self.name}': no sentence of split '{subject.split}' has two different words."
            )
        true = [" ".join(tokenize(text)) for text in texts]
        images = subject.run.backend.encode_images(subject.inputs.features, query=True)
        samples: list[tuple[str, list[MeanSample]]] = []
        further: dict[str, Value] = {}
        total = len(true) + sum(len(kind.texts) for kind in kinds.values())
        with progress("Scoring", total, "sentences") as advance:
            true_scores = _scored(subject.run, images, true, owners, advance)
            for name, kind in kinds.items():
                if kind.texts:
                    others = _scored(subject.run, images, kind.texts, owners[kind.source], advance)
                    sample, more = true_order(true_scores, others, kind, owners)
                    samples.append((name, [sample]))
                    further |= of_part(name, more)
        about = {"images": subject.n_images, "sentences": len(texts), "order seed": _SEED}
        return self.result(subject, options, samples, about, further, [_NOTE])


def true_order(
    true_scores: ArrayLike,
    other_scores: ArrayLike,
    reordered: Reordered,
    image_of_sentence: ArrayLike,
) -> tuple[MeanSample, Metrics]:
    """Compare the scores (m,) of true orders with those (n,) of reordered sentences for the same images.

    Raises:
        SeesayError: a score is not finite.
    """
    true, other = np.asarray(true_scores, np.float64), np.asarray(other_scores, np.float64)
    if not (np.isfinite(true).all() and np.isfinite(other).all()):
        raise SeesayError("protocol 'composition': a score is not finite; check the matcher's weights.")
    deviation = true.std()
    gaps = true[reordered.source] - other
    ties = np.abs(gaps) <= _TIE * deviation
    won = np.where(ties, 0.5, gaps > 0)
    images = np.asarray(image_of_sentence)[reordered.source]
    # The standard error of the mean over images is the linearised error of a ratio.
    of_images = np.bincount(np.unique(images, return_inverse=True)[1], won - won.mean())
    count, squares = len(of_images), float((of_images**2).sum())
    error = 100 * np.sqrt(count / (count - 1) * squares) / len(won) if count > 1 else None
    scaled = gaps / deviation if deviation else np.full(len(gaps), np.nan)
    sample = MeanSample(["true order %", "difference"], np.column_stack([100 * won, scaled]), images)
    return sample, {
        "standard error": None if error is None else round(float(error), 3),
        "ties %": round(100 * float(ties.mean()), 3),
        "pairs": len(won),
        "left out": reordered.left_out,
    }


def shuffles(texts: Sequence[str], times: int, seed: int) -> Reordered:
    """Put the words of each sentence in `times` random orders that differ from the sentence itself.

    Sentences without two different words are left out.
    """
    found: list[str] = []
    source: list[int] = []
    for number, text in enumerate(texts):
        words = tokenize(text)
        if len(set(words)) < 2:
            continue
        draw = np.random.default_rng((seed, number))
        for _ in range(times):
            order = words
            while order == words:
                order = [words[i] for i in draw.permutation(len(words))]
            found.append(" ".join(order))
            source.append(number)
    return Reordered(found, np.array(source, np.int64), len(texts) - len(found) // times)


def noun_swaps(texts: Sequence[str], seed: int) -> Reordered:
    """Exchange two nouns of each sentence, drawn from those that differ.

    Nouns are the last words of noun phrases: "a dog chases the ball" becomes "a ball chases the dog".
    Sentences without two different nouns are left out.
    """
    found: list[str] = []
    source: list[int] = []
    for number, text in enumerate(texts):
        words = tokenize(text)
        pairs = [(i, j) for i, j in combinations(_nouns(text), 2) if words[i] != words[j]]
        if pairs:
            i, j = pairs[np.random.default_rng((seed, number)).integers(len(pairs))]
            words[i], words[j] = words[j], words[i]
            found.append(" ".join(words))
            source.append(number)
    return Reordered(found, np.array(source, np.int64), len(texts) - len(found))


def _nouns(text: str) -> list[int]:
    """Find the positions, among the tokenizer's words, of the nouns at the end of noun phrases."""
    found = []
    for words in (tokenize(text[: chunk.end]) for chunk in noun_phrases(text)):
        if words and "noun" in word_class(words[-1]).classes and "'" not in words[-1]:  # no "man's"
            found.append(len(words) - 1)
    return found


def _scored(
    run: Run, images: Any, texts: Sequence[str], rows: NDArray[np.int64], advance: Advance
) -> NDArray[np.floating]:
    """Score n sentences, each with the encoded image of that row, (n,)."""
    blocks = []
    for start in range(0, len(texts), _AT_ONCE):
        some = texts[start : start + _AT_ONCE]
        encoded = run.backend.encode_sentences(run.prepare(some))
        places = rows[start : start + _AT_ONCE], np.arange(len(some))
        blocks.append(run.backend.score_pairs(images, encoded, *places, advance))
    return np.concatenate(blocks)
