"""What the tests of training share."""

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
def exported(request: pytest.FixtureRequest) -> Iterator[None]:
    """Export the runs of a few modules only: it takes long, and tests/runs exports every matcher."""
    from seesay.training import summarize

    with pytest.MonkeyPatch.context() as patch:
        if Path(request.path).stem not in ("test_composed", "test_fusion_recipes"):
            patch.setattr(summarize, "try_export", lambda run: None)
        yield
