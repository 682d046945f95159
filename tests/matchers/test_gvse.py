"""GVSE against plain loops: uncommon VSE, and eq. 4 of metric fusion in the matcher and in an index."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from seesay.data.readers import read_corpus
from seesay.errors import SeesayError
from seesay.matchers.gvse import GVSE, Gate, GateSettings, UncommonVSE
from seesay.matchers.layers import missing_instances, normalised_instances
from seesay.matchers.sentences import Sentences
from seesay.matchers.settings import MATCHERS, MatcherInputs
from seesay.recipes.load import load_recipe
from seesay.runs.run import Run
from seesay.runs.summary import TrainingSummary
from seesay.search.index import Index
from seesay.search.tables import Content
from seesay.training.train import train
from tests.matchers.taken import taken
from tests.search.stores import put_photos

COUNT, F, H, T, S = 5, 7, 6, 3, 4  # instances, their width, dim, steps, sentence_dim


def matcher(steps: int = T, seed: int = 0) -> UncommonVSE:
    torch.manual_seed(seed)
    return UncommonVSE(COUNT * F, S, instances=COUNT, dim=H, steps=steps, attention=8).eval()


def probabilities(seed: int, images: int = 3, there: int = COUNT) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    rows = torch.zeros(images, COUNT, F)
    rows[:, :there] = torch.rand(images, there, F, generator=generator).softmax(dim=2)
    return rows.reshape(images, -1)


class Classes:
    """Pretrained vectors of classes, by chance."""

    def class_vectors(self) -> np.ndarray:
        return np.random.default_rng(0).standard_normal((1000, 384)).astype(np.float32)

    def word_vectors(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        raise AssertionError(name)


def test_class_names_are_the_mean_of_their_vectors_weighted_by_probability() -> None:
    torch.manual_seed(0)
    built = UncommonVSE(2 * 1000, S, instances=2, dim=H, steps=0, class_names=True).eval()
    built.prepare(Classes())
    of_classes = Classes().class_vectors().astype(float)
    of_classes -= of_classes.mean(axis=0)
    of_classes /= np.linalg.norm(of_classes, axis=1, keepdims=True)
    p = torch.rand(1, 2, 1000).softmax(dim=2)
    rows = []
    for instance in p[0].double().numpy():
        name = instance @ of_classes
        roots = np.sqrt(instance / instance.sum())
        both = np.concatenate([roots, name / np.linalg.norm(name)])
        rows.append(both / np.sqrt(2))
    weight, bias = (each.detach().double().numpy() for each in built.image_map.parameters())
    expected = weight @ np.mean(rows, axis=0) + bias
    found = built.embed_images(p.reshape(1, -1)).detach().numpy()[0]
    np.testing.assert_allclose(found, expected / np.linalg.norm(expected), atol=1e-5)


def test_names_need_probabilities_of_classes() -> None:
    with pytest.raises(SeesayError, match="instances are 7 numbers, not the probabilities of the 1000"):
        UncommonVSE(COUNT * F, S, instances=COUNT, class_names=True)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def by_a_loop(built: UncommonVSE, instances: np.ndarray) -> np.ndarray:
    """Eq. 1 as printed and an LSTM as its textbook has it, for one image: v, unit."""
    w = {key: value.double().numpy() for key, value in built.relation.state_dict().items()}
    hidden, memory = np.zeros(H), np.zeros(H)
    for _ in range(T):
        scores = []
        for a in instances:
            both = w["image_map.weight"] @ a + w["image_map.bias"] + w["state_map.weight"] @ hidden
            scores.append(float(w["saliency.weight"][0] @ np.tanh(both)))
        p = [np.exp(score) / sum(np.exp(other) for other in scores) for score in scores]
        attended = sum(p_i * a for p_i, a in zip(p, instances, strict=True))
        gates = w["lstm.weight_ih"] @ attended + w["lstm.bias_ih"] + w["lstm.weight_hh"] @ hidden
        i, f, g, o = np.split(gates + w["lstm.bias_hh"], 4)
        memory = sigmoid(f) * memory + sigmoid(i) * np.tanh(g)
        hidden = sigmoid(o) * np.tanh(memory)
    return hidden / np.linalg.norm(hidden)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("there", [1, 3, COUNT])
def test_attention_equals_a_loop_over_eq_1(seed: int, there: int) -> None:
    built = matcher(seed=seed)
    for weights in built.parameters():  # from chance biases are zero: then a loop without them would do
        torch.nn.init.normal_(weights, std=0.7)
    images = probabilities(seed, there=there)
    with torch.inference_mode():
        vectors = built.embed_images(images)
    for row, image in enumerate(images.double().numpy().reshape(-1, COUNT, F)):
        expected = by_a_loop(built, np.sqrt(image[:there]))
        np.testing.assert_allclose(vectors[row], expected, atol=1e-5)


def test_without_steps_the_image_vector_is_a_map_of_the_mean() -> None:
    built = matcher(steps=0)
    images = probabilities(4, there=3)
    mean = np.sqrt(images.numpy().reshape(-1, COUNT, F)[:, :3]).mean(axis=1)
    mapped = mean @ built.image_map.weight.detach().numpy().T + built.image_map.bias.detach().numpy()
    expected = mapped / np.linalg.norm(mapped, axis=1, keepdims=True)
    np.testing.assert_allclose(built.embed_images(images).detach(), expected, atol=1e-5)


@settings(max_examples=10)
@given(seed=st.integers(0, 10_000), there=st.integers(1, COUNT - 1), steps=st.sampled_from([0, T]))
def test_neither_padding_nor_the_order_of_instances_changes_a_vector(
    seed: int, there: int, steps: int
) -> None:
    padded, bare = matcher(steps), UncommonVSE(there * F, S, there, H, steps, attention=8)
    bare.load_state_dict(padded.state_dict())
    images = probabilities(seed, there=there)
    alone = images.reshape(-1, COUNT, F)[:, :there].reshape(len(images), -1)
    shuffled = images.reshape(-1, COUNT, F)[:, torch.randperm(COUNT)].reshape(len(images), -1)
    with torch.inference_mode():
        vectors = padded.embed_images(images)
        torch.testing.assert_close(vectors, bare.embed_images(alone), atol=1e-5, rtol=0)
        torch.testing.assert_close(vectors, padded.embed_images(shuffled), atol=1e-5, rtol=0)


@pytest.mark.parametrize("steps", [0, T])
def test_an_image_whose_instances_are_all_missing_has_a_vector(steps: int) -> None:
    images = torch.cat([torch.zeros(1, COUNT * F), probabilities(1)])
    vectors = matcher(steps).embed_images(images)
    vectors.sum().backward()
    assert torch.isfinite(vectors).all()


def test_scores_are_cosines_of_a_linear_map_of_the_frozen_vector() -> None:
    built = matcher()
    vectors = torch.randn(4, S)
    sentences = Sentences(torch.zeros(4, dtype=torch.int64), torch.ones(4, dtype=torch.int64), vectors)
    mapped = vectors @ built.sentence_map.weight.T + built.sentence_map.bias
    images = built.embed_images(probabilities(2))
    expected = torch.nn.functional.cosine_similarity(images[:, None], mapped[None], dim=2)
    torch.testing.assert_close(built(probabilities(2), sentences), expected, atol=1e-5, rtol=0)


def test_a_width_that_is_no_multiple_of_the_instances_is_refused() -> None:
    with pytest.raises(SeesayError, match="36 numbers are not 5 instances"):
        UncommonVSE(36, S, instances=COUNT)


SMALL = [
    "sentence_encoder=mean",
    "matcher.dim=48",
    "matcher.attention=16",
    "matcher.instances=6",
    "encoders=[precomputed]",
    "loss={kind: margin, margin: 0.2}",  # all violations: a few epochs are enough
    "optimizer.grad_clip=2",
    "optimizer.lr=0.01",
    "schedule.epochs=6",
    "batch_size=20",
    "schedule.shape=constant",
]


def write_regions(folder: Path, regions: int, seed: int = 0) -> Path:
    """Images of coloured things: a region shows one of eight, and each sentence names two that are there."""
    names = ["red", "green", "blue", "yellow", "purple", "orange", "black", "pink"]
    generator = np.random.default_rng(seed)
    for split, count in (("train", 80), ("dev", 20), ("test", 20)):
        features, captions = np.full((count, regions, len(names)), 0.01, np.float32), []
        for image in range(count):
            shown = generator.choice(len(names), regions, replace=False)
            features[image, np.arange(regions), shown] = 1
            captions += [f"a {names[shown[i]]} ball and a {names[shown[i - 1]]} ball" for i in range(5)]
        np.save(folder / f"{split}_ims.npy", features)
        (folder / f"{split}_caps.txt").write_text("\n".join(captions) + "\n")
    return folder


def test_a_run_learns_from_a_file_of_regions(tmp_path: Path) -> None:
    corpus = read_corpus(write_regions(tmp_path, regions=5))
    recipe = load_recipe("gvse-uncommon-relation", changes=SMALL)
    train(recipe, corpus, tmp_path / "run")
    run = Run.load(str(tmp_path / "run"))
    assert run.matcher.instances == 6
    assert TrainingSummary.load(tmp_path / "run").epochs == 6
    features = np.load(tmp_path / "test_ims.npy")
    padded = np.pad(features, ((0, 0), (0, 1), (0, 0))).reshape(len(features), -1)
    texts = (tmp_path / "test_caps.txt").read_text().splitlines()
    scores = run.embed_features(padded) @ run.embed_sentences(texts).T
    ranks = (scores > scores[np.arange(100) // 5, np.arange(100)]).sum(axis=0)
    assert (ranks < 5).mean() > 0.5  # of 20 images; by chance a quarter


@pytest.mark.parametrize(("regions", "said"), [(7, "7 regions per image"), (0, "global features per image")])
def test_a_wrong_number_of_instances_says_what_to_do(tmp_path: Path, regions: int, said: str) -> None:
    write_regions(tmp_path, regions or 5)
    if not regions:
        for path in tmp_path.glob("*.npy"):
            np.save(path, np.load(path)[:, 0])
    recipe = load_recipe("gvse-uncommon-relation", changes=SMALL)
    with pytest.raises(SeesayError, match=rf"{said}.*matcher\.instances"):
        train(recipe, read_corpus(tmp_path), tmp_path / "run")


UNCOMMON = MATCHERS["embedding-network"](dim=6, image_hidden=9, sentence_hidden=9)
COMMON = MATCHERS["sco"](dim=8, word_dim=5, fusion="context")
WORDS, VECTOR, N, M = 12, 7, 20, 30


def fusion(gate: GateSettings | None) -> GVSE:
    """Of three arrays of an image the first member takes the last, the second the other two."""
    torch.manual_seed(0)
    settings = MATCHERS["metric-fusion"](
        members=("u", "c"), gate=gate, matchers=(UNCOMMON, COMMON), parts=((2,), (0, 1))
    )
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


@torch.inference_mode()
def test_eq_4_by_image_queries_and_by_sentence_queries(images, sentences):
    matcher = fusion(GateSettings(hidden=4))
    (m0, m1), x, y = two_metrics(matcher, images, sentences)
    t = gate_by_hand(matcher.image_gate, x)
    assert 0.1 < t.std() < 0.5
    scores = matcher.query_images(images) @ matcher.embed_sentences(sentences).T
    assert torch.allclose(scores, t[:, None] * m0 + (1 - t)[:, None] * m1, atol=1e-5)
    t = gate_by_hand(matcher.sentence_gate, y)
    scores = matcher.embed_images(images) @ matcher.query_sentences(sentences).T
    assert torch.allclose(scores, t[None] * m0 + (1 - t)[None] * m1, atol=1e-5)


def test_a_new_gate_weights_both_metrics_alike(images):
    torch.manual_seed(0)
    gate = Gate([4, 8], 5)
    assert (gate(images) == 0).all()


class Prepared(Run):
    """A fusion whose images and sentences are numbers: that of their row."""

    name, fingerprint, dim, side, calibration = "fusion", "1", 14, 256, None

    def __init__(self, matcher, images, sentences):
        self._matcher, self.images, self.sentences = matcher, images, sentences

    def unknown_words(self, sentences):
        return []

    def corrections(self, sentences):
        return {}

    @torch.inference_mode()
    def embed_sentences(self, sentences, query=False):
        embed = self.matcher.query_sentences if query else self.matcher.embed_sentences
        # An index asks for sentences of its own too, to learn which scores are by chance.
        rows = [int(text) if text.isdigit() else len(text) % M for text in sentences]
        return embed(taken(self.sentences, rows)).numpy()

    @torch.inference_mode()
    def embed_photos(self, photos, query=False):
        return self.embed_numbers([int(photo.pixels[0, 0, 0]) for photo in photos], query)

    def embed_numbers(self, numbers, query=False):
        embed = self.matcher.query_images if query else self.matcher.embed_images
        return embed(self.images[numbers]).numpy()


@torch.inference_mode()
def test_an_index_ranks_exactly_like_eq_4(images, sentences, tmp_path):
    matcher = fusion(GateSettings(hidden=4))
    _, x, y = two_metrics(matcher, images, sentences)
    embedder = Prepared(matcher, images, sentences)
    index = Index.create(tmp_path / "index", embedder)
    index.add_sentences([str(i) for i in range(M)])
    rows = enumerate(embedder.embed_numbers(list(range(N))))
    # Content keys are hexadecimal.
    put_photos(index.store, {f"{row}.jpg": (f"{row:032x}", Content(vector, (1, 1))) for row, vector in rows})
    by_image = gate_by_hand(matcher.image_gate, x)[:, None]
    by_sentence = gate_by_hand(matcher.sentence_gate, y)[:, None]
    for row, expected in enumerate(by_the_formula(by_image, x, y)):
        hits = index.sentences_for(b"P6 1 1 255\n" + bytes([row] * 3), M)
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
        MATCHERS["metric-fusion"](members=("u", "c")).build(MatcherInputs((4,), WORDS, VECTOR))


def test_missing_regions_are_zeros_in_half_precision_too() -> None:
    images = torch.zeros(2, 6, dtype=torch.float16)
    images[0, :3] = torch.tensor([0.2, 0.3, 0.5])
    found = normalised_instances(images, 2, torch.float16)
    assert found.isfinite().all()
    assert missing_instances(found).tolist() == [[False, True], [False, False]]
