"""Exported matchers: used without PyTorch, refused when they do not belong to the run."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from seesay.errors import SeesayError
from seesay.runs.export import export_run
from seesay.runs.exported import Export, ExportedMatcher, read_export
from seesay.runs.run import run_folder
from seesay.runs.sentences import PreparedSentences
from tests.matchers.test_registered import DIMS, VECTOR, WORDS
from tests.runs.exporting import drawn_run

WIDTH = sum(DIMS)


@pytest.fixture(scope="module")
def embedding(tmp_path_factory: pytest.TempPathFactory) -> Export:
    return export_run(drawn_run("projection", tmp_path_factory.mktemp("embedding")))


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Export:
    return export_run(drawn_run("ensemble", tmp_path_factory.mktemp("pairs")))


@pytest.fixture
def copy(embedding: Export, tmp_path: Path) -> Path:
    return shutil.copytree(embedding.folder, tmp_path / "run")


def read(folder: Path) -> ExportedMatcher:
    export = read_export(folder)
    assert export is not None
    return ExportedMatcher(export)


def texts(*lengths: int, seed: int = 0) -> PreparedSentences:
    draw = np.random.default_rng(seed)
    vectors = draw.standard_normal((len(lengths), VECTOR)).astype(np.float32)
    return PreparedSentences(draw.integers(WORDS, size=sum(lengths)), np.array(lengths, np.int64), vectors)


def features(n: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((n, WIDTH)).astype(np.float32)


def test_what_is_written_is_read(embedding: Export, pairs: Export) -> None:
    assert read_export(embedding.folder) == embedding
    assert read_export(pairs.folder) == pairs


def test_many_are_embedded_as_each_alone(embedding: Export) -> None:
    matcher = ExportedMatcher(embedding)
    images, some = features(1030), texts(*[1, 3, 2] * 400)
    rows, columns = matcher.embed_images(images), matcher.embed_sentences(some)
    assert (rows.shape, columns.shape) == ((1030, embedding.dim), (1200, embedding.dim))
    np.testing.assert_allclose(rows[-1:], matcher.embed_images(images[-1:]), atol=1e-6)
    last = matcher.embed_sentences(some.take(np.array([1199])))
    np.testing.assert_allclose(columns[-1:], last, atol=1e-6)


def test_none_are_embedded_and_scored(embedding: Export, pairs: Export) -> None:
    matcher = ExportedMatcher(embedding)
    assert (
        matcher.embed_images(features(0)).shape
        == matcher.embed_sentences(texts()).shape
        == (0, embedding.dim)
    )
    for export in (embedding, pairs):
        assert ExportedMatcher(export).score_all(features(0), texts(2)).shape == (0, 1)
        assert ExportedMatcher(export).score_all(features(2), texts()).shape == (2, 0)


def test_all_pairs_are_scored_as_each_alone(pairs: Export) -> None:
    matcher, some = ExportedMatcher(pairs), texts(*range(1, 41))
    scores = matcher.score_all(features(60), some)
    assert scores.shape == (60, 40)
    images, sentences = matcher.encode_images(features(60)), matcher.encode_sentences(some)
    alone = matcher.score_pairs(images, sentences, np.array([59, 3]), np.array([0, 39]))
    np.testing.assert_allclose(alone, [scores[59, 0], scores[3, 39]], atol=1e-5)


def test_arrays_of_another_width_are_named(embedding: Export) -> None:
    matcher = ExportedMatcher(embedding)
    with pytest.raises(SeesayError, match=rf"images: wanted features of shape \(n, {WIDTH}\), got \(2, 3\)"):
        matcher.embed_images(np.zeros((2, 3), np.float32))
    with pytest.raises(
        SeesayError, match=rf"sentences: wanted vectors of shape \(m, {VECTOR}\), got \(1, 3\)"
    ):
        matcher.embed_sentences(replace(texts(2), vectors=np.zeros((1, 3), np.float32)))


def test_sentences_are_embedded_without_the_graph_of_images(copy: Path) -> None:
    (copy / "images.onnx").unlink()
    assert read(copy).embed_sentences(texts(2)).any()
    with pytest.raises(
        SeesayError, match=r"images\.onnx: damaged or missing; export the run again with `see"
    ):
        read(copy).embed_images(features(1))


def test_a_run_without_an_export_has_none(copy: Path) -> None:
    (copy / "export.json").unlink()
    assert read_export(copy) is None


@pytest.mark.parametrize("change", ["other", "cut", "gone"])
def test_an_export_of_other_weights_counts_for_nothing(copy: Path, change: str) -> None:
    path = copy / "weights.safetensors"
    weights = bytearray(path.read_bytes())
    path.unlink()
    if change == "other":
        weights[-1] ^= 1
        path.write_bytes(weights)
    elif change == "cut":
        path.write_bytes(weights[:-1])
    assert read_export(copy) is None


def test_an_export_of_another_format_counts_for_nothing(copy: Path) -> None:
    (copy / "export.json").write_text(json.dumps({"format": 2, "sides": {}}))
    assert read_export(copy) is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"format": 1}', '{"format": 1, "graphs": {"images": 3}}']
)
def test_a_damaged_description_is_named(copy: Path, text: str) -> None:
    (copy / "export.json").write_text(text)
    with pytest.raises(
        SeesayError, match=r"export\.json: damaged \(.*\); export the run again with `seesay ex"
    ):
        read_export(copy)


@pytest.mark.parametrize("keep", [0, 100, -20])
def test_a_damaged_graph_is_named(copy: Path, keep: int) -> None:
    path = copy / "sentences.onnx"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(
        SeesayError, match=r"sentences\.onnx: not the one that export\.json names; export the r"
    ):
        read(copy).embed_sentences(texts(2))


def test_a_graph_that_onnx_runtime_refuses_is_named(copy: Path) -> None:
    from hashlib import sha256

    (copy / "sentences.onnx").write_bytes(b"no graph")
    said = json.loads((copy / "export.json").read_text())
    said["graphs"]["sentences"]["digest"] = sha256(b"no graph").hexdigest()
    (copy / "export.json").write_text(json.dumps(said))
    with pytest.raises(SeesayError, match=r"sentences\.onnx: damaged or missing"):
        read(copy).embed_sentences(texts(2))


def test_neither_pytorch_nor_pydantic_is_imported() -> None:
    program = f"""
import sys
from pathlib import Path
import numpy as np
from seesay.runs.exported import ExportedMatcher, read_export
from seesay.runs.sentences import PreparedSentences

export = read_export(Path({str(run_folder("seesay-small"))!r}))
vectors = np.ones((1, export.sentence_dim), np.float32)
sentences = PreparedSentences(np.array([4, 5]), np.array([2]), vectors)
vector = ExportedMatcher(export).embed_sentences(sentences)[0]
assert len(vector) == export.dim
assert not {{"torch", "pydantic", "onnx"}} & set(sys.modules), sorted(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
