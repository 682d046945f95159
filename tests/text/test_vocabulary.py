import csv
import gzip
import unicodedata
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seesay.data.readers import read_corpus
from seesay.data.texts import composed
from seesay.errors import SeesayError
from seesay.text.tokens import replace_words, tokenize
from seesay.text.vocabulary import (
    NO_WORDS,
    UNKNOWN,
    Vocabulary,
    rare_word_summary,
    rarest_words,
    uncommon_words,
    word_counts,
)


def test_frequent_first_ties_by_alphabet_and_seldom_left_out() -> None:
    vocabulary = Vocabulary.from_texts(["b a c", "b a", "b d"], min_count=2)
    assert vocabulary.words == ("b", "a")
    assert vocabulary.encode("a zebra b") == [2, UNKNOWN, 1]
    assert len(vocabulary) == 3


def test_words_by_their_base_forms(tmp_path: Path) -> None:
    texts = ["Two men are sitting", "a man sits", "the buildings", "a painted building"]
    vocabulary = Vocabulary.from_texts(texts, min_count=2, lemmas=True)
    assert vocabulary.words == ("a", "building", "man", "sit")
    assert vocabulary.encode("Men sat in a building") == [3, 4, UNKNOWN, 1, 2]
    vocabulary.save(tmp_path / "vocabulary.json")
    loaded = Vocabulary.load(tmp_path / "vocabulary.json")
    assert loaded.encode("men sat") == [3, 4]
    assert Vocabulary(vocabulary.words).encode("men sat") == [UNKNOWN, UNKNOWN]


def test_a_sentence_without_words_is_one_unknown_word() -> None:
    assert Vocabulary(["a"]).encode(" ?! ") == [UNKNOWN]


def test_saved_and_loaded_is_the_same(tmp_path: Path) -> None:
    vocabulary = Vocabulary(["schöne", "日本", "it's"])
    vocabulary.save(tmp_path / "v.json")
    assert Vocabulary.load(tmp_path / "v.json").words == vocabulary.words


@pytest.mark.parametrize(
    "content", ["{", '{"a": 1}', "[1, 2]", "[" * 100_000, '["a"]' + " " * (17 << 20)], ids=range(5)
)
def test_a_damaged_file_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "v.json"
    path.write_text(content)
    with pytest.raises(SeesayError, match=r"v\.json"):
        Vocabulary.load(path)


@given(st.text())
def test_tokens_are_lower_case_words(text: str) -> None:
    for word in tokenize(text):
        assert word
        assert not any(c.isspace() for c in word)
        assert tokenize(word) == [word] or word != word.lower()


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
    nothing = {"words": 0, "below 10": 0.0, "at most 1": 0.0, "frequencies": {}}
    assert rare_word_summary([], ["?!"]) == nothing


def test_figure_1_counts_words_not_occurrences():
    train = ["a " * 50 + "dog " * 10, "cat " * 9 + "cow"]
    shown = rare_word_summary(train, ["a a a dog", "a cat cow xylophone"])
    frequencies = {"a": 50, "dog": 10, "cat": 9, "cow": 1, "xylophone": 0}
    assert shown == {"words": 5, "below 10": 60.0, "at most 1": 40.0, "frequencies": frequencies}


def test_test_sets_of_a_corpus(scenes):
    corpus = read_corpus(scenes)
    test = corpus.split("test")
    summary = rare_word_summary(corpus.split("train").texts(), test.texts())
    frequencies = summary["frequencies"]
    assert list(frequencies.values()) == sorted(frequencies.values(), reverse=True)
    counts = word_counts(corpus.split("train").texts())
    assert frequencies == {word: counts[word] for word in word_counts(test.texts())}
    assert len(frequencies) == summary["words"]


@pytest.mark.skipif(not FLICKR30K.exists(), reason=f"real data: no sentences at {FLICKR30K}")
def test_flickr30k_is_as_the_paper_prints_it():
    with gzip.open(FLICKR30K, "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    texts = {split: [row[f"cap{i}"] for row in rows if row["split"] == split for i in range(1, 6)]
             for split in ("train", "test")}  # fmt: skip
    shown = rare_word_summary(texts["train"], texts["test"])
    assert (round(shown["below 10"]), round(shown["at most 1"])) == (24, 8)  # the paper's, section 1
    ours = [len(uncommon_words(texts["test"], word_counts(texts["train"]), k)) for k in range(4)]
    assert ours == [208, 343, 470, 560]
    assert np.allclose(ours, [204, 321, 437, 513], rtol=0.1)  # the paper's N; another tokenizer


def test_composed_and_decomposed_accents_are_one() -> None:
    decomposed = unicodedata.normalize("NFD", "Un café crème")
    assert tokenize(decomposed) == tokenize("Un café crème") == ["un", "café", "crème"]


@pytest.mark.parametrize(
    "text",
    [
        "हिन्दी में एक कुत्ता",
        "ছবিতে একটি কুকুর",
        "படத்தில் நாய்",
        "ภาพ สุนัข",
        "שָׁלוֹם כֶּלֶב",
        "می\u200cخواهم سگ",
        "ශ්\u200dරී ලංකා",
        "ꯃꯤꯇꯩꯂꯣꯟ ꯍꯨꯏ",
    ],
)
def test_words_keep_their_vowel_signs(text: str) -> None:
    assert tokenize(text) == [composed(word) for word in text.split()]


def test_decomposed_words_are_replaced_where_they_stand() -> None:
    decomposed = unicodedata.normalize("NFD", "a chairé")
    assert replace_words(decomposed, {"chairé": "chair"}) == "a chair"
