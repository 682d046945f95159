"""Whether the time of a function grows no faster than its input."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TypeVar

import pytest

T = TypeVar("T")

_TIMES = 16  # how much larger the large input is
_SLACK = 4  # linear work may seem this much slower; quadratic work is 16 times slower
_REPEATS = 3


def check_linear(function: Callable[[T], object], made: Callable[[int], T], size: int) -> None:
    """Fail if the function takes much more than 16 times as long for 16 times the input.

    Args:
        function: to be timed, in seconds of processor time, so that other processes matter little.
        made: returns an input of a size.
        size: of the large input.
    """
    given = made(size // _TIMES)
    small = min(_seconds(function, given) for _ in range(_REPEATS))
    given, large = made(size), math.inf
    for _ in range(_REPEATS):
        large = min(large, _seconds(function, given))
        if large < _TIMES * _SLACK * max(small, 1e-4):
            return  # a repetition could only be faster
    pytest.fail(f"{small:.6f} s, then {large:.6f} s")


def _seconds(function: Callable[[T], object], given: T) -> float:
    started = time.thread_time()
    function(given)
    return time.thread_time() - started
