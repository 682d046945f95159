"""Some of the sentences of a batch, which show that the others do not change what a matcher returns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seesay.matchers import Sentences
from seesay.runs.prepare import PreparedSentences


def taken(sentences: Sentences, rows: Sequence[int]) -> Sentences:
    """Return the sentences of some rows, in that order."""
    parts = (part.numpy() for part in (sentences.words, sentences.lengths, sentences.vectors))
    return PreparedSentences(*parts).take(np.array(rows, np.int64)).to_tensors()
