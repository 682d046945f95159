"""What every registered matcher must do: shapes, errors, padding, hooks, compilation, saving, types."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from seesay.errors import SeesayError
from seesay.matchers import (
    SCO,
    EmbeddingMatcher,
    Matcher,
    MatchingCNN,
    Sentences,
    SimilarityNetwork,
    TwoBranchEmbedding,
    VSEPlusPlus,
)
from seesay.matchers.settings import MATCHERS, MatcherInputs, MatcherSettings
from tests.matchers.taken import taken

DIMS, WORDS, VECTOR, IMAGES = (9, 6), 20, 8, 4
INPUTS = MatcherInputs(DIMS, WORDS, VECTOR)
BRANCHES = {"image_hidden": 12, "sentence_hidden": 10, "dim": 8, "word_dim": 5}
VSEPP = {"kind": "vse++", "dim": 8, "word_dim": 5}
MCNN = {"kind": "mcnn", "image": 8, "maps": (8, 8, 8), "hidden": 8}
SIMILARITY = {"kind": "similarity-network", "head": (6, 4), **BRANCHES}
CASES: dict[str, dict[str, Any]] = {
    "cca": {"dim": 4},
    "embedding-network": BRANCHES,
    "ensemble": {"members": ("a", "b"), "matchers": (MCNN, SIMILARITY)},
    "fine-tuned": {"members": ("a",), "matchers": (VSEPP,)},
    "irmatch": {"dim": 12, "word_dim": 5},
    "mcnn": MCNN,
    "metric-fusion": {
        "members": ("a", "b"),
        "gate": {"hidden": 4},
        "matchers": (VSEPP, {"kind": "cca", "dim": 4}),
        "parts": ((0,), (0, 1)),
    },
    "projection": {"dim": 8, "hidden": 6, "word_dim": 4, "members": 2},
    "sco": {"dim": 8, "word_dim": 5, "generation": {"sampling": 0.5}},
    "similarity-network": SIMILARITY,
    "uncommon-vse": {"instances": 5, "dim": 6, "attention": 4},
    "vse++": VSEPP,
}
# A classifier, two whose sides have one width, and one that
# reads the logits of a thousand classes (test_projection.py).
NO_MATCHERS = {"concepts", "cosine", "joint-projection"}


def settings_of(kind: str, **changes: object) -> MatcherSettings:
    made = MATCHERS.parse({"kind": kind, **CASES[kind], **changes})
    assert isinstance(made, MatcherSettings)
    return made


def fitted(kind: str, seed: int = 0) -> Matcher:
    """A matcher in evaluation; what starts from zero until it is fitted or prepared is drawn."""
    torch.manual_seed(seed)
    built = settings_of(kind).build(INPUTS).eval()
    assert isinstance(built, Matcher)
    for tensor in built.state_dict().values():
        if tensor.is_floating_point() and not tensor.any():
            tensor.uniform_(-0.1, 0.1)
    return built


def images(seed: int = 1, n: int = IMAGES) -> Tensor:
    return torch.rand(n, sum(DIMS), generator=torch.Generator().manual_seed(seed))


def sentences(*lengths: int, seed: int = 2) -> Sentences:
    draw = torch.Generator().manual_seed(seed)
    words = torch.randint(WORDS, (sum(lengths),), generator=draw)
    return Sentences(words, torch.tensor(lengths), torch.randn(len(lengths), VECTOR, generator=draw))


TEXTS = sentences(3, 1, 7)
READS_WORDS = [kind for kind in CASES if settings_of(kind).reads_words]
READS_VECTORS = [kind for kind in CASES if settings_of(kind).reads_vectors]
NEEDS_NO_WORDS = [kind for kind in READS_VECTORS if not settings_of(kind).reads_words]
NEEDS_NO_VECTORS = [kind for kind in READS_WORDS if kind not in (*READS_VECTORS, "projection")]
EMBEDDING = [kind for kind in CASES if settings_of(kind).indexable]
every_matcher = pytest.mark.parametrize("kind", CASES)


def test_every_registered_matcher_is_tested_here() -> None:
    assert set(MATCHERS) == set(CASES) | NO_MATCHERS
    assert set(CASES) == set(READS_WORDS) | set(READS_VECTORS)


@every_matcher
@torch.inference_mode()
def test_forward_gives_a_score_for_each_pair(kind: str) -> None:
    matcher = fitted(kind)
    scores = matcher(images(), TEXTS)
    assert scores.shape == (IMAGES, len(TEXTS))
    assert scores.isfinite().all()
    assert scores.unique().numel() > 1
    torch.testing.assert_close(matcher(images()[:1], TEXTS), scores[:1], atol=1e-5, rtol=1e-5)
    assert matcher(images(n=0), TEXTS).shape == (0, len(TEXTS))
    assert matcher(images(), taken(TEXTS, [])).shape == (IMAGES, 0)
    assert [each.shape for each in matcher.training_scores(images(), TEXTS)] == [scores.shape] * (
        2 if kind == "projection" else 1
    )


@pytest.mark.parametrize("kind", EMBEDDING)
@torch.inference_mode()
def test_scores_of_an_embedding_matcher_are_inner_products(kind: str) -> None:
    matcher = fitted(kind)
    assert isinstance(matcher, EmbeddingMatcher)
    x, y = matcher.embed_images(images()), matcher.embed_sentences(TEXTS)
    torch.testing.assert_close(matcher(images(), TEXTS), x @ y.T)
    queries = matcher.query_images(images()), matcher.query_sentences(TEXTS)
    same = [torch.equal(query, found) for query, found in zip(queries, (x, y), strict=True)]
    assert same == [not matcher.asymmetric] * 2


@every_matcher
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (torch.rand(4, 14), r"images: expected features of shape \(n, \d+\), got \(4, 14\)"),
        (torch.rand(15), r"images: expected features of shape \(n, \d+\), got \(15,\)"),
        (torch.rand(4, 15, 1), r"images: .* got \(4, 15, 1\)"),
        (torch.ones(4, 15, dtype=torch.int64), "images: expected features of a float type, got torch.int64"),
        (np.zeros((4, 15)), "images: expected a torch.Tensor, got ndarray"),
    ],
)
def test_wrong_images_are_named(kind: str, wrong: Tensor, message: str) -> None:
    with pytest.raises(SeesayError, match=message):
        fitted(kind)(wrong, TEXTS)


@every_matcher
@pytest.mark.parametrize("wrong", [["a dog"], torch.ones(2, 3, dtype=torch.int64), torch.rand(2, 3, 4), None])
def test_wrong_sentences_are_named(kind: str, wrong: object) -> None:
    with pytest.raises(SeesayError, match="sentences: expected"):
        fitted(kind)(images(), wrong)


@pytest.mark.parametrize("kind", READS_WORDS)
@pytest.mark.parametrize(
    ("ids", "lengths", "message"),
    [
        ([[1, 2]], [3], r"lengths in 1\.\.2.* got 3 to 3"),
        ([[1, 2]], [0], r"lengths in 1\.\.2.* got 0 to 0"),
        ([[1, 2]], [1, 2], r"\(1, 2\) and torch.int64 \(2,\)"),
        ([1, 2], [1, 2], r"integer ids \(m, t\)"),
        ([[0.5, 2]], [2], "float32"),
        ([[1, WORDS + 1]], [2], r"word numbers in 0\.\.\d+, got 1 to 21"),
        ([[-1, 1]], [2], r"word numbers in 0\.\.\d+, got -1 to 1"),
    ],
)
def test_wrong_words_are_named(kind: str, ids: Any, lengths: list[int], message: str) -> None:
    matcher, numbers, counts = fitted(kind), torch.tensor(ids), torch.tensor(lengths)
    with pytest.raises(SeesayError, match=f"sentences: expected .*{message}"):
        matcher(images(), Sentences.from_padded(numbers, counts, torch.rand(1, VECTOR)))


@pytest.mark.parametrize("kind", READS_VECTORS)
def test_vectors_of_another_width_are_named(kind: str) -> None:
    narrow = replace(TEXTS, vectors=TEXTS.vectors[:, 1:])
    with pytest.raises(SeesayError, match=r"sentences: expected vectors of shape \(m, 8\), got \(3, 7\)"):
        fitted(kind)(images(), narrow)


@pytest.mark.parametrize("kind", NEEDS_NO_VECTORS)
def test_vectors_instead_of_words_are_named(kind: str) -> None:
    with pytest.raises(SeesayError, match="sentences: expected word numbers, got only vectors"):
        fitted(kind)(images(), torch.rand(2, VECTOR))


@pytest.mark.parametrize("kind", READS_WORDS)
def test_a_vocabulary_without_words_is_refused(kind: str) -> None:
    with pytest.raises(SeesayError, match="vocabulary_size: input should be greater than 0, got 0"):
        settings_of(kind).build(replace(INPUTS, vocabulary_size=0))


@pytest.mark.parametrize("kind", READS_WORDS)
@settings(max_examples=8)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    more=st.integers(0, 3),
    seed=st.integers(0, 99),
)
@torch.inference_mode()
def test_padding_and_other_sentences_never_change_a_score(
    kind: str, lengths: list[int], more: int, seed: int
) -> None:
    matcher, texts = fitted(kind), sentences(*lengths, seed=seed)
    padded = torch.randint(WORDS, (len(texts), max(lengths) + more))
    for row, words in zip(padded, texts.words.split(lengths), strict=True):
        row[: len(words)] = words
    read = Sentences.from_padded(padded, texts.lengths, texts.vectors)
    scores = matcher(images(), read)
    assert torch.equal(scores, matcher(images(), texts))
    if kind in NEEDS_NO_VECTORS:
        assert torch.equal(scores, matcher(images(), (padded, texts.lengths)))
    alone = [matcher(images(), taken(texts, [row])) for row in range(len(texts))]
    torch.testing.assert_close(scores, torch.cat(alone, dim=1), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", NEEDS_NO_WORDS)
def test_vectors_alone_are_enough_where_no_words_are_read(kind: str) -> None:
    matcher = fitted(kind)
    torch.testing.assert_close(matcher(images(), TEXTS.vectors), matcher(images(), TEXTS), rtol=0, atol=0)


@every_matcher
@torch.inference_mode()
def test_forward_hooks_see_inputs_and_scores(kind: str) -> None:
    matcher, seen = fitted(kind), []
    matcher.register_forward_pre_hook(lambda module, inputs: seen.append(inputs))
    matcher.register_forward_hook(lambda module, inputs, scores: seen.append(scores))
    x = images()
    scores = matcher(x, TEXTS)
    assert len(seen) == 2
    assert seen[0] == (x, TEXTS)
    assert seen[1] is scores


@pytest.mark.slow
@pytest.mark.parametrize("kind", EMBEDDING)
@torch.no_grad()
def test_compiled_matchers_score_like_eager_ones(kind: str) -> None:
    """Without a graph break where no words are read: how many there are decides on the shapes."""
    torch.compiler.reset()
    matcher, whole = fitted(kind), kind in NEEDS_NO_WORDS
    compiled = torch.compile(matcher, backend="eager", fullgraph=whole)
    texts = TEXTS.vectors if whole else TEXTS
    torch.testing.assert_close(compiled(images(), texts), matcher(images(), texts), atol=1e-6, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in NEEDS_NO_WORDS if kind in EMBEDDING])
@torch.no_grad()
def test_exported_for_any_number_of_images_and_sentences(kind: str) -> None:
    matcher, vectors = fitted(kind), torch.randn(5, VECTOR)
    shapes = tuple({0: torch.export.Dim(name, min=2, max=64)} for name in ("n", "m"))
    exported = torch.export.export(matcher, (images(), TEXTS.vectors), dynamic_shapes=shapes).module()
    torch.testing.assert_close(exported(images(n=7), vectors), matcher(images(n=7), vectors))


@pytest.mark.parametrize("kind", [kind for kind in EMBEDDING if kind != "cca"])  # it has no gradients
def test_features_of_zeros_do_not_enlarge_gradients(kind: str) -> None:
    """Of a division by the length of a vector, which is zero at first."""
    torch.manual_seed(0)
    matcher = settings_of(kind).build(INPUTS)
    assert isinstance(matcher, Matcher)
    x, vectors = images(), TEXTS.vectors.clone()
    x[0], vectors[0] = 0, 0
    matcher(x, replace(TEXTS, vectors=vectors)).sum().backward()
    gradients = [p.grad for p in matcher.parameters() if p.grad is not None]
    assert all(each.abs().max() < 1e4 for each in gradients)


@pytest.mark.parametrize("kind", [kind for kind in EMBEDDING if kind != "fine-tuned"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@torch.inference_mode()
def test_features_of_zeros_in_half_precision(kind: str, dtype: torch.dtype) -> None:
    x, vectors = images().to(dtype), TEXTS.vectors.to(dtype)
    x[0], vectors[0] = 0, 0
    assert fitted(kind).to(dtype)(x, replace(TEXTS, vectors=vectors)).isfinite().all()


@every_matcher
def test_a_matcher_can_be_copied_during_training(kind: str) -> None:
    matcher = fitted(kind).train()
    scores = matcher(images(), TEXTS)
    copied = copy.deepcopy(matcher)
    assert scores.shape == copied(images(), TEXTS).shape


@every_matcher
@torch.inference_mode()
def test_the_state_dict_holds_all(kind: str) -> None:
    matcher, other = fitted(kind), fitted(kind, seed=1)
    scores = matcher(images(), TEXTS)
    assert not torch.equal(other(images(), TEXTS), scores)
    other.load_state_dict(matcher.state_dict(), strict=True)
    assert torch.equal(other(images(), TEXTS), scores)


@every_matcher
@torch.inference_mode()
def test_double_precision_gives_the_same(kind: str) -> None:
    matcher, texts = fitted(kind), replace(TEXTS, vectors=TEXTS.vectors.double())
    single = matcher(images(), TEXTS)
    double = matcher.double()(images().double(), texts)
    torch.testing.assert_close(double.float(), single, atol=1e-4, rtol=1e-4)


@every_matcher
@pytest.mark.parametrize("device", ["cpu", "cuda"])
@torch.inference_mode()
def test_it_moves_to_a_device(kind: str, device: str) -> None:
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    matcher = fitted(kind)
    here = matcher(images(), TEXTS)
    moved = matcher.to(device)
    assert {each.device.type for each in moved.state_dict().values()} == {device}
    there = moved(images().to(device), TEXTS.to(device))
    assert there.device.type == device
    torch.testing.assert_close(there.cpu(), here, atol=1e-3, rtol=1e-3)


@every_matcher
def test_all_that_learns_gets_a_finite_gradient(kind: str) -> None:
    matcher = fitted(kind)
    loss = matcher(images(), TEXTS).square().sum()
    generates = isinstance(matcher, SCO) and matcher.generation is not None
    extra = matcher.generation_loss(images(n=len(TEXTS)), TEXTS, 0.5) if generates else None
    if not loss.requires_grad:
        assert kind == "cca"  # which has a closed form
        return
    (loss if extra is None else loss + extra).backward()
    learned = {n: p.grad for n, p in matcher.named_parameters() if p.requires_grad and "e_gate" not in n}
    assert learned  # all but the gates of a fusion, which weigh queries
    assert all(gradient is not None and gradient.isfinite().all() for gradient in learned.values())


def test_the_classifier_of_concepts_takes_images_alone() -> None:
    built = MATCHERS.parse({"kind": "concepts", "hidden": 5})
    assert isinstance(built, MatcherSettings)
    classifier = built.build(INPUTS)
    assert not isinstance(classifier, Matcher)
    assert classifier(images()).shape == (IMAGES, WORDS - 1)  # all words but the unknown one
    with pytest.raises(SeesayError, match=r"images: expected features of shape \(n, 15\), got \(4, 3\)"):
        classifier(torch.rand(4, 3))


def test_branches_of_one_layer_must_be_of_one_width() -> None:
    with pytest.raises(SeesayError, match=r"key 'linear': .* they are 12 and 10"):
        settings_of("embedding-network", linear=True)
    with pytest.raises(SeesayError, match=r"linear: .* they are 12 and 2048"):
        TwoBranchEmbedding(IMAGES, VECTOR, image_hidden=12, linear=True)


@pytest.mark.parametrize("kind", [kind for kind in CASES if not settings_of(kind).is_composed])
def test_fractional_widths_are_refused_by_name(kind: str) -> None:
    for dims in ((0, 0), (-6, 0), (2.5, 0)):
        with pytest.raises(SeesayError, match=r"image_dims?: input should be"):
            settings_of(kind).build(replace(INPUTS, image_dims=dims))


REGULARISED = ["vse++", "sco", "embedding-network", "similarity-network"]


def _regularised(kind: str, **changes: object) -> Matcher:
    torch.manual_seed(0)
    built = settings_of(kind, **changes).build(INPUTS)
    assert isinstance(built, Matcher)
    return built


@pytest.mark.parametrize("kind", REGULARISED)
def test_standardised_features_have_no_scale_and_no_mean(kind: str) -> None:
    built = _regularised(kind, standardise=True, **({"dropout": 0} if "network" in kind else {}))
    images, sentences = torch.rand(16, sum(DIMS)), _sentences(16)
    moved = 30 * images + torch.arange(sum(DIMS))
    built.train()
    assert torch.allclose(built(images, sentences), built(moved, sentences), atol=1e-3)
    built.eval()  # the statistics that training saw stay
    assert not torch.allclose(built(images, sentences), built(moved, sentences), atol=1e-2)


@pytest.mark.parametrize("kind", REGULARISED)
@pytest.mark.parametrize("side", ["image_dropout", "sentence_dropout"])
def test_dropout_is_for_training(kind: str, side: str) -> None:
    built = _regularised(kind, **{side: 0.5}, **({"dropout": 0} if "network" in kind else {}))
    images, sentences = torch.rand(6, sum(DIMS)), _sentences(6)
    built.train()
    assert not torch.allclose(built(images, sentences), built(images, sentences))
    built.eval()
    assert torch.equal(built(images, sentences), built(images, sentences))


def _sentences(count: int) -> Sentences:
    generator = torch.Generator().manual_seed(5)
    words = torch.randint(WORDS, (3 * count,), generator=generator)
    return Sentences(words, torch.full((count,), 3), torch.rand(count, VECTOR, generator=generator))


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: SCO((6, 5), 10, fusion="gat"), "fusion: input should be 'gate', 'scaled-gate'"),  # type: ignore[arg-type]
        (
            lambda: SCO((6, 5), 10, generation={"role": "x"}),
            "generation: input should be 'supervision' or 'sentence'",
        ),  # type: ignore[arg-type]
        (lambda: MatchingCNN(6, 10, level="x"), "level: input should be 'wd'"),  # type: ignore[arg-type]
        (lambda: MatchingCNN(6, 10, start="prod"), "start: input should be 'random'"),  # type: ignore[arg-type]
        (lambda: MatchingCNN(6, 10, word_vectors="w2v"), "word_vectors: .* is none of glove, minilm"),
        (
            lambda: MatchingCNN(6, 10, word_vectors="a.txt"),
            "word_dim: give the width of the vectors of a.txt",
        ),
        (lambda: MatchingCNN(6, 10, word_dim=9), "word_dim: give the width of the vectors of glove, 50"),
        (lambda: VSEPlusPlus(6, 10, standardise="root"), "standardise: input should be"),  # type: ignore[arg-type]
        (lambda: MatchingCNN(6, 10, maps=(4, 4)), "maps: field required"),  # type: ignore[arg-type]
        (lambda: MatchingCNN(6, 10, maps=(4, 4, 6), start="product"), "divisible by four"),
        (lambda: TwoBranchEmbedding(6), "sentence_dim: without an LSTM"),
        (lambda: SimilarityNetwork(6, 5, head=(0,)), "head: input should be greater than 0"),
    ],
)
def test_unknown_arguments_of_a_constructor_are_refused(make: Callable[[], object], told: str) -> None:
    with pytest.raises(SeesayError, match=told):
        make()
