"""Every attack of `make torture`, about half a minute of work in all; an hour of them finds more.

What builds files of gigabytes builds smaller ones here, and no times are judged. The same is drawn on every
run; `make torture` draws anew. A group is a file of tests, so that workers share them.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tools.torture import __main__  # noqa: F401  # which registers the attacks
from tools.torture.base import ATTACKS, Stage

FILES = {
    "corrupt": 1.5,
    "schema": 1.5,
    "damage": 1.5,
    "headers": 2.5,
    "bombs": 59.0,
}  # the last ends by itself
PROCESSES = {
    "kill index": 2.0,
    "kill features": 2.0,
    "kill train": 2.0,  # once at least, however long it takes
    "failing disk": 2.0,
    "failing disk of runs": 2.0,
    "power loss": 2.0,
    "readers": 1.5,
    "runs": 3.0,
}
REQUESTS = {
    "hostile uploads": 1.5,
    "operations": 1.5,
    "many requests": 1.5,
    "swaps": 3.0,
    "mixed load": 3.0,
}
SEED = 1


def check_survived(name: str, seconds: float, folder: Path) -> None:
    """Attack for so long; fail with what repeats the attack."""
    outcome = ATTACKS[name][1](Stage(seconds, random.Random(f"{SEED} {name}"), folder))
    if outcome.measured.startswith("not tried"):
        pytest.skip(outcome.measured)
    assert not outcome.failures, (
        f"python -m tools.torture --only '{name}' --seed {SEED}: {outcome.failures[:3]}"
    )
