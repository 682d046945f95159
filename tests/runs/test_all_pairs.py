"""The all-pairs engine: the pairs one by one, on any block, stopped anywhere, whatever the disk did."""

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
from seesay.encoders.stores import RECORD
from seesay.errors import SeesayError
from seesay.matchers.base import PairMatcher
from seesay.matchers.composed import Ensemble
from seesay.matchers.mcnn import LEVELS, MatchingCNN
from seesay.matchers.sentences import Sentences
from seesay.matchers.settings import MATCHERS
from seesay.matchers.two_branch import SimilarityNetwork
from seesay.protocols.evaluate import measure
from seesay.protocols.subject import RunSubject
from seesay.recipes.load import load_recipe
from seesay.runs import trained
from seesay.runs.all_pairs import resume_all_pairs, score_all_pairs
from seesay.runs.export import export_run
from seesay.runs.inputs import Inputs
from seesay.runs.onnx_backend import OnnxBackend
from seesay.runs.run import Run
from seesay.runs.sentences import PreparedSentences
from seesay.runs.trained import new_matcher, save_inputs, save_weights
from seesay.text.vocabulary import Vocabulary

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
        [
            [float(matcher(image[None], texts.take(torch.tensor([j])))) for j in range(len(texts))]
            for image in features
        ]
    )


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize(
    ("images", "lengths"), [(1, [5]), (1, [1]), (1, [40]), (5, [1, 40, 2, 30, 31, 9, 9, 9, 14]), (9, [7])]
)
@pytest.mark.parametrize("block", [1, 7, 1000])
def test_it_scores_the_pairs_one_by_one(name: str, images: int, lengths: list[int], block: int) -> None:
    matcher = matcher_named(name)
    expected = one_by_one(matcher, images, lengths)
    scores = score_all_pairs(matcher, *encoded(matcher, images, lengths), block)
    assert scores.dtype == torch.float32
    assert torch.allclose(scores, expected, atol=1e-4, rtol=0)
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
    whole = score_all_pairs(matcher, x, y)
    pieces = score_all_pairs(in_pieces(matcher, near), x, y, block)
    assert torch.allclose(whole, pieces, atol=1e-5)


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
    assert score_all_pairs(matcher, x, y[:0]).shape == (3, 0)
    assert score_all_pairs(matcher, x[:0], y).shape == (0, 2)


@pytest.mark.parametrize("name", TRAINED)
def test_half_precision_is_close_and_does_not_tie(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """bfloat16 has eight bits; what a score is summed from has them, the score itself does not."""
    matcher = matcher_named(name)
    lengths = [1 + i % 33 for i in range(120)]
    x, y = encoded(matcher, 4, lengths)
    exact = score_all_pairs(matcher, x, y)
    monkeypatch.setattr("seesay.runs.all_pairs._precision", lambda device: torch.bfloat16)
    half = score_all_pairs(matcher, x, y)
    assert half.dtype == torch.float32
    assert torch.allclose(half, exact, rtol=0, atol=0.03 * float(exact.abs().max()))
    assert len(np.unique(half.numpy())) > 0.95 * len(np.unique(exact.numpy()))


class Stopped(Exception):
    pass


class Counting(SimilarityNetwork):
    """Counts the pairs that it scores, and stops before there are more than `max_pairs`."""

    def __init__(self) -> None:
        super().__init__(IMAGE, VECTOR, **SMALL)
        self.pairs, self.max_pairs = 0, 10**9
        self.eval()

    def score_encoded(self, images: Tensor, sentences: Tensor) -> Tensor:
        if self.pairs + len(images) * len(sentences) > self.max_pairs:
            raise Stopped
        self.pairs += len(images) * len(sentences)
        return super().score_encoded(images, sentences)


LENGTHS = [3, 1, 9, 40, 6]
PAIRS = 8 * len(LENGTHS)
BLOCK = 2 * len(LENGTHS)


@pytest.fixture
def matcher() -> Counting:
    torch.manual_seed(8)
    return Counting()


def resume(matcher: PairMatcher, folder: Path) -> np.ndarray:
    return resume_all_pairs(matcher, *encoded(matcher, 8, LENGTHS), folder, BLOCK)


@pytest.mark.parametrize("blocks", [0, 1, 3])
def test_a_stopped_scoring_goes_on_where_it_stopped(tmp_path: Path, matcher: Counting, blocks: int) -> None:
    expected = score_all_pairs(matcher, *encoded(matcher, 8, LENGTHS)).numpy()
    matcher.pairs, matcher.max_pairs = 0, blocks * BLOCK + 1
    with pytest.raises(Stopped):
        resume(matcher, tmp_path / "m")
    matcher.pairs, matcher.max_pairs = 0, 10**9
    assert np.allclose(resume(matcher, tmp_path / "m"), expected, atol=1e-6)
    probe = len(LENGTHS) if blocks else 0
    assert matcher.pairs == PAIRS - blocks * BLOCK + probe


def test_scoring_again_reads_the_kept_rows(
    tmp_path: Path, matcher: Counting, capsys: pytest.CaptureFixture[str]
) -> None:
    first = resume(matcher, tmp_path / "m")
    assert f"Scoring: {PAIRS}/{PAIRS} pairs" in capsys.readouterr().err
    matcher.pairs = 0
    assert np.array_equal(resume(matcher, tmp_path / "m"), first)
    assert matcher.pairs == len(LENGTHS)  # the probe
    assert capsys.readouterr().err == ""


def test_rows_of_other_code_are_computed_again(tmp_path: Path, matcher: Counting) -> None:
    resume(matcher, tmp_path / "m")
    with torch.no_grad():
        matcher.state_dict()["head.4.bias"] += 0.01
    expected = score_all_pairs(matcher, *encoded(matcher, 8, LENGTHS)).numpy()
    assert np.allclose(resume(matcher, tmp_path / "m"), expected, atol=1e-6)


ROW = 4 * len(LENGTHS)


def damages() -> dict[str, tuple[str, int, bytes | None, int]]:
    """File, where, what (None: cut off there), and how many rows are right in front of it."""
    return {
        "a flipped score": ("scores.f32", 3 * ROW + 2, b"\x7f", 3),
        "a flipped checksum": ("rows.bin", 6 * RECORD.itemsize - 1, b"\x01", 5),
        "a torn row": ("scores.f32", 5 * ROW + 7, None, 5),
        "a torn record": ("rows.bin", 5 * RECORD.itemsize + 7, None, 5),
        "the first row": ("scores.f32", 0, b"\0\0\0\0\0", 0),
        "rows too many": ("scores.f32", 8 * ROW, b"x" * (ROW + 3), 8),
        "nothing": ("scores.f32", 0, None, 0),
        "zeros": ("scores.f32", 0, bytes(8 * ROW), 0),
        "text": ("rows.bin", 0, b"no records at all, but text" * 40, 0),
    }


@pytest.mark.parametrize("damage", damages())
def test_a_damaged_file_is_computed_again_from_the_damage_on(
    tmp_path: Path, matcher: Counting, damage: str
) -> None:
    expected = resume(matcher, tmp_path / "m")
    file, at, what, right = damages()[damage]
    path = tmp_path / "m" / file
    whole = path.read_bytes()
    path.write_bytes(whole[:at] if what is None else whole[:at] + what + whole[at + len(what) :])
    matcher.pairs = 0
    assert np.allclose(resume(matcher, tmp_path / "m"), expected, atol=1e-6)
    assert matcher.pairs == (8 - right) * len(LENGTHS) + (len(LENGTHS) if right else 0)
    matcher.pairs = 0
    assert np.allclose(resume(matcher, tmp_path / "m"), expected, atol=1e-6)
    assert matcher.pairs == len(LENGTHS)  # the probe


def test_a_matrix_of_one_block_is_not_kept(tmp_path: Path, matcher: Counting) -> None:
    resume_all_pairs(matcher, *encoded(matcher, 2, LENGTHS), tmp_path / "m", BLOCK)
    assert not (tmp_path / "m").exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, matcher: Counting) -> None:
    (tmp_path / "m").write_text("a file where the folder should be")
    with pytest.raises(SeesayError, match="cannot be read or written"):
        resume(matcher, tmp_path / "m")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path / "cache"))
    recipe = load_recipe("flickr8k/mcnn-st")
    return Run.from_matcher(tmp_path, recipe, Vocabulary(["a"] * (WORDS - 1)), None, matcher_named("st"))


def test_a_run_keeps_a_long_scoring_only_with_keep(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`seesay evaluate` keeps it, and measuring val after each epoch does not."""
    lengths = [1 + i % 20 for i in range(700)]
    features = np.random.default_rng(1).normal(size=(200, IMAGE)).astype(np.float32)
    owners = np.arange(700) % 200
    texts = prepared(lengths)
    images = tuple(CorpusImage(f"{i}.jpg", "val") for i in range(200))
    corpus = Corpus("drawn", tmp_path, images, tuple(Sentence("a", owner) for owner in owners.tolist()))
    inputs = Inputs(corpus, features, texts, owners, [], (IMAGE,))
    plain = measure(RunSubject(run, inputs, "val"), "standard")
    assert not (tmp_path / "cache" / "scores").exists()
    assert capsys.readouterr().err == ""
    assert measure(RunSubject(run, inputs, "val", keep=True), "standard").to_dict() == plain.to_dict()
    assert "Scoring: 140000/140000 pairs" in capsys.readouterr().err
    (kept,) = (tmp_path / "cache" / "scores").iterdir()
    assert (kept / "scores.f32").stat().st_size == 200 * 700 * 4
    assert np.array_equal(run.score_prepared(features, texts, keep=True), run.score_prepared(features, texts))
    assert capsys.readouterr().err == ""
    with torch.no_grad():
        run.matcher.state_dict()["score_map.weight"] *= 1.001
    assert np.allclose(
        run.score_prepared(features, texts, keep=True), run.score_prepared(features, texts), atol=1e-6
    )
    assert len(list((tmp_path / "cache" / "scores").iterdir())) == 2


def test_an_exported_run_leaves_a_long_scoring_to_pytorch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which is several times faster than the graphs, and can be resumed."""
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path / "cache"))
    recipe, words = load_recipe("flickr8k/mcnn-st"), Vocabulary([f"w{i}" for i in range(9)])
    matcher = new_matcher(recipe, words, None, (IMAGE,), None).eval()
    run = Run.from_matcher(tmp_path, recipe, words, None, matcher, (IMAGE,))
    save_inputs(run)
    save_weights(tmp_path, matcher.state_dict())
    export_run(run)
    exported = Run.load(str(tmp_path))
    features = np.random.default_rng(1).normal(size=(200, IMAGE)).astype(np.float32)
    texts = exported.prepare([f"w{i % 9} w{i % 5}" for i in range(700)])
    scores = exported.score_prepared(features, texts)
    assert isinstance(exported.backend, OnnxBackend)
    with monkeypatch.context() as somebodys_own:
        somebodys_own.setattr(trained, "load_matcher", Mock(side_effect=SeesayError("no such module")))
        np.testing.assert_array_equal(exported.score_prepared(features, texts, keep=True), scores)
    np.testing.assert_allclose(exported.score_prepared(features, texts, keep=True), scores, atol=1e-4)
    assert "Scoring: 140000/140000 pairs" in capsys.readouterr().err


def test_an_ensemble_finds_what_its_members_have_scored(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = matcher_named("phl")
    assert isinstance(run.matcher, PairMatcher)
    settings = [run.recipe.matcher, MATCHERS["mcnn"].settings(level="phl")]
    whole = MATCHERS["ensemble"].settings(members=("a", "b"), matchers=tuple(settings))
    members = Ensemble([run.matcher, other], IMAGE, 0)
    recipe = run.recipe.model_copy(update={"matcher": whole})
    both = Run.from_matcher(tmp_path, recipe, run.vocabulary, None, members)
    texts = prepared([1 + i % 20 for i in range(700)])
    features = np.random.default_rng(1).normal(size=(200, IMAGE)).astype(np.float32)
    run.score_prepared(features, texts, keep=True)
    capsys.readouterr()
    scores = both.score_prepared(features, texts, keep=True)
    assert capsys.readouterr().err.count("140000/140000 pairs") == 1  # the other's
    assert np.allclose(scores, both.score_prepared(features, texts), atol=1e-5)
    assert len(list((tmp_path / "cache" / "scores").iterdir())) == 2


def test_a_run_scores_no_images_or_no_sentences(run: Run) -> None:
    features = np.zeros((3, IMAGE), np.float32)
    none = prepared([])
    for keep in (False, True):
        assert run.score_prepared(features, none, keep).shape == (3, 0)
        assert run.score_prepared(features[:0], prepared([3, 4]), keep).shape == (0, 2)
