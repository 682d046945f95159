"""Starts a command as several processes that train together, like torchrun on one machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from seesay.errors import SeesayError

_POLL = 0.1  # seconds


def is_started() -> bool:
    """Return whether this process was started by `launch`, torchrun or similar."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def is_first_process() -> bool:
    """Return whether this process is the first, which prints for all."""
    return not is_started() or os.environ["RANK"] == "0"


def launch(arguments: Sequence[str], processes: int, grace: float = 5.0) -> int:
    """Run `seesay` with these arguments as several processes of one group; return the exit code.

    It is 0 if all have succeeded, and that of the first process if this one has reported an error. The first
    process has this one's input and outputs. The output of the others goes to files, which are kept if one of
    them fails alone or the first is killed. All end with this process, unless it is killed by SIGKILL; after
    SIGTERM the result is 143, as shells return for a process that this signal ended.

    Args:
        arguments: of the command.
        processes: their number.
        grace: seconds for the first process to report its error after another has failed.

    Raises:
        SeesayError: another process has failed without an error of the first, or the first was killed.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    shared = {
        "WORLD_SIZE": str(processes),
        "LOCAL_WORLD_SIZE": str(processes),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(max(cores // processes, 1))),
        # DistributedDataParallel warns if it finds that every weight is used.
        "TORCH_CPP_LOG_LEVEL": os.environ.get("TORCH_CPP_LOG_LEVEL", "ERROR"),
    }
    logs = Path(mkdtemp(prefix="seesay-train-"))
    command = [sys.executable, "-m", "seesay.cli", *arguments]
    started = []
    with _asked_to_end() as asked:
        try:
            for rank in range(processes):
                environment = os.environ | shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
                if rank == 0:
                    started.append(subprocess.Popen(command, env=environment))
                    continue
                none = subprocess.DEVNULL
                with _log(logs, rank).open("wb") as log:
                    started.append(
                        subprocess.Popen(command, env=environment, stdin=none, stdout=log, stderr=log)
                    )
            code = _wait_for(started, logs, asked, grace)
            rmtree(logs)
            return code
        except KeyboardInterrupt:
            rmtree(logs, ignore_errors=True)
            raise
        finally:
            for process in started:
                process.kill()  # does nothing to one that has ended
                process.wait()


@contextmanager
def _asked_to_end() -> Iterator[threading.Event]:
    """Record SIGTERM in an event; by default, the signal would end this process and leave the others running.

    The handler does not raise an exception, because one raised while a process is being started would lose
    track of that process.
    """
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = signal.signal(signal.SIGTERM, lambda *_: asked.set())
    try:
        yield asked
    finally:
        signal.signal(signal.SIGTERM, before)


def _log(logs: Path, rank: int) -> Path:
    return logs / f"process-{rank + 1}.log"


def _wait_for(
    started: Sequence[subprocess.Popen[bytes]], logs: Path, asked: threading.Event, grace: float
) -> int:
    """Wait until all have succeeded, one has failed and the first could report it, or SIGTERM has arrived."""
    while not any(failed := [process.poll() for process in started]):
        if None not in failed:
            return 0
        if asked.is_set():
            return 128 + signal.SIGTERM
        time.sleep(_POLL)
    try:
        code = started[0].wait(grace)
    except subprocess.TimeoutExpired:
        code = 0
    if code > 0:
        return code
    if code < 0:
        raise SeesayError(
            f"The first of {len(started)} processes was ended by {signal.Signals(-code).name}, as where "
            f"memory runs out; what the others said is in {logs}. Continue with --resume."
        )
    rank = next(rank for rank, code in enumerate(failed) if code)
    raise SeesayError(
        f"Process {rank + 1} of {len(started)} ended with code {failed[rank]} while the first went on; see "
        f"{_log(logs, rank)}, and continue with --resume."
    )
