"""Corpora in Parquet. They need pyarrow: pip install 'seesay[parquet]'."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

from seesay.data.readers import read_corpus
from seesay.data.readers.builder import EMPTY_SENTENCE, MALFORMED_LINE, MISSING_IMAGE
from seesay.errors import MissingExtraError, SeesayError
from tests.data.readers.conftest import jpeg


def write(file: Path, group: int = 2, **columns: list[Any]) -> Path:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'seesay[parquet]'")
    file.parent.mkdir(parents=True, exist_ok=True)
    from pyarrow.parquet import write_table

    write_table(pa.table(columns), file, row_group_size=group)
    return file


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


@pytest.mark.slow
def test_bytes_alone_and_a_column_of_splits(tmp_path: Path, content: Any) -> None:
    images = [jpeg("1"), jpeg("2"), None]
    write(tmp_path / "all.parquet", jpg=images, text=["a", "b", "c"], split=["train", "validation", "test"])
    corpus = read_corpus(tmp_path / "all.parquet")
    assert [split for split, _ in content(corpus).values()] == ["train", "val"]
    assert corpus.images[1].source is not None
    assert corpus.images[1].source.read() == jpeg("2")
    assert corpus.issues.examples[MALFORMED_LINE] == [f"{tmp_path}/all.parquet: row 2"]


def test_images_of_one_name_are_told_apart_by_their_content(tmp_path: Path, content: Any) -> None:
    first, second = jpeg("first"), jpeg("second")
    rows = [first, second, first, second, None]  # of folders of which only the last part is kept
    images = [{"bytes": data, "path": "0001.jpg"} for data in rows]
    write(tmp_path / "train.parquet", image=images, caption=["a", "b", "c", "d", "e"])
    corpus = read_corpus(tmp_path)
    assert [sentences for _, sentences in content(corpus).values()] == [["a", "c"], ["b", "d"]]
    assert [each.source and each.source.read() for each in corpus.images] == [first, second]
    assert corpus.issues.counts[MISSING_IMAGE] == 1, "the last row has no more than the name"
    assert corpus.images[0].name == "train/0001.jpg"


def test_a_name_after_the_row_is_no_other_images_name(tmp_path: Path, content: Any) -> None:
    names = ["x.jpg", "x.jpg", "00000-000001-x.jpg", None, "00001-000001"]
    images = [{"bytes": jpeg(str(at)), "path": name} for at, name in enumerate(names)]
    write(tmp_path / "train.parquet", image=images, caption=list("abcde"))
    assert [sentences for _, sentences in content(read_corpus(tmp_path)).values()] == [[c] for c in "abcde"]


def test_columns_of_other_names_and_types(tmp_path: Path, content: Any) -> None:
    file, images = tmp_path / "all.parquet", cells("1.jpg", "2.jpg")
    write(file, Bild=images, Satz=["a", "b"], Split=["train", "test"])
    corpus = read_corpus(file, image_column="Bild", caption_column="Satz")
    assert [split for split, _ in content(corpus).values()] == ["train", "test"]
    write(file, image=images, caption=["a", "b"], split=[0, 1])
    with pytest.raises(SeesayError, match=r"2 × malformed line, dropped; the first: .*row 0"):
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
    assert corpus.issues.counts[EMPTY_SENTENCE] == corpus.issues.counts[MALFORMED_LINE] == 1
    file = tmp_path / "train.parquet"
    assert corpus.issues.examples[MISSING_IMAGE] == [f"{file}: row 2 gone.jpg"]


@pytest.mark.slow
def test_what_is_no_such_file_is_one_line(tmp_path: Path) -> None:
    file = write(tmp_path / "train.parquet", scores=[1, 2])
    with pytest.raises(SeesayError, match="no column image, caption; it has the columns scores"):
        read_corpus(file)
    file.write_bytes(b"PAR1 not at all")
    with pytest.raises(SeesayError, match="truncated or damaged Parquet file"):
        read_corpus(file)


@pytest.mark.parametrize("damage", [b"\0", b"\xff", b"\x15"])
def test_a_page_that_is_none_is_one_line(tmp_path: Path, damage: bytes) -> None:
    file = write(tmp_path / "train.parquet", image=["1.jpg"], caption=["a dog"])
    content = file.read_bytes()
    file.write_bytes(content[:4] + damage * 40 + content[44:])
    with pytest.raises(SeesayError, match="amaged Parquet file") as raised:
        read_corpus(file)
    assert "\n" not in str(raised.value)
