"""Figures of explanations: what they hold, what is escaped, and that any sentence can be drawn."""

from __future__ import annotations

import base64
import io
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from PIL import Image

from seesay.errors import ImageError, SeesayError
from seesay.explain import Explanation, Reading, Window, Word, terminal_style
from seesay.explain.draw import FORMATS, html_page, write_explanation
from seesay.paths import check_output

NASTY = "<script>alert('x')</script> & \"dog\" $x^2$ {title}"


def explained(sentence: str, *values: float, level: str = "words") -> Explanation:
    spans = [match.span() for match in re.finditer(r"\w+", sentence)]
    words = tuple(Word(sentence[a:b], a, b, True) for a, b in spans)
    given = values or tuple((-1) ** i * 0.1 * (i % 7) for i in range(len(words)))
    windows = tuple(Window(i, i + 1, value) for i, value in enumerate(given))
    return Explanation(sentence, words, 0, (Reading(level, 1.5, windows, given),))


def picture(size: tuple[int, int] = (90, 60)) -> Image.Image:
    return Image.new("RGB", size, "teal")


def png() -> bytes:
    out = io.BytesIO()
    picture().save(out, "PNG")
    return out.getvalue()


class Page(HTMLParser):
    """The elements of a page with their attributes, and its text by element."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in self._open:
            self.texts.setdefault(tag, []).append(data)


def test_the_page_is_whole_and_escaped() -> None:
    found = Page(html_page(picture(), '"><script>evil</script>.jpg', "<b>run</b>", explained(NASTY)))
    tags = {tag for tag, _ in found.elements}
    assert not tags & {"script", "link", "iframe", "b", "a"}
    assert not any(key.startswith("on") for _, attributes in found.elements for key in attributes)
    assert NASTY in "".join(found.texts["section"])
    (image,) = [attributes for tag, attributes in found.elements if tag == "img"]
    assert image["alt"] == '"><script>evil</script>.jpg'
    kind, data = (image["src"] or "").split(",")
    assert kind == "data:image/jpeg;base64"
    with Image.open(io.BytesIO(base64.b64decode(data))) as shown:
        assert shown.size == (90, 60)


def test_bars_and_colours_are_the_contributions() -> None:
    found = Page(html_page(picture(), "x.jpg", "run", explained("red dog here", 0.3, -0.1, 0.0)))
    words = [(a["class"], a["style"]) for tag, a in found.elements if tag == "mark"]
    assert words == [("for", "--s: 1.00"), ("against", "--s: 0.33"), ("against", "--s: 0.00")]
    bars = [(a["class"], a["style"]) for tag, a in found.elements if tag == "i" and "style" in a]
    assert bars == [
        ("for", "left: 25.0%; width: 75.0%"),
        ("against", "left: 0.0%; width: 25.0%"),
        ("against", "left: 25.0%; width: 0.0%"),
    ]
    assert [text for text in found.texts["td"] if text[0] in "+-"] == ["+0.300", "-0.100", "+0.000"]


def test_a_page_has_a_section_for_each_reading() -> None:
    one = explained("a dog", 0.1, 0.2)
    both = Explanation(
        one.sentence, one.words, 3, (one.readings[0], explained("a dog", 0.3, 0.4).readings[0])
    )
    text = html_page(picture((3000, 1500)), "x.jpg", "run", both)
    assert text.count("<section>") == 2
    assert "scores 3.000" in text
    assert "The last 3 words were ignored" in text
    data = re.search(r"base64,([^\"]+)", text)
    assert data is not None
    with Image.open(io.BytesIO(base64.b64decode(data[1]))) as shown:
        assert shown.size == (720, 360)


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(SeesayError, match=r"why\.gif: the name must end in \.html; choose"):
        check_output(tmp_path / "why.gif", FORMATS)
    with pytest.raises(SeesayError, match="nowhere: no such folder"):
        check_output(tmp_path / "nowhere" / "why.html", FORMATS)
    (tmp_path / "why.html").mkdir()
    with pytest.raises(SeesayError, match="cannot be written"):
        write_explanation(png(), "x", "run", explained("dog"), tmp_path / "why.html")
    with pytest.raises(ImageError, match="photo"):
        write_explanation(b"", "photo", "run", explained("dog"), tmp_path / "other.html")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["why.html"]


def test_colours_on_a_terminal_go_from_against_to_for() -> None:
    assert [terminal_style(s) for s in (-1, -0.3, 0.05, 0.3, 1)] == [
        "bold red",
        "red",
        "",
        "green",
        "bold green",
    ]
