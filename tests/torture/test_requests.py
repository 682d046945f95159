"""Requests to a server as nobody should send them, and many as anybody may."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.attacked import REQUESTS, check_survived

LONG = {"mixed load"}  # serves the shipped run


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        pytest.param(name, seconds, marks=pytest.mark.slow if name in LONG else ())
        for name, seconds in REQUESTS.items()
    ],
)
def test_an_attack_is_survived(name: str, seconds: float, tmp_path: Path) -> None:
    check_survived(name, seconds, tmp_path)
