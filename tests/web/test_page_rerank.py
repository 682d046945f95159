"""The switch of re-ranking on the page, in a real, headless Chromium."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from seesay.runs.run import Run
from seesay.search.rerank import Reranker
from tests.search.colours import opened, picture
from tests.web.browser import Watched, needs_chromium, sync_api

pytestmark = [*needs_chromium, pytest.mark.slow]

TEXT = "a red circle is above a blue square"


def titles(page) -> list[str]:
    return page.locator(".tile").evaluate_all("tiles => tiles.map(tile => tile.firstChild.title)")


def test_it_changes_the_order_the_address_and_the_status(page, page_index: Path, pair_run: Path) -> None:
    with opened(page_index) as index:
        plain = [hit.path for hit in index.search(TEXT, 40)]
        ranked = Reranker(Run.load(str(pair_run))).search(index, TEXT, 40).hits
    page.goto(f"/?q={TEXT}")
    sync_api.expect(page.locator(".tile")).to_have_count(18)
    assert titles(page) == plain
    assert "re-ranked" not in page.locator("#status").inner_text()
    page.get_by_label("Re-rank").check()
    sync_api.expect(page.locator("#status")).to_have_text(re.compile(r"^Best matches for .* · 18 re-ranked$"))
    assert titles(page) == [hit.path for hit in ranked]
    first = page.locator(".tile").first
    page.get_by_role("button", name="Scores").click()
    sync_api.expect(first).to_contain_text(f"{ranked[0].score:.2f} · was {ranked[0].shortlist_rank}")
    first.locator("a").click()
    page.get_by_role("button", name="Details").click()
    sync_api.expect(page.locator("#details")).to_contain_text(f"was {ranked[0].shortlist_rank}")
    page.keyboard.press("Escape")
    sync_api.expect(page.locator("#viewer")).to_be_hidden()
    assert page.url.endswith("&rerank=1")
    page.reload()
    sync_api.expect(page.get_by_label("Re-rank")).to_be_checked()
    sync_api.expect(page.locator("#status")).to_contain_text("re-ranked")
    page.go_back()
    sync_api.expect(page.get_by_label("Re-rank")).not_to_be_checked()
    sync_api.expect(page.locator("#status")).not_to_contain_text("re-ranked")
    assert titles(page) == plain


def test_it_can_be_set_before_the_first_question(page) -> None:
    page.goto("/")
    page.get_by_label("Re-rank").check()
    page.locator("#sentence").fill("red")
    page.locator("#sentence").press("Enter")
    sync_api.expect(page.locator("#status")).to_contain_text("re-ranked")
    sync_api.expect(page.get_by_label("Re-rank")).to_be_checked()


def test_sentences_of_an_image_are_re_ranked(page, tmp_path: Path) -> None:
    (tmp_path / "mine.png").write_bytes(picture("red"))
    page.goto("/")
    page.get_by_label("Re-rank").check()
    page.locator("#file").set_input_files(tmp_path / "mine.png")
    sync_api.expect(page.locator("#sentences li")).to_have_count(5)
    ranked = page.locator("#sentences li").all_inner_texts()
    page.get_by_label("Re-rank").uncheck()
    sync_api.expect(page.locator("#sentences li")).not_to_have_text(ranked)
    sync_api.expect(page.locator("#given")).to_be_visible()


def test_a_question_before_the_first_answer_is_re_ranked_too(page) -> None:
    held = []
    page.route("**/api/v1/indexes", lambda route: held.append(route))
    with page.expect_request("**/api/v1/indexes"):
        page.goto("/?rerank=1")
    page.locator("#sentence").fill("red")
    page.locator("#sentence").press("Enter")
    with page.expect_request("**/api/v1/search?**") as asked:
        held[0].continue_()
    assert "rerank=1" in asked.value.url


def test_a_server_without_a_run_shows_no_switch(browser, plain_address: str) -> None:
    watched = Watched(browser, plain_address)
    watched.page.goto("/?q=red&rerank=1")
    sync_api.expect(watched.page.locator(".tile")).to_have_count(18)
    sync_api.expect(watched.page.locator("#rerank-switch")).to_be_hidden()
    assert (watched.errors, watched.foreign) == ([], [])
    watched.context.close()


@pytest.mark.parametrize("path", ["/", "/?q=red&rerank=1"])
@pytest.mark.parametrize("width", [320, 390, 1280])
def test_there_is_room_for_it(browser, address: str, path: str, width: int) -> None:
    watched = Watched(browser, address, viewport={"width": width, "height": 780})
    page = watched.page
    page.goto(path)
    switch, form = (page.locator(name) for name in ("#rerank-switch", "#form"))
    sync_api.expect(switch).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    beside, field = switch.bounding_box(), form.bounding_box()
    assert beside["x"] + beside["width"] <= width
    below = beside["y"] >= field["y"] + field["height"]
    assert below or beside["x"] >= field["x"] + field["width"]
    assert field["width"] >= 200
    watched.context.close()
