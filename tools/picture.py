"""Take the README's picture: the search page on the demo gallery, in headless Chromium.

Serve first (`make demo PORT=8000`), then: python tools/picture.py docs/images/page.png
"""

from __future__ import annotations

import shutil
import sys

from playwright.sync_api import sync_playwright

QUERY = "a man with a camera"


def main() -> None:
    """Take one screenshot of 1280 × 760 pixels."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 760})
        page.goto(f"http://127.0.0.1:8000/?q={QUERY.replace(' ', '+')}")
        page.wait_for_load_state("networkidle")
        page.screenshot(path=sys.argv[1])
        browser.close()


if __name__ == "__main__":
    main()
