"""When a photo was taken: by its camera, else by a date in its file's name, else by its file."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from PIL import ExifTags, Image

from seesay.search import Index
from seesay.search.photo import time_in_name
from tests.search.colours import Colours, picture
from tests.search.stores import STORES, place

CHANGED = 1_500_000_000  # 2017-07-14T02:40:00


@pytest.mark.parametrize(
    ("name", "time"),
    [
        ("Screenshot_20240812-101207.png", "2024-08-12T10:12:07"),
        ("Screenshot 2024-08-12 at 10.12.07.png", "2024-08-12T10:12:07"),
        ("IMG-20190321-WA0042.jpg", "2019-03-21T00:00:00"),
        ("PXL_20210704_123456789.MP.jpg", "2021-07-04T12:34:56"),
        ("2019-07-04 beach.jpg", "2019-07-04T00:00:00"),
        ("20190704123456.jpg", "2019-07-04T12:34:56"),
        ("WhatsApp Image 2019-03-21 at 14.05.33.jpeg", "2019-03-21T14:05:33"),
        ("IMG_20190704_253000.jpg", "2019-07-04T00:00:00"),
    ],
)
def test_dates_are_read_from_names_as_devices_write_them(name: str, time: str) -> None:
    assert time_in_name(f"2001-01-01/{name}") == time


@pytest.mark.parametrize(
    "name",
    [
        "04-07-19.jpg",  # two digits of a year
        "04.07.2019.jpg",  # the fourth of July, or the seventh of April
        "IMG_2021.jpg",
        "1563456789123.jpg",  # milliseconds
        "20191301.jpg",
        "20190230.jpg",
        "2019-0704.jpg",
        "120190704.jpg",
        "201907041.jpg",
        "2019/07/beach.jpg",  # folders only filter
        "2019-07-04/beach.jpg",
    ],
)
def test_what_may_be_another_day_or_no_date_is_none(name: str) -> None:
    assert time_in_name(name) == ""


def with_exif(colour: str) -> bytes:
    exif = Image.Exif()
    exif.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.DateTimeOriginal] = "2011:11:11 11:11:11"
    out = io.BytesIO()
    Image.open(io.BytesIO(picture(colour))).save(out, "JPEG", exif=exif)
    return out.getvalue()


@pytest.mark.parametrize("store", STORES)
def test_an_image_has_the_best_date_and_says_whose_it_is(tmp_path: Path, store: str) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    (photos / "IMG-20190321-WA0042.jpg").write_bytes(with_exif("red"))
    (photos / "Screenshot_20240812-101207.png").write_bytes(picture("blue"))
    (photos / "Grüße.png").write_bytes(picture("green"))
    os.utime(photos / "Grüße.png", (CHANGED, CHANGED))
    with Index.create(place(store, tmp_path), Colours()) as index:
        index.update_images(photos)
        assert {item.path: (item.time, item.dated_by) for item in index.store.newest(9)} == {
            "Screenshot_20240812-101207.png": ("2024-08-12T10:12:07", "name"),
            "Grüße.png": ("2017-07-14T02:40:00", "file"),
            "IMG-20190321-WA0042.jpg": ("2011-11-11T11:11:11", "camera"),
        }
        assert [hit.path for hit in index.search("green", where="taken:2024-08")] == [
            "Screenshot_20240812-101207.png"
        ]
        assert [hit.path for hit in index.search("red", where="name:grusse")] == ["Grüße.png"]
        assert len(index.search("red", where="-name:GRÜSSE")) == 2
        (photos / "Grüße.png").rename(photos / "2018-02-03.png")
        assert index.update_images(photos).moved == 1
        (moved,) = (item for item in index.store.newest(9) if item.dated_by == "name" and item.time < "2024")
        assert (moved.path, moved.time) == ("2018-02-03.png", "2018-02-03T00:00:00")
