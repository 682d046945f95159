"""Filters: conditions on the metadata of images, such as `taken:2019 folder:italy`.

    filter    = ["-"] condition {" " ["-"] condition}, all of which must hold; "-" excludes
    condition = "folder:" name  |  "name:" part of a file's name  |  "taken:" dates  |  "added:" since
                | "text:" words, or the beginning of one, that were read in the picture
    dates     = date  |  [date] ".." [date], where a date is 2019, 2019-06 or 2019-06-30
    since     = date  |  number ("h" | "d" | "w" | "y"): the last so many hours, days, weeks, years
    name      = part of the path of a folder; "/" is where a folder's name begins or ends, so that "/a/" is
                found in "a" and "b/a/c", and "a" in "banana", too

Values with spaces are in double quotes: `folder:"New York"`.
"""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Self

from seesay.data.texts import LONE_SURROGATE
from seesay.errors import QueryError, did_you_mean

MAX_CHARACTERS = 500

_CONDITION = re.compile(r'\s*(-?)(\w+):("[^"]*"|\S+)(?=\s|$)')
_WORD = re.compile(r'(?:-\s*)?[^\W\d_]+:(?:"[^"]*"|[^\s"]+)(?!\S)|"[^"]*"|\S+')
_TYPED = re.compile(r"-?\s*([^\W\d_]{2,}):")  # one letter is a drive of Windows
_TERMS = ("id", "image", "upload", "http", "https")  # what a query contains, see `seesay.search.query`
_DATE = re.compile(r"([0-9]{4})(?:-([0-9]{2})(?:-([0-9]{2}))?)?")
_AGO = re.compile(r"([0-9]{1,5})([hdwy])")
_WORDS = re.compile(r"\w+")
_SECONDS = {"h": 3600, "d": 86_400, "w": 7 * 86_400, "y": 365.25 * 86_400}
_NO_SPACES = "\u2e80"  # the first letter of the scripts of Chinese and Japanese
_NAME = "instr(name, ?) > 0"
_SHORT = 4  # letters: a shorter word of a query is no beginning of another, as "cat" is of "category"
_EMPTY_WORDS = frozenset(  # they stand in most texts, and say nothing about which one is meant
    _WORDS.findall(
        "a an the this that these those i me my you your he his she her it its we us our they them their who "
        "whose which what where when how and or but not no nor if of in on at to for from by with about as "
        "into over under is are was were be been am do does did has have had can will there some any all"
    )
)
_TEXT = "vector IN (SELECT vector FROM texts WHERE instr(words, ?) > 0)"

Compared = dict[str, Any]
"""Comparisons of columns, with their parameters, in SQL that SQLite and PostgreSQL understand."""

BETWEEN_SLASHES = "'/' || folded || '/'"
"""The column of an image's folder, with a slash at both ends of each name, for `instr`."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions on the metadata of images, all of which must hold.

    Attributes:
        sql: a condition on the columns `folded`, `name`, `time`, `added` and `vector`.
        values: its parameters.

    Example:
        >>> from seesay.search.filters import Filter
        >>> Filter.parse("taken:2019-06..2020-01 -folder:Rome").values
        ('2019-06-01', '2020-02-01', 'rome')
    """

    sql: str = "TRUE"
    values: tuple[str | float, ...] = ()

    def named(self, text: str) -> Filter:
        """Return the filter with a condition: that the name of a file contains a text."""
        return Filter(f"{self.sql} AND {_NAME}", (*self.values, folded(text)))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a filter.

        Raises:
            QueryError: the filter is too long or malformed, a condition is unknown, or a value is invalid.
        """
        if len(text) > MAX_CHARACTERS:
            raise QueryError(f"The filter has {len(text)} characters; the limit is {MAX_CHARACTERS}.")
        if LONE_SURROGATE.search(text):
            raise QueryError("The filter contains a lone surrogate, which is not a character; type it again.")
        conditions, values, at = list[str](), list[str | float](), 0
        text = text.replace("\0", " ").strip()  # which PostgreSQL does not compare
        while at < len(text):
            found = _CONDITION.match(text, at)
            if found is None:
                raise QueryError(
                    f"'{text[at:].strip()}' is not a filter. Write NAME:VALUE, for example taken:2019 or "
                    'folder:"New York".'
                )
            name, value = found[2].lower(), found[3].strip('"').strip()
            if name not in _CONDITIONS:
                known = ", ".join(f"{condition}:" for condition in _CONDITIONS)
                raise QueryError(
                    f"Unknown filter '{name}'{did_you_mean(name, _CONDITIONS) or f'. Try {known}'}"
                )
            compared = _CONDITIONS[name](value)
            condition = " AND ".join(compared)
            conditions.append(f"NOT ({condition})" if found[1] else condition)
            values += compared.values()
            at = found.end()
        return cls(" AND ".join(conditions) or "TRUE", tuple(values))


EVERYTHING = Filter()


def split_typed(text: str) -> tuple[str, str]:
    """Split what somebody typed into one box into a query and a filter.

    A misspelt condition goes to the filter, too, whose parser then suggests the right one.

    >>> split_typed('dog taken:2021 - folder:"New York"'), split_typed('"taken:2021" at 12:30 + id:3')
    (('dog', 'taken:2021 -folder:"New York"'), ('"taken:2021" at 12:30 + id:3', ''))
    """
    query, conditions = list[str](), list[str]()
    for word in _WORD.findall(text):
        found = _TYPED.match(word)
        name = found[1].lower() if found else ""
        if name in _CONDITIONS or (found and found.end() < len(word) and name not in _TERMS):
            conditions.append(f"-{word[1:].lstrip()}" if word.startswith("-") else word)
        else:
            query.append(word)
    return " ".join(query), " ".join(conditions)


def folded(text: str) -> str:
    """Return a text without case and accents, in compatibility form.

    >>> folded("Österreich/Straße"), folded("日本"), folded("ｶﾌｪ")
    ('osterreich/strasse', '日本', 'カフェ')
    """
    if text.isascii():
        return text.lower()
    letters = unicodedata.normalize("NFKD", text.casefold())
    return "".join(each for each in letters if not unicodedata.combining(each)).casefold()


def folded_path(path: str) -> tuple[str, str]:
    """Return the folder and the name of an image's file as filters compare them; "" without a folder."""
    folder, _, name = path.rpartition("/")
    return folded(folder), folded(name)


def folded_words(text: str) -> str:
    """Return the words of a text without case and accents, each between spaces.

    >>> folded_words("Wi-Fi: Café-5G!")
    ' wi fi cafe 5g '
    """
    return f" {' '.join(_WORDS.findall(folded(text)))} "


def content_words(text: str) -> list[str]:
    """Return the words of a query that are looked for in the text of pictures, as `folded_words` has it.

    >>> content_words("A chat about dinner on Friday"), content_words("who is who")
    (['chat', 'dinner', 'friday'], ['who', 'is'])
    """
    words = list(dict.fromkeys(folded_words(text).split()))
    return [word for word in words if word not in _EMPTY_WORDS] or words


def words_read(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return SQL for how many of these words, or their beginnings, are in `words`, and its parameters."""
    forms = [f"{_beginning(word)} " if len(word) < _SHORT else _beginning(word) for word in words]
    return " + ".join(["CASE WHEN instr(words, ?) > 0 THEN 1 ELSE 0 END"] * len(forms)), forms


def _beginning(words: str) -> str:
    """Return words as they begin in a text between spaces; Chinese and Japanese have none before words."""
    return words if words[0] >= _NO_SPACES else f" {words}"


def _folder(value: str) -> Compared:
    name = folded(value.replace("\\", "/"))
    if not name.strip("/"):
        raise QueryError("folder: the name is empty; write a name, such as folder:italy.")
    return {f"instr({BETWEEN_SLASHES}, ?) > 0": name}


def _name(value: str) -> Compared:
    if not value:
        raise QueryError("name: is empty; write part of a file's name, such as name:IMG_2021.")
    return {_NAME: folded(value)}


def _text(value: str) -> Compared:
    words = folded_words(value).strip()
    if not words:
        raise QueryError("text: is empty; write a word that stands in the picture, such as text:invoice.")
    return {_TEXT: _beginning(words)}


def _taken(value: str) -> Compared:
    first, dots, last = value.partition("..")
    if not (first or last):
        raise QueryError(f"'{value}': a range needs at least one end; write 2019..2021, 2019.. or ..2021.")
    compared = Compared()
    if first:
        compared["time >= ?"] = _day(first).isoformat()
    if last or not dots:
        compared["time < ?"] = _day_after(last or first).isoformat()
    if len(compared) == 2 and compared["time >= ?"] >= compared["time < ?"]:
        raise QueryError(f"taken:{value}: ends before it begins.")
    return compared


def _added(value: str) -> Compared:
    if found := _AGO.fullmatch(value):
        now = time.time() // 60 * 60  # so that the filter stays the same, and what it matches is known
        return {"added >= ?": now - int(found[1]) * _SECONDS[found[2]]}
    try:
        since = datetime.combine(_day(value), datetime.min.time()).timestamp()
    except (ValueError, OverflowError, OSError):  # a date that the system's clock does not represent
        since = 0.0
    return {"added >= ?": since}


_CONDITIONS: dict[str, Callable[[str], Compared]] = {
    "folder": _folder,
    "name": _name,
    "taken": _taken,
    "added": _added,
    "text": _text,
}


def _day(value: str) -> date:
    """The first day of a year or month, or the day itself."""
    found = _DATE.fullmatch(value)
    if found is not None and found[1] != "0000":
        with suppress(ValueError):
            return date(int(found[1]), int(found[2] or 1), int(found[3] or 1))
    raise QueryError(f"'{value}': no date; write 2019, 2019-06 or 2019-06-30.")


def _day_after(value: str) -> date:
    """The day after a year, month or day."""
    first, parts = _day(value), value.count("-")
    try:
        if parts == 2:
            return first + timedelta(days=1)
        if parts == 1 and first.month < 12:
            return first.replace(month=first.month + 1)
        return date(first.year + 1, 1, 1)
    except (ValueError, OverflowError):
        return date.max
