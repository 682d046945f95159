"""Words that start from pretrained vectors, by a recipe's key, and words that training reads as unknown."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from seesay.data.corpus import Corpus
from seesay.encoders.sentences.base import load_sentence_encoder
from seesay.errors import SeesayError
from seesay.matchers import Sentences
from seesay.recipes.load import load_recipe
from seesay.text.vocabulary import Vocabulary
from seesay.training.train import train
from seesay.training.words import PretrainedVectors

SMALL = ("encoders=[efficientnet-lite0]", "matcher.dim=24", "schedule.epochs=1", "optimizer.lr=1e-9")


@pytest.mark.parametrize("recipe", ["irmatch-s", "vse++"])
def test_words_start_from_a_sentence_encoder(recipe: str, corpus: Corpus, tmp_path: Path) -> None:
    changes = [*SMALL, "matcher.word_dim=16", "words={vectors: minilm-int8, std: 0.2}"]
    run = train(load_recipe(recipe, changes=changes), corpus, tmp_path / "run")
    weights = run.matcher.state_dict()
    [name] = [name for name in weights if name.endswith("embedding.weight")]
    found = weights[name].numpy()
    vectors = load_sentence_encoder("minilm-int8").encode(run.vocabulary.words)
    _, _, axes = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)
    expected = (vectors - vectors.mean(axis=0)) @ axes[:16].T
    assert found[1:].std() == pytest.approx(0.2, rel=0.02)
    scale = 0.2 / expected.std()
    assert np.allclose(found[1:] @ found[1:].T, scale**2 * expected @ expected.T, atol=2e-3)
    assert np.abs(found[0]).max() < 1e-6


def test_words_start_from_a_text_file(corpus: Corpus, tmp_path: Path) -> None:
    (tmp_path / "vectors.vec").write_text("2 3\na 1 2 3\ncircle 4 5 7\n")
    changes = [*SMALL, "matcher.word_dim=3", f"words={{vectors: {tmp_path}/vectors.vec, std: 0.2}}"]
    run = train(load_recipe("vse++", changes=changes), corpus, tmp_path / "run")
    [words] = [w for name, w in run.matcher.state_dict().items() if name.endswith("embedding.weight")]
    a, circle = (words[run.vocabulary.encode(word)[0]] for word in ("a", "circle"))
    assert torch.allclose(a, -circle, atol=1e-5)  # centred
    assert a.abs().max().item() == pytest.approx(0.2 * 2.5**0.5, rel=1e-3)  # alone on the first of three axes


def test_a_text_file_with_none_of_the_words_is_named(tmp_path: Path) -> None:
    (tmp_path / "vectors.txt").write_text("xqzzt 1 2\n")
    with pytest.raises(SeesayError, match="contains none of the 2 words"):
        PretrainedVectors(Vocabulary(["dog", "cat"])).word_vectors(str(tmp_path / "vectors.txt"))


def test_a_matcher_without_words_cannot_start_from_them(corpus: Corpus, tmp_path: Path) -> None:
    recipe = load_recipe("two-branch", changes=[SMALL[0], "sentence_encoder=mean", "words={vectors: glove}"])
    with pytest.raises(SeesayError, match="no word embedding"):
        train(recipe, corpus, tmp_path / "run")


def test_a_share_of_the_words_is_unknown() -> None:
    words = torch.arange(1, 2001)
    sentences = Sentences(words, torch.full((200,), 10), torch.zeros(200, 0))
    torch.manual_seed(0)
    dropped = sentences.with_unknown(0.3)
    unknown = dropped.words == 0
    assert unknown.float().mean().item() == pytest.approx(0.3, abs=0.04)
    assert torch.equal(dropped.words[~unknown], words[~unknown])
    assert sentences.with_unknown(0.0) is sentences


def test_training_drops_words(corpus: Corpus, tmp_path: Path) -> None:
    changes = ["encoders=[efficientnet-lite0]", "matcher.dim=24", "matcher.word_dim=8", "schedule.epochs=1"]
    plain = train(load_recipe("irmatch-s", changes=changes), corpus, tmp_path / "plain")
    recipe = load_recipe("irmatch-s", changes=[*changes, "word_dropout=0.3"])
    dropped = train(recipe, corpus, tmp_path / "dropped")
    name = "sentence_cnn.embedding.weight"
    ours, theirs = (run.matcher.state_dict()[name] for run in (dropped, plain))
    assert not torch.equal(ours[0], theirs[0])  # a vector of the unknown word is learned
