"""Processes that are killed, fail or run beside each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.attacked import PROCESSES, check_survived

LONG = {"kill train", "runs", "failing disk of runs"}  # train or load networks


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        pytest.param(name, seconds, marks=pytest.mark.slow if name in LONG else ())
        for name, seconds in PROCESSES.items()
    ],
)
def test_an_attack_is_survived(name: str, seconds: float, tmp_path: Path) -> None:
    check_survived(name, seconds, tmp_path)
