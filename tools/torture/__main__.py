"""Run the attacks one after another; print what was tried and survived; exit 1 if anything was not."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import warnings
from pathlib import Path

from tools.torture import (  # noqa: F401  # which register their attacks
    corrupt,
    disk,
    headers,
    images,
    kills,
    load,
    power,
    readers,
    requests,
    runs,
    schema,
    server,
    swaps,
)
from tools.torture.base import ATTACKS, ROOT, Outcome, Stage

DOCUMENT = ROOT / "docs" / "reliability.md"
_BEGIN, _END = "<!-- torture -->", "<!-- end -->"


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(prog="torture", description=__doc__)
    parser.add_argument("--seconds", type=float, default=900, help="for all attacks together")
    parser.add_argument("--seed", type=int, default=None, help="of the random numbers; drawn if not given")
    parser.add_argument("--only", choices=sorted(ATTACKS), action="append", help="run this attack alone")
    parser.add_argument("--write", action="store_true", help=f"write the table to {DOCUMENT.name}")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(2**31)
    names = given.only or list(ATTACKS)
    print(f"seed {seed}", flush=True)
    outcomes: dict[str, tuple[Outcome, float]] = {}
    for name in names:
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            stage = Stage(given.seconds / len(names), random.Random(f"{seed} {name}"), Path(folder))
            outcome = ATTACKS[name][1](stage)
        outcomes[name] = outcome, time.monotonic() - started
        print(
            f"{name}: {outcome.tried} tried, {len(outcome.failures)} failed; {outcome.measured}", flush=True
        )
        for failure in outcome.failures[:5]:
            print(f"  {failure}", flush=True)
    if given.write:
        _write(outcomes, seed)
    sys.exit(1 if any(outcome.failures for outcome, _ in outcomes.values()) else 0)


def _write(outcomes: dict[str, tuple[Outcome, float]], seed: int) -> None:
    """Put the rows of what was run into the table, and keep the others."""
    text = DOCUMENT.read_text(encoding="utf-8")
    before, _, rest = text.partition(_BEGIN)
    table, _, after = rest.partition(_END)
    rows = {line.split("|")[1].strip(): line for line in table.splitlines() if line.startswith("| ")}
    for name, (outcome, seconds) in outcomes.items():
        about = ATTACKS[name][0]
        rows[about] = (
            f"| {about} | {outcome.tried:,} | {outcome.tried - len(outcome.failures):,} | "
            f"{outcome.measured or '–'} | {seconds:.0f} | {seed} |"
        )
    lines = [rows[about] for about, _ in ATTACKS.values() if about in rows]
    head = ["| attack | tried | survived | measured | seconds | seed |", "|---|---:|---:|---|---:|---:|"]
    written = "\n".join([*head, *lines])
    DOCUMENT.write_text(f"{before}{_BEGIN}\n\n{written}\n\n{_END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
