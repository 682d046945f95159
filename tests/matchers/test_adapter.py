"""The adapter: zero-shot at first and with alpha 0, and a share of what was learned that is best on val."""

from __future__ import annotations

import pytest
import torch

from seesay.errors import SeesayError
from seesay.matchers import Adapter, Cosine, MatcherInputs
from seesay.matchers.adapter import ALPHAS
from seesay.matchers.settings import MATCHERS

DIM = 12


@pytest.fixture
def learned() -> Adapter:
    torch.manual_seed(0)
    matcher = Adapter(DIM, DIM, hidden=8).eval()
    for parameter in matcher.parameters():
        torch.nn.init.normal_(parameter)
    return matcher


@pytest.fixture
def pairs() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return 3 * torch.randn(5, DIM), torch.randn(7, DIM)


def test_an_untrained_adapter_is_the_zero_shot_cosine(pairs: tuple[torch.Tensor, torch.Tensor]) -> None:
    for matcher in (Adapter(DIM, DIM), Adapter(DIM, DIM).eval()):
        torch.testing.assert_close(matcher(*pairs), Cosine(DIM, DIM)(*pairs))


def test_alpha_interpolates_the_last_layers(
    learned: Adapter, pairs: tuple[torch.Tensor, torch.Tensor]
) -> None:
    zero_shot, whole = Cosine(DIM, DIM)(*pairs), learned(*pairs)
    assert not torch.allclose(zero_shot, whole, atol=0.1)
    learned.alpha.fill_(0)
    torch.testing.assert_close(learned(*pairs), zero_shot)
    learned.alpha.fill_(0.3)
    some = learned(*pairs)
    learned.alpha.fill_(1)
    for residual in (learned.images, learned.sentences):
        for parameter in residual.last.parameters():
            parameter.data *= 0.3
    torch.testing.assert_close(learned(*pairs), some)


def test_training_uses_the_whole_residual(learned: Adapter, pairs: tuple[torch.Tensor, torch.Tensor]) -> None:
    without_dropout = Adapter(DIM, DIM, hidden=8, dropout=0.0)
    without_dropout.load_state_dict(learned.state_dict())
    without_dropout.alpha.fill_(0.2)
    torch.testing.assert_close(without_dropout.train()(*pairs), learned(*pairs))
    assert "alpha" in learned.state_dict()


@pytest.mark.parametrize("best", [0.0, 0.4, 1.0])
def test_the_chosen_alpha_is_the_best_on_val(
    learned: Adapter, pairs: tuple[torch.Tensor, torch.Tensor], best: float
) -> None:
    seen = []

    def measure() -> float:
        seen.append(round(float(learned.alpha), 6))
        return -abs(seen[-1] - best)

    learned.calibrate(measure)
    assert tuple(seen) == ALPHAS
    assert float(learned.alpha) == pytest.approx(best)
    assert learned.metrics(*pairs) == {"alpha": pytest.approx(best)}


def test_ties_between_alphas_go_to_the_one_nearest_to_zero_shot(learned: Adapter) -> None:
    learned.calibrate(lambda: 50.0 if learned.alpha > 0.55 else 10.0)
    assert float(learned.alpha) == pytest.approx(0.6)
    learned.calibrate(lambda: 1.0)
    assert float(learned.alpha) == 0


def test_towers_of_two_spaces_are_refused() -> None:
    with pytest.raises(SeesayError, match="name one model in encoders and in sentence_encoder"):
        Adapter(DIM, DIM + 1)


def test_it_scores_by_the_cosine_of_features_and_vectors() -> None:
    images, sentences = torch.randn(3, 5), torch.randn(4, 5)
    matcher = MATCHERS["cosine"].settings().build(MatcherInputs((2, 3), 1, 5))
    expected = torch.nn.functional.cosine_similarity(images[:, None], sentences[None], dim=2)
    assert torch.allclose(matcher(images, sentences), expected, atol=1e-6)
    assert not list(matcher.parameters())


def test_encoders_of_two_widths_are_refused() -> None:
    with pytest.raises(SeesayError, match="sentence_dim: expected 5, the width of the image features, got 6"):
        Cosine(image_dim=5, sentence_dim=6)
