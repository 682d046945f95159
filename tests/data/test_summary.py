import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from seesay.data.corpus import Corpus, CorpusImage, Sentence
from seesay.data.images import FileSource
from seesay.data.readers import read_corpus
from seesay.data.readers.builder import EMPTY_SENTENCE
from seesay.data.summary import BROKEN, LEAK, NOT_FINITE, SAME_CONTENT, summarise


def picture(colour, size=(8, 6), format="JPEG", mode="RGB", **options):
    buffer = io.BytesIO()
    Image.new("RGB", size, colour).convert(mode).save(buffer, format, **options)
    return buffer.getvalue()


@pytest.fixture
def corpus(tmp_path):
    images = {
        "a.jpg": picture("red"),
        "b.jpg": picture("red"),
        "c.jpg": picture("red"),
        "d.jpg": picture("blue", (256, 256))[:-60],
        "e.png": picture("blue", (5, 5), "PNG", "P"),
        "f.gif": picture(
            "blue", format="GIF", save_all=True, append_images=[Image.new("RGB", (8, 6), "red")]
        ),
    }
    for name, data in images.items():
        (tmp_path / name).write_bytes(data)
    rows = ["a.jpg,a b c,train", "a.jpg,a,train", "b.jpg,a b,train", "b.jpg,,train", "c.jpg,x,test"]
    rows += ["d.jpg,x,train", "e.png,x,train", "f.gif,x,train"]
    (tmp_path / "t.csv").write_text("image,caption,split\n" + "\n".join(rows))
    return read_corpus(tmp_path)


def test_counts_of_each_split(corpus):
    result = summarise(corpus)
    assert list(result["splits"]) == ["train", "test"]
    assert result["splits"]["train"] == {
        "images": 5,
        "sentences": 6,
        "sentences_per_image": {"min": 1, "mean": 1.2, "max": 2},
        "words_per_sentence": {"min": 1, "mean": 1.5, "max": 3},
        "shared": {"sentences": 3, "images": 3, "i2t": 40.0, "t2i": 66.7},
    }
    assert result["images"] == 6
    assert result["issues"][EMPTY_SENTENCE]["count"] == 1
    assert json.loads(json.dumps(result)) == result


def test_checking_images_finds_broken_and_repeated_ones(corpus):
    issues = summarise(corpus, check_images=True)["issues"]
    assert issues[BROKEN]["count"] == 1
    assert issues[BROKEN]["examples"][0].startswith("d.jpg: truncated or damaged")
    assert issues[SAME_CONTENT]["examples"] == ["b.jpg (train), a.jpg (train)"]
    assert issues[LEAK]["examples"] == ["c.jpg (test), a.jpg (train)"]
    assert BROKEN not in corpus.issues.counts


def test_features_are_checked_for_what_is_not_finite(tmp_path):
    rows = np.ones((3, 4), np.float32)
    rows[1, 2] = np.nan
    np.save(tmp_path / "test_ims.npy", rows)
    (tmp_path / "test_caps.txt").write_text("a\nb\nc\n")
    result = summarise(read_corpus(tmp_path), check_images=True)
    assert result["features"] == {"shape": [3, 4]}
    assert result["issues"][NOT_FINITE]["examples"] == ["test/1"]


def test_images_beside_features_are_checked_too(tmp_path):
    np.save(tmp_path / "test_ims.npy", np.ones((1, 4), np.float32))
    (tmp_path / "test_caps.txt").write_text("a\n")
    corpus = read_corpus(tmp_path)
    (broken := tmp_path / "broken.jpg").write_bytes(picture("red")[:-20])
    image = replace(corpus.images[0], source=FileSource(broken))
    result = summarise(replace(corpus, images=(image,)), check_images=True)
    assert result["features"] == {"shape": [1, 4]}
    assert result["issues"][BROKEN]["count"] == 1


def test_a_folder_of_photos_has_no_sentence_lengths(tmp_path):
    (tmp_path / "a.jpg").write_bytes(picture("red"))
    result = summarise(read_corpus(tmp_path))
    assert result["splits"]["test"]["words_per_sentence"] == {"min": 0, "mean": 0.0, "max": 0}


def test_phrases_are_counted_with_their_issues(scenes):
    corpus = read_corpus(scenes / "phrases.tsv", images=scenes, phrases=True)
    result = summarise(corpus)
    assert (
        result["phrases"]
        == len(corpus.sentences)
        == sum(part["phrases"] for part in result["splits"].values())
    )
    train = result["splits"]["train"]
    assert list(train) == ["images", "phrases", "boxes", "phrases_per_image", "words_per_phrase"]
    assert train["boxes"] >= train["phrases"]
    assert result["issues"] == {}


def test_captions_that_several_images_share_are_counted_with_the_highest_recall():
    images = tuple(CorpusImage(f"{i}.jpg", "test") for i in range(4))
    said = ("red mug", 0), ("Red mug", 1), ("red mug", 2), ("a blue mug", 2), ("a pot", 3)
    corpus = Corpus("shop", Path(), images, tuple(Sentence(*each) for each in said))
    found = summarise(corpus)["splits"]["test"]["shared"]
    assert found == {"sentences": 3, "images": 3, "i2t": 50.0, "t2i": 60.0}
    alone = replace(corpus, sentences=corpus.sentences[2:])
    assert "shared" not in summarise(alone)["splits"]["test"]
