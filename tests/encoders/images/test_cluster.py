"""Encoding on a Ray cluster of this machine: the same features as without it, also if a node is killed."""

from __future__ import annotations

import pickle
import shutil
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from seesay.data.corpus import CorpusImage
from seesay.data.images import EncodedImage
from seesay.data.readers import read_corpus
from seesay.encoders import fill_stores, load_image_encoder
from seesay.encoders.images import cluster as cluster_module
from seesay.encoders.stores import ArrayStore
from seesay.errors import MissingExtraError, SeesayError
from seesay.search import Index
from tools.scenes import write_scenes

ENCODER = "efficientnet-lite0"


def test_without_ray_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[cluster\]'"):
        fill_stores([load_image_encoder(ENCODER)], tmp_path, [CorpusImage("a.jpg", "")], "auto")


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "ray://127.0.0.1:port"])
def test_an_address_where_nothing_answers_is_given_up(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = WithoutRay()
    monkeypatch.setattr(made, "is_initialized", lambda: False)
    for name in ("ray", "ray.data"):
        monkeypatch.setitem(sys.modules, name, made)
    started = time.monotonic()
    with pytest.raises(
        SeesayError, match=f"--cluster {address}: no cluster there .*; start one with"
    ) as told:
        fill_stores([load_image_encoder(ENCODER)], tmp_path, [CorpusImage("a.jpg", "")], address)
    assert time.monotonic() - started < 10
    assert "\n" not in str(told.value)


class WithoutRay:
    """What is used of Ray Data, in this process: blocks are pickled, as on their way to a worker.

    Args:
        gpus: of the cluster.
    """

    def __init__(self, gpus: int = 0) -> None:
        self.data, self.DataContext, self._gpus, self.asked = self, self, gpus, dict[str, Any]()
        self.exceptions = SimpleNamespace(RayError=RuntimeError)

    def is_initialized(self) -> bool:
        return True

    def get_current(self) -> SimpleNamespace:
        return SimpleNamespace(enable_progress_bars=True)

    def cluster_resources(self) -> dict[str, int]:
        return {"CPU": 2, "GPU": self._gpus}

    def put(self, value: Any) -> Any:
        return value

    def get(self, values: list[Any]) -> list[Any]:
        return values

    def ActorPoolStrategy(self, **_: int) -> None:
        pass

    def from_items(self, items: list[dict[str, Any]], **_: int) -> WithoutRay:
        self._items = items
        return self

    def map_batches(self, worker: Any, fn_constructor_args: Any, batch_size: int, **asked: Any) -> WithoutRay:
        self._worker, self._size, self.asked = worker(*fn_constructor_args), batch_size, asked
        return self

    def iter_batches(self, **_: None) -> Iterator[dict[str, Any]]:
        for start in range(0, len(self._items), self._size):
            rows = pickle.loads(pickle.dumps(self._items[start : start + self._size]))  # noqa: S301 — made here
            columns = {name: np.empty(len(rows), object) for name in rows[0]}
            for name, column in columns.items():
                column[:] = [row[name] for row in rows]
            yield pickle.loads(pickle.dumps(self._worker(columns)))  # noqa: S301


@pytest.fixture
def without_ray(monkeypatch: pytest.MonkeyPatch) -> WithoutRay:
    made = WithoutRay(gpus=1)
    for name in ("ray", "ray.data"):
        monkeypatch.setitem(sys.modules, name, made)
    return made


def beside_texts(scenes: Path, out: Path) -> Path:
    """The photographs of drawn scenes with a sentence each, in a text of the same name."""
    shutil.copytree(scenes / "images", out)
    for file in sorted(out.iterdir()):
        file.with_suffix(".txt").write_text("a drawing")
    return out


def in_parquet(scenes: Path, out: Path) -> Path:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    import pyarrow as pa
    from pyarrow import parquet

    files = sorted((scenes / "images").iterdir())
    images = [{"bytes": file.read_bytes(), "path": file.name} for file in files]
    out.mkdir()
    table = pa.table({"image": images, "text": ["a drawing"] * len(files)})
    parquet.write_table(table, out / "train-00000.parquet", row_group_size=4)
    return out


def in_shards(scenes: Path, out: Path) -> Path:
    files = sorted(beside_texts(scenes, scenes / "pairs").iterdir())
    out.mkdir()
    for at in range(0, len(files), 8):
        with tarfile.open(out / f"train-{at // 8:05d}.tar", "w") as shard:
            for file in files[at : at + 8]:
                shard.add(file, file.name)
    return out


@pytest.mark.parametrize("kept", [beside_texts, in_parquet, in_shards])
def test_images_of_every_kind_travel_to_workers(kept: Any, tmp_path: Path, without_ray: WithoutRay) -> None:
    write_scenes(tmp_path / "scenes", images=10, seed=3)
    images = read_corpus(kept(tmp_path / "scenes", tmp_path / "kept")).images
    assert len(images) == 10
    encoder = load_image_encoder(ENCODER)
    alone = fill_stores([encoder], tmp_path / "alone", images)
    together = fill_stores([encoder], tmp_path / "together", images, "auto")
    assert together.encoded == 10
    assert together.keys == alone.keys
    there, here = (each.stores[0].read(alone.keys, "pooled") for each in (alone, together))
    np.testing.assert_allclose(here, there, rtol=1e-4, atol=1e-5)


def scenes_with_a_broken_image(folder: Path, count: int) -> tuple[CorpusImage, ...]:
    write_scenes(folder, images=count, seed=3)
    (folder / "images" / "scene_00000.jpg").write_bytes(b"no image")
    return read_corpus(folder).images


def test_several_encoders_see_each_image_once(
    tmp_path: Path, without_ray: WithoutRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = scenes_with_a_broken_image(tmp_path / "scenes", 10)
    encoders = [load_image_encoder(name) for name in (ENCODER, f"{ENCODER}-int8")]
    alone = fill_stores(encoders, tmp_path / "alone", images)
    fill_stores(encoders[:1], tmp_path / "together", images[:4])  # of which the other lacks all
    decoded, pixels = list[str](), EncodedImage.pixels
    monkeypatch.setattr(
        EncodedImage, "pixels", lambda image, side: (decoded.append(image.name), pixels(image, side))[1]
    )
    together = fill_stores(encoders, tmp_path / "together", images, "auto")
    assert len(decoded) == len(images)
    assert together.keys == alone.keys
    assert together.encoded == alone.encoded == 9
    assert [str(error) for error in together.errors] == [str(error) for error in alone.errors]
    keys = [key for key in alone.keys if key is not None]
    for there, here in zip(alone.stores, together.stores, strict=True):
        np.testing.assert_allclose(
            here.read(keys, "pooled"), there.read(keys, "pooled"), rtol=1e-4, atol=1e-5
        )


def test_damaged_features_are_computed_again(tmp_path: Path, without_ray: WithoutRay) -> None:
    write_scenes(tmp_path / "scenes", images=10, seed=3)
    images = read_corpus(tmp_path / "scenes").images
    encoder = load_image_encoder(ENCODER)
    before = fill_stores([encoder], tmp_path / "features", images[:6])
    rows = before.stores[0].read(before.keys, "pooled").copy()
    (file,) = tmp_path.rglob("pooled.f16")
    with file.open("r+b") as damaged:
        damaged.seek(2 * 2 * encoder.dims["pooled"])  # of the third image
        damaged.write(b"\xff" * 8)
    filled = fill_stores([encoder], tmp_path / "features", images, "auto")
    assert filled.encoded == 5
    assert filled.keys[:6] == before.keys
    assert None not in filled.keys
    np.testing.assert_allclose(filled.stores[0].read(before.keys, "pooled"), rows, rtol=1e-4, atol=1e-5)


def test_an_image_whose_features_are_damaged_in_every_store(tmp_path: Path, without_ray: WithoutRay) -> None:
    write_scenes(tmp_path / "scenes", images=3, seed=3)
    images = read_corpus(tmp_path / "scenes").images
    encoders = [load_image_encoder(name) for name in (ENCODER, f"{ENCODER}-int8")]
    before = fill_stores(encoders, tmp_path / "features", images)
    rows = [store.read(before.keys, "pooled").copy() for store in before.stores]
    for file in tmp_path.rglob("pooled.f16"):
        with file.open("r+b") as damaged:
            damaged.write(b"\xff" * 8)
    filled = fill_stores(encoders, tmp_path / "features", images, "auto")
    assert (filled.encoded, filled.keys) == (1, before.keys)
    for store, each in zip(filled.stores, rows, strict=True):
        np.testing.assert_allclose(store.read(before.keys, "pooled"), each, rtol=1e-4, atol=1e-5)


def test_images_go_to_ray_in_parts(
    tmp_path: Path, without_ray: WithoutRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_scenes(tmp_path / "scenes", images=10, seed=3)
    images = read_corpus(tmp_path / "scenes").images
    given, from_items = list[int](), without_ray.from_items
    monkeypatch.setattr(
        without_ray, "from_items", lambda items, **_: (given.append(len(items)), from_items(items))[1]
    )
    monkeypatch.setattr(cluster_module, "PART", 4)
    encoder = load_image_encoder(ENCODER)
    filled = fill_stores([encoder], tmp_path / "features", images, "auto")
    assert given == [4, 4, 2]
    assert filled.keys == fill_stores([encoder], tmp_path / "alone", images).keys


@pytest.mark.parametrize(("name", "gpus"), [(ENCODER, 1), (f"{ENCODER}-int8", None)])
def test_only_what_runs_on_a_gpu_waits_for_one(
    name: str, gpus: int | None, tmp_path: Path, without_ray: WithoutRay
) -> None:
    write_scenes(tmp_path / "scenes", images=10, seed=3)
    images = read_corpus(tmp_path / "scenes").images[:2]
    fill_stores([load_image_encoder(name)], tmp_path / "features", images, "auto")
    assert without_ray.asked["num_gpus"] == gpus


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A cluster of two nodes with a core each, on this machine."""
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'seesay[cluster]'")
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 100 << 20})
    made.second = made.add_node(num_cpus=1, object_store_memory=100 << 20)
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.mark.slow
def test_no_cluster_is_one_line(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'seesay[cluster]'")
    with pytest.raises(SeesayError, match=r"no cluster there .*; start one with `ray start --head`"):
        fill_stores([load_image_encoder(ENCODER)], tmp_path, [CorpusImage("a.jpg", "")], "auto")


@pytest.mark.slow
def test_an_index_made_on_a_cluster_is_that_of_one_process(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_scenes(tmp_path / "scenes", images=40, seed=5)
    vectors, known = [], []
    for name in ("alone", "together"):
        monkeypatch.setenv("SEESAY_CACHE", str(tmp_path / f"cache-{name}"))
        with Index.create(tmp_path / name) as index:
            report = index.update_images(tmp_path / "scenes", cluster="auto" if name == "together" else "")
            assert report.added == 40
            assert len(list((tmp_path / name / "thumbnails").rglob("*.jpg"))) == 40
            items = index.store.photos().values()
            ids = {item.path: (item.id, item.key, item.width, item.height) for item in items}
            known.append({path: facts for path, (_, *facts) in ids.items()})
            vectors.append(np.concatenate([index.store.vectors([ids[path][0]])[1] for path in sorted(ids)]))
    assert known[1] == known[0]
    np.testing.assert_allclose(vectors[1], vectors[0], atol=2e-3)  # in half precision


@pytest.mark.slow
def test_a_node_of_other_weights_is_one_line(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_scenes(tmp_path / "scenes", images=10, seed=3)
    images = read_corpus(tmp_path / "scenes").images
    encoder = load_image_encoder(ENCODER)
    monkeypatch.setattr(encoder, "fingerprint", "0" * 16)
    with pytest.raises(
        SeesayError, match=r"a worker failed \(efficientnet-lite0: this node has other weights"
    ) as told:
        fill_stores([encoder], tmp_path / "features", images, "auto")
    assert "\n" not in str(told.value)


@pytest.mark.slow
def test_a_node_is_killed_and_nothing_is_missing_or_twice(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = scenes_with_a_broken_image(tmp_path / "scenes", 400)
    encoder = load_image_encoder(ENCODER)
    alone = fill_stores([encoder], tmp_path / "alone", images)

    killed = threading.Event()

    class Killing(ArrayStore):
        def add(self, items: Any) -> None:
            super().add(items)
            if not killed.is_set():
                killed.set()
                cluster.remove_node(cluster.second, allow_graceful=False)

    monkeypatch.setattr("seesay.encoders.images.encode.ArrayStore", Killing)
    together = fill_stores([encoder], tmp_path / "together", images, "auto")
    assert killed.is_set()
    assert together.keys == alone.keys
    assert together.encoded == alone.encoded == len(together.stores[0])
    assert [str(error) for error in together.errors] == [str(error) for error in alone.errors]
    keys = [key for key in alone.keys if key is not None]
    for name in encoder.dims:
        there, here = (filled.stores[0].read(keys, name) for filled in (alone, together))
        np.testing.assert_allclose(here, there, rtol=1e-4, atol=1e-5)
    again = fill_stores([encoder], tmp_path / "together", images, "auto")
    assert (again.encoded, again.keys) == (0, alone.keys)
