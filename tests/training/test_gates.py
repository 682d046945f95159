"""The gates of metric fusion: labels against a plain loop, and what a gate learns when there is something."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from seesay.data.corpus import Corpus, CorpusImage, Sentence
from seesay.errors import SeesayError
from seesay.matchers.gvse import Gate, GateSettings
from seesay.metrics import auc
from seesay.recipes.load import load_recipe
from seesay.runs.inputs import Inputs
from seesay.runs.sentences import number_words
from seesay.text.vocabulary import Vocabulary
from seesay.training.gate import Queries, balanced_loss, fold_labels, labels_by, train_gate

RECIPE = load_recipe("gvse-gated", changes=["schedule.epochs=20", "batch_size=32"])


def split(texts: list[str], owners: list[int], images: int) -> Inputs:
    """A split of sentences whose images are nothing."""
    corpus = Corpus(
        "drawn",
        Path(),
        tuple(CorpusImage(f"{i}.jpg", "train") for i in range(images)),
        tuple(Sentence(text, owner) for text, owner in zip(texts, owners, strict=True)),
    )
    return Inputs(corpus, torch.zeros(images, 1), number_words(texts, Vocabulary([])), np.array(owners), [])


@given(st.integers(0, 3), st.integers(2, 4), st.integers(0, 9))
@settings(max_examples=30, deadline=None)
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


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.booleans()), min_size=1))
def test_auc_is_scikit_learns(pairs: list[tuple[float, bool]]) -> None:
    values, labels = zip(*pairs, strict=True)
    if len(set(labels)) < 2:
        assert auc(values, labels) is None
    else:
        assert auc(values, labels) == pytest.approx(roc_auc_score(labels, values))


def test_both_labels_weigh_the_same_in_the_loss() -> None:
    labels = torch.tensor([True] + [False] * 9)
    logits = torch.randn(10, generator=torch.Generator().manual_seed(0))
    p = 1 / (1 + np.exp(-logits.numpy()))
    by_hand = (-np.log(p[0]) - np.log(1 - p[1:]).mean()) / 2
    assert float(balanced_loss(logits, labels, labels)) == pytest.approx(by_hand, rel=1e-5)


def queries(count: int, seed: int, told: bool) -> Queries:
    """Unit vectors; where `told`, one of their numbers is greater in those of uncommon content."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.rand(count, generator=draw) < 0.2
    vectors = torch.randn(count, 24, generator=draw)
    if told:
        vectors[:, 3] += 3.0 * labels
    return Queries(torch.nn.functional.normalize(vectors, dim=1), labels)


def test_a_gate_learns_what_its_queries_tell() -> None:
    gate = Gate([12, 12], 16)
    told = train_gate(gate, queries(600, 1, True), queries(300, 2, True), RECIPE, "cpu")
    assert told["epoch"] > 0
    assert told["AUC"] > 0.85
    test = queries(300, 3, True)
    with torch.inference_mode():
        t = torch.sigmoid(gate(test.vectors))
    assert t[test.labels].mean() > t[~test.labels].mean() + 0.2
    again = Gate([12, 12], 16)
    assert train_gate(again, queries(600, 1, True), queries(300, 2, True), RECIPE, "cpu") == told
    assert torch.equal(again.hidden.weight, gate.hidden.weight)


def test_a_gate_that_can_tell_nothing_stays_near_the_sum() -> None:
    gate = Gate([12, 12], 16)
    told = train_gate(gate, queries(200, 1, False), queries(4000, 2, False), RECIPE, "cpu")
    assert told["loss"] <= np.log(2) + 1e-4
    with torch.inference_mode():
        t = torch.sigmoid(gate(queries(300, 3, False).vectors))
    assert (t - 0.5).abs().max() < 0.2


def test_a_loss_that_is_not_finite_is_told() -> None:
    broken = Queries(torch.full((8, 24), float("nan")), torch.tensor([True, False] * 4))
    with pytest.raises(SeesayError, match=r"lower optimizer\.lr"):
        train_gate(Gate([12, 12], 16), broken, broken, RECIPE, "cpu")
