"""Filters: conditions on the metadata of images, such as `taken:2019 folder:italy width:>3000`.

    filter    = ["-"] condition {" " ["-"] condition}, all of which must hold; "-" excludes
    condition = "folder:" name  |  "name:" part of a file's name  |  "taken:" dates  |
                "orientation:" shape  |  "width:" sizes  |  "height:" sizes  |  "added:" since
    dates     = date  |  [date] ".." [date], where a date is 2019, 2019-06 or 2019-06-30
    shape     = "portrait"  |  "landscape"  |  "square"
    sizes     = number  |  (">" | ">=" | "<" | "<=") number  |  [number] ".." [number]
    since     = date  |  number ("h" | "d" | "w" | "y"): the last so many hours, days, weeks, years
    name      = part of the path of a folder; "/" is where a folder's name begins or ends, so that "/a/" is
                found in "a" and "b/a/c", and "a" in "banana", too

Values with spaces are in double quotes: `folder:"New York"`.
"""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from difflib import get_close_matches
from typing import Self

from seesay.data.characters import LONE_SURROGATE
from seesay.errors import QueryError, did_you_mean

MAX_CHARACTERS = 500

_CONDITION = re.compile(r'\s*(-?)(\w+):("[^"]*"|\S+)(?=\s|$)')
_WORD = re.compile(r'(?:-\s*)?[^\W\d_]+:(?:"[^"]*"|[^\s"]+)(?!\S)|"[^"]*"|\S+')
_TYPED = re.compile(r"-?\s*([^\W\d_]{2,}):")  # one letter is a drive of Windows
_TERMS = ("id", "image", "upload", "http", "https")  # what a query contains, see `seesay.search.query`
_DATE = re.compile(r"([0-9]{4})(?:-([0-9]{2})(?:-([0-9]{2}))?)?")
_AGO = re.compile(r"([0-9]{1,5})([hdwy])")
_SECONDS = {"h": 3600, "d": 86_400, "w": 7 * 86_400, "y": 365.25 * 86_400}
_WORDS = re.compile(r"[\s_-]+")
_LETTERS = 60  # of a folder's name that are compared: the time grows with their square
_COMPARED = re.compile(r"(>=|<=|>|<)?([0-9]{1,9})")
_SHAPES = ("portrait", "landscape", "square")
_ORIENTATION = """CASE WHEN height > width THEN 'portrait' WHEN width > height THEN 'landscape'
    ELSE 'square' END"""


BETWEEN_SLASHES = "'/' || folded || '/'"
"""The column of an image's folder, with a slash at both ends of each name, for `instr`."""


@dataclass(frozen=True, slots=True)
class Limit:
    """One comparison of an image's metadata with a value.

    Attributes:
        field: "folder", "name", "time", "orientation", "width", "height" or "added".
        sign: "=", ">", ">=", "<" or "<=".
        value: part of a folder's path or a file's name, see `folded`; the beginning of
            "2019-06-30T12:00:00"; a shape; pixels; seconds since 1970.
    """

    field: str
    sign: str
    value: str | int | float


@dataclass(frozen=True, slots=True)
class Condition:
    """Comparisons that must all hold; if it excludes, not all of them."""

    limits: tuple[Limit, ...]
    excludes: bool = False


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions on the metadata of images, all of which must hold.

    Example:
        >>> from seesay.search.filters import Filter
        >>> Filter.parse("taken:2019-06..2020-01 width:>3000").values
        ('2019-06-01', '2020-02-01', 3000)
    """

    conditions: tuple[Condition, ...] = ()

    def named(self, text: str) -> Filter:
        """Return the filter with a condition: that the name of a file contains a text."""
        return Filter((*self.conditions, Condition(tuple(_name(text)))))

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The comparisons of all conditions."""
        return tuple(limit for condition in self.conditions for limit in condition.limits)

    @property
    def sql(self) -> str:
        """A condition on the columns `folded`, `name`, `time`, …, with the parameters `values`."""
        return " AND ".join(map(_sql, self.conditions)) or "TRUE"

    @property
    def values(self) -> tuple[str | int | float, ...]:
        """The parameters of `sql`."""
        return tuple(limit.value for limit in self.limits)

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
        conditions, at = list[Condition](), 0
        text = text.strip()
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
            conditions.append(Condition(tuple(_CONDITIONS[name](value)), excludes=found[1] == "-"))
            at = found.end()
        return cls(tuple(conditions))


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
        if found and found[1].lower() not in _TERMS:
            conditions.append(f"-{word[1:].lstrip()}" if word.startswith("-") else word)
        else:
            query.append(word)
    return " ".join(query), " ".join(conditions)


def _sql(condition: Condition) -> str:
    compared = " AND ".join(f"({_compared(limit)})" for limit in condition.limits)
    return f"NOT ({compared})" if condition.excludes else compared


def _compared(limit: Limit) -> str:
    """A comparison with one parameter."""
    if limit.field == "folder":
        return f"instr({BETWEEN_SLASHES}, ?) > 0"
    if limit.field == "name":
        return "instr(name, ?) > 0"
    if limit.field == "orientation":
        return f"{_ORIENTATION} = ?"
    return f"{limit.field} {limit.sign} ?"


def folded(text: str) -> str:
    """Return a text without case and accents, in compatibility form.

    >>> folded("Österreich/Straße"), folded("日本"), folded("ｶﾌｪ")
    ('osterreich/strasse', '日本', 'カフェ')
    """
    if text.isascii():
        return text.lower()
    letters = unicodedata.normalize("NFKD", text.casefold())
    return "".join(each for each in letters if not unicodedata.combining(each)).casefold()


def folded_folder(path: str) -> str:
    """Return the folder in an image's path as filters compare it; "" without a folder."""
    return folded(path.rpartition("/")[0])


def folded_name(path: str) -> str:
    """Return the name of an image's file as filters compare it."""
    return folded(path.rpartition("/")[2])


def filter_meant(where: str, folders: Collection[str]) -> str | None:
    """Return a filter with an unknown folder replaced by the most similar one.

    Args:
        where: a filter.
        folders: the paths of the existing folders.

    Returns:
        None if the filter names no unknown folder, or no folder is similar to the first one.

    Example:
        >>> filter_meant("folder:holidy taken:2019", ["Holiday in Rome/first day", "work"])
        'folder:"Holiday in Rome" taken:2019'
    """
    paths = [f"/{folded(path)}/" for path in folders]
    names = {
        folded(word)[:_LETTERS]: name
        for name in {name for path in folders for name in path.split("/") if '"' not in name}
        for word in (*_WORDS.split(name), name)
    }
    for condition in _CONDITION.finditer(where):
        wanted = folded(condition[3].strip('"'))
        is_folder = condition[2].lower() == "folder" and not condition[1]
        if not is_folder or any(wanted in path for path in paths):
            continue
        near = get_close_matches(wanted.strip("/")[:_LETTERS], names, n=1)
        if not near:  # nothing matches this folder, whatever the others are
            return None
        value = f'"{names[near[0]]}"' if " " in names[near[0]] else names[near[0]]
        return where[: condition.start(3)] + value + where[condition.end(3) :]
    return None


def _folder(value: str) -> list[Limit]:
    """Part of the path of the folder that the image is in, between slashes."""
    name = folded(value.replace("\\", "/"))
    if not name.strip("/"):
        raise QueryError("folder: the name is empty; write a name, such as folder:italy.")
    return [Limit("folder", "=", name)]


def _name(value: str) -> list[Limit]:
    """Part of the name of the image's file."""
    if not value:
        raise QueryError("name: is empty; write part of a file's name, such as name:IMG_2021.")
    return [Limit("name", "=", folded(value))]


def _taken(value: str) -> list[Limit]:
    first, last = _range(value)
    limits = list[Limit]()
    if first:
        limits.append(Limit("time", ">=", _day(first).isoformat()))
    if last:
        limits.append(Limit("time", "<", _day_after(last).isoformat()))
    if first and last and _day(first) >= _day_after(last):
        raise QueryError(f"taken:{value}: ends before it begins.")
    return limits


def _orientation(value: str) -> list[Limit]:
    if value.lower() not in _SHAPES:
        raise QueryError(f"orientation:{value}: write portrait, landscape or square.")
    return [Limit("orientation", "=", value.lower())]


def _size(column: str) -> Callable[[str], list[Limit]]:
    def read(value: str) -> list[Limit]:
        if ".." in value:
            ends = _range(value)
            written = [f"{sign}{end}" for sign, end in zip((">=", "<="), ends, strict=True) if end]
        else:
            written = [value]
        limits = list[Limit]()
        for each in written:
            found = _COMPARED.fullmatch(each)
            if found is None:
                raise QueryError(f"{column}:{value}: write a number of pixels, such as {column}:>3000.")
            limits.append(Limit(column, found[1] or "=", int(found[2])))
        if len(limits) == 2 and int(limits[0].value) > int(limits[1].value):
            raise QueryError(f"{column}:{value}: ends before it begins.")
        return limits

    return read


def _added(value: str) -> list[Limit]:
    if found := _AGO.fullmatch(value):
        return [Limit("added", ">=", time.time() - int(found[1]) * _SECONDS[found[2]])]
    day = _day(value)
    try:
        since = datetime(day.year, day.month, day.day).timestamp()
    except (ValueError, OverflowError, OSError):  # a date that the system's clock does not represent
        since = 0.0
    return [Limit("added", ">=", since)]


_CONDITIONS: dict[str, Callable[[str], list[Limit]]] = {
    "folder": _folder,
    "name": _name,
    "taken": _taken,
    "orientation": _orientation,
    "width": _size("width"),
    "height": _size("height"),
    "added": _added,
}


def _range(value: str) -> tuple[str, str]:
    first, dots, last = value.partition("..")
    if not first and not last:
        raise QueryError(f"'{value}': a range needs at least one end; write 2019..2021, 2019.. or ..2021.")
    return (first, last) if dots else (first, first)


def _day(value: str) -> date:
    """The first day of a year or month, or the day itself."""
    found = _DATE.fullmatch(value)
    try:
        if found is not None and found[1] != "0000":
            return date(int(found[1]), int(found[2] or 1), int(found[3] or 1))
    except ValueError:
        pass
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
