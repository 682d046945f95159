"""Every attack of `make torture`, about a minute of work in all; an hour of them finds more.

What builds files of gigabytes builds smaller ones here, and no times are judged. The same is drawn on every
run; `make torture` draws anew. A group is a file of tests, so that workers share them.
"""

from __future__ import annotations

import random
from pathlib import Path

from tools.torture import __main__  # noqa: F401  # which registers the attacks
from tools.torture.base import ATTACKS, Stage

FILES = {
    "corrupt": 3.0,
    "schema": 3.0,
    "damage": 3.0,
    "headers": 5.0,
    "bombs": 59.0,
}  # the last ends by itself
PROCESSES = {
    "kill index": 4.0,
    "kill features": 4.0,
    "kill train": 2.0,  # once at least, however long it takes
    "failing disk": 4.0,
    "failing disk of runs": 2.0,
    "power loss": 4.0,
    "readers": 3.0,
    "runs": 3.0,
}
REQUESTS = {
    "slow clients": 3.0,
    "hostile uploads": 3.0,
    "operations": 3.0,
    "many requests": 3.0,
    "mixed load": 3.0,
}
SEED = 1


def check_survived(name: str, seconds: float, folder: Path) -> None:
    """Attack for so long; fail with what repeats the attack."""
    outcome = ATTACKS[name][1](Stage(seconds, random.Random(f"{SEED} {name}"), folder))
    assert not outcome.failures, (
        f"python -m tools.torture --only '{name}' --seed {SEED}: {outcome.failures[:3]}"
    )
