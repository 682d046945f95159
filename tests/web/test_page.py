"""The page in a real, headless Chromium."""

import base64
import os
import re
import threading
import zipfile
from pathlib import Path

import numpy as np
import pillow_heif
import pytest
from PIL import ExifTags, Image, PngImagePlugin

from seesay.data.images import decode
from seesay.search import Index
from tests.search.colours import Colours, gallery, picture
from tests.web.browser import ELSEWHERE, Watched, needs_chromium, sync_api
from tests.web.conftest import served

pytestmark = needs_chromium
expect = sync_api.expect

# The page's policy forbids the polling of wait_for_function.
TOKEN = "a-token-of-many-letters"
DECODED = """async image => {
  for (let left = 3; ; left--) {  // the page may set its source again, which ends a decoding
    try { await image.decode(); return image.naturalWidth; } catch (error) { if (!left) throw error; }
  }
}"""
DROP = """async ([name, data, type]) => {
  const bytes = Uint8Array.from(atob(data), c => c.charCodeAt(0));
  const transfer = new DataTransfer();
  transfer.items.add(new File([bytes], name, { type }));
  const at = { dataTransfer: transfer, bubbles: true, cancelable: true };
  document.body.dispatchEvent(new DragEvent("dragenter", at));
  const shown = getComputedStyle(document.getElementById("drop")).display;
  document.body.dispatchEvent(new DragEvent("drop", at));
  return shown;
}"""


LARGE = """() => {
  const transfer = new DataTransfer();
  transfer.items.add(new File([new Uint8Array(21 * 2 ** 20)], "raw.tiff", { type: "image/tiff" }));
  const at = { dataTransfer: transfer, bubbles: true, cancelable: true };
  document.body.dispatchEvent(new DragEvent("drop", at));
}"""


SMALL = """areas => areas.flatMap(area => [...area.querySelectorAll("button, a, select")])
  .filter(each => each.checkVisibility() && each.className !== "pick")
  .filter(each => Math.min(each.getBoundingClientRect().width, each.getBoundingClientRect().height) < 44)
  .map(each => each.outerHTML)"""


def tiles(page):
    return page.locator(".tile")


def links(page):
    return page.locator(".tile a")


def drop(page, name: str, data: bytes, type_: str = "image/png") -> str:
    return page.evaluate(DROP, [name, base64.b64encode(data).decode(), type_])


def titles(page) -> list[str]:
    return links(page).evaluate_all("all => all.map(each => each.title)")


def id_of(page, path: str) -> int:
    images = page.request.get("/api/v1/images").json()["results"]
    return next(image["id"] for image in images if image["path"] == path)


def ask(page, sentence: str) -> None:
    page.locator("#sentence").fill(sentence)
    page.locator("#sentence").press("Enter")


def test_the_start_page_shows_photos_by_date(page) -> None:
    page.goto("/")
    expect(tiles(page)).to_have_count(18)
    expect(page.locator(".heading").first).to_have_text(re.compile(r"^\w+ \d{4}$"))
    assert links(page).first.locator("img").evaluate(DECODED) > 0
    expect(page.locator("#status")).to_be_empty()


def test_a_sentence_is_asked_and_is_in_the_address(page) -> None:
    page.goto("/")
    page.keyboard.press("/")
    page.keyboard.type("something red")
    page.keyboard.press("Enter")
    expect(page.locator("#status")).to_have_text("Best matches for “something red”")
    expect(links(page).first).to_have_attribute("title", re.compile("^red"))
    assert page.url.endswith("/?q=something+red")
    page.reload()
    expect(page.locator("#sentence")).to_have_value("something red")
    expect(links(page).first).to_have_attribute("title", re.compile("^red"))


def test_what_is_typed_before_the_first_answer_stays(browser, plain_address: str) -> None:
    watched = Watched(browser, plain_address)
    page, held = watched.page, []
    page.route("**/api/v1/indexes", lambda route: held.append(route))
    with page.expect_request("**/api/v1/indexes"):
        page.goto("/")
    page.locator("#sentence").fill("something r")
    held[0].continue_()
    expect(tiles(page).first).to_be_visible()
    expect(page.locator("#sentence")).to_have_value("something r")
    watched.context.close()


def test_a_question_that_fails_does_not_show_the_image_of_the_last_one(browser, plain_address: str) -> None:
    watched = Watched(browser, plain_address)
    page = watched.page
    page.goto("/?q=id:5")
    expect(page.locator("#given")).to_be_visible()
    ask(page, "id:9999")
    expect(page.locator("#message")).to_contain_text("No image 9999")
    expect(page.locator("#given")).to_be_hidden()
    watched.context.close()


@pytest.mark.slow
def test_scores_are_shown_on_demand_and_stay(page) -> None:
    page.goto("/?q=red")
    score = tiles(page).first.locator(".score")
    expect(score).to_be_hidden()
    page.get_by_role("button", name="Scores").click()
    shown = page.request.get("/api/v1/search?q=red").json()["results"][0]
    expect(score).to_have_text(f"{shown['probability'] or shown['score']:.3f}")  # as the command prints it
    page.reload()
    expect(score).to_be_visible()
    page.goto("/")
    expect(tiles(page)).to_have_count(18)
    expect(page.get_by_role("button", name="Scores")).to_be_hidden()


def test_what_is_less_likely_has_a_heading_and_is_shown_as_clearly(page) -> None:
    def poor(route) -> None:
        answer = route.fetch().json()
        for i, image in enumerate(answer["results"]):
            image["fits"] = i < 2
        route.fulfill(json=answer | ({"certainty": "nothing"} if page.url.endswith("asdf") else {}))

    page.route("**/api/v1/search?**", poor)
    page.goto("/?q=red")
    expect(page.locator(".heading")).to_have_text("Less likely")
    expect(page.locator(".tile.less-likely")).to_have_count(16)
    for tile in (page.locator(".tile").first, page.locator(".tile.less-likely").first):
        expect(tile.locator("img")).to_have_css("opacity", "1")
    ask(page, "asdf")
    claim = page.locator("#status strong")
    expect(claim).to_have_text("Probably nothing here matches “asdf”.")
    sizes = "each => parseFloat(getComputedStyle(each).fontSize)"
    assert claim.evaluate(sizes) > page.locator(".heading").first.evaluate(sizes)


@pytest.mark.parametrize(
    ("certainty", "claim"),
    [
        ("sure", "Best matches for “red”"),
        ("perhaps", "Perhaps some of these match “red”"),
        ("nothing", "Probably nothing here matches “red”."),
    ],
)
def test_only_a_sure_answer_is_called_the_best_match(page, certainty: str, claim: str) -> None:
    page.route(
        "**/api/v1/search?**",
        lambda route: route.fulfill(json=route.fetch().json() | {"certainty": certainty}),
    )
    page.goto("/?q=red")
    expect(page.locator("#status strong")).to_have_text(claim)


def test_a_question_mark_shows_the_keys_and_what_can_be_typed(page) -> None:
    page.goto("/")
    expect(tiles(page)).to_have_count(18)
    page.keyboard.press("?")
    expect(page.locator("#help")).to_contain_text("dog taken:2021")
    expect(page.locator("#help")).to_contain_text("select an image")
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()


def test_a_correction_is_told_and_taken_back(page) -> None:
    def corrected(route) -> None:
        words = {} if "%22" in route.request.url else {"dgo": "dog"}
        route.fulfill(json=route.fetch().json() | {"corrected_words": words})

    page.route("**/api/v1/search?**", corrected)
    page.goto("/?q=a+dgo+-+red")
    status = page.locator("#status")
    expect(status).to_contain_text("Showing results for “dog” instead of “dgo”")
    expect(status.get_by_role("link")).to_have_count(0)
    ask(page, "a dgo")
    status.get_by_role("link", name="Search for what I typed").click()
    expect(page.locator("#sentence")).to_have_value('"a dgo"')
    expect(status).not_to_contain_text("Showing results for")


def test_notes_about_a_query_are_separated_and_none_begins_with_a_dot(page) -> None:
    def noted(route) -> None:
        notes = {"query_meant": "dog", "unknown_words": ["perro"] if "mi+perro" in route.request.url else []}
        route.fulfill(json=route.fetch().json() | notes)

    page.route("**/api/v1/search?**", noted)
    page.goto("/?q=perro")
    expect(page.locator("#status")).to_have_text(re.compile(r"“perro”\.? Did you mean dog\?$"))
    ask(page, "mi perro")
    expect(page.locator("#status")).to_have_text(
        re.compile(r"perro”\.? Unknown: “perro” · Did you mean dog\?$")
    )


@pytest.mark.slow
def test_rows_fill_the_width_and_keep_the_shapes(page) -> None:
    page.goto("/?q=blue")
    expect(tiles(page)).to_have_count(18)
    # Below the line, which begins a new row.
    boxes = page.locator(".tile.less-likely").evaluate_all(
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


def test_the_large_image_has_an_address_and_back_closes_it(page) -> None:
    page.goto("/?q=green")
    links(page).first.click()
    viewer = page.locator("#viewer")
    expect(viewer).to_be_visible()
    assert re.search(r"\?q=green&view=\d+$", page.url)
    assert viewer.locator("figure img").evaluate(DECODED) >= 180
    first = page.locator("#viewer-path").inner_text()
    expect(page.get_by_label("Previous image")).to_be_disabled()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#viewer-path")).not_to_have_text(first)
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#viewer-path")).to_have_text(first)
    page.go_back()
    expect(viewer).to_be_hidden()
    assert page.url.endswith("?q=green")
    expect(links(page).first).to_be_focused()
    page.go_forward()
    expect(page.locator("#viewer-path")).to_have_text(first)
    page.reload()
    expect(page.locator("#viewer-path")).to_have_text(first)
    page.keyboard.press("Escape")
    expect(viewer).to_be_hidden()
    expect(tiles(page)).to_have_count(18)
    assert page.url.endswith("?q=green")


@pytest.mark.slow
def test_a_link_to_an_image_opens_it_and_closing_shows_all(page) -> None:
    page.goto("/?view=3")
    expect(page.locator("#viewer")).to_be_visible()
    page.get_by_label("Close").last.click()
    expect(page.locator("#viewer")).to_be_hidden()
    expect(tiles(page)).to_have_count(18)
    assert "view" not in page.url


@pytest.mark.slow
def test_details_download_and_copies(watched: Watched, page_index: Path) -> None:
    page = watched.page
    watched.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"/?q=red&view={id_of(page, 'large.png')}")
    expect(page.locator("#viewer-path")).to_have_text("large.png")
    page.get_by_role("button", name="Details").click()
    details = page.locator("#details")
    expect(details).to_contain_text("800 × 640")
    expect(details).to_contain_text("large.png")
    page.keyboard.press("i")
    expect(details).to_be_hidden()
    with page.expect_download() as downloading:
        page.get_by_role("link", name="Download").click()
    assert downloading.value.suggested_filename == "large.png"
    assert (
        Path(downloading.value.path()).read_bytes()
        == (page_index.parent / "photos" / "large.png").read_bytes()
    )
    page.get_by_role("button", name="Copy path").click()
    expect(page.locator("#viewer-facts")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "large.png"
    page.get_by_role("button", name="Copy link").click()
    assert re.search(r"/\?view=\d+$", page.evaluate("navigator.clipboard.readText()"))
    assert watched.errors == []


@pytest.mark.slow
def test_zooming_and_swiping(page) -> None:
    page.goto("/?q=red")
    links(page).first.click()
    picture_ = page.locator("#viewer figure img")
    expect(picture_).to_be_visible()
    assert picture_.evaluate(DECODED)
    width = picture_.bounding_box()["width"]
    picture_.dblclick()
    expect(page.locator("#viewer figure")).to_have_class("zoomed")
    assert picture_.bounding_box()["width"] == pytest.approx(2.5 * width, rel=0.02)
    at = picture_.bounding_box()
    page.mouse.move(600, 400)
    page.mouse.down()
    page.mouse.move(650, 430)
    page.mouse.up()
    assert picture_.bounding_box()["x"] == pytest.approx(at["x"] + 50, abs=1)
    page.mouse.wheel(0, 5000)
    expect(page.locator("#viewer figure")).not_to_have_class("zoomed")
    page.keyboard.press("+")
    assert picture_.bounding_box()["width"] == pytest.approx(1.5 * width, rel=0.02)
    page.keyboard.press("-")
    first = page.locator("#viewer-path").inner_text()
    page.mouse.move(650, 300)
    page.mouse.down()
    page.mouse.move(500, 310, steps=3)
    page.mouse.up()
    expect(page.locator("#viewer-path")).not_to_have_text(first)
    assert picture_.evaluate(DECODED)
    second = page.locator("#viewer-path").inner_text()
    page.keyboard.press("+")
    left = picture_.bounding_box()["x"]
    page.keyboard.press("ArrowLeft")
    assert picture_.bounding_box()["x"] == pytest.approx(left + 80, abs=1)
    expect(page.locator("#viewer-path")).to_have_text(second)


def test_no_image_is_shown_under_the_name_of_the_next(watched: Watched) -> None:
    page, held = watched.page, []
    page.goto("/?q=red")
    links(page).first.click()
    picture_ = page.locator("#viewer figure img")
    assert picture_.evaluate(DECODED)
    page.route("**/view**", lambda route: held.append(route))
    with page.expect_request("**/view**"):
        page.keyboard.press("ArrowRight")
    assert picture_.evaluate("image => image.naturalWidth") == 0
    held[0].continue_()
    assert picture_.evaluate(DECODED)


@pytest.mark.slow
def test_similar_images_from_the_viewer(page) -> None:
    page.goto("/?q=yellow")
    links(page).first.click()
    name = page.locator("#viewer-path").inner_text()
    page.get_by_role("button", name="Find similar").click()
    expect(page.locator("#status")).to_have_text("Most similar to this photo")
    expect(page.locator("#given-name")).to_have_text(name)
    expect(tiles(page)).to_have_count(17)
    assert re.search(r"\?q=id%3A\d+$", page.url)
    page.reload()
    expect(page.locator("#given-name")).to_have_text(name)


def test_a_dropped_image_survives_a_reload(page) -> None:
    page.goto("/?q=green")
    expect(tiles(page)).to_have_count(18)
    assert drop(page, "mine.png", picture("blue")) == "grid"
    expect(page.locator("#drop")).to_be_hidden()
    for _ in range(2):
        expect(page.locator("#given-name")).to_have_text("mine.png")
        expect(page.locator("#sentences li").first).to_have_text("something blue")
        expect(links(page).first).to_have_attribute("title", re.compile("^blue"))
        assert page.locator("#given-image").evaluate(DECODED) == 60
        page.reload()
    page.locator("#sentences a").first.click()
    expect(page.locator("#sentence")).to_have_value("something blue")
    expect(page.locator("#given")).to_be_hidden()
    page.go_back()
    expect(page.locator("#given-name")).to_have_text("mine.png")


def test_a_dropped_heic_photo_is_shown_as_the_server_decodes_it(watched: Watched, tmp_path: Path) -> None:
    pillow_heif.register_heif_opener()
    Image.new("RGB", (1200, 900), "blue").save(tmp_path / "phone.heic")
    watched.page.goto("/")
    expect(tiles(watched.page)).to_have_count(18)
    drop(watched.page, "phone.heic", (tmp_path / "phone.heic").read_bytes(), "")
    expect(links(watched.page).first).to_have_attribute("title", re.compile("^blue"))
    expect(watched.page.locator("#given-image")).to_have_js_property("naturalWidth", 1200)
    expect(watched.page.locator("#given-image")).to_be_visible()
    assert watched.errors == []


@pytest.mark.slow
def test_an_image_that_this_browser_no_longer_has_says_so(page) -> None:
    page.goto("/?image=gone")
    expect(page.locator("#message")).to_contain_text("Drop it here again")


@pytest.mark.slow
def test_an_image_of_more_than_20_mb_is_drawn_smaller(page, tmp_path: Path) -> None:
    page.goto("/")
    expect(tiles(page)).to_have_count(18)
    data = np.random.default_rng(0).integers(0, 255, (2600, 2800, 3), np.uint8)
    Image.fromarray(data).save(tmp_path / "big.png", compress_level=0)
    assert (tmp_path / "big.png").stat().st_size > 20 << 20
    page.locator("#file").set_input_files(tmp_path / "big.png")
    expect(page.locator("#status")).to_have_text("Most similar to your image", timeout=20_000)
    expect(tiles(page)).to_have_count(18)


@pytest.mark.parametrize(
    ("name", "type_", "data"),
    [
        ("notes.txt", "text/plain", b"no image"),
        ("notes.png", "image/png", b"no image"),
        ("cut.png", "image/png", picture("red")[:60]),
    ],
)
def test_a_file_that_is_no_image_says_so(watched: Watched, name: str, type_: str, data: bytes) -> None:
    watched.page.goto("/")
    expect(tiles(watched.page)).to_have_count(18)
    drop(watched.page, name, data, type_)
    expect(watched.page.locator("#message")).to_contain_text("Something went wrong")
    expect(watched.page.locator("#message p")).to_have_text(
        "This file can't be opened: unsupported or damaged."
    )
    if data == b"no image":  # of a cut image browsers show the beginning
        expect(watched.page.locator("#given")).to_be_hidden()
    expect(watched.page.locator("#message")).to_have_attribute("role", "alert")
    assert all("422" in error for error in watched.errors)


def test_what_cannot_be_shown_leaves_the_page_usable(watched: Watched) -> None:
    page = watched.page
    page.goto("/?view=99999")
    expect(page.locator("#message")).to_contain_text("No image 99999")
    page.locator(".mark").click()
    expect(tiles(page)).to_have_count(18)
    drop(page, "notes.pdf", b"no image", "application/pdf")
    expect(tiles(page)).to_have_count(0)
    page.locator(".mark").click()
    expect(tiles(page)).to_have_count(18)


def test_a_failure_that_comes_late_leaves_the_next_answer_alone(watched: Watched) -> None:
    page, held = watched.page, []
    page.goto("/")
    expect(tiles(page)).to_have_count(18)
    page.route("**/api/v1/images/99999**", lambda route: held.append(route))
    with page.expect_request("**/api/v1/images/99999**"):
        ask(page, "id:99999")
    ask(page, "red")
    expect(page.locator("#status")).to_contain_text("red")
    with page.expect_response("**/api/v1/images/99999**"):
        held[0].continue_()
    page.evaluate("new Promise(requestAnimationFrame)")
    expect(tiles(page)).to_have_count(18)
    expect(page.locator("#message")).to_be_hidden()


def test_a_large_file_that_the_browser_cannot_reduce_says_so(page) -> None:
    page.goto("/")
    expect(tiles(page)).to_have_count(18)
    page.evaluate(LARGE)
    expect(page.locator("#message p")).to_contain_text("the server takes 20 MB")
    expect(page.locator("#message button")).to_be_hidden()


@pytest.mark.slow
def test_parts_of_a_query_are_chips_that_can_be_taken_away(page) -> None:
    page.goto("/?q=red+-+blue")
    chips = page.locator("#chips button")
    expect(chips).to_have_text(["+ red ×", "- blue ×"])
    chips.nth(1).click()
    expect(page.locator("#sentence")).to_have_value("red")
    expect(chips).to_have_count(0)
    page.goto("/?q=red+-+blue")
    chips.nth(0).click()  # nothing is left to search for
    expect(page.locator("#status")).to_be_empty()
    expect(tiles(page)).to_have_count(18)


def test_who_uses_the_keyboard_stays_among_the_conditions(page) -> None:
    page.goto("/?where=taken:1972..+taken:1973..+taken:1974..")
    chips = page.locator("#chips button")
    expect(chips).to_have_count(3)
    chips.nth(1).focus()
    page.keyboard.press("Enter")
    expect(chips).to_have_count(2)
    expect(chips.nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    expect(chips).to_have_count(1)
    page.keyboard.press("Enter")
    expect(chips).to_have_count(0)
    expect(page.locator("#sentence")).to_be_focused()


def test_a_filter_is_in_the_address_and_can_be_taken_away(page) -> None:
    page.goto("/")
    expect(tiles(page)).to_have_count(18)
    ask(page, "name:large -folder:sub")
    expect(tiles(page)).to_have_count(1)
    expect(page.locator("#sentence")).to_have_value("")
    ask(page, "red")
    expect(tiles(page)).to_have_count(1)
    assert "q=red&where=name%3Alarge+-folder%3Asub" in page.url
    page.reload()
    expect(tiles(page)).to_have_count(1)
    page.locator("#chips button").first.click()
    expect(page.locator("#chips button")).to_have_text(["-folder:sub ×"])
    ask(page, "taken:1904")
    expect(page.locator("#message")).to_contain_text("No photos match these filters.")
    page.get_by_role("button", name="Clear filters").click()
    expect(tiles(page)).to_have_count(18)
    assert "where" not in page.url


@pytest.mark.parametrize(
    ("typed", "sentence", "chips"),
    [
        ("red name:large", "red", ["name:large ×"]),
        ("-name:large something red", "something red", ["-name:large ×"]),
        ("red - name:small", "red", ["-name:small ×"]),
        ('red -folder:"New York"', "red", ['-folder:"New York" ×']),
        ('"name:large"', '"name:large"', []),
        ("id:3", "id:3", []),
        ("red at 12:30", "red at 12:30", []),
    ],
)
def test_conditions_typed_with_a_sentence_become_chips(
    page, typed: str, sentence: str, chips: list[str]
) -> None:
    page.goto("/")
    ask(page, typed)
    expect(page.locator("#chips button")).to_have_text(chips)
    expect(page.locator("#sentence")).to_have_value(sentence)
    expect(page.locator("#message")).to_be_hidden()


def test_a_misspelt_filter_says_what_was_meant(browser, plain_address: str) -> None:
    watched = Watched(browser, plain_address)
    page = watched.page
    page.goto("/")
    ask(page, "red takn:2019")
    expect(page.locator("#message")).to_contain_text("Check what you typed")
    expect(page.locator("#message")).to_contain_text("did you mean 'taken'?")
    page.get_by_role("button", name="Clear filters").click()
    expect(page.locator("#status")).to_have_text("Best matches for “red”")
    watched.context.close()


def test_on_a_phone_held_sideways_the_image_has_the_screen_and_a_tap_hides_the_rest(browser, address) -> None:
    watched = Watched(browser, address, viewport={"width": 844, "height": 390}, has_touch=True)
    page = watched.page
    page.goto(f"/?q=red&view={id_of(page, 'large.png')}")
    shown = page.locator("#viewer figure img")
    assert shown.evaluate(DECODED) == 800
    assert shown.bounding_box()["height"] == 390
    nav = page.locator("#viewer nav")
    shown.tap()
    expect(nav).to_have_css("opacity", "0")
    shown.tap()
    expect(nav).to_have_css("opacity", "1")
    watched.context.close()


def test_details_stand_beside_the_image_on_a_wide_screen(page) -> None:
    page.goto(f"/?view={id_of(page, 'large.png')}")
    page.get_by_role("button", name="Details").click()
    image, details = (page.locator(each).bounding_box() for each in ("#viewer figure img", "#details"))
    assert image["x"] + image["width"] <= details["x"]


def test_a_finger_finds_targets_of_44_pixels(browser, address: str) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    watched = Watched(browser, address, **phone)
    page = watched.page
    page.goto("/?q=red+-+blue&where=taken:1970..")
    expect(tiles(page)).not_to_have_count(0)
    assert page.locator("main, header").evaluate_all(SMALL) == []
    page.goto(f"/?view={id_of(page, 'large.png')}")
    assert page.locator("#viewer").evaluate_all(SMALL) == []
    watched.context.close()


@pytest.mark.slow
def test_an_image_and_a_sentence(page, tmp_path: Path) -> None:
    (tmp_path / "mine.png").write_bytes(picture("black"))
    page.goto("/")
    page.locator("#file").set_input_files(tmp_path / "mine.png")
    expect(page.locator("#status")).to_have_text("Most similar to your image")
    expect(links(page).first).to_have_attribute("title", re.compile("^black"))
    ask(page, "3*red")
    expect(page.locator("#status")).to_have_text("Best matches for your image and “3*red”")
    expect(page.locator("#given")).to_be_visible()
    expect(links(page).first).to_have_attribute("title", re.compile("^red"))
    chips = page.locator("#chips button")
    expect(chips).to_have_text(["mine.png ×", "3*red ×"])
    chips.nth(1).click()
    expect(page.locator("#status")).to_have_text("Most similar to your image")
    chips.first.click()
    expect(page.locator("#given")).to_be_hidden()
    expect(page.locator("#status")).to_be_empty()


@pytest.mark.slow
def test_selecting_listing_and_zipping(page) -> None:
    page.goto("/?q=red")
    expect(tiles(page)).to_have_count(18)
    bar = page.locator("#selection")
    expect(bar).to_be_hidden()
    tiles(page).nth(1).hover()
    pick = tiles(page).nth(1).locator(".pick")
    assert min(pick.bounding_box()["width"], pick.bounding_box()["height"]) >= 44
    pick.click()
    tiles(page).nth(3).locator(".pick").click(modifiers=["Shift"])
    expect(bar).to_contain_text("3 selected")
    links(page).nth(5).focus()
    page.keyboard.press("x")
    expect(bar).to_contain_text("4 selected")
    names = [links(page).nth(i).get_attribute("title") for i in (1, 2, 3, 5)]
    with page.expect_download() as downloading:
        page.get_by_role("button", name="Download list").click()
    assert Path(downloading.value.path()).read_text().splitlines() == names
    with page.expect_download() as downloading:
        page.get_by_role("button", name="Download zip").click()
    with zipfile.ZipFile(downloading.value.path()) as archive:
        assert sorted(archive.namelist()) == sorted(names)
    links(page).nth(5).focus()
    page.keyboard.press("x")
    expect(bar).to_contain_text("3 selected")
    links(page).nth(8).focus()
    page.keyboard.press("Shift+KeyX")
    expect(bar).to_contain_text("7 selected")
    page.get_by_role("button", name="Clear selection").click()
    expect(bar).to_be_hidden()
    expect(page.locator(".picked")).to_have_count(0)


def test_keyboard(page) -> None:
    page.goto("/?q=red")
    expect(tiles(page)).to_have_count(18)
    page.keyboard.press("/")
    expect(page.locator("#sentence")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(links(page).nth(0)).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(links(page).nth(1)).to_be_focused()
    top = tiles(page).nth(1).bounding_box()["y"]
    page.keyboard.press("ArrowDown")
    focused = page.locator(".tile a:focus")
    assert focused.bounding_box()["y"] > top
    page.keyboard.press("ArrowUp")
    assert focused.bounding_box()["y"] == top
    page.keyboard.press("End")
    expect(links(page).nth(17)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#viewer")).to_be_visible()


@pytest.mark.slow
def test_back_and_forward(page) -> None:
    page.goto("/")
    expect(tiles(page)).to_have_count(18)
    ask(page, "red")
    expect(page.locator("#status")).to_contain_text("red")
    page.go_back()
    expect(page.locator("#status")).to_be_empty()
    expect(page.locator(".heading")).not_to_have_count(0)
    page.go_forward()
    expect(page.locator("#status")).to_contain_text("red")
    page.locator(".mark").click()
    expect(page.locator("#status")).to_be_empty()


def test_a_sentence_is_text_and_never_markup(page) -> None:
    page.goto("/?q=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")
    expect(page.locator("#status")).to_contain_text("<img src=x onerror=alert(1)>")


@pytest.mark.slow
def test_a_server_that_is_gone_says_so_and_can_be_asked_again(watched: Watched) -> None:
    page = watched.page
    page.goto("/")
    page.route("**/api/v1/search**", lambda route: route.abort())
    ask(page, "red")
    expect(page.locator("#message")).to_contain_text("can't be reached")
    page.unroute("**/api/v1/search**")
    page.get_by_role("button", name="Try again").click()
    expect(tiles(page)).to_have_count(18)
    expect(page.locator("#message")).to_be_hidden()


@pytest.mark.slow
def test_images_are_shown_though_what_is_beside_them_fails(browser, plain_address: str) -> None:
    watched = Watched(browser, plain_address)
    page = watched.page
    for part in ("images/months", "sentences"):
        page.route(f"**/api/v1/{part}**", lambda route: route.fulfill(status=503, json={"detail": "busy"}))
    page.goto("/")
    expect(page.locator("#message")).to_contain_text("busy")
    page.unroute("**/api/v1/images/months**")
    page.get_by_role("button", name="Try again").click()
    expect(tiles(page)).to_have_count(18)
    drop(page, "mine.png", picture("blue"))
    expect(page.locator("#status")).to_have_text("Most similar to your image")
    expect(tiles(page)).to_have_count(18)
    expect(page.locator("#message")).to_be_hidden()
    assert all("503" in error for error in watched.errors)
    watched.context.close()


@pytest.mark.slow
def test_an_empty_index_says_so(browser, tmp_path: Path) -> None:
    Index.create(tmp_path / "index", Colours()).close()
    for address in served(tmp_path / "index"):
        watched = Watched(browser, address)
        watched.page.goto("/?q=red")
        expect(watched.page.locator("#message")).to_contain_text("no images")
        assert watched.errors == []
        watched.context.close()


@pytest.mark.slow
def test_the_first_photos_appear_while_they_are_indexed(browser, tmp_path: Path) -> None:
    Index.create(tmp_path / "index", Colours()).close()
    photos = gallery(tmp_path / "photos", "red.png", "blue.png")
    going = threading.Event()

    class Slow(Colours):
        def embed_photos(self, photos, query=False):
            going.wait(20)
            return super().embed_photos(photos, query)

    for address in served(tmp_path / "index", matcher=Slow(), photos={"index": [photos]}):
        watched = Watched(browser, address)
        watched.page.goto("/")
        expect(watched.page.locator("#message")).to_contain_text("0 of 2 new or changed photos")
        expect(watched.page.locator("#message")).to_have_attribute("role", "status")
        expect(watched.page.locator("#pick")).to_be_hidden()
        going.set()
        expect(tiles(watched.page)).to_have_count(2)
        expect(watched.page.locator("#message")).to_be_hidden()
        expect(watched.page.locator("#pick")).to_be_visible()
        assert watched.errors == []
        watched.context.close()


def test_a_search_while_photos_are_indexed_says_what_it_has_searched(browser, plain_address: str) -> None:
    watched = Watched(browser, plain_address)
    page = watched.page
    state = {"running": True, "done": 5, "total": 9, "images": 18, "generation": 1, "error": None}
    page.route("**/api/v1/update", lambda route: route.fulfill(json=state))
    page.goto("/")
    expect(page.locator("#indexing")).to_contain_text("5 of 9 new or changed photos")
    ask(page, "red")
    expect(page.locator("#status")).to_contain_text("Searched only what is indexed so far (18 photos)")
    expect(page.locator("#indexing")).to_contain_text("The rest cannot be found yet")
    watched.context.close()


def test_photos_that_another_program_indexes_come_into_the_page(browser, tmp_path: Path) -> None:
    photos = gallery(tmp_path / "photos", "red.png")
    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(photos)
        for address in served(tmp_path / "index"):
            watched = Watched(browser, address)
            watched.page.goto("/")
            expect(tiles(watched.page)).to_have_count(1)
            gallery(photos, "blue.png")
            index.update_images(photos)
            expect(tiles(watched.page)).to_have_count(2, timeout=9000)
            assert watched.errors == []
            watched.context.close()


def test_a_photo_whose_file_is_gone_shows_its_thumbnail_and_says_so(browser, tmp_path: Path) -> None:
    photos = gallery(tmp_path / "photos", "red.png")
    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(photos)
    (photos / "red.png").unlink()
    for address in served(tmp_path / "index"):
        watched = Watched(browser, address)
        page = watched.page
        page.goto("/")
        assert links(page).first.locator("img").evaluate(DECODED) > 0
        links(page).first.click()
        expect(page.locator("#viewer-facts")).to_contain_text("The file is gone or its disk is not connected")
        assert page.locator("#viewer figure img").evaluate(DECODED) > 0
        page.keyboard.press("i")
        expect(page.locator("#details")).to_contain_text("red.png")
        watched.context.close()


@pytest.mark.slow
def test_an_update_that_finds_no_photos_is_followed_in_peace(browser, tmp_path: Path) -> None:
    Index.create(tmp_path / "index", Colours()).close()
    photos = gallery(tmp_path / "photos", "red.png")
    state = {"running": True, "done": 5, "total": 9, "added": 0, "deleted": 0, "seconds": None, "error": None}
    asked: list[str] = []
    for address in served(tmp_path / "index", photos={"index": [photos]}):
        watched = Watched(browser, address)
        page = watched.page
        page.route("**/api/v1/update", lambda route: route.fulfill(json=state))
        page.route("**/api/v1/images?**", lambda route: route.fulfill(json={"results": [], "next": None}))
        page.on("request", lambda sent: asked.append(sent.url))
        page.goto("/")
        expect(page.locator("#message")).to_contain_text("5 of 9 new or changed photos")
        page.wait_for_timeout(1500)
        assert 1 <= sum("/images?" in url for url in asked) <= 2
        watched.context.close()


@pytest.mark.slow
def test_an_empty_index_of_a_folder_offers_to_look_for_photos(browser, tmp_path: Path) -> None:
    photos = gallery(tmp_path / "photos", "red.png")
    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(photos)
        ids = list(index.store.photos())
        with index.store.write() as writer:
            writer.delete(ids)
    for address in served(tmp_path / "index"):
        watched = Watched(browser, address)
        watched.page.goto("/")
        expect(watched.page.locator("#message")).to_contain_text("No photos yet")
        watched.page.get_by_role("button", name="Look for new photos").click()
        expect(tiles(watched.page)).to_have_count(1)
        assert watched.errors == []
        watched.context.close()


@pytest.mark.slow
def test_a_long_press_of_a_finger_selects_and_then_every_tap(browser, address: str) -> None:
    watched = Watched(
        browser, address, viewport={"width": 390, "height": 780}, has_touch=True, is_mobile=True
    )
    page = watched.page
    page.goto("/")
    box = tiles(page).nth(0).bounding_box()
    touch = page.context.new_cdp_session(page)
    at = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
    touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [at]})
    expect(page.locator("#selection")).to_contain_text("1 selected")
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    tiles(page).nth(1).tap()
    expect(page.locator("#selection")).to_contain_text("2 selected")
    expect(page.locator("#viewer")).to_be_hidden()
    page.get_by_role("button", name="Clear selection").tap()
    tiles(page).nth(1).tap()
    expect(page.locator("#viewer")).to_be_visible()
    assert watched.errors == []
    watched.context.close()


@pytest.mark.slow
def test_few_thumbnails_are_asked_for_at_once(browser, many) -> None:
    watched = Watched(browser, many[0], viewport={"width": 1600, "height": 1200})
    page, asked, held = watched.page, [], []
    page.route("**/thumbnail**", lambda route: (asked.append(route), held.append(route)))
    page.goto("/")
    expect(tiles(page)).not_to_have_count(0)
    page.wait_for_timeout(500)
    assert len(asked) == 16
    waiting = page.locator(".tile img:not([src])")  # Chromium shows them as broken images
    assert waiting.count() > 0
    expect(waiting.first).to_have_css("opacity", "0")
    for route in held[:4]:
        route.continue_()
    page.wait_for_timeout(500)
    assert len(asked) == 20
    page.unroute_all(behavior="ignoreErrors")
    watched.context.close()


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory):
    """A server of 700 images of two years, among them two copies, and one file that is no image."""
    folder = tmp_path_factory.mktemp("many")
    photos = gallery(folder / "photos", "red.png", "blue.png")
    content = {name: (photos / f"{name}.png").read_bytes() for name in ("red", "blue")}
    for i in range(698):
        file = photos / f"{i:04}.png"
        file.write_bytes(content["red" if i % 2 else "blue"])
        os.utime(file, (1_500_000_000 - 90_000 * i,) * 2)
    (photos / "green.png").write_bytes(picture("green"))
    (photos / "green again.png").write_bytes(picture("green", size=(90, 60)))
    (photos / "broken.png").write_bytes(b"no image")
    with Index.create(folder / "index", Colours()) as index:
        index.update_images(photos)
    yield from ((address, photos) for address in served(folder / "index"))


@pytest.mark.slow
def test_endless_scrolling_keeps_few_tiles(browser, many) -> None:
    watched = Watched(browser, many[0])
    page = watched.page
    page.goto("/?q=red")
    expect(tiles(page).first).to_be_visible()
    heights = []
    for _ in range(25):
        page.mouse.wheel(0, 4000)
        page.evaluate("() => new Promise(done => setTimeout(done, 30))")
        heights.append(page.evaluate("document.documentElement.scrollHeight"))
        assert tiles(page).count() < 150
    assert heights[-1] > 3 * heights[0]
    page.goto("/")
    expect(tiles(page).first).to_be_visible()
    page.keyboard.press("End")
    expect(page.locator('.tile a[title="0697.png"]')).to_be_visible()
    page.locator('.tile a[title="0697.png"]').click()
    page.keyboard.press("Escape")
    expect(page.locator('.tile a[title="0697.png"]')).to_be_focused()
    assert watched.errors == []
    watched.context.close()


@pytest.mark.slow
def test_results_of_an_image_go_on_though_the_server_forgot_it(browser, many, tmp_path: Path) -> None:
    (tmp_path / "mine.png").write_bytes(picture("red"))
    watched = Watched(browser, many[0])
    page, forgotten = watched.page, []

    def forget_once(route) -> None:
        if route.request.method == "GET" and not forgotten:
            forgotten.append(route.request.url)
            route.fulfill(status=410, json={"detail": "no longer available", "status": 410})
        else:
            route.continue_()

    page.route("**/api/v1/search?**", forget_once)
    page.goto("/")
    page.locator("#file").set_input_files(tmp_path / "mine.png")
    expect(page.locator("#status")).to_have_text("Most similar to your image")
    for _ in range(12):
        page.mouse.wheel(0, 4000)
        page.evaluate("() => new Promise(done => setTimeout(done, 100))")
    assert "upload%3A" in forgotten[0]
    assert page.evaluate("Math.max(...[...document.querySelectorAll('.tile')].map(t => t.dataset.i))") > 150
    assert all("410" in error for error in watched.errors)
    watched.context.close()


@pytest.mark.slow
def test_the_viewer_goes_on_behind_the_loaded_images(browser, many) -> None:
    watched = Watched(browser, many[0])
    page = watched.page
    page.goto("/")
    links(page).first.click()
    for _ in range(105):
        page.keyboard.press("ArrowRight")
        page.evaluate("() => new Promise(requestAnimationFrame)")
    expect(page.locator('[data-do="next"]')).to_be_enabled()
    page.keyboard.press("Escape")
    assert int(page.evaluate("document.activeElement.closest('.tile').dataset.i")) == 105
    watched.context.close()


def test_a_year_and_a_month_are_jumped_to_and_newer_photos_lie_above(browser, many) -> None:
    watched = Watched(browser, many[0])
    page = watched.page
    page.goto("/")
    expect(page.locator("#years a")).not_to_have_count(0)
    oldest = page.locator("#years a").last
    year = oldest.inner_text()
    oldest.click()
    expect(page.locator(".heading", has_text=year).first).to_be_in_viewport()
    expect(page.locator("#years [aria-current=true]").first).to_have_text(year)
    assert page.url.endswith(f"?at={year}")
    expect(tiles(page).first.locator("img")).to_have_attribute("src", re.compile("thumbnail"))
    page.locator("#years a").last.click()  # its first month
    expect(page).to_have_url(re.compile(rf"\?at={year}-\d\d$"))
    page.reload()
    expect(page.locator("#years [aria-current=true]")).to_have_count(2)
    expect(page.locator(".heading", has_text=year).first).to_be_in_viewport()
    page.mouse.wheel(0, -3000)
    expect(page.locator(".tile.missing")).to_have_count(0)
    page.evaluate("scrollTo(0, 0)")
    expect(page.locator(".heading").first).not_to_contain_text(year)
    assert watched.errors == []
    watched.context.close()


def test_the_key_end_goes_to_the_oldest_photo(browser, many) -> None:
    watched = Watched(browser, many[0])
    page = watched.page
    page.goto("/")
    links(page).first.focus()
    page.keyboard.press("End")
    expect(page.locator(".tile a:focus")).to_have_attribute("title", "0697.png")
    page.keyboard.press("Home")
    expect(page.locator(".tile a:focus")).to_have_attribute("title", re.compile("png$"))
    assert page.evaluate("scrollY") < 200
    assert watched.errors == []
    watched.context.close()


@pytest.mark.slow
def test_near_duplicates_faults_and_updates(browser, many) -> None:
    address, photos = many
    watched = Watched(browser, address)
    page = watched.page
    page.goto("/")
    page.get_by_role("button", name="About these photos").click()
    panel = page.locator("#panel")
    expect(panel).to_contain_text("702 images")
    expect(panel).to_contain_text("1 file could not be read")
    panel.locator("summary").click()
    expect(panel.locator("#faults")).to_contain_text("broken.png")
    (photos / "white.png").write_bytes(picture("white"))
    panel.get_by_role("button", name="Look for new photos").click()
    expect(panel.locator("#update-state")).to_have_text("Up to date: 1 new or changed, 0 removed.")
    panel.get_by_role("button", name="Show near-duplicates").click()
    expect(panel).to_be_hidden()
    expect(page.locator(".heading").first).to_have_text("350 near-duplicates")
    expect(page.locator("#chips button")).to_have_count(1)
    assert page.url.endswith("?near=1")
    assert watched.errors == []
    watched.context.close()


@pytest.mark.slow
def test_an_update_is_asked_for_once_at_a_time_and_its_end_keeps_the_place(browser, many) -> None:
    watched = Watched(browser, many[0])
    page = watched.page
    running, asked = {"running": True, "done": 1, "total": 2}, []

    def state(route) -> None:
        asked.append(route.request.url)
        if len(asked) == 2:  # after an answer that is lost, the next one is waited for
            return route.abort()
        return route.fulfill(json={"added": 0, "deleted": 0, "error": None, "seconds": 1.0} | running)

    page.route("**/api/v1/update", state)
    page.goto("/")
    for _ in range(3):
        expect(tiles(page).first).to_be_visible()
        page.mouse.wheel(0, 4000)
        page.evaluate("() => new Promise(done => setTimeout(done, 200))")
    place = page.evaluate("scrollY")
    assert place > 5000
    page.locator("#sentence").fill("half a sent")
    for _ in range(3):
        page.locator("#open-panel").click()
        expect(page.locator("#update-state")).to_have_text("1 of 2 new or changed photos")
        page.locator('#panel [data-do="close"]').click()
    before = len(asked)
    page.evaluate("() => new Promise(done => setTimeout(done, 2100))")
    assert 1 <= len(asked) - before <= 4  # one look in 700 milliseconds
    running["running"] = False
    with page.expect_response("**/api/v1/images?**"):
        pass
    expect(page.locator("#update-state")).to_have_text("Up to date: 0 new or changed, 0 removed.")
    expect(page.locator("#gallery")).not_to_have_class("stale")
    assert page.evaluate("scrollY") == pytest.approx(place, abs=1)
    expect(page.locator("#sentence")).to_have_value("half a sent")
    watched.context.close()


def test_near_duplicates_lie_in_stacks(browser, tmp_path: Path) -> None:
    photos = gallery(tmp_path / "photos", "red.png", "blue.png", "green.png")
    for i in range(2):
        (photos / f"red again {i}.png").write_bytes(picture("red", size=(90, 60 + i)))
    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(photos)
    for address in served(tmp_path / "index"):
        watched = Watched(browser, address, stacks=True)
        page = watched.page
        page.goto("/?q=red")
        page.reload()  # by now the server knows what looks alike
        expect(tiles(page)).to_have_count(3)
        stack = tiles(page).first.locator(".stack")
        expect(stack).to_have_text("+2")
        tiles(page).first.hover()
        tiles(page).first.locator(".pick").click()
        expect(page.locator("#selected")).to_have_text("3 selected")
        page.locator('[data-do="clear"]').click()
        links(page).first.click()
        steps = [page.locator("#viewer-path").inner_text()]
        for place in ("2 of 3 in this stack", "3 of 3 in this stack"):
            page.keyboard.press("ArrowRight")
            expect(page.locator("#viewer-facts")).to_contain_text(place)
            steps.append(page.locator("#viewer-path").inner_text())
        assert sorted(steps) == ["red again 0.png", "red again 1.png", "red.png"]
        page.keyboard.press("Escape")
        expect(links(page).first).to_be_focused()
        stack.click()
        expect(tiles(page)).to_have_count(5)
        assert [each.split("/")[-1] for each in titles(page)[:3]] == steps
        expect(stack).to_have_text("−")
        stack.click()
        expect(tiles(page)).to_have_count(3)
        page.locator("#open-panel").click()
        page.get_by_label("Stack near-duplicates").uncheck()
        page.reload()
        expect(tiles(page)).to_have_count(5)
        assert watched.errors == []
        watched.context.close()


LATE = """async () => {
  const { Stacks } = await import("/static/stacks.js");
  const headers = { "content-type": "application/json" };
  const answer = (groups) => new Response(JSON.stringify({ groups }), { headers });
  let late;
  const answers = [new Promise((come) => (late = come)), answer([])];
  window.fetch = async () => answers.shift();
  const stacks = new Stacks();
  for (let i = 0; i < 2; i += 1) await stacks.learn(2);
  late(answer([[{ id: 1 }, { id: 2 }]]));
  await new Promise((later) => setTimeout(later, 50));
  const shown = [];
  stacks.adder(() => "")(shown, [{ id: 1 }, { id: 2 }]);
  return shown.length;
}"""


def test_stacks_that_come_late_are_not_those_of_the_next_index(browser, plain_address: str) -> None:
    watched = Watched(browser, plain_address, stacks=True)
    watched.page.goto("/")
    expect(tiles(watched.page).first).to_be_visible()
    assert watched.page.evaluate(LATE) == 2
    watched.context.close()


def test_a_selection_is_of_one_index(browser, page_index: Path) -> None:
    for address in served({"one": page_index, "other": page_index}):
        watched = Watched(browser, address)
        page = watched.page
        page.goto("/?index=one")
        links(page).nth(5).focus()
        page.keyboard.press("x")
        expect(page.locator("#selection")).to_contain_text("1 selected")
        page.locator("#open-panel").click()
        page.locator("#index").select_option("other")
        expect(page).to_have_url(re.compile("index=other"))
        expect(page.locator("#selection")).to_be_hidden()
        watched.context.close()


def test_a_folder_and_dates_are_picked(browser, tmp_path: Path) -> None:
    names = ("Kitchen/red.png", "Kitchenette/red.png", "Garden party/2019/blue.png", "green.png")
    photos = gallery(tmp_path / "photos", *names)
    gallery(photos, 'LPs of 12" or more/red.png')
    os.utime(photos / "Kitchen/red.png", (981_200_000,) * 2)  # a scan knows no date but its file's
    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(photos)
    for address in served(tmp_path / "index"):
        watched = Watched(browser, address)
        page = watched.page
        page.goto("/")
        page.get_by_role("button", name="Filters").click()
        folder = page.locator("#folder")
        expect(folder.locator("option")).to_have_text(
            ["All folders", "Garden party", "Garden party/2019", "Kitchen", "Kitchenette"]
        )
        folder.select_option("Garden party")
        expect(links(page)).to_have_count(1)
        expect(links(page)).to_have_attribute("title", "Garden party/2019/blue.png")
        expect(page.locator("#chips")).to_contain_text('folder:"/Garden party/"')
        folder.select_option("Kitchen")  # and not of the Kitchenette
        expect(links(page)).to_have_attribute("title", "Kitchen/red.png")
        page.goto("/?where=folder:garden")
        expect(links(page)).to_have_attribute("title", "Garden party/2019/blue.png")
        page.get_by_role("button", name="Filters").click()
        page.locator("#from").fill("0201-02-03")  # a year that is being typed
        assert "0201" not in page.url
        page.locator("#from").fill("2001-02-03")
        expect(page.locator("#chips button")).to_have_count(2)
        expect(page.locator("#chips")).to_contain_text("taken:2001-02-03..")
        page.goto("/?where=taken:2001-02-03")
        expect(page.locator(".heading")).to_have_text(["February 2001"])
        expect(links(page)).to_have_attribute("title", "Kitchen/red.png")
        assert watched.errors == []
        watched.context.close()


def test_what_browsers_do_not_show_is_in_the_viewer_in_full_size(browser, tmp_path: Path) -> None:
    pillow_heif.register_heif_opener()
    (tmp_path / "photos").mkdir()
    for name in ("phone.heic", "scan.tif"):
        Image.new("RGB", (2400, 1800), "red").save(tmp_path / "photos" / name)
    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(tmp_path / "photos")
    for address in served(tmp_path / "index"):
        watched = Watched(browser, address)
        watched.page.goto("/")
        for name in ("phone.heic", "scan.tif"):
            watched.page.goto(f"/?view={id_of(watched.page, name)}")
            picture_ = watched.page.locator("#viewer figure img")
            expect(picture_).to_have_attribute("src", re.compile("/view"))
            assert picture_.evaluate(DECODED) == 2400
        assert watched.errors == []
        watched.context.close()


CORNERS = """async (address) => {
  const element = new Image();
  element.src = address;
  await element.decode();
  const [width, height] = [element.naturalWidth, element.naturalHeight];
  const canvas = new OffscreenCanvas(width, height).getContext("2d");
  canvas.drawImage(element, 0, 0);
  const corners = [[8, 8], [width - 8, 8], [8, height - 8], [width - 8, height - 8]];
  const pixel = ([x, y]) => [...canvas.getImageData(x, y, 1, 1).data].slice(0, 3);
  return [width, height, ...corners.flatMap(pixel)];
}"""


def test_each_orientation_of_each_format_is_shown_as_it_was_decoded(browser, tmp_path: Path) -> None:
    pillow_heif.register_heif_opener()
    quarters = Image.new("RGB", (96, 64), "white")
    for box, colour in {(0, 0, 48, 32): "red", (48, 0, 96, 32): "lime", (0, 32, 48, 64): "blue"}.items():
        quarters.paste(colour, box)
    (tmp_path / "photos").mkdir()
    for number in range(1, 9):
        exif = Image.Exif()
        exif[ExifTags.Base.Orientation] = number
        xmp = f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><a tiff:Orientation="{number}"/></x:xmpmeta>'.encode()
        for format_ in ("JPEG", "PNG", "WEBP", "AVIF", "TIFF", "HEIF", "MPO"):
            quarters.save(tmp_path / f"photos/exif {number}.{format_}", format_, exif=exif, quality=95)
        for format_ in ("JPEG", "WEBP", "AVIF"):
            quarters.save(tmp_path / f"photos/xmp {number}.{format_}", format_, xmp=xmp, quality=95)
        chunk = PngImagePlugin.PngInfo()
        chunk.add_itxt("XML:com.adobe.xmp", xmp.decode())
        quarters.save(tmp_path / f"photos/xmp {number}.PNG", pnginfo=chunk)
    for file in (tmp_path / "photos").iterdir():
        file.rename(file.with_suffix(file.suffix.lower()))
    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(tmp_path / "photos")
    wrong = []
    for address in served(tmp_path / "index"):
        watched = Watched(browser, address)
        watched.page.goto("/")
        images = watched.page.request.get("/api/v1/images?limit=200").json()["results"]
        for image in images:
            shown = watched.page.evaluate(CORNERS, f"/api/v1/images/{image['id']}/view")
            pixels = decode((tmp_path / "photos" / image["path"]).read_bytes(), image["path"])
            corners = [pixels[y, x] for y in (8, -8) for x in (8, -8)]
            wanted = [*pixels.shape[1::-1], *(int(value) for corner in corners for value in corner)]
            if np.abs(np.subtract(shown, wanted)).max() > 60:
                wrong.append(image["path"])
        watched.context.close()
    assert len(images) == 88
    assert wrong == []


def test_the_next_index_is_shown_if_the_first_cannot_be_read(browser, tmp_path: Path) -> None:
    for name in ("broken", "whole"):
        with Index.create(tmp_path / name, Colours()) as index:
            index.update_images(gallery(tmp_path / f"photos of {name}", "red.png"))
    for address in served({name: tmp_path / name for name in ("broken", "whole")}):
        os.truncate(tmp_path / "broken/index.sqlite", 0)
        watched = Watched(browser, address)
        watched.page.goto("/?q=red")
        expect(watched.page.locator("#gallery a")).to_have_count(1)
        assert watched.errors == []
        watched.context.close()


def test_photos_are_shown_while_they_are_indexed(browser, many) -> None:
    watched = Watched(browser, many[0])
    page = watched.page
    shown = page.request.get("/api/v1/images?limit=3").json()["results"]
    state, come = (
        {"running": True, "done": 0, "total": 3, "error": None, "added": 0, "deleted": 0, "seconds": None},
        [],
    )
    page.route("**/api/v1/update", lambda route: route.fulfill(json=state))
    page.route("**/api/v1/images?**", lambda route: route.fulfill(json={"results": come, "next": None}))
    months = [{"name": shown[0]["time"][:7], "images": 3}]
    page.route("**/api/v1/images/months", lambda route: route.fulfill(json={"counts": months}))
    page.goto("/")
    expect(page.locator("#message")).to_contain_text("Indexing… photos appear here as they are found.")
    come.extend(shown[1:2])
    state["done"] = 1
    expect(tiles(page)).to_have_count(1)
    expect(page.locator("#message")).to_be_hidden()
    expect(page.locator("#indexing")).to_have_text(
        "Indexing: 1 of 3 new or changed photos. The rest cannot be found yet."
    )
    links(page).first.focus()
    come[:] = shown
    state["done"] = 3
    expect(tiles(page)).to_have_count(3)
    expect(links(page).nth(1)).to_be_focused()
    state["running"] = False
    expect(page.locator("#indexing")).to_be_empty()
    watched.context.close()


@pytest.fixture(scope="module")
def locked(page_index: Path):
    """A server that asks for the token."""
    file = page_index.parent / "tokens"
    file.write_text(TOKEN)
    yield from served(page_index, token_file=file, hosts=["localhost", ELSEWHERE])


@pytest.mark.slow
def test_an_expired_cookie_asks_for_the_token_and_goes_on(browser, locked: str) -> None:
    watched = Watched(browser, locked)
    page = watched.page
    page.goto("/?q=red")
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_role("alert")).to_have_text("That token is not correct.")
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Open").click()
    expect(tiles(page)).to_have_count(18)
    assert page.url.endswith("/?q=red")
    watched.context.clear_cookies()
    ask(page, "blue")
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Open").click()
    expect(page.locator("#status")).to_have_text("Best matches for “blue”")
    assert all("401" in error for error in watched.errors)
    watched.context.close()


def test_the_token_is_taken_over_plain_http_from_another_device(browser, locked: str) -> None:
    """There browsers send no `Sec-Fetch-Site`, and a form's origin only if the referrer policy allows it."""
    watched = Watched(browser, locked.replace("127.0.0.1", ELSEWHERE))
    page = watched.page
    page.goto("/")
    assert not page.evaluate("isSecureContext")
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Open").click()
    expect(tiles(page)).to_have_count(18)
    ask(page, "blue")
    expect(page.locator("#status")).to_have_text("Best matches for “blue”")
    page.locator("#open-panel").click()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    assert watched.context.cookies() == []
    watched.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.slow
def test_the_page_that_asks_for_the_token_is_accessible(browser, locked: str, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    watched = Watched(browser, locked, color_scheme=scheme)
    page = watched.page
    page.goto("/")
    expect(page.get_by_role("button")).to_have_text("Open")
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button").click()
    expect(page.get_by_role("alert")).to_contain_text("not correct")
    assert [each["id"] for each in axe.run(page).response["violations"]] == []
    watched.context.close()


@pytest.mark.slow
def test_a_browser_that_keeps_nothing_shows_the_page(browser, plain_address: str) -> None:
    watched = Watched(browser, plain_address)
    refuse = "() => { throw new DOMException('no storage', 'SecurityError'); }"
    watched.page.add_init_script(f"Object.defineProperty(window, 'localStorage', {{ get: {refuse} }});")
    watched.page.goto("/?q=red")
    watched.page.get_by_role("button", name="Scores").click()
    expect(tiles(watched.page).first.locator(".score")).to_be_visible()
    assert watched.errors == []
    watched.context.close()


@pytest.mark.parametrize("path", ["/", "/?q=red", "/?view=17"])
@pytest.mark.parametrize("width", [320, 390])
@pytest.mark.slow
def test_a_phone_scrolls_only_downwards(browser, address: str, path: str, width: int) -> None:
    watched = Watched(browser, address, viewport={"width": width, "height": 780}, has_touch=True)
    watched.page.goto(path)
    expect(watched.page.locator(".tile").first).to_be_attached()
    assert watched.page.evaluate("document.documentElement.scrollWidth") == width
    assert watched.errors == []
    watched.context.close()


@pytest.mark.slow
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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser, address: str, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    watched = Watched(browser, address, color_scheme=scheme)
    page = watched.page
    page.emulate_media(reduced_motion="reduce")

    def check(what: str) -> None:
        found = axe.run(page).response["violations"]
        told = [(each["id"], [node["html"] for node in each["nodes"]][:3]) for each in found]
        assert not told, f"{what}: {told}"

    page.goto("/")
    expect(tiles(page)).to_have_count(18)
    check("start")
    page.goto("/?q=red+-+blue&where=taken:1970..")
    expect(tiles(page)).not_to_have_count(0)
    page.get_by_role("button", name="Scores").click()
    links(page).first.focus()
    page.keyboard.press("x")
    check("search")
    page.goto(f"/?view={id_of(page, 'large.png')}")
    expect(page.locator("#viewer")).to_be_visible()
    page.get_by_role("button", name="Details").click()
    expect(page.locator("#details")).to_contain_text("large.png")
    check("viewer")
    page.goto("/")
    page.locator("#open-panel").click()
    expect(page.locator("#counts")).to_contain_text("18 images")
    check("panel")
    page.goto("/?image=gone")
    expect(page.locator("#message")).to_be_visible()
    check("message")
    watched.context.close()
