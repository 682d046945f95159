"""The tests of indexes on a standalone server of Milvus, one of before vectors in half precision."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.search.stores import SERVERS

ROOT = Path(__file__).parents[2]
FILES = ("test_databases.py", "test_filters.py", "test_index.py", "test_roots.py")


@pytest.mark.slow
def test_indexes_pass_their_tests_on_a_server_of_milvus(tmp_path: Path) -> None:
    client = pytest.importorskip("pymilvus", reason="pymilvus is not installed")
    program = shutil.which("milvus-server", path=Path(sys.executable).parent)
    if program is None:
        pytest.skip("no server: pip install --no-deps milvus==2.3.5")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [program, "--data", tmp_path / "data", "--proxy-port", str(port)]
    url = f"http://127.0.0.1:{port}"
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        until = time.monotonic() + 300
        while True:
            try:
                client.MilvusClient(url, timeout=5).get_server_version()
                break
            except client.MilvusException:
                assert time.monotonic() < until, (tmp_path / "log").read_text()[-1000:]
                time.sleep(1)
        tests = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-k", "milvus"]
        files = [ROOT / "tests" / "search" / name for name in FILES]
        done = subprocess.run(
            [*tests, *files],
            cwd=ROOT,
            env=os.environ | {SERVERS["milvus"]: url},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout[-3000:]
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
