"""DVSA against plain loops over words and regions, and what padding must not change."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from seesay.encoders.sentences.word_vectors import word_vectors
from seesay.errors import SeesayError
from seesay.matchers.baselines.dvsa import DVSA
from seesay.matchers.sentences import Sentences
from seesay.runs.all_pairs import score_all_pairs
from seesay.text.vocabulary import Vocabulary
from seesay.training.words import PretrainedVectors

COUNT, F, DIM, HIDDEN, MAX_LENGTH, WORDS = 5, 7, 6, 4, 8, 20


def matcher(seed: int = 0) -> DVSA:
    torch.manual_seed(seed)
    built = DVSA(COUNT * F, WORDS, instances=COUNT, dim=DIM, hidden=HIDDEN, max_length=MAX_LENGTH).eval()
    for weights in built.parameters():  # from chance biases are zero: then a loop without them would do
        torch.nn.init.normal_(weights, std=0.5)
    return built


def probabilities(seed: int, images: int = 3, there: int = COUNT) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    rows = torch.zeros(images, COUNT, F)
    rows[:, :there] = torch.rand(images, there, F, generator=generator).softmax(dim=2)
    return rows.reshape(images, -1)


def numbered(lengths: list[int], seed: int = 0) -> Sentences:
    drawn = torch.randint(0, WORDS, (sum(lengths),), generator=torch.Generator().manual_seed(seed))
    return Sentences(drawn, torch.tensor(lengths), torch.zeros(len(lengths), 0))


def words_by_a_loop(built: DVSA, words: list[int]) -> list[np.ndarray]:
    """Eq. 2-6 as printed: h_t of each word."""
    w = {key: value.double().numpy() for key, value in built.reader.state_dict().items()}

    def affine(name: str, x: np.ndarray) -> np.ndarray:
        return w[f"{name}.weight"] @ x + w[f"{name}.bias"]

    e = [np.maximum(affine("word_map", w["embedding.weight"][word]), 0) for word in words]
    ahead, back = np.zeros((2, len(words) + 2, HIDDEN))
    for t in range(1, len(words) + 1):
        ahead[t] = np.maximum(e[t - 1] + affine("ahead", ahead[t - 1]), 0)
    for t in range(len(words), 0, -1):
        back[t] = np.maximum(e[t - 1] + affine("back", back[t + 1]), 0)
    return [np.maximum(affine("output", ahead[t] + back[t]), 0) for t in range(1, len(words) + 1)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("there", [1, 3, COUNT])
def test_eq_1_to_8_against_a_loop(seed: int, there: int) -> None:
    built, lengths = matcher(seed), [3, 1, MAX_LENGTH, 2]
    images, sentences = probabilities(seed, there=there), numbered(lengths, seed)
    scores = built(images, sentences).detach()
    w = {key: value.double().numpy() for key, value in built.image_map.state_dict().items()}
    texts = [words.tolist() for words in sentences.words.split(lengths)]
    for i, image in enumerate(images.double().numpy().reshape(-1, COUNT, F)):
        regions = [w["weight"] @ np.sqrt(a) + w["bias"] for a in image[:there]]
        for j, words in enumerate(texts):
            expected = sum(max(float(v @ h) for v in regions) for h in words_by_a_loop(built, words))
            assert float(scores[i, j]) == pytest.approx(expected, abs=1e-3, rel=1e-4)


@settings(max_examples=15)
@given(seed=st.integers(0, 10_000), there=st.integers(1, COUNT), more=st.sampled_from([0, 40]))
def test_neither_order_nor_the_other_sentences_change_a_score(seed: int, there: int, more: int) -> None:
    """Of few sentences, and of so many that their words meet the regions in blocks."""
    lengths = [2, 5, 1, *[MAX_LENGTH] * more]
    built, images, sentences = matcher(), probabilities(seed, there=there), numbered(lengths, seed)
    with torch.inference_mode():
        whole = built(images, sentences)
        shuffled = images.reshape(-1, COUNT, F)[:, torch.randperm(COUNT)].reshape(len(images), -1)
        torch.testing.assert_close(built(shuffled, sentences), whole, atol=1e-4, rtol=1e-4)
        alone = [built(images, sentences.take(torch.tensor([j]))) for j in range(3)]
        torch.testing.assert_close(torch.cat(alone, dim=1), whole[:, :3], atol=1e-4, rtol=1e-4)


def test_pairs_side_by_side_and_all_pairs_in_blocks_agree() -> None:
    built = matcher()
    images, sentences = built.encode_images(probabilities(1)), built.encode_sentences(numbered([3, 4, 1, 6]))
    assert sentences.shape == (4, MAX_LENGTH, DIM)
    whole = built.score_encoded(images, sentences)
    torch.testing.assert_close(built.score_pairs(images, sentences[:3]), whole.diagonal())
    torch.testing.assert_close(score_all_pairs(built, images, sentences, block=4), whole.detach())


def test_a_sentence_is_cut_after_the_longest() -> None:
    built, long = matcher(), numbered([MAX_LENGTH + 3])
    short = Sentences(long.words[:MAX_LENGTH], torch.tensor([MAX_LENGTH]), long.vectors)
    torch.testing.assert_close(built.encode_sentences(long), built.encode_sentences(short))


def test_word_vectors_are_gloves_and_stay() -> None:
    words = ["dog", "grass", "xqzzy"]
    built = DVSA(COUNT * F, len(words) + 1, instances=COUNT, dim=DIM, hidden=HIDDEN)
    built.prepare(PretrainedVectors(Vocabulary(words)))
    table = built.reader.embedding.weight
    torch.testing.assert_close(table[1:], torch.from_numpy(word_vectors(words)[0]))
    assert table.any(dim=1).tolist() == [False, True, True, False]
    built(
        probabilities(1), Sentences(torch.tensor([1, 2]), torch.tensor([2]), torch.zeros(1, 0))
    ).sum().backward()
    assert table.grad is None
    assert built.reader.back.weight.grad is not None


def test_words_may_be_minilms() -> None:
    words = ["dog", "grass", "xqzzy"]
    built = DVSA(COUNT * F, len(words) + 1, COUNT, DIM, HIDDEN, word_vectors="minilm")
    built.prepare(PretrainedVectors(Vocabulary(words)))
    table = built.reader.embedding.weight
    assert table.shape == (4, 384)
    assert table.any(dim=1).tolist() == [False, True, True, True]
    torch.testing.assert_close(table[1:].mean(dim=0), torch.zeros(384), atol=1e-5, rtol=0)
    assert float(table[1:].std()) == pytest.approx(0.7, abs=1e-4)
    with pytest.raises(SeesayError, match="word_vectors: 'glow' is none of glove, minilm"):
        DVSA(COUNT * F, WORDS, COUNT, DIM, HIDDEN, word_vectors="glow")


def test_words_may_be_those_of_a_file(tmp_path: Path) -> None:
    path, words = tmp_path / "vectors.txt", Vocabulary(["dog", "grass", "xqzzy"])
    path.write_text("2 3\ngrass 1 2 3\ndog 4 5 6\n")
    built = DVSA(COUNT * F, len(words), COUNT, DIM, HIDDEN, word_vectors=str(path), word_dim=3)
    built.prepare(PretrainedVectors(words))
    expected = torch.tensor([[0, 0, 0], [4, 5, 6], [1, 2, 3], [0, 0, 0]], dtype=torch.float32)
    torch.testing.assert_close(built.reader.embedding.weight.detach(), expected)


def test_scores_have_the_gradient_of_finite_differences() -> None:
    built = matcher().double()
    words = built.encode_sentences(numbered([2, 3])).detach().requires_grad_()
    regions = built.encode_images(probabilities(2, images=2)).detach().requires_grad_()
    score = torch.stack(
        [torch.bmm(words[j : j + 1].expand(2, -1, -1), regions.mT).amax(2).sum(1) for j in (0, 1)]
    )
    weights = torch.rand(2, 2)
    expected = torch.autograd.grad((score.T * weights).sum(), regions)
    got = torch.autograd.grad((built.score_encoded(regions, words) * weights).sum(), regions)
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)


def test_features_that_are_not_so_many_instances_are_refused() -> None:
    with pytest.raises(SeesayError, match="36 numbers are not 5 instances"):
        DVSA(36, WORDS, instances=COUNT)
