"""The grammar of queries."""

import math
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from seesay.errors import SeesayError
from seesay.search.query import MAX_CHARACTERS, MAX_PARTS, Image, Indexed, Part, Query, Text
from seesay.text.tokens import replace_words
from tests.linear import check_linear

LETTERS = st.characters(categories=["L", "Nd", "P", "S", "Zs"])
PIECES = st.sampled_from(["beach", " - ", " + ", " -", "2*", '"', "id:7", "image:", "a.jpg", " ", "t-shirt"])


def read(text: str) -> list[tuple[float, object]]:
    return [(part.weight, part.term) for part in Query.parse(text).parts]


def one(text: str) -> list[tuple[float, object]]:
    return [(1.0, Text(text))]


@pytest.mark.parametrize(
    "text",
    [
        "a t-shirt",
        "well-known co-workers",
        "a café – at night",
        "wait -- what",
        "it is -5 degrees",
        "C++ and 3+4",
        "R&B, 10 * 4",
        "a man's dog: brown",
        'a 5" nail',
        "ideal:3",
        "1,000*dogs",
        "犬と猫",
    ],
)
def test_what_people_write_is_one_sentence(text: str) -> None:
    assert read(text) == one(text)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("beach - people", [(1, "beach"), (-0.5, "people")]),
        ("beach -people", [(1, "beach"), (-0.5, "people")]),
        ("- people + beach", [(-0.5, "people"), (1, "beach")]),
        ("2*sunset", [(2, "sunset")]),
        ("0.5 * sunset - .25*sea", [(0.5, "sunset"), (-0.25, "sea")]),
        ("beach -2*people", [(1, "beach"), (-2, "people")]),
        ('"Rome - the Colosseum"', [(1, "Rome - the Colosseum")]),
        ('sunset - 3*"a t - b"', [(1, "sunset"), (-3, "a t - b")]),
        ('a sign "STOP - HERE" + red', [(1, 'a sign "STOP - HERE"'), (1, "red")]),
        ('"photo.jpg"', [(1, "photo.jpg")]),
    ],
)
def test_sentences_with_signs_and_weights(text: str, parts: list[tuple[float, str]]) -> None:
    assert read(text) == [(weight, Text(words, quoted=f'"{words}"' in text)) for weight, words in parts]


def test_images_and_ids() -> None:
    assert read("my photo.JPG + at night") == [(1, Image(Path("my photo.JPG"))), (1, Text("at night"))]
    assert read('image:"a - b" - id:12') == [(1, Image(Path("a - b"))), (-0.5, Indexed(12))]
    assert read("image:/tmp/scan") == [(1, Image(Path("/tmp/scan")))]
    assert Query.of(b"encoded").parts == (Part(Image(b"encoded")),)
    assert Query.of(Path("a - b.jpg")).parts == (Part(Image(Path("a - b.jpg"))),)


def test_a_corrected_query_has_other_words_save_in_quotes() -> None:
    query = Query.parse('2*a Dgo, a red dgo - "a dgo" + id:7')
    assert (
        str(query.reworded(lambda text: replace_words(text, {"dgo": "dog"})))
        == '2*a dog, a red dog - "a dgo" + id:7'
    )
    assert query.unquoted == ["a Dgo, a red dgo"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ('""', "empty"),
        ("beach - ", "take away"),
        ("beach -", "take away"),
        ("beach + - people", "add"),
        ("- people", "only subtracts"),
        ("id:dog", "a number"),
        ("id:", "a number"),
        ("image:", "name an image file"),
        ("image:a\0b", "name an image file"),
        ("caf\udce9", "'caf.udce9': contains a lone surrogate"),
        ("0*beach", "above 0"),
        ("1000*beach", "at most 100"),
        (" + ".join("a" * (MAX_PARTS + 1)), "parts"),
        ("a" * (MAX_CHARACTERS + 1), "characters"),
    ],
)
def test_mistakes_are_told_in_one_line(text: str, told: str) -> None:
    with pytest.raises(SeesayError, match=told) as failure:
        Query.parse(text)
    assert len(str(failure.value).splitlines()) == 1
    assert len(str(failure.value)) < 300


@settings(max_examples=400)
@given(st.one_of(st.text(LETTERS, max_size=60), st.lists(PIECES, max_size=12).map("".join)))
@example('1*0*"')
@example('5" x - 1*2*sunset')
def test_any_text_is_read_or_refused_and_a_query_is_read_again_as_itself(text: str) -> None:
    try:
        query = Query.parse(text)
    except SeesayError:
        return
    assert any(part.weight > 0 for part in query.parts)
    assert all(math.isfinite(part.weight) and part.weight for part in query.parts)
    assert all(sentence.strip() == sentence != "" for sentence in query.sentences)
    assert Query.parse(str(query)) == query


@given(
    st.lists(st.from_regex(r"[a-z]+(-[a-z]+| [a-z]+){0,3}", fullmatch=True), min_size=1, max_size=MAX_PARTS)
)
@example(["id"])
@example(["image", "id card"])
def test_sentences_are_found_again(sentences: list[str]) -> None:
    assert Query.parse(" + ".join(sentences)).sentences == sentences
    assert Query.parse(" - ".join(sentences)).sentences == sentences


def test_accents_of_sentences_are_composed_and_those_of_paths_are_not() -> None:
    for text in (unicodedata.normalize(form, "café") for form in ("NFC", "NFD")):
        assert Query.parse(text).sentences == ["café"]
        assert Query.parse(f"{text}.jpg").parts[0].term == Image(Path(f"{text}.jpg"))


def test_accents_without_end_are_read_in_linear_time() -> None:
    check_linear(Query.parse, lambda size: "a" + "\u0301\u0327" * (size // 2 - 1), 9_600)
