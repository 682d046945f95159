"""The ranks of a run on a split, or on any part of it, embedded or scored once."""

from __future__ import annotations

import numpy as np

from seesay.evaluation.protocols import RanksOfFold
from seesay.evaluation.ranks import embedding_ranks, ranks
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
    return lambda images, sentences, own: embedding_ranks(rows[images], columns[sentences], own)
