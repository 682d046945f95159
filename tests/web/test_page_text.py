"""Text that was read in pictures, on the page, in a real, headless Chromium."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from seesay.data.images import content_key
from seesay.search import Index
from tests.search.colours import Colours, gallery
from tests.web.browser import Watched, needs_chromium, sync_api
from tests.web.conftest import served
from tests.web.test_page_grounding import shown_boxes

pytestmark = [*needs_chromium, pytest.mark.slow]


PHONE = {"width": 390, "height": 844}


@pytest.fixture
def address(tmp_path: Path):
    names = ["red.png", "blue.png", "green.png", *(f"copies/{i}/black.png" for i in range(10))]
    photos = gallery(tmp_path / "photos", *names)
    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(photos)
        with index.store.write() as writer:
            lines = [["Red invoice 12", 0.25, 0.5, 0.75, 0.625]]
            key = content_key((photos / "red.png").read_bytes())
            writer.put_text(key, " red invoice 12 ", json.dumps(lines))
            writer.put_text(content_key((photos / "copies/0/black.png").read_bytes()), " receipt ", "[]")
            green = content_key((photos / "green.png").read_bytes())
            writer.put_text(green, " monday invoice red ", "[]")
    yield from served(tmp_path / "index")


@pytest.mark.parametrize("size", [PHONE, {"width": 844, "height": 390}, {"width": 1280, "height": 800}])
def test_photos_in_which_most_of_the_query_was_read_come_first_and_details_mark_the_lines(
    browser, address: str, size: dict[str, int]
) -> None:
    watched = Watched(browser, address, viewport=size)
    page, expect = watched.page, sync_api.expect
    page.goto("/?q=blue")
    expect(page.locator(".tile")).to_have_count(13)
    expect(page.locator(".heading", has_text="Text read")).to_have_count(0)
    page.goto("/?q=red+invoice+of+Monday")
    expect(page.locator(".heading").nth(0)).to_have_text("Text read in pictures: 2 to 3 of 3 words")
    expect(page.locator(".heading").nth(1)).to_contain_text("What pictures show")
    expect(page.locator('.tile a[title="red.png"]')).to_have_count(1)
    expect(page.locator(".tile a").first).to_have_attribute("title", "green.png")  # with all three
    page.locator('.tile a[title="red.png"]').click()
    expect(page.locator(".box")).to_have_count(0)
    page.get_by_role("button", name="Details").click()
    expect(page.locator("#details")).to_contain_text("Text readRed invoice 12")
    assert shown_boxes(page) == [pytest.approx([0.25, 0.5, 0.75, 0.625], abs=0.02)]
    mark, details = (page.locator(each).bounding_box() for each in (".box", "#details"))
    assert mark["x"] + mark["width"] <= details["x"] or mark["y"] + mark["height"] <= details["y"]
    page.keyboard.press("i")
    expect(page.locator(".box")).to_have_count(0)
    assert (watched.errors, watched.foreign) == ([], [])
    watched.context.close()


def test_a_link_shows_all_pictures_in_which_the_text_was_read(browser, address: str) -> None:
    watched = Watched(browser, address)
    page, expect = watched.page, sync_api.expect
    page.goto("/?q=receipt")  # the ten black images are one content
    expect(page.locator(".tile")).to_have_count(13)
    expect(page.locator(".heading").first).to_have_text("Text read in pictures: 1 of 1 word")
    page.get_by_role("link", name="Show all pictures in which this text was read").click()
    expect(page.locator(".tile")).to_have_count(10)
    page.get_by_role("button", name="Remove Text read in pictures").click()
    expect(page.locator(".tile")).to_have_count(13)
    assert (watched.errors, watched.foreign) == ([], [])
    watched.context.close()
