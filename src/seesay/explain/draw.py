"""Write an explanation as an HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from PIL import Image

from seesay import html
from seesay.data.images import decode
from seesay.explain import AGAINST, FAINT, FOR, LEGEND, Explanation, Reading
from seesay.html import Html, joined, picture_tag, tag
from seesay.paths import check_output, writing

FORMATS = (".html",)
_PAGE_SIDE = 720  # pixels of the longer side of the page's image, at most


def write_explanation(image: bytes, name: str, run: str, explanation: Explanation, out: Path) -> None:
    """Write the page of an encoded image and a sentence.

    Raises:
        ImageError: the image cannot be decoded.
        SeesayError: the file cannot be written.
    """
    check_output(out, FORMATS)
    picture = Image.fromarray(decode(image, name, min_side=_PAGE_SIDE))
    with writing(out) as beside:
        beside.write_text(html_page(picture, name, run, explanation), encoding="utf-8")


def html_page(picture: Image.Image, name: str, run: str, explanation: Explanation) -> str:
    """Return the page: the image, and for each reading the coloured sentence and a bar for each window."""
    title = f"Why {run} scores {explanation.score:.3f}"
    key = (tag("i", class_="for"), "for the match", tag("i", class_="against"), "against it")
    figure = (
        picture_tag(picture, _PAGE_SIDE, 88, name),
        tag("figcaption", name),
        tag("p", *key, class_="note key"),
        *(tag("p", note, class_="note") for note in (LEGEND, *explanation.notes())),
    )
    readings = (_section(explanation, reading) for reading in explanation.readings)
    body = tag("main", tag("figure", *figure), tag("div", tag("h1", title), *readings))
    colours = f":root {{ --for: rgb{FOR}; --against: rgb{AGAINST}; }}\n"
    style = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    return html.page(title, colours + style, body)


def _section(explanation: Explanation, reading: Reading) -> Html:
    score = tag("span", "score ", tag("span", f"{reading.score:.3f}", class_="score"))
    sentence = joined(_piece(*piece) for piece in explanation.pieces(reading))
    return tag(
        "section",
        tag("h2", tag("span", reading.title), score),
        tag("p", sentence, class_="sentence"),
        tag("table", *_rows(explanation, reading)),
    )


def _piece(text: str, strength: float | None) -> str:
    if strength is None:
        return text
    side = "for" if strength > 0 else "against"
    return tag("mark", text, class_=side, style=f"--s: {abs(strength):.2f}")


def _rows(explanation: Explanation, reading: Reading) -> Iterator[Html]:
    windows = reading.drawn()
    values = [window.contribution for window in windows]
    low, high = min(0.0, *values), max(0.0, *values)
    scale = 100 / (high - low or 1.0)
    for window, value in zip(windows, values, strict=True):
        place = f"left: {(min(value, 0.0) - low) * scale:.1f}%; width: {abs(value) * scale:.1f}%"
        bar = tag("i", class_="for" if value > 0 else "against", style=place)
        yield tag(
            "tr",
            tag("td", explanation.text(window)),
            tag("td", tag("div", bar, class_="track", style=f"--zero: {-low * scale:.1f}%"), class_="bar"),
            tag("td", f"{value:+.3f}"),
            class_="faint" if abs(value) < FAINT * max(-low, high) else None,
        )
