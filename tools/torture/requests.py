"""Every operation of the API with generated requests; a hundred thousand requests with memory measured."""

from __future__ import annotations

import importlib.util
import re
import threading
import time
from http.client import HTTPConnection

from tools.torture.base import Outcome, Stage, attack, command
from tools.torture.server import memory, serving

FLAT = 0.05  # share by which memory may grow
REQUESTS = 100_000
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


@attack(
    "operations",
    "generated requests to every operation of the API: responses match the OpenAPI schema, never 500",
)
def operations(stage: Stage) -> Outcome:
    """Run schemathesis against a server."""
    outcome = Outcome()
    if importlib.util.find_spec("schemathesis") is None:
        outcome.measured = "not tried: no schemathesis here"
        return outcome
    total = 0
    with serving(stage.folder) as (port, _):
        while stage.goes_on:
            seed, examples = stage.draw.randrange(2**31), 5 if stage.is_brief else 50
            done = command(
                *("-c", "from schemathesis.cli import schemathesis; schemathesis()"),
                *("run", f"http://127.0.0.1:{port}/openapi.json", "--checks", CHECKS, "--seed", seed),
                *("--max-examples", examples, "--phases", "fuzzing", "--no-color", "--request-timeout", 30),
                seconds=stage.seconds + 300,
                folder=stage.folder,  # it keeps what it found beside it
            )
            counts = re.findall(r"(\d+) generated", done.stdout)
            total += int(counts[-1]) if counts else 0
            failures = done.stdout.partition(" FAILURES ")[2]
            tail = " ".join(failures.split())[:1500]
            outcome.check(done.returncode == 0, f"seed {seed}: exit {done.returncode}: {tail}")
    outcome.measured = f"{total:,} requests"
    return outcome


@attack("many requests", f"{REQUESTS:,} requests, or as many as time allows: memory flat to {FLAT:.0%}")
def many_requests(stage: Stage) -> Outcome:
    """Ask from four connections that stay open; compare memory after a tenth with memory at the end."""
    outcome, counts = Outcome(), [0] * 4
    with serving(stage.folder) as (port, process):
        addresses = (
            "/api/v1/search?q=something+red",
            "/api/v1/search?q=2*red+-+blue&where=name:png",
            "/api/v1/images?limit=2",
            "/api/v1/images/1",
            "/api/v1/images/1/thumbnail",
            "/api/v1/search?q=id:2",
            "/api/v1/status",
            "/api/v1/images/999",
            "/",
        )

        def ask(worker: int, until: int) -> None:
            connection = HTTPConnection("127.0.0.1", port, timeout=60)
            while counts[worker] < until and stage.goes_on:
                connection.request("GET", addresses[counts[worker] % len(addresses)])
                answer = connection.getresponse()
                answer.read()
                counts[worker] += 1
                if answer.status not in (200, 404):
                    outcome.failures.append(f"status {answer.status}")
            connection.close()

        def asked(until: int) -> None:
            threads = [threading.Thread(target=ask, args=(worker, until)) for worker in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        asked(250 if stage.is_brief else REQUESTS // 4 // 10)
        started, before, first = time.perf_counter(), memory(process), sum(counts)
        asked(REQUESTS // 4)
        rate = (sum(counts) - first) / max(time.perf_counter() - started, 1e-9)
        after = memory(process)
    outcome.tried = sum(counts)
    growth = after / before - 1
    if growth > FLAT:
        outcome.failures.append(f"memory grew by {growth:.1%}")
    outcome.measured = f"{before / 1e6:.0f} MB, {growth:+.1%}; {rate:,.0f} requests/s"
    return outcome
