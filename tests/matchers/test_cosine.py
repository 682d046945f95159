"""The cosine of two towers of the same space."""

from __future__ import annotations

import pytest
import torch

from seesay.errors import SeesayError
from seesay.matchers import Cosine


def test_the_score_is_the_cosine() -> None:
    torch.manual_seed(1)
    images, sentences = 3 * torch.randn(5, 12), torch.randn(7, 12)
    expected = torch.nn.functional.cosine_similarity(images[:, None], sentences[None], dim=2)
    torch.testing.assert_close(Cosine(12, 12)(images, sentences), expected)


def test_towers_of_different_spaces_are_refused() -> None:
    with pytest.raises(SeesayError, match="sentence_dim: expected 12"):
        Cosine(12, 11)
