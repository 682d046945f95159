"""Every attack of `make torture` for a few seconds; an hour of them finds more."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tools.torture import __main__  # noqa: F401  # which registers the attacks
from tools.torture.base import ATTACKS, Stage

SECONDS = 2.0
# They build and decode files of gigabytes, however short the time.
LONG = {"bombs", "hostile uploads"}
TIMED = {"slow clients"}  # whose p99 means nothing beside other tests


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name == "kill train" else name
        for name in sorted(set(ATTACKS) - LONG - TIMED)
    ],
)
def test_an_attack_is_survived(name: str, tmp_path: Path) -> None:
    seed = int(time.time())
    outcome = ATTACKS[name][1](Stage(SECONDS, random.Random(f"{seed} {name}"), tmp_path))
    assert not outcome.failures, (
        f"python -m tools.torture --only '{name}' --seed {seed}: {outcome.failures[:3]}"
    )
