"""The gates of metric fusion: labels against a loop, what a gate learns, and its scale."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seesay.data.corpus import Corpus, CorpusImage, Sentence
from seesay.errors import SeesayError
from seesay.matchers.gvse import Gate, GateSettings
from seesay.recipes.load import load_recipe
from seesay.runs.inputs import Inputs
from seesay.runs.prepare import number_words
from seesay.runs.summary import GateSummary
from seesay.text.vocabulary import Vocabulary
from seesay.training.gates import (
    SCALES,
    SHIFTS,
    Queries,
    balanced_loss,
    fold_labels,
    labels_by,
    rescale,
    train_gate,
)

RECIPE = load_recipe("gvse-gated", changes=["schedule.epochs=20", "batch_size=32"])


def split(texts: list[str], owners: list[int], images: int) -> Inputs:
    """A split of sentences whose images are nothing."""
    corpus = Corpus(
        "drawn",
        Path(),
        tuple(CorpusImage(f"{i}.jpg", "train") for i in range(images)),
        tuple(Sentence(text, owner) for text, owner in zip(texts, owners, strict=True)),
    )
    sentences = number_words(texts, Vocabulary([]))
    return Inputs(corpus, torch.zeros(images, 1), sentences, np.array(owners), [], (1,))


@given(st.integers(0, 3), st.integers(2, 4), st.integers(0, 9))
@settings(max_examples=30)
def test_a_label_never_sees_its_own_fold(uncommon: int, folds: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    owners = [*range(12), *draw.integers(0, 12, 12).tolist()]
    texts = [" ".join(draw.choice(list("abcdefgh"), 3)) for _ in owners]
    inputs = split(texts, owners, 12)
    of_images, of_sentences = fold_labels(inputs, GateSettings(uncommon=uncommon, folds=folds), seed)
    fold = np.random.default_rng(seed).permutation(12) % folds
    for number, (text, owner) in enumerate(zip(texts, owners, strict=True)):
        others = [t for t, o in zip(texts, owners, strict=True) if fold[o] != fold[owner]]
        seen = Counter(" ".join(others).split())
        assert of_sentences[number] == any(seen[word] <= uncommon for word in text.split())
    for image in range(12):
        assert of_images[image] == any(of_sentences[i] for i, o in enumerate(owners) if o == image)


def test_val_is_labelled_by_the_train_split() -> None:
    images, sentences = labels_by(split(["a b", "a c", "?"], [0, 1, 1], 3), ["a a b b", "c"], uncommon=1)
    assert sentences.tolist() == [False, True, False]
    assert images.tolist() == [False, True, False]


def test_both_labels_weigh_the_same_in_the_loss() -> None:
    labels = torch.tensor([True] + [False] * 9)
    logits = torch.randn(10, generator=torch.Generator().manual_seed(0))
    p = 1 / (1 + np.exp(-logits.numpy()))
    by_hand = (-np.log(p[0]) - np.log(1 - p[1:]).mean()) / 2
    assert float(balanced_loss(logits, labels, labels)) == pytest.approx(by_hand, rel=1e-5)


def unheard(epoch: int, metrics: Mapping[str, float]) -> None:
    """Nobody follows the epochs."""


def queries(count: int, seed: int, separable: bool) -> Queries:
    """Unit vectors; if `separable`, one of their numbers is greater in those of uncommon content."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.rand(count, generator=draw) < 0.2
    vectors = torch.randn(count, 24, generator=draw)
    if separable:
        vectors[:, 3] += 3.0 * labels
    return Queries(torch.nn.functional.normalize(vectors, dim=1), labels)


def test_a_gate_learns_to_separate_queries() -> None:
    gate = Gate([12, 12], 16)
    summary = train_gate(gate, queries(600, 1, True), queries(300, 2, True), RECIPE, "cpu", unheard)
    assert summary.epoch > 0
    assert summary.auc > 0.85
    test = queries(300, 3, True)
    with torch.inference_mode():
        t = torch.sigmoid(gate(test.vectors))
    assert t[test.labels].mean() > t[~test.labels].mean() + 0.2
    again = Gate([12, 12], 16)
    told: list[tuple[int, dict[str, float]]] = []
    of_again = queries(600, 1, True), queries(300, 2, True)
    tell = lambda epoch, metrics: told.append((epoch, dict(metrics)))  # noqa: E731
    assert train_gate(again, *of_again, RECIPE, "cpu", tell) == summary
    assert [epoch for epoch, _ in told] == list(range(1, RECIPE.schedule.epochs + 1))
    assert summary.loss == round(min(metrics["val loss"] for _, metrics in told), 4)
    assert torch.equal(again.hidden.weight, gate.hidden.weight)


def test_a_gate_with_nothing_to_learn_stays_near_the_sum() -> None:
    gate = Gate([12, 12], 16)
    summary = train_gate(gate, queries(200, 1, False), queries(4000, 2, False), RECIPE, "cpu", unheard)
    assert summary.loss <= np.log(2) + 1e-4
    with torch.inference_mode():
        t = torch.sigmoid(gate(queries(300, 3, False).vectors))
    assert (t - 0.5).abs().max() < 0.2


def test_a_loss_that_is_not_finite_is_an_error() -> None:
    broken = Queries(torch.full((8, 24), float("nan")), torch.tensor([True, False] * 4))
    with pytest.raises(SeesayError, match=r"lower optimizer\.lr"):
        train_gate(Gate([12, 12], 16), broken, broken, RECIPE, "cpu", unheard)


def recall_by_hand(scores: np.ndarray, owners: np.ndarray, side: str) -> float:
    """The mean of R@1, R@5 and R@10, query by query."""
    found = []
    for query in range(len(scores) if side == "image" else len(owners)):
        line = scores[query] if side == "image" else scores[:, query]
        right = owners == query if side == "image" else np.arange(len(scores)) == owners[query]
        if right.any():
            found.append((line[~right] >= line[right].max()).sum())
    return float(np.mean([100 * np.mean(np.array(found) < k) for k in (1, 5, 10)]))


@given(st.integers(0, 50), st.sampled_from(["image", "sentence"]))
@settings(max_examples=12)
def test_scale_and_shift_are_the_best_of_all_choices(seed: int, side: str) -> None:
    draw = np.random.default_rng(seed)
    owners = np.repeat(np.arange(12), 2)
    truth = (owners == np.arange(12)[:, None]).astype(np.float32)
    uncommon, common = (truth + draw.normal(0, 1, truth.shape).astype(np.float32) for _ in range(2))
    logits = draw.normal(0, 2, 12 if side == "image" else 24).astype(np.float32)
    best = 0.0
    for scale in SCALES:
        for shift in SHIFTS:
            t = 1 / (1 + np.exp(-(scale * logits + shift)))
            t = t[:, None] if side == "image" else t[None]
            best = max(best, recall_by_hand(t * uncommon + (1 - t) * common, owners, side))
    chosen = rescale(Gate([2, 2], 4), logits, (uncommon, common), owners, side)
    assert chosen["recall"] == pytest.approx(best, abs=1e-3)
    assert GateSummary(epoch=1, **chosen).model_dump(include=set(chosen)) == chosen  # a run records it


def test_a_rescaled_gate_gives_the_scaled_logit() -> None:
    torch.manual_seed(0)
    gate, vectors = Gate([3, 3], 8), torch.randn(40, 6)
    torch.nn.init.normal_(gate.score.weight)
    with torch.inference_mode():
        before = gate(vectors)
    owners = np.arange(40)
    draw = np.random.default_rng(1)
    good, bad = np.eye(40, dtype=np.float32), draw.normal(0, 1, (40, 40)).astype(np.float32)
    chosen = rescale(gate, before.numpy(), (good, bad), owners, "sentence")
    assert chosen["shift"] == max(SHIFTS)  # the uncommon metric is the better one for every query
    with torch.inference_mode():
        np.testing.assert_allclose(gate(vectors), chosen["scale"] * before + chosen["shift"], atol=1e-5)
