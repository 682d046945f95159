"""Cosine: nothing is learned, and both sides are of one width."""

from __future__ import annotations

import pytest
import torch

from seesay.errors import SeesayError
from seesay.matchers import Cosine, MatcherInputs
from seesay.matchers.settings import MATCHERS


def test_it_scores_by_the_cosine_of_features_and_vectors() -> None:
    images, sentences = torch.randn(3, 5), torch.randn(4, 5)
    matcher = MATCHERS["cosine"].settings().build(MatcherInputs((2, 3), 1, 5))
    expected = torch.nn.functional.cosine_similarity(images[:, None], sentences[None], dim=2)
    assert torch.allclose(matcher(images, sentences), expected, atol=1e-6)
    assert not list(matcher.parameters())


def test_encoders_of_two_widths_are_refused() -> None:
    with pytest.raises(SeesayError, match="sentence_dim: wanted 5, the width of the image features, got 6"):
        Cosine(image_dim=5, sentence_dim=6)
