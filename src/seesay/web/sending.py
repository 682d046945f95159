"""Files as responses: a file or a range of it, and several files as a zip.

Each file is checked and sent by one descriptor: it does not matter who has its name meanwhile.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import partial
from io import FileIO
from typing import TypeAlias
from urllib.parse import quote
from zipfile import ZipFile, ZipInfo

from starlette.datastructures import Headers
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from seesay.web import log_line
from seesay.web.answers import problem
from seesay.web.service import Service

REVALIDATE = "private, no-cache"  # an id keeps its meaning, but its file may change
_PIECE = 1 << 18  # bytes that are read at once
_RANGE = re.compile(r"bytes=(?:([0-9]{1,18})-([0-9]{0,18})|-([0-9]{1,18}))")
_NOT_IN_NAMES = re.compile(r'[\\:*?"<>|\x00-\x1f]')  # Windows takes \ for a folder and : for a drive

Opening: TypeAlias = Callable[[], tuple[FileIO, str]]
"""Opens an image and returns it with its format; raises an `OSError` if it is missing or not an image."""


class Streamed(StreamingResponse):
    """A response whose parts are read in threads; one that cannot be read to its end is cut and logged."""

    def __init__(self, service: Service, parts: Iterator[bytes], media_type: str, **headers: str) -> None:
        self._service, self._parts = service, parts
        super().__init__(self._read(), media_type=media_type)
        self.headers.update({name.replace("_", "-"): value for name, value in headers.items()})

    async def _read(self) -> AsyncIterator[bytes]:
        """Yield the parts; a thread whose disk does not answer holds up no other request."""
        try:
            while part := await self._service.run(partial(next, self._parts, b""), self._service.files):
                yield part
        except OSError as error:
            raise _CutError(str(error)) from error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        try:
            await super().__call__(scope, receive, send)
        except _CutError as error:  # the server closes the connection, which tells the client
            log_line(f"{scope['path']}: not sent to its end ({error}).")


class _CutError(Exception):
    """A file cannot be read to its end, after the response has begun."""


def file_response(service: Service, file: FileIO, name: str, type_: str, asked: Headers) -> Response:
    """Return the response with an opened file, which it closes.

    Args:
        service: whose threads read the file.
        file: the file.
        name: under which clients save it.
        type_: its media type, empty for files that are only saved.
        asked: the headers of the request: `If-None-Match`, `Range` and `If-Range`.
    """
    there = os.fstat(file.fileno())
    tag = f'"{there.st_mtime_ns:x}-{there.st_size:x}-{there.st_ino:x}"'
    if (known := unchanged(tag, asked.get("if-none-match"))) is not None:
        file.close()
        return known
    wanted = range(there.st_size)
    if (
        asked.get("if-range", tag) == tag
        and (part := _part(asked.get("range", ""), there.st_size)) is not None
    ):
        wanted = part
    if not wanted and there.st_size:
        file.close()
        return problem(416, "The range is outside the file.", {"Content-Range": f"bytes */{there.st_size}"})
    response = Streamed(
        service,
        _read(file, wanted),
        type_ or "application/octet-stream",
        Content_Length=str(len(wanted)),
        Content_Disposition=f"{'inline' if type_ else 'attachment'}; filename*=utf-8''{quote(name)}",
        Last_Modified=format_datetime(datetime.fromtimestamp(int(there.st_mtime), UTC), usegmt=True),
        Accept_Ranges="bytes",
        **kept_as(tag),
    )
    if len(wanted) < there.st_size:
        response.status_code = 206
        response.headers["Content-Range"] = f"bytes {wanted.start}-{wanted.stop - 1}/{there.st_size}"
    return response


def kept_as(tag: str) -> dict[str, str]:
    """Return the headers of what a client may keep under an ETag."""
    return {"ETag": tag, "Cache-Control": REVALIDATE}


def unchanged(tag: str, if_none_match: str | None) -> Response | None:
    """Return a 304 response if the client already has the content with that ETag, else None."""
    if if_none_match is None or tag not in if_none_match:
        return None
    return Response(status_code=304, headers=kept_as(tag))


def _part(header: str, size: int) -> range | None:
    """Return the bytes that a `Range` header asks for.

    As RFC 9110 has it, a malformed or reversed range is ignored. So are several ranges, which no image needs.

    >>> _part("bytes=2-", 10), _part("bytes=-3", 10), _part("bytes=12-20", 10)
    (range(2, 10), range(7, 10), range(10, 10))
    >>> _part("bytes=5-2", 10), _part("bytes=0-1,4-5", 10), _part("pages=1-2", 10)
    (None, None, None)
    """
    found = _RANGE.fullmatch(header)
    if found is None or (found[2] and int(found[2]) < int(found[1])):
        return None
    if found[3]:
        return range(max(0, size - int(found[3])), size)
    return range(min(int(found[1]), size), min(int(found[2]) + 1, size) if found[2] else size)


def _read(file: FileIO, wanted: range) -> Iterator[bytes]:
    with file:
        file.seek(wanted.start)
        left = len(wanted)
        while left:
            part = file.read(min(_PIECE, left))
            if not part:
                raise OSError(f"{file.name} became shorter")
            left -= len(part)
            yield part


def zipped(files: Iterable[tuple[str, Opening]], most: int) -> Iterator[bytes]:
    """Yield the bytes of an uncompressed zip of files.

    Args:
        files: the name of each file in the zip, and a function that opens it, see `Opening`.
        most: bytes of all files together; those that would exceed it are left out.
    """
    out, taken = _Parts(), set[str]()
    with ZipFile(out, "w") as archive:
        for path, opened in files:
            try:
                file, _format = opened()
            except OSError:
                continue
            name = _NOT_IN_NAMES.sub("_", path)
            while name in taken:
                name = f"_{name}"
            taken.add(name)
            with closing(file):
                size = os.fstat(file.fileno()).st_size
                most -= size
                if most >= 0:
                    # `os.stat`, by which it reads the time and the size, takes descriptors too.
                    entry = ZipInfo.from_file(file.fileno(), name, strict_timestamps=False)  # type: ignore[arg-type]
                    with archive.open(entry, "w") as copy:
                        for part in _read(file, range(size)):
                            copy.write(part)
                            yield out.taken()
    yield out.taken()


class _Parts(io.RawIOBase):
    """What was written and not yet taken."""

    def __init__(self) -> None:
        self._parts = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, part: bytes) -> int:  # type: ignore[override]
        self._parts += part
        return len(part)

    def taken(self) -> bytes:
        part = bytes(self._parts)
        self._parts.clear()
        return part
