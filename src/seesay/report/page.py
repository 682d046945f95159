"""The page of a report: escaped HTML, sections with numbered figures and tables, and the images in it."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from pathlib import Path

from PIL import Image

from seesay.data.corpus import CorpusImage
from seesay.data.images import decode
from seesay.errors import ImageError
from seesay.results.formats import CellContent, Section, Table, as_cell

_GENERATOR = '<meta name="generator" content="seesay">'
_HEAD = 1000  # bytes, in which a page names its generator
_SIDE = 256  # pixels of the longer side of an image: twice its width on a screen, for print
_QUALITY = 72


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


def joined(parts: Iterable[str], between: str = "") -> Html:
    """Join parts, escaping those that are not HTML."""
    return Html(between.join(part if isinstance(part, Html) else escape(part) for part in parts))


def table_element(table: Table, caption: str) -> Html:
    """Return a table without sections as an element, whose rows are named by their first cell."""

    def element(content: CellContent, at: int, scope: str | None) -> Html:
        cell, side = as_cell(content), "words" if at in table.words else None
        inside = joined([cell.text, *([tag("small", cell.small)] if cell.small else [])])
        return tag("th" if scope else "td", inside, scope=scope, class_=side)

    head = tag("tr", *(element(each, at, "col") for at, each in enumerate(table.headings)))
    body = (
        tag("tr", *(element(each, at, None if at else "row") for at, each in enumerate(row)))
        for row in table.rows
        if not isinstance(row, Section)
    )
    return tag("table", tag("caption", caption), tag("thead", head), tag("tbody", *body))


class Page:
    """A page with numbered figures and tables; `about` is the line below the title."""

    def __init__(self, title: str, about: str) -> None:
        self.title, self.about = title, about
        self._headings: list[str] = []
        self._parts: list[Html] = []
        self._figures = self._tables = 0

    def section(self, heading: str) -> None:
        """Begin a section."""
        self._headings.append(heading)
        self._parts.append(tag("h2", heading, id=f"section-{len(self._headings)}"))

    def add(self, *parts: Html) -> None:
        """Add elements."""
        self._parts += parts

    def figure(self, caption: str, *parts: Html, class_: str | None = None) -> None:
        """Add a figure with its caption below."""
        self._figures += 1
        below = tag("figcaption", tag("b", f"Figure {self._figures}."), " ", caption)
        self._parts.append(tag("figure", *parts, below, class_=class_))

    def table(self, caption: str, table: Table) -> None:
        """Add a table with its caption above."""
        self._tables += 1
        numbered = joined([tag("b", f"Table {self._tables}."), " ", caption])
        self._parts.append(tag("div", table_element(table, numbered), class_="table"))

    def html(self) -> str:
        """Return the whole document, which needs no other file."""
        style = files(__package__).joinpath("style.css").read_text(encoding="utf-8")
        links = (tag("li", tag("a", h, href=f"#section-{i}")) for i, h in enumerate(self._headings, start=1))
        parts = (
            tag("header", tag("h1", self.title), tag("p", self.about)),
            tag("nav", tag("ol", *links), aria_label="Contents"),
            tag("main", joined(self._parts, "\n")),
        )
        return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
{_GENERATOR}
<meta name="viewport" content="width=device-width, initial-scale=1">
{tag("title", f"{self.title} · seesay")}
<style>
{style}</style>
</head>
<body>
{joined(parts, chr(10))}
</body>
</html>
"""


def is_page(path: Path) -> bool:
    """Return whether seesay wrote a file as a page."""
    with path.open("rb") as file:
        return _GENERATOR.encode() in file.read(_HEAD)


@dataclass(frozen=True)
class Frame:
    """A box to draw over an image."""

    box: Sequence[float]  # x1, y1, x2, y2 as shares of the image's width and height
    kind: str  # a class of the page's style


@dataclass(frozen=True)
class Pictures:
    """The images of a split, scaled down for a page, with an alternative text for each."""

    images: Sequence[CorpusImage]
    alt: Sequence[str]
    _shown: dict[int, Html | None] = field(default_factory=dict)

    def show(self, image: int, frames: Sequence[Frame] = ()) -> Html:
        """Return an image as an element, with frames over it, or its name if it cannot be read."""
        if image not in self._shown:
            self._shown[image] = self._encoded(image)
        if (picture := self._shown[image]) is None:
            return tag("span", self.images[image].name, class_="missing")
        return tag("span", picture, _overlay(frames), class_="framed") if frames else picture

    def _encoded(self, number: int) -> Html | None:
        image = self.images[number]
        if image.source is None:
            return None
        try:
            picture = Image.fromarray(decode(image.source.read(), image.name, min_side=_SIDE))
        except ImageError:
            return None
        out = io.BytesIO()
        picture.thumbnail((_SIDE, _SIDE))
        picture.save(out, "JPEG", quality=_QUALITY, optimize=True)
        source = f"data:image/jpeg;base64,{base64.b64encode(out.getvalue()).decode()}"
        return Html(tag("img", src=source, alt=self.alt[number]).removesuffix("</img>"))


def _overlay(frames: Sequence[Frame]) -> Html:
    """Draw each box twice, so that it is visible on any background."""
    lines = []
    for frame in frames:
        x1, y1, x2, y2 = (1000 * share for share in frame.box)
        place = {"x": f"{x1:.0f}", "y": f"{y1:.0f}", "width": f"{x2 - x1:.0f}", "height": f"{y2 - y1:.0f}"}
        lines += [tag("rect", **place, class_=f"{side} {frame.kind}") for side in ("under", "over")]
    return tag("svg", *lines, viewBox="0 0 1000 1000", preserveAspectRatio="none", aria_hidden="true")
