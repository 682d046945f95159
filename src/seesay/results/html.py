"""HTML elements whose text is escaped, and the document around every page that seesay writes."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

# The colours and the font of all pages; a page appends its own rules.
STYLE = """:root {
  color-scheme: light dark;
  --ink: light-dark(#1c1b19, #eceae6);
  --soft: light-dark(#66635d, #a8a49c);
  --ground: light-dark(#ffffff, #161514);
  --line: light-dark(#dedbd5, #3a3733);
}
body { margin: 0 auto; background: var(--ground); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
"""


_GENERATOR = '<meta name="generator" content="seesay">'
_HEAD = 1000  # bytes, in which a page names its generator


def is_page(path: Path) -> bool:
    """Return whether seesay wrote a file as a page."""
    with path.open("rb") as file:
        return _GENERATOR.encode() in file.read(_HEAD)


class Html(str):
    """Text that is already HTML; other strings are escaped in elements."""

    __slots__ = ()


def tag(name: str, *inside: str, **attributes: object) -> Html:
    """Return an element. Attributes that are None are left out; write `class_` for `class`.

    >>> tag("b", "1 < 2", class_="loud")
    '<b class="loud">1 &lt; 2</b>'
    """
    named = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
    written = "".join(f' {key}="{escape(str(value))}"' for key, value in named.items() if value is not None)
    return Html(f"<{name}{written}>{joined(inside)}</{name}>")


def picture_tag(picture: Image, side: int, quality: int, alt: str) -> Html:
    """Return an element that embeds an image, as a JPEG whose longer side has at most `side` pixels."""
    small, out = picture.copy(), io.BytesIO()
    small.thumbnail((side, side))
    small.save(out, "JPEG", quality=quality, optimize=True)
    source = f"data:image/jpeg;base64,{base64.b64encode(out.getvalue()).decode()}"
    return Html(tag("img", src=source, alt=alt).removesuffix("</img>"))


def joined(parts: Iterable[str], between: str = "") -> Html:
    """Join parts, escaping those that are not HTML."""
    return Html(between.join(part if isinstance(part, Html) else escape(part) for part in parts))


def page(title: str, style: str, body: str) -> str:
    """Return a self-contained document.

    Args:
        title: plain text; " · seesay" is appended.
        style: CSS, added to STYLE.
        body: HTML of the body.
    """
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
{_GENERATOR}
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)} · seesay</title>
<style>
{STYLE}{style}</style>
</head>
<body>
{body}
</body>
</html>
"""
