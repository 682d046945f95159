"""What the tests of training share."""

from __future__ import annotations

from pathlib import Path

import pytest

from seesay.data.corpus import Corpus
from seesay.data.readers import read_corpus


@pytest.fixture(scope="session")
def corpus(scenes: Path) -> Corpus:
    """The drawn scenes and their sentences: 48 images to train on, 6 each for val and test."""
    return read_corpus(scenes)
