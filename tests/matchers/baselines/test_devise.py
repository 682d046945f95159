"""DeViSE against the loss as it is printed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from seesay.losses.ranking import HingeRankLoss
from seesay.matchers.baselines.devise import DeViSE

MARGIN, N, D, Q = 0.1, 6, 5, 4


@pytest.fixture
def drawn() -> tuple[DeViSE, Tensor, Tensor]:
    torch.manual_seed(0)
    return DeViSE(D, Q), torch.randn(N, D), torch.randn(N, Q)


def test_the_loss_is_the_printed_one(drawn: tuple[DeViSE, Tensor, Tensor]) -> None:
    matcher, images, vectors = drawn
    owners = [0, 1, 2, 2, 3, 4]
    scores = matcher.training_scores(images, vectors)
    loss = HingeRankLoss(MARGIN)(scores[0], torch.tensor(owners))
    m = matcher.image_map.weight.detach().double().numpy()
    v = [image / np.linalg.norm(image) for image in images.double().numpy()]
    t = [vector / np.linalg.norm(vector) for vector in vectors.double().numpy()]
    total = sum(
        max(0.0, MARGIN - t[i] @ m @ v[i] + t[j] @ m @ v[i])
        for i in range(N)
        for j in range(N)
        if owners[i] != owners[j]
    )
    assert loss.item() == pytest.approx(total / N, abs=1e-6)


def test_scores_are_cosines_and_rank_sentences_as_the_products_do(
    drawn: tuple[DeViSE, Tensor, Tensor],
) -> None:
    matcher, images, vectors = drawn
    scores = matcher(images, vectors)
    products = matcher.training_scores(images, vectors)[0]
    mapped = images @ matcher.image_map.weight.T
    cosines = torch.nn.functional.cosine_similarity(mapped[:, None], vectors[None], dim=2)
    torch.testing.assert_close(scores, cosines, atol=1e-5, rtol=0)
    assert torch.equal(scores.argsort(dim=1), products.argsort(dim=1))


def test_a_sentence_of_unknown_words_has_a_finite_score(drawn: tuple[DeViSE, Tensor, Tensor]) -> None:
    matcher, images, _ = drawn
    assert torch.isfinite(matcher(images, torch.zeros(1, Q))).all()
