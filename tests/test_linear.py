"""The time of every parser of what strangers send grows no faster than its input."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from seesay.data.readers.files import parse_json
from seesay.errors import SeesayError
from seesay.search import filters, query
from seesay.search.filters import Filter
from seesay.search.query import Query
from seesay.text.vocabulary import Vocabulary
from seesay.text.words import unknown_words, words_or_signs
from seesay.web import cursor
from seesay.web.addresses import host_allowed
from tests.linear import check_linear

PARSERS: dict[str, Callable[[str], object]] = {
    "query": Query.parse,
    "filter": Filter.parse,
    "cursor": cursor.place_of,
    "host": lambda text: host_allowed(text, {"localhost"}),
    "JSON": lambda text: parse_json(text, "file"),
    "words": words_or_signs,
    "unknown words": lambda text: unknown_words([text], Vocabulary(["dog"]), english=True),
}
SIZES = {"query": query.MAX_CHARACTERS, "filter": filters.MAX_CHARACTERS}
"""Characters of the large input where 64,000 would be refused unread."""
REPEATED = (
    *("a", " ", "9", "a ", "ä", "[", ",", "-", '"', '\\"', "(", ":", ".."),  # letters and signs
    *(" - ", "1*", "taken:2019 ", "id:1 + "),  # parts of queries and filters
)


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
