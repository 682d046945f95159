"""The store of region features: computed once, found again, whatever a kill or a disk did in between."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seesay.arrays import Vectors
from seesay.data.corpus import CorpusImage
from seesay.data.images import FileSource, decode
from seesay.encoders import stores
from seesay.encoders.proposals import propose
from seesay.encoders.regions import Boxes, RegionEncoder, Regions, fill_regions, region_store
from seesay.encoders.stores import RECORD, ArrayStore
from seesay.errors import SeesayError

DIM = 3


class Counting:
    """Features that the boxes decide; counts the images it is asked about."""

    def __init__(self) -> None:
        self.images = 0

    def __call__(self, pixels: np.ndarray, boxes: Boxes) -> Vectors:
        self.images += 1
        return np.stack([boxes[:, 0], boxes[:, 3], boxes.sum(axis=1)], axis=1) / 64


@pytest.fixture
def counting() -> Counting:
    return Counting()


@pytest.fixture
def encoder(counting: Counting) -> RegionEncoder:
    return RegionEncoder("counting", "0", "v1", DIM, counting)


def photos(scenes: Path, count: int) -> list[CorpusImage]:
    paths = sorted((scenes / "images").iterdir())[:count]
    assert len(paths) == count
    return [CorpusImage(path.name, "train", FileSource(path)) for path in paths]


def key_of(number: int) -> str:
    return f"{number:032x}"


def regions_of(number: int) -> Regions:
    rows = number % 4
    boxes = np.arange(rows * 4, dtype="<f4").reshape(rows, 4) + number
    return Regions(boxes, (boxes[:, :DIM] / 8).astype("<f2"))


def fresh(folder: Path) -> ArrayStore:
    return region_store(folder, RegionEncoder("counting", "0", "v1", DIM, Counting()))


def add(store: ArrayStore, numbers: list[int]) -> None:
    store.add({key_of(n): regions_of(n)._asdict() for n in numbers})


def assert_holds(store: ArrayStore, numbers: list[int]) -> None:
    for number in numbers:
        for found, expected in zip(Regions(**store[key_of(number)]), regions_of(number), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_regions_are_proposals_then_the_extra_boxes(
    scenes: Path, tmp_path: Path, encoder: RegionEncoder, counting: Counting
) -> None:
    images = photos(scenes, 9)
    extra = [np.array([[1, 2, 30, 40]] * (i % 3), np.float32).reshape(-1, 4) for i in range(9)]
    filled = fill_regions(encoder, tmp_path, images, extra, count=20)
    assert counting.images == 9
    assert filled.errors == []
    for image, given_boxes, (boxes, features) in zip(images, extra, filled.regions, strict=True):
        pixels = decode(image.source.read(), image.name)
        expected = np.concatenate([propose(pixels, 20), given_boxes])
        np.testing.assert_array_equal(boxes, expected)
        assert features.dtype == np.float16
        np.testing.assert_array_equal(features, encoder.encode(pixels, expected).astype(np.float16))


def test_everything_is_computed_once_and_other_boxes_anew(
    scenes: Path, tmp_path: Path, encoder: RegionEncoder, counting: Counting
) -> None:
    images = photos(scenes, 6)
    first = fill_regions(encoder, tmp_path, images[:4])
    again = fill_regions(encoder, tmp_path, [*images, images[0]])
    assert counting.images == 6
    for found, known in zip(
        [*again.regions[:4], again.regions[6]], [*first.regions, first.regions[0]], strict=True
    ):
        np.testing.assert_array_equal(found.features, known.features)
    extra = [np.array([[0, 0, 9, 9]], np.float32)]
    one = fill_regions(encoder, tmp_path, images[:1], extra)
    assert counting.images == 7
    assert len(one.regions[0].boxes) == len(first.regions[0].boxes) + 1
    fill_regions(encoder, tmp_path, images[:1], count=5)
    assert counting.images == 8
    dense = fill_regions(encoder, tmp_path, images[:1], nms=0.9).regions[0]
    assert counting.images == 9
    pixels = decode(images[0].source.read(), images[0].name)
    np.testing.assert_array_equal(dense.boxes, propose(pixels, nms=0.9))
    fill_regions(encoder, tmp_path, images[:1], nms=0.55)
    assert counting.images == 9


def test_broken_images_are_listed_and_have_no_regions(
    scenes: Path, tmp_path: Path, encoder: RegionEncoder
) -> None:
    (tmp_path / "bad.jpg").write_bytes(b"no image")
    bad = CorpusImage("bad.jpg", "train", FileSource(tmp_path / "bad.jpg"))
    filled = fill_regions(encoder, tmp_path, [bad, *photos(scenes, 1), CorpusImage("none.jpg", "train")])
    assert [len(r.boxes) > 0 for r in filled.regions] == [False, True, False]
    assert filled.regions[0].features.shape == (0, DIM)
    assert len(filled.errors) == 2


def test_what_was_finished_before_a_failure_is_kept(
    scenes: Path, tmp_path: Path, encoder: RegionEncoder, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "CHUNK", 1)
    images = photos(scenes, 6)
    outside = [np.zeros((0, 4), np.float32)] * 5 + [np.array([[9999, 0, 10000, 5]], np.float32)]
    with pytest.raises(SeesayError, match="not in an image"):
        fill_regions(encoder, tmp_path, images, outside)
    counting.images = 0
    fill_regions(encoder, tmp_path, images)
    assert counting.images == 1


def six_images(tmp_path_factory: pytest.TempPathFactory, file: str) -> tuple[Path, Path]:
    """The folder of a store with the images 1 to 6, and one of its files."""
    folder = tmp_path_factory.mktemp("six")
    store = fresh(folder)
    add(store, list(range(1, 7)))
    return folder, store.folder / file


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["features.f16", "boxes.f32", "rows.bin"]), st.data())
def test_a_torn_tail_loses_only_the_torn_images(
    tmp_path_factory: pytest.TempPathFactory, file: str, data: st.DataObject
) -> None:
    folder, path = six_images(tmp_path_factory, file)
    length = data.draw(st.integers(0, path.stat().st_size))
    os.truncate(path, length)
    torn = fresh(folder)
    width = {"features.f16": 2 * DIM, "boxes.f32": 16}.get(file)
    ends = np.cumsum([len(regions_of(n).boxes) for n in range(1, 7)])
    whole = length // RECORD.size if width is None else int((ends <= length // width).sum())
    there = [n for n in range(1, 7) if key_of(n) in torn]
    assert there == list(range(1, whole + 1))
    assert_holds(torn, there)
    add(torn, list(range(1, 9)))
    assert_holds(fresh(folder), list(range(1, 9)))


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["features.f16", "boxes.f32"]), st.data())
def test_a_damaged_byte_costs_one_image(
    tmp_path_factory: pytest.TempPathFactory, file: str, data: st.DataObject
) -> None:
    folder, path = six_images(tmp_path_factory, file)
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    damaged = fresh(folder)
    lost = [n for n in range(1, 7) if key_of(n) not in damaged]
    assert len(lost) == 1
    with pytest.raises(SeesayError, match="not in this store"):
        damaged[key_of(lost[0])]
    add(damaged, list(range(1, 7)))
    assert_holds(damaged, list(range(1, 7)))
    assert_holds(fresh(folder), list(range(1, 7)))


def test_other_encoders_and_other_proposals_lie_apart(
    tmp_path: Path, encoder: RegionEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = {region_store(tmp_path, encoder).folder}
    folders.add(region_store(tmp_path, RegionEncoder("counting", "1", "v1", DIM, Counting())).folder)
    monkeypatch.setattr("seesay.encoders.proposals.VERSION", -1)
    folders.add(region_store(tmp_path, encoder).folder)
    assert len(folders) == 3
