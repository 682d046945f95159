"""How probable it is that each hit of a query is a right answer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from seesay.runs.calibration import IMAGES, known_share, probability
from seesay.runs.embedder import Embedder, Vectors
from seesay.runs.mixture import ScoreMixture, chances
from seesay.search.gallery import Galleries
from seesay.search.hits import Hit
from seesay.search.prepared import PreparedQuery
from seesay.search.query import Text
from seesay.search.store import Store

Floats = NDArray[np.float64]

_TINY = 1e-6
_BESIDE_IMAGES = 1.5  # factor of how far a sentence stands out; chosen on photographs of everyday things
_LEAST_SPAN = 0.1  # of an image's product with itself, for a gallery in which all images are alike


class Judge:
    """Judges the hits of an index's queries.

    A query of sentences alone is judged as one. One with images in it is judged by its parts: an answer is as
    probable as the weighted mean of the log-odds of what is wanted, and not what is not wanted. For that mean
    a sentence's score counts by how far it stands out, since the odds of a mixture would outweigh an image's.

    Args:
        store: of the index.
        galleries: what is known of its images.
    """

    def __init__(self, store: Store, galleries: Galleries) -> None:
        self._store, self._galleries = store, galleries

    def probabilities(
        self,
        hits: Sequence[Hit],
        asked: PreparedQuery,
        run: Embedder,
        best: Sequence[int] = (),
    ) -> Floats:
        """Return the probabilities (k,) of hits.

        They are lower by the share of the wanted words that mean nothing to the run.

        Args:
            hits: to be judged.
            asked: what they answer.
            run: that embeds.
            best: ids of the nearest images of the whole gallery, if they may not be among the hits.
        """
        query, unknown = asked.query, asked.unknown
        known = known_share(query.wanted, unknown)
        gallery, sample = self._galleries.current(run)
        images = self._vectors([*(hit.id for hit in hits), *best])
        if not len(sample):  # another process has deleted it meanwhile
            sample = images

        def of_sentence(row: Vectors) -> Floats:
            found = chances(images @ row, sample @ row, gallery.count, gallery.unit, run.calibration)
            return found[: len(hits)]

        if query.is_text:
            return known * of_sentence(asked.vector)
        wanted, weights, unwanted = list[Floats](), list[float](), list[Floats]()
        for part, row in zip(query.parts, asked.rows, strict=True):
            share = 1.0
            if isinstance(part.term, Text):
                mixture = ScoreMixture.fit(sample @ row, gallery.unit)
                excess = mixture.excess(images[: len(hits)] @ row, gallery.count, gallery.unit)
                found = run.calibration.log_odds(_BESIDE_IMAGES * excess)
                share = known_share([part.term.text], unknown)
            else:
                found = _of_image(images[: len(hits)] @ row, sample @ row, row)
            if part.weight > 0:
                wanted.append(found)
                weights.append(part.weight)
            else:
                unwanted.append(share * probability(found))
        result = known * probability(np.average(wanted, axis=0, weights=weights))
        for chance in unwanted:
            result *= 1 - chance
        return result

    def _vectors(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """The vectors (k, dim) of images; zeros for one that another process has deleted meanwhile."""
        there, vectors = self._store.vectors(ids)
        found = dict(zip(there.tolist(), vectors.astype(np.float32), strict=True))
        nothing = np.zeros(self._store.dim, np.float32)
        return np.stack([found.get(id_, nothing) for id_ in ids])


def _of_image(scores: NDArray[np.floating], gallery: NDArray[np.floating], image: Vectors) -> Floats:
    """Return log-odds (k,) by how far images are on the way from the gallery's mean to the query itself."""
    mean, most = float(gallery.mean()), float(image @ image)
    return IMAGES.log_odds(1 - (most - scores) / max(most - mean, _LEAST_SPAN * most, _TINY))
