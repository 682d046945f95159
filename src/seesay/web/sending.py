"""Files as responses: a file, and several files as a zip.

Each file is checked and sent by one descriptor: it does not matter who has its name meanwhile.
"""

from __future__ import annotations

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

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from seesay.web import log_line
from seesay.web.service import Service

_PIECE = 1 << 18  # bytes that are read at once
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
        if scope["is_head"]:  # whose body is not sent
            self._parts = iter(())
        try:
            await super().__call__(scope, receive, send)
        except _CutError as error:  # the server closes the connection, which tells the client
            log_line(f"{scope['path']}: not sent to its end ({error}).")


class _CutError(Exception):
    """A file cannot be read to its end, after the response has begun."""


def file_response(service: Service, file: FileIO, name: str, type_: str, known: str | None) -> Response:
    """Return the response with an opened file, which it closes.

    Args:
        service: whose threads read the file.
        file: the file.
        name: under which clients save it.
        type_: its media type, empty for files that are only saved.
        known: the header `If-None-Match` of the request.
    """
    there = os.fstat(file.fileno())
    tag = f'"{there.st_mtime_ns:x}-{there.st_size:x}-{there.st_ino:x}"'
    if (same := unchanged(tag, known)) is not None:
        file.close()
        return same
    return Streamed(
        service,
        _read(file, there.st_size),
        type_ or "application/octet-stream",
        Content_Length=str(there.st_size),
        Content_Disposition=f"{'inline' if type_ else 'attachment'}; filename*=utf-8''{quote(name)}",
        Last_Modified=format_datetime(datetime.fromtimestamp(int(there.st_mtime), UTC), usegmt=True),
        **kept_as(tag),
    )


def kept_as(tag: str) -> dict[str, str]:
    """Return the headers of what a client may keep under an ETag: an id stays, but its file may change."""
    return {"ETag": tag, "Cache-Control": "private, no-cache"}


def unchanged(tag: str, if_none_match: str | None) -> Response | None:
    """Return a 304 response if the client already has the content with that ETag, else None."""
    if if_none_match is None or tag not in if_none_match:
        return None
    return Response(status_code=304, headers=kept_as(tag))


def _read(file: FileIO, left: int) -> Iterator[bytes]:
    with file:
        file.seek(0)
        while left:
            part = file.read(min(_PIECE, left))
            if not part:
                raise OSError(f"{file.name} became shorter")
            left -= len(part)
            yield part


def zipped(files: Iterable[tuple[str, Opening]]) -> Iterator[bytes]:
    """Yield the bytes of an uncompressed zip of files.

    Args:
        files: the name of each file in the zip, and a function that opens it, see `Opening`.
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
                # `os.stat`, by which it reads the time and the size, takes descriptors too.
                entry = ZipInfo.from_file(file.fileno(), name, strict_timestamps=False)  # type: ignore[arg-type]
                with archive.open(entry, "w") as copy:
                    for part in _read(file, entry.file_size):
                        copy.write(part)
                        yield out.taken()
    yield out.taken()


class _Parts(bytearray):
    """What was written and not yet taken."""

    def write(self, part: bytes) -> int:
        self.extend(part)
        return len(part)

    def flush(self) -> None: ...

    def close(self) -> None: ...

    def taken(self) -> bytes:
        part = bytes(self)
        self.clear()
        return part
