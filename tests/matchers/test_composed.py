"""The ensemble's scores are the sums of its members', all pairs and side by side."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seesay.errors import SeesayError
from seesay.matchers.base import PairMatcher
from seesay.matchers.composed import Ensemble, take_apart
from seesay.matchers.mcnn import LEVELS
from seesay.matchers.sentences import Sentences
from seesay.matchers.settings import MATCHERS, MatcherInputs, MatcherSettings
from seesay.runs.onnx_backend import score_all_pairs
from seesay.runs.torch_backend import TorchBackend
from tests.matchers.taken import taken

WORDS, IMAGE, VECTOR = 40, 24, 7
NETWORK = MATCHERS["similarity-network"](image_hidden=12, sentence_hidden=12, dim=8, head=(6,))
LEVEL = {level: MATCHERS["mcnn"](level=level, image=6, maps=(5, 7, 4), hidden=9) for level in LEVELS}


def ensemble(*matchers: MatcherSettings, seed: int = 0) -> Ensemble:
    torch.manual_seed(seed)
    names = tuple(f"member-{number}" for number in range(len(matchers)))
    combined = MATCHERS["ensemble"](members=names, matchers=matchers)
    built = combined.build(MatcherInputs((20, 4), WORDS, VECTOR))
    assert isinstance(built, Ensemble)
    return built


def sentences(lengths: list[int], seed: int = 0) -> Sentences:
    draw = torch.Generator().manual_seed(seed)
    words = torch.randint(WORDS, (sum(lengths),), generator=draw)
    return Sentences(words, torch.tensor(lengths), torch.randn(len(lengths), VECTOR, generator=draw))


members = st.lists(st.sampled_from([*LEVEL.values(), NETWORK]), min_size=2, max_size=5)


@given(
    chosen=members,
    lengths=st.lists(st.integers(1, 35), min_size=1, max_size=4),
    images=st.integers(1, 3),
    seed=st.integers(0, 99),
)
@settings(max_examples=15)
def test_scores_are_the_sum_of_the_members(
    chosen: list[MatcherSettings], lengths: list[int], images: int, seed: int
) -> None:
    model, texts = ensemble(*chosen, seed=seed), sentences(lengths, seed)
    features = torch.randn(images, IMAGE, generator=torch.Generator().manual_seed(seed))
    expected = np.zeros((images, len(lengths)))
    with torch.inference_mode():
        for member in model.members:
            assert isinstance(member, PairMatcher)
            for j in range(len(lengths)):
                for i in range(images):
                    alone = member(features[i : i + 1], taken(texts, [j]))
                    expected[i, j] += alone.item()
        x, y = model.encode_images(features), model.encode_sentences(texts)
        assert np.allclose(model(features, texts), expected, atol=1e-4)
        for block in (1, 7, 1000):
            scores = score_all_pairs(TorchBackend(model, "cpu"), x, y, block=block)
            assert np.allclose(scores, expected, atol=1e-4)
        i, j = torch.arange(images).repeat_interleave(len(lengths)), torch.arange(len(lengths)).repeat(images)
        assert np.allclose(model.score_pairs(x[i], y[j]), expected.ravel(), atol=1e-4)


def test_encodings_lie_side_by_side_and_are_taken_apart_without_a_copy() -> None:
    model, texts = ensemble(*LEVEL.values()), sentences([3, 30, 9])
    read = model.encode_sentences(texts)
    shapes = [torch.Size(shape) for shape in ((14, 5), (6, 7), (2, 4), (1, 9))]
    assert read.shape == (3, sum(shape.numel() for shape in shapes))
    assert model.encode_images(torch.randn(2, IMAGE)).shape == (2, 5 + 7 + 4 + 9)
    for part, shape, member in zip(take_apart(read, shapes), shapes, model.members, strict=True):
        assert isinstance(member, PairMatcher)
        assert part.shape[1:] == shape
        assert torch.equal(part, member.encode_sentences(texts))
        assert part.untyped_storage().data_ptr() == read.untyped_storage().data_ptr()


def test_half_precision_gives_about_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model, texts = ensemble(*LEVEL.values(), NETWORK), sentences([1, 4, 12, 30])
    with torch.inference_mode():
        x, y = model.encode_images(torch.randn(3, IMAGE)), model.encode_sentences(texts)
    backend = TorchBackend(model, "cpu")
    exact = backend.score_encoded(x, y)
    monkeypatch.setattr("seesay.runs.torch_backend.half_on_gpu", lambda device: torch.bfloat16)
    half = backend.score_encoded(x, y)
    assert np.allclose(half, exact, atol=0.05 * float(np.abs(exact).max()))
    assert half.dtype == exact.dtype == np.float32


def test_its_weights_are_its_members() -> None:
    model = ensemble(LEVEL["wd"], LEVEL["st"])
    assert {key.split(".")[1] for key in model.state_dict()} == {"0", "1"}
    assert all(key.startswith("members.") for key in model.state_dict())
    assert not any(module.training for module in model.modules())


def test_unresolved_members_are_an_error() -> None:
    with pytest.raises(SeesayError, match=r"a, b come with the settings of 0 matchers; `seesay train`"):
        MATCHERS["ensemble"](members=("a", "b")).build(MatcherInputs((IMAGE,), WORDS))
