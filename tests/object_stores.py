"""Object stores of fsspec within this process, one of which fails when told to."""

from __future__ import annotations

from pathlib import Path
from threading import Barrier
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem


def ask_again_at_once(patch: pytest.MonkeyPatch) -> None:
    """Have a store that failed asked again without a pause."""
    patch.setattr("seesay.data.remote.time.sleep", lambda _: None)


class Flaky(MemoryFileSystem):
    """Files in memory at `flaky://…`; raises so many errors for a name before it answers."""

    protocol = "flaky"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    failures: ClassVar[dict[str, list[Exception]]] = {}
    reads: ClassVar[list[str]] = []
    waiting: ClassVar[Barrier | None] = None  # for so many reads at once, or else they fail

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.removeprefix("flaky://")))

    def _fail(self, path: str) -> None:
        name = path.rstrip("/").rpartition("/")[2]
        if self.failures.get(name):
            raise self.failures[name].pop()

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        self._fail(path)
        return super().ls(path, detail, **options)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        self.reads.append(path.rpartition("/")[2])
        if self.waiting is not None:
            self.waiting.wait(10)
        self._fail(path)
        return bytes(super().cat_file(path, start, end, **options))


fsspec.register_implementation("flaky", Flaky, clobber=True)


def uploaded(folder: Path, name: str) -> str:
    """Copy a folder to a store that is empty but for it; return its URL."""
    for content in (Flaky.store, Flaky.failures, Flaky.reads):
        content.clear()
    Flaky.pseudo_dirs[:] = [""]
    system = fsspec.filesystem("flaky")
    for file in folder.rglob("*"):
        if file.is_file():
            system.pipe_file(f"/bucket/{name}/{file.relative_to(folder).as_posix()}", file.read_bytes())
    return f"flaky://bucket/{name}"


def lost(times: int) -> list[Exception]:
    """So many lost connections."""
    return [ConnectionResetError("connection lost") for _ in range(times)]
