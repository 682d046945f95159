"""What attacks share: their registry, the clock, and the outcome that the table shows."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]

BRIEF = 60.0  # seconds


@dataclass
class Outcome:
    """How often an attack was tried, what went wrong, and what was measured."""

    tried: int = 0
    failures: list[str] = field(default_factory=list)
    measured: str = ""

    def check(self, holds: bool, otherwise: str) -> None:
        """Count a try; one that does not hold is a failure."""
        self.tried += 1
        if not holds:
            self.failures.append(otherwise)


@dataclass(frozen=True)
class Stage:
    """What an attack may use: seconds, random numbers, and a folder of its own."""

    seconds: float
    draw: random.Random
    folder: Path
    started: float = field(default_factory=time.monotonic)

    @property
    def goes_on(self) -> bool:
        """Whether there is time for another try."""
        return time.monotonic() - self.started < self.seconds

    @property
    def is_brief(self) -> bool:
        """Whether to try smaller files and to judge no times: beside other tests they mean nothing."""
        return self.seconds < BRIEF


Attack = Callable[[Stage], Outcome]
ATTACKS: dict[str, tuple[str, Attack]] = {}


def attack(name: str, about: str) -> Callable[[Attack], Attack]:
    """Register an attack; `about` says in the table what is tried."""

    def register(function: Attack) -> Attack:
        ATTACKS[name] = about, function
        return function

    return register


def command(
    *arguments: object, seconds: float = 120, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments and one thread, here or in another folder."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=seconds,
        errors="replace",
    )
