"""The feature store: what was appended is read, whatever a kill or a disk did in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seesay.encoders.stores import RECORD, ArrayStore
from seesay.errors import SeesayError

DIMS = {"pooled": 5, "logits": 3}
FILES = {"pooled.f16": 2 * DIMS["pooled"], "logits.f16": 2 * DIMS["logits"], "rows.bin": RECORD.size}


def key_of(number: int) -> str:
    return f"{number:032x}"


def rows_of(numbers: list[int]) -> dict[str, np.ndarray]:
    """Features that the image's number decides, exact in half precision."""
    return {
        name: np.array([[n % 64 + i / 8 for i in range(dim)] for n in numbers], np.float32).reshape(-1, dim)
        for name, dim in DIMS.items()
    }


def open_store(folder: Path) -> ArrayStore:
    return ArrayStore(folder / "f00d", {name: ("<f2", dim) for name, dim in DIMS.items()})


def append(store: ArrayStore, numbers: list[int]) -> None:
    store.add({key_of(n): rows_of([n]) for n in numbers})


def assert_holds(store: ArrayStore, numbers: list[int]) -> None:
    keys = [key_of(n) for n in numbers]
    assert len(store) == len(set(numbers))
    assert all(key in store for key in keys)
    for name, expected in rows_of(numbers).items():
        np.testing.assert_array_equal(store.read(keys, name), expected)


def sizes(store: ArrayStore) -> list[int]:
    """Rows in each file."""
    paths = [(store.folder / name, width) for name, width in FILES.items()]
    return [path.stat().st_size // width if path.exists() else 0 for path, width in paths]


def test_rows_come_back_in_the_order_asked_and_in_half_precision(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    assert len(store) == 0
    assert key_of(1) not in store
    assert store.read([], "pooled").shape == (0, 5)
    values = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    zeros = np.zeros((1, 3), np.float32)
    store.add({key_of(n): {"pooled": values[n - 1 : n], "logits": zeros} for n in (1, 2, 3)})
    found = store.read([key_of(3), key_of(1), key_of(3)], "pooled")
    assert found.dtype == np.float16
    np.testing.assert_array_equal(found, values[[2, 0, 2]].astype(np.float16))
    with pytest.raises(SeesayError, match=f"{key_of(9)} is not in this store"):
        store.read([key_of(9)], "pooled")


@settings(max_examples=30)
@given(st.lists(st.lists(st.integers(0, 30), max_size=8), max_size=6), st.booleans())
def test_any_appends_hold_each_image_once(batches: list[list[int]], reopen: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        store = open_store(Path(name))
        for batch in batches:
            append(store, batch)
            if reopen:
                store = open_store(Path(name))
        every = [n for batch in batches for n in batch]
        assert_holds(store, every)
        assert sizes(store) == [len(set(every))] * 3


def test_an_image_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    append(store, [1])
    store.add({key_of(1): rows_of([40])})
    assert_holds(store, [1])


@settings(max_examples=60)
@given(st.sampled_from(sorted(FILES)), st.data())
def test_a_torn_tail_loses_only_the_torn_rows(file: str, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        append(open_store(Path(name)), list(range(6)))
        path = Path(name) / "f00d" / file
        length = data.draw(st.integers(0, path.stat().st_size))
        os.truncate(path, length)
        store = open_store(Path(name))
        whole = length // FILES[file]
        assert_holds(store, list(range(whole)))
        append(store, list(range(9)))
        assert sizes(store) == [9] * 3
        assert_holds(open_store(Path(name)), list(range(9)))


@settings(max_examples=40)
@given(st.sampled_from(["pooled.f16", "logits.f16"]), st.data())
def test_a_damaged_byte_costs_one_image(file: str, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        append(open_store(Path(name)), list(range(6)))
        path = Path(name) / "f00d" / file
        content = bytearray(path.read_bytes())
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] ^= data.draw(st.integers(1, 255))
        path.write_bytes(content)
        store = open_store(Path(name))
        lost = place // FILES[file]
        with pytest.raises(SeesayError, match=f"{key_of(lost)} is not in this store"):
            store.read([key_of(lost)], "pooled")
        assert_holds(store, [n for n in range(6) if n != lost])
        append(store, list(range(6)))
        assert_holds(open_store(Path(name)), list(range(6)))


def test_two_stores_on_one_folder_take_turns(tmp_path: Path) -> None:
    one, other = open_store(tmp_path), open_store(tmp_path)
    append(one, [1, 2])
    append(other, [2, 3])
    append(one, [3, 4, 1])
    append(other, [])
    assert_holds(one, [1, 2, 3, 4])
    assert_holds(other, [4, 3, 2, 1])
    assert sizes(one) == [4, 4, 4]


@pytest.mark.parametrize("torn", [{"pooled.f16": 7}, {"pooled.f16": 30, "logits.f16": 18, "rows.bin": 11}])
def test_an_open_store_overwrites_what_another_left_half_written(
    tmp_path: Path, torn: dict[str, int]
) -> None:
    store = open_store(tmp_path)
    append(store, [1, 2])
    for name, extra in torn.items():
        with (store.folder / name).open("ab") as file:
            file.write(b"\xff" * extra)
    append(store, [3, 4])
    assert_holds(store, [1, 2, 3, 4])
    assert_holds(open_store(tmp_path), [1, 2, 3, 4])


def test_a_store_that_stays_open_notices_rows_that_another_has_cut(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    append(store, [1, 2, 3])
    os.truncate(store.folder / "pooled.f16", FILES["pooled.f16"])
    append(open_store(tmp_path), [5])
    append(store, [2, 3, 4])
    assert_holds(store, [1, 5, 2, 3, 4])


@pytest.mark.parametrize("meta", ["{", "[]", '{"version": 0}', "\udcff"])
def test_a_folder_that_holds_something_else_is_refused(tmp_path: Path, meta: str) -> None:
    folder = open_store(tmp_path).folder
    (folder / "arrays.json").write_bytes(meta.encode(errors="surrogateescape"))
    with pytest.raises(SeesayError, match=r"arrays\.json.*remove"):
        open_store(tmp_path)


def test_another_width_is_refused(tmp_path: Path) -> None:
    open_store(tmp_path)
    with pytest.raises(SeesayError, match="another version or encoder"):
        ArrayStore(tmp_path / "f00d", {"pooled": ("<f2", 6)})


def test_a_place_that_is_no_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SeesayError, match="cannot be read or written"):
        open_store(tmp_path / "file")


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, {here!r})
from test_stores import append, open_store
store = open_store(Path({folder!r}))
for start in range(0, 100_000, 4):
    append(store, list(range(start, start + 4)))
    print(start, flush=True)
"""


def test_a_kill_between_any_two_instructions_loses_nothing_acknowledged(tmp_path: Path) -> None:
    script = WRITER.format(here=str(Path(__file__).parent), folder=str(tmp_path))
    acknowledged = -4
    for _ in range(3):
        writer = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        for _ in range(25):
            acknowledged = max(acknowledged, int(writer.stdout.readline()))
        writer.send_signal(signal.SIGKILL)
        acknowledged = max([acknowledged, *map(int, writer.stdout.read().split())])
        writer.wait()
        writer.stdout.close()
        store = open_store(tmp_path)
        assert len(store) >= acknowledged + 4
        assert_holds(store, list(range(len(store))))


@pytest.mark.parametrize("number", [70_000.0, np.inf, np.nan])
def test_a_number_that_half_precision_does_not_hold_is_refused(tmp_path: Path, number: float) -> None:
    store = open_store(tmp_path)
    rows = {"pooled": np.full((1, 5), number, np.float32), "logits": np.zeros((1, 3), np.float32)}
    with pytest.raises(SeesayError, match="not finite, or too large"):
        store.add({key_of(1): rows})
    assert len(open_store(tmp_path)) == 0
    of_sentences = ArrayStore(tmp_path / "sentences", {"vectors": ("<f4", 5)})
    with pytest.raises(SeesayError, match="too large for float32"):
        of_sentences.add({key_of(1): {"vectors": rows["pooled"] * np.float64(1e38)}})
