"""The time of every parser of what strangers send grows no faster than its input."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from seesay.data.readers import read_corpus
from seesay.data.readers.files import parse_json
from seesay.errors import SeesayError
from seesay.search import filters, query
from seesay.search.filters import Filter
from seesay.search.query import Query
from seesay.text.chunker import noun_phrases
from seesay.text.concepts import content_words
from seesay.text.vocabulary import Vocabulary, replace_words
from seesay.text.words import unknown_words, words_or_signs
from seesay.web.connections import host_allowed
from seesay.web.routes.parameters import place_of
from tests.data.readers.conftest import jpeg
from tests.linear import check_linear

JPEG = jpeg("a")
ANNOTATION = "<annotation><size><width>60</width><height>40</height></size></annotation>"

PARSERS: dict[str, Callable[[str], object]] = {
    "query": Query.parse,
    "filter": Filter.parse,
    "cursor": place_of,
    "host": lambda text: host_allowed(text, {"localhost"}),
    "JSON": lambda text: parse_json(text, "file"),
    "words": words_or_signs,
    "other words": lambda text: replace_words(text, {"a": "b"}),
    "noun phrases": noun_phrases,
    "content words": content_words,
    "unknown words": lambda text: unknown_words([text], Vocabulary(["dog"]), english=True),
}
SIZES = {
    "query": query.MAX_CHARACTERS,
    "filter": filters.MAX_CHARACTERS,
    "noun phrases": 8_000,
    "content words": 8_000,
}
"""Characters of the large input where 64,000 would be refused unread, or are slow."""
REPEATED = (
    *("a", " ", "9", "a ", "ä", "[", ",", "-", '"', '\\"', "(", ":", ".."),  # letters and signs
    *(" - ", "1*", "taken:2019 ", "id:1 + "),  # parts of queries and filters
)


CORPORA = {  # by format: a file, what stands before the repeated text, and whether it is of phrases
    "table": ("a.csv", "image,caption\n", False),
    "flickr-token": ("a.token", "", False),
    "karpathy": ("dataset_a.json", '{"images": [', False),
    "coco": ("captions_a.json", '{"images": [', False),
    "phrase-table": ("a.jsonl", "", True),
    "flickr30k-entities": ("Sentences/1.txt", "", True),
}
IN_CORPORA = (
    *("a", " ", "\n", '"', ",", "#1 ", "a.jpg#1 b\n", "a.jpg,b\n", "a.jpg\tb\n"),
    *("[/EN#1/b", "[/EN#1/b ", "[/EN#1/b c] ", "[/EN#", "{}\n", '{"filename": "a", "file_name": "a"},'),
)


@pytest.mark.parametrize("name", CORPORA)
@pytest.mark.parametrize("repeated", IN_CORPORA)
def test_the_time_of_reading_a_corpus_is_linear(tmp_path: Path, name: str, repeated: str) -> None:
    file, start, phrases = CORPORA[name]
    (tmp_path / "a.jpg").write_bytes(JPEG)
    (tmp_path / "Annotations").mkdir()
    (tmp_path / "Annotations/1.xml").write_text(ANNOTATION)
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / "1.jpg").write_bytes(JPEG)

    def parse(text: str) -> None:
        (tmp_path / file).write_text(start + text)
        with suppress(SeesayError):
            read_corpus(tmp_path, name, phrases=phrases)

    parse("a")
    check_linear(parse, lambda size: repeated * (size // len(repeated)), 64_000)


@pytest.mark.parametrize("name", PARSERS)
@pytest.mark.parametrize("repeated", REPEATED)
def test_the_time_of_a_parser_is_linear(name: str, repeated: str) -> None:
    def parse(text: str) -> None:
        failure = ""
        try:
            PARSERS[name](text)
        except SeesayError as error:
            failure = str(error)
        assert "characters; the limit is" not in failure

    parse("a")  # what is loaded at the first call is none of its time
    check_linear(parse, lambda size: repeated * (size // len(repeated)), SIZES.get(name, 64_000))
