"""All pairs are scored like the pairs one by one, in any blocks."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from seesay.data.corpus import Corpus, CorpusImage, Sentence
from seesay.errors import SeesayError
from seesay.matchers.base import PairMatcher
from seesay.matchers.composed import Ensemble
from seesay.matchers.mcnn import LEVELS, MatchingCNN
from seesay.matchers.sentences import Sentences
from seesay.matchers.two_branch import SimilarityNetwork
from seesay.protocols.evaluate import measure
from seesay.protocols.subject import RunSubject
from seesay.recipes.load import load_recipe
from seesay.runs import torch_backend
from seesay.runs.export import export_run
from seesay.runs.inputs import Inputs
from seesay.runs.onnx_backend import OnnxBackend, score_all_pairs
from seesay.runs.prepare import PreparedSentences
from seesay.runs.run import Run
from seesay.runs.torch_backend import TorchBackend, new_matcher, save_weights
from seesay.text.vocabulary import Vocabulary
from tests.matchers.taken import taken

IMAGE, WORDS, VECTOR = 7, 40, 5
TRAINED = (*LEVELS, "similarity", "ensemble")
SMALL = {"image_hidden": 12, "sentence_hidden": 10, "dim": 8, "head": (6, 4)}


def matcher_named(name: str) -> PairMatcher:
    torch.manual_seed(TRAINED.index(name))
    if name == "ensemble":
        return Ensemble([matcher_named(level) for level in LEVELS], IMAGE, VECTOR)
    if name == "similarity":
        return SimilarityNetwork(IMAGE, VECTOR, **SMALL).eval()
    small = {"level": name, "image": 6, "maps": (4, 5, 8), "hidden": 9}
    model = MatchingCNN(IMAGE, WORDS, **small)
    for layer in (model.image_map, *model.layers):
        torch.nn.init.uniform_(layer.bias, -0.5, 0.5)
    return model.eval()


def in_pieces(matcher: PairMatcher, cache_bytes: int) -> PairMatcher:
    for each in matcher.modules():
        if isinstance(each, PairMatcher):
            each.cache_bytes = cache_bytes
    return matcher


def sentences(lengths: list[int]) -> Sentences:
    generator = torch.Generator().manual_seed(3)
    words = torch.randint(1, WORDS, (sum(lengths),), generator=generator)
    return Sentences(
        words,
        torch.tensor(lengths, dtype=torch.int64),
        torch.randn(len(lengths), VECTOR, generator=generator),
    )


def prepared(lengths: list[int]) -> PreparedSentences:
    some = sentences(lengths)
    return PreparedSentences(*(part.numpy() for part in (some.words, some.lengths, some.vectors)))


@torch.inference_mode()
def encoded(matcher: PairMatcher, images: int, lengths: list[int]) -> tuple[Tensor, Tensor]:
    features = torch.randn(images, IMAGE, generator=torch.Generator().manual_seed(4))
    return matcher.encode_images(features), matcher.encode_sentences(sentences(lengths))


@torch.inference_mode()
def one_by_one(matcher: PairMatcher, images: int, lengths: list[int]) -> Tensor:
    """Each pair alone, encoded alone."""
    features = torch.randn(images, IMAGE, generator=torch.Generator().manual_seed(4))
    texts = sentences(lengths)
    return torch.tensor(
        [[float(matcher(image[None], taken(texts, [j]))) for j in range(len(texts))] for image in features]
    )


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize(
    ("images", "lengths"), [(1, [5]), (1, [1]), (1, [40]), (5, [1, 40, 2, 30, 31, 9, 9, 9, 14]), (9, [7])]
)
@pytest.mark.parametrize("block", [1, 7, 1000])
def test_it_scores_the_pairs_one_by_one(name: str, images: int, lengths: list[int], block: int) -> None:
    matcher = matcher_named(name)
    expected = one_by_one(matcher, images, lengths)
    scores = score_all_pairs(TorchBackend(matcher, "cpu"), *encoded(matcher, images, lengths), block=block)
    assert scores.dtype == np.float32
    assert np.allclose(scores, expected, atol=1e-4, rtol=0)
    if expected.numel() > 9:
        assert np.ptp(expected.numpy()) > 1e-3


@given(
    name=st.sampled_from(TRAINED),
    images=st.integers(1, 6),
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=7),
    block=st.integers(1, 60),
    near=st.integers(1, 4000),
)
@settings(max_examples=40)
def test_neither_blocks_nor_pieces_change_a_score(
    name: str, images: int, lengths: list[int], block: int, near: int
) -> None:
    matcher = matcher_named(name)
    x, y = encoded(matcher, images, lengths)
    whole = score_all_pairs(TorchBackend(matcher, "cpu"), x, y)
    pieces = score_all_pairs(TorchBackend(in_pieces(matcher, near), "cpu"), x, y, block=block)
    assert np.allclose(whole, pieces, atol=1e-5)


@pytest.mark.parametrize("name", TRAINED)
def test_gradients_go_through_pieces_as_through_pairs(name: str) -> None:
    matcher, features, texts = (
        in_pieces(matcher_named(name), 500),
        torch.randn(4, IMAGE),
        sentences([3, 9, 9, 1, 40]),
    )
    weights = [weight for key, weight in matcher.named_parameters() if "layers" in key or "head" in key]

    def gradients(together: bool) -> list[Tensor]:
        x, y = matcher.encode_images(features), matcher.encode_sentences(texts)
        if together:
            scores = matcher.score_encoded(x, y)
        else:
            scores = matcher.score_pairs(x.repeat_interleave(5, 0), y.repeat(4, *[1] * (y.ndim - 1)))
        return list(torch.autograd.grad(scores.square().sum(), weights))

    for one, other in zip(gradients(True), gradients(False), strict=True):
        assert torch.allclose(one, other, atol=1e-4)


@pytest.mark.parametrize("name", TRAINED)
def test_no_images_or_no_sentences_are_an_empty_matrix(name: str) -> None:
    matcher = matcher_named(name)
    x, y = encoded(matcher, 3, [4, 5])
    assert score_all_pairs(TorchBackend(matcher, "cpu"), x, y[:0]).shape == (3, 0)
    assert score_all_pairs(TorchBackend(matcher, "cpu"), x[:0], y).shape == (0, 2)


@pytest.mark.parametrize("name", TRAINED)
def test_half_precision_is_close_and_does_not_tie(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """bfloat16 has eight bits; what a score is summed from has them, the score itself does not."""
    matcher = matcher_named(name)
    lengths = [1 + i % 33 for i in range(120)]
    x, y = encoded(matcher, 4, lengths)
    backend = TorchBackend(matcher, "cpu")
    exact = backend.score_encoded(x, y)
    monkeypatch.setattr("seesay.runs.torch_backend.half_on_gpu", lambda device: torch.bfloat16)
    half = backend.score_encoded(x, y)
    assert half.dtype == np.float32
    assert np.allclose(half, exact, rtol=0, atol=0.03 * float(np.abs(exact).max()))
    assert len(np.unique(half)) > 0.95 * len(np.unique(exact))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path / "cache"))
    recipe = load_recipe("flickr8k/mcnn-st")
    return Run.from_matcher(tmp_path, recipe, Vocabulary(["a"] * (WORDS - 1)), None, matcher_named("st"))


def drawn(lengths: list[int]) -> Inputs:
    """A split of 200 images and sentences of these lengths."""
    features = np.random.default_rng(1).normal(size=(200, IMAGE)).astype(np.float32)
    owners = np.arange(len(lengths)) % 200
    images = tuple(CorpusImage(f"{i}.jpg", "val") for i in range(200))
    corpus = Corpus("drawn", Path(), images, tuple(Sentence("a", owner) for owner in owners.tolist()))
    return Inputs(corpus, features, prepared(lengths), owners, [], (IMAGE,))


def test_a_long_scoring_shows_its_progress(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """That of `seesay evaluate`; measuring val after each epoch shows none."""
    inputs = drawn([1 + i % 20 for i in range(700)])
    plain = measure(RunSubject(run, inputs, "val"), "standard")
    assert capsys.readouterr().err == ""
    assert measure(RunSubject(run, inputs, "val", long=True), "standard").to_dict() == plain.to_dict()
    assert "Scoring: 140000/140000 pairs" in capsys.readouterr().err


def test_pytorch_scores_the_pairs_of_an_exported_run_where_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is several times faster than the graphs."""
    recipe, words = load_recipe("flickr8k/mcnn-st"), Vocabulary([f"w{i}" for i in range(9)])
    matcher = new_matcher(recipe, words, None, (IMAGE,)).eval()
    run = Run.from_matcher(tmp_path, recipe, words, None, matcher, (IMAGE,))
    run.save_inputs()
    save_weights(tmp_path, matcher.state_dict())
    export_run(run)
    exported = Run.load(str(tmp_path))
    features = np.random.default_rng(1).normal(size=(200, IMAGE)).astype(np.float32)
    texts = exported.prepare([f"w{i % 9} w{i % 5}" for i in range(700)])
    scores = exported.score_prepared(features, texts)
    assert isinstance(exported.backend, OnnxBackend)
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(torch_backend, "load_matcher", Mock(side_effect=SeesayError("no such matcher")))
        exported.prefer_pytorch()
    assert isinstance(exported.backend, OnnxBackend)
    exported.prefer_pytorch()
    assert isinstance(exported.backend, TorchBackend)
    np.testing.assert_allclose(exported.score_prepared(features, texts), scores, atol=1e-4)


def test_a_run_scores_no_images_or_no_sentences(run: Run) -> None:
    features = np.zeros((3, IMAGE), np.float32)
    assert run.score_prepared(features, prepared([])).shape == (3, 0)
    assert run.score_prepared(features[:0], prepared([3, 4])).shape == (0, 2)
