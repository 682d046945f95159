"""Decoding of images in separate processes, which are replaced if they take too long or crash.

`python -m seesay.data.decoders` is such a process. It reads requests from standard input and writes responses
to standard output: a line of JSON, then bytes. A hostile image may have taken over the process, so responses
are validated like untrusted input, and nothing is pickled.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

import seesay
from seesay.data.images import MAX_PIXELS, DecodedImage, EncodedImage, content_key
from seesay.data.ocr import TextLine, checked_lines, recognised_lines
from seesay.errors import ImageError, UnavailableImageError, first_line

_SECONDS = 10.0  # for one of the user's own photos
_OCR_SECONDS = 60.0  # of its text: a dense page takes three
_OCR_AT_ONCE = 2  # each takes 700 MB
_AT_ONCE = 8  # each may take more than a gigabyte
_PATIENCE = 3  # times as long in wall-clock time, since the machine may be busy
_ADDRESS_SPACE = 4 << 30  # bytes: far more than decoding may take, in case a decoder is faulty
_NICENESS = 10  # queries come first
_MOST_CHARACTERS = 512  # of an error
_MOST_BYTES = 1 << 20  # of the first line of an answer, with all text in a picture
_NO_PIXELS = np.zeros((0, 0, 3), np.uint8)

_Process: TypeAlias = "subprocess.Popen[bytes]"


@dataclass(frozen=True)
class _Answer:
    """The first line of an answer: an error, or what was asked of an image; its pixels follow."""

    error: str = ""
    again: bool = False
    shape: tuple[int, int] = (0, 0)
    size: tuple[int, int] = (1, 1)
    facts: dict[str, str] = field(default_factory=dict)
    same: bool = False
    lines: list[TextLine] = field(default_factory=list)


class Decoders:
    """A pool of processes, one for each concurrent thread. They are started on demand and reused.

    Args:
        seconds: of processor time (three times as many of wall-clock time) after which a process is killed.
        most: the maximum number of processes; further threads wait for a free one.

    Example:
        >>> import io
        >>> from PIL import Image
        >>> Image.new("RGB", (64, 48), "red").save(png := io.BytesIO(), "PNG")
        >>> decoders = Decoders(seconds=20, most=2)
        >>> decoders.decode(png.getvalue(), "red.png").pixels.shape
        (48, 64, 3)
        >>> decoders.close()
    """

    def __init__(self, seconds: float, most: int = _AT_ONCE) -> None:
        self._seconds = seconds
        self._free = threading.BoundedSemaphore(most)
        self._idle: list[_Process] = []
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._closed = False

    def decode(
        self,
        data: bytes,
        name: str,
        min_side: int | None = None,
        max_pixels: int = MAX_PIXELS,
        key: str | None = None,
    ) -> DecodedImage:
        """Decode an image; see `EncodedImage`. Its `key` is computed unless it is given.

        Raises:
            ImageError: the data are not an image, are damaged or too large, or take too long.
            UnavailableImageError: there is not enough memory or time now.
        """
        head, pixels = self._ask(data, name, {"side": min_side, "pixels": max_pixels})
        return DecodedImage(name, key or content_key(data), pixels, head.size, head.facts.get("taken", ""))

    def facts(self, data: bytes, name: str) -> dict[str, str]:
        """Return how a photo was taken; see `EncodedImage.facts`. Raises the same errors as `decode`."""
        return self._ask(data, name, {"pixels": 0})[0].facts

    def is_same_in_browsers(self, data: bytes, name: str) -> bool:
        """Return `EncodedImage.is_same_in_browsers`. Raises the same errors as `decode`."""
        return bool(self._ask(data, name, {"pixels": 0})[0].same)

    def read_text(self, data: bytes, name: str) -> list[TextLine]:
        """Return the lines of text, see `recognised_lines`. Raises the same errors as `decode`."""
        return self._ask(data, name, {"pixels": 0, "read": True})[0].lines

    def _ask(self, data: bytes, name: str, wanted: dict[str, Any]) -> tuple[_Answer, NDArray[np.uint8]]:
        request = wanted | {"name": name, "bytes": len(data), "seconds": self._seconds}
        late = threading.Event()

        def stop() -> None:
            late.set()
            process.kill()

        with self._free:
            process = self._taken()
            timer = threading.Timer(_PATIENCE * self._seconds, stop)
            timer.start()
            try:
                _write(cast(IO[bytes], process.stdin), request, data)
                head, pixels = _checked(cast(IO[bytes], process.stdout), request["pixels"])
            except Exception as error:  # the process ended, or its response is invalid
                raise _failure(process, late.is_set(), name, self._seconds) from error
            finally:
                timer.cancel()
            with self._lock:
                is_kept = not (self._closed or late.is_set())
                if is_kept:
                    self._idle.append(process)
            if not is_kept:
                _end(process)
        if head.error:
            raise (UnavailableImageError if head.again else ImageError)(head.error)
        return head, pixels

    def close(self) -> None:
        """End all processes; busy ones end after their response."""
        with self._lock:
            self._closed = True
            while self._idle:
                _end(self._idle.pop())

    def _taken(self) -> _Process:
        with self._lock:
            if self._owner != os.getpid():  # the processes belong to the one that this one was forked from
                self._idle, self._owner = [], os.getpid()
            while self._idle:
                process = self._idle.pop()
                if process.poll() is None:  # the system may have killed it for lack of memory
                    return process
                _end(process)
        return _started()


def _started() -> _Process:
    source = str(Path(seesay.__file__).parents[1])
    path = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
    # -P: the current folder, which may contain anything, is not searched for modules.
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "seesay.data.decoders"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # libraries print warnings about damaged images
        env=os.environ | {"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )


def _end(process: _Process) -> None:
    process.kill()
    with suppress(OSError), process:  # of data that was not written; it closes the pipes
        pass


def _failure(process: _Process, is_late: bool, name: str, seconds: float) -> ImageError:
    """End a process, and return the error for the image that it did not decode."""
    if not is_late:
        with suppress(subprocess.TimeoutExpired):
            process.wait(1)  # it closed its pipe; wait for its exit status
    ended = process.returncode
    _end(process)
    if is_late:
        return UnavailableImageError(f"{name}: could not be decoded within {_PATIENCE * seconds:g} s.")
    if ended == -getattr(signal, "SIGXCPU", 0):
        return ImageError(f"{name}: takes longer than {seconds:g} s to decode; make it smaller or simpler.")
    if ended in (-signal.SIGTERM, -getattr(signal, "SIGKILL", 0)):
        return UnavailableImageError(f"{name}: could not be decoded: the system killed the decoder.")
    return ImageError(f"{name}: cannot be decoded.")


def _checked(answers: IO[bytes], max_pixels: int) -> tuple[_Answer, NDArray[np.uint8]]:
    """Read an answer with at most `max_pixels` pixels; raise an exception if it is none."""
    head = _Answer(**json.loads(answers.readline(_MOST_BYTES)))
    texts = head.error, *head.facts, *head.facts.values()
    (height, width), size = head.shape, (head.size[0], head.size[1])
    if {*map(type, texts)} != {str} or {*map(type, (height, width, *size))} != {int} or min(size) < 1:
        raise ValueError("a value that an answer does not have")
    if not head.error and (min(head.shape) < min(1, max_pixels) or height * width > max_pixels):
        raise ValueError("no shape of an image")
    pixels = np.frombuffer(answers.read(3 * height * width), np.uint8).reshape(height, width, 3)
    return replace(head, size=size, lines=checked_lines(head.lines)), pixels


def _write(to: IO[bytes], head: dict[str, Any], data: bytes | memoryview = b"") -> None:
    to.write(json.dumps(head, ensure_ascii=False).encode(errors="replace") + b"\n")
    to.write(data)
    to.flush()


def main() -> None:
    """Answer requests until standard input ends."""
    _limit("RLIMIT_AS", _ADDRESS_SPACE)
    _limit("RLIMIT_CORE", 0)
    with suppress(AttributeError, OSError):
        os.nice(_NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process ends this one
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of libraries must not mix with responses
    while line := requests.readline():
        request = json.loads(line)
        data = requests.read(request["bytes"])
        _limit("RLIMIT_CPU", math.ceil(time.process_time() + request["seconds"]))
        try:
            image = EncodedImage(data, request["name"], request["pixels"] or MAX_PIXELS)
            if request.get("read"):
                _write(answers, {"lines": _lines_in(image)})
                continue
            pixels = image.pixels(request["side"]) if request["pixels"] else _NO_PIXELS
            head: dict[str, Any] = {"shape": pixels.shape[:2], "size": image.size, "facts": image.facts}
            head["same"] = image.is_same_in_browsers
        except ImageError as error:
            again = isinstance(error, UnavailableImageError)
            _write(answers, {"error": str(error)[:_MOST_CHARACTERS], "again": again})
        else:
            _write(answers, head, pixels.data)


def _lines_in(image: EncodedImage) -> list[TextLine]:
    pixels = image.pixels()
    try:
        return recognised_lines(pixels)
    except Exception as error:  # not of the image, which is to be read when this is mended
        why = first_line(error) or type(error).__name__
        raise UnavailableImageError(
            f"{image.name}: the models that read text fail, or lack memory ({why})."
        ) from error


def _limit(what: str, most: int) -> None:
    """Limit the resources of this process, where the system supports it."""
    with suppress(ImportError, AttributeError, ValueError, OSError):
        import resource

        kind = getattr(resource, what)
        resource.setrlimit(kind, (most, resource.getrlimit(kind)[1]))


PHOTOS = Decoders(_SECONDS)
"""The processes that decode photos to index or show them."""
OCR = Decoders(_OCR_SECONDS, _OCR_AT_ONCE)
"""The processes that read the text in photos."""
atexit.register(PHOTOS.close)
atexit.register(OCR.close)

if __name__ == "__main__":
    main()
