"""Shared by the benchmarks: timing, a description of the machine, rows in results/benchmarks.jsonl."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from seesay.paths import replace_text
from seesay.results.formats import Table

RESULTS = Path(__file__).parent.parent / "results" / "benchmarks.jsonl"


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """Return the median wall time of a call in seconds, after a call to warm up."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def peak_mib() -> float:
    """Return the peak memory of this process so far, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def machine() -> str:
    """Describe the machine in one line: processor, available cores, Python."""
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        models = [
            line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line
        ]
        name = models[0] if models else name
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{name}, {cores} cores, Python {platform.python_version()}"


def arguments(description: str, data: str | None = None) -> argparse.ArgumentParser:
    """Return a parser with the options of every benchmark, and --data if its meaning is given."""
    parser = argparse.ArgumentParser(description=description)
    if data is not None:
        parser.add_argument("--data", type=Path, default=Path("flickr8k"), help=data)
    parser.add_argument("--json", action="store_true", help="print the rows as JSON instead of a table")
    parser.add_argument(
        "--record", action="store_true", help=f"keep the rows in {RESULTS.parent.name}/{RESULTS.name}"
    )
    return parser


def report(benchmark: str, rows: list[dict[str, Any]], options: argparse.Namespace) -> None:
    """Print the rows; with --record, replace the benchmark's earlier rows by them."""
    if options.record:
        stamp = {"benchmark": benchmark, "machine": machine(), "date": datetime.now(UTC).date().isoformat()}
        earlier = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []
        kept = [line for line in earlier if json.loads(line)["benchmark"] != benchmark]
        RESULTS.parent.mkdir(exist_ok=True)
        lines = [*kept, *(json.dumps(stamp | row, ensure_ascii=False) for row in rows)]
        # The sort is stable: the rows of a benchmark keep their order.
        lines.sort(key=lambda line: str(json.loads(line)["benchmark"]))
        replace_text(RESULTS, "".join(f"{line}\n" for line in lines))
    if options.json:
        print(json.dumps(rows))
        return
    title = f"{benchmark} · {machine()}"
    words = {at for at, value in enumerate(rows[0].values()) if isinstance(value, str)}
    cells = [[_plain(value) for value in row.values()] for row in rows]
    table, console = Table([*rows[0]], cells, title=title, words=words).terminal(), Console()
    if Console(width=10_000).measure(table).maximum <= console.width:
        console.print(table)
        return
    print(title)  # too wide for the terminal: one figure per line
    width = max(map(len, rows[0]))
    for row in rows:
        print("\n".join(["", *(f"  {key:<{width}}  {_plain(value)}" for key, value in row.items())]))


def _plain(value: object) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else str(value)
