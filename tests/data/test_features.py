"""Rows of several files as one array; region features, written as published and read back by id."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seesay.data.features import FeatureRows, RegionFiles, find_region_files
from seesay.data.readers import read_corpus
from seesay.errors import SeesayError
from seesay.recipes.load import load_recipe
from seesay.runs.inputs import split_inputs
from seesay.text.vocabulary import Vocabulary

SAMPLE = Path(__file__).parents[3] / "shared" / "region-features" / "bottom_up_10.npz"
IDS = ["101", "77", "2059"]  # in no order, as such files are


def features(images: int = 3, regions: int = 6, width: int = 5) -> np.ndarray:
    return np.random.default_rng(images).random((images, regions, width), np.float32)


def write_npz(path: Path, rows: np.ndarray, ids: list[str]) -> None:
    np.savez(path, features=rows, img_id=np.array(ids), boxes=np.zeros((*rows.shape[:2], 4)))


def write_npy(path: Path, rows: np.ndarray, ids: list[str]) -> None:
    np.save(path, rows)
    path.with_name(f"{path.stem}_ids.txt").write_text("\n".join(ids) + "\n")


WRITERS = {
    "f.npz": write_npz,
    "f.npy": write_npy,
}


@pytest.mark.parametrize("name", WRITERS)
def test_what_was_written_is_read_by_id(tmp_path: Path, name: str) -> None:
    rows = features()
    WRITERS[name](tmp_path / name, rows, IDS)
    files = RegionFiles(find_region_files(tmp_path))
    wanted = [2, 0, 2, 1]  # out of order, and one twice
    at = [files.row(f"COCO_val2014_{int(IDS[i]):012}.jpg") for i in wanted]
    np.testing.assert_array_equal(files.features[np.array(at)], rows[wanted])
    assert files.row("5.jpg", 101) == files.row("101.jpg") == files.row("101")
    assert files.row("5.jpg") is None


def test_several_files_are_one(tmp_path: Path) -> None:
    rows = features(5)
    write_npy(tmp_path / "a.npy", rows[:2], ["1", "2"])
    write_npz(tmp_path / "b.npz", rows[2:], ["3", "4", "5"])
    files = RegionFiles(find_region_files(tmp_path))
    np.testing.assert_array_equal(files.features[[files.row("4"), files.row("1")]], rows[[3, 0]])


@pytest.mark.parametrize("name", WRITERS)
def test_an_image_that_is_there_twice_is_named(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / name, features(), ["7", "8", "7"])
    with pytest.raises(SeesayError, match="image 7 occurs twice"):
        RegionFiles(find_region_files(tmp_path))


@pytest.mark.parametrize("name", ["f.npz", "f.npy"])
def test_another_number_of_images_than_of_ids(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / name, features(), ["7", "8"])
    with pytest.raises(SeesayError, match="2 ids for the features of 3 images"):
        RegionFiles(find_region_files(tmp_path))


def test_features_that_are_no_regions_or_have_no_ids(tmp_path: Path) -> None:
    write_npz(tmp_path / "f.npz", features()[:, 0, 0], IDS)
    with pytest.raises(SeesayError, match=r"expected numbers of shape.*\(3,\)"):
        RegionFiles([tmp_path / "f.npz"])
    np.savez(tmp_path / "g.npz", features=features(), names=np.array(IDS))
    with pytest.raises(SeesayError, match="no image ids"):
        RegionFiles([tmp_path / "g.npz"])


def test_files_that_do_not_belong_together(tmp_path: Path) -> None:
    write_npz(tmp_path / "a.npz", features(), IDS)
    write_npz(tmp_path / "b.npz", features(regions=9), ["1", "2", "3"])
    with pytest.raises(SeesayError, match=r"\(9, 5\), and \(6, 5\) in a\.npz"):
        RegionFiles(find_region_files(tmp_path))


@pytest.mark.parametrize("name", ["f.npz", "f.npy"])
def test_damaged_files(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    WRITERS[name](path, features(), IDS)
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(SeesayError, match=name):
        RegionFiles([path])


def test_damage_within_a_compressed_file(tmp_path: Path) -> None:
    path = tmp_path / "f.npz"
    np.savez_compressed(path, features=features(50), img_id=np.arange(50))
    data = bytearray(path.read_bytes())
    data[300:340] = bytes(byte ^ 0xFF for byte in data[300:340])
    path.write_bytes(data)
    with pytest.raises(SeesayError, match="cannot be read"):
        RegionFiles([path])


@pytest.mark.parametrize("shape", [(10**13, 4), (2**70, 4)])
@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_a_header_of_more_than_there_is(tmp_path: Path, shape: tuple[int, int], suffix: str) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": shape})
    path = tmp_path / f"f{suffix}"
    if suffix == ".npy":
        path.write_bytes(header.getvalue())
        (tmp_path / "f_ids.txt").write_text("1\n")
    else:
        np.savez(path, img_id=np.arange(3))
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("features.npy", header.getvalue())
    with pytest.raises(SeesayError, match=f"f{suffix}"):
        RegionFiles([path])


def test_features_that_grow_a_hundredfold_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "f.npz"
    np.savez_compressed(path, features=np.zeros((100, 300, 1000), np.float32), img_id=np.arange(100))
    with pytest.raises(SeesayError, match="expands to over 100 times"):
        RegionFiles([path])
    np.savez_compressed(path, features=np.ones((3, 2), np.float32), img_id=np.zeros(110 << 20, np.int8))
    with pytest.raises(SeesayError, match="expands to over 100 times"):
        RegionFiles([path])


@pytest.mark.parametrize("rows", [np.full((3, 6, 5), "x"), np.ones((3, 5), complex), np.ones((3, 0))])
def test_other_arrays_than_of_numbers_are_refused(tmp_path: Path, rows: np.ndarray) -> None:
    write_npy(tmp_path / "f.npy", rows, IDS)
    with pytest.raises(SeesayError, match="expected numbers of shape"):
        RegionFiles([tmp_path / "f.npy"])


def test_ids_are_lines(tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", features(3))
    ids = "my photo.jpg\r\ndog_12.jpg\r\n12\r\n"
    (tmp_path / "f_ids.txt").write_bytes(("\ufeff" + ids).encode())
    files = RegionFiles([tmp_path / "f.npy"])
    assert [files.row(name) for name in ("my photo.jpg", "dog_12.jpg", "12.jpg")] == [0, 1, 2]
    assert files.row("cat_12.jpg") is None
    assert files.row("x.jpg", 0) is None
    assert files.row("COCO_val2014_000000000012.jpg") == files.row("000000000012.jpg") == 2


@pytest.mark.parametrize("ids", [np.array([101.0, 77.0]), np.array([101, 77]), np.array([b"101", b"77"])])
def test_ids_match_whether_they_are_numbers_or_text(tmp_path: Path, ids: np.ndarray) -> None:
    np.savez(tmp_path / "f.npz", features=features(2), img_id=ids)
    files = RegionFiles([tmp_path / "f.npz"])
    assert [files.row("5.jpg", 77), files.row("5.jpg", "77"), files.row("5.jpg", 77.0)] == [1, 1, 1]
    assert files.row("COCO_val2014_000000000101.jpg") == 0


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "table.tsv").write_text("image\tcaption\tsplit\na.jpg\ta dog\ttest\n")
    np.savez(tmp_path / "scores.npz", scores=np.zeros(3))
    np.save(tmp_path / "train_ims.npy", features())
    assert find_region_files(tmp_path) == []


def write_corpus(folder: Path, rows: np.ndarray, ids: list[str]) -> None:
    write_npy(folder / "f.npy", rows, ids)
    records = [
        {"filename": f"{i}.jpg", "split": "test", "imgid": n, "sentences": [{"raw": f"dog {n}"}]}
        for n, i in enumerate(sorted(ids))
    ]
    (folder / "dataset_tiny.json").write_text(json.dumps({"dataset": "tiny", "images": records}))


RECIPE = load_recipe("gvse-uncommon", changes=["encoders=[precomputed]", "matcher.instances=8"])
VOCABULARY = Vocabulary(["dog"])


def test_a_corpus_takes_its_regions_from_beside(tmp_path: Path) -> None:
    rows = features()
    write_corpus(tmp_path, rows, IDS)
    inputs = split_inputs(RECIPE, read_corpus(tmp_path), "test", VOCABULARY)
    given = inputs.features.reshape(3, 8, 5)
    np.testing.assert_array_equal(given[:, :6], rows[np.argsort(IDS)])
    assert not given[:, 6:].any()


def test_an_image_without_features_is_set_aside_and_listed(tmp_path: Path) -> None:
    write_corpus(tmp_path, features(), IDS)
    write_npy(tmp_path / "f.npy", features()[:2], IDS[:2])
    from PIL import Image

    Image.new("RGB", (8, 8)).save(tmp_path / "2059.jpg")
    inputs = split_inputs(RECIPE, read_corpus(tmp_path), "test", VOCABULARY)
    assert len(inputs.features) == 2
    assert [str(error) for error in inputs.broken] == ["2059.jpg: no features."]


def test_numbers_that_are_none_name_their_image(tmp_path: Path) -> None:
    rows = features()
    rows[1, 2, 3] = np.nan
    write_corpus(tmp_path, rows, IDS)
    with pytest.raises(SeesayError, match=r"image 77\.jpg contain NaN"):
        split_inputs(RECIPE, read_corpus(tmp_path), "test", VOCABULARY)


def test_a_real_sample(tmp_path: Path) -> None:
    if not SAMPLE.is_file():
        pytest.skip(f"real data: no sample of bottom-up attention at {SAMPLE}")
    files = RegionFiles([SAMPLE])
    assert files.features.shape == (10, 36, 2048)
    with np.load(SAMPLE) as given:
        at = files.row("COCO_train2014_000000578174.jpg")
        np.testing.assert_array_equal(files.features[[at]][0], given["features"][2])
        assert files.row("578174.jpg") is None  # it goes by whole names


def stacked(*parts: np.ndarray) -> FeatureRows:
    return FeatureRows({Path(str(number)): part for number, part in enumerate(parts)})


@settings(max_examples=40)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=4), st.sampled_from([(3,), (2, 3)]), st.data())
def test_indexing_is_that_of_the_stacked_array(sizes, shape, data):
    parts = [np.random.default_rng(i).random((size, *shape), np.float32) for i, size in enumerate(sizes)]
    whole, rows = np.concatenate(parts), stacked(*parts)
    assert rows.shape == whole.shape
    wanted = data.draw(st.lists(st.integers(0, len(whole) - 1))) if len(whole) else []
    assert (rows[wanted] == whole[np.array(wanted, int)]).all()


def test_other_numbers_come_out_as_float32():
    rows = stacked(np.ones((2, 3), np.float16), np.ones((2, 3), np.int64))
    assert rows[[0, 3]].dtype == np.float32


def test_rows_of_one_part_are_as_they_are_stored():
    parts = [np.arange(6, dtype=np.float16).reshape(3, 2), np.ones((2, 2), np.float32), np.ones((2, 2), int)]
    rows = stacked(*parts)
    assert rows.as_stored([1, 2]).base is not None
    assert rows.as_stored([1, 2]).dtype == np.float16
    for wanted in ([1, 2], [0, 2], [2, 3], [3, 4], [5, 6], [2, 1], []):
        np.testing.assert_array_equal(rows.as_stored(wanted), rows[wanted])
    assert rows.as_stored([2, 3]).dtype == rows.as_stored([5, 6]).dtype == np.float32


@pytest.mark.parametrize("wanted", [[2, 0, 1], [0, 2], [1, 2, 3, 4]])
def test_copies_of_half_precision_keep_it(wanted: list[int]) -> None:
    whole = np.random.default_rng(0).random((5, 2)).astype(np.float16)
    stored = stacked(whole[:3], whole[3:]).as_stored(wanted)
    assert stored.dtype == np.float16
    np.testing.assert_array_equal(stored, whole[wanted])


def test_rows_out_of_range_and_parts_that_do_not_fit_are_refused():
    with pytest.raises(IndexError, match="4 rows"):
        stacked(np.zeros((4, 2)))[[4]]
    with pytest.raises(SeesayError, match=r"1: .* shape \(3,\), and \(2,\) in 0; use files of one shape"):
        stacked(np.zeros((4, 2)), np.zeros((4, 3)))
