"""What a corpus loses counts as lost in every format, and what its ids say does not decide what is kept."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seesay.cli import main
from seesay.data.readers import READERS, choose_reader, read_corpus
from seesay.data.readers.builder import (
    EMPTY_SENTENCE,
    NO_SENTENCES,
    OTHER_FILE,
    REPEATED_ROW,
    SHARED_ID,
    UNUSED_IMAGE,
)
from seesay.data.readers.finder import PACKED, UNREAD_KIND, UNREADABLE
from seesay.errors import SeesayError
from tests.data.readers.conftest import jpeg

GOOD = "a dog"


def karpathy(folder: Path, image: str, text: str | None) -> None:
    records = [
        {"filename": name, "split": "test", "sentences": [{"raw": said}]}
        for name, said in (("a.jpg", GOOD), (image, text))
    ]
    (folder / "dataset_x.json").write_text(json.dumps({"images": records}))


def coco(folder: Path, image: str, text: str | None) -> None:
    images = [{"id": 0, "file_name": "a.jpg"}, {"id": 1, "file_name": image}]
    said = [{"id": at, "image_id": at, "caption": each} for at, each in enumerate((GOOD, text))]
    (folder / "captions_x.json").write_text(json.dumps({"images": images, "annotations": said}))


def token(folder: Path, image: str, text: str | None) -> None:
    (folder / "x.token").write_text(f"a.jpg#0\t{GOOD}\n{image}#0\t{text or ''}\n")


def csv(folder: Path, image: str, text: str | None) -> None:
    (folder / "x.csv").write_text(f"image,caption\na.jpg,{GOOD}\n{image},{text or ''}\n")


def jsonl(folder: Path, image: str, text: str | None) -> None:
    rows = [{"image": "a.jpg", "caption": GOOD}, {"image": image, "caption": text}]
    (folder / "x.jsonl").write_text("\n".join(map(json.dumps, rows)))


def xlsx(folder: Path, image: str, text: str | None) -> None:
    openpyxl = pytest.importorskip("openpyxl", reason="pip install 'seesay[xlsx]'")
    book = openpyxl.Workbook()
    for row in (["image", "caption"], ["a.jpg", GOOD], [image, text]):
        book.active.append(row)
    book.save(folder / "x.xlsx")


def parquet(folder: Path, image: str, text: str | None) -> None:
    pa = pytest.importorskip("pyarrow", reason="pip install 'seesay[parquet]'")
    from pyarrow.parquet import write_table

    write_table(pa.table({"image": ["a.jpg", image], "caption": [GOOD, text]}), folder / "x.parquet")


def parquet_with_images(folder: Path, image: str, text: str | None) -> None:
    pa = pytest.importorskip("pyarrow", reason="pip install 'seesay[parquet]'")
    from pyarrow.parquet import write_table

    files = [folder / name for name in ("a.jpg", image)]
    images = [{"bytes": file.read_bytes(), "path": file.name} if file.exists() else None for file in files]
    for file in folder.glob("*.jpg"):
        file.unlink()
    write_table(pa.table({"image": images, "caption": [GOOD, text]}), folder / "x.parquet")


def json_list(folder: Path, image: str, text: str | None) -> None:
    rows = [{"image": "a.jpg", "caption": GOOD}, {"image": image, "caption": text}]
    (folder / "x.json").write_text(json.dumps(rows))


def tsv(folder: Path, image: str, text: str | None) -> None:
    (folder / "x.tsv").write_text(f"image\tcaption\na.jpg\t{GOOD}\n{image}\t{text or ''}\n")


def precomp(folder: Path, image: str, text: str | None) -> None:
    for file in folder.glob("*.jpg"):
        file.unlink()
    np.save(folder / "test_ims.npy", np.eye(2))
    (folder / "test_caps.txt").write_text(f"{GOOD}\n{text or ''}\n")


def pairs(folder: Path, image: str, text: str | None, suffix: str = ".txt") -> None:
    for name, said in (("a.jpg", GOOD), (image, text)):
        (folder / name).with_suffix(suffix).write_text(said or "")


def pairs_caption(folder: Path, image: str, text: str | None) -> None:
    pairs(folder, image, text, ".caption")


def pairs_json(folder: Path, image: str, text: str | None) -> None:
    for name, said in (("a.jpg", GOOD), (image, text)):
        (folder / name).with_suffix(".json").write_text(json.dumps({"caption": said}))


def shards(folder: Path, image: str, text: str | None) -> None:
    """Unpacked shards of a WebDataset."""
    for at, name in enumerate(("a.jpg", image)):
        (folder / f"{at:05d}").mkdir()
        if (folder / name).exists():
            (folder / name).rename(folder / f"{at:05d}/{name}")
        said = json.dumps({"captions": [text if at else GOOD]})
        (folder / f"{at:05d}/{name}").with_suffix(".json").write_text(said)


def packed_shards(folder: Path, image: str, text: str | None) -> None:
    shards(folder, image, text)
    for shard in (folder / "00000", folder / "00001"):
        shutil.make_archive(str(shard), "tar", shard)
        shutil.rmtree(shard)


def karpathy_tokens(folder: Path, image: str, text: str | None) -> None:
    records = [
        {"filename": name, "split": "test", "sentences": [{"tokens": None if said is None else said.split()}]}
        for name, said in (("a.jpg", GOOD), (image, text))
    ]
    (folder / "dataset.json").write_text(json.dumps({"images": records}))


def photos(_folder: Path, _image: str, _text: str | None) -> None:
    """Images alone."""


def phrase_table(folder: Path, image: str, text: str | None) -> None:
    (folder / "x.csv").write_text(
        f"image,phrase,x1,y1,x2,y2\na.jpg,{GOOD},0,0,4,4\n{image},{text or ''},0,0,4,4\n"
    )


def phrase_list(folder: Path, image: str, text: str | None) -> None:
    box = {"x1": 0, "y1": 0, "x2": 4, "y2": 4}
    rows = [{"image": name, "phrase": said, **box} for name, said in (("a.jpg", GOOD), (image, text))]
    (folder / "x.json").write_text(json.dumps(rows))


def entities(folder: Path, image: str, text: str | None) -> None:
    for part in ("Annotations", "Sentences"):
        (folder / part).mkdir()
    box = "<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>4</xmax><ymax>4</ymax></bndbox>"
    size = "<size><width>8</width><height>8</height></size>"
    for name, said in (("a.jpg", GOOD), (image, text)):
        (folder / f"Sentences/{Path(name).stem}.txt").write_text(f"[/EN#1/other {said or ' '}] .")
        (folder / f"Annotations/{Path(name).stem}.xml").write_text(
            f"<annotation>{size}<object><name>1</name>{box}</object></annotation>"
        )


TABLES = (csv, tsv, jsonl, json_list, xlsx, parquet, parquet_with_images)
PAIRS = (pairs, pairs_caption, pairs_json, shards)
SENTENCES = (karpathy, karpathy_tokens, coco, token, *TABLES, *PAIRS, packed_shards, precomp)
PHRASES = (phrase_table, phrase_list, entities)
FAULTS = {
    "no image": ("gone.jpg", GOOD),
    "damaged image": ("half.jpg", GOOD),
    "no text": ("b.jpg", None),
    "blank text": ("b.jpg", " "),
    **{f"{word} as text": ("b.jpg", word) for word in ("null", "nan", "None")},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two pictures."""
    for name in ("a.jpg", "b.jpg"):
        (tmp_path / name).write_bytes(jpeg(name))
    return tmp_path


@pytest.mark.parametrize("write", [*SENTENCES, *PHRASES, photos])
@pytest.mark.parametrize("fault", FAULTS)
def test_whatever_is_lost_fails_the_check_in_every_format(
    folder: Path, capsys: pytest.CaptureFixture[str], write: Any, fault: str
) -> None:
    if write is precomp and "image" in fault:
        pytest.skip("this format has features, and no images")
    if write is photos and fault != "damaged image":
        pytest.skip("this format has images, and no texts or names of them")
    image, text = FAULTS[fault]
    if image == "half.jpg":
        (folder / image).write_bytes(jpeg("c.jpg")[:-40])
    write(folder, image, text)
    assert omissions(folder, capsys, write) == 1


@pytest.mark.parametrize("write", [*SENTENCES, *PHRASES])
def test_nothing_is_lost_where_nothing_is_wrong(
    folder: Path, capsys: pytest.CaptureFixture[str], write: Any
) -> None:
    write(folder, "b.jpg", "a cat")
    assert omissions(folder, capsys, write) == 0


def test_every_reader_is_among_these_formats(tmp_path: Path) -> None:
    read = {"karpathy-without-restval"}  # the same reader, if it is named
    for write in (*SENTENCES, *PHRASES, photos):
        folder = tmp_path / write.__name__
        folder.mkdir()
        for name in ("a.jpg", "b.jpg"):
            (folder / name).write_bytes(jpeg(name))
        write(folder, "b.jpg", "a cat")
        read.add(choose_reader(folder, None, write in PHRASES).name)
    assert read == set(READERS)


MALFORMED = {
    csv: "a.jpg\n",
    tsv: "a.jpg\n",
    token: "a.jpg without a number\n",
    jsonl: "\n{",
    phrase_table: "a.jpg,a dog\n",
}


@pytest.mark.parametrize("write", MALFORMED)
def test_a_malformed_line_is_lost_in_every_format_that_has_lines(
    folder: Path, capsys: pytest.CaptureFixture[str], write: Any
) -> None:
    write(folder, "b.jpg", "a cat")
    (written,) = folder.glob("x.*")
    written.write_text(written.read_text() + MALFORMED[write])
    assert omissions(folder, capsys, write) == 1


ENTRIES = {
    karpathy: [("images",), ("images", 0, "sentences")],
    coco: [("images",), ("annotations",)],
    jsonl: [()],
    json_list: [()],
    phrase_list: [()],
}


@pytest.mark.parametrize("entry", [None, [], "a dog", 1, {}])
@pytest.mark.parametrize(("write", "at"), [(write, at) for write, all_ in ENTRIES.items() for at in all_])
def test_an_entry_that_is_not_as_expected_is_lost_alone(
    folder: Path, capsys: pytest.CaptureFixture[str], write: Any, at: tuple[Any, ...], entry: Any
) -> None:
    write(folder, "b.jpg", "a cat")
    (written,) = folder.glob("*.json*")
    is_lines = written.suffix == ".jsonl"
    document = [json.loads(line) for line in written.open()] if is_lines else json.loads(written.read_text())
    entries = document
    for key in at:
        entries = entries[key]
    entries.insert(1, entry)
    written.write_text("\n".join(map(json.dumps, document)) if is_lines else json.dumps(document))
    assert omissions(folder, capsys, write) == 1
    assert read_corpus(folder, phrases=write in PHRASES).texts() == [GOOD, "a cat"]


def test_null_instead_of_sentences_is_an_empty_one(folder: Path) -> None:
    records = [
        {"filename": "a.jpg", "split": "test", "sentences": None},
        {"filename": "b.jpg", "split": "test", "sentences": [{"raw": GOOD}]},
    ]
    (folder / "dataset.json").write_text(json.dumps({"images": records}))
    corpus = read_corpus(folder)
    assert corpus.texts() == [GOOD]
    assert [corpus.issues.counts[kind] for kind in (EMPTY_SENTENCE, NO_SENTENCES)] == [1, 1]


def omissions(folder: Path, capsys: pytest.CaptureFixture[str], write: Any) -> int:
    """Check a corpus on the command line; return how many omissions it counts, which its exit status says."""
    options = ["--phrases"] if write in PHRASES else []
    with pytest.raises(SystemExit) as ended:
        main(["data", str(folder), "--check", "--json", *options])
    issues = json.loads(capsys.readouterr().out)["issues"]
    lost: int = sum(issue["count"] for issue in issues.values() if issue["is_omission"])
    assert ended.value.code == (1 if lost else 0)
    return lost


@pytest.mark.parametrize("write", [*SENTENCES, *PHRASES, photos])
def test_every_file_of_the_folder_is_read_or_said(tmp_path: Path, write: Any) -> None:
    for name in ("a.jpg", "b.jpg", "sub/c.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(jpeg(name))
    for name in ("LICENSE.md", "film.mp4", "more.tar"):
        (tmp_path / name).write_bytes(b"")
    write(tmp_path, "b.jpg", "a cat")
    counts = read_corpus(tmp_path, phrases=write in PHRASES).issues.counts
    unused = {**dict.fromkeys((*PAIRS, packed_shards), NO_SENTENCES), photos: None}.get(write, UNUSED_IMAGE)
    archive = UNREADABLE if write is packed_shards else PACKED
    said = [counts[kind] for kind in (OTHER_FILE, unused, UNREAD_KIND, archive) if kind]
    assert said == [1, 1, 1, 1][: len(said)]


@pytest.mark.parametrize("inside", [False, True])
def test_files_beside_texts_are_said_though_the_images_are_elsewhere(tmp_path: Path, inside: bool) -> None:
    texts = tmp_path / "texts"
    images = texts / "images" if inside else tmp_path / "images"
    images.mkdir(parents=True)
    texts.mkdir(exist_ok=True)
    for name in ("a.jpg", "b.jpg"):
        (images / name).write_bytes(jpeg(name))
    csv(texts, "b.jpg", "a cat")
    for file in (texts / "notes.md", texts / "more.tar", images / "LICENSE"):
        file.write_bytes(b"")
    counts = read_corpus(texts, images=images).issues.counts
    assert [counts[kind] for kind in (OTHER_FILE, PACKED)] == [2, 1]


def test_a_sentence_is_kept_whatever_its_id(tmp_path: Path) -> None:
    for name in ("a.jpg", "b.jpg"):
        (tmp_path / name).write_bytes(jpeg(name))
    said = [{"sentid": 0, "raw": "a dog"}, {"sentid": 0, "raw": "a cat"}, {"sentid": 0, "raw": "a dog"}]
    records = [
        {"filename": "a.jpg", "split": "train", "sentences": said},
        {"filename": "b.jpg", "split": "test", "sentences": said[:2]},
    ]
    (tmp_path / "dataset_x.json").write_text(json.dumps({"images": records}))
    corpus = read_corpus(tmp_path)
    assert corpus.texts() == ["a dog", "a cat", "a dog", "a cat"]
    assert corpus.issues.counts[REPEATED_ROW] == 1
    assert corpus.issues.counts[SHARED_ID] == 3
    assert not corpus.issues.omissions


def test_an_id_of_two_images_is_reported(tmp_path: Path) -> None:
    for name in ("a.jpg", "b.jpg"):
        (tmp_path / name).write_bytes(jpeg(name))
    images = [{"id": 0, "file_name": "a.jpg"}, {"id": 0, "file_name": "b.jpg"}]
    said = [{"id": 0, "image_id": 0, "caption": "a dog"}]
    (tmp_path / "captions_x.json").write_text(json.dumps({"images": images, "annotations": said}))
    issues = read_corpus(tmp_path).issues
    assert [issues.examples[kind] for kind in issues.omissions] == [
        [f"{tmp_path}/captions_x.json: images[1] b.jpg: id 0"]
    ]


@pytest.mark.parametrize(("number", "text"), [(1, "1"), (1.0, 1), ("1", 1.0)])
def test_ids_match_as_numbers_and_as_text(tmp_path: Path, number: Any, text: Any) -> None:
    (tmp_path / "a.jpg").write_bytes(jpeg("a.jpg"))
    document = {
        "images": [{"id": number, "file_name": "a.jpg"}],
        "annotations": [{"id": 0, "image_id": text, "caption": "a dog"}],
    }
    (tmp_path / "captions_x.json").write_text(json.dumps(document))
    assert read_corpus(tmp_path).texts() == ["a dog"]


@pytest.mark.parametrize("write", PHRASES)
def test_phrases_are_named_where_sentences_are_wanted(tmp_path: Path, write: Any) -> None:
    write(tmp_path, "b.jpg", "a cat")
    with pytest.raises(SeesayError, match=r"phrases with boxes .* for grounding, or read it with --phrases"):
        read_corpus(tmp_path)


def test_sentences_are_named_where_phrases_are_wanted(tmp_path: Path) -> None:
    karpathy(tmp_path, "b.jpg", "a cat")
    with pytest.raises(
        SeesayError, match=r"sentences .karpathy.; .* for whole images, or read it without --phrases"
    ):
        read_corpus(tmp_path, phrases=True)
