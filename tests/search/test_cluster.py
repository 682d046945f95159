"""Indexing on a cluster: the same index as without one, of which this process reads and decodes nothing."""

from __future__ import annotations

import pickle
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seesay.search import Index
from seesay.search import index as index_module
from seesay.search import update as update_module
from seesay.search.update import NewPhoto
from tests.encoders.images.test_cluster import WithoutRay
from tools.scenes import write_scenes


@pytest.fixture
def without_ray(monkeypatch: pytest.MonkeyPatch) -> WithoutRay:
    made = WithoutRay()
    for name in ("ray", "ray.data"):
        monkeypatch.setitem(sys.modules, name, made)
    return made


def known(index: Index) -> dict[str | None, tuple[object, ...]]:
    """What an index has of its images, by path."""
    items = index.store.photos().values()
    return {item.path: (item.key, item.state, item.time, item.width) for item in items}


def test_an_index_of_a_cluster_is_that_of_one_process(
    tmp_path: Path, without_ray: WithoutRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos = tmp_path / "scenes" / "images"
    write_scenes(tmp_path / "scenes", images=12, seed=5)
    (photos / "broken.jpg").write_bytes(b"no image")
    (photos / "copy.jpg").write_bytes((photos / "scene_00000.jpg").read_bytes())
    read, encoded, make = list[str](), list[str](), update_module.new_photos

    def seen(*given: Any) -> Iterator[dict[str, NewPhoto]]:
        for made in make(*given):
            read.extend(made)
            encoded.extend(path for path, photo in made.items() if photo.content is not None)
            yield made

    for module in (update_module, index_module):
        monkeypatch.setattr(module, "new_photos", seen)
    with Index.create(tmp_path / "alone") as alone, Index.create(tmp_path / "on") as on:
        for cluster, index in (("", alone), ("auto", on)):
            report = index.update_images(photos, cluster=cluster)
            assert (report.added, report.skipped[0][0], len(report.skipped)) == (13, "broken.jpg", 1)
            assert sorted(read) == sorted(file.name for file in photos.iterdir())
            read.clear()
        assert len(list(Path(on.place).rglob("*.jpg"))) >= 12  # thumbnails
        (photos / "scene_00001.jpg").rename(photos / "scene_0000x.jpg")
        shutil.copy(photos / "scene_00002.jpg", photos / "again.jpg")
        (photos / "scene_00003.jpg").touch()
        encoded.clear()
        for cluster, index in (("", alone), ("auto", on)):
            report = index.update_images(photos, cluster=cluster)
            assert (report.moved, report.added, report.changed) == (1, 1, 0)
            assert sorted(read) == ["again.jpg", "scene_00003.jpg", "scene_0000x.jpg"]
            read.clear()
        assert not encoded  # all three are known
        assert known(on) == known(alone)
        hits = [index.search("a dog", k=50) for index in (alone, on)]
        np.testing.assert_allclose([hit.score for hit in hits[1]], [hit.score for hit in hits[0]], atol=2e-3)


def test_what_travels_with_a_file_does_not_grow_with_the_index(
    tmp_path: Path, without_ray: WithoutRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scans and frames that are not compressed all have one size."""
    photos = tmp_path / "scenes" / "images"
    write_scenes(tmp_path / "scenes", images=12, seed=5)
    for file in photos.iterdir():
        file.write_bytes(file.read_bytes().ljust(1 << 16, b"\0"))
    sent, from_items = list[int](), without_ray.from_items

    def counted(items: list[dict[str, Any]], **options: int) -> WithoutRay:
        sent.append(len(pickle.dumps(items)))
        return from_items(items, **options)

    monkeypatch.setattr(without_ray, "from_items", counted)
    with Index.create(tmp_path / "index") as index:
        assert index.update_images(photos, cluster="auto").added == 12
        for file in photos.iterdir():
            file.touch()
        report = index.update_images(photos, cluster="auto")
    assert (report.unchanged, report.added, len(sent)) == (12, 0, 2)
    assert sent[1] <= sent[0]
