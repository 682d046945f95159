"""Requests to a server as nobody should send them, and many as anybody may."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.attacked import REQUESTS, check_survived


@pytest.mark.parametrize(("name", "seconds"), REQUESTS.items())
def test_an_attack_is_survived(name: str, seconds: float, tmp_path: Path) -> None:
    check_survived(name, seconds, tmp_path)
