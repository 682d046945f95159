"""Filters: their grammar, and what they let through."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from seesay.errors import QueryError
from seesay.search import Index
from seesay.search.filters import Filter, split_typed
from tests.search.colours import Colours
from tests.search.stores import STORES, place

PHOTOS = {
    "italy/rome/a.jpg": ((300, 200), "2019:06:30 23:59:59"),
    "Italy/b.jpg": ((200, 300), "2019:12:31 10:00:00"),
    "New York/c.jpg": ((250, 250), "2020:01:01 00:00:00"),
    "100%/d.jpg": ((400, 200), None),
    "two  spaces/g.jpg": ((100, 100), "2014:04:04 10:00:00"),
    "100x/Östersund/e.jpg": ((500, 200), "0000:00:00 00:00:00"),
    "O\u0308sterreich 2019 Straße/日本の旅/f.jpg": ((600, 200), "2015:05:05 10:00:00"),
}
NAMES = dict(zip("abcdgef", PHOTOS, strict=True))
CHANGED = datetime(
    2021, 3, 4, tzinfo=UTC
).timestamp()  # the files, which counts where no time of taking is known


def photo(file: Path, size: tuple[int, int], taken: str | None) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    exif = Image.Exif()
    if taken:
        exif.get_ifd(0x8769)[36867] = taken
    Image.new("RGB", size, (200, size[0] % 256, 40)).save(file, exif=exif)
    os.utime(file, (CHANGED, CHANGED))


@pytest.fixture(scope="module", params=STORES)
def index(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest):
    folder = tmp_path_factory.mktemp("filters")
    for name, (size, taken) in PHOTOS.items():
        photo(folder / "photos" / name, size, taken)
    with Index.create(place(request.param, folder), Colours()) as made:
        made.update_images(folder / "photos")
        yield made


@pytest.mark.parametrize(
    ("where", "letters"),
    [
        ("", "abcdefg"),
        ('folder:"two  spaces"', "g"),
        ('folder:"two spaces"', ""),
        (' taken:2014 \t folder:"two  spaces"  ', "g"),
        ("taken:2019", "ab"),
        ("taken:2019-06", "a"),
        ("taken:2019-06-30", "a"),
        ("taken:2019-07..2020-01", "bc"),
        ("taken:2020..", "cde"),
        ("taken:2021-03", "de"),
        ("taken:..2019-06-30", "afg"),
        ("taken:2019-06..2019-06", "a"),
        ("added:0001", "abcdefg"),
        ("taken:2019..9999-12-31", "abcde"),
        ("folder:italy", "ab"),
        ("folder:italy/rome", "a"),
        ("folder:/italy/rome/", "a"),
        ("folder:/rome/", "a"),
        ("folder:/rom/", ""),
        ("folder:/ital", "ab"),
        ("folder:taly/", "ab"),
        ("folder:rome taken:2020", ""),
        ('folder:"New York"', "c"),
        ("folder:york", "c"),
        ('folder:"new york/2"', ""),
        ("folder:100%", "d"),
        ("folder:100_", ""),
        ("folder:östersund", "e"),
        ("folder:100X/ÖSTERSUND", "e"),
        ("folder:ostersun", "e"),
        ("folder:osterreich", "f"),
        ("folder:ÖSTERREICH", "f"),
        ("folder:strasse", "f"),
        ("folder:日本", "f"),
        ("folder:の旅/", "f"),
        ("folder:f.jpg", ""),
        ("added:1h", "abcdefg"),
        ("added:2000-01-01", "abcdefg"),
        ("added:2100", ""),
        ("-folder:italy", "cdefg"),
        ("-taken:2019-07..2020-01", "adefg"),
        ("-folder:italy -name:C.JPG", "defg"),
        ("-folder:nowhere", "abcdefg"),
        ("folder:italy -folder:rome", "b"),
    ],
)
def test_what_a_filter_lets_through(index: Index, where: str, letters: str) -> None:
    found = {hit.path for hit in index.search("red", k=10, where=where)}
    assert found == {NAMES[letter] for letter in letters}


def test_the_best_of_the_others_are_found(index: Index) -> None:
    first = index.search("red", k=6)
    for hit in first:
        name = Path(hit.path or "").name
        assert index.search("red", k=1, where=f"name:{name}") == [hit]


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("italy", "not a filter"),
        ("takn:2019", "did you mean 'taken'"),
        ("xyz:2019", "Try folder:, name:, taken:"),
        ("taken:last", "no date"),
        ("taken:2019-13", "no date"),
        ("taken:2019-02-30", "no date"),
        ("taken:0000", "no date"),
        ("taken:..", "needs at least one end"),
        ("taken:2020..2019", "ends before it begins"),
        ("folder:/", "the name is empty"),
        ("folder:\u0308", "the name is empty"),
        ("added:3m", "no date"),
        ("a" * 501, "characters"),
        ("folder:\ud800", "lone surrogate"),
        ("name:a\0b", "not a filter"),
        ("folder:x' OR 1=1 --", "not a filter"),
        ("-takn:2019", "did you mean 'taken'"),
        ("--taken:2019", "not a filter"),
    ],
)
def test_mistakes_are_told_in_one_line(where: str, told: str) -> None:
    with pytest.raises(QueryError, match=told) as failure:
        Filter.parse(where)
    assert len(str(failure.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "query", "conditions"),
    [
        ("a sign that says: stop", "a sign that says: stop", ""),
        ("receipt: dinner taken:2021", "receipt: dinner", "taken:2021"),
        ("dog takn:2021", "dog", "takn:2021"),
        ("dog taken: 2021", "dog 2021", "taken:"),
    ],
)
def test_a_word_before_a_colon_is_a_condition_only_with_a_value(
    text: str, query: str, conditions: str
) -> None:
    assert split_typed(text) == (query, conditions)


PIECES = st.sampled_from(
    ["-", "taken:", "folder:", "name:", "added:", "2019", "-06", "..", ">", '"', "'", " ", "9" * 9, "w"]
)


@given(st.one_of(st.text(max_size=40), st.lists(PIECES, max_size=8).map("".join)))
def test_any_text_is_a_filter_or_refused(index: Index, where: str) -> None:
    try:
        parsed = Filter.parse(where)
    except QueryError:
        return
    found = {hit.id for hit in index.search("red", k=len(PHOTOS), where=where)}
    assert found == {facts.id for facts in index.store.newest(len(PHOTOS), parsed)}
