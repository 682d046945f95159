"""Images beside texts of the same names, as img2dataset and clip-retrieval write them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from seesay.data.readers import read_corpus
from seesay.data.readers.builder import (
    EMPTY_SENTENCE,
    MALFORMED_LINE,
    NO_SENTENCES,
    OTHER_FILE,
    SEEDED_SPLIT,
    UNKNOWN_IMAGE,
)
from seesay.data.readers.finder import NOT_FOLLOWED, PACKED
from seesay.errors import SeesayError
from tests.data.readers.conftest import jpeg


def write(folder: Path, files: dict[str, str | bytes | None]) -> Path:
    """Write files of these names; an image that is None is a tiny JPEG."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(name) if data is None else data.encode() if isinstance(data, str) else data)
    return folder


def test_the_folder_gives_the_split(tmp_path, content):
    write(tmp_path, {"x-train-0000/1.jpg": None, "x-train-0000/1.txt": "one\nuno\n"})
    write(tmp_path, {"x-train-0000/2.png": b"?", "x-train-0000/2.txt": "two"})
    write(tmp_path, {"test/0/9.jpg": None, "test/0/9.json": json.dumps({"captions": ["nine", "neun"]})})
    assert content(read_corpus(tmp_path)) == {
        "x-train-0000/1.jpg": ("train", ["one", "uno"]),
        "x-train-0000/2.png": ("train", ["two"]),
        "test/0/9.jpg": ("test", ["nine", "neun"]),
    }


def test_json_gives_the_split_and_a_text_precedes_its_caption(tmp_path, content):
    meta = json.dumps({"caption": "from json", "split": "valid"})
    write(tmp_path, {"1.jpg": None, "1.json": meta, "1.txt": "from txt", "2.jpg": None, "2.json": meta})
    assert content(read_corpus(tmp_path)) == {
        "1.jpg": ("val", ["from txt"]),
        "2.jpg": ("val", ["from json"]),
    }


def test_without_a_split_it_is_seeded(tmp_path):
    write(
        tmp_path,
        {f"{i}.{kind}": None if kind == "jpg" else "x" for i in range(20) for kind in ("jpg", "txt")},
    )
    corpus = read_corpus(tmp_path)
    assert [len(corpus.split(s).images) for s in ("train", "val", "test")] == [16, 2, 2]
    assert corpus.issues.counts[SEEDED_SPLIT] == 1


@pytest.mark.parametrize(
    ("image", "text"),
    [
        ("0001.jpg", "0001.caption"),
        ("0001.jpg", "0001.cap"),
        ("0001.JPG", "0001.TXT"),
        ("0001.jpg", "0001.jpg.txt"),
        ("IMG.2019.06.jpg", "IMG.2019.06.txt"),
        ("x.input.jpg", "x.outputs.txt"),
    ],
)
def test_a_text_belongs_to_the_image_of_its_name(tmp_path, content, image, text):
    write(tmp_path, {image: None, text: "a dog", "y.jpg": None})
    assert content(read_corpus(tmp_path))[image][1] == ["a dog"]


@pytest.mark.parametrize("name", [".captions.txt", ".x.json", ".x.jpg"])
def test_a_path_that_begins_with_a_dot_is_refused_in_one_line(tmp_path, name):
    write(tmp_path, {name: "a dog"})
    with pytest.raises(SeesayError, match=re.escape(name)) as failure:
        read_corpus(tmp_path / name)
    assert len(str(failure.value).splitlines()) == 1


def test_a_text_that_may_belong_to_several_images_belongs_to_none(tmp_path, content):
    write(tmp_path, {"IMG.1.jpg": None, "IMG.2.jpg": None, "IMG.txt": "a dog", "IMG.2.txt": "a cat"})
    corpus = read_corpus(tmp_path)
    assert content(corpus) == {"IMG.1.jpg": ("train", []), "IMG.2.jpg": ("train", ["a cat"])}
    assert corpus.issues.counts[UNKNOWN_IMAGE] == 1


def test_every_file_of_the_folder_is_read_or_counted(tmp_path, content):
    write(tmp_path, {"1.jpg": None, "1.json": "{", "2.txt": "of none", "3.jpg": None, "3.txt": "ok"})
    write(tmp_path, {"4.jpg": None, "4.json": '{"caption": null}', "5.jpg": None, "5.txt": ""})
    write(tmp_path, {"0.parquet": "", "0.tar": "", "a/b.tar.gz": "", "_stats.json": "{}"})
    (tmp_path / "secret").symlink_to("/etc/hostname")
    corpus = read_corpus(tmp_path)
    assert {name: texts for name, (_, texts) in content(corpus).items()} == {
        "1.jpg": [],
        "3.jpg": ["ok"],
        "4.jpg": [],
        "5.jpg": [],
    }
    counts = corpus.issues.counts
    assert counts[MALFORMED_LINE] == counts[OTHER_FILE] == counts[PACKED] == 2
    assert counts[EMPTY_SENTENCE] == counts[UNKNOWN_IMAGE] == counts[NOT_FOLLOWED] == 1
    assert counts[NO_SENTENCES] == 3


def test_a_text_that_is_not_utf8_is_counted(tmp_path):
    write(tmp_path, {"1.jpg": None, "1.txt": b"\xff\xfe\xfd", "2.jpg": None, "2.txt": "a dog"})
    corpus = read_corpus(tmp_path)
    assert [sentence.text for sentence in corpus.sentences] == ["a dog"]
    assert "1.txt:1: byte" in corpus.issues.examples[MALFORMED_LINE][0]


def test_photos_with_notes_of_a_program_beside_them_are_a_folder_of_photos(tmp_path):
    write(tmp_path, {"a.jpg": None, "a.jpg.json": '{"title": "a.jpg", "photoTakenTime": {}}'})
    assert [image.split for image in read_corpus(tmp_path).images] == ["test"]


@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz", "x.tgz"])
def test_an_archive_is_named_with_the_command_that_unpacks_it(tmp_path, name):
    write(
        tmp_path,
        {
            name: "",
            "dataset_x.json": json.dumps(
                {"images": [{"filename": "a.jpg", "split": "test", "sentences": [{"raw": "a dog"}]}]}
            ),
        },
    )
    command = rf"unpack.*: mkdir {tmp_path}/x && tar -xf {tmp_path}/{name} -C {tmp_path}/x"
    for path in (tmp_path, tmp_path / name):
        with pytest.raises(SeesayError, match=command):
            read_corpus(path)


@pytest.mark.parametrize("name", ["0.tar", "0.tar.gz", "sub/0.tar"])
@pytest.mark.parametrize("phrases", [False, True])
@pytest.mark.parametrize("beside", ["notes.md", "0_stats.json", "0.csv"])
def test_a_folder_of_shards_alone_is_unpacked_by_the_command_in_the_message(tmp_path, name, phrases, beside):
    write(tmp_path, {name: "", beside: "url,caption\nhttp://x/1.jpg,a dog\n"})
    with pytest.raises(SeesayError, match=f"unpack it: mkdir .*/0 && tar -xf {tmp_path}/{name} -C"):
        read_corpus(tmp_path, phrases=phrases)
    with pytest.raises(SeesayError, match="unpack it: mkdir"):
        read_corpus(tmp_path, "precomp")


def test_a_table_that_lacks_a_column_is_named_before_an_archive(tmp_path):
    write(tmp_path, {"backup.zip": "", "x.csv": "url,caption\nhttp://x/1.jpg,a dog\n"})
    with pytest.raises(SeesayError, match="no column image"):
        read_corpus(tmp_path)
