"""Decoding of uploads in processes of their own, of which one that takes too long is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import seesay
from seesay.errors import ImageError
from seesay.web.decoder import ANSWER, REQUEST


class Decoders:
    """As many processes as threads use them at a time; each is started when needed, and used again.

    Args:
        seconds: after which a process that has not answered is killed.
        max_pixels: width × height of an upload.
    """

    def __init__(self, seconds: float, max_pixels: int) -> None:
        self._seconds, self._max_pixels = seconds, max_pixels
        self._idle: list[_Decoder] = []
        self._lock = threading.Lock()
        self._closed = False

    def decode(self, data: bytes, min_side: int | None = None) -> bytes:
        """Return an encoded image as PPM, upright, of at least `min_side` if that is given.

        Raises:
            ImageError: it is no image, damaged, too large, or takes too long.
        """
        decoder = self._take()
        try:
            request = REQUEST.pack(len(data), min_side or 0, self._max_pixels)
            is_image, answer = decoder.ask(request, data, self._seconds)
        except (OSError, EOFError) as error:
            decoder.kill()
            took_long = f"takes longer than {self._seconds:g} s to decode; send a smaller or simpler one"
            why = took_long if decoder.is_late else "cannot be decoded"
            raise ImageError(f"the image: {why}.") from error
        self._put_back(decoder)
        if not is_image:
            raise ImageError(answer.decode())
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
                if decoder.is_alive():
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
        # -P: the folder that the server was started in may hold anything.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "seesay.web.decoder"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # libraries warn about what strangers send
            env=os.environ | {"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )

    def ask(self, request: bytes, data: bytes, seconds: float) -> tuple[bool, bytes]:
        """Return the answer to a request; raise OSError or EOFError if the process ends before that."""
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answers is not None
        timer = threading.Timer(seconds, self._end)
        timer.start()
        try:
            asked.write(request + data)
            asked.flush()
            head = answers.read(ANSWER.size)
            if len(head) < ANSWER.size:
                raise EOFError
            is_image, size = ANSWER.unpack(head)
            answer = answers.read(size)
            if len(answer) < size:
                raise EOFError
            return is_image, answer
        finally:
            timer.cancel()

    def is_alive(self) -> bool:
        """Return whether the process still runs; the system may have ended it, for want of memory."""
        return self._process.poll() is None

    def _end(self) -> None:
        self.is_late = True
        self._process.kill()

    def kill(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:  # what was not written any more
                    continue
