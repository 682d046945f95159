"""Dates in the names of files, as cameras, phones and messengers write them."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime

# The year comes first and has four digits, so that the day is not ambiguous; the time may follow.
_DATE = re.compile(r"(?<!\d)((?:19|20)\d\d)([-_. ]?)([01]\d)\2([0-3]\d)(?!\d(?!\d{5}))")
_MIDNIGHT = "00:00:00"
_TIME = re.compile(r"(?:[-_ T.]| at )?([0-2]\d)([-_.:h ]?)([0-5]\d)(?:\2|m)([0-5]\d)")


def time_in_name(path: str) -> str:
    """Return the date in the name of a file, with its time or midnight; "" if there is none.

    Two-digit years and dates that begin with the day are no dates: they can mean several.

    >>> time_in_name("2019/Screenshot_20240812-101207.png"), time_in_name("IMG-20190321-WA0042.jpg")
    ('2024-08-12T10:12:07', '2019-03-21T00:00:00')
    >>> time_in_name("PXL_20210704_123456789.jpg"), time_in_name("04-07-19.jpg"), time_in_name("IMG_2021.jpg")
    ('2021-07-04T12:34:56', '', '')
    """
    name = path.rpartition("/")[2]
    for found in _DATE.finditer(name):
        day, time = f"{found[1]}-{found[3]}-{found[4]}", _TIME.match(name, found.end())
        for clock in (f"{time[1]}:{time[3]}:{time[4]}" if time else _MIDNIGHT, _MIDNIGHT):
            with suppress(ValueError):  # such as 31 April, or 25 o'clock
                return datetime.fromisoformat(f"{day}T{clock}").isoformat()
    return ""
