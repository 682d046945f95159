"""Corpora in Parquet. They need pyarrow: pip install 'seesay[parquet]'."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seesay.data.readers import parquet, read_corpus, table
from seesay.data.readers.files import MALFORMED_LINE
from seesay.data.readers.parquet import MAX_VALUES
from seesay.errors import ImageError, MissingExtraError, SeesayError
from tests.data.readers.conftest import jpeg


def write(file: Path, group: int = 2, **columns: list[Any]) -> Path:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'seesay[parquet]'")
    file.parent.mkdir(parents=True, exist_ok=True)
    from pyarrow.parquet import write_table

    write_table(pa.table(columns), file, row_group_size=group)
    return file


def rng_bytes(seed: int) -> bytes:
    """Bytes that cannot be compressed."""
    return np.random.default_rng(seed).bytes(20_000)


def cells(*names: str) -> list[dict[str, object]]:
    return [{"bytes": jpeg(name), "path": f"somewhere/{name}"} for name in names]


def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.lib", None)
    (tmp_path / "train.parquet").write_bytes(b"PAR1")
    with pytest.raises(MissingExtraError, match=r"pip install .*\[parquet\]'"):
        read_corpus(tmp_path)


@pytest.mark.slow
def test_images_and_sentences_of_rows(tmp_path: Path, content: Any) -> None:
    names = ("1.jpg", "2.jpg", "3.jpg")
    write(
        tmp_path / "data/train-00000-of-00001.parquet",
        image=cells(*names),
        caption=[["a", "b"], ["c"], ["d"]],
    )
    write(tmp_path / "data/test-00000-of-00001.parquet", image=cells("4.jpg"), caption=["e"])
    corpus = read_corpus(tmp_path)
    assert content(corpus) == {
        "data/test-00000-of-00001/4.jpg": ("test", ["e"]),
        "data/train-00000-of-00001/1.jpg": ("train", ["a", "b"]),
        "data/train-00000-of-00001/2.jpg": ("train", ["c"]),
        "data/train-00000-of-00001/3.jpg": ("train", ["d"]),
    }
    sent = pickle.loads(pickle.dumps(corpus.images))  # noqa: S301 — as Ray sends them to workers
    assert [image.source.read() for image in sent] == [jpeg(name) for name in ("4.jpg", *names)]
    assert sent[1].source.read(5) == jpeg("1.jpg")[:5]


@pytest.mark.slow
def test_bytes_alone_and_a_column_of_splits(tmp_path: Path, content: Any) -> None:
    images = [jpeg("1"), jpeg("2"), None]
    write(tmp_path / "all.parquet", jpg=images, text=["a", "b", "c"], split=["train", "validation", "test"])
    corpus = read_corpus(tmp_path / "all.parquet")
    assert [split for split, _ in content(corpus).values()] == ["train", "val", "test"]
    assert corpus.images[1].source is not None
    assert corpus.images[1].source.read() == jpeg("2")
    with pytest.raises(ImageError, match=r"all\.parquet: row 0 of group 1 has no image"):
        corpus.images[2].source.read()  # type: ignore[union-attr]


def test_images_of_one_name_are_told_apart_by_their_content(tmp_path: Path, content: Any) -> None:
    first, second = jpeg("first"), jpeg("second")
    rows = [first, second, first, second, None]  # of folders of which only the last part is kept
    images = [{"bytes": data, "path": "0001.jpg"} for data in rows]
    write(tmp_path / "train.parquet", image=images, caption=["a", "b", "c", "d", "e"])
    corpus = read_corpus(tmp_path)
    assert [sentences for _, sentences in content(corpus).values()] == [["a", "c"], ["b", "d"], ["e"]]
    assert [each.source and each.source.read() for each in corpus.images[:2]] == [first, second]
    assert corpus.images[0].name == "train/0001.jpg"


def test_a_name_after_the_row_is_no_other_images_name(tmp_path: Path, content: Any) -> None:
    names = ["x.jpg", "x.jpg", "00000-000001-x.jpg", None, "00001-000001"]
    images = [{"bytes": jpeg(str(at)), "path": name} for at, name in enumerate(names)]
    write(tmp_path / "train.parquet", image=images, caption=list("abcde"))
    assert [sentences for _, sentences in content(read_corpus(tmp_path)).values()] == [[c] for c in "abcde"]


def test_only_images_of_one_name_are_read_to_name_them(
    tmp_path: Path, content: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []
    monkeypatch.setattr(parquet.ParquetCell, "read", lambda cell: read.append((cell.group, cell.row)) or b"")
    write(tmp_path / "train.parquet", image=cells("1", "2", "1", "3", "4"), caption=list("abcde"))
    assert [sentences for _, sentences in content(read_corpus(tmp_path)).values()] == [
        ["a", "c"],
        *[[each] for each in "bde"],
    ]
    assert read == [(0, 0), (1, 0)]


def test_a_damaged_page_loses_only_its_images(tmp_path: Path) -> None:
    names = ["1", "1", "2", "3"]
    images = [{"bytes": rng_bytes(at), "path": name} for at, name in enumerate(names)]
    file = write(tmp_path / "train.parquet", image=images, caption=list("abcd"))
    data = bytearray(file.read_bytes())
    at = data.index(rng_bytes(1)[:1000])
    data[at - 2000 : at + 1000] = b"\xff" * 3000
    file.write_bytes(data)
    corpus = read_corpus(tmp_path)
    assert len(corpus.images) == len(corpus.sentences) == 4
    assert corpus.images[3].source is not None
    assert corpus.images[3].source.read() == rng_bytes(3)
    with pytest.raises(ImageError, match="truncated or damaged Parquet file"):
        corpus.images[0].source.read()  # type: ignore[union-attr]


def test_a_repaired_file_is_read_again(tmp_path: Path) -> None:
    images = [{"bytes": rng_bytes(at), "path": str(at)} for at in range(2)]
    file = write(tmp_path / "train.parquet", image=images, caption=["a", "b"])
    whole = file.read_bytes()
    at = whole.index(rng_bytes(1)[:1000])
    source = read_corpus(tmp_path).images[1].source
    assert source is not None
    file.write_bytes(whole[: at - 2000] + b"\xff" * 3000 + whole[at + 1000 :])
    for _ in range(2):
        with pytest.raises(ImageError, match="truncated or damaged") as failure:
            source.read()
        assert len(failure.traceback) < 5
    file.write_bytes(whole)
    os.utime(file, (1, 1))
    assert source.read() == rng_bytes(1)


def test_a_file_that_was_replaced_has_changed(tmp_path: Path) -> None:
    images = [{"bytes": rng_bytes(at), "path": str(at)} for at in range(3)]
    write(tmp_path / "train.parquet", image=images, caption=["a", "b", "c"])
    source = read_corpus(tmp_path).images[2].source
    assert source is not None
    for columns in ({"image": images[:1], "caption": ["a"]}, {"other": ["a"] * 3}):
        os.utime(write(tmp_path / "train.parquet", **columns), (len(columns), 1))
        with pytest.raises(ImageError, match="has changed since it was read"):
            source.read()


def test_images_of_one_name_that_are_too_much_to_compare_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "MOST_COMPARED", 64 << 20)
    images = [{"bytes": rng_bytes(0) * 50, "path": "1.jpg"}] * 100
    write(tmp_path / "train.parquet", 100, image=images, caption=["a dog"] * 100)
    with pytest.raises(
        SeesayError, match=r"have one name, and are too many to compare; write one row for each image"
    ):
        read_corpus(tmp_path)


def test_columns_of_other_names_and_types(tmp_path: Path, content: Any) -> None:
    file, images = tmp_path / "all.parquet", cells("1.jpg", "2.jpg")
    write(file, Bild=images, Satz=["a", "b"], Split=["train", "test"])
    corpus = read_corpus(file, image_column="Bild", caption_column="Satz")
    assert [split for split, _ in content(corpus).values()] == ["train", "test"]
    write(file, image=images, caption=["a", "b"], split=[0, 1])
    with pytest.raises(SeesayError, match=r"2 × malformed line, dropped; the first: .*row 0 of group 0"):
        read_corpus(file)
    with pytest.raises(SeesayError, match=r"no column foto; .*--image-column"):
        read_corpus(file, image_column="foto")


@pytest.mark.slow
def test_names_of_images_beside_the_file(tmp_path: Path, photos: Any, content: Any) -> None:
    photos("images/1.jpg")
    names = ["1.jpg", "1.jpg", "gone.jpg", None]
    write(tmp_path / "train.parquet", file_name=names, caption=["a", None, "c", "d"])
    corpus = read_corpus(tmp_path)
    assert content(corpus) == {"1.jpg": ("train", ["a"])}
    assert corpus.issues.counts[MALFORMED_LINE] == 2
    file = tmp_path / "train.parquet"
    places = ["row 1 of group 0", "row 0 of group 1: no image gone.jpg", "row 1 of group 1"]
    assert corpus.issues.left_out == [f"{file}: {place}" for place in places]
    assert corpus.issues.rows == 4


@pytest.mark.slow
def test_what_is_no_such_file_is_one_line(tmp_path: Path) -> None:
    file = write(tmp_path / "train.parquet", scores=[1, 2])
    with pytest.raises(SeesayError, match="no column image, caption; it has the columns scores"):
        read_corpus(file)
    file.write_bytes(b"PAR1 not at all")
    with pytest.raises(SeesayError, match="truncated or damaged Parquet file"):
        read_corpus(file)


def test_a_small_file_of_many_rows_is_refused_unread(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'seesay[parquet]'")
    file = tmp_path / "train.parquet"
    from pyarrow.parquet import write_table

    rows = {name: pa.repeat(name, MAX_VALUES + 1) for name in ("image", "caption")}
    write_table(pa.table(rows), file)
    assert file.stat().st_size < 200_000
    with pytest.raises(SeesayError, match=r"train\.parquet: 5000001 values in one column; at most"):
        read_corpus(file)


@pytest.mark.parametrize("name", ["caption", "one.of.several"])
def test_a_row_of_more_sentences_than_any_corpus_has_is_refused_unread(name: str, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'seesay[parquet]'")
    from pyarrow.parquet import write_table

    count = MAX_VALUES + 1
    same = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int8()), count), ["a dog"])
    captions = pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), same)
    file = tmp_path / "train.parquet"
    write_table(pa.table({"image": ["1.jpg"], name: captions}), file)
    assert file.stat().st_size < 10_000
    with pytest.raises(SeesayError, match=r"train\.parquet: 5000001 values in one column; at most"):
        read_corpus(file, caption_column=name)


@pytest.mark.parametrize("as_struct", [False, True])
def test_rows_that_share_an_image_share_its_memory(tmp_path: Path, as_struct: bool) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'seesay[parquet]'")
    from pyarrow.parquet import write_table

    image = bytes(range(256)) * 4096
    cell = {"bytes": image, "path": "1.jpg"} if as_struct else image
    rows = pa.table({"image": [cell] * 64, "caption": ["a dog"] * 64})
    write_table(rows, tmp_path / "train.parquet", dictionary_pagesize_limit=1 << 22)
    del rows
    source = read_corpus(tmp_path).images[0].source
    assert source is not None
    before = pa.total_allocated_bytes()
    assert source.read() == image
    assert pa.total_allocated_bytes() - before < 8 * len(image)


def test_rows_of_a_group_are_numbered_from_its_beginning(tmp_path: Path) -> None:
    write(tmp_path / "train.parquet", group=5000, image=cells("1.jpg") * 3000, caption=["a"] * 2999 + [None])
    corpus = read_corpus(tmp_path)
    assert corpus.issues.examples[MALFORMED_LINE] == [f"{tmp_path / 'train.parquet'}: row 2999 of group 0"]


@pytest.mark.parametrize("column", ["image", "caption"])
@pytest.mark.parametrize("compression", ["zstd", "gzip"])
def test_pages_that_expand_without_measure_are_refused_unexpanded(
    tmp_path: Path, column: str, compression: str
) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'seesay[parquet]'")
    from pyarrow.parquet import write_table

    many = [f"{row} {'a' * (1 << 22)}" for row in range(40)]
    few = [f"{row}" for row in range(40)]
    rows = {"image": [each.encode() for each in (many if column == "image" else few)]}
    rows["caption"] = many if column == "caption" else few
    file = tmp_path / "train.parquet"
    write_table(pa.table(rows), file, use_dictionary=False, compression=compression)
    assert file.stat().st_size < 500_000

    def read() -> None:
        source = read_corpus(file).images[0].source
        assert source is not None
        source.read()

    before = pa.total_allocated_bytes()
    with pytest.raises(SeesayError, match=rf"the column {column} has .* bytes and expands to "):
        read()
    assert pa.total_allocated_bytes() - before < 1 << 22


def test_a_sentence_that_many_rows_share_is_counted_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'seesay[parquet]'")
    from pyarrow.parquet import write_table

    monkeypatch.setattr(parquet, "MAX_TEXT", 1 << 20)
    long, lists = pa.array(["a" * 1000] * 4000), [["a" * 1000] * 2] * 4000
    for captions in (long, lists):
        write_table(pa.table({"image": ["1.jpg"] * 4000, "caption": captions}), tmp_path / "train.parquet")
        assert (tmp_path / "train.parquet").stat().st_size < 10_000
        with pytest.raises(SeesayError, match="more than 1 MB of sentences and names"):
            read_corpus(tmp_path / "train.parquet")


@pytest.mark.parametrize("damage", [b"\0", b"\xff", b"\x15"])
def test_a_page_that_is_none_is_one_line(tmp_path: Path, damage: bytes) -> None:
    file = write(tmp_path / "train.parquet", image=["1.jpg"], caption=["a dog"])
    content = file.read_bytes()
    file.write_bytes(content[:4] + damage * 40 + content[44:])
    with pytest.raises(SeesayError, match="amaged Parquet file") as raised:
        read_corpus(file)
    assert "\n" not in str(raised.value)
