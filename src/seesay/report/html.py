"""HTML of parts that are escaped where they are put in, and a page that numbers its figures and tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} · seesay</title>
<style>
{style}</style>
</head>
<body>
<header>
<h1>{title}</h1>
{about}
</header>
<nav aria-label="Contents">
{contents}
</nav>
<main>
{sections}
</main>
</body>
</html>
"""


class Html(str):
    """What is HTML already; any other string is escaped where it is put into an element."""

    __slots__ = ()


def tag(name: str, *inside: str, **attributes: object) -> Html:
    """An element and what is inside it; of attributes None leaves one away, and `class_` is class.

    >>> tag("b", "1 < 2", class_="loud")
    '<b class="loud">1 &lt; 2</b>'
    """
    given = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
    told = "".join(f' {key}="{escape(str(value))}"' for key, value in given.items() if value is not None)
    return Html(f"<{name}{told}>{joined(inside)}</{name}>")


def void(name: str, **attributes: object) -> Html:
    """An element that holds nothing, such as an image."""
    return Html(tag(name, **attributes).removesuffix(f"</{name}>"))


def joined(parts: Iterable[str], between: str = "") -> Html:
    """The parts one behind the other."""
    return Html(between.join(part if isinstance(part, Html) else escape(part) for part in parts))


def definitions(pairs: Iterable[tuple[str, str]]) -> Html:
    """Names, each with what it is."""
    return tag("dl", *(part for name, value in pairs for part in (tag("dt", name), tag("dd", value))))


class Page:
    """A page in sections; its figures and tables are numbered in their order.

    Args:
        title: of the page.
        about: lines below it.
    """

    def __init__(self, title: str, about: Sequence[str]) -> None:
        self.title, self.about = title, about
        self._headings: list[str] = []
        self._parts: list[Html] = []
        self._figures = self._tables = 0

    def section(self, heading: str) -> None:
        """Begin a section."""
        self._headings.append(heading)
        self._parts.append(tag("h2", heading, id=f"section-{len(self._headings)}"))

    def heading(self, heading: str) -> None:
        """Begin a part of a section."""
        self._parts.append(tag("h3", heading))

    def text(self, *lines: str) -> None:
        """A paragraph a line."""
        self._parts += [tag("p", line) for line in lines]

    def add(self, part: Html) -> None:
        """What is neither text nor figure nor table."""
        self._parts.append(part)

    def figure(self, says: str, *parts: Html, class_: str | None = None) -> None:
        """A figure of some parts, and what it says below it."""
        self._figures += 1
        told = tag("figcaption", tag("b", f"Figure {self._figures}."), " ", says)
        self._parts.append(tag("figure", *parts, told, class_=class_))

    def table(self, says: str, columns: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> None:
        """A table; the first column names the rows, the first `words` columns are no numbers."""
        self._tables += 1
        told = tag("caption", tag("b", f"Table {self._tables}."), " ", says)
        sides = ["words" if i < words else None for i in range(len(columns))]
        head = (tag("th", name, scope="col", class_=side) for name, side in zip(columns, sides, strict=True))
        body = (
            tag(
                "tr",
                tag("th", row[0], scope="row", class_="words"),
                *(tag("td", cell, class_=side) for cell, side in zip(row[1:], sides[1:], strict=True)),
            )
            for row in rows
        )
        table = tag("table", told, tag("thead", tag("tr", *head)), tag("tbody", *body))
        self._parts.append(tag("div", table, class_="table"))

    def html(self) -> str:
        """All of it, as one document that needs nothing beside it."""
        links = (tag("li", tag("a", h, href=f"#section-{i}")) for i, h in enumerate(self._headings, start=1))
        return _PAGE.format(
            title=escape(self.title),
            style=files(__package__).joinpath("style.css").read_text(encoding="utf-8"),
            about=joined((tag("p", line) for line in self.about), "\n"),
            contents=tag("ol", *links),
            sections=joined(self._parts, "\n"),
        )
