"""The page in a real, headless Chromium."""

import base64
import re
from pathlib import Path

import pytest

from seesay.search import Index
from tests.search.colours import Colours, picture
from tests.web.browser import Watched, needs_chromium, served, sync_api

pytestmark = needs_chromium


# The page's policy forbids the polling of wait_for_function.
DECODED = "image => image.decode().then(() => image.naturalWidth)"


def test_start_search_and_gallery(page) -> None:
    page.goto("/")
    sync_api.expect(page.locator("#about")).to_contain_text("18 images")
    sync_api.expect(page.locator("#sentence")).to_be_focused()
    page.keyboard.type("something red")
    page.keyboard.press("Enter")
    tiles = page.locator(".tile")
    sync_api.expect(tiles).to_have_count(18)
    sync_api.expect(tiles.first).to_contain_text("1.00")
    assert "red" in (tiles.first.get_attribute("aria-label") or "")
    sync_api.expect(page.locator("#status")).to_contain_text("18 images best for “something red”")
    assert page.url.endswith("/?q=something+red")
    assert tiles.first.locator("img").evaluate(DECODED) > 0


def test_rows_fill_the_width_and_keep_the_shapes(page) -> None:
    page.goto("/?q=blue")
    sync_api.expect(page.locator(".tile")).to_have_count(18)
    # Below the line, which begins a new row.
    boxes = page.locator(".tile.hardly").evaluate_all(
        """tiles => tiles.map(tile => tile.getBoundingClientRect())
            .map(box => [box.left, box.top, box.width, box.height])"""
    )
    width = page.locator("#gallery").bounding_box()["width"]
    rows: dict[float, list[list[float]]] = {}
    for box in boxes:
        rows.setdefault(round(box[1]), []).append(box)
    *full, last = rows.values()
    assert len(full) >= 2
    for row in full:
        assert len({round(box[3], 1) for box in row}) == 1
        assert sum(box[2] for box in row) + 8 * (len(row) - 1) == pytest.approx(width, abs=1.5)
    assert sum(box[2] for box in last) <= width
    shapes = {round(box[2] / box[3], 1) for box in boxes}
    assert shapes >= {1.5, 0.7, 2.8, 1.0}


def test_large_image_opens_goes_on_and_closes_with_escape(page) -> None:
    page.goto("/?q=green")
    page.locator(".tile").first.click()
    viewer = page.locator("#viewer")
    sync_api.expect(viewer).to_be_visible()
    assert viewer.locator("img").evaluate(DECODED) >= 180
    first = page.locator("#viewer-path").inner_text()
    page.keyboard.press("ArrowRight")
    sync_api.expect(page.locator("#viewer-path")).not_to_have_text(first)
    page.keyboard.press("ArrowLeft")
    sync_api.expect(page.locator("#viewer-path")).to_have_text(first)
    sync_api.expect(page.get_by_label("Previous image")).to_be_disabled()
    page.keyboard.press("Escape")
    sync_api.expect(viewer).to_be_hidden()
    sync_api.expect(page.locator(".tile").first).to_be_focused()


def test_similar_images_from_the_viewer(page) -> None:
    page.goto("/?q=yellow")
    page.locator(".tile").first.click()
    page.get_by_role("button", name="Find similar").click()
    sync_api.expect(page.locator("#status")).to_contain_text("most like yours")
    sync_api.expect(page.locator("#given-name")).to_contain_text("yellow")
    assert "?q" not in page.url


DROP = """async ([name, data]) => {
  const bytes = Uint8Array.from(atob(data), c => c.charCodeAt(0));
  const transfer = new DataTransfer();
  transfer.items.add(new File([bytes], name, { type: "image/png" }));
  const at = { dataTransfer: transfer, bubbles: true, cancelable: true };
  document.body.dispatchEvent(new DragEvent("dragenter", at));
  const shown = getComputedStyle(document.getElementById("drop")).display;
  document.body.dispatchEvent(new DragEvent("drop", at));
  return shown;
}"""


def test_dropping_an_image_finds_similar_ones_and_its_sentences(page) -> None:
    page.goto("/?q=green")
    sync_api.expect(page.locator(".tile")).to_have_count(18)
    data = base64.b64encode(picture("blue")).decode()
    assert page.evaluate(DROP, ["mine.png", data]) == "grid"
    sync_api.expect(page.locator("#given-name")).to_have_text("mine.png")
    sync_api.expect(page.locator("#sentences li").first).to_contain_text("something blue")
    sync_api.expect(page.locator(".tile").first).to_have_attribute("title", re.compile("^blue"))
    sync_api.expect(page.locator("#drop")).to_be_hidden()
    page.locator("#sentences a").first.click()
    sync_api.expect(page.locator("#sentence")).to_have_value("something blue")
    sync_api.expect(page.locator("#given")).to_be_hidden()


def test_choosing_a_file(page, tmp_path: Path) -> None:
    (tmp_path / "mine.png").write_bytes(picture("black"))
    page.goto("/")
    page.locator("#file").set_input_files(tmp_path / "mine.png")
    sync_api.expect(page.locator(".tile").first).to_have_attribute("title", re.compile("^black"))


def test_a_file_that_is_no_image_says_so(watched: Watched, tmp_path: Path) -> None:
    (tmp_path / "notes.png").write_text("no image")
    watched.page.goto("/")
    watched.page.locator("#file").set_input_files(tmp_path / "notes.png")
    message = watched.page.locator("#message")
    sync_api.expect(message).to_contain_text("That did not work")
    assert all("422" in error for error in watched.errors)


def test_parts_of_a_query_are_chips_that_can_be_taken_away(page) -> None:
    page.goto("/?q=red+-+blue")
    chips = page.locator("#chips button")
    sync_api.expect(chips).to_have_text(["+ red ×", "- blue ×"])
    chips.nth(1).click()
    sync_api.expect(page.locator("#sentence")).to_have_value("red")
    sync_api.expect(chips).to_have_count(0)


def test_a_filter_is_in_the_address_and_can_be_taken_away(page) -> None:
    page.goto("/?q=red")
    sync_api.expect(page.locator(".tile")).to_have_count(18)
    page.locator("#where").fill("width:1600 orientation:landscape")
    page.locator("#where").press("Enter")
    sync_api.expect(page.locator(".tile")).to_have_count(1)
    assert "where=width%3A1600+orientation%3Alandscape" in page.url
    page.reload()
    sync_api.expect(page.locator(".tile")).to_have_count(1)
    page.locator("#chips button").first.click()
    sync_api.expect(page.locator("#chips button")).to_have_text(["orientation:landscape ×"])


def test_an_image_and_a_sentence(page, tmp_path: Path) -> None:
    (tmp_path / "mine.png").write_bytes(picture("black"))
    page.goto("/")
    page.locator("#file").set_input_files(tmp_path / "mine.png")
    sync_api.expect(page.locator(".tile")).to_have_count(18)
    page.locator("#sentence").fill("3*red")
    page.locator("#sentence").press("Enter")
    sync_api.expect(page.locator("#status")).to_contain_text("best for your image and “3*red”")
    sync_api.expect(page.locator("#given")).to_be_visible()
    sync_api.expect(page.locator(".tile").first).to_have_attribute("title", re.compile("^red"))


def test_keyboard(page) -> None:
    page.goto("/?q=red")
    tiles = page.locator(".tile")
    sync_api.expect(tiles).to_have_count(18)
    page.keyboard.press("/")
    sync_api.expect(page.locator("#sentence")).to_be_focused()
    sync_api.expect(page.locator("#sentence")).to_have_value("red")
    page.keyboard.press("ArrowDown")
    sync_api.expect(tiles.nth(0)).to_be_focused()
    page.keyboard.press("ArrowRight")
    sync_api.expect(tiles.nth(1)).to_be_focused()
    top = tiles.nth(1).bounding_box()["y"]
    page.keyboard.press("ArrowDown")
    below = page.locator(".tile:focus")
    assert below.bounding_box()["y"] > top
    page.keyboard.press("ArrowUp")
    assert page.locator(".tile:focus").bounding_box()["y"] == top
    page.keyboard.press("Enter")
    sync_api.expect(page.locator("#viewer")).to_be_visible()


def test_back_and_forward(page) -> None:
    page.goto("/")
    page.locator("#examples a").first.click()
    sync_api.expect(page.locator(".tile")).to_have_count(18)
    page.go_back()
    sync_api.expect(page.locator("#examples")).to_be_visible()
    sync_api.expect(page.locator(".tile")).to_have_count(0)
    page.go_forward()
    sync_api.expect(page.locator(".tile")).to_have_count(18)


def test_a_sentence_is_text_and_never_markup(page) -> None:
    page.goto("/?q=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")
    sync_api.expect(page.locator("#status")).to_contain_text("<img src=x onerror=alert(1)>")


def test_a_server_that_is_gone_says_so_and_can_be_asked_again(watched: Watched) -> None:
    page = watched.page
    page.goto("/")
    page.route("**/api/v1/search**", lambda route: route.abort())
    page.locator("#sentence").fill("red")
    page.keyboard.press("Enter")
    sync_api.expect(page.locator("#message")).to_contain_text("cannot be reached")
    page.unroute("**/api/v1/search**")
    page.get_by_role("button", name="Try again").click()
    sync_api.expect(page.locator(".tile")).to_have_count(18)
    sync_api.expect(page.locator("#message")).to_be_hidden()


def test_an_empty_index_says_so(browser, tmp_path: Path) -> None:
    Index.create(tmp_path / "index", Colours()).close()
    for address in served(tmp_path / "index"):
        watched = Watched(browser, address)
        watched.page.goto("/?q=red")
        sync_api.expect(watched.page.locator("#message")).to_contain_text("no images")
        assert watched.errors == []
        watched.context.close()


@pytest.mark.parametrize("path", ["/", "/?q=red", "/docs"])
@pytest.mark.parametrize("width", [320, 390])
def test_a_phone_scrolls_only_downwards(browser, address: str, path: str, width: int) -> None:
    watched = Watched(browser, address, viewport={"width": width, "height": 780}, has_touch=True)
    watched.page.goto(path)
    if "q=" in path:
        sync_api.expect(watched.page.locator(".tile")).to_have_count(18)
    assert watched.page.evaluate("document.documentElement.scrollWidth") == width
    assert watched.errors == []
    watched.context.close()


def test_dark_and_light(browser, address: str) -> None:
    grounds = []
    for scheme in ("light", "dark"):
        watched = Watched(browser, address, color_scheme=scheme)
        watched.page.goto("/")
        colour = watched.page.evaluate("getComputedStyle(document.body).backgroundColor")
        grounds.append(sum(int(part) for part in colour[4:-1].split(",")))
        watched.context.close()
    assert grounds[0] > 700
    assert grounds[1] < 100


def test_what_hardly_fits_stands_dimmed_below_a_line(page) -> None:
    page.goto("/?q=blue")
    sync_api.expect(page.locator(".tile")).to_have_count(18)
    line = page.locator("#gallery .line")
    sync_api.expect(line).to_have_text("These hardly fit")
    order = page.locator("#gallery > *").evaluate_all("all => all.map(each => each.className)")
    at = order.index("line")
    assert set(order[:at]) == {"tile"}
    assert set(order[at + 1 :]) == {"tile hardly"}
    opacity = page.locator(".tile.hardly").last.evaluate("tile => Number(getComputedStyle(tile).opacity)")
    assert opacity < 0.6
    sync_api.expect(page.locator("#status")).not_to_contain_text("nothing fits")
    page.locator(".tile").first.focus()
    page.keyboard.press("End")
    sync_api.expect(page.locator(".tile").last).to_be_focused()
