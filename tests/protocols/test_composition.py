"""Composition against a plain loop, and matchers of which it is known whether they see the order."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seesay.data.corpus import Corpus, CorpusImage, Sentence
from seesay.errors import SeesayError
from seesay.matchers.base import EmbeddingMatcher, PairMatcher
from seesay.matchers.sentences import Sentences
from seesay.metrics.bootstrap import intervals
from seesay.protocols.base import Options, rounded_metrics
from seesay.protocols.composition import Reordered, noun_swaps, shuffles
from seesay.protocols.composition import true_order as compared
from seesay.protocols.evaluate import evaluate, measure
from seesay.protocols.subject import RunSubject
from seesay.recipes.load import load_recipe
from seesay.runs.inputs import Inputs
from seesay.runs.run import Run
from seesay.runs.sentences import number_words
from seesay.text.tokens import tokenize
from seesay.text.vocabulary import Vocabulary
from tests.protocols.drawn import flat

TEXTS = [
    "A dog chases a ball .",
    "Two men stand near the red house",
    "dog",
    "ball ball, ball!",
    "Children play on the beach in the sun",
]
OWNERS = np.array([0, 0, 1, 1, 2])


class Bag(EmbeddingMatcher):
    """Sums of word vectors, which know no order; summed in the words' order, so rounding differs."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = torch.nn.Parameter(torch.randn(100, 8))

    def embed_images(self, images: torch.Tensor) -> torch.Tensor:
        return images

    def embed_sentences(self, sentences: Sentences) -> torch.Tensor:
        return torch.stack([sum(self.table[w], torch.zeros(8)) for w in split(sentences)])  # type: ignore[misc]


class InOrder(PairMatcher):
    """Scores every order by its share of neighbours that stand as in `TEXTS`, and by the image."""

    def __init__(self, true: Sentences) -> None:
        super().__init__()
        self.nothing = torch.nn.Parameter(torch.zeros(1))
        self.pairs = {pair for words in split(true) for pair in neighbours(words)}

    def encode_images(self, images: torch.Tensor) -> torch.Tensor:
        return images[:, :1] + self.nothing

    def encode_sentences(self, sentences: Sentences) -> torch.Tensor:
        shares = [[pair in self.pairs for pair in neighbours(words)] for words in split(sentences)]
        return torch.tensor([[sum(known) / max(len(known), 1)] for known in shares])

    def score_pairs(self, images: torch.Tensor, sentences: torch.Tensor) -> torch.Tensor:
        return (images + sentences)[:, 0]


def split(sentences: Sentences) -> list[torch.Tensor]:
    return list(torch.split(sentences.words, sentences.lengths.tolist()))


def neighbours(words: torch.Tensor) -> list[tuple[int, ...]]:
    numbers = [0, *words.tolist(), 0]
    return list(pairwise(numbers))


def measure_composition(run: Run, inputs: Inputs, split: str) -> dict[str, Any]:
    return flat(measure(RunSubject(run, inputs, split), "composition"))


def true_order(true, other, source, owners) -> dict[str, Any]:
    sample, more = compared(true, other, Reordered([], np.asarray(source), 0), owners)
    return rounded_metrics([sample]) | more


def run_of(matcher: EmbeddingMatcher | PairMatcher, vocabulary: Vocabulary) -> Run:
    return Run.from_matcher(Path(), load_recipe("vse++"), vocabulary, None, matcher)


def inputs_of(texts: list[str], owners: np.ndarray, vocabulary: Vocabulary) -> Inputs:
    images = tuple(CorpusImage(f"{i}.jpg", "test", None) for i in range(int(owners.max()) + 1))
    sentences = tuple(Sentence(text, int(i)) for text, i in zip(texts, owners, strict=True))
    corpus = Corpus("test", Path(), images, sentences)
    features = torch.randn(len(images), 8, generator=torch.Generator().manual_seed(1)).numpy()
    return Inputs(corpus, features, number_words(texts, vocabulary), owners, [], (8,))


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Vocabulary.from_texts(TEXTS, 1)


def test_a_matcher_that_knows_the_order_is_always_right(vocabulary: Vocabulary) -> None:
    inputs = inputs_of(TEXTS, OWNERS, vocabulary)
    measured = measure_composition(run_of(InOrder(inputs.sentences.to_tensors()), vocabulary), inputs, "test")
    assert (measured["protocol"], measured["images"], measured["sentences"]) == ("composition", 3, 5)
    true_order, ties, error = (
        measured[f"shuffle: {name}"] for name in ("true order %", "ties %", "standard error")
    )
    assert (true_order, ties, error) == (100, 0, 0)
    assert (measured["shuffle: pairs"], measured["shuffle: left out"]) == (9, 2)
    assert measured["shuffle: difference"] > 0
    assert (measured["swap: pairs"], measured["swap: left out"]) == (3, 2)


def test_more_sentences_than_are_scored_at_once(vocabulary: Vocabulary) -> None:
    times = 250  # 1,250 sentences of 750 images, in three blocks
    texts = TEXTS * times
    owners = (OWNERS[None, :] + 3 * np.arange(times)[:, None]).ravel()
    inputs = inputs_of(texts, owners, vocabulary)
    measured = measure_composition(run_of(InOrder(inputs.sentences.to_tensors()), vocabulary), inputs, "test")
    shuffled = [measured[f"shuffle: {name}"] for name in ("true order %", "pairs", "left out")]
    assert shuffled == [100, 9 * times, 2 * times]


def test_a_bag_of_words_ties_whatever_rounding_does(vocabulary: Vocabulary) -> None:
    inputs = inputs_of(TEXTS, OWNERS, vocabulary)
    measured = measure_composition(run_of(Bag(), vocabulary), inputs, "test")
    for kind in ("shuffle", "swap"):
        assert (measured[f"{kind}: true order %"], measured[f"{kind}: ties %"]) == (50, 100)
        assert abs(measured[f"{kind}: difference"]) < 1e-3


def test_the_same_seed_gives_the_same_orders(vocabulary: Vocabulary) -> None:
    assert shuffles(TEXTS, 3, 5).texts == shuffles(TEXTS, 3, 5).texts
    assert shuffles(TEXTS, 3, 5).texts != shuffles(TEXTS, 3, 6).texts
    alone = shuffles(TEXTS[:2], 3, 5).texts  # other sentences do not matter
    assert shuffles(TEXTS, 3, 5).texts[: len(alone)] == alone


def test_sentences_without_words_to_reorder_are_an_error(vocabulary: Vocabulary) -> None:
    inputs = inputs_of(["dog", "ball ball"], np.array([0, 1]), vocabulary)
    with pytest.raises(SeesayError, match="no sentence of split 'val' has two different words"):
        measure_composition(run_of(Bag(), vocabulary), inputs, "val")
    inputs = inputs_of(["two and three", "very big"], np.array([0, 1]), vocabulary)
    assert "swap: pairs" not in measure_composition(run_of(Bag(), vocabulary), inputs, "val")


@given(st.lists(st.lists(st.sampled_from("abcd"), max_size=5), max_size=5), st.integers(0, 99))
@settings(max_examples=60)
def test_shuffles_hold_the_same_words_in_another_order(words: list[list[str]], seed: int) -> None:
    texts = [" ".join(sentence) for sentence in words]
    found = shuffles(texts, 3, seed)
    assert found.left_out == sum(len(set(sentence)) < 2 for sentence in words)
    assert found.source.tolist() == [i for i, s in enumerate(words) if len(set(s)) > 1 for _ in range(3)]
    for text, source in zip(found.texts, found.source, strict=True):
        assert text != texts[source]
        assert Counter(text.split()) == Counter(words[source])


def test_all_orders_are_equally_likely() -> None:
    found = Counter(text for seed in range(200) for text in shuffles(["a b c"], 3, seed).texts)
    assert len(found) == 5
    assert all(90 <= count <= 150 for count in found.values())  # 120 expected


@pytest.mark.parametrize(
    ("text", "swapped"),
    [
        ("A dog chases the red ball.", {"a ball chases the red dog"}),
        ("a dog sees a dog", set()),
        ("Two men stand in the snow", {"two snow stand in the men"}),
        ("a t-shirt on a man's bed", {"a t bed on a man's shirt"}),
        ("the man's dog", set()),
        ("one of two", set()),
        ("running quickly", set()),
        ("", set()),
    ],
)
def test_nouns_are_exchanged(text: str, swapped: set[str]) -> None:
    found = noun_swaps([text], 0)
    assert set(found.texts) == swapped
    assert found.left_out == (not swapped)


def test_any_two_different_nouns_may_be_drawn() -> None:
    found = {noun_swaps(["a dog, a cat and a bird"], seed).texts[0] for seed in range(40)}
    assert found == {"a cat a dog and a bird", "a bird a cat and a dog", "a dog a bird and a cat"}


@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(1, 4))
@settings(max_examples=60)
def test_shares_are_those_of_a_loop(seed: int, images: int, times: int) -> None:
    rng = np.random.default_rng(seed)
    owners = np.sort(rng.integers(0, images, 12))
    true = rng.integers(0, 4, 12).astype(float)  # few values: ties abound
    source = np.repeat(np.arange(12), times)
    other = rng.integers(0, 4, len(source)) + 0.0
    found = true_order(true, other, source, owners)
    won = [1.0 if true[s] > o else 0.5 if true[s] == o else 0.0 for s, o in zip(source, other, strict=True)]
    assert found["true order %"] == pytest.approx(100 * np.mean(won), abs=6e-4)
    assert found["ties %"] == pytest.approx(100 * np.mean([w == 0.5 for w in won]), abs=6e-4)
    deviation = np.std(true)
    expected = np.mean([true[s] - o for s, o in zip(source, other, strict=True)]) / (deviation or 1)
    if deviation:
        assert found["difference"] == pytest.approx(expected, abs=6e-4)
    totals = [
        (sum(w - np.mean(won) for w, s in zip(won, source, strict=True) if owners[s] == i))
        for i in set(owners)
    ]
    if len(totals) > 1:
        error = np.sqrt(len(totals) * np.var(totals, ddof=1)) / len(won)
        assert found["standard error"] == pytest.approx(100 * error, abs=6e-4)
    else:
        assert found["standard error"] is None


def test_the_error_is_that_of_drawing_images_again() -> None:
    """Orders of one image are alike here, so the error of a coin would be too small."""
    rng = np.random.default_rng(0)
    owners = np.repeat(np.arange(200), 5)
    other = -(rng.normal(size=200)[owners] + 0.5 + 0.3 * rng.normal(size=1000))
    won = other < 0
    found = true_order(np.zeros(1000) + 1e-9 * rng.normal(size=1000), other, np.arange(1000), owners)
    by_image = won.reshape(200, 5).mean(axis=1)
    again = [by_image[rng.integers(0, 200, 200)].mean() for _ in range(2000)]
    assert found["standard error"] == pytest.approx(100 * np.std(again), rel=0.1)
    assert found["standard error"] > 1.7 * 100 * np.sqrt(won.mean() * (1 - won.mean()) / 1000)


def test_scores_must_be_finite() -> None:
    for bad in (np.nan, np.inf):
        with pytest.raises(SeesayError, match="not finite"):
            true_order([1.0, bad], [0.0], [0], [0, 1])
    assert true_order([1.0, 1.0], [1.0], [0], [0, 1]) == {
        "true order %": 50,
        "standard error": None,
        "ties %": 100,
        "difference": None,
        "pairs": 1,
        "left out": 0,
    }


def test_orders_consist_of_the_words_of_the_tokenizer() -> None:
    (text,) = shuffles(["A Dog's ball!"], 1, 0).texts
    assert sorted(text.split()) == sorted(tokenize("A Dog's ball!"))


def test_its_interval_is_about_two_standard_errors() -> None:
    rng = np.random.default_rng(0)
    owners = np.repeat(np.arange(200), 5)
    other = rng.normal(size=1000) - 0.3
    reordered = Reordered([], np.arange(1000), 0)
    sample, more = compared(1e-9 * rng.normal(size=1000), other, reordered, owners)
    found, ends = rounded_metrics([sample]), intervals([sample], resamples=1000)
    low, high = ends["true order %"]
    assert high - low == pytest.approx(2 * 1.96 * more["standard error"], rel=0.1)
    assert low < found["true order %"] < high
    low, high = ends["difference"]
    assert low < found["difference"] < high


def test_two_runs_are_compared_sentence_by_sentence(vocabulary: Vocabulary) -> None:
    inputs = inputs_of(TEXTS, OWNERS, vocabulary)
    subjects = [
        RunSubject(run_of(matcher, vocabulary), inputs, "test")
        for matcher in (InOrder(inputs.sentences.to_tensors()), Bag())
    ]
    ours, theirs = (measure(subject, "composition", Options()) for subject in subjects)
    compared = ours.compare(theirs)
    for kind in ("shuffle", "swap"):
        difference = compared.metrics[f"{kind}: true order %"]
        assert (difference.theirs, difference.difference) == (50, 50)
    assert list(ours.row)[:2] == ["shuffle: true order %", "swap: true order %"]


def test_a_run_is_needed(tmp_path: Path, vocabulary: Vocabulary) -> None:
    np.save(tmp_path / "scores.npy", np.zeros((3, 5)))
    with pytest.raises(SeesayError, match="'composition' needs one run, not scores"):
        evaluate(str(tmp_path / "scores.npy"), inputs_of(TEXTS, OWNERS, vocabulary).corpus, "composition")
