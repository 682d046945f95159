"""Judgement files in their published formats, and what is wrong with others."""

import json
from pathlib import Path

import pytest

from seesay.data.corpus import Corpus, CorpusImage, Sentence
from seesay.data.judgements import Names, read_answers, read_judgements, sentence_number
from seesay.data.readers import read_corpus
from seesay.errors import SeesayError

EXPERT = "a.jpg\tb.jpg#2\t1\t1\t2\na.jpg\ta.jpg#2\t4\t3\t4\n"
CROWD = (
    "a.jpg\ta.jpg#2\t1\t3\t0\n"
    "a.jpg\tb.jpg#2\t0\t0\t4\n"
    "b.jpg\ta.jpg#2\t0.333333333333333\t1\t2\n"
    "b.jpg\tb.jpg#2\t0.666666666666667\t2\t1\n"
)


def written(tmp_path, text, name="judged.txt"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_experts(tmp_path):
    found = read_judgements(written(tmp_path, EXPERT))
    assert found.kind == "expert"
    assert [(p.image, p.sentence, p.ratings) for p in found.pairs] == [
        ("a.jpg", "b.jpg#2", (1, 1, 2)),
        ("a.jpg", "a.jpg#2", (4, 3, 4)),
    ]


def test_crowd_flower_with_carriage_returns_and_an_empty_line(tmp_path):
    found = read_judgements(written(tmp_path, CROWD.replace("\n", "\r\n") + "\n"))
    assert found.kind == "crowdflower"
    assert [p.ratings for p in found.pairs] == [(1,), (0,), (0.333333333333333,), (0.666666666666667,)]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("a.jpg\tb.jpg#2\t1\t1", "five columns"),
        ("a.jpg b.jpg#2 1 1 2", "five columns"),
        ("a.jpg\tb.jpg\t1\t1\t2", r"image\.jpg#n"),
        ("a.jpg\tb.jpg#two\t1\t1\t2", r"image\.jpg#n"),
        ("a.jpg\tb.jpg#2\t1\t1\t5", "three scores of 1 to 4"),
        ("a.jpg\tb.jpg#2\t1\t1\tnan", "three scores of 1 to 4"),
        ("a.jpg\tb.jpg#2\t1\t1\t2.5", "three scores of 1 to 4"),
        ("a.jpg\tb.jpg#2\t1\t3\t0", "three scores of 1 to 4"),
    ],
)
def test_a_malformed_line_is_named(tmp_path, line, why):
    with pytest.raises(SeesayError, match=rf"judged\.txt:3: .*{why}"):
        read_judgements(written(tmp_path, EXPERT + line + "\n"))


@pytest.mark.parametrize(
    "cells", ["0.9\t1\t2", "0\t0\t0", "1\t1.5\t0", "inf\t1\t0", "-1\t-1\t0", "x\t1\t0", "2\t3\t4"]
)
def test_a_share_that_is_not_of_its_counts(tmp_path, cells):
    with pytest.raises(SeesayError, match=r"judged\.txt:5: expected the share of yes"):
        read_judgements(written(tmp_path, f"{CROWD}a.jpg\tb.jpg#2\t{cells}\n"))


def test_files_without_judgements(tmp_path):
    with pytest.raises(SeesayError, match="no judgement"):
        read_judgements(written(tmp_path, "\n"))
    with pytest.raises(SeesayError, match=r"none\.txt"):
        read_judgements(tmp_path / "none.txt")


def test_names_of_sentences():
    names = ("a.jpg#0", "a#b.jpg#12", "a.jpg", "#1", "a.jpg#-1", "a.jpg#²")
    assert [sentence_number(name) for name in names] == [0, 12, None, None, None, None]


def test_where_images_and_sentences_stand():
    images = tuple(CorpusImage(name, "test") for name in ("x/a.jpg", "y/a.jpg", "y/b.jpg"))
    sentences = (Sentence("of b", 2), Sentence("of the first", 0), Sentence("also", 0))
    names = Names(Corpus("c", Path("c"), images, sentences))
    found = [names.image(name) for name in ("x/a.jpg", "a.jpg", "b.jpg", "y/b.jpg", "c.jpg")]
    assert found == [0, None, 2, 2, None]
    assert [names.sentence(n) for n in ("x/a.jpg#0", "x/a.jpg#1", "b.jpg#0")] == [1, 2, 0]
    unknown = ("x/a.jpg#2", "a.jpg#0", "y/a.jpg#0", "b.jpg", "c.jpg#0")
    assert not [name for name in unknown if names.sentence(name) is not None]


def test_sentence_numbers_of_flickr8k_follow_the_sentids(flickr8k_corpus):
    names = Names(flickr8k_corpus)
    document = json.loads((flickr8k_corpus.root / "dataset_flickr8k.json").read_text())
    for record in document["images"][::97]:
        texts = {sentence["sentid"]: sentence["raw"] for sentence in record["sentences"]}
        for number, sentid in enumerate(sorted(record["sentids"])):
            at = names.sentence(f"{record['filename']}#{number}")
            assert flickr8k_corpus.sentences[at].text == " ".join(texts[sentid].split())


def test_token_files_number_their_sentences_so(tmp_path):
    lines = [f"{name}.jpg#{n}\t{name} number {n} ." for name in "ab" for n in range(5)]
    written(tmp_path, "\n".join(lines), "Flickr8k.token.txt")
    for name in "ab":
        (tmp_path / f"{name}.jpg").write_bytes(b"")
    corpus = read_corpus(tmp_path)
    assert corpus.sentences[Names(corpus).sentence("b.jpg#3")].text == "b number 3 ."


def test_right_answers(tmp_path):
    text = '{"a.jpg": ["a.jpg#0", "b.jpg#3"], "a.jpg#0": ["a.jpg"]}'
    assert read_answers(written(tmp_path, text)) == {"a.jpg": ["a.jpg#0", "b.jpg#3"], "a.jpg#0": ["a.jpg"]}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[]", "expected an object"),
        ("{}", "expected an object"),
        ('{"a.jpg": "a.jpg#0"}', "'a.jpg': expected a list"),
        ('{"a.jpg": []}', "'a.jpg': expected a list"),
        ('{"a.jpg": [3]}', "'a.jpg': expected a list"),
        ('{"a.jpg": ["b.jpg"]}', "'a.jpg': the answers"),
        ('{"a.jpg#0": ["b.jpg#0"]}', "'a.jpg#0': the answers"),
        ('{"a.jpg"', "1:9: malformed JSON"),
    ],
)
def test_what_are_no_right_answers(tmp_path, text, why):
    with pytest.raises(SeesayError, match=why):
        read_answers(written(tmp_path, text))
