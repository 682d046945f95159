import json

import numpy as np
import pytest

from seesay.data.images import decode
from seesay.data.readers import read_corpus
from seesay.data.readers.builder import (
    EMPTY_SENTENCE,
    MISSING_IMAGE,
    NO_SENTENCES,
    REPEATED_IMAGE,
    REPEATED_ROW,
    REPEATED_SENTENCE,
    UNUSED_IMAGE,
)
from seesay.errors import SeesayError


def record(name, split="train", raws=("a dog .",), imgid=0, **more):
    return {"filename": name, "split": split, "imgid": imgid, "sentences": [{"raw": r} for r in raws], **more}


def write(folder, *records, name="dataset_tiny.json"):
    (folder / name).write_text(json.dumps({"dataset": "tiny", "images": records}))
    return folder / name


def test_images_in_a_folder_beside(tmp_path, photos, content):
    photos("images/a.jpg", "images/b.jpg")
    write(tmp_path, record("a.jpg", raws=["one", "two"]), record("b.jpg", "test", ["three"]))
    corpus = read_corpus(tmp_path)
    assert corpus.name == "tiny"
    assert content(corpus) == {"a.jpg": ("train", ["one", "two"]), "b.jpg": ("test", ["three"])}
    assert corpus.images[1].source.read() == (tmp_path / "images/b.jpg").read_bytes()


def test_a_record_that_is_no_object_is_named(tmp_path):
    write(tmp_path, "x")
    with pytest.raises(SeesayError, match=r"images\[0\]: expected an object"):
        read_corpus(tmp_path)


def test_features_of_one_name_in_two_folders(tmp_path):
    np.save(tmp_path / "f.npy", np.eye(2, dtype=np.float32))
    (tmp_path / "f_ids.txt").write_text("B/1.jpg\nA/1.jpg\n")
    write(tmp_path, record("1.jpg", filepath="A"), record("1.jpg", "test", filepath="B"))
    assert [image.row for image in read_corpus(tmp_path).images] == [1]  # without files they are one


def test_images_of_one_name_in_two_folders(tmp_path, photos, content):
    photos("A/1.jpg", "B/1.jpg")
    write(
        tmp_path,
        record("1.jpg", raws=["in A"], filepath="A"),
        record("1.jpg", "test", ["in B"], filepath="B"),
    )
    assert content(read_corpus(tmp_path)) == {"1.jpg": ("train", ["in A"]), "B/1.jpg": ("test", ["in B"])}


def test_coco_folders_and_restval(tmp_path, photos, content):
    photos("train2014/x.jpg", "val2014/x.jpg", "val2014/y.jpg")
    write(
        tmp_path,
        record("y.jpg", "restval", filepath="val2014"),
        record("x.jpg", "test", filepath="val2014"),
    )
    corpus = read_corpus(tmp_path)
    assert [image.split for image in corpus.images] == ["train", "test"]
    assert corpus.images[1].source.path == tmp_path / "val2014/x.jpg"
    assert not [kind for kind in corpus.issues.counts if "several" in kind]
    without = read_corpus(tmp_path, "karpathy-without-restval")
    assert [image.split for image in without.images] == ["test"]
    assert [sentence.image for sentence in without.sentences] == [0]
    assert (corpus.reading, without.reading) == ({}, {"format": "karpathy-without-restval"})
    write(tmp_path, record("x.jpg", "test", filepath="val2014"))
    with pytest.raises(SeesayError, match="no restval images"):
        read_corpus(tmp_path, "karpathy-without-restval")


def test_features_of_whole_images_when_there_are_no_images(tmp_path):
    features = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.save(tmp_path / "vgg.npy", features)
    (tmp_path / "vgg_ids.txt").write_text("a.jpg\nc.jpg\nb.jpg\n")
    write(tmp_path, record("b.jpg"), record("a.jpg", "test"))
    corpus = read_corpus(tmp_path)
    assert corpus.images[0].source is None
    rows = [image.row for image in corpus.images]
    assert corpus.features[rows].tolist() == features[[2, 0]].tolist()


def test_issues_are_counted_and_the_rest_is_kept(tmp_path, photos, content):
    photos("a.jpg", "b.jpg", "c.jpg")
    a = record("a.jpg", raws=["ein Hund über Stock", "  ", "two\n lines", "ok", "ok"])
    again = record("a.jpg", raws=["more"])
    repeated = record("b.jpg")
    repeated["sentences"] = [{"raw": "once", "sentid": 7}, {"raw": "once", "sentid": 7}]
    tokens = record("c.jpg", raws=[])
    write(tmp_path, a, record("gone.jpg", raws=["x", "y"]), again, repeated, tokens)
    corpus = read_corpus(tmp_path)
    assert content(corpus) == {
        "a.jpg": ("train", ["ein Hund über Stock", "two lines", "ok", "ok", "more"]),
        "b.jpg": ("train", ["once"]),
        "c.jpg": ("train", []),
    }
    assert corpus.issues.counts == {
        MISSING_IMAGE: 1,
        EMPTY_SENTENCE: 1,
        REPEATED_IMAGE: 1,
        REPEATED_ROW: 1,
        REPEATED_SENTENCE: 1,
        NO_SENTENCES: 1,
    }
    assert "images[1] gone.jpg" in corpus.issues.examples[MISSING_IMAGE][0]
    assert "images[0].sentences[1]" in corpus.issues.examples[EMPTY_SENTENCE][0]


def test_images_that_the_corpus_does_not_use_are_counted(tmp_path, photos):
    photos("v2/a.jpg", "v2/b.jpg", "more/c.jpg")
    (tmp_path / "images").symlink_to("v2")
    write(tmp_path, record("a.jpg", filepath="images"), record("b.jpg", filepath="v2"))
    issues = read_corpus(tmp_path).issues
    assert issues.examples[UNUSED_IMAGE] == ["more/c.jpg"]
    assert not issues.omissions


def test_tokens_stand_in_for_raw(tmp_path, photos):
    photos("a.jpg")
    write(tmp_path, {**record("a.jpg"), "sentences": [{"tokens": ["a", "dog"]}]})
    assert read_corpus(tmp_path).texts() == ["a dog"]


def test_lone_surrogates_do_not_get_in(tmp_path, photos):
    photos("a.jpg")
    (tmp_path / "dataset_x.json").write_text(
        '{"images": [{"filename": "a.jpg", "split": "train", '
        r'"sentences": [{"raw": "x \ud800 y \ud83d\ude00"}]}]}'
    )
    assert read_corpus(tmp_path).texts() == ["x \N{REPLACEMENT CHARACTER} y \N{GRINNING FACE}"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"images": [}', r"dataset_x\.json:1:13: malformed JSON"),
        ('{"pictures": []}', "images: Field required"),
        ("[]", "expected an object"),
        ('{"images": {}}', "images: Input should be a valid list"),
        ('{"images": [{"split": "train"}]}', r"images\[0\]: filename: Field required"),
        ('{"images": [{"filename": "a.jpg", "split": "tain", "sentences": []}]}', "split 'tain' is unknown"),
        ('{"images": [{"filename": "a.jpg", "split": "train", "sentences": {}}]}', "valid list"),
        ('{"images": []}', "nothing left"),
        ("[" * 100_000, "nested too deeply"),
        ('{"images": [%s]}' % ("9" * 100_000), "too many digits"),
    ],
)
def test_malformed_files_are_refused_with_their_place(tmp_path, photos, text, message):
    photos("a.jpg")
    (tmp_path / "dataset_x.json").write_text(text)
    with pytest.raises(SeesayError, match=message):
        read_corpus(tmp_path)


def test_nothing_left_says_why(tmp_path):
    write(tmp_path, record("a.jpg"), record("b.jpg"))
    with pytest.raises(SeesayError, match=r"2 × image listed but missing.*a\.jpg.*Put the images"):
        read_corpus(tmp_path)


def test_several_split_files_want_a_choice(tmp_path, photos):
    photos("a.jpg")
    write(tmp_path, record("a.jpg"))
    other = write(tmp_path, record("a.jpg", "val"), name="dataset_other.json")
    with pytest.raises(SeesayError, match=r"dataset_other\.json, dataset_tiny\.json"):
        read_corpus(tmp_path)
    assert read_corpus(other).images[0].split == "val"


def test_flickr8k(flickr8k_corpus):
    corpus = flickr8k_corpus
    assert (len(corpus.images), len(corpus.sentences)) == (8000, 40_000)
    assert [len(corpus.split(split).images) for split in ("train", "val", "test")] == [6000, 1000, 1000]
    assert (np.bincount(corpus.image_of_sentence()) == 5).all()
    assert corpus.issues.counts == {REPEATED_SENTENCE: 10}
    for image in corpus.images[::800]:
        assert decode(image.source.read(), image.name).shape == (224, 224, 3)
