"""Composition: does the true order of a sentence's words match its image better than another order?

Table 4 of the m-CNN paper (Ma et al. 2015) scores one image with its sentence and with three random
reshuffles of its words. Here every pair of a split is asked, in two ways: all words reshuffled, and two
nouns exchanged (`KINDS`). A bag of words cannot tell; all its pairs are ties.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from seesay.errors import SeesayError
from seesay.matchers.base import PairMatcher
from seesay.matchers.sentences import prepare_sentences
from seesay.metrics.bootstrap import how_drawn, mean_intervals
from seesay.progress import Advance, progress
from seesay.runs.inputs import Inputs
from seesay.runs.run import Run
from seesay.text._word_classes import word_class
from seesay.text.chunker import noun_phrases
from seesay.text.vocabulary import tokenize

COMPOSITION = "composition"
SHUFFLE, SWAP = KINDS = ("shuffle", "swap")

_SHUFFLES = 3  # of a sentence, as in the paper
_TIE = 1e-4  # standard deviations; rounding makes less, and two orders seldom come as close
_AT_ONCE = 512  # sentences scored at a time


@dataclass(frozen=True)
class Reordered:
    """Sentences with their words in another order.

    Attributes:
        texts: n sentences.
        source: for each the number of the true sentence, (n,).
        left_out: true sentences that cannot be reordered this way.
    """

    texts: list[str]
    source: NDArray[np.int64]
    left_out: int


def measure_composition(
    run: Run, inputs: Inputs, split: str, seed: int = 0, resamples: int = 0
) -> dict[str, Any]:
    """How often the true order of a sentence's words scores higher with its image than another order.

    Three shuffles of a sentence, one exchange of two nouns. All are of the tokenizer's words, the true
    order too: capitals and punctuation fall away from both sides. Pairs are scored side by side.

    Args:
        run: matches whole images.
        inputs: the split, prepared for the run.
        split: its name, for the record.
        seed: of the shuffles; the same ones for every run on the same sentences.
        resamples: of the bootstrap intervals; without them there are none.

    Returns:
        protocol, split, images, sentences, order seed, and `by kind` what `true_order` says of each kind
        that some sentence allows, with `left out`, the sentences that do not.

    Raises:
        SeesayError: no sentence has two different words, or a score is not finite.
    """
    texts = inputs.corpus.texts()
    owners = inputs.image_of_sentence
    reorderings = {SHUFFLE: shuffles(texts, _SHUFFLES, seed), SWAP: noun_swaps(texts, seed)}
    if not reorderings[SHUFFLE].texts:
        raise SeesayError(
            f"protocol '{COMPOSITION}': no sentence of split '{split}' has two different words."
        )
    true = [" ".join(tokenize(text)) for text in texts]
    pairs = _Pairs(run, inputs)
    total = len(true) + sum(len(kind.texts) for kind in reorderings.values())
    with progress("Scoring", total, "sentences") as advance:
        true_scores = pairs.score(true, owners, advance)
        by_kind = {
            name: true_order(
                true_scores,
                pairs.score(kind.texts, owners[kind.source], advance),
                kind.source,
                owners,
                resamples,
            )
            | {"left out": kind.left_out}
            for name, kind in reorderings.items()
            if kind.texts
        }
    about = {"protocol": COMPOSITION, "split": split, "images": len(inputs.features), "sentences": len(texts)}
    return about | {"order seed": seed, "by kind": by_kind}


def true_order(
    true_scores: ArrayLike,
    other_scores: ArrayLike,
    source: ArrayLike,
    image_of_sentence: ArrayLike,
    resamples: int = 0,
) -> dict[str, Any]:
    """How often the true order of words scores higher, and by how much.

    Args:
        true_scores: of each sentence with its image, (m,).
        other_scores: of each reordered sentence with the same image, (n,), n at least 1.
        source: for each reordered sentence the number of the true one, (n,).
        image_of_sentence: (m,).
        resamples: of the bootstrap intervals; without them there are none.

    Returns:
        `true order`: in percent of n, a tie counting half; scores tie when they differ by less than
        1e-4 standard deviations of `true_scores`, which rounding reaches by a sum in another order.
        `standard error`: of that, in percent, over images: orders of one image's sentences are not
        independent; None for one image.
        `ties`: in percent. `difference`: the mean of true minus other, in standard deviations of
        `true_scores`; None where those are all equal. `n`. `intervals` of the first and of the difference.

    Raises:
        SeesayError: a score is not finite.

    >>> true_order([1.0, 3.0], [0.0, 3.0], [0, 1], [0, 1])["true order"]
    75.0
    """
    true, other = np.asarray(true_scores, np.float64), np.asarray(other_scores, np.float64)
    if not (np.isfinite(true).all() and np.isfinite(other).all()):
        raise SeesayError(f"protocol '{COMPOSITION}': a score is not finite; check the matcher's weights.")
    deviation = true.std()
    gaps = true[np.asarray(source)] - other
    ties = np.abs(gaps) <= _TIE * deviation
    won = np.where(ties, 0.5, gaps > 0)
    images = np.asarray(image_of_sentence)[np.asarray(source)]
    error = _error_over_images(won, images)
    told = {}
    if resamples:
        each = np.column_stack([100 * won, gaps / deviation if deviation else np.full(len(gaps), np.nan)])
        found = mean_intervals(("true order", "difference"), each, images, resamples)
        told = {"intervals": how_drawn(resamples) | found}
    return {
        "true order": round(100 * float(won.mean()), 3),
        "standard error": None if error is None else round(100 * error, 3),
        "ties": round(100 * float(ties.mean()), 3),
        "difference": round(float(gaps.mean() / deviation), 4) if deviation else None,
        "n": len(won),
        **told,
    }


def shuffles(texts: Sequence[str], times: int, seed: int) -> Reordered:
    """Each sentence's words in `times` random orders, none of which reads as the sentence itself.

    A sentence whose words are all the same, or that has but one, is left out.
    """
    found: list[str] = []
    source: list[int] = []
    left_out = 0
    for number, text in enumerate(texts):
        words = tokenize(text)
        if len(set(words)) < 2:
            left_out += 1
            continue
        draw = np.random.default_rng((seed, number))
        for _ in range(times):
            order = words
            while order == words:
                order = [words[i] for i in draw.permutation(len(words))]
            found.append(" ".join(order))
            source.append(number)
    return Reordered(found, np.array(source, np.int64), left_out)


def noun_swaps(texts: Sequence[str], seed: int) -> Reordered:
    """Each sentence with two of its nouns, drawn from those that differ, in each other's place.

    Nouns are the last words of noun phrases: "a dog chases the ball" becomes "a ball chases the dog". A
    sentence without two different ones is left out.
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
    """Positions, among the tokenizer's words, of the nouns that noun phrases end with."""
    upto = [tokenize(text[: chunk.end]) for chunk in noun_phrases(text)]
    return [len(words) - 1 for words in upto if words and _is_noun(words[-1])]


def _is_noun(word: str) -> bool:
    return "noun" in word_class(word).classes and "'" not in word  # no "man's"


def _error_over_images(won: NDArray[np.float64], images: NDArray[np.int64]) -> float | None:
    """Standard error of the mean of `won` when images are what is drawn, each with all its orders.

    The mean is a ratio of two sums over images, so its error is that of the ratio, linearised.
    """
    _, image = np.unique(images, return_inverse=True)
    count = int(image.max()) + 1
    if count < 2:
        return None
    residuals = np.bincount(image, won - won.mean())
    return float(np.sqrt(count / (count - 1) * (residuals**2).sum()) / len(won))


class _Pairs:
    """Scores of sentences side by side with images of a split, each image encoded once."""

    def __init__(self, run: Run, inputs: Inputs) -> None:
        self._run = run
        if isinstance(run.matcher, PairMatcher):
            with torch.inference_mode():
                self._images = run.matcher.encode_images(inputs.features.to(run.device))
        else:
            # The image asks which of the sentences is its own.
            self._images = torch.from_numpy(run.embed_features(np.asarray(inputs.features), query=True))

    def score(self, texts: Sequence[str], images: NDArray[np.int64], advance: Advance) -> NDArray[np.float32]:
        """Scores (n,) of n sentences, each with the image of that row."""
        blocks = []
        for start in range(0, len(texts), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            blocks.append(self._score(texts[part], images[part]))
            advance(len(blocks[-1]))
        return np.concatenate(blocks)

    @torch.inference_mode()
    def _score(self, texts: Sequence[str], images: NDArray[np.int64]) -> NDArray[np.float32]:
        run, matcher = self._run, self._run.matcher
        mine = self._images[torch.from_numpy(images).to(self._images.device)]
        if isinstance(matcher, PairMatcher):
            sentences = prepare_sentences(texts, run.vocabulary, run.sentence_encoder).to(run.device)
            scores = matcher.score_pairs(mine, matcher.encode_sentences(sentences))
        else:
            scores = (mine * torch.from_numpy(run.embed_sentences(texts))).sum(dim=1)
        found: NDArray[np.float32] = scores.float().cpu().numpy()
        return found
