import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.stats import entropy
from torch import Tensor

from seesay.errors import SeesayError
from seesay.losses.margin import MarginLoss, PairMarginLoss, SoftMarginLoss
from seesay.losses.softmax import ContrastiveLoss, DistillationLoss

MARGIN = 0.5


def batch(seed: int, n: int, images: int) -> tuple[Tensor, Tensor]:
    generator = np.random.default_rng(seed)
    scores = torch.from_numpy(generator.uniform(-1, 1, (n, n)))
    return scores, torch.from_numpy(generator.integers(0, images, n))


def queries(scores: Tensor, images: Tensor) -> list[tuple[float, list[float]]]:
    """Every query of the batch: the score of its match, and those of its negatives."""
    n = len(scores)
    found = []
    for i in range(n):
        negatives = [j for j in range(n) if images[j] != images[i]]
        found.append((float(scores[i, i]), [float(scores[i, j]) for j in negatives]))
        found.append((float(scores[i, i]), [float(scores[j, i]) for j in negatives]))
    return found


BATCHES = st.builds(batch, st.integers(0, 10_000), st.integers(2, 7), st.integers(1, 6))


@given(BATCHES)
def test_hard_margin_equals_a_plain_loop(drawn: tuple[Tensor, Tensor]) -> None:
    scores, images = drawn
    total = sum(max(0.0, MARGIN - s + t) for s, negatives in queries(scores, images) for t in negatives)
    assert MarginLoss(MARGIN)(scores, images).item() == pytest.approx(total / len(scores))


def cheapest_slack(matching: float, negatives: list[float], price: float) -> float:
    """min over ε ≥ 0 and ξ ≥ 0 of C·ε + Σ ξ with ξ_k ≥ m - ε - s⁺ + s_k⁻, by a linear program."""
    n = len(negatives)
    if n == 0:
        return 0.0
    bound = np.array([matching - MARGIN - t for t in negatives])
    constraints = np.hstack([-np.ones((n, 1)), -np.eye(n)])
    solved = linprog([price, *[1.0] * n], A_ub=constraints, b_ub=bound, bounds=[(0, None)] * (n + 1))
    assert solved.success
    return float(solved.fun)


@settings(max_examples=30)
@given(BATCHES, st.integers(1, 8))
def test_soft_margin_equals_the_linear_program(drawn: tuple[Tensor, Tensor], price: int) -> None:
    scores, images = drawn
    total = sum(cheapest_slack(s, negatives, price) for s, negatives in queries(scores, images))
    assert SoftMarginLoss(MARGIN, price)(scores, images).item() == pytest.approx(
        total / len(scores), abs=1e-7
    )


@given(BATCHES)
def test_the_sum_is_the_mean_times_the_pairs(drawn: tuple[Tensor, Tensor]) -> None:
    scores, images = drawn
    total = SoftMarginLoss(MARGIN, 2, reduction="sum")(scores, images)
    assert total.item() == pytest.approx(len(scores) * SoftMarginLoss(MARGIN, 2)(scores, images).item())


@given(BATCHES)
def test_soft_margin_ranges_from_the_hard_margin_to_the_largest_violation(
    drawn: tuple[Tensor, Tensor],
) -> None:
    scores, images = drawn
    assert torch.isclose(
        SoftMarginLoss(MARGIN, len(scores))(scores, images), MarginLoss(MARGIN)(scores, images)
    )
    largest = sum(
        max([0.0, *(MARGIN - s + t for t in negatives)]) for s, negatives in queries(scores, images)
    )
    assert SoftMarginLoss(MARGIN, 1)(scores, images).item() == pytest.approx(largest / len(scores))


@given(BATCHES)
def test_contrastive_loss_equals_a_plain_loop(drawn: tuple[Tensor, Tensor]) -> None:
    scores, images = drawn
    total = 0.0
    for matching, negatives in queries(scores, images):
        chances = np.exp(10 * np.array([matching, *negatives]))
        total -= np.log(chances[0] / chances.sum())
    assert ContrastiveLoss(10.0)(scores, images).item() == pytest.approx(total / (2 * len(scores)))


@given(BATCHES, st.floats(0.1, 20), st.floats(0.1, 20))
def test_distillation_equals_a_plain_loop(drawn: tuple[Tensor, Tensor], scale: float, own: float) -> None:
    scores, images = drawn
    teacher = scores.sin()
    total = 0.0
    for ours, theirs in zip(queries(scores, images), queries(teacher, images), strict=True):
        had, wanted = (np.exp(times * np.array([s, *t])) for times, (s, t) in ((own, ours), (scale, theirs)))
        total += entropy(wanted, had)  # of the shares: it normalises
    expected = total / (2 * len(scores))
    loss = DistillationLoss(scale, student_scale=own)
    assert loss(scores, images, teacher).item() == pytest.approx(expected, abs=1e-8)


@given(BATCHES)
def test_a_student_that_scores_like_its_teacher_has_no_loss(drawn: tuple[Tensor, Tensor]) -> None:
    scores, images = drawn
    for loss, pupil in ((DistillationLoss(3.0), scores * 3), (DistillationLoss(3.0, 3.0), scores.clone())):
        value = loss(pupil.requires_grad_(), images, scores)
        value.backward()
        assert value.item() == pytest.approx(0, abs=1e-9)
        assert pupil.grad is not None
        assert pupil.grad.abs().max() < 1e-7


@pytest.mark.parametrize("loss", [MarginLoss(), SoftMarginLoss(top_k=2), PairMarginLoss()])
def test_sentences_of_one_image_are_not_negatives(loss) -> None:
    scores = torch.tensor([[0.1, 0.9], [0.9, 0.1]], requires_grad=True)
    value = loss(scores, torch.tensor([4, 4]))
    value.backward()
    assert value.item() == 0.0
    assert not scores.grad.any()


@settings(max_examples=30)
@given(BATCHES, st.integers(1, 8))
def test_a_slack_of_each_negative_keeps_its_largest_violations(
    drawn: tuple[Tensor, Tensor], price: int
) -> None:
    scores, images = drawn
    n, total = len(scores), 0.0
    for j in range(n):  # as a negative sentence of every image, and a negative image of every sentence
        others = [i for i in range(n) if images[i] != images[j]]
        for column in (scores[:, j], scores[j, :]):
            violations = sorted(
                (max(0.0, MARGIN - float(scores[i, i] - column[i])) for i in others), reverse=True
            )
            total += sum(violations[:price])
    loss = SoftMarginLoss(MARGIN, price, slack="negative")
    assert loss(scores, images).item() == pytest.approx(total / n, abs=1e-7)


def test_an_unknown_slack_is_refused() -> None:
    with pytest.raises(SeesayError, match="slack: input should be 'query' or 'negative', got 'pair'"):
        SoftMarginLoss(slack="pair")  # type: ignore[arg-type]
