"""What the tests of the plug-in share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from seesay.data.corpus import Corpus
from seesay.data.readers import read_corpus


@pytest.fixture(scope="session")
def corpus(scenes: Path) -> Corpus:
    """The drawn scenes and their sentences: 48 images to train on, 6 each for val and test."""
    return read_corpus(scenes)


@pytest.fixture(scope="module", autouse=True)
def exported() -> Iterator[None]:
    """Export no run: it takes long, and tests/runs exports every matcher."""
    from seesay.training import summarize

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(summarize, "try_export", lambda run: None)
        yield
