import json

import pytest

from seesay.data.readers import read_corpus
from seesay.data.readers.builder import NO_SENTENCES, SEEDED_SPLIT, UNKNOWN_IMAGE
from seesay.data.readers.files import MALFORMED_LINE
from seesay.data.readers.webdataset import SECOND_IMAGE
from seesay.errors import SeesayError


def test_shards_with_splits_in_their_names(tmp_path, shard, content):
    shard("x-train-0000.tar", [("1.jpg", None), ("1.txt", "one\nuno\n"), ("2.png", b"?"), ("2.txt", "two")])
    shard("x-train-0001.tar", [("1.txt", "ichi"), ("1.jpg", None)])
    shard("test/0.tar", [("a/9.jpg", None), ("a/9.json", json.dumps({"captions": ["nine", "neun"]}))])
    corpus = read_corpus(tmp_path)
    assert content(corpus) == {
        "x-train-0000/1.jpg": ("train", ["one", "uno"]),
        "x-train-0000/2.png": ("train", ["two"]),
        "x-train-0001/1.jpg": ("train", ["ichi"]),
        "test/0/a/9.jpg": ("test", ["nine", "neun"]),
    }


def test_json_tells_the_split_and_text_wins_over_its_caption(tmp_path, shard, content):
    meta = json.dumps({"caption": "from json", "split": "valid"})
    file = shard(
        "x-train.tar",
        [("1.jpg", None), ("1.json", meta), ("1.txt", "from txt"), ("2.jpg", None), ("2.json", meta)],
    )
    assert content(read_corpus(file)) == {
        "x-train/1.jpg": ("val", ["from txt"]),
        "x-train/2.jpg": ("val", ["from json"]),
    }


def test_without_a_split_it_is_seeded(tmp_path, shard):
    shard(
        "0.tar",
        [(f"{i}.{kind}", None if kind == "jpg" else "x") for i in range(20) for kind in ("jpg", "txt")],
    )
    corpus = read_corpus(tmp_path)
    assert [len(corpus.split(s).images) for s in ("train", "val", "test")] == [16, 2, 2]
    assert corpus.issues.counts[SEEDED_SPLIT] == 1


def test_issues(tmp_path, shard, content):
    members = [
        ("1.jpg", None),
        ("1.json", "{"),
        ("2.txt", "of none"),
        ("3.jpg", None),
        ("3.txt", "ok"),
        ("3.png", b""),
    ]
    shard("train.tar", [*members, ("4.jpg", None), ("4.json", '{"caption": null}')])
    corpus = read_corpus(tmp_path)
    assert content(corpus) == {
        "train/1.jpg": ("train", []),
        "train/3.jpg": ("train", ["ok"]),
        "train/4.jpg": ("train", []),
    }
    assert corpus.issues.counts[MALFORMED_LINE] == corpus.issues.counts[NO_SENTENCES] == 2
    assert corpus.issues.counts[UNKNOWN_IMAGE] == corpus.issues.counts[SECOND_IMAGE] == 1


def test_a_folder_of_photos_with_a_backup_in_it_is_no_webdataset(tmp_path, photos, shard):
    photos("a.jpg")
    shard("backup.tar", [("a.jpg", None), ("b.jpg", None)])
    assert [image.name for image in read_corpus(tmp_path).images] == ["a.jpg"]


def test_an_undecodable_text_is_counted_and_a_truncated_shard_refused(tmp_path, shard, content):
    members = [("1.jpg", None), ("1.txt", b"\xff\xfe\xfd"), ("2.jpg", None), ("2.txt", b"a dog")]
    path = shard("x.tar", members)
    corpus = read_corpus(path)
    assert [sentence.text for sentence in corpus.sentences] == ["a dog"]
    assert "x.tar: 1.jpg:1: byte" in corpus.issues.examples[MALFORMED_LINE][0]
    path.write_bytes(path.read_bytes()[:700])
    with pytest.raises(SeesayError, match=r"x\.tar: not a whole"):
        read_corpus(path)
