"""Text that was read in pictures, on the page, in a real, headless Chromium."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from seesay.data.images import content_key
from seesay.search import Index
from tests.search.colours import Colours, gallery
from tests.web.browser import Watched, needs_chromium, served, sync_api
from tests.web.test_page_grounding import shown_boxes

pytestmark = [*needs_chromium, pytest.mark.slow]


@pytest.fixture
def address(tmp_path: Path):
    photos = gallery(tmp_path / "photos", "red.png", "blue.png")
    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(photos)
        with index.store.write() as writer:
            lines = [["Red invoice 12", 0.25, 0.5, 0.75, 0.625]]
            key = content_key((photos / "red.png").read_bytes())
            writer.put_text(key, " red invoice 12 ", json.dumps(lines))
    yield from served(tmp_path / "index")


def test_the_page_offers_photos_in_which_the_query_was_read_and_marks_the_lines(
    browser, address: str
) -> None:
    watched = Watched(browser, address)
    page, expect = watched.page, sync_api.expect
    page.goto("/?q=blue")
    expect(page.locator(".tile")).to_have_count(2)
    expect(page.get_by_text("this text was read")).to_have_count(0)
    page.goto("/?q=red")
    page.get_by_role("link", name="Show photos in which this text was read").click()
    expect(page.locator(".tile")).to_have_count(1)
    page.locator('.tile a[title="red.png"]').click()
    expect(page.locator(".box")).to_have_count(0)
    page.get_by_role("button", name="Details").click()
    expect(page.locator("#details")).to_contain_text("Text read in the pictureRed invoice 12")
    assert shown_boxes(page) == [pytest.approx([0.25, 0.5, 0.75, 0.625], abs=0.02)]
    page.keyboard.press("i")
    expect(page.locator(".box")).to_have_count(0)
    assert (watched.errors, watched.foreign) == ([], [])
    watched.context.close()
