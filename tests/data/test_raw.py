"""Raw photos, where the package that reads them is installed. The files are made here; LibRaw reads them."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from seesay.data.decoders import PHOTOS
from seesay.data.formats import CAN_READ_RAW, IMAGE_SUFFIXES
from seesay.data.images import EncodedImage, decode, file_format
from seesay.data.walk import unread_lines
from seesay.errors import ImageError, install_command
from seesay.paths import open_file
from seesay.search import Index
from tests.data.dng import dng, stripes
from tests.search.colours import Colours

RED, BLUE, GREEN = (220, 20, 20), (20, 20, 220), (20, 200, 20)

needs_rawpy = pytest.mark.skipif(not CAN_READ_RAW, reason="needs pip install 'seesay[raw]'")


def is_colour(pixel: np.ndarray, colour: tuple[int, int, int]) -> bool:
    return int(np.argmax(pixel)) == int(np.argmax(colour))


@needs_rawpy
def test_the_preview_of_the_camera_counts() -> None:
    data = dng(stripes(900, 600, GREEN, GREEN), preview=stripes(720, 480, RED, BLUE))
    pixels = decode(data, "x.dng")
    assert pixels.shape == (480, 720, 3)
    assert is_colour(pixels[10, 10], RED)
    assert is_colour(pixels[10, -10], BLUE)
    assert EncodedImage(data, "x.dng").size == (720, 480)
    assert EncodedImage(data, "x.dng").format == "JPEG"
    assert min(decode(data, "x.dng", min_side=100).shape[:2]) < 480


@needs_rawpy
@pytest.mark.parametrize("preview", [None, stripes(160, 120, GREEN, GREEN)], ids=["none", "an icon"])
def test_without_a_preview_the_sensor_counts(preview) -> None:
    data = dng(stripes(900, 600, RED, BLUE), preview)
    pixels = decode(data, "x.dng")
    assert pixels.shape == (300, 450, 3)
    assert is_colour(pixels[10, 10], RED)
    assert is_colour(pixels[10, -10], BLUE)
    assert EncodedImage(data, "x.dng").size == (450, 300)


@needs_rawpy
@pytest.mark.parametrize("preview", [None, stripes(720, 480, RED, BLUE)], ids=["sensor", "preview"])
@pytest.mark.parametrize(("orientation", "red_at"), [(3, (-10, -10)), (6, (10, -10)), (8, (-10, 10))])
def test_raw_photos_are_upright(preview, orientation: int, red_at: tuple[int, int]) -> None:
    data = dng(stripes(900, 600, RED, BLUE), preview, orientation)
    pixels = decode(data, "x.dng")
    assert (pixels.shape[0] > pixels.shape[1]) == (orientation != 3)
    assert EncodedImage(data, "x.dng").size == (pixels.shape[1], pixels.shape[0])
    assert is_colour(pixels[red_at], RED)
    assert is_colour(pixels[-red_at[0], -red_at[1]], BLUE)


@needs_rawpy
def test_raw_photos_are_searched_beside_others(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    (photos / "a.DNG").write_bytes(dng(stripes(900, 600, RED, RED), stripes(720, 480, GREEN, GREEN)))
    (photos / "b.nef").write_bytes(dng(stripes(900, 600, RED, RED)))
    (photos / "c.dng").write_bytes(b"II*\0 not at all")
    stripes(90, 60, BLUE, BLUE).save(photos / "d.tif")
    with Index.create(tmp_path / "index", Colours()) as index:
        report = index.update_images(photos)
        assert report.added == 3
        assert report.not_read == {}
        assert [path for path, _ in report.skipped] == ["c.dng"]
        assert index.search("green", k=1)[0].path == "a.DNG"
        assert index.search("blue", k=1)[0].path == "d.tif"
        assert len(list((tmp_path / "index" / "thumbnails").rglob("*.jpg"))) == 3
    assert [file_format(open_file(file)) for file in map(photos.joinpath, ("a.DNG", "b.nef", "d.tif"))] == [
        "RAW",
        "RAW",
        "TIFF",
    ]
    assert PHOTOS.facts((photos / "a.DNG").read_bytes(), "a.DNG")["camera"] == "Seesay Test camera"


@needs_rawpy
@pytest.mark.parametrize("head", [b"FUJIFILMCCD-RAW", b"\0\0\0\x18ftypcrx "], ids=["RAF", "CR3"])
def test_a_raw_photo_that_is_no_tiff_is_opened_in_another_process(
    head: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import rawpy

    def opened(*_: object) -> None:
        raise AssertionError("opened in this process")

    monkeypatch.setattr(rawpy, "imread", opened)
    (tmp_path / "a.raf").write_bytes(head + bytes(3000))
    assert file_format(open_file(tmp_path / "a.raf")) == "RAW"
    with pytest.raises(ImageError, match=r"a\.raf: a damaged raw photo"):
        PHOTOS.facts(head + bytes(3000), "a.raf")


def test_facts_come_from_another_process(photo_with_facts: bytes) -> None:
    assert PHOTOS.facts(photo_with_facts, "a.jpg") == {"camera": "Nine", "iso": "400"}


@pytest.fixture
def photo_with_facts() -> bytes:
    exif, out = Image.Exif(), io.BytesIO()
    exif[0x0110] = "Nine"
    exif.get_ifd(0x8769)[0x8827] = 400
    Image.new("RGB", (60, 40)).save(out, "JPEG", exif=exif)
    return out.getvalue()


@needs_rawpy
def test_what_libraw_cannot_read_is_an_image_error() -> None:
    whole = dng(stripes(900, 600, RED, BLUE))
    for damaged in (b"FUJIFILMCCD-RAW" + bytes(3000), whole[:-200], whole[:5000] + bytes(10) + whole[-300:]):
        with pytest.raises(ImageError, match=r"x\.dng"):
            decode(damaged, "x.dng")


@needs_rawpy
def test_a_raw_photo_of_too_many_pixels_is_refused() -> None:
    with pytest.raises(ImageError, match="more than 1000 pixels"):
        decode(dng(stripes(900, 600, RED, BLUE)), "x.dng", max_pixels=1000)


@pytest.mark.skipif(CAN_READ_RAW, reason="is installed")
def test_raw_photos_without_their_package_say_what_to_install() -> None:
    with pytest.raises(ImageError, match=r"seesay\[raw\]"):
        decode(dng(stripes(90, 60, RED, BLUE)), "x.dng")
    assert ".dng" not in IMAGE_SUFFIXES


def test_raw_photos_that_are_not_read_are_counted() -> None:
    assert unread_lines({"raw": 2}) == [f"2 raw files: {install_command('raw')} and update the index"]
