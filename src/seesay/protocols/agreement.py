"""Agreement with people: does a pair that people call a better description score higher?

Kendall's τ between scores and judgements, as the captioning field reports it. On Flickr8k-Expert each of
the three experts' scores is a row of its own beside the pair's score, pairs whose sentence is one of the
image's own are left out, and τ-c counts (Anderson et al., "SPICE", 2016; Hessel et al., "CLIPScore", 2021,
appendix A: 158 of 5,822 pairs left out). On Flickr8k-CrowdFlower the judgement is the share of yes, all
47,830 pairs stay, also those of own sentences, and τ-b counts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import kendalltau

from seesay.data.corpus import Corpus
from seesay.data.judgements import Judgements, Kind, Names
from seesay.errors import SeesayError
from seesay.metrics.bootstrap import ends, how_drawn, image_draws
from seesay.metrics.kendall import Tau
from seesay.runs.pair_scores import ScorePairs

AGREEMENT = "agreement"
TAU = {"expert": "tau-c", "crowdflower": "tau-b"}  # which of the two the field reports

OWN = "sentence of the image itself"
NO_IMAGE = "image not in the split"
NO_SENTENCE = "sentence not in the split"

_LISTED = 5  # examples of what is left out


@dataclass(frozen=True)
class JudgedPairs:
    """Judged pairs of a corpus.

    Attributes:
        kind: of the judgements.
        images: (p,), positions in the corpus.
        sentences: (p,), positions in the corpus.
        ratings: (p, r), r people or one share.
        left_out: how many pairs were left out, by reason.
        examples: the first of them, `image sentence`.
    """

    kind: Kind
    images: NDArray[np.int64]
    sentences: NDArray[np.int64]
    ratings: NDArray[np.float64]
    left_out: dict[str, int]
    examples: dict[str, list[str]]


def judged_pairs(judgements: Judgements, corpus: Corpus) -> JudgedPairs:
    """The pairs whose image and sentence the corpus has, own sentences of experts' images left out.

    A sentence is the image's own when one of the image's reads the same, as in the field's code.

    Raises:
        SeesayError: none is left.
    """
    names = Names(corpus)
    own = {(sentence.image, sentence.text) for sentence in corpus.sentences}
    left_out: Counter[str] = Counter()
    examples: dict[str, list[str]] = {}
    kept = []
    for pair in judgements.pairs:
        image, sentence = names.image(pair.image), names.sentence(pair.sentence)
        why = None
        if image is None or sentence is None:
            why = NO_IMAGE if image is None else NO_SENTENCE
        elif judgements.kind == "expert" and (image, corpus.sentences[sentence].text) in own:
            why = OWN
        if why is None:
            kept.append((image, sentence, pair.ratings))
            continue
        left_out[why] += 1
        if len(places := examples.setdefault(why, [])) < _LISTED:
            places.append(f"{pair.image} {pair.sentence}")
    if not kept:
        told = "; ".join(f"{count} × {why}, such as {examples[why][0]}" for why, count in left_out.items())
        raise SeesayError(f"{judgements.path}: no judged pair is left of {corpus.root}: {told}.")
    images, sentences, ratings = zip(*kept, strict=True)
    return JudgedPairs(
        judgements.kind,
        np.array(images, np.int64),
        np.array(sentences, np.int64),
        np.array(ratings, np.float64),
        dict(left_out),
        examples,
    )


def measure_agreement(
    score_pairs: ScorePairs, corpus: Corpus, judgements: Judgements, split: str, resamples: int = 0
) -> dict[str, Any]:
    """`agreement` of the judged pairs of a split, which alone are scored.

    Raises:
        SeesayError: see `judged_pairs` and `agreement`.
    """
    judged = judged_pairs(judgements, corpus)
    return agreement(score_pairs(judged.images, judged.sentences), judged, split, resamples)


def agreement(
    scores: ArrayLike, judged: JudgedPairs, split: str = "test", resamples: int = 0
) -> dict[str, Any]:
    """Kendall's τ-b and τ-c between the scores (p,) of judged pairs and their judgements.

    Args:
        scores: higher is better; a pair's stands beside each of its ratings.
        judged: the pairs.
        split: that they are of, for the record.
        resamples: of the bootstrap intervals; without them there are none.

    Returns:
        protocol, split, `judgements` (expert or crowdflower), images, sentences, pairs, `ratings` (rows that
        τ is computed of), `tau-b` and `tau-c` times 100, `left out` with its `examples`, and `intervals`.

    Raises:
        SeesayError: a score is NaN, or all scores or all judgements are equal, where τ is not defined.
    """
    values = np.asarray(scores)
    people = judged.ratings.shape[1]
    if np.isnan(values).any():
        at = int(np.argmax(np.isnan(values)))
        raise SeesayError(f"protocol '{AGREEMENT}': the score of judged pair {at} is NaN; check the weights.")
    for name, column in (("judgement", judged.ratings), ("score", values)):
        if column.min() == column.max():
            raise SeesayError(
                f"protocol '{AGREEMENT}': every {name} of the {len(values)} pairs is {column.flat[0]:g}; "
                "Kendall's τ is not defined where nothing differs."
            )
    rows, ratings = np.repeat(values, people), judged.ratings.ravel()
    taus = {f"tau-{variant}": kendalltau(rows, ratings, variant=variant) for variant in "bc"}
    about = {
        "protocol": AGREEMENT,
        "split": split,
        "judgements": judged.kind,
        "images": len(np.unique(judged.images)),
        "sentences": len(np.unique(judged.sentences)),
        "pairs": len(values),
        "ratings": len(ratings),
    }
    measured = {name: round(100 * float(tau.statistic), 3) for name, tau in taus.items()}
    if resamples:
        images = np.repeat(judged.images, people)
        about["intervals"] = how_drawn(resamples) | dict(
            zip(taus, ends(_resampled(Tau.of(rows, ratings), images, resamples)), strict=True)
        )
    return about | measured | {"left out": judged.left_out, "examples": judged.examples}


def _resampled(tau: Tau, images: NDArray[np.int64], resamples: int) -> NDArray[np.float64]:
    """τ-b and τ-c times 100 of each draw of images, (resamples, 2), from rows of those images."""
    there, image = np.unique(images, return_inverse=True)
    draws = image_draws(np.random.default_rng(0), len(there), resamples)
    return 100 * np.array([tau.weighted(each[image]) for _, weights in draws for each in weights])
