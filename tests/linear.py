"""Whether the time of a function grows no faster than its input."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

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
    small, large = (_seconds(function, made(each)) for each in (size // _TIMES, size))
    assert large < _TIMES * _SLACK * max(small, 1e-4), f"{small:.6f} s, then {large:.6f} s"


def _seconds(function: Callable[[T], object], given: T) -> float:
    def once() -> float:
        started = time.thread_time()
        function(given)
        return time.thread_time() - started

    return min(once() for _ in range(_REPEATS))
