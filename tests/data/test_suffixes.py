"""HEIC, and kinds of files that are not read."""

import io
from pathlib import Path

import numpy as np
import pillow_heif
import pytest
from PIL import Image

from seesay.data.formats import FORMATS, IMAGE_SUFFIXES, unread_kind
from seesay.data.images import EncodedImage, decode
from seesay.data.readers import read_corpus
from seesay.errors import ImageError
from seesay.search.folder_images import images_in


def heic() -> bytes:
    """A phone held upright: stored on its side, red on the left, which is to be the top."""
    pillow_heif.register_heif_opener()
    image = Image.new("RGB", (400, 200), (220, 20, 20))
    image.paste((20, 20, 220), (200, 0, 400, 200))
    exif, out = Image.Exif(), io.BytesIO()
    exif[274] = 6
    image.save(out, "HEIF", quality=90, exif=exif.tobytes())
    return out.getvalue()


def test_heic_is_decoded_upright() -> None:
    pixels = decode(heic(), "x.heic")
    assert pixels.shape == (400, 200, 3)
    assert np.abs(pixels[10, 10].astype(int) - (220, 20, 20)).max() < 10
    assert np.abs(pixels[-10, 10].astype(int) - (20, 20, 220)).max() < 10
    assert EncodedImage(heic(), "x.heic").size == (200, 400)
    assert EncodedImage(heic(), "x.heic").format == "HEIF"


@pytest.mark.parametrize("part", [30, 500, -400])
def test_damaged_heic_is_an_image_error(part: int) -> None:
    with pytest.raises(ImageError, match="damaged"):
        decode(heic()[:part], "x.heic")


def test_kinds_that_are_not_read() -> None:
    assert ".heic" in IMAGE_SUFFIXES
    assert unread_kind("A.Mov") == "video"
    assert {unread_kind(f"a{suffix}") for suffix in IMAGE_SUFFIXES} == {None}


def test_suffixes_follow_from_the_formats_that_are_read() -> None:
    Image.init()
    pillow_heif.register_heif_opener()
    known = {suffix for suffix, format in Image.registered_extensions().items() if format in FORMATS}
    assert known <= IMAGE_SUFFIXES
    assert unread_kind("a.tga") == unread_kind("a.ico") == "other image"


@pytest.mark.parametrize("format", FORMATS)
def test_an_image_without_a_suffix_is_known_by_its_first_bytes(tmp_path: Path, format: str) -> None:
    pillow_heif.register_heif_opener()
    Image.new("RGB", (32, 32)).save(tmp_path / "photo", format)
    for number, text in enumerate(("Do what you want.", "BM is a prefix.", "P1 goes first.\n", "(\0\0\0")):
        (tmp_path / f"text{number}").write_text(text)
    (tmp_path / "empty").touch()
    assert [image.name for image in read_corpus(tmp_path).images] == ["photo"]
    assert list(images_in(tmp_path).files) == ["photo"]
