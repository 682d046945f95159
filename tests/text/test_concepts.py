from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seesay.data.corpus import Corpus, CorpusImage, Sentence
from seesay.data.readers import read_corpus
from seesay.errors import SeesayError
from seesay.text.concepts import (
    PARTS_OF_SPEECH,
    Concept,
    concept_targets,
    content_words,
    frequent_concepts,
    lemma,
    load_concepts,
    save_concepts,
)

SENTENCES = ["Two dogs run", "a dog is running", "a red dog", "it is on", "a skateboard", "he skateboards"]


def test_counts_are_of_sentences_and_lemmas_are_unified() -> None:
    found = frequent_concepts([*SENTENCES, "a dog and a dog"], max_size=10, min_count=2)
    assert found == [
        Concept("dog", "noun", 4),
        Concept("run", "verb", 2),
        Concept("skateboard", "noun", 2),
    ]


def test_the_most_frequent_are_kept() -> None:
    found = frequent_concepts(SENTENCES, max_size=1, min_count=1)
    assert [concept.word for concept in found] == ["dog"]


def test_no_concept_at_all_is_an_error() -> None:
    with pytest.raises(SeesayError, match="No content word"):
        frequent_concepts(["it is on", "xxxx"], min_count=2)


def test_saved_and_loaded(tmp_path: Path) -> None:
    found = frequent_concepts(SENTENCES, min_count=1)
    save_concepts(found, tmp_path / "concepts.json")
    assert load_concepts(tmp_path / "concepts.json") == found


@pytest.mark.parametrize("text", ["", "[1]", "{}", '{"concepts": [{"word": "a"}], "wanted": 1}'])
def test_a_damaged_file_is_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "concepts.json"
    path.write_text(text)
    with pytest.raises(SeesayError, match="not a list of concepts"):
        load_concepts(path)


def test_an_images_targets_are_of_all_its_sentences() -> None:
    images = tuple(CorpusImage(str(i), "train") for i in range(3))
    sentences = (Sentence("Dogs!", 2), Sentence("it is", 1), Sentence("running", 2), Sentence("two men", 0))
    corpus = Corpus("c", Path(), images, sentences)
    targets = concept_targets(["run", "dog", "two"], corpus)
    assert targets.tolist() == [[False, False, True], [False, False, False], [True, True, False]]


def test_flickr8k_has_the_concepts_one_expects(flickr8k: Path) -> None:
    val = read_corpus(flickr8k).split("val")
    found = frequent_concepts(val.texts())
    parts = {concept.word: concept.part_of_speech for concept in found}
    assert len(parts) == 256
    assert [concept.word for concept in found[:3]] == ["dog", "man", "two"]
    expected = {"dog": "noun", "people": "noun", "red": "adjective", "run": "verb", "wear": "verb"}
    assert expected.items() <= parts.items()
    assert parts["two"] == parts["three"] == "number"
    assert not {"men", "dogs", "running", "wearing", "is", "a", "in"} & parts.keys()
    targets = concept_targets([concept.word for concept in found], val)
    # "dog" by another way: images with a sentence that has the word itself.
    named = {s.image for s in val.sentences if {"dog", "dogs"} & set(s.text.lower().split())}
    assert np.mean(targets[sorted(named), 0]) > 0.99


def _tagged(sentence: str) -> list[str]:
    return [f"{word.lemma}/{word.part_of_speech[0]}" for word in content_words(sentence)]


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("Two men are riding brown horses.", "two/n man/n ride/v brown/a horse/n"),
        ("A woman wears a red T-shirt and shorts", "woman/n wear/v red/a t-shirt/n shorts/n"),
        ("the boy's dog ran in front of 3 children", "boy/n dog/n run/v three/n child/n"),
        ("A man in white stands by a building", "man/n white/a stand/v building/n"),
        ("a running dog is wet", "run/v dog/n wet/a"),
        ("people lay on the side of a mountain", "people/n lie/v side/n mountain/n"),
        ("gray leaves fall on each other", "grey/a leaf/n fall/v"),
        ("It is on.", ""),
        ("", ""),
        ("!?", ""),
    ],
)
def test_nouns_adjectives_verbs_and_numbers_as_lemmas(sentence: str, expected: str) -> None:
    # "n" is for noun and number both.
    assert " ".join(_tagged(sentence)) == expected


@pytest.mark.parametrize("verb", ["run", "wear", "sit", "catch", "hold"])
def test_the_forms_of_a_verb_are_one_word(verb: str) -> None:
    from lemminflect import getInflection

    for tag in ("VBZ", "VBG", "VBD"):
        (form, *_) = getInflection(verb, tag)
        assert f"{verb}/v" in _tagged(f"a man {form} the ball"), form


@pytest.mark.parametrize(
    ("word", "expected"), [("café", "cafe"), ("piñatas", "pinata"), ("собаки", "собаки")]
)
def test_letters_with_accents_are_no_endings(word: str, expected: str) -> None:
    assert lemma(word, "noun") == expected


@given(st.text(max_size=60))
def test_any_text_is_read(text: str) -> None:
    for word in content_words(text):
        assert word.part_of_speech in PARTS_OF_SPEECH
        assert word.lemma == word.lemma.strip()
        assert word.lemma
