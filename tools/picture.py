"""Take the documents' pictures of the search page on the demo gallery, in headless Chromium.

Serve first (`make demo PORT=8000`), then: python tools/picture.py docs/images
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

ADDRESS = "http://127.0.0.1:8000/"
PICTURES = {"page": "?q=a+man+with+a+camera", "start": "", "viewer": "?q=a+man+with+a+camera&view={first}"}


def main() -> None:
    """Take a screenshot of 1280 × 760 pixels of each state."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 760}, locale="en")
        found = page.request.get(f"{ADDRESS}api/v1/search{PICTURES['page']}&limit=1").json()
        for name, state in PICTURES.items():
            page.goto(ADDRESS + state.format(first=found["results"][0]["id"]))
            page.wait_for_load_state("networkidle")
            page.screenshot(path=Path(sys.argv[1]) / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
