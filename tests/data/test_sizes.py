"""Sizes from headers against whole decoding."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image

from seesay.data.pixels import decode
from seesay.data.sizes import source_size, upright_size
from seesay.data.sources import FileSource
from seesay.errors import ImageError


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF"])
@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
def test_size_is_that_of_the_decoded_image(kind: str, orientation: int, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    out = io.BytesIO()
    Image.new("RGB", (40, 30)).save(out, kind, exif=exif)
    height, width = decode(out.getvalue(), "x").shape[:2]
    assert upright_size(out.getvalue(), "x") == (width, height)
    path = tmp_path / "image"
    path.write_bytes(out.getvalue())
    assert source_size(FileSource(path), "x") == (width, height)


def test_a_header_beyond_the_first_bytes_is_read_whole(tmp_path: Path) -> None:
    image = Image.new("RGB", (40, 30))
    out = io.BytesIO()
    image.save(out, "JPEG", icc_profile=bytes(200_000))
    path = tmp_path / "large.jpg"
    path.write_bytes(out.getvalue())
    assert source_size(FileSource(path), "large.jpg") == (40, 30)


def test_no_image_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "text.jpg"
    path.write_text("no image")
    with pytest.raises(ImageError):
        source_size(FileSource(path), "text.jpg")
