"""The ranks of a run on a split, or on any part of it, embedded or scored once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seesay.evaluation.protocols import Part, RanksOfFold
from seesay.evaluation.ranks import Ranks, embedding_ranks, ranks
from seesay.matchers.base import EmbeddingMatcher
from seesay.matchers.inputs import Inputs
from seesay.matchers.run import Run


def ranks_of_run(run: Run, inputs: Inputs, keep: bool = False) -> RanksOfFold:
    """From images, sentences and the images of these to their ranks; `keep` is `Run.scores`'."""
    features = np.asarray(inputs.features)
    if not isinstance(run.matcher, EmbeddingMatcher):
        matrix = run.scores(features, inputs.sentences, keep)
        return lambda images, sentences, own: ranks(matrix[images][:, sentences], own)
    rows, columns = run.embed_features(features), run.embed_prepared(inputs.sentences)
    if not run.matcher.asks:
        return lambda images, sentences, own: embedding_ranks(rows[images], columns[sentences], own)
    asking_rows = run.embed_features(features, query=True)
    asking_columns = run.embed_prepared(inputs.sentences, query=True)

    def by_query(images: Part, sentences: Part, own: NDArray[np.int64]) -> Ranks:
        return Ranks(
            embedding_ranks(asking_rows[images], columns[sentences], own).sentence,
            embedding_ranks(rows[images], asking_columns[sentences], own).image,
        )

    return by_query
