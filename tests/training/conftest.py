"""What the tests of training share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from seesay.data.corpus import Corpus
from seesay.data.readers import read_corpus


@pytest.fixture(scope="session")
def corpus(scenes: Path) -> Corpus:
    """The drawn scenes and their sentences: 48 images to train on, 6 each for val and test."""
    return read_corpus(scenes)


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Let PyTorch compute in one thread, in which sums are rounded as in each of several processes."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module", autouse=True)
def exported(request: pytest.FixtureRequest) -> Iterator[None]:
    """Export the runs of a few modules only: it takes long, and tests/runs exports every matcher."""
    from seesay.training import summarize

    with pytest.MonkeyPatch.context() as patch:
        if Path(request.path).stem not in (
            "test_composed",
            "test_fusion_recipes",
            "test_adapter_recipe",
        ):
            patch.setattr(summarize, "try_export", lambda run: None)
        yield
