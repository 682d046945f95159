import pytest

from seesay.data.readers import read_corpus
from seesay.data.readers.builder import (
    EMPTY_SENTENCE,
    MALFORMED_LINE,
    MISSING_IMAGE,
    NO_SENTENCES,
    NO_SPLIT_LISTED,
    REPEATED_ROW,
    SEEDED_SPLIT,
    TWO_SPLITS,
)
from seesay.errors import SeesayError

FLICKR8K_LISTS = ("Flickr_8k.trainImages.txt", "Flickr_8k.devImages.txt", "Flickr_8k.testImages.txt")


def write(folder, name, *lines):
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("text_folder", ["", "Flickr8k_text/"])
def test_flickr8k_layout(tmp_path, photos, content, text_folder):
    photos("Flicker8k_Dataset/a.jpg", "Flicker8k_Dataset/b.jpg", "Flicker8k_Dataset/c.jpg")
    write(
        tmp_path,
        f"{text_folder}Flickr8k.token.txt",
        "a.jpg#0\tA dog .",
        "a.jpg#1\tDog",
        "b.jpg#0\tB",
        "c.jpg#0\tC",
    )
    write(tmp_path, f"{text_folder}Flickr8k.lemma.token.txt", "a.jpg#0\ta dog")
    for name, image in zip(FLICKR8K_LISTS, "abc", strict=True):
        write(tmp_path, text_folder + name, f"{image}.jpg")
    corpus = read_corpus(tmp_path)
    assert content(corpus) == {
        "a.jpg": ("train", ["A dog .", "Dog"]),
        "b.jpg": ("val", ["B"]),
        "c.jpg": ("test", ["C"]),
    }


def test_flickr30k_layout_with_lists_of_stems(tmp_path, photos, content):
    photos("flickr30k-images/1.jpg", "flickr30k-images/2.jpg")
    write(tmp_path, "results_20130124.token", "1.jpg#0\tA\u2028b", "2.jpg#0\tB")
    write(tmp_path, "train.txt", "1")
    write(tmp_path, "val.txt")
    write(tmp_path, "test.txt", "2")
    assert content(read_corpus(tmp_path)) == {"1.jpg": ("train", ["A b"]), "2.jpg": ("test", ["B"])}


def test_without_lists_the_split_is_seeded(tmp_path, photos):
    names = [f"{i}.jpg" for i in range(30)]
    photos(*names)
    file = write(tmp_path, "results.token", *(f"{name}#0\tx" for name in names))
    corpus = read_corpus(file)
    assert [len(corpus.split(s).images) for s in ("train", "val", "test")] == [24, 3, 3]
    assert corpus.issues.counts[SEEDED_SPLIT] == 1


def test_issues(tmp_path, photos, content):
    photos("a.jpg", "unlisted.jpg", "silent.jpg")
    lines = [
        "a.jpg#0\tA",
        "a.jpg#0\tA",
        "a.jpg#1\t ",
        "a.jpg#2",
        "no tab here",
        "",
        "gone.jpg#0\tx",
        "gone.jpg#1\ty",
    ]
    write(tmp_path, "x.token", *lines, "unlisted.jpg#0\tU")
    write(tmp_path, "train.txt", "a.jpg", "gone.jpg", "silent.jpg", "gone2.jpg")
    write(tmp_path, "val.txt", "a.jpg")
    corpus = read_corpus(tmp_path)
    assert content(corpus) == {"a.jpg": ("train", ["A"]), "silent.jpg": ("train", [])}
    counts = corpus.issues.counts
    assert counts[REPEATED_ROW] == counts[MALFORMED_LINE] == counts[NO_SPLIT_LISTED] == 1
    assert counts[EMPTY_SENTENCE] == counts[MISSING_IMAGE] == 2
    assert counts[TWO_SPLITS] == counts[NO_SENTENCES] == 1
    assert corpus.issues.examples[MALFORMED_LINE] == [f"{tmp_path}/x.token:5"]


def test_undecodable_bytes_are_refused_with_their_line(tmp_path, photos):
    photos("a.jpg")
    (tmp_path / "x.token").write_bytes(b"a.jpg#0\tok\na.jpg#1\tcaf\xe9\n")
    with pytest.raises(SeesayError, match=r"x\.token:2: byte 0xe9 is not UTF-8"):
        read_corpus(tmp_path)


def test_a_byte_order_mark_and_carriage_returns_are_no_text(tmp_path, photos, content):
    photos("a.jpg")
    (tmp_path / "x.token").write_bytes(b"\xef\xbb\xbfa.jpg#0\tok\r\na.jpg#1\tfine\r\n")
    (tmp_path / "test.txt").write_bytes(b"\xef\xbb\xbfa.jpg\r\n")
    assert content(read_corpus(tmp_path)) == {"a.jpg": ("test", ["ok", "fine"])}
