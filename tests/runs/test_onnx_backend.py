"""Graphs in ONNX Runtime: used without PyTorch, refused when they are damaged."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from seesay.errors import SeesayError
from seesay.paths import file_digest
from seesay.runs.config import RunConfig
from seesay.runs.export import export_run
from seesay.runs.folder import run_folder
from seesay.runs.onnx_backend import OnnxBackend, score_all_pairs
from seesay.runs.prepare import PreparedSentences
from seesay.runs.run import Run
from tests.matchers.test_registered import DIMS, VECTOR, WORDS
from tests.runs.exporting import drawn_run

WIDTH = sum(DIMS)


def exported(name: str, folder: Path) -> Run:
    run = drawn_run(name, folder)
    export_run(run)
    return run


@pytest.fixture(scope="module")
def embedding(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return exported("projection", tmp_path_factory.mktemp("embedding"))


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return exported("ensemble", tmp_path_factory.mktemp("pairs"))


@pytest.fixture
def copy(embedding: Run, tmp_path: Path) -> Path:
    return shutil.copytree(embedding.folder, tmp_path / "run")


def read(folder: Path) -> OnnxBackend:
    return OnnxBackend(folder, RunConfig.load(folder))


def texts(*lengths: int, seed: int = 0) -> PreparedSentences:
    draw = np.random.default_rng(seed)
    vectors = draw.standard_normal((len(lengths), VECTOR)).astype(np.float32)
    return PreparedSentences(draw.integers(WORDS, size=sum(lengths)), np.array(lengths, np.int64), vectors)


def features(n: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((n, WIDTH)).astype(np.float32)


def test_many_are_embedded_as_each_alone(embedding: Run) -> None:
    matcher = read(embedding.folder)
    images, some = features(1030), texts(*[1, 3, 2] * 400)
    rows, columns = matcher.encode_images(images), matcher.encode_sentences(some)
    assert (rows.shape, columns.shape) == ((1030, embedding.config.dim), (1200, embedding.config.dim))
    np.testing.assert_allclose(rows[-1:], matcher.encode_images(images[-1:]), atol=1e-6)
    last = matcher.encode_sentences(some.take(np.array([1199])))
    np.testing.assert_allclose(columns[-1:], last, atol=1e-6)


def test_all_pairs_are_scored_as_each_alone(pairs: Run) -> None:
    matcher, some = read(pairs.folder), texts(*range(1, 41))
    images, sentences = matcher.encode_images(features(60)), matcher.encode_sentences(some)
    scores = score_all_pairs(matcher, images, sentences, block=200)
    assert scores.shape == (60, 40)
    alone = matcher.score_encoded(images[[3]], sentences[[39]])
    np.testing.assert_allclose(alone, [[scores[3, 39]]], atol=1e-5)


def test_arrays_of_another_width_are_named(embedding: Run) -> None:
    matcher = read(embedding.folder)
    with pytest.raises(SeesayError, match=rf"expected features of shape \(n, {WIDTH}\), got \(2, 3\)"):
        matcher.encode_images(np.zeros((2, 3), np.float32))
    with pytest.raises(
        SeesayError, match=rf"sentences: expected vectors of shape \(m, {VECTOR}\), got \(1, 3\)"
    ):
        matcher.encode_sentences(replace(texts(2), vectors=np.zeros((1, 3), np.float32)))


def test_sentences_are_embedded_without_the_graph_of_images(copy: Path) -> None:
    (copy / "images.onnx").unlink()
    assert read(copy).encode_sentences(texts(2)).any()
    with pytest.raises(SeesayError, match=r"images\.onnx: damaged or missing; restore it, or train again"):
        read(copy).encode_images(features(1))


@pytest.mark.parametrize("keep", [0, 100, -20])
def test_a_damaged_graph_is_named(copy: Path, keep: int) -> None:
    path = copy / "sentences.onnx"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(SeesayError, match=r"sentences\.onnx: not the one that run\.json names; restore it"):
        read(copy).encode_sentences(texts(2))


def test_a_graph_that_onnx_runtime_refuses_is_named(copy: Path) -> None:
    from hashlib import sha256

    (copy / "sentences.onnx").write_bytes(b"no graph")
    said = json.loads((copy / "run.json").read_text())
    said["graphs"]["sentences"]["digest"] = sha256(b"no graph").hexdigest()
    (copy / "run.json").write_text(json.dumps(said))
    with pytest.raises(SeesayError, match=r"sentences\.onnx: damaged; restore it"):
        read(copy).encode_sentences(texts(2))


def test_neither_pytorch_nor_pydantic_is_imported() -> None:
    program = f"""
import sys
from pathlib import Path
import numpy as np
from seesay.runs.config import RunConfig
from seesay.runs.onnx_backend import OnnxBackend
from seesay.runs.prepare import PreparedSentences

folder = Path({str(run_folder("seesay-small"))!r})
config = RunConfig.load(folder)
vectors = np.ones((1, config.sentence_dim), np.float32)
sentences = PreparedSentences(np.array([4, 5]), np.array([2]), vectors)
vector = OnnxBackend(folder, config).encode_sentences(sentences)[0]
assert len(vector) == config.dim
assert not {{"torch", "pydantic", "onnx"}} & set(sys.modules), sorted(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("name", "single"), [("images", False), ("other", False), ("images", True)])
def test_a_graph_that_cannot_be_computed_is_named(tmp_path: Path, name: str, single: bool) -> None:
    """It fits its checksum, as that of a stranger's run may."""
    shutil.copytree(run_folder("seesay-small"), tmp_path, dirs_exist_ok=True)
    given = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", "d"])
    made = onnx.helper.make_tensor_value_info("made", onnx.TensorProto.FLOAT, None)
    shape = onnx.helper.make_tensor("shape", onnx.TensorProto.INT64, [1], [7])
    node = onnx.helper.make_node("Reshape", [name, "shape"], ["made"])
    if single:  # a number for all images
        node = onnx.helper.make_node("ReduceMax", [name], ["made"], keepdims=0)
    graph = onnx.helper.make_graph([node], "graph", [given], [made], [shape])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "images.onnx")
    config = RunConfig.load(tmp_path)
    there = replace(config.graphs["images"], digest=file_digest(tmp_path / "images.onnx"), weights=())
    backend = OnnxBackend(tmp_path, replace(config, graphs={"images": there}))
    with pytest.raises(SeesayError, match=r"images\.onnx: cannot be computed") as raised:
        backend.encode_images(np.zeros((2, sum(config.image_dims)), np.float32))
    assert "\n" not in str(raised.value)
