"""Nouns as queries, against a plain loop, and what training learns of them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from seesay.data.corpus import Corpus, CorpusImage, Sentence
from seesay.errors import SeesayError
from seesay.losses.base import Batch
from seesay.matchers.base import EmbeddingMatcher
from seesay.matchers.sentences import Sentences
from seesay.recipes.load import load_recipe
from seesay.runs.inputs import Inputs, split_inputs
from seesay.runs.prepare import number_words
from seesay.text.vocabulary import Vocabulary
from seesay.training.train import train
from seesay_weights.nouns import NounQueries
from seesay_weights.other_corpus import loss_of_names

WORDS = ("a", "the", "on", "dog", "dogs", "lake", "lakes", "tree", "trees")


class Numbers(EmbeddingMatcher):
    """An image is its feature and one; a sentence its first and its second word."""

    def embed_images(self, images: Tensor) -> Tensor:
        return torch.cat([images, torch.ones_like(images)], dim=1)

    def embed_sentences(self, sentences: Sentences) -> Tensor:
        parts = torch.split(sentences.words.float(), sentences.lengths.tolist())
        return torch.stack([torch.stack([part[0], part[-1]]) / 10 for part in parts])


def queries(count: int) -> tuple[NounQueries, Inputs, Vocabulary]:
    """Twelve images; six show a dog, five a lake as well, and one a tree, which is too few."""
    texts = ["A dog on the lake"] * 5 + ["The dog", "a tree"] + ["on the lake"] * 5
    images = tuple(CorpusImage(f"{i}.jpg", "train") for i in range(12))
    corpus = Corpus("drawn", Path("there"), images, tuple(Sentence(t, i) for i, t in enumerate(texts)))
    vocabulary = Vocabulary(WORDS)
    features = np.arange(12, dtype=np.float32)[:, None] / 12
    inputs = Inputs(corpus, features, number_words(texts, vocabulary), np.arange(12), [], (1,))
    asked = NounQueries(count, weight=1.0)
    asked.learn(inputs, vocabulary, None)
    return asked, inputs, vocabulary


def batch(inputs: Inputs, rows: np.ndarray) -> Batch:
    return Batch(torch.from_numpy(inputs.features[rows]).float(), None, torch.from_numpy(rows))


def test_nouns_that_several_images_share_are_asked_for() -> None:
    assert queries(9)[0].nouns == ["dog", "lake"]


def test_the_loss_is_that_of_a_loop() -> None:
    asked, inputs, vocabulary = queries(2)
    rows = np.array([0, 5, 6, 11])
    [found] = asked.batch_losses(Numbers(), batch(inputs, rows))

    def loss(forms: dict[str, str]) -> float:
        total = 0.0
        for row in rows:
            shown = {"dog": row < 6, "lake": row < 5 or row > 6}
            for noun, form in forms.items():
                words = vocabulary.encode(form)
                score = (words[0] * float(inputs.features[row, 0]) + words[-1]) / 10
                log_odds = 12.5 * (score - 0.5)
                total += math.log1p(math.exp(-log_odds if shown[noun] else log_odds))
        return total / len(rows)

    all_forms = [{"dog": d, "lake": k} for d in ("dog", "a dog", "dogs") for k in ("lake", "a lake", "lakes")]
    assert min(abs(float(found) - loss(forms)) for forms in all_forms) < 1e-5


def test_the_draw_depends_on_seed_and_epoch_alone() -> None:
    asked, inputs, _ = queries(1)
    given = batch(inputs, np.arange(12))

    def losses(seed: int, epoch: int) -> list[float]:
        asked.begin_epoch(seed, epoch)
        return [float(asked.batch_losses(Numbers(), given)[0]) for _ in range(8)]

    assert losses(1, 2) == losses(1, 2)
    assert losses(1, 2) != losses(1, 3)


def test_images_of_one_name_are_right_for_it() -> None:
    vocabulary = queries(2)[2]
    sentences = number_words(["dog", "lake", "dog"], vocabulary).to_tensors()
    images = torch.tensor([[0.1], [0.2], [0.3]])
    found = float(loss_of_names(Numbers(), Batch(images, sentences, torch.tensor([4, 7, 4]))))
    log_odds = 12.5 * (Numbers()(images, sentences) - 0.5)
    signs = torch.tensor([[1.0, -1, 1], [-1, 1, -1], [1, -1, 1]])
    assert found == pytest.approx(float(torch.log1p(torch.exp(-signs * log_odds)).sum()) / 3, rel=1e-5)
    described = Batch(images, sentences, torch.tensor([4, 7, 5]))
    assert float(loss_of_names(Numbers(), described)) == 0


def test_training_asks_for_nouns(corpus: Corpus, tmp_path: Path) -> None:
    matcher = "matcher={kind: projection, dim: 24, hidden: 32, word_dim: 16, members: 1, class_names: 0}"
    inputs = ("encoders=[efficientnet-lite0]", "arrays=[pooled]", "min_count=1")
    changes = [*inputs, "sentence_encoder=null", "batch_size=40", "schedule.epochs=3", matcher]
    data, losses = corpus.split("train"), []
    for number, further in enumerate(("[]", "[{kind: nouns, count: 20, weight: 3.0}]")):
        recipe = load_recipe("projection", changes=[*changes, f"losses={further}"])
        run = train(recipe, corpus, tmp_path / str(number))
        inputs_ = split_inputs(recipe, data, "train", run.vocabulary)
        asked = NounQueries(count=20)
        asked.learn(inputs_, run.vocabulary, None)
        with torch.no_grad():
            [loss] = asked.batch_losses(run.matcher, batch(inputs_, np.arange(len(inputs_.features))))
        losses.append(float(loss))
    assert losses[1] < 0.9 * losses[0]


def test_a_pair_matcher_learns_none() -> None:
    with pytest.raises(SeesayError, match="key 'losses': nouns needs a matcher with embed_images"):
        load_recipe("mcnn-st", changes=["losses=[{kind: nouns}]"])
