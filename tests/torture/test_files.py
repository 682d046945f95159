"""Files as nobody should send them: damaged, or made to take all memory and time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.attacked import FILES, PROCESSES, REQUESTS, check_survived
from tools.torture.base import ATTACKS


@pytest.mark.parametrize(("name", "seconds"), FILES.items())
def test_an_attack_is_survived(name: str, seconds: float, tmp_path: Path) -> None:
    check_survived(name, seconds, tmp_path)


def test_no_attack_is_left_out() -> None:
    assert {**FILES, **PROCESSES, **REQUESTS}.keys() == ATTACKS.keys()
