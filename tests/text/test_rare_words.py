import csv
import gzip
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seesay.data.corpus import Corpus, CorpusImage, Sentence
from seesay.data.readers import read_corpus
from seesay.text.vocabulary import (
    NO_WORDS,
    figure_1,
    rare_word_summary,
    rarest_words,
    uncommon_words,
    word_counts,
)

FLICKR30K = Path(__file__).parents[2] / ".." / "shared" / "flickr30k-text" / "captions.tsv.gz"
sentences = st.lists(st.text("ab ", max_size=6), max_size=8)


@given(train=sentences, test=sentences, k=st.integers(0, 3))
def test_a_sentence_is_few_shot_exactly_when_it_holds_an_uncommon_word(train, test, k):
    seen = Counter(" ".join(train).split())
    uncommon = {word for word in " ".join(test).split() if seen[word] <= k}
    counts = word_counts(train)
    assert uncommon_words(test, counts, k) == uncommon
    holds = [bool(uncommon & set(text.split())) for text in test]
    assert (rarest_words(test, counts) <= k).tolist() == holds


def test_a_sentence_without_words_has_no_rarest():
    assert rarest_words(["?!", ""], {}).tolist() == [NO_WORDS, NO_WORDS]
    assert figure_1(["?!"], {}) == {"words": 0, "below 10": 0.0, "at most 1": 0.0}


def test_figure_1_counts_words_not_occurrences():
    counts = {"a": 50, "dog": 10, "cat": 9, "cow": 1}
    shown = figure_1(["a a a dog", "a cat cow xylophone"], counts)
    assert shown == {"words": 5, "below 10": 60.0, "at most 1": 40.0}


def test_test_sets_of_a_corpus(scenes):
    corpus = read_corpus(scenes)
    test = corpus.split("test")
    seen = Counter(" ".join(corpus.split("train").texts()).replace(".", "").lower().split())
    summary = rare_word_summary(corpus)
    for k, told in summary["uncommon"].items():
        hold = [
            any(seen[w] <= int(k) for w in s.text.replace(".", "").lower().split()) for s in test.sentences
        ]
        images = {s.image for s, holds in zip(test.sentences, hold, strict=True) if holds}
        assert (told["sentences"], told["images"]) == (sum(hold), len(images))


def test_no_train_split_no_summary():
    corpus = Corpus("x", Path(), (CorpusImage("a", "test"),), (Sentence("A dog", 0),))
    assert rare_word_summary(corpus) == {}


@pytest.mark.skipif(not FLICKR30K.exists(), reason=f"real data: no sentences at {FLICKR30K}")
def test_flickr30k_is_as_the_paper_prints_it():
    with gzip.open(FLICKR30K, "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    texts = {split: [row[f"cap{i}"] for row in rows if row["split"] == split for i in range(1, 6)]
             for split in ("train", "test")}  # fmt: skip
    counts = word_counts(texts["train"])
    shown = figure_1(texts["test"], counts)
    assert (round(shown["below 10"]), round(shown["at most 1"])) == (24, 8)  # the paper's, section 1
    ours = [len(uncommon_words(texts["test"], counts, k)) for k in range(4)]
    assert ours == [208, 343, 470, 560]
    assert np.allclose(ours, [204, 321, 437, 513], rtol=0.1)  # the paper's N; another tokenizer
