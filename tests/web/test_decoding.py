"""Uploads are decoded in other processes."""

import io
import os
import signal
import threading
import time

import numpy as np
import pytest
from PIL import Image

from seesay.data.images import decode
from seesay.errors import ImageError
from seesay.web.decoding import Decoders
from tests.search.colours import picture


@pytest.fixture
def decoders():
    made = Decoders(seconds=20, max_pixels=50_000_000)
    yield made
    made.close()


def large() -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (6000, 6000)).save(out, "PNG", compress_level=1)
    return out.getvalue()


def test_the_pixels_are_those_that_this_process_decodes(decoders: Decoders) -> None:
    photo = picture("red", "blue", size=(2000, 1500), format="JPEG")
    for side in (None, 320):
        np.testing.assert_array_equal(decode(decoders.decode(photo, side), "a"), decode(photo, "a", side))


def test_errors_are_those_of_decoding_and_the_process_is_used_again(decoders: Decoders) -> None:
    for bad in (b"", b"no image", picture("red")[:60]):
        with pytest.raises(ImageError, match=r"^the image: "):
            decoders.decode(bad)
    [decoder] = decoders._idle
    decoders.decode(picture("red"))
    assert decoders._idle == [decoder]


def test_one_that_takes_too_long_is_killed_and_the_next_upload_gets_another() -> None:
    decoders = Decoders(seconds=0.2, max_pixels=50_000_000)
    started = time.monotonic()
    with pytest.raises(ImageError, match=r"longer than 0.2 s"):
        decoders.decode(large())
    assert time.monotonic() - started < 2
    assert not decoders._idle
    decoders._seconds = 20
    assert decoders.decode(picture("red"))
    decoders.close()


def test_one_that_the_system_ended_is_replaced(decoders: Decoders) -> None:
    decoders.decode(picture("red"))
    os.kill(decoders._idle[0]._process.pid, signal.SIGKILL)
    decoders._idle[0]._process.wait()
    assert decoders.decode(picture("red"))


def test_closing_ends_all(decoders: Decoders) -> None:
    decoders.decode(picture("red"))
    [decoder] = decoders._idle
    decoders.close()
    assert not decoder.is_alive()
    at_work = threading.Thread(target=decoders.decode, args=(picture("red"),))
    at_work.start()
    at_work.join()
    assert not decoders._idle
