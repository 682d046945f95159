"""Exporting a run's matcher: the graphs compute what PyTorch does, and hold no weights."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor, nn

from seesay.errors import SeesayError
from seesay.matchers import ConceptClassifier, EmbeddingMatcher, PairMatcher, Sentences
from seesay.runs.config import RunConfig
from seesay.runs.export import TOLERANCE, export_run, remove_export, try_export
from seesay.runs.folder import WEIGHTS, included_runs
from seesay.runs.onnx_backend import OnnxBackend, score_all_pairs
from seesay.runs.prepare import PreparedSentences
from seesay.runs.run import Run
from seesay.runs.torch_backend import save_weights
from tests.matchers.test_registered import CASES, DIMS, VECTOR, WORDS
from tests.runs.exporting import VARIANTS, drawn_run, save

FOR_EMBEDDING = {"images.onnx", "sentences.onnx"}
FOR_QUERIES = FOR_EMBEDDING | {"query_images.onnx", "query_sentences.onnx"}
FOR_PAIRS = FOR_EMBEDDING | {"pairs.onnx"}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Run]:
    """A function that returns an exported run of a variant, which no test changes."""

    @cache
    def exported_run(name: str, half: bool) -> Run:
        run = drawn_run(name, tmp_path_factory.mktemp("exported"), half)
        export_run(run)
        return run

    return exported_run


@pytest.fixture(scope="module", params=VARIANTS)
def run(request: pytest.FixtureRequest, exported: Callable[..., Run]) -> Run:
    return exported(request.param, half=False)


def drawn(run: Run, n: int, lengths: list[int], seed: int) -> tuple[Tensor, Sentences]:
    torch.manual_seed(seed)
    words = torch.randint(WORDS, (sum(lengths),))
    sentences = Sentences(words, torch.tensor(lengths), torch.randn(len(lengths), VECTOR))
    return torch.randn(n, sum(run.config.image_dims)), sentences


@lru_cache(maxsize=2)
def backend(run: Run) -> OnnxBackend:
    """The exported matcher of a run; its graphs stay open while one test after the other asks for them."""
    return OnnxBackend(run.folder, run.config)


@torch.no_grad()
def outputs(run: Run, images: Tensor, sentences: Sentences) -> Iterator[tuple[np.ndarray, Tensor]]:
    """What the exported matcher computes, and what PyTorch does."""
    exported, matcher = backend(run), run.matcher
    texts = PreparedSentences(
        *(part.numpy() for part in (sentences.words, sentences.lengths, sentences.vectors))
    )
    features = images.numpy()
    rows, columns = exported.encode_images(features), exported.encode_sentences(texts)
    if isinstance(matcher, EmbeddingMatcher):
        yield rows, matcher.embed_images(images)
        yield columns, matcher.embed_sentences(sentences)
        yield exported.encode_images(features, query=True), matcher.query_images(images)
        yield exported.encode_sentences(texts, query=True), matcher.query_sentences(sentences)
        yield rows @ columns.T, matcher(images, sentences)
    else:
        assert isinstance(matcher, PairMatcher)
        yield rows, matcher.encode_images(images)
        yield columns, matcher.encode_sentences(sentences)
        yield score_all_pairs(exported, rows, columns), matcher(images, sentences)


def test_every_registered_matcher_is_exported_here() -> None:
    assert {kind for kind, _ in VARIANTS.values()} == set(CASES)


@settings(max_examples=5)
@given(
    n=st.integers(1, 6),
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    seed=st.integers(0, 1000),
)
def test_any_batch_gives_what_pytorch_gives(run: Run, n: int, lengths: list[int], seed: int) -> None:
    for found, wanted in outputs(run, *drawn(run, n, lengths, seed)):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, wanted.numpy(), atol=TOLERANCE, rtol=TOLERANCE)


def test_the_export_describes_the_run(run: Run) -> None:
    export = RunConfig.load(run.folder)
    assert export == run.config
    matcher = run.matcher
    assert export.kind == run.recipe.matcher.kind
    assert export.embeds == isinstance(matcher, EmbeddingMatcher)
    assert export.asymmetric == run.asymmetric
    one = PreparedSentences(np.array([1, 2]), np.array([2]), np.ones((1, VECTOR), np.float32))
    assert export.dim == (run.embed_prepared(one).shape[1] if export.embeds else None)
    graphs = FOR_QUERIES if export.asymmetric else FOR_EMBEDDING if export.embeds else FOR_PAIRS
    assert {f"{name}.onnx" for name in export.graphs} == graphs
    assert {path.name for path in run.folder.iterdir()} == {"weights.safetensors", "run.json", *graphs}


@pytest.mark.parametrize("name", ["vse++", "mcnn", "projection, class names", "metric-fusion"])
def test_weights_in_half_precision_are_read_as_they_are(name: str, exported: Callable[..., Run]) -> None:
    run = exported(name, half=True)
    for found, wanted in outputs(run, *drawn(run, 3, [1, 5, 35], 0)):
        np.testing.assert_allclose(found, wanted.numpy(), atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("name", ["vse++", "irmatch", "mcnn", "projection", "embedding-network, lstm"])
def test_graphs_hold_no_weights(name: str, half: bool, exported: Callable[..., Run], tmp_path: Path) -> None:
    """Other weights in their place, of the same sizes, change what the same graphs compute."""
    run = exported(name, half=half)
    folder = Path(shutil.copytree(run.folder, tmp_path / "run"))
    weights = load_file(folder / WEIGHTS)
    save_weights(folder, {key: torch.zeros_like(tensor) for key, tensor in weights.items()})
    features = np.ones((3, sum(DIMS)), np.float32)
    texts = PreparedSentences(np.arange(7), np.array([2, 1, 4]), np.zeros((3, VECTOR), np.float32))
    zeroed = OnnxBackend(folder, run.config)
    for rows in (zeroed.encode_images(features), zeroed.encode_sentences(texts)):
        assert not rows[np.isfinite(rows)].any()


def test_exports_of_shipped_runs_are_current_and_small() -> None:
    for folder in included_runs():
        graphs = RunConfig.load(folder).graphs
        assert graphs, f"{folder}: export it again with seesay_weights.ship"
        assert sum((folder / f"{name}.onnx").stat().st_size for name in graphs) < 40_000


def test_a_shipped_run_embeds_as_with_pytorch() -> None:
    run = Run.load("seesay-small", "cpu")
    texts = run.prepare(["a dog", "two men play chess in a park while children watch", "xylophone"])
    found = run.embed_prepared(texts)
    assert found.shape[1] == run.config.dim == run.dim
    with torch.no_grad():
        wanted = run.matcher.embed_sentences(texts.to_tensors())  # type: ignore[operator]
    np.testing.assert_allclose(found, wanted.numpy(), atol=1e-5)


class Own(EmbeddingMatcher):
    def __init__(self) -> None:
        super().__init__()
        self.images, self.words = nn.Linear(sum(DIMS), 4), nn.Embedding(WORDS, 4)

    def embed_images(self, images: Tensor) -> Tensor:
        return self.images(images)

    def embed_sentences(self, sentences: Sentences) -> Tensor:
        ids, lengths = sentences.padded()
        there = torch.arange(ids.shape[1]) < lengths[:, None]
        return (self.words(ids) * there[:, :, None]).sum(dim=1) / lengths[:, None]


class Fixed(Own):
    def embed_sentences(self, sentences: Sentences) -> Tensor:
        first = [words[0] for words in sentences.words.split(sentences.lengths.tolist())]
        return self.words(torch.stack(first))


class Odd(Own):
    def embed_images(self, images: Tensor) -> Tensor:
        return torch.linalg.svd(self.images(images))[0]


def own_run(module: nn.Module, folder: Path) -> Run:
    base = drawn_run("vse++", folder)
    run = Run.from_matcher(folder, base.recipe, base.vocabulary, base.sentence_encoder, module, DIMS)
    save(run)
    return run


def test_your_own_matcher_is_exported(tmp_path: Path) -> None:
    run = own_run(Own(), tmp_path)
    try_export(run)
    assert run.config.graphs
    for found, wanted in outputs(run, *drawn(run, 3, [1, 5, 2], 0)):
        np.testing.assert_allclose(found, wanted.numpy(), atol=TOLERANCE)


@pytest.mark.parametrize("module", [Fixed, Odd])
def test_what_cannot_be_exported_is_logged_in_a_line(
    module: type[Own],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    run = own_run(module(), tmp_path)
    with pytest.raises(SeesayError, match=r": its matcher cannot be exported to ONNX \(.+\); the run needs"):
        export_run(run)
    try_export(run)
    [message] = [each.getMessage() for each in caplog.records if each.name.startswith("seesay")]
    assert "\n" not in message
    assert not any(capfd.readouterr())  # neither the exporter nor ONNX Runtime prints graphs or errors
    assert {path.name for path in tmp_path.iterdir()} == {"weights.safetensors", "run.json"}


def test_a_classifier_of_concepts_is_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    base = drawn_run("vse++", tmp_path)
    run = Run.from_matcher(tmp_path, base.recipe, base.vocabulary, None, ConceptClassifier(6, 5))
    try_export(run)
    assert not caplog.records
    with pytest.raises(SeesayError, match="does not match sentences"):
        export_run(run)


def test_a_new_export_replaces_all_of_the_old_one(tmp_path: Path) -> None:
    export_run(drawn_run("metric-fusion", tmp_path))
    run = drawn_run("vse++", tmp_path)
    export_run(run)
    assert {path.name for path in tmp_path.glob("*.onnx")} == FOR_EMBEDDING
    remove_export(run)
    assert {path.name for path in tmp_path.iterdir()} == {"weights.safetensors", "run.json"}
    assert not RunConfig.load(tmp_path).graphs


def test_a_folder_without_weights_is_named(tmp_path: Path) -> None:
    run = drawn_run("vse++", tmp_path / "run")
    shutil.rmtree(run.folder)
    with pytest.raises(SeesayError, match=r"run: cannot be exported \(.*No such file.*weights\.safetensors"):
        export_run(run)


def test_a_run_keeps_its_precision_and_mode(tmp_path: Path) -> None:
    run = drawn_run("sco", tmp_path)
    before = {key: value.clone() for key, value in run.matcher.state_dict().items()}
    export_run(run)
    assert not run.matcher.training
    assert all(torch.equal(value, before[key]) for key, value in run.matcher.state_dict().items())
