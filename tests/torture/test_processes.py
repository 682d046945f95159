"""Processes that are killed, fail or run beside each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.attacked import PROCESSES, check_survived


@pytest.mark.parametrize(("name", "seconds"), PROCESSES.items())
def test_an_attack_is_survived(name: str, seconds: float, tmp_path: Path) -> None:
    check_survived(name, seconds, tmp_path)
