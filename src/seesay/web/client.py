"""A client of the HTTP API, with typed answers; a test checks it against the OpenAPI schema."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, urlencode, urlsplit

from pydantic import TypeAdapter

from seesay.errors import SeesayError
from seesay.search.duplicates import SIMILARITY
from seesay.web.answers import (
    DatedImage,
    DatedImages,
    Duplicates,
    Fault,
    Folder,
    GroundingAnswer,
    ImageAnswer,
    ImageFacts,
    Images,
    Month,
    SentenceAnswers,
    Status,
    UpdateState,
)

A = TypeVar("A")
Value = str | int | float | bool | list[int] | None
Upload = bytes | str | Path


class ClientError(SeesayError):
    """The server refused a request, or cannot be reached; `status` is None in that case."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class Client:
    """Asks a server that `seesay serve` started.

    Args:
        address: of the server, its prefix included.
        token: for a server that requires one.
        index: the name of the index to query; the server's first by default.
        seconds: to wait for an answer.

    Example:
        >>> from seesay.web.client import Client
        >>> client = Client("http://127.0.0.1:8000", index="pictures")
        >>> client.thumbnail_address(12)
        'http://127.0.0.1:8000/api/v1/images/12/thumbnail?index=pictures'
    """

    def __init__(
        self, address: str, token: str | None = None, index: str | None = None, seconds: float = 60.0
    ) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ClientError(f"{address}: not the address of a server, such as http://127.0.0.1:8000.")
        self.address, self.token, self.index, self.seconds = address.rstrip("/"), token, index, seconds
        self._connection = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._host, self._port, self._prefix = parts.hostname, parts.port, parts.path.rstrip("/")

    def search(
        self, q: str, limit: int = 40, cursor: str | None = None, where: str = "", rerank: bool = False
    ) -> Images:
        """Find the images that fit a query best, a page of them."""
        return self._get(Images, "/search", q=q, limit=limit, cursor=cursor, where=where, rerank=rerank)

    def search_all(self, q: str, where: str = "", rerank: bool = False) -> Iterator[ImageAnswer]:
        """Iterate over all images, best first; pages are fetched as they are needed."""
        page = self.search(q, 200, None, where, rerank)
        yield from page.results
        while page.next is not None:
            page = self.search(q, 200, page.next, where, rerank)
            yield from page.results

    def search_with_images(
        self, image: Sequence[Upload], q: str = "", limit: int = 40, where: str = ""
    ) -> Images:
        """Find the images that fit image files, or encoded images, and a query best.

        Further pages are those of `search` with the answer's `q` and `next`.
        """
        return self._post(Images, "/search", image, q=q, limit=limit, where=where)

    def similar(self, id: int, limit: int = 40, cursor: str | None = None, where: str = "") -> Images:
        """Find the images most similar to one of the index, a page of them."""
        return self._get(Images, f"/images/{id}/similar", limit=limit, cursor=cursor, where=where)

    def sentences(self, image: Upload, limit: int = 10, rerank: bool = False) -> SentenceAnswers:
        """Find the sentences that describe an image file, or an encoded image, best."""
        return self._post(SentenceAnswers, "/sentences", [image], limit=limit, rerank=rerank)

    def newest(
        self, limit: int = 40, cursor: str | None = None, where: str = "", until: str = ""
    ) -> DatedImages:
        """List the images, newest first, a page of them; from `until`, such as "2019-06", backwards."""
        return self._get(DatedImages, "/images", limit=limit, cursor=cursor, where=where, until=until)

    def newest_all(self, where: str = "", until: str = "") -> Iterator[DatedImage]:
        """Iterate over all images, newest first; pages are fetched as they are needed."""
        page = self.newest(200, None, where, until)
        yield from page.results
        while page.next is not None:
            page = self.newest(200, page.next, where)
            yield from page.results

    def months(self, where: str = "") -> list[Month]:
        """Count the images of each month, newest first."""
        return self._get(list[Month], "/images/months", where=where)

    def folders(self) -> list[Folder]:
        """Count the images directly in each folder, of the thousand that hold the most."""
        return self._get(list[Folder], "/images/folders")

    def duplicates(self, similarity: float = SIMILARITY) -> Duplicates:
        """Group the images that look nearly alike."""
        return self._get(Duplicates, "/images/duplicates", similarity=similarity)

    def archive(self, id: Sequence[int]) -> bytes:
        """Return the files of images as one zip."""
        return self._ask("GET", "/images/archive", {"id": list(id)})

    def facts(self, id: int) -> ImageFacts:
        """Return what is known of an image."""
        return self._get(ImageFacts, f"/images/{id}")

    def original(self, id: int) -> bytes:
        """Return the file of an image."""
        return self._ask("GET", f"/images/{id}/original", {})

    def jpeg(self, id: int) -> bytes:
        """Return an upright JPEG of an image in its full size, whatever the format of its file."""
        return self._ask("GET", f"/images/{id}/jpeg", {})

    def thumbnail(self, id: int) -> bytes:
        """Return a small JPEG of an image."""
        return self._ask("GET", f"/images/{id}/thumbnail", {})

    def thumbnail_address(self, id: int) -> str:
        """Return the address of the thumbnail, for a page that shows it."""
        return f"{self.address}{self._path(f'/images/{id}/thumbnail', {}).removeprefix(self._prefix)}"

    def ground(self, image: Upload, q: str, limit: int = 1) -> GroundingAnswer:
        """Find the boxes of what a sentence names in an image file, or an encoded image."""
        return self._post(GroundingAnswer, "/ground", [image], q=q, limit=limit)

    def ground_indexed(self, id: int, q: str, limit: int = 1) -> GroundingAnswer:
        """Find the boxes of what a sentence names in an image of the index."""
        return self._get(GroundingAnswer, f"/images/{id}/ground", q=q, limit=limit)

    def indexes(self) -> list[Status]:
        """List the indexes that are served."""
        return self._get(list[Status], "/indexes")

    def status(self) -> Status:
        """Describe the index."""
        return self._get(Status, "/status")

    def faults(self) -> list[Fault]:
        """List the files that could not be indexed, and why."""
        return self._get(list[Fault], "/faults")

    def update_state(self) -> UpdateState:
        """Return the progress of the update of the index, or the outcome of the last one."""
        return self._get(UpdateState, "/update")

    def update(self) -> UpdateState:
        """Start an update of the index."""
        return TypeAdapter(UpdateState).validate_json(self._ask("POST", "/update", {}))

    def _get(self, kind: type[A], path: str, **query: Value) -> A:
        return TypeAdapter(kind).validate_json(self._ask("GET", path, query))

    def _post(self, kind: type[A], path: str, images: Sequence[Upload], **query: Value) -> A:
        contents = [each if isinstance(each, bytes) else Path(each).read_bytes() for each in images]
        return TypeAdapter(kind).validate_json(self._ask("POST", path, query, contents))

    def _path(self, path: str, query: dict[str, Value]) -> str:
        given = {"index": self.index, **query}
        plain = {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in given.items()
            if value is not None
        }
        written = f"?{urlencode(plain, doseq=True, quote_via=quote)}" if plain else ""
        return f"{self._prefix}/api/v1{path}{written}"

    def _ask(self, method: str, path: str, query: dict[str, Value], images: Sequence[bytes] = ()) -> bytes:
        headers, body = self._form(images) if images else ({}, None)
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        connection = self._connection(self._host, self._port, timeout=self.seconds)
        try:
            connection.request(method, self._path(path, query), body, headers)
            response = connection.getresponse()
            answer = response.read()
        except (OSError, HTTPException) as error:
            raise ClientError(
                f"{self.address}: cannot be reached ({error}); is seesay serve running?"
            ) from error
        finally:
            connection.close()
        if response.status >= 400:
            raise ClientError(f"{self.address}: {_detail(response, answer)}", response.status)
        return answer

    def _form(self, images: Sequence[bytes]) -> tuple[dict[str, str], bytes]:
        boundary = uuid.uuid4().hex
        head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="image"; filename="image"\r\n\r\n'.encode()
        )
        body = b"".join(head + image + b"\r\n" for image in images) + f"--{boundary}--\r\n".encode()
        return {"Content-Type": f"multipart/form-data; boundary={boundary}"}, body


def _detail(response: HTTPResponse, body: bytes) -> str:
    try:
        return str(json.loads(body)["detail"])
    except (ValueError, KeyError, TypeError):
        return f"{response.status} {response.reason}"
