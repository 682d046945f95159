"""m-CNN against Table 1 and its equations, written as loops over padded windows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import ValidationError
from torch.nn import functional

from seesay.encoders.sentences.word_vectors import word_vectors
from seesay.errors import SeesayError
from seesay.matchers.mcnn import LEVELS, MatchingCNN
from seesay.matchers.sentences import Sentences
from seesay.matchers.settings import MATCHERS
from seesay.runs.onnx_backend import score_all_pairs
from seesay.runs.torch_backend import TorchBackend
from seesay.text.vocabulary import Vocabulary
from seesay.training.words import PretrainedVectors
from tests.matchers.taken import taken

Array = NDArray[np.float64]
IMAGE, WORDS = 7, 40


def network(level: str, **changes: object) -> MatchingCNN:
    torch.manual_seed(LEVELS.index(level))
    small = {"level": level, "image": 6, "maps": (4, 5, 8), "hidden": 9, **changes}
    model = MatchingCNN(IMAGE, WORDS, **small)  # type: ignore[arg-type]
    with torch.no_grad():
        for layer in (model.image_map, *model.layers):
            layer.bias.uniform_(-0.5, 0.5)  # else the gate would have nothing to silence
    return model.eval()


def sentences(*lengths: int, seed: int = 0) -> Sentences:
    words = torch.randint(1, WORDS, (sum(lengths),), generator=torch.Generator().manual_seed(seed))
    return Sentences(words, torch.tensor(lengths), torch.zeros(len(lengths), 0))


def parameters(model: MatchingCNN) -> dict[str, Array]:
    return {key: value.detach().double().numpy() for key, value in model.state_dict().items()}


def convolved(places: Array, weight: Array, bias: Array, image: Array | None) -> Array:
    """Eq. 3 to 6: every window of three places, padding included, gated where its input is zero."""
    out = []
    for i in range(len(places) - 2):
        segment = np.concatenate(places[i : i + 3])
        seen = np.concatenate([segment, image]) if image is not None and segment.any() else segment
        padded = np.zeros(weight.shape[1])
        padded[: len(seen)] = seen
        out.append((padded != 0).any() * np.maximum(weight @ padded + bias, 0))
    return np.array(out)


def max_pooled(responses: Array) -> Array:
    """Eq. 7."""
    return np.array([np.maximum(responses[2 * i], responses[2 * i + 1]) for i in range(len(responses) // 2)])


def by_equations(model: MatchingCNN, level: str, image: Array, numbers: list[int]) -> float:
    """s_match of one pair by Table 1, on a sentence padded to 30 places."""
    w = parameters(model)
    vector = np.maximum(w["image_map.weight"] @ image + w["image_map.bias"], 0)  # eq. 1
    places = np.zeros((30, 50))
    places[: min(len(numbers), 30)] = w["words.weight"][numbers[:30]]
    meets = {"wd": 0, "phs": 1, "phl": 2, "st": None}[level]
    for layer in range(3):
        kernel, bias = w[f"layers.{layer}.weight"], w[f"layers.{layer}.bias"]
        places = max_pooled(convolved(places, kernel, bias, vector if layer == meets else None))
    joint = np.concatenate(places)
    if level == "st":
        joint = np.concatenate([joint, vector])  # eq. 9
    hidden = np.maximum(w["layers.3.weight"] @ joint + w["layers.3.bias"], 0)
    return float(w["score_map.weight"][0] @ hidden + w["score_map.bias"][0])  # eq. 2


LENGTHS = (1, 2, 3, 4, 5, 6, 9, 14, 24, 25, 26, 27, 28, 29, 30, 31, 41)


@pytest.mark.parametrize("level", LEVELS)
def test_scores_are_those_of_the_equations(level: str) -> None:
    model, texts = network(level), sentences(*LENGTHS)
    images = torch.randn(3, IMAGE)
    expected = [
        [by_equations(model, level, image.double().numpy(), part.tolist()) for part in split(texts)]
        for image in images
    ]
    assert np.ptp(expected) > 0.1
    with torch.inference_mode():
        assert np.allclose(model(images, texts), expected, atol=1e-5)


@pytest.mark.parametrize("level", LEVELS)
def test_all_pairs_are_the_pairs_one_by_one(level: str) -> None:
    model, texts, images = network(level), sentences(*LENGTHS), torch.randn(5, IMAGE)
    with torch.inference_mode():
        x, y = model.encode_images(images), model.encode_sentences(texts)
        alone = [
            [model(image[None], taken(texts, [j])).item() for j in range(len(texts))] for image in images
        ]
        for block in (1, 6, 1000):
            assert np.allclose(
                score_all_pairs(TorchBackend(model, "cpu"), x, y, block=block), alone, atol=1e-5
            )
        i, j = torch.arange(5).repeat_interleave(len(texts)), torch.arange(len(texts)).repeat(5)
        assert np.allclose(model.score_pairs(x[i], y[j]), np.ravel(alone), atol=1e-5)


@pytest.mark.parametrize("level", LEVELS)
def test_sentences_padded_at_once_score_as_in_groups(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, texts, images = network(level), sentences(*LENGTHS), torch.randn(3, IMAGE)
    model.dropout.p = 0.0
    found = []
    for at_once in (False, True):
        monkeypatch.setattr(torch.onnx, "is_in_onnx_export", lambda at_once=at_once: at_once)
        model.zero_grad()
        x, y = model.train().encode_images(images), model.encode_sentences(texts)
        scores = model.score_encoded(x, y)
        pairs = model.score_pairs(x[[0, 1, 2]], y[[3, 5, 16]])
        assert torch.allclose(pairs, scores[[0, 1, 2], [3, 5, 16]], atol=1e-5)
        (scores * torch.linspace(-1, 1, scores.numel()).view(scores.shape)).sum().backward()
        found.append((scores, [each.grad.clone() for each in model.parameters() if each.grad is not None]))
    assert torch.allclose(found[0][0], found[1][0], atol=1e-5)
    assert all(torch.allclose(*pair, atol=1e-4) for pair in zip(found[0][1], found[1][1], strict=True))


@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=6), level=st.sampled_from(LEVELS))
@settings(max_examples=30)
def test_the_other_sentences_of_a_batch_never_change_a_score(lengths: list[int], level: str) -> None:
    model, texts, images = network(level), sentences(*lengths), torch.ones(2, IMAGE)
    with torch.inference_mode():
        together = model(images, texts)
        for j in range(len(texts)):
            alone = model(images, taken(texts, [j]))
            assert torch.allclose(together[:, j], alone[:, 0], atol=1e-5)


@pytest.mark.parametrize("level", LEVELS)
def test_no_images_or_no_sentences_make_an_empty_matrix(level: str) -> None:
    model, some, none = network(level), sentences(3, 40), taken(sentences(3), [])
    assert model(torch.randn(0, IMAGE), some).shape == (0, 2)
    assert model(torch.randn(5, IMAGE), none).shape == (5, 0)
    assert model.encode_sentences(none).shape[1:] == model.encode_sentences(some).shape[1:]
    assert model.score_pairs(
        model.encode_images(torch.randn(0, IMAGE)), model.encode_sentences(none)
    ).shape == (0,)


def test_words_after_the_thirtieth_are_cut() -> None:
    model, long = network("wd"), sentences(35)
    short = Sentences(long.words[:30], torch.tensor([30]), long.vectors)
    images = torch.randn(2, IMAGE)
    assert torch.equal(model(images, long), model(images, short))


@pytest.mark.parametrize(
    ("level", "inputs", "encoded"),
    [
        ("wd", [3 * 50 + 256, 600, 900, 600], (14, 200)),
        ("phs", [150, 600 + 256, 900, 600], (6, 300)),
        ("phl", [150, 600, 900 + 256, 600], (2, 300)),
        ("st", [150, 600, 900, 600 + 256], (1, 400)),
    ],
)
def test_shapes_are_those_of_table_1(level: str, inputs: list[int], encoded: tuple[int, int]) -> None:
    model = MatchingCNN(1280, WORDS, level)  # type: ignore[arg-type]
    shapes = [tuple(layer.weight.shape) for layer in model.layers]
    assert shapes == list(zip((200, 300, 300, 400), inputs, strict=True))
    assert tuple(model.image_map.weight.shape) == (256, 1280)
    assert tuple(model.encode_sentences(sentences(4, 9)).shape[1:]) == encoded


@pytest.mark.parametrize("level", LEVELS)
def test_gradients_equal_finite_differences(level: str) -> None:
    """In double precision, through every weight and through the words."""
    model, texts = network(level).double(), sentences(3, 8, 8, 20)
    images = torch.randn(4, IMAGE, dtype=torch.float64)

    def loss() -> torch.Tensor:
        return model.score_pairs(model.encode_images(images), model.encode_sentences(texts)).square().sum()

    loss().backward()
    for weights in model.parameters():
        assert weights.grad is not None
        at = np.unravel_index(int(weights.grad.abs().argmax()), weights.shape)
        assert weights.grad[at] != 0
        with torch.no_grad():
            weights[at] += 1e-6
            above = loss()
            weights[at] -= 2e-6
            slope = (above - loss()) / 2e-6
            weights[at] += 1e-6
        assert torch.isclose(weights.grad[at], slope, rtol=1e-4)
    used = set(texts.words.tolist())
    moved = set(model.words.weight.grad.abs().sum(1).nonzero()[:, 0].tolist())  # type: ignore[union-attr]
    assert moved <= used
    assert len(moved) > len(used) / 2


@pytest.mark.parametrize("level", LEVELS)
def test_half_precision_trains_and_scores_about_the_same(level: str) -> None:
    model, texts, images = network(level), sentences(*LENGTHS), torch.randn(3, IMAGE)
    exact = model(images, texts).detach()
    with torch.autocast("cpu", torch.bfloat16):
        encoded, read = model.encode_images(images), model.encode_sentences(texts)
        matrix = model.score_encoded(encoded, read)
        pairs = model.score_pairs(encoded, read[:3])
    assert torch.allclose(matrix.float(), exact, atol=0.05 * float(exact.abs().max()))
    pairs.float().sum().backward()
    assert all(w.grad is not None and w.grad.isfinite().all() for w in model.parameters())


def test_words_start_from_glove_and_the_unknown_from_zero() -> None:
    vocabulary = Vocabulary(["dog", "xqzzyq", "grass"])
    model = MatchingCNN(5, len(vocabulary))
    drawn = model.words.weight[2].clone()
    model.prepare(PretrainedVectors(vocabulary))
    expected, known = word_vectors(vocabulary.words)
    assert known.tolist() == [True, False, True]
    assert np.array_equal(model.words.weight.detach()[[1, 3]], expected[[0, 2]])
    assert torch.equal(model.words.weight[2], drawn)
    assert drawn.any()
    assert not model.words.weight[0].any()


def test_words_start_from_a_sentence_encoder() -> None:
    vocabulary = Vocabulary(["dog", "puppy", "street", "road", "xqzzyq"])
    model = MatchingCNN(5, len(vocabulary), word_vectors="minilm")
    model.prepare(PretrainedVectors(vocabulary))
    dog, puppy, street, road, _ = functional.normalize(model.words.weight[1:].detach(), dim=1)
    assert model.words.weight.shape == (6, 384)
    assert torch.isclose(model.words.weight[1:].std(), torch.tensor(0.7), atol=0.01)
    assert dog @ puppy > dog @ street
    assert street @ road > puppy @ road
    assert not model.words.weight[0].any()


def test_words_start_from_a_file(tmp_path: Path) -> None:
    path, vocabulary = tmp_path / "vectors.vec", Vocabulary(["dog", "xqzzyq"])
    path.write_text("dog 4 5 6\n")
    model = MatchingCNN(5, len(vocabulary), word_vectors=str(path), word_dim=3)
    drawn = model.words.weight[2].clone()
    model.prepare(PretrainedVectors(vocabulary))
    assert model.words.weight[1].tolist() == [4, 5, 6]
    assert torch.equal(model.words.weight[2], drawn)
    other = MatchingCNN(5, len(vocabulary), word_vectors=str(path), word_dim=4)
    with pytest.raises(SeesayError, match="vectors of 3 numbers, but word_dim is 4"):
        other.prepare(PretrainedVectors(vocabulary))


def started_as_product(level: str) -> MatchingCNN:
    torch.manual_seed(LEVELS.index(level))
    widths = {"level": level, "image": 6, "maps": (8, 12, 20), "hidden": 16}
    model = MatchingCNN(IMAGE, WORDS, start="product", **widths).eval()  # type: ignore[arg-type]
    model.prepare(PretrainedVectors(Vocabulary([f"word{i}" for i in range(WORDS - 1)])))
    return model


@pytest.mark.parametrize("level", LEVELS)
def test_the_product_start_scores_like_an_inner_product(level: str) -> None:
    """Its sign turns with the image's, and each of its numbers reaches the score."""
    model = started_as_product(level)
    with torch.inference_mode():
        x, y = (
            model.encode_images(torch.randn(len(LENGTHS), IMAGE)),
            model.encode_sentences(sentences(*LENGTHS)),
        )
        scores = model.score_pairs(x, y)
        assert scores.abs().median() > 1e-2
        assert torch.allclose(model.score_pairs(-x, y), -scores, atol=1e-5)
        assert torch.allclose(model.score_pairs(torch.zeros_like(x), y), torch.zeros(len(x)), atol=1e-5)
        quarter = x.shape[1] // 4
        for number in range(quarter):
            without = x.clone()
            without[:, number::quarter] = 0
            same = torch.isclose(model.score_pairs(without, y), scores, atol=1e-6)
            assert same.float().mean() < 0.5  # a window may respond nothing to that number


def test_the_product_of_a_whole_sentence_is_that_of_the_equation() -> None:
    model = started_as_product("st")
    with torch.inference_mode():
        x, y = model.encode_images(torch.randn(1, IMAGE)), model.encode_sentences(sentences(9))
        a, b = y[0, 0, :4], x[0, :4]
        expected = ((a + b).abs() - (a - b).abs()).sum() / 2  # four numbers, each √(4/16)
        assert torch.isclose(model.score_pairs(x, y)[0], expected, atol=1e-5)


def test_the_product_start_needs_widths_divisible_by_four() -> None:
    with pytest.raises(ValidationError, match="divisible by four"):
        MATCHERS["mcnn"](start="product", maps=(8, 10, 12))


def test_a_window_of_padding_does_not_see_the_image() -> None:
    """An image that excites every window changes nothing where there is no window."""
    model = network("wd")
    encoded = model.encode_sentences(sentences(1, 30))
    assert torch.isinf(encoded[0, 1:]).all()
    assert torch.isfinite(encoded[1]).all()


def split(texts: Sentences) -> list[torch.Tensor]:
    return list(torch.split(texts.words, texts.lengths.tolist()))
