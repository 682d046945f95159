"""A real browser shows the pixels that seesay decodes, however the colours of a file are described."""

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import ExifTags, Image, PngImagePlugin

from benchmarks.colours import cases, encoded, inks_in_srgb, picture, rgb_profiles, shown
from seesay.data.images import decode
from seesay.search import Index
from tests.search.colours import Colours
from tests.web.browser import Watched, needs_chromium, sync_api
from tests.web.conftest import served

pytestmark = needs_chromium
FILES = {f"{name}.{format.lower()}": data for name, format, data in cases()}
PRESS = "CMYK, profile of a press.jpeg"


def difference(a: np.ndarray, b: np.ndarray) -> float:
    assert a.shape == b.shape
    return float(np.abs(a.astype(float) - b).mean())


@pytest.fixture(scope="module")
def blank(browser) -> Iterator:
    page = browser.new_page()
    yield page
    page.close()


@pytest.mark.parametrize("name", sorted(FILES.keys() - {PRESS}))
def test_the_browser_shows_the_pixels_that_are_decoded(blank, name: str) -> None:
    assert difference(shown(blank, FILES[name]), decode(FILES[name], name)) < 0.5


@pytest.mark.parametrize("primaries", [2, 4, 5, 6, 7, 8, 10, 11, 22, 50])
@pytest.mark.parametrize("transfer", [1, 2, 4, 7, 8, 9, 13, 17, 200])
def test_a_png_that_states_its_colours_by_numbers_is_shown_alike(
    blank, primaries: int, transfer: int
) -> None:
    info = PngImagePlugin.PngInfo()
    info.add(b"cICP", bytes([primaries, transfer, 0, 1]))
    data = encoded(picture(), "PNG", pnginfo=info, icc_profile=rgb_profiles()["profile of Display P3"])
    assert difference(shown(blank, data), decode(data, "a")) < 0.5


def test_the_inks_of_a_press_are_converted_by_its_profile_and_not_as_chromium_does(blank) -> None:
    inks = np.asarray(Image.open(io.BytesIO(FILES[PRESS]))) / 255
    decoded = decode(FILES[PRESS], PRESS)
    assert difference(inks_in_srgb(inks), decoded) < 1
    assert difference(inks_in_srgb(inks), shown(blank, FILES[PRESS])) > 4


def test_the_page_shows_the_pixels_that_are_decoded(browser, blank, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    for name, data in FILES.items():
        (tmp_path / "photos" / name.replace(":", "")).write_bytes(data)
    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(tmp_path / "photos")
    differences = {}
    for address in served(tmp_path / "index"):
        images = browser.new_context(base_url=address).request
        for image in images.get("/api/v1/images?limit=200").json()["results"]:
            view = images.get(f"/api/v1/images/{image['id']}/view").body()
            data = (tmp_path / "photos" / image["path"]).read_bytes()
            differences[image["path"]] = difference(shown(blank, view), decode(data, "a"))
    assert len(differences) == len(FILES)
    # The JPEGs of the page halve the resolution of colour, which shows at the edges of a palette's areas.
    most = {name: 5 if "palette" in name else 2 for name in differences}
    assert {name: each for name, each in differences.items() if each > most[name]} == {}


@pytest.mark.parametrize("how", ["exif", "xmp"])
def test_a_chosen_file_is_shown_as_it_was_decoded(browser, plain_address: str, how: str) -> None:
    """Chromium turns no WebP, and nothing by XMP."""
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    xmp = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><a tiff:Orientation="6"/></x:xmpmeta>'
    data = encoded(picture(), "WEBP", **({"exif": exif} if how == "exif" else {"xmp": xmp}))
    watched = Watched(browser, plain_address)
    watched.page.goto("/")
    file = {"name": "turned.webp", "mimeType": "image/webp", "buffer": data}
    watched.page.locator("#file").set_input_files([file])
    given = watched.page.locator("#given-image")
    sync_api.expect(given).to_have_js_property("naturalWidth", 64)
    assert given.evaluate("image => image.naturalHeight") == 96
    watched.context.close()
