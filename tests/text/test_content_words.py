from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seesay.text.concepts import PARTS_OF_SPEECH, content_words


def _told(sentence: str) -> list[str]:
    return [f"{word.lemma}/{word.part[0]}" for word in content_words(sentence)]


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
    assert " ".join(_told(sentence)) == expected


@pytest.mark.parametrize("verb", ["run", "wear", "sit", "catch", "hold"])
def test_the_forms_of_a_verb_are_one_word(verb: str) -> None:
    from lemminflect import getInflection

    for tag in ("VBZ", "VBG", "VBD"):
        (form, *_) = getInflection(verb, tag)
        assert f"{verb}/v" in _told(f"a man {form} the ball"), form


@given(st.text(max_size=60))
def test_any_text_is_read(text: str) -> None:
    for word in content_words(text):
        assert word.part in PARTS_OF_SPEECH
        assert word.lemma == word.lemma.strip()
        assert word.lemma
