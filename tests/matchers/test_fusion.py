"""Metric fusion against eq. 4 written out with two score matrices, in the matcher and in an index."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from seesay.errors import SeesayError
from seesay.matchers.base import MatcherInputs
from seesay.matchers.gvse import GVSE, Gate, GateSettings, GVSESettings
from seesay.matchers.sco import SCOSettings
from seesay.matchers.sentences import Sentences
from seesay.matchers.two_branch import TwoBranchEmbeddingSettings
from seesay.search.index import Index

UNCOMMON = TwoBranchEmbeddingSettings(dim=6, image_hidden=9, sentence_hidden=9)
COMMON = SCOSettings(dim=8, word_dim=5, fusion="context")
WORDS, VECTOR, N, M = 12, 7, 20, 30


def fusion(gate: GateSettings | None) -> GVSE:
    """Of three arrays of an image the first member takes the last, the second the other two."""
    torch.manual_seed(0)
    settings = GVSESettings(members=("u", "c"), gate=gate, matchers=(UNCOMMON, COMMON), parts=((2,), (0, 1)))
    built = settings.build(MatcherInputs((4, 3, 5), WORDS, VECTOR))
    assert isinstance(built, GVSE)
    for each in (built.image_gate, built.sentence_gate):
        if each is not None:
            torch.nn.init.normal_(each.score.weight)
    return built.eval()


@pytest.fixture
def images() -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(1).normal(size=(N, 12)).astype(np.float32))


@pytest.fixture
def sentences() -> Sentences:
    draw = np.random.default_rng(2)
    lengths = draw.integers(1, 6, M)
    words = torch.from_numpy(draw.integers(0, WORDS, int(lengths.sum())))
    vectors = torch.from_numpy(draw.normal(size=(M, VECTOR)).astype(np.float32))
    return Sentences(words, torch.from_numpy(lengths), vectors)


def two_metrics(matcher, images, sentences):
    """The members' own score matrices, (N, M) each, and their vectors of either side, side by side."""
    u, c = matcher.members
    x, y = (
        [u.embed_images(images[:, 7:]), c.embed_images(images[:, :7])],
        [member.embed_sentences(sentences) for member in (u, c)],
    )
    return [a @ b.T for a, b in zip(x, y, strict=True)], torch.cat(x, dim=1), torch.cat(y, dim=1)


def gate_by_hand(gate: Gate, vectors: torch.Tensor) -> torch.Tensor:
    """σ(f(x)) with the numbers of each vector times the root of its width."""
    scaled = torch.cat([vectors[:, :6] * 6**0.5, vectors[:, 6:] * 8**0.5], dim=1)
    hidden = functional.relu(scaled @ gate.hidden.weight.T + gate.hidden.bias)
    return torch.sigmoid(hidden @ gate.score.weight[0] + gate.score.bias)


@torch.inference_mode()
def test_the_sum_is_the_sum_of_the_metrics(images, sentences):
    matcher = fusion(None)
    (first, second), _, _ = two_metrics(matcher, images, sentences)
    assert torch.allclose(matcher(images, sentences), first + second, atol=1e-6)
    assert not matcher.asymmetric
    assert torch.equal(matcher.query_images(images), matcher.embed_images(images))
    assert (matcher.image_weights(images) == 0.5).all()


@torch.inference_mode()
def test_eq_4_by_image_queries_and_by_sentence_queries(images, sentences):
    matcher = fusion(GateSettings(hidden=4))
    (m0, m1), x, y = two_metrics(matcher, images, sentences)
    t = gate_by_hand(matcher.image_gate, x)
    assert 0.1 < t.std() < 0.5
    assert torch.allclose(matcher.image_weights(images), t, atol=1e-6)
    asked = matcher.query_images(images) @ matcher.embed_sentences(sentences).T
    assert torch.allclose(asked, t[:, None] * m0 + (1 - t)[:, None] * m1, atol=1e-5)
    t = gate_by_hand(matcher.sentence_gate, y)
    assert torch.allclose(matcher.sentence_weights(sentences), t, atol=1e-6)
    asked = matcher.embed_images(images) @ matcher.query_sentences(sentences).T
    assert torch.allclose(asked, t[None] * m0 + (1 - t)[None] * m1, atol=1e-5)


def test_a_new_gate_knows_nothing(images):
    torch.manual_seed(0)
    gate = Gate([4, 8], 5)
    assert (gate(images) == 0).all()


class Prepared:
    """A fusion whose images and sentences are numbers: that of their row."""

    name, fingerprint, dim = "fusion", "1", 14

    def __init__(self, matcher, images, sentences):
        self.matcher, self.images, self.sentences = matcher, images, sentences

    @torch.inference_mode()
    def embed_sentences(self, sentences, query=False):
        embed = self.matcher.query_sentences if query else self.matcher.embed_sentences
        return embed(self.sentences.take(torch.tensor([int(text) for text in sentences]))).numpy()

    @torch.inference_mode()
    def embed_image_files(self, images, names, query=False):
        embed = self.matcher.query_images if query else self.matcher.embed_images
        return embed(self.images[[int(image) for image in images]]).numpy(), [None] * len(images)


@torch.inference_mode()
def test_an_index_ranks_exactly_as_the_formula(images, sentences, tmp_path):
    matcher = fusion(GateSettings(hidden=4))
    _, x, y = two_metrics(matcher, images, sentences)
    embedder = Prepared(matcher, images, sentences)
    index = Index.create(tmp_path / "index", embedder)
    index.add_sentences([str(i) for i in range(M)])
    with index.store.write() as writer:
        for row, vector in enumerate(embedder.embed_image_files(range(N), range(N))[0]):
            writer.put_vector("image", str(row), vector)
            writer.put_image(f"{row}.jpg", str(row), 0, 1)
    by_image = gate_by_hand(matcher.image_gate, x)[:, None]
    by_sentence = gate_by_hand(matcher.sentence_gate, y)[:, None]
    for row, expected in enumerate(by_the_formula(by_image, x, y)):
        hits = index.sentences_for(str(row).encode(), M)
        assert [int(hit.text) for hit in hits] == (-expected).argsort().tolist()
        assert np.allclose([hit.score for hit in hits], expected.sort(descending=True).values, atol=1e-5)
    for row, expected in enumerate(by_the_formula(by_sentence, y, x)):
        hits = index.search(str(row), N)
        assert [int(hit.path.removesuffix(".jpg")) for hit in hits] == (-expected).argsort().tolist()


def by_the_formula(t, queries, candidates):
    """Eq. 4 in double precision, candidates rounded as an index keeps them."""
    queries, kept = queries.double(), candidates.half().double()
    first, second = queries[:, :6] @ kept[:, :6].T, queries[:, 6:] @ kept[:, 6:].T
    return t.double() * first + (1 - t.double()) * second


def test_settings_that_are_not_resolved():
    with pytest.raises(SeesayError, match="u, c come with the settings of 0 matchers"):
        GVSESettings(members=("u", "c")).build(MatcherInputs((4,), WORDS, VECTOR))
