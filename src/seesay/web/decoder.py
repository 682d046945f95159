"""The process that decodes what strangers send, so that it can be killed: `python -m seesay.web.decoder`.

It answers each request on standard input, a head and the encoded image, on standard output: a head, then the
image as PPM or what is wrong with it. It ends when its standard input does.
"""

from __future__ import annotations

import os
import signal
import struct
import sys
from contextlib import suppress
from typing import BinaryIO

from seesay.data.images import decode
from seesay.errors import ImageError

REQUEST = struct.Struct("<QQQ")  # bytes of the image, shorter side wanted (0: all), pixels at most
ANSWER = struct.Struct("<?Q")  # whether it is an image, bytes of what follows
_ADDRESS_SPACE = 4 << 30  # bytes: far more than decoding is allowed to take, should a decoder go wild
_NICENESS = 10  # queries come first


def main() -> None:
    """Answer requests until there are no more."""
    with suppress(ImportError, ValueError, OSError):  # not every system has such limits
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    with suppress(AttributeError, OSError):
        os.nice(_NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server ends it
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    while len(head := requests.read(REQUEST.size)) == REQUEST.size:
        size, side, pixels = REQUEST.unpack(head)
        _answer(answers, requests.read(size), side, pixels)


def _answer(answers: BinaryIO, data: bytes, side: int, most: int) -> None:
    try:
        pixels = decode(data, "the image", side or None, most)
    except ImageError as error:
        message = str(error).encode()
        answers.write(ANSWER.pack(False, len(message)) + message)
    else:
        start = f"P6 {pixels.shape[1]} {pixels.shape[0]} 255\n".encode()
        answers.write(ANSWER.pack(True, len(start) + pixels.nbytes) + start)
        answers.write(pixels.data)
    answers.flush()


if __name__ == "__main__":
    main()
