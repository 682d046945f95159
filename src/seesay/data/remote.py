"""Files at URLs, such as `s3://bucket/photos`, read in place through fsspec by the methods of `Path`.

Readers use such paths like local ones. Requests that fail for a reason that may pass, such as a lost
connection, are repeated; if they keep failing, an `OSError` that names the URL is raised, as for local files.
"""

from __future__ import annotations

import io
import os
import posixpath
import re
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from errno import EACCES, EINVAL, EIO, ENOENT
from operator import itemgetter
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, TypeVar, cast

from seesay.errors import MissingExtraError, SeesayError, first_line, install_command, naming_extras
from seesay.progress import progress, tell

_SCHEME = re.compile(r"\A([a-z][a-z0-9+.-]+):/+")  # one slash is enough: pathlib collapses two
_WAITS = (0.5, 2.0)  # seconds between attempts, in each of which s3fs retries itself
_BLOCK = 8 << 20  # bytes of a request for a file that is read from beginning to end
_NO_NAMES = ("", ".", "..")
_TIMES = ("LastModified", "last_modified", "mtime", "updated", "created")  # names of it in stores of fsspec

T = TypeVar("T")

_LISTED: dict[str, RemoteStat] = {}  # by URL: files that were listed since the last `forget`


@dataclass(frozen=True, slots=True)
class RemoteStat:
    """The size in bytes, the time of the last change in nanoseconds, and the version of a file.

    The time is 0 if the store does not give it. Different versions may have different bytes; the version is
    empty if the store does not distinguish versions.
    """

    st_size: int
    st_mtime_ns: int
    version: str


class RemotePath(PurePosixPath):
    """A file or folder at a URL, with those methods of `pathlib.Path` that readers call.

    The methods raise OSError if the store cannot be read.
    """

    __slots__ = ()

    def __str__(self) -> str:
        """The URL."""
        return _SCHEME.sub(r"\1://", super().__str__())

    def __fspath__(self) -> str:
        """Raise a SeesayError instead of being opened as a local file."""
        raise SeesayError(f"{self}: seesay reads this from a disk only; copy it to one.")

    def exists(self) -> bool:
        """Return whether a file or a folder is there."""
        return bool(self._info())

    def is_file(self) -> bool:
        """Return whether a file is there."""
        return self._info().get("type") == "file"

    def is_dir(self) -> bool:
        """Return whether a folder is there."""
        return self._info().get("type") == "directory"

    def stat(self) -> RemoteStat:
        """Return size, time and version, as last listed; raise FileNotFoundError if nothing is there."""
        if listed := _LISTED.get(str(self)):  # fsspec would search the listing of the whole folder
            return listed
        if info := self._info():
            return _stat(info)
        raise FileNotFoundError(ENOENT, "nothing is there", str(self))

    def iterdir(self) -> Iterator[RemotePath]:
        """Iterate over the files and folders in the folder, sorted by name."""
        return (self / name for name in sorted({name for name, _ in self._listed()}))

    def glob(self, pattern: str) -> Iterator[RemotePath]:
        """Iterate over the paths that match a pattern, in which `*` stands for a part of a name."""
        above, _, last = pattern.rpartition("/")
        for folder in self.glob(above) if above else [self]:
            if folder.is_dir():
                yield from (each for each in folder.iterdir() if PurePosixPath(each.name).match(last))

    def open(self, mode: str = "rb", buffering: int = _BLOCK) -> io.BufferedReader:  # noqa: ARG002
        """Open the file for reading; each request asks for `buffering` bytes."""
        return io.BufferedReader(_RemoteFile(self), buffering)

    def read_bytes(self) -> bytes:
        """Read the whole file."""
        return self._persistently(lambda system, url: bytes(system.cat_file(url)))

    def read_text(self, encoding: str = "utf-8") -> str:
        """Read the whole file as text."""
        return self.read_bytes().decode(encoding)

    def read_range(self, start: int, end: int) -> bytes:
        """Read the bytes from `start` to before `end`, or fewer if the file ends earlier."""

        def ask(system: Any, url: str) -> bytes:
            try:
                return bytes(system.cat_file(url, start=start, end=end))
            except OSError as error:
                if error.errno == EINVAL and self.stat().st_size <= start:
                    return b""  # S3 answers a range beyond the end with an error
                raise

        return self._persistently(ask)

    def resolve(self) -> RemotePath:
        """Return the path without `..`."""
        return type(self)(posixpath.normpath(super().__str__()))

    def forget(self) -> None:
        """Make the next listing ask the store again; fsspec caches listings."""
        _LISTED.clear()
        self._persistently(lambda system, _url: system.invalidate_cache())

    def walk(self) -> Iterator[tuple[RemotePath, RemoteStat]]:
        """Iterate over the files below the folder, nearest first, sorted by name; report the progress."""
        folders = deque([self])
        with progress(f"Listing {self}", None, "files") as advance:
            while folders:
                there = (folder := folders.popleft())._listed()
                advance(len(there))
                for name, info in sorted(there, key=itemgetter(0)):
                    if info["type"] == "directory":
                        folders.append(folder / name)
                    else:
                        path = folder / name
                        _LISTED[str(path)] = _stat(info)
                        yield path, _LISTED[str(path)]

    def _listed(self) -> list[tuple[str, dict[str, Any]]]:
        """The names and facts of what is in the folder; report names that cannot be part of a path.

        A store may have a file and a folder of one name.
        """

        def ask(system: Any, url: str) -> list[tuple[str, dict[str, Any]]]:
            above = system._strip_protocol(url).strip("/")
            found = system.ls(url, detail=True)
            return [(info["name"].strip("/").removeprefix(above).removeprefix("/"), info) for info in found]

        there = self._persistently(ask)
        # A file without a name stands for the folder itself.
        if any(name in _NO_NAMES and info["type"] == "directory" for name, info in there):
            tell(f"{self}: holds keys with '//' or '/./', which are not read; rename them.")
        return [(name, info) for name, info in there if name not in _NO_NAMES]

    def _info(self) -> dict[str, Any]:
        """The store's facts about the path; empty if nothing is there."""
        with suppress(FileNotFoundError):
            return self._persistently(lambda system, url: dict(system.info(url)))
        return {}

    def _persistently(self, ask: Callable[[Any, str], T]) -> T:
        """Send a request to the store, and repeat it after a while if it fails for reasons that may pass."""
        url = str(self)
        for wait in (*_WAITS, None):
            try:
                return ask(_store(url), url)
            except SeesayError:
                raise
            except FileNotFoundError as error:
                raise FileNotFoundError(ENOENT, "nothing is there", url) from error
            except PermissionError as error:
                raise PermissionError(EACCES, f"not allowed: {_reason(error)}", url) from error
            except Exception as error:  # the clients of stores raise nearly anything
                if "Credentials" in type(error).__name__:
                    raise PermissionError(EACCES, f"not allowed: {_reason(error)}", url) from error
                if wait is None:
                    raise OSError(EIO, _reason(error), url) from error
                time.sleep(wait)
        raise AssertionError("the last attempt returns or raises")


class RangedFile(io.RawIOBase, ABC):
    """A file of known size that is read in ranges; a buffer around it can make them larger."""

    def __init__(self, size: int) -> None:
        self._size, self._at = size, 0

    @abstractmethod
    def read_range(self, start: int, end: int) -> bytes:
        """Return the bytes from `start` to before `end`."""

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the position of the next read, and return it."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer, or read fewer bytes at the end of the file; return their number."""
        end = min(self._at + len(buffer), self._size)
        data = self.read_range(self._at, end) if end > self._at else b""
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


class _RemoteFile(RangedFile):
    def __init__(self, path: RemotePath) -> None:
        super().__init__(path.stat().st_size)
        self._path = path

    def read_range(self, start: int, end: int) -> bytes:
        return self._path.read_range(start, end)


def version_of(path: PurePath) -> str:
    """Return the URL and version of a remote file; empty for local files and stores without versions."""
    remote = as_remote(path)
    version = remote.stat().version if remote else ""
    return f"{path} {version}" if version else ""


def as_remote(path: PurePath) -> RemotePath | None:
    """Return the path if it is a URL, else None."""
    return path if isinstance(path, RemotePath) else None


def is_remote(path: str | PurePath) -> bool:
    """Return whether a path or text is a URL.

    >>> is_remote("s3://bucket/photos"), is_remote(Path("s3://bucket")), is_remote("C:/photos")
    (True, True, False)
    """
    return _SCHEME.match(str(path)) is not None


def path_of(text: str | PurePath) -> Path:
    """Return the path of a file or folder, or a `RemotePath`, which readers use as one.

    >>> path_of("s3://bucket/photos") / "a.jpg"
    RemotePath('s3://bucket/photos/a.jpg')
    """
    if is_remote(text) and not (isinstance(text, Path) and text.exists()):  # a folder may be called "a:"
        return cast(Path, RemotePath(str(text)))
    return Path(text)


def is_same(one: Path, other: Path) -> bool:
    """Return whether two paths are the same folder; URLs are compared as they are written."""
    if one == other or is_remote(one) or is_remote(other):
        return one == other
    return is_folder(one) and is_folder(other) and one.samefile(other)


def is_folder(path: Path) -> bool:
    """Return whether a folder is there; raise a SeesayError if the store of a URL does not answer."""
    remote = as_remote(path)
    if remote is None:
        return os.path.isdir(path)  # noqa: PTH112 — is_dir raises errors of an unavailable disk or network
    try:
        remote.forget()
        return remote.is_dir()
    except OSError as error:
        raise SeesayError(f"{path}: cannot be read ({error.strerror}).") from error


def _store(url: str) -> Any:
    """The file system of fsspec for a URL; fsspec creates one for each scheme, and keeps it."""
    with naming_extras():
        from fsspec.core import url_to_fs
    try:
        return url_to_fs(url)[0]
    except ImportError as error:
        raise MissingExtraError(
            f"{url}: {_reason(error)}; for s3:// that is {install_command('cloud')}."
        ) from error
    except ValueError as error:
        raise SeesayError(f"{url}: not an address that fsspec knows ({_reason(error)}).") from error


def _stat(info: dict[str, Any]) -> RemoteStat:
    changed = next((info[key] for key in _TIMES if info.get(key)), 0)
    size, nanoseconds = int(info.get("size") or 0), 0
    with suppress(ValueError):
        changed = datetime.fromisoformat(changed) if isinstance(changed, str) else changed
        seconds = changed.timestamp() if isinstance(changed, datetime) else float(changed)
        nanoseconds = int(seconds * 1e6) * 1000
    tag = next((str(info[key]) for key in ("ETag", "etag") if info.get(key)), "")
    version = tag or (f"{size}-{nanoseconds}" if nanoseconds else "")
    return RemoteStat(size, nanoseconds, version)


def _reason(error: Exception) -> str:
    """The first line of an error, or its type if it has no message."""
    return first_line(error).rstrip(".")[:200]
