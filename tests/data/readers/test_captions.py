import gzip
from pathlib import Path

import pytest

from seesay.data.readers import read_corpus
from seesay.data.readers.files import MALFORMED_LINE
from seesay.data.summary import summarise
from seesay.errors import SeesayError
from seesay.recipes.load import load_recipe
from seesay.runs.inputs import split_inputs
from seesay.text.vocabulary import Vocabulary, rare_word_summary

TABLE = (
    "image\tsplit\tcap1\tcap2\n"
    'a.jpg\ttrain\tA "dog" runs.\tA dog\n'
    "b.jpg\ttest\tA cat\t\n"
    "broken line\n\n"
    "c.jpg\tval\tA cow\tThe cow\r\n"
)
FLICKR30K = Path(__file__).parents[3] / ".." / "shared" / "flickr30k-text"


@pytest.mark.parametrize("name", ["captions.tsv", "captions.tsv.gz"])
def test_sentences_without_images(tmp_path, content, name):
    data = TABLE.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    (tmp_path / "README.md").write_text("about it")
    for path in (tmp_path, tmp_path / name):
        corpus = read_corpus(path)
        assert content(corpus) == {
            "a.jpg": ("train", ['A "dog" runs.', "A dog"]),
            "b.jpg": ("test", ["A cat"]),
            "c.jpg": ("val", ["A cow", "The cow"]),
        }
        assert corpus.issues.counts[MALFORMED_LINE] == 1
        assert all(image.source is None for image in corpus.images)


def test_a_csv_has_quotes(tmp_path, content):
    (tmp_path / "x.csv").write_text('image,cap1,split\na.jpg,"A dog, running",train\n')
    assert content(read_corpus(tmp_path)) == {"a.jpg": ("train", ["A dog, running"])}


def test_it_is_summarised_and_cannot_be_encoded(tmp_path, monkeypatch):
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path / "cache"))
    (tmp_path / "x.tsv").write_text(TABLE)
    corpus = read_corpus(tmp_path / "x.tsv")
    assert summarise(corpus, check_images=True).checked is None
    assert rare_word_summary(corpus)["uncommon"]["0"] == {"N": 1, "sentences": 1, "images": 1}
    with pytest.raises(SeesayError, match="no sentence with a usable image"):
        split_inputs(load_recipe("vse++"), corpus, "train", Vocabulary([]))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x1f\x8bnothing", "not a whole gzip file"),
        (gzip.compress(b"name\tcap1\n"), "no column image; columns there: name, cap1"),
        (gzip.compress(b"image\tcap1\tsplit\na\tA dog\tmiddle\n"), "split 'middle'"),
        (gzip.compress(b"image\tcap1\n"), "no image left"),
        (gzip.compress(b"image\tcap1\na\t\xff\n"), "byte 0xff is not UTF-8"),
    ],
)
def test_tables_that_cannot_be_read(tmp_path, data, said):
    (tmp_path / "x.tsv.gz").write_bytes(data)
    with pytest.raises(SeesayError, match=said):
        read_corpus(tmp_path / "x.tsv.gz", "captions")


@pytest.mark.skipif(not FLICKR30K.exists(), reason=f"real data: no sentences at {FLICKR30K}")
def test_flickr30ks_sentences():
    corpus = read_corpus(FLICKR30K)
    assert [len(corpus.split(split).images) for split in ("train", "val", "test")] == [29000, 1014, 1000]
    sizes = rare_word_summary(corpus)["uncommon"]
    assert [of["N"] for of in sizes.values()] == [208, 343, 470, 560]
