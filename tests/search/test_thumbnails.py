import io
from pathlib import Path

import pytest
from PIL import Image

from seesay.errors import ImageError
from seesay.search.thumbnails import HEIGHT, Thumbnails, make
from seesay.search.update import upright_size
from tests.search.colours import picture


def test_large_images_shrink_and_small_ones_stay() -> None:
    assert Image.open(io.BytesIO(make(picture("red", size=(2000, 1000)), "x"))).size == (2 * HEIGHT, HEIGHT)
    assert Image.open(io.BytesIO(make(picture("red", size=(9000, 500)), "x"))).width == 4 * HEIGHT
    assert Image.open(io.BytesIO(make(picture("red", size=(60, 40)), "x"))).size == (60, 40)


def test_made_once_and_dropped(tmp_path: Path) -> None:
    source = tmp_path / "red.png"
    source.write_bytes(picture("red"))
    thumbnails = Thumbnails(tmp_path / "thumbnails")
    made = thumbnails.get("abcd", source)
    source.unlink()
    assert thumbnails.get("abcd", source) == made
    thumbnails.drop(["abcd", "never there"])
    with pytest.raises(OSError):
        thumbnails.get("abcd", source)
    assert not [file for file in (tmp_path / "thumbnails").rglob("*") if file.is_file()]


def test_no_image(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"nothing")
    with pytest.raises(ImageError):
        Thumbnails(tmp_path / "thumbnails").get("abcd", tmp_path / "x")


@pytest.mark.parametrize("format", ["JPEG", "TIFF", "PNG", "WEBP"])
def test_sizes_are_of_the_upright_image(format: str) -> None:
    turned = Image.Exif()
    turned[0x0112] = 6
    out = io.BytesIO()
    Image.new("RGB", (30, 20)).save(out, format, exif=turned)
    assert upright_size(out.getvalue(), "x") == (20, 30)
    assert Image.open(io.BytesIO(make(out.getvalue(), "x"))).size == (20, 30)
