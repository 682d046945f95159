"""Images are decoded in other processes."""

import io
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from seesay.data.decoders import PHOTOS, Decoders
from seesay.data.images import EncodedImage, decode
from seesay.errors import ImageError, UnavailableImageError
from seesay.search import Index
from tests.other_python import start_instead
from tests.search.colours import Colours, gallery, picture


@pytest.fixture
def decoders():
    made = Decoders(seconds=20)
    yield made
    made.close()


def large() -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (6000, 6000)).save(out, "PNG", compress_level=1)
    return out.getvalue()


def test_the_pixels_are_those_that_this_process_decodes(decoders: Decoders) -> None:
    photo = picture("red", "blue", size=(2000, 1500), format="JPEG")
    for side in (None, 320):
        decoded = decoders.decode(photo, "a", side)
        np.testing.assert_array_equal(decoded.pixels, decode(photo, "a", side))
        assert (decoded.size, decoded.taken) == ((2000, 1500), EncodedImage(photo, "a").taken)


def test_errors_are_those_of_decoding_and_the_process_is_used_again(decoders: Decoders) -> None:
    for bad in (b"", b"no image", picture("red")[:60]):
        with pytest.raises(ImageError, match=r"^the image: "):
            decoders.decode(bad, "the image")
    [decoder] = decoders._idle
    decoders.decode(picture("red"), "a")
    assert decoders._idle == [decoder]


def test_a_decoder_that_does_not_answer_is_killed_and_replaced() -> None:
    decoders = Decoders(seconds=0.02)
    with pytest.raises(UnavailableImageError, match=r"not be decoded within 0.06 s"):
        decoders.decode(large(), "a")
    assert not decoders._idle
    decoders._seconds = 20
    assert decoders.decode(picture("red"), "a")
    decoders.close()


def test_a_jpeg_of_many_scans_takes_no_longer_than_its_process_may() -> None:
    Image.new("L", (6000, 6000)).save(out := io.BytesIO(), "JPEG", progressive=True)
    data = out.getvalue()
    last = data.rindex(b"\xff\xda")
    decoders = Decoders(seconds=1)
    with pytest.raises(ImageError, match=r"takes longer than 1 s|not be decoded within 3 s"):
        decoders.decode(data[:-2] + data[last:-2] * 500 + data[-2:], "a")
    decoders.close()


def test_photos_of_somebody_and_their_kin_share_processes(tmp_path: Path) -> None:
    photo = PHOTOS.decode(picture("red"), "a", 20, key="key")
    assert (photo.name, photo.key, photo.size) == ("a", "key", (60, 40))
    assert PHOTOS.decode(picture("red"), "a", 20).key == EncodedImage(picture("red"), "a").key


def test_no_more_processes_run_than_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    start_instead(f"echo + >> {log}; sleep 0.05; echo - >> {log}; exit 1", tmp_path, monkeypatch)
    decoders = Decoders(seconds=20, most=2)

    def decode(_: int) -> None:
        with pytest.raises(ImageError):
            decoders.decode(picture("red"), "a")

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(decode, range(12)))
    running = list(accumulate(1 if line == "+" else -1 for line in log.read_text().split()))
    assert max(running) == 2
    assert running[-1] == 0


def test_a_process_that_fails_leaves_room_for_another(tmp_path: Path, monkeypatch) -> None:
    decoders = Decoders(seconds=20, most=1)
    with monkeypatch.context() as patch:
        start_instead("exit 1", tmp_path, patch)
        for _ in range(2):
            with pytest.raises(ImageError, match="cannot be decoded"):
                decoders.decode(picture("red"), "a")
    assert decoders.decode(picture("red"), "a").size == (60, 40)
    decoders.close()


TAKEN_OVER = {
    "cannot be decoded": "kill -SEGV $$",
    "takes longer than 20 s": "kill -XCPU $$",
    "the system killed": "kill -KILL $$",
}


@pytest.mark.parametrize(("words", "end"), TAKEN_OVER.items())
def test_a_failure_says_how_its_process_ended(tmp_path: Path, monkeypatch, words: str, end: str) -> None:
    """One that the system ended may have been another's fault, so that its image is tried again."""
    start_instead(end, tmp_path, monkeypatch)
    with pytest.raises(ImageError, match=words) as raised:
        Decoders(seconds=20).decode(picture("red"), "a")
    assert isinstance(raised.value, UnavailableImageError) is (words == "the system killed")


def test_one_that_the_system_ended_is_replaced(decoders: Decoders) -> None:
    decoders.decode(picture("red"), "a")
    os.kill(decoders._idle[0].pid, signal.SIGKILL)
    decoders._idle[0].wait()
    assert decoders.decode(picture("red"), "a")


def test_closing_ends_all(decoders: Decoders) -> None:
    decoders.decode(picture("red"), "a")
    [decoder] = decoders._idle
    decoders.close()
    assert decoder.poll() is not None
    at_work = threading.Thread(target=decoders.decode, args=(picture("red"), "a"))
    at_work.start()
    at_work.join()
    assert not decoders._idle


def test_a_photo_that_crashes_its_decoder_is_skipped_and_listed(tmp_path: Path, monkeypatch) -> None:
    photos = gallery(tmp_path / "photos", "red.png", "blue.png")
    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(photos)
        monkeypatch.setattr("seesay.data.decoders.PHOTOS", Decoders(seconds=20))
        start_instead("kill -SEGV $$", tmp_path, monkeypatch)
        gallery(photos, "green.png")
        report = index.update_images(photos)
        assert (report.unchanged, report.skipped) == (2, [("green.png", "cannot be decoded.")])


HUGE = '{"shape": [1000000, 1000000], "size": [1, 1], "taken": ""}'


@pytest.mark.parametrize(
    "answer",
    [
        f"echo '{HUGE}'; cat /dev/zero",
        "cat /dev/zero",  # a line that does not end
        "echo no JSON",
        "echo '" + "[" * 4000 + "'",
        """echo '{"shape": [2, 2], "size": [2, 2], "taken": ""}'; echo short""",
        """echo '{"shape": [-2, -2], "size": [2, 2], "taken": ""}'; cat /dev/zero""",
        """echo '{"shape": [1e999, 2], "size": [2, 2], "taken": ""}'""",
        "exit 1",
    ],
)
def test_a_decoder_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    start_instead(answer, tmp_path, monkeypatch)
    decoders = Decoders(seconds=20)
    with pytest.raises(ImageError, match=r"^a: cannot be decoded"):
        decoders.decode(picture("red"), "a")
    assert not decoders._idle


def test_decoding_runs_no_script_again(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from seesay.data.decoders import Decoders\n"
        "print('once')\n"
        "decoders = Decoders(20)\n"
        f"print(decoders.decode(open({str(tmp_path / 'red.png')!r}, 'rb').read(), 'red.png').size)\n"
        "decoders.close()\n"
    )
    (tmp_path / "red.png").write_bytes(picture("red"))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert done.stdout == "once\n(60, 40)\n"
