"""A real, headless Chromium: what the tests of the page share."""

import shutil
from collections.abc import Iterator

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="needs the playwright package")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

needs_chromium = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium (apt-get install chromium)"),
]

ELSEWHERE = "photos.example"
"""This machine, by a name that a browser does not take for its own."""

QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium() -> Iterator:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            headless=True,
            args=[*QUIET, f"--host-resolver-rules=MAP {ELSEWHERE} 127.0.0.1"],
        )
        yield browser
        browser.close()


class Watched:
    """A page whose console errors and requests to other sites are collected.

    The coloured images of most tests look alike: without `stacks` each is shown.
    """

    def __init__(self, browser, address: str, stacks: bool = False, **context) -> None:
        self.context = browser.new_context(base_url=address, **context)
        if not stacks:
            self.context.add_init_script("localStorage.setItem('seesay-stacks', 'no')")
        self.page = self.context.new_page()
        self.page.set_default_timeout(10_000)
        self.errors: list[str] = []
        self.foreign: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        local = (address, "blob:", "data:")
        self.page.on(
            "request", lambda sent: None if sent.url.startswith(local) else self.foreign.append(sent.url)
        )
