"""Every attack of `make torture`, over two minutes of work in all; an hour of them finds more.

What builds files of gigabytes builds smaller ones here, and no times are judged. A group is a file of tests,
so that workers share them.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

from tools.torture import __main__  # noqa: F401  # which registers the attacks
from tools.torture.base import ATTACKS, Stage

FILES = {"corrupt": 6.0, "damage": 6.0, "headers": 5.0, "bombs": 59.0}  # the last ends by itself
PROCESSES = {
    "kill index": 6.0,
    "kill features": 5.0,
    "kill train": 2.0,  # once at least, however long it takes
    "failing disk": 6.0,
    "readers": 5.0,
}
REQUESTS = {"slow clients": 6.0, "hostile uploads": 6.0, "operations": 6.0, "many requests": 6.0}


def check_survived(name: str, seconds: float, folder: Path) -> None:
    """Attack for so long; fail with what repeats the attack."""
    seed = int(time.time())
    outcome = ATTACKS[name][1](Stage(seconds, random.Random(f"{seed} {name}"), folder))
    assert not outcome.failures, (
        f"python -m tools.torture --only '{name}' --seed {seed}: {outcome.failures[:3]}"
    )
