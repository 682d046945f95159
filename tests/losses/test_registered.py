"""What every registered loss must do: gradients, single pairs, symmetry, errors, and modules of one's own."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from seesay.errors import SeesayError
from seesay.losses import (
    Batch,
    ContrastiveLoss,
    CorrelationLoss,
    DistillationLoss,
    LogisticLoss,
    Loss,
    MarginLoss,
    MultiLabelLoss,
    PairMarginLoss,
    Relations,
    ScoreLoss,
    SoftMarginLoss,
    TripletLoss,
)
from seesay.losses.settings import LOSSES, LossSettings
from seesay.matchers import ConceptClassifier, EmbeddingMatcher, SimilarityNetwork, VSEPlusPlus

IMAGE, WORDS, VECTOR, N = 6, 20, 8, 5
CASES: dict[str, dict[str, Any]] = {
    "contrastive": {},
    "correlation": {},
    "distillation": {"teacher": "run"},
    "logistic": {},
    "margin": {},
    "multi-label": {},
    "pair-margin": {"count": N},
    "soft-margin": {"top_k": 2},
    "triplet": {"lambda2": 1, "lambda3": 0.5, "lambda4": 0.5},
}
OF_SCORES = ("contrastive", "distillation", "margin", "soft-margin")
OF_PAIRS = ("logistic", "pair-margin")
OF_MATRICES = (*OF_SCORES, "pair-margin")
NO_IDS = torch.zeros(0, dtype=torch.int64)
RELATIONS = Relations.from_owners(torch.arange(3), torch.arange(3))
TRAINED = [kind for kind in CASES if kind != "correlation"]  # which has a closed form


def loss_of(kind: str, **changes: object) -> Loss:
    made = LOSSES.parse({"kind": kind, **CASES[kind], **changes})
    assert isinstance(made, LossSettings)
    loss = made.build()
    if isinstance(loss, DistillationLoss):
        teacher = SimpleNamespace(scores=lambda given: matrix(7, len(given.images)), fingerprint="7f")
        loss.begin(SimpleNamespace(teacher=lambda run: teacher))
    return loss


class Own(EmbeddingMatcher):
    """A matcher of somebody's own."""

    def __init__(self) -> None:
        super().__init__()
        self.image_map, self.sentence_map = nn.Linear(IMAGE, 4), nn.Linear(VECTOR, 4)

    def embed_images(self, images: Tensor) -> Tensor:
        return functional.normalize(self.image_map(images), dim=1)

    def embed_sentences(self, sentences: Tensor) -> Tensor:
        return functional.normalize(self.sentence_map(sentences), dim=1)


def matcher_for(kind: str) -> nn.Module:
    torch.manual_seed(0)
    if kind in OF_PAIRS:
        return SimilarityNetwork(IMAGE, VECTOR, image_hidden=12, sentence_hidden=10, dim=8, head=(6,)).eval()
    if kind == "multi-label":
        return ConceptClassifier(IMAGE, concepts=7)
    return Own()


def batch(ids: list[int], seed: int = 0) -> Batch:
    n, draw = len(ids), torch.Generator().manual_seed(seed)
    images, vectors = torch.rand(n, IMAGE, generator=draw), torch.randn(n, VECTOR, generator=draw)
    targets = torch.rand(n, 7, generator=draw) > 0.5
    return Batch(images, vectors, torch.tensor(ids), targets.float())


def matrix(seed: int = 0, n: int = N) -> Tensor:
    return torch.randn(n, n, generator=torch.Generator().manual_seed(seed))


def of_matrix(kind: str) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """The loss as a function of scores, image numbers and a teacher's scores."""
    loss = loss_of(kind)
    return lambda scores, ids, teacher: loss(scores, ids, *([teacher] if kind == "distillation" else []))


def test_every_loss_of_seesay_is_tested_here() -> None:
    assert {kind for kind in LOSSES if LOSSES[kind].implementation.__module__.startswith("seesay.")} == set(
        CASES
    )


@pytest.mark.parametrize("kind", TRAINED)
def test_a_batch_has_a_finite_loss_that_teaches_all_of_the_matcher(kind: str) -> None:
    matcher = matcher_for(kind)
    (value,) = loss_of(kind).batch_losses(matcher, batch([0, 1, 1, 2, 3]))
    assert value.shape == ()
    assert value.isfinite()
    value.backward()
    gradients = [each.grad for each in matcher.parameters()]
    assert all(gradient is not None and gradient.isfinite().all() for gradient in gradients)
    assert any(gradient.any() for gradient in gradients)


@pytest.mark.parametrize("kind", [*OF_SCORES, *OF_PAIRS, "triplet"])
@pytest.mark.parametrize("ids", [[4], [4, 4]], ids=["one pair", "one image"])
def test_without_negatives_there_is_nothing_to_learn(kind: str, ids: list[int]) -> None:
    matcher = matcher_for(kind)
    changes = (
        {"lambda2": 1.5, "lambda3": 0, "lambda4": 0} if kind == "triplet" else {}
    )  # two sentences are neighbours
    (value,) = loss_of(kind, **changes).batch_losses(matcher, batch(ids))
    assert value.item() == pytest.approx(0, abs=1e-6)
    value.backward()
    assert all(each.grad is None or not each.grad.any() for each in matcher.parameters())


@pytest.mark.parametrize("kind", sorted(set(CASES) - {"correlation"}))
def test_the_sum_is_the_mean_times_the_pairs(kind: str) -> None:
    """Of every loss with terms of pairs; each image of the batch is another, so that all have negatives."""
    matcher, given = matcher_for(kind), batch([0, 1, 2, 3, 4])
    values = []
    for reduction in ("mean", "sum"):
        torch.manual_seed(0)  # the logistic loss draws its negatives
        values.append(loss_of(kind, reduction=reduction).batch_losses(matcher, given)[0])
    terms = 2 * N if kind == "logistic" else N
    torch.testing.assert_close(values[1], terms * values[0])
    assert "reduction='mean'" in repr(loss_of(kind))


def test_concepts_are_learned_from_a_single_image() -> None:
    matcher = matcher_for("multi-label")
    (value,) = loss_of("multi-label").batch_losses(matcher, batch([0]))
    assert value > 0
    value.backward()
    assert any(each.grad.any() for each in matcher.parameters())


@pytest.mark.parametrize("kind", OF_MATRICES)
def test_the_loss_of_a_matrix_has_the_gradient_of_finite_differences(kind: str) -> None:
    scores, teacher = matrix().double().requires_grad_(), matrix(1).double()
    ids, loss = torch.tensor([0, 1, 1, 2, 3]), of_matrix(kind)
    assert torch.autograd.gradcheck(lambda x: loss(x, ids, teacher), (scores,))


@pytest.mark.parametrize("kind", OF_MATRICES)
def test_images_and_sentences_count_alike(kind: str) -> None:
    scores, teacher, ids = matrix(), matrix(1), torch.tensor([0, 1, 1, 2, 3])
    loss = of_matrix(kind)
    torch.testing.assert_close(loss(scores, ids, teacher), loss(scores.T, ids, teacher.T))


@pytest.mark.parametrize("kind", OF_MATRICES)
def test_the_order_of_the_pairs_does_not_matter(kind: str) -> None:
    scores, teacher, ids = matrix(), matrix(1), torch.tensor([0, 1, 1, 2, 3])
    order, loss = torch.tensor([3, 0, 4, 1, 2]), of_matrix(kind)
    shuffled = loss(scores[order][:, order], ids[order], teacher[order][:, order])
    torch.testing.assert_close(shuffled, loss(scores, ids, teacher))


def test_images_and_sentences_can_be_swapped_if_their_weights_are_equal() -> None:
    x, y = (functional.normalize(matrix(seed), dim=1) for seed in (0, 1))
    ids, loss = torch.arange(N), loss_of("triplet")
    torch.testing.assert_close(loss(x, y, ids), loss(y, x, ids))
    uneven = TripletLoss(lambda2=0)
    assert uneven(x, y, ids) != uneven(y, x, ids)


@pytest.mark.parametrize("kind", [*OF_SCORES, "triplet"])
def test_your_own_matcher_trains_with_every_loss_of_embeddings(kind: str) -> None:
    matcher, loss = Own(), loss_of(kind)
    optimizer, drawn = torch.optim.SGD(matcher.parameters(), lr=0.05), batch([0, 1, 2, 3])
    values = []
    for _ in range(30):
        (value,) = loss.batch_losses(matcher, drawn)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        values.append(value.item())
    assert values[-1] < values[0]


@pytest.mark.parametrize("kind", OF_MATRICES)
def test_wrong_scores_are_named(kind: str) -> None:
    loss, ids = of_matrix(kind), torch.arange(N)
    with pytest.raises(SeesayError, match=r"image_ids: expected the row .* 0 to 3, because 4 images and 5"):
        loss(matrix()[:4], ids, matrix()[:4])
    with pytest.raises(SeesayError, match=r"scores: expected shape \(n, m\) of images.* got \(5,\)"):
        loss(matrix()[0], ids, matrix())
    for wrong, got in ((ids[:3], r"\(3,\)"), (ids / 2, r"\(5,\) of torch.float32"), (["a"] * 5, "list")):
        with pytest.raises(SeesayError, match=rf"image_ids: expected shape \(5,\) .* got {got}"):
            loss(matrix(), wrong, matrix())


@pytest.mark.parametrize("kind", OF_MATRICES)
def test_ids_may_be_a_list_or_an_array(kind: str) -> None:
    loss, ids = of_matrix(kind), [0, 1, 1, 2, 3]
    values = []
    for each in (torch.tensor(ids), ids, np.array(ids)):
        torch.manual_seed(0)
        values.append(loss(matrix(), each, matrix()).item())
    assert values[0] == values[1] == values[2]


@pytest.mark.parametrize("kind", OF_MATRICES)
def test_images_with_several_sentences_each_are_the_pairs_of_all_sentences(kind: str) -> None:
    loss, owners = of_matrix(kind), torch.tensor([0, 0, 1, 2, 2])
    few, teacher = matrix()[:3], matrix().flip(0)[:3]
    torch.manual_seed(0)
    found = loss(few, owners, teacher)
    torch.manual_seed(0)
    assert found.item() == loss(few[owners], owners, teacher[owners]).item()


@pytest.mark.parametrize("kind", OF_MATRICES)
def test_shared_sentences_of_other_images_count_as_those_of_one_image(kind: str) -> None:
    loss, teacher = loss_of(kind), [matrix().flip(0)] if kind == "distillation" else []
    ids, same = torch.arange(N), torch.tensor([0, 1, 1, 2, 0])
    torch.manual_seed(0)
    merged = loss(matrix(), same, *teacher)
    torch.manual_seed(0)
    found = loss(matrix(), ids, *teacher, shared=same[:, None] == same)
    assert found.item() == merged.item()
    few, owners = matrix()[:3], torch.tensor([0, 0, 1, 2, 2])
    shared = torch.zeros(3, N, dtype=torch.bool)
    torch.manual_seed(0)
    plain = loss(few, owners, *(each[:3] for each in teacher))
    torch.manual_seed(0)
    assert loss(few, owners, *(each[:3] for each in teacher), shared=shared).item() == plain.item()
    with pytest.raises(SeesayError, match=r"shared: expected shape \(5, 5\), got \(3, 5\)"):
        loss(matrix(), ids, *teacher, shared=shared)


@pytest.mark.parametrize("kind", OF_MATRICES)
def test_an_image_that_carries_the_text_of_a_sentence_is_not_its_negative(kind: str) -> None:
    scores = matrix().requires_grad_()
    shared = torch.zeros(N, N, dtype=torch.bool)
    shared[0, 1] = True  # image 0 carries sentence 1, but image 1 does not carry sentence 0
    teacher = [matrix().flip(0)] if kind == "distillation" else []
    loss = LOSSES.parse({"kind": kind, **CASES[kind], **({"margin": 9.0} if "margin" in kind else {})})
    if kind == "soft-margin":
        loss = loss.model_copy(update={"top_k": N})
    loss.build()(scores, torch.arange(N), *teacher, shared=shared).backward()
    assert scores.grad[0, 1] == 0
    assert (scores.grad[~shared] != 0).all()


@pytest.mark.parametrize("kind", [*OF_SCORES, *OF_PAIRS, "triplet"])
def test_a_batch_knows_which_sentences_are_shared(kind: str) -> None:
    matcher, given = matcher_for(kind), batch([0, 1, 2, 3, 4])
    groups = torch.tensor([0, 1, 1, 2, 0])
    values = []
    for ids, shared in (
        (groups, None),
        (given.image_ids, groups[:, None] == groups),
        (given.image_ids, None),
    ):
        torch.manual_seed(0)
        known = replace(given, image_ids=ids, shared=shared)
        values.append(loss_of(kind).batch_losses(matcher, known)[0].item())
    assert (values[0] == values[1]) == (kind != "triplet")  # which embeds each image of the batch once
    assert values[1] != values[2]


@pytest.mark.parametrize("kind", OF_MATRICES)
def test_without_reduction_there_is_a_loss_for_each_pair(kind: str) -> None:
    loss, ids = loss_of(kind), torch.tensor([0, 1, 1, 2, 3])
    more = [matrix().flip(0)] if kind == "distillation" else []
    torch.manual_seed(0)
    mean = loss(matrix(), ids, *more)
    loss.reduction = "none"
    torch.manual_seed(0)
    each = loss(matrix(), ids, *more)
    assert each.shape == (N,)
    assert each.mean().item() == pytest.approx(mean.item(), rel=1e-5)


class Matching(ScoreLoss):
    """A loss of somebody's own that knows nothing of shared sentences."""

    def forward(self, scores: Tensor, image_ids: Tensor) -> Tensor:
        return -scores.diagonal().mean()


def test_your_own_loss_need_not_know_shared_sentences() -> None:
    shared = replace(batch([0, 1, 2]), shared=torch.eye(3, dtype=torch.bool))
    (value,) = Matching().batch_losses(Own(), shared)
    assert value.isfinite()


def test_a_recipe_cannot_learn_from_a_loss_of_each_pair() -> None:
    with pytest.raises(SeesayError, match="'none' is no single number to learn from"):
        LOSSES.parse({"kind": "margin", "reduction": "none"})


def test_a_scale_can_be_learned_as_in_open_clip() -> None:
    scale = torch.nn.Parameter(torch.tensor(2.0))
    ContrastiveLoss(scale=1.0)(scale.exp() * matrix(), torch.arange(N)).backward()
    assert scale.grad is not None
    same = ContrastiveLoss(scale=3.0)(matrix(), torch.arange(N))
    assert ContrastiveLoss(scale=1.0)(3.0 * matrix(), torch.arange(N)).item() == same.item()


def test_triplets_of_images_with_several_sentences_need_no_repeated_images() -> None:
    generator = torch.Generator().manual_seed(0)
    images = torch.nn.functional.normalize(torch.randn(4, 6, generator=generator), dim=1)
    sentences = torch.nn.functional.normalize(torch.randn(9, 6, generator=generator), dim=1)
    owners = [0, 0, 0, 1, 1, 2, 3, 3, 3]
    loss = TripletLoss(margin=0.5, lambda3=0.1, lambda4=0.2)
    assert loss(images, sentences, owners).item() == loss(images[owners], sentences, owners).item()
    with pytest.raises(SeesayError, match="expected the row of each sentence's image, 0 to 3"):
        loss(images, sentences, [number + 100 for number in owners])


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        ("distillation", (torch.eye(3), torch.arange(3), torch.eye(2)), r"teacher_scores: .* got \(2, 2\)"),
        ("logistic", (torch.zeros(3), torch.ones(2)), r"labels: expected shape \(3,\), got \(2,\)"),
        ("multi-label", (torch.zeros(3, 2), torch.ones(2, 3)), r"targets: .*\(3, 2\), got \(2, 3\)"),
        ("triplet", (torch.eye(3), torch.eye(4), torch.arange(3)), "image_embeddings and"),
        ("triplet", (torch.eye(3), torch.eye(3), torch.arange(4)), r"image_ids: .* got \(4,\)"),
        ("triplet", (torch.eye(3), torch.eye(3)), "either image_ids or relations"),
        (
            "triplet",
            (torch.eye(3), torch.eye(3), torch.arange(3), RELATIONS),
            "either image_ids or relations",
        ),
        ("triplet", (np.eye(3), torch.eye(3)), "image_embeddings: expected a torch.Tensor, got ndarray"),
        ("margin", (np.eye(3), torch.arange(3)), "scores: expected a torch.Tensor, got ndarray"),
        ("logistic", (torch.zeros(2), torch.tensor([1.0, 0.0])), r"labels: expected \+1 and -1"),
        (
            "multi-label",
            (torch.zeros(1, 2), torch.tensor([[0.0, 2.0]])),
            r"targets: expected numbers in 0\.\.1",
        ),
    ],
)
def test_wrong_arguments_are_named(kind: str, arguments: tuple[Tensor, ...], message: str) -> None:
    with pytest.raises(SeesayError, match=message):
        loss_of(kind)(*arguments)


def test_a_batch_without_what_the_loss_learns_from_is_refused() -> None:
    drawn = batch([0, 1])
    bare = Batch(drawn.images, drawn.sentences, drawn.image_ids)
    with pytest.raises(SeesayError, match="give the batch targets"):
        loss_of("multi-label").batch_losses(matcher_for("multi-label"), bare)


def test_a_distillation_without_a_teacher_is_refused() -> None:
    with pytest.raises(SeesayError, match=r"loss\.teacher: name the run"):
        DistillationLoss().begin(SimpleNamespace())
    with pytest.raises(SeesayError, match="has no teacher yet"):
        DistillationLoss().batch_losses(matcher_for("distillation"), batch([0, 1]))


def test_a_loss_accepts_words_and_vectors() -> None:
    matcher = VSEPlusPlus(IMAGE, WORDS, dim=8, word_dim=5)
    ids = torch.randint(WORDS, (N, 4))
    drawn = Batch(torch.rand(N, IMAGE), (ids, torch.tensor([4, 1, 2, 3, 4])), torch.arange(N))
    (value,) = loss_of("soft-margin").batch_losses(matcher, drawn)
    value.backward()
    assert matcher.embedding.weight.grad is not None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SoftMarginLoss(top_k=0), "top_k: input should be greater than 0, got 0"),
        (
            lambda: SoftMarginLoss(reduction="max"),
            "reduction: input should be 'mean', 'sum' or 'none', got 'max'",
        ),
        (lambda: MarginLoss(-1), "margin: input should be greater than 0, got -1"),
        (lambda: MarginLoss(math.nan), "margin: .* finite number, got nan"),
        (lambda: ContrastiveLoss(math.inf), "scale: .* got inf"),
        (lambda: PairMarginLoss(mean_over="x"), "mean_over: input should be 'pairs' or 'active', got 'x'"),
        (lambda: TripletLoss(lambda2=-1), "lambda2: input should be greater than or equal to 0, got -1"),
        (lambda: CorrelationLoss(()), "ridges: tuple should have at least 1 item"),
    ],
)
def test_wrong_scalars_are_named(make: Callable[[], Loss], message: str) -> None:
    with pytest.raises(SeesayError, match=message):
        make()


@pytest.mark.parametrize(
    ("loss", "shape", "others"),
    [
        (MarginLoss(), (0, 0), (NO_IDS,)),
        (SoftMarginLoss(), (0, 0), (NO_IDS,)),
        (ContrastiveLoss(), (0, 0), (NO_IDS,)),
        (DistillationLoss(), (0, 0), (NO_IDS, torch.zeros(0, 0))),
        (PairMarginLoss(), (0, 0), (NO_IDS,)),
        (LogisticLoss(), (0,), (torch.zeros(0),)),
        (MultiLabelLoss(), (0, 3), (torch.zeros(0, 3),)),
        (TripletLoss(), (0, 3), (torch.zeros(0, 3), NO_IDS)),
    ],
)
def test_an_empty_batch_costs_nothing(loss: Loss, shape: tuple[int, ...], others: tuple[Tensor, ...]) -> None:
    empty = torch.zeros(shape, requires_grad=True)
    value = loss(empty, *others)
    value.backward()
    assert value.item() == 0
    assert empty.grad is not None


def test_a_loss_prints_its_scalars() -> None:
    assert repr(SoftMarginLoss(0.2, 1)) == (
        "SoftMarginLoss(margin=0.2, top_k=1, reduction='mean', slack='query')"
    )
    lambdas = "lambda1=1.0, lambda2=1.5, lambda3=0.0, lambda4=0.0"
    assert repr(TripletLoss()) == f"TripletLoss(margin=0.05, top_k=10, {lambdas}, reduction='mean')"
