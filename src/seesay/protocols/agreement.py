"""Agreement with human judgements: Kendall's τ between scores and judgements of pairs.

On Flickr8k-Expert, each of the three experts' judgements is a separate row with the pair's score, pairs with
one of the image's own sentences are left out, and the field reports τ-c (Anderson et al., "SPICE", 2016;
Hessel et al., "CLIPScore", 2021, appendix A: 158 of 5,822 pairs left out). On Flickr8k-CrowdFlower the
judgement is the share of yes, all 47,830 pairs are kept, and the field reports τ-b.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from seesay.data.corpus import Corpus
from seesay.data.judgements import Judgements, Kind, Names
from seesay.errors import SeesayError
from seesay.metrics.kendall_tau import TauSample
from seesay.protocols.base import Options, Protocol, Result, register_protocol
from seesay.protocols.subject import Subject

REPORTED = {"expert": "tau-c", "crowdflower": "tau-b"}  # which of the two the field reports
_JUDGEMENTS = {"expert": "three rows a pair", "crowdflower": "the share of yes"}

OWN = "sentence of the image itself"
NO_IMAGE = "image not in the split"
NO_SENTENCE = "sentence not in the split"

_LISTED = 2  # examples of what is left out


@register_protocol
class Agreement(Protocol):
    """Kendall's τ × 100 between the scores and the judgements of judged pairs; no other pair is scored."""

    name = "agreement"
    summary = "agreement with human judgements of pairs: Kendall's τ"
    monitor = "tau-c"
    identity = ("judgements",)
    options = ("judgements",)

    def measure(self, subject: Subject, options: Options) -> Result:
        """Measure τ-b and τ-c."""
        if options.judgements is None:
            raise SeesayError(
                f"protocol '{self.name}': name the file of human judgements by judgements (--judgements): "
                "Flickr8k's ExpertAnnotations.txt or CrowdFlowerAnnotations.txt."
            )
        judged = judged_pairs(options.judgements, subject.corpus)
        values = np.asarray(subject.scores.pairs(judged.images, judged.sentences))
        self._check(values, judged)
        people = judged.ratings.shape[1]
        pairs = (np.repeat(each, people) for each in (judged.images, judged.sentences))
        sample = TauSample(np.repeat(values, people), judged.ratings.ravel(), *pairs)
        about: dict[str, JsonValue] = {
            "judgements": judged.kind,
            "images": len(np.unique(judged.images)),
            "sentences": len(np.unique(judged.sentences)),
            "pairs": len(values),
            "ratings": judged.ratings.size,
            "left out": {why: len(pairs) for why, pairs in judged.left_out.items()},
        }
        samples = [("", [sample])]
        return self.result(subject, options, samples, about, notes=self._notes(judged))

    def _notes(self, judged: JudgedPairs) -> list[str]:
        kind = judged.kind
        notes = [
            f"Kendall's τ × 100 between scores and judgements ({kind}: {_JUDGEMENTS[kind]}); the field "
            f"reports {REPORTED[kind]}.",
            f"{len(judged.images)} pairs, {judged.ratings.size} judgements.",
        ]
        for why, pairs in judged.left_out.items():
            notes.append(f"Left out, {why}: {len(pairs)}, such as {', '.join(pairs[:_LISTED])}.")
        return notes

    def _check(self, values: NDArray[np.floating], judged: JudgedPairs) -> None:
        if np.isnan(values).any():
            at = int(np.argmax(np.isnan(values)))
            raise SeesayError(f"protocol '{self.name}': the score of judged pair {at} is NaN.")
        for name, column in (("judgement", judged.ratings), ("score", values)):
            if column.min() == column.max():
                raise SeesayError(
                    f"protocol '{self.name}': every {name} of the {len(values)} pairs is {column.flat[0]:g}; "
                    "Kendall's τ is undefined for equal values."
                )


@dataclass(frozen=True)
class JudgedPairs:
    """Judged pairs by their positions in a corpus, and those left out by reason, as `image sentence`."""

    kind: Kind
    images: NDArray[np.int64]  # (p,)
    sentences: NDArray[np.int64]  # (p,)
    ratings: NDArray[np.float64]  # (p, r), of r people, or (p, 1) shares
    left_out: dict[str, list[str]]


def judged_pairs(judgements: Judgements, corpus: Corpus) -> JudgedPairs:
    """Find the judged pairs in the corpus; of expert judgements, leave out an image's own sentences.

    As in published code, a sentence is an image's own if its text equals one of the image's.

    Raises:
        SeesayError: none is left.
    """
    names = Names(corpus)
    own = {(sentence.image, sentence.text) for sentence in corpus.sentences}
    dropped: dict[str, list[str]] = {}
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
        else:
            dropped.setdefault(why, []).append(f"{pair.image} {pair.sentence}")
    if not kept:
        reasons = "; ".join(f"{len(some)} × {why}, such as {some[0]}" for why, some in dropped.items())
        raise SeesayError(f"{judgements.path}: no judged pair is left of {corpus.root}: {reasons}.")
    images, sentences, ratings = zip(*kept, strict=True)
    return JudgedPairs(
        judgements.kind,
        np.array(images, np.int64),
        np.array(sentences, np.int64),
        np.array(ratings, np.float64),
        dropped,
    )
