"""How probable it is that each hit of a query is a right answer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from seesay.runs.calibration import IMAGES, known_share, probability
from seesay.runs.embedder import Embedder
from seesay.search.background import Gallery
from seesay.search.hits import Hit
from seesay.search.query import Query, Sentence
from seesay.search.store import Store

Floats = NDArray[np.float64]

_TINY = 1e-6
_LEAST_SPAN = 0.1  # of an image's product with itself, for a gallery in which all images are alike


class Judge:
    """Judges the hits of an index's queries.

    A query of sentences alone is judged as one. One with images in it is judged by its parts: an answer is as
    probable as the weighted mean of the log-odds of what is wanted, and not what is not wanted.

    Args:
        store: of the index.
        gallery: what is known of its images.
    """

    def __init__(self, store: Store, gallery: Gallery) -> None:
        self._store, self._gallery = store, gallery

    def probabilities(
        self,
        hits: Sequence[Hit],
        query: Query,
        rows: Sequence[NDArray[np.float32]],
        vector: NDArray[np.float32],
        run: Embedder,
        unknown: Sequence[str],
    ) -> Floats:
        """Return the probabilities (k,) of hits.

        Args:
            hits: whose scores are those of the query's vector.
            query: that they answer.
            rows: vectors (dim,) of its parts; not needed of a query of sentences alone.
            vector: of the query, (dim,).
            run: that embeds.
            unknown: words of the query that mean nothing to the run; probabilities are lower by their share
                of the words that are wanted.
        """
        known = known_share(query.wanted, unknown)
        ids = [hit.id for hit in hits]
        if query.is_text:
            scores = np.array([hit.score for hit in hits])
            return known * probability(self._of_sentence(scores, ids, vector, run))
        images = self._vectors(ids)
        wanted, weights, unwanted = list[Floats](), list[float](), list[Floats]()
        for part, row in zip(query.parts, rows, strict=True):
            share = 1.0
            if isinstance(part.term, Sentence):
                found = self._of_sentence(images @ row, ids, row, run)
                share = known_share([part.term.text], unknown)
            else:
                found = self._of_image(images @ row, row, run)
            if part.weight > 0:
                wanted.append(found)
                weights.append(part.weight)
            else:
                unwanted.append(share * probability(found))
        result = known * probability(np.average(wanted, axis=0, weights=weights))
        for chance in unwanted:
            result *= 1 - chance
        return result

    def _of_sentence(
        self, scores: NDArray[np.floating], ids: Sequence[int], sentence: NDArray[np.float32], run: Embedder
    ) -> Floats:
        standardised = self._gallery.background(run).standardised(scores, sentence)
        return run.log_odds(standardised, lambda: self._vectors(ids), sentence)

    def _of_image(self, scores: NDArray[np.floating], image: NDArray[np.float32], run: Embedder) -> Floats:
        mean, most = float(self._gallery.background(run).mean @ image), float(image @ image)
        return IMAGES.log_odds(1 - (most - scores) / max(most - mean, _LEAST_SPAN * most, _TINY))

    def _vectors(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """The vectors (k, dim) of images; zeros for one that another process has deleted meanwhile."""
        there, vectors = self._store.vectors(ids)
        found = dict(zip(there.tolist(), vectors.astype(np.float32), strict=True))
        nothing = np.zeros(self._store.dim, np.float32)
        return np.stack([found.get(id_, nothing) for id_ in ids])
