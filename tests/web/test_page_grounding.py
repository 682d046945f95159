"""Phrases and boxes on the page, in a real, headless Chromium."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from seesay.grounding import Grounder
from seesay.runs.run import Run
from tests.web.browser import Watched, needs_chromium, sync_api

pytestmark = [*needs_chromium, pytest.mark.slow]

TEXT = "🐕 a red circle is above a blue square, zzyx"


def open_image(page, path: str) -> None:
    page.goto("/?q=red")
    page.locator(f'.tile a[title="{path}"]').click()
    sync_api.expect(page.locator("#viewer-path")).to_have_text(path)


def shown_boxes(page) -> list[list[float]]:
    """The boxes as shares of the picture as it is shown, x1 y1 x2 y2, by phrase."""
    return page.evaluate(
        """() => {
      const img = document.querySelector("#viewer img"), r = img.getBoundingClientRect();
      const s = Math.min(r.width / img.naturalWidth, r.height / img.naturalHeight);
      const [w, h] = [img.naturalWidth * s, img.naturalHeight * s];
      const [x, y] = [r.left + (r.width - w) / 2, r.top + (r.height - h) / 2];
      return [...document.querySelectorAll(".box")].sort((a, b) => a.dataset.phrase - b.dataset.phrase)
        .map(e => e.getBoundingClientRect())
        .map(b => [(b.left - x) / w, (b.top - y) / h, (b.right - x) / w, (b.bottom - y) / h]);
    }"""
    )


@pytest.mark.parametrize("path", ["large.png", "wide.png"])
@pytest.mark.parametrize("size", [(1280, 800), (390, 780)])
def test_boxes_lie_where_the_grounder_sees_them(
    page, page_index: Path, grounding_run: Path, path: str, size: tuple[int, int]
) -> None:
    open_image(page, path)
    page.locator("#point input").fill(TEXT)
    page.keyboard.press("Enter")
    sync_api.expect(page.locator(".box")).to_have_count(2)
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    run = Grounder(Run.load(str(grounding_run)))
    found = run.ground((page_index.parent / "photos" / path).read_bytes(), path, TEXT)
    for phrase, shown in zip(found.phrases, shown_boxes(page), strict=False):
        whole = [found.width, found.height] * 2
        expected = [value / side for value, side in zip(phrase.boxes[0].box, whole, strict=True)]
        assert shown == pytest.approx(expected, abs=0.01)
    assert page.evaluate("document.documentElement.scrollWidth") == size[0]


def test_phrases_are_coloured_and_light_up_with_their_boxes(page) -> None:
    open_image(page, "large.png")
    page.keyboard.press("/")
    page.keyboard.type(TEXT)
    page.keyboard.press("Enter")
    marks = page.locator("#pointed mark")
    sync_api.expect(marks).to_have_text(["a red circle", "a blue square", "zzyx"])
    sync_api.expect(page.locator("#pointed")).to_have_text(TEXT)
    sync_api.expect(marks.nth(2)).to_have_attribute("title", "contains no known words")
    colour = "e => getComputedStyle(e).borderBottomColor"
    for i in range(2):
        box = page.locator(f'.box[data-phrase="{i}"]')
        assert marks.nth(i).evaluate(colour) == box.evaluate(colour)
        marks.nth(i).hover()
        sync_api.expect(box).to_have_class("box lit")
        sync_api.expect(page.locator(f'.box[data-phrase="{1 - i}"]')).to_have_class("box dim")
    page.mouse.move(5, 5)
    sync_api.expect(page.locator(".box.dim")).to_have_count(0)


def test_the_query_is_at_hand_and_the_sentence_goes_on_to_the_next_image(page) -> None:
    open_image(page, "large.png")
    field = page.locator("#point input")
    sync_api.expect(field).to_have_value("red")
    sync_api.expect(page.locator(".box")).to_have_count(0)
    page.get_by_role("button", name="Show", exact=True).click()
    sync_api.expect(page.locator(".box")).to_have_count(1)
    field.focus()
    page.keyboard.press("ArrowLeft")  # within the field
    sync_api.expect(page.locator("#viewer-path")).to_have_text("large.png")
    other = page.get_by_label("Next image")
    (other if other.is_enabled() else page.get_by_label("Previous image")).click()
    sync_api.expect(page.locator("#viewer-path")).not_to_have_text("large.png")
    sync_api.expect(page.locator(".box")).to_have_count(1)
    page.keyboard.press("Escape")
    sync_api.expect(page.locator("#viewer")).to_be_hidden()
    sync_api.expect(page.locator(".box")).to_have_count(0)


def test_a_chosen_file_is_pointed_at(page, page_index: Path) -> None:
    page.goto("/")
    page.locator("#file").set_input_files(page_index.parent / "photos" / "large.png")
    page.get_by_role("button", name="Find things in this image").click()
    sync_api.expect(page.locator("#point input")).to_be_focused()
    sync_api.expect(page.get_by_role("button", name="Find similar")).to_be_hidden()
    page.keyboard.type("<b>a red circle</b>")
    page.keyboard.press("Enter")
    sync_api.expect(page.locator(".box")).not_to_have_count(0)
    sync_api.expect(page.locator("#pointed")).to_have_text("<b>a red circle</b>")


def test_a_file_of_more_than_20_mb_is_pointed_at(page, tmp_path: Path) -> None:
    data = np.random.default_rng(0).integers(0, 255, (2600, 2800, 3), np.uint8)
    Image.fromarray(data).save(tmp_path / "big.png", compress_level=0)
    page.goto("/")
    page.locator("#file").set_input_files(tmp_path / "big.png")
    page.get_by_role("button", name="Find things in this image").click(timeout=20_000)
    page.keyboard.type("a red circle")
    page.keyboard.press("Enter")
    sync_api.expect(page.locator(".box")).not_to_have_count(0, timeout=20_000)


def test_what_is_probably_not_there_is_named(page) -> None:
    def absent(route) -> None:
        answer = route.fetch().json()
        answer["phrases"][0]["fits"] = False  # only the included run says so: it judges the whole image
        route.fulfill(json=answer)

    page.route("**/ground?**", absent)
    open_image(page, "large.png")
    page.locator("#point input").fill("a piano")
    page.keyboard.press("Enter")
    sync_api.expect(page.locator("#pointed")).to_contain_text("“a piano” is probably not in this image")


def test_a_failure_is_told_in_the_viewer(page) -> None:
    open_image(page, "large.png")
    page.route("**/ground?**", lambda route: route.abort("aborted"))
    page.locator("#point input").fill("a red circle")
    page.get_by_role("button", name="Show", exact=True).click()
    sync_api.expect(page.locator("#pointed")).to_contain_text("can't be reached")


def test_without_a_grounding_run_nothing_is_offered(browser, plain_address: str) -> None:
    watched = Watched(browser, plain_address)
    open_image(watched.page, "large.png")
    sync_api.expect(watched.page.locator("#point")).to_be_hidden()
    watched.context.close()
    assert watched.errors == []
