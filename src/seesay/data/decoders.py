"""Decoding of images in processes of their own, of which one that takes too long, or crashes, is replaced.

`python -m seesay.data.decoders` is such a process. It reads requests from standard input and answers on
standard output: a line of JSON, then bytes. Its answers are checked like what came from a stranger, since a
hostile image may have taken it over; so nothing is pickled.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import seesay
from seesay.data.headers import MAX_PIXELS
from seesay.data.images import EncodedImage
from seesay.errors import ImageError, UnavailableImageError

_ADDRESS_SPACE = 4 << 30  # bytes: far more than decoding is allowed to take, should a decoder go wild
_NICENESS = 10  # queries come first
_LINE = 4096  # bytes


class Decoded(NamedTuple):
    """A decoded image.

    Attributes:
        pixels: (h, w, 3) RGB, upright, perhaps a fraction of its size.
        size: width and height of the whole image in pixels, upright.
        taken: when, as `EncodedImage.taken` tells.
    """

    pixels: NDArray[np.uint8]
    size: tuple[int, int]
    taken: str

    def ppm(self) -> bytes:
        """Return the pixels as an encoded image, which takes no time to decode."""
        height, width, _ = self.pixels.shape
        return b"".join([f"P6 {width} {height} 255\n".encode(), self.pixels.data])


class Decoders:
    """As many processes as threads use them at a time; each is started when it is needed, and used again.

    Args:
        seconds: after which a process that has not answered is killed.

    Example:
        >>> import io
        >>> from PIL import Image
        >>> Image.new("RGB", (64, 48), "red").save(png := io.BytesIO(), "PNG")
        >>> decoders = Decoders(seconds=20)
        >>> decoders.decode(png.getvalue(), "red.png").pixels.shape
        (48, 64, 3)
        >>> decoders.close()
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._idle: list[_Decoder] = []
        self._lock = threading.Lock()
        self._closed = False

    def decode(
        self, data: bytes, name: str, min_side: int | None = None, max_pixels: int = MAX_PIXELS
    ) -> Decoded:
        """Decode an image; see `EncodedImage`.

        Raises:
            ImageError: it is no image, damaged, too large, or takes too long.
        """
        decoder = self._take()
        request = {"name": name, "side": min_side, "pixels": max_pixels, "bytes": len(data)}
        try:
            answer = decoder.ask(request, data, self._seconds)
        except Exception as error:  # of a process that ended, or that lies
            decoder.kill()
            took_long = f"takes longer than {self._seconds:g} s to decode; make it smaller or simpler"
            why = took_long if decoder.is_late else "cannot be decoded"
            raise ImageError(f"{name}: {why}.") from error
        self._put_back(decoder)
        if isinstance(answer, ImageError):
            raise answer
        return answer

    def close(self) -> None:
        """End all processes; those at work end when they have answered."""
        with self._lock:
            self._closed = True
            while self._idle:
                self._idle.pop().kill()

    def _take(self) -> _Decoder:
        with self._lock:
            while self._idle:
                decoder = self._idle.pop()
                if decoder.process.poll() is None:  # the system may have ended it, for want of memory
                    return decoder
                decoder.kill()  # which frees its pipes
        return _Decoder()

    def _put_back(self, decoder: _Decoder) -> None:
        with self._lock:
            if not self._closed and not decoder.is_late:
                self._idle.append(decoder)
                return
        decoder.kill()


class _Decoder:
    """One process. `is_late` is True once it was killed for taking too long."""

    def __init__(self) -> None:
        self.is_late = False
        source = str(Path(seesay.__file__).parents[1])
        path = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
        # -P: the folder that the program was started in may hold anything.
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "seesay.data.decoders"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # libraries warn about what strangers send
            env=os.environ | {"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )

    def ask(self, request: dict[str, Any], data: bytes, seconds: float) -> Decoded | ImageError:
        """Return the answer to a request; raise nearly anything if the process ends, or lies."""
        asked, answers = self.process.stdin, self.process.stdout
        assert asked is not None
        assert answers is not None
        timer = threading.Timer(seconds, self._end)
        timer.start()
        try:
            _write(asked, request, data)
            return _checked(answers, request["pixels"])
        finally:
            timer.cancel()

    def _end(self) -> None:
        self.is_late = True
        self.process.kill()

    def kill(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(OSError):  # what was not written any more
                if pipe is not None:
                    pipe.close()


def _checked(answers: IO[bytes], max_pixels: int) -> Decoded | ImageError:
    """Read an answer, no more than an image of so many pixels has."""
    head = json.loads(answers.readline(_LINE))
    if "error" in head:
        kind = UnavailableImageError if head["again"] is True else ImageError
        return kind(str(head["error"]))
    (height, width), (whole_width, whole_height) = map(int, head["shape"]), map(int, head["size"])
    if min(height, width, whole_width, whole_height) < 1 or height * width > max_pixels:
        raise ValueError("no shape of an image")
    pixels = np.frombuffer(answers.read(3 * height * width), np.uint8).reshape(height, width, 3)
    return Decoded(pixels, (whole_width, whole_height), str(head["taken"]))


def _write(to: IO[bytes], head: dict[str, Any], data: bytes | memoryview = b"") -> None:
    to.write(json.dumps(head).encode() + b"\n")
    to.write(data)
    to.flush()


def main() -> None:
    """Answer requests until there are no more."""
    with suppress(ImportError, ValueError, OSError):  # not every system has such limits
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    with suppress(AttributeError, OSError):
        os.nice(_NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the program ends it
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    while line := requests.readline():
        request = json.loads(line)
        data = requests.read(request["bytes"])
        try:
            image = EncodedImage(data, request["name"], request["pixels"])
            pixels = image.pixels(request["side"])
            head = {"shape": pixels.shape[:2], "size": image.size, "taken": image.taken}
        except ImageError as error:
            again = isinstance(error, UnavailableImageError)
            _write(answers, {"error": str(error)[: _LINE // 8], "again": again})
        else:
            _write(answers, head, pixels.data)


if __name__ == "__main__":
    main()
