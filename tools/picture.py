"""Take the pictures of the search page for the documents, in headless Chromium, from a server on port 8000.

make demo PORT=8000, then: python tools/picture.py docs/images start viewer
python tools/picture.py docs/images page --table TABLE: of the photographs from OpenStax in TABLE under CC BY,
    which this command copies to demo/textbooks; make demo PHOTOS=demo/textbooks PORT=8000 serves them
"""

from __future__ import annotations

import json
import re
import shutil
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

ADDRESS = "http://127.0.0.1:8000/"
STATES = {"page": "?q=a+crowd+of+people", "start": "", "viewer": "?q=a+man+with+a+camera&view={first}"}
TEXTBOOKS = Path("demo/textbooks")
_VISIBLE = """[...document.querySelectorAll("main img")].map(each => each.getBoundingClientRect())
    .filter(box => box.height && box.top < innerHeight).length"""
_FREE = re.compile(r"CC[ -]BY[ -]?[234]|Attribution 2\.0 Generic|Public Domain|CC0", re.IGNORECASE)
_LESS_FREE = re.compile(r"SA|NC|ND|ShareAlike")


def collect(table: Path) -> dict[str, str]:
    """Copy a table's freely licensed photographs to `TEXTBOOKS`; return their credits by file name."""
    credits = {}
    TEXTBOOKS.mkdir(parents=True, exist_ok=True)
    for row in map(json.loads, table.read_text(encoding="utf-8").splitlines()):
        credit = str(row["credit"] or "").strip("() ")
        if row["licence"] == "CC BY 4.0" and _FREE.search(credit) and not _LESS_FREE.search(credit):
            file = table.parent / row["image"]
            credits[file.name] = re.sub(r"^credit:? *", "", credit, flags=re.IGNORECASE)
            if not (TEXTBOOKS / file.name).exists():
                shutil.copyfile(file, TEXTBOOKS / file.name)
    return credits


def take(page: Page, name: str, folder: Path) -> list[dict[str, Any]]:
    """Take a screenshot of a state; return the results that it shows."""
    query = STATES[name].partition("&view")[0]
    found = page.request.get(f"{ADDRESS}api/v1/search{query}&limit=50").json()["results"] if query else []
    page.goto(ADDRESS + STATES[name].format(first=found[0]["id"] if found else ""))
    page.wait_for_load_state("networkidle")
    page.screenshot(path=folder / f"{name}.png")
    return found[: page.evaluate(_VISIBLE)]


def main() -> None:
    """Take screenshots of 1280 × 760 pixels."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("states", nargs="+", choices=STATES)
    parser.add_argument("--table", type=Path, help="captions.jsonl of the photographs in the page's picture")
    options = parser.parse_args()
    credits = collect(options.table) if options.table else {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 760}, locale="en")
        for name in options.states:
            shown = take(page, name, options.folder)
            if credits:
                lines = [f"{i}. {credits[Path(each['path']).name]}" for i, each in enumerate(shown, 1)]
                (options.folder / "credits.md").write_text(
                    CREDITS + "\n".join(lines) + "\n", encoding="utf-8"
                )
        browser.close()


CREDITS = """# Photographs in the picture of the search page

They are from OpenStax's textbooks on business, college success, economics and nursing (CC BY 4.0,
openstax.org), made smaller. In the order of the picture, row by row:

"""


if __name__ == "__main__":
    main()
