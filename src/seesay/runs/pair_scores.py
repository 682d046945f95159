"""Scores of single pairs of a split, where not all pairs are wanted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from seesay.matchers.base import PairMatcher
from seesay.progress import progress
from seesay.runs.inputs import Inputs
from seesay.runs.run import Run
from seesay.runs.split_scores import EmbeddingScores, SplitScores

# Scores (p,) of p pairs, given as their images' and their sentences' rows, (p,) each; the image asks.
ScorePairs = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.floating]]

_ENCODED = 512  # images or sentences encoded at a time
_PAIRS = 1 << 10  # pairs scored at a time: each carries a copy of both sides


def pairs_of_scores(scores: SplitScores) -> ScorePairs:
    """Of a score matrix, or of embeddings, whose other products are not computed."""

    def score(images: NDArray[np.int64], sentences: NDArray[np.int64]) -> NDArray[np.floating]:
        if not isinstance(scores, EmbeddingScores):
            return np.asarray(scores.by_direction()[0][images, sentences], np.float64)
        rows = scores.images if scores.asking_images is None else scores.asking_images
        parts = [
            np.einsum("pd,pd->p", rows[i].astype(np.float64), scores.sentences[j].astype(np.float64))
            for i, j in zip(_split(images), _split(sentences), strict=True)
        ]
        return np.concatenate(parts)

    return score


def pairs_of_run(run: Run, inputs: Inputs) -> ScorePairs:
    """Of a run: each image and sentence that some pair has is encoded once, and no other pair is scored."""

    @torch.inference_mode()
    def score(images: NDArray[np.int64], sentences: NDArray[np.int64]) -> NDArray[np.floating]:
        wanted_images, row = np.unique(images, return_inverse=True)
        wanted_sentences, column = np.unique(sentences, return_inverse=True)
        features = inputs.features[torch.from_numpy(wanted_images)]
        texts = inputs.sentences.take(torch.from_numpy(wanted_sentences))
        matcher = run.matcher
        if not isinstance(matcher, PairMatcher):
            embedded = run.embed_features(features.numpy(), query=True), run.embed_prepared(texts)
            return pairs_of_scores(EmbeddingScores(*embedded))(row, column)
        looked = torch.cat([matcher.encode_images(x.to(run.device)) for x in torch.split(features, _ENCODED)])
        order = torch.split(torch.arange(len(texts)), _ENCODED)
        read = torch.cat([matcher.encode_sentences(texts.take(some).to(run.device)) for some in order])
        parts = []
        with progress("Scoring", len(images), "pairs") as advance:
            for i, j in zip(_split(row), _split(column), strict=True):
                there = (torch.from_numpy(some).to(run.device) for some in (i, j))
                beside = (side[some] for side, some in zip((looked, read), there, strict=True))
                parts.append(matcher.score_pairs(*beside).float().cpu().numpy())
                advance(len(i))
        return np.concatenate(parts)

    return score


def _split(rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    return np.array_split(rows, max(1, -(-len(rows) // _PAIRS)))
