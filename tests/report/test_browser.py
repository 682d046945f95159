"""The report in a real, headless Chromium: opened from the disk, on screens of two widths, and printed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.web.browser import needs_chromium

pytestmark = needs_chromium

LOADED = "() => [...document.images].every(image => image.complete && image.naturalWidth > 0)"
WIDE = """() => [...document.querySelectorAll('body *')].filter(element => {
    const box = element.getBoundingClientRect();
    return box.right > innerWidth + 1 && !element.closest('.table, figure');
}).map(element => element.outerHTML.slice(0, 80))"""


@pytest.fixture(params=["matching_page", "grounding_page"])
def address(request) -> str:
    path: Path = request.getfixturevalue(request.param)
    return path.as_uri()


@pytest.fixture(params=["light", "dark"])
def page(request, browser, address: str) -> Iterator:
    """The opened page; at the end nothing was asked for but the file, and nothing was wrong."""
    context = browser.new_context(color_scheme=request.param, offline=True)
    made = context.new_page()
    made.set_default_timeout(60_000)
    asked, errors = [], []
    made.on("request", lambda sent: asked.append(sent.url))
    made.on("console", lambda said: errors.append(said.text) if said.type in ("error", "warning") else None)
    made.on("pageerror", lambda error: errors.append(str(error)))
    made.goto(address)
    yield made
    context.close()
    assert [url for url in asked if not url.startswith("data:")] == [address]
    assert errors == []


def test_it_is_all_there_and_fits(page) -> None:
    assert page.evaluate(LOADED)
    assert page.locator("h2").count() >= 4
    for link in page.locator("nav a").all():
        target = link.get_attribute("href")
        assert page.locator(target).count() == 1
    assert page.locator("img").count() > 5
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(WIDE) == []


def test_text_stands_out_from_its_ground(page) -> None:
    """Contrast of 4.5 to 1 at least, as WCAG 2 AA asks of text."""
    read = """name => {
        const probe = document.body.appendChild(document.createElement('i'));
        probe.style.color = `var(${name})`;
        const found = getComputedStyle(probe).color.match(/[\\d.]+/g).slice(0, 3).map(Number);
        probe.remove();
        return found;
    }"""
    ground = luminance(page.evaluate(read, "--ground"))
    for name in ("--ink", "--soft", "--right"):
        assert contrast(luminance(page.evaluate(read, name)), ground) >= 4.5, name
    for series in range(6):  # lines and bars: 3 to 1
        assert contrast(luminance(page.evaluate(read, f"--series-{series}")), ground) >= 3, series


def test_it_prints(page) -> None:
    page.emulate_media(media="print")
    assert page.evaluate(WIDE) == []
    assert page.locator("nav").is_hidden()
    assert page.pdf(format="A4", print_background=True).startswith(b"%PDF-")


def luminance(rgb: list[float]) -> float:
    shares = [value / 255 for value in rgb]
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: float, b: float) -> float:
    return (max(a, b) + 0.05) / (min(a, b) + 0.05)
