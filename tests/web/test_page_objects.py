"""The page frames objects that a detector saw."""

from __future__ import annotations

import pytest

from tests.web.browser import needs_chromium, sync_api

pytestmark = needs_chromium


def test_objects_are_framed_where_they_are(page) -> None:
    def with_an_object(route) -> None:
        response = route.fetch()
        answer = response.json()
        first = answer["results"][0]
        box = [first["width"] / 2, 0, first["width"], first["height"] / 4]
        first["objects"] = [{"name": "apple", "box": box, "confidence": 0.9}]
        route.fulfill(response=response, json=answer)

    page.route("**/api/v1/search?*", with_an_object)
    page.goto("/?q=blue")
    frame = page.locator(".tile .object")
    sync_api.expect(frame).to_have_count(1)
    assert frame.get_attribute("title") == "apple"
    inner, outer = frame.bounding_box(), page.locator(".tile").first.bounding_box()
    assert inner["x"] - outer["x"] == pytest.approx(outer["width"] / 2, abs=1)
    assert (inner["width"], inner["height"]) == pytest.approx(
        (outer["width"] / 2, outer["height"] / 4), abs=1
    )
