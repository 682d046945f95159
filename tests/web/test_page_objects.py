"""The page frames objects that a detector saw."""

from __future__ import annotations

import re

import pytest

from tests.web.browser import needs_chromium, sync_api

pytestmark = [*needs_chromium, pytest.mark.slow]


def test_objects_are_framed_and_named_where_they_are(page) -> None:
    def with_an_object(route) -> None:
        response = route.fetch()
        answer = response.json()
        first = answer["results"][0]
        wide = next(image for image in answer["results"] if image["path"] == "wide.png")  # is cropped
        for image in (first, wide):
            box = [image["width"] / 2, 0, image["width"], image["height"] / 4]
            image["objects"] = [{"name": "apple", "box": box, "confidence": 0.9}]
        route.fulfill(response=response, json=answer)

    page.route("**/api/v1/search?*", with_an_object)
    page.goto("/?q=blue")
    frame = page.locator(".tile .object")
    sync_api.expect(frame).to_have_count(1)
    sync_api.expect(frame).to_have_text("apple")
    sync_api.expect(page.locator(".tile a").first).to_have_accessible_name(re.compile("^blue.* apple$"))
    inner, outer = frame.bounding_box(), page.locator(".tile").first.bounding_box()
    assert inner["x"] - outer["x"] == pytest.approx(outer["width"] / 2, abs=1)
    assert (inner["width"], inner["height"]) == pytest.approx(
        (outer["width"] / 2, outer["height"] / 4), abs=1
    )
