"""Kept score matrices: which rows are read again, which matrices are kept, how they are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from seesay.encoders.stores import INDEX
from seesay.runs.all_pairs import add_rows, drop_oldest, matrix_name, opened_scores, read_rows


def test_rows_count_from_the_first_on_and_by_their_numbers(tmp_path: Path) -> None:
    """As when a file was removed while another process went on adding to it."""
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    with opened_scores(tmp_path, 3) as store:
        add_rows(store, 2, rows[2:])
        assert read_rows(store, np.empty((4, 3), np.float32)) == 0
        add_rows(store, 0, rows[:3])
        into = np.empty((4, 3), np.float32)
        assert read_rows(store, into) == 4
    assert np.array_equal(into, rows)


def kept(folder: Path) -> list[str]:
    return sorted(file.parent.name for file in folder.glob(f"*/{INDEX}"))


def test_the_cache_keeps_what_was_used_last(tmp_path: Path) -> None:
    row = np.ones((1, 3), np.float32)
    for name in "abc":
        with opened_scores(tmp_path / name, 3) as store:
            add_rows(store, 0, row)
    with opened_scores(tmp_path / "a", 3) as store:
        assert read_rows(store, np.empty((1, 3), np.float32)) == 1
    with opened_scores(tmp_path / "d", 3) as store:
        add_rows(store, 0, row)
    drop_oldest(tmp_path / "d", max_bytes=3 * 3 * 4)  # three matrices of three numbers
    assert kept(tmp_path) == ["a", "c", "d"]
    assert (tmp_path / "b" / "in-use").exists()  # a lock that was deleted could be held twice


def test_the_cache_keeps_what_another_process_is_using(tmp_path: Path) -> None:
    row = np.ones((1, 3), np.float32)
    for name in "abc":
        with opened_scores(tmp_path / name, 3) as store:
            add_rows(store, 0, row)
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / "rows.bin").symlink_to(tmp_path / "nowhere")  # listed, then not there
    with opened_scores(tmp_path / "a", 3) as store:
        drop_oldest(tmp_path / "c", max_bytes=3 * 3 * 4 - 1)  # less than three; a is the oldest
        assert kept(tmp_path) == ["a", "c"]
        drop_oldest(tmp_path / "c", max_bytes=0)
        add_rows(store, 1, row)
    assert kept(tmp_path) == ["a", "c"]


def test_a_matrix_has_the_name_of_all_that_it_is_computed_from() -> None:
    parts: list[Any] = ["cpu", np.zeros((2, 3), np.float32), np.zeros((4, 0), np.float32)]
    others: list[list[Any]] = [
        ["gpu", *parts[1:]],
        ["cpu", np.full((2, 3), 1e-9, np.float32), parts[2]],
        ["cpu", np.zeros((3, 2), np.float32), parts[2]],
        ["cpu", np.zeros((2, 3), np.int32), parts[2]],
        [*parts, np.array(7)],
    ]
    names = {matrix_name(each) for each in (parts, *others)}
    assert len(names) == 1 + len(others)
    assert matrix_name(list(parts)) == matrix_name(parts)
