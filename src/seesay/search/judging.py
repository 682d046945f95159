"""The probability that each hit of a query is right.

A query of sentences is judged by the hit's own score, if the run's scores are calibrated, and by how far the
best score of the gallery stands out. For other runs, and for images as queries, the gallery alone judges:
the scores of a sample of the index's images show what unrelated images score (`seesay.search.certainty`).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from seesay.arrays import Floats, Vectors
from seesay.runs.calibration import Calibration, known_share, probability
from seesay.runs.run import Run
from seesay.search.certainty import (
    IMAGES,
    USUAL,
    USUAL_UNIT,
    ScoreMixture,
    best_is_right,
    unrelated_sentences,
    usual_unit,
)
from seesay.search.hits import Hit
from seesay.search.query import PreparedQuery, Text
from seesay.search.store import Store, finite

_SAMPLE = 1000  # images: a query's scores over them are fitted in milliseconds
_FEW = 20  # images whose scores count as much as what is known of other queries
_TINY = 1e-6
_PRIOR = -2.75  # log-odds of an image of which nothing is known; chosen on queries of a photograph and a name
_LEAST_SPAN = 0.1  # of an image's product with itself, for a gallery in which all images are alike


@dataclass(frozen=True)
class Background:
    """What scores stand out from: a number of images, the ids (s,) of a sample, and the `usual_unit`."""

    count: int
    sample: NDArray[np.int64]
    unit: float

    def to_json(self) -> str:
        """Return the text that an index stores."""
        return json.dumps({"count": self.count, "unit": self.unit, "sample": self.sample.tolist()})

    @classmethod
    def from_json(cls, text: str | None) -> Self | None:
        """Parse the output of `to_json`; None without one, or if it is damaged: it can be computed again."""
        try:
            found = json.loads(text or "null")
            sample = np.array(found["sample"], np.int64).ravel()[:_SAMPLE]
            read = cls(int(found["count"]), sample, float(found["unit"]))
        except (ValueError, TypeError, LookupError, OverflowError, RecursionError):
            return None
        return read if read.count > 0 and 0 < read.unit < np.inf else None


class Judge:
    """Computes probabilities of the hits of an index. Thread-safe.

    A query of sentences is judged as a whole. A query with images is judged by its parts: what each wanted
    part adds to the log-odds of showing something at all is summed (naive Bayes), and the probability is
    multiplied by that of showing no unwanted part. Sentences count by how far their score stands out,
    because the odds of a mixture would outweigh an image's.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._read: tuple[str | int, Background] | None = None
        self._vectors = np.zeros((0, store.dim), np.float32)

    def _current(self, run: Run) -> tuple[Background, Vectors]:
        """Return the stored background, and the vectors (s, dim) of its sample.

        During an update by another process, it is the previous background.
        """
        with self._lock:
            text = self._store.current("background")
            version = text or self._store.generation()
            if self._read is None or self._read[0] != version:
                background = Background.from_json(text) or self._learned(run)
                self._vectors = self._store.vectors(background.sample.tolist())[1].astype(np.float32)
                self._read = version, background
            return self._read[1], self._vectors

    def learn(self, run: Run, is_changed: bool) -> None:
        """Compute the background of the current images, and store it, if they may have changed."""
        former = Background.from_json(self._store.current("background"))
        count = self._store.count("image")
        if count and (is_changed or former is None or former.count != count):
            learned = self._learned(run).to_json()
            with self._store.write() as writer:
                writer.set_meta(background=learned)

    def _learned(self, run: Run) -> Background:
        """Compute the background of the current images, with a sample that is evenly spaced among them."""
        ids = self._store.ids("image")
        sample = ids[np.linspace(0, len(ids) - 1, min(len(ids), _SAMPLE)).astype(np.int64)]
        vectors = self._store.vectors(sample.tolist())[1].astype(np.float32)
        unit = USUAL_UNIT
        if len(vectors):
            unrelated = finite(run.embed_sentences(unrelated_sentences(), query=True))
            unit = usual_unit(vectors @ unrelated.T)
        return Background(len(ids), sample, unit)

    def probabilities(
        self, hits: Sequence[Hit], asked: PreparedQuery, run: Run, best: Sequence[Hit] = ()
    ) -> Floats:
        """Return the probabilities (k,) of hits, reduced by the share of unknown words in the wanted parts.

        `best` is the best hit of the whole gallery, if it may not be among the hits.
        """
        query, unknown = asked.query, asked.unknown
        known = known_share(query.wanted, unknown)
        background, sample = self._current(run)
        if query.is_text:
            scores = np.array([hit.score for hit in (*hits, *best)], np.float32)
            # The sample is empty if another process has deleted it meanwhile.
            usual = sample @ asked.vector if len(sample) else scores
            best_score, count = max(scores.max(), usual.max()), len(usual)
            own: Calibration | ScoreMixture
            if run.calibration is None:
                own = ScoreMixture.fit(usual, background.unit)
                excess = own.excess(best_score, background.count, background.unit)
                of_best = float(USUAL.probabilities(excess))
            else:
                own = run.calibration.of(*query.wanted)
                spread = np.sqrt((count * usual.var() + _FEW * background.unit**2) / (count + _FEW))
                standing = (best_score - usual.mean()) / spread
                of_best = best_is_right(float(own.log_odds(best_score)), standing, background.count)
            found = of_best * probability(own.log_odds(scores)) / probability(own.log_odds(best_score))
            return known * np.minimum(1.0, found)[: len(hits)]
        there, vectors = self._store.vectors([hit.id for hit in hits])
        by_id = dict(zip(there.tolist(), vectors.astype(np.float32), strict=True))
        deleted = np.zeros(self._store.dim, np.float32)  # by another process, meanwhile
        images = np.stack([by_id.get(hit.id, deleted) for hit in hits])
        sample = sample if len(sample) else images
        wanted, weights, unwanted = list[Floats](), list[float](), list[Floats]()
        for part, row in dict(zip(query.parts, asked.rows, strict=True)).items():  # equal ones count once
            share = 1.0
            if isinstance(part.term, Text):
                share = known_share([part.term.text], unknown)
                mixture = ScoreMixture.fit(sample @ row, background.unit)
                excess = mixture.excess(images @ row, background.count, background.unit)
                found = USUAL.log_odds(excess)
            else:
                found = _of_image(images @ row, sample @ row, row)
            if part.weight > 0:
                wanted.append(found)
                weights.append(part.weight)
            else:
                unwanted.append(share * probability(found))
        added = np.array(weights) / max(weights) @ (np.array(wanted) - _PRIOR)
        result = known * probability(_PRIOR + added)
        for chance in unwanted:
            result *= 1 - chance
        return result


def _of_image(scores: NDArray[np.floating], gallery: NDArray[np.floating], image: Vectors) -> Floats:
    """Return log-odds (k,) from the position of images between the gallery's mean and the query itself."""
    mean, most = float(gallery.mean()), float(image @ image)
    return IMAGES.log_odds(1 - (most - scores) / max(most - mean, _LEAST_SPAN * most, _TINY))
