"""DCCA: what its projections are of, against scikit-learn's linear CCA."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from seesay.losses.correlation import TotalCorrelationLoss
from seesay.matchers.baselines.dcca import DCCA

N, P, Q, K = 200, 6, 5, 3


@pytest.fixture
def pairs() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    shared = torch.randn(N, 4)
    images, texts = (shared @ torch.randn(4, width) + 0.3 * torch.randn(N, width) for width in (P, Q))
    return images + 1, 100 * texts


@pytest.fixture
def matcher() -> DCCA:
    torch.manual_seed(1)
    return DCCA(P, Q, hidden=(16, 8), dim=K).eval()


def test_outputs_are_the_perceptrons_of_inputs_of_one_length(
    matcher: DCCA, pairs: tuple[Tensor, Tensor]
) -> None:
    sides = matcher.outputs(pairs[0], pairs[1])
    for got, side, features in zip(sides, ("image", "sentence"), pairs, strict=True):
        w = {key: value.double().numpy() for key, value in matcher.state_dict().items()}
        for row, x in zip(got.detach().numpy()[:5], features.double().numpy(), strict=False):
            h = x / np.linalg.norm(x) * np.sqrt(len(x))
            for layer in ("0", "3"):
                name = f"{side}_map.{layer}"
                h = np.maximum(w[f"{name}.weight"] @ h + w[f"{name}.bias"], 0)
            h = w[f"{side}_map.6.weight"] @ h + w[f"{side}_map.6.bias"]
            np.testing.assert_allclose(row, h, atol=1e-4)


@pytest.mark.parametrize("ridge", [1e-6, 0.5])
def test_the_projections_are_those_that_the_objective_sees(
    matcher: DCCA, pairs: tuple[Tensor, Tensor], ridge: float
) -> None:
    """Their correlations add up to ‖T‖_tr of all pairs by the same r."""
    batches = [(part, text) for part, text in zip(*(p.split(70) for p in pairs), strict=True)]
    matcher.fit_projections(batches, ridge)
    with torch.inference_mode():
        h = matcher.outputs(pairs[0], pairs[1])
    expected = -TotalCorrelationLoss(ridge * N / (N - 1))(*h)  # `Covariances` divides by m, not by m - 1
    got = matcher.projections.get_buffer("correlations").sum()
    assert float(got) == pytest.approx(float(expected), rel=1e-4)


def test_projected_outputs_correlate_as_scikit_learns_do(matcher: DCCA, pairs: tuple[Tensor, Tensor]) -> None:
    from sklearn.cross_decomposition import CCA

    texts = pairs[1]
    matcher.fit_projections([(pairs[0], texts)], 1e-7)
    h = [side.detach().double().numpy() for side in matcher.outputs(pairs[0], texts)]
    theirs = CCA(n_components=K, max_iter=5000, tol=1e-12).fit_transform(*h)
    expected = [abs(np.corrcoef(a, b)[0, 1]) for a, b in zip(theirs[0].T, theirs[1].T, strict=True)]
    ours = matcher.projections.get_buffer("correlations").numpy()
    np.testing.assert_allclose(ours, expected, atol=1e-3)


def test_scores_are_cosines_of_projections(matcher: DCCA, pairs: tuple[Tensor, Tensor]) -> None:
    texts = pairs[1]
    matcher.fit_projections([(pairs[0], texts)], 1e-3)
    sides = []
    for side, h in zip(("image", "sentence"), matcher.outputs(pairs[0], texts), strict=True):
        held = matcher.projections
        sides.append((h - held.get_buffer(f"{side}_mean")) @ held.get_buffer(f"{side}_map"))
    expected = torch.nn.functional.cosine_similarity(sides[0][:, None], sides[1][None], dim=2)
    torch.testing.assert_close(matcher(pairs[0], texts), expected, atol=1e-5, rtol=0)
    scores = matcher(pairs[0], texts).detach()
    assert scores.diagonal().mean() > scores.mean() + 0.2
