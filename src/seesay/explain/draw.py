"""Write an explanation as an HTML page or a PNG figure."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from PIL import Image

from seesay import html
from seesay.data.images import decode
from seesay.explain.explain import AGAINST, FAINT, FOR, LEGEND, Explanation, Reading, tint
from seesay.paths import check_output, writing

FORMATS = (".html", ".png")
# Inches: the figure's width, its margin, the image's maximum; where the sentence begins, and its width.
_WIDE, _MARGIN, _SIDE, _TALLEST = 12.0, 0.35, 4.0, 6.0
_LEFT, _ROOM = 4.75, 6.9
_HEAD, _LINE, _BAR, _GAP = 0.55, 0.33, 0.22, 0.35  # heights of a heading, a line, a bar, a gap
_NOTES, _SPACE = 1.0, 0.09  # room below the image, and between words
_KEY = "Green raises the score, orange lowers it."
_SIZE, _SMALL = 13, 9  # points
_SOFT = "#6b6862"
_LETTERS = 52  # of a window's words beside its bar
_PAGE_SIDE = 720  # pixels of the longer side of the page's image, at most

_BODY = """<main>
<figure>
<img src="data:image/jpeg;base64,{image}" alt="{name}">
<figcaption>{name}</figcaption>
<p class="note key"><i class="for"></i>for the match<i class="against"></i>against it</p>
<p class="note">{legend}</p>
{notes}
</figure>
<div>
<h1>{title}</h1>
{readings}
</div>
</main>"""

_READING = """<section>
<h2><span>{title}</span><span>score <span class="score">{score:.3f}</span></span></h2>
<p class="sentence">{sentence}</p>
<table>
{rows}
</table>
</section>"""

_ROW = """<tr{faint}><td>{text}</td><td class="bar"><div class="track" style="--zero: {zero:.1f}%">\
<i class="{side}" style="left: {left:.1f}%; width: {width:.1f}%"></i></div></td><td>{value:+.3f}</td></tr>"""


def write_explanation(image: bytes, name: str, run: str, explanation: Explanation, out: Path) -> None:
    """Write the figure for an encoded image and a sentence, as HTML or PNG depending on the suffix.

    Raises:
        ImageError: the image cannot be decoded.
        SeesayError: the file cannot be written.
    """
    check_output(out, FORMATS)
    picture = Image.fromarray(decode(image, name, min_side=720))
    with writing(out) as beside:
        if out.suffix.lower() == ".html":
            beside.write_text(html_page(picture, name, run, explanation), encoding="utf-8")
        else:
            draw_explanation(picture, run, explanation).savefig(beside, format="png", dpi=120)


def draw_explanation(picture: Image.Image, run: str, explanation: Explanation) -> Figure:
    """Draw the image and, beside it, the coloured sentence and a bar for each window of each reading."""
    laid = [_lines(explanation.pieces(reading)) for reading in explanation.readings]
    heights = [
        _HEAD + _LINE * len(lines) + _BAR * len(reading.drawn()) + _GAP
        for lines, reading in zip(laid, explanation.readings, strict=True)
    ]
    scale = min(_SIDE / picture.width, _TALLEST / picture.height)
    image = picture.height * scale
    high = max(sum(heights), image + _NOTES) + 2 * _MARGIN + _LINE
    figure = Figure(figsize=(_WIDE, high))
    axes = _axes(figure, _MARGIN, high - _MARGIN - image, picture.width * scale, image)
    axes.imshow(np.asarray(picture), aspect="auto")
    axes.axis("off")
    below = "\n".join(fill(note, 62) for note in (_KEY, LEGEND, *explanation.notes()))
    _write(figure, _MARGIN, high - _MARGIN - image - 0.1, below, size=_SMALL - 1, color=_SOFT, va="top")
    title = f"{run}: score {explanation.score:.3f}"
    _write(figure, _LEFT, high - _MARGIN - 0.15, title, size=_SMALL + 2, weight="bold")
    top = high - _MARGIN - _LINE
    for reading, lines, height in zip(explanation.readings, laid, heights, strict=True):
        _draw_reading(figure, explanation, reading, lines, top)
        top -= height
    return figure


_Line = list[tuple[str, float | None, float]]  # a piece of the sentence, its strength, where it begins


def _lines(pieces: Sequence[tuple[str, float | None]]) -> list[_Line]:
    """Pieces in lines as wide as there is room for, in inches."""
    font = FontProperties(size=_SIZE)
    lines: list[_Line] = [[]]
    at = 0.0
    for text, strength in pieces:
        if not strength and text[0].isspace() and text.strip():
            at += _SPACE
        width = text_to_path.get_text_width_height_descent(text.strip() or " ", font, ismath=False)[0] / 72
        if strength is not None and at + width > _ROOM and lines[-1]:
            lines.append([])
            at = 0.0
        if text.strip():
            lines[-1].append((text.strip(), strength, at))
            at += width
        at += _SPACE if text[-1].isspace() else 0.0
    return lines


def _draw_reading(
    figure: Figure, explanation: Explanation, reading: Reading, lines: Sequence[_Line], top: float
) -> None:
    """One reading, from `top` inches downwards."""
    _write(figure, _LEFT, top - 0.2, f"{reading.title}: {reading.score:.3f}", size=_SMALL, color=_SOFT)
    for number, line in enumerate(lines):
        for text, strength, at in line:
            ground = {"facecolor": tint(strength), "edgecolor": "none", "pad": 1.5} if strength else None
            y = top - _HEAD - _LINE * number
            _write(figure, _LEFT + at, y, text, size=_SIZE, bbox=ground)
    windows = reading.drawn()
    high = _BAR * len(windows)
    axes = _axes(figure, _LEFT + _ROOM / 2, top - _HEAD - _LINE * len(lines) - high, _ROOM / 2, high)
    values = [window.contribution for window in windows]
    largest = max(map(abs, values), default=0.0) or 1.0
    # Full colours: the length of a bar says how much.
    colours = [tint(1.0 if value > 0 else -1.0) for value in values]
    axes.barh(range(len(values)), values, color=colours, height=0.75)
    axes.axvline(0, color=_SOFT, linewidth=0.8)
    axes.set(
        ylim=(len(values) - 0.5, -0.5),
        xlim=(min(0.0, *values) - 0.2 * largest, max(0.0, *values) + 0.2 * largest),
    )
    axes.set_axis_off()
    for y, (window, value) in enumerate(zip(windows, values, strict=True)):
        row = top - _HEAD - _LINE * len(lines) - _BAR * (y + 0.5) - 0.01
        _write(figure, _LEFT, row, _shortened(explanation.text(window)), size=_SMALL, va="center")
        side = "left" if value >= 0 else "right"
        axes.annotate(
            f"{value:+.3f}",
            (value, y),
            (3 if value >= 0 else -3, 0),
            textcoords="offset points",
            ha=side,
            va="center",
            size=_SMALL - 1,
        )


def _axes(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """Axes at a place in inches."""
    wide, high = figure.get_size_inches()
    return figure.add_axes((left / wide, bottom / high, width / wide, height / high))


def _write(figure: Figure, x: float, y: float, text: str, **style: Any) -> None:
    """Text at a place in inches."""
    wide, high = figure.get_size_inches()
    figure.text(x / wide, y / high, text, parse_math=False, **style)


def _shortened(text: str) -> str:
    return text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…"


def html_page(picture: Image.Image, name: str, run: str, explanation: Explanation) -> str:
    """Return the page: the image, and for each reading the coloured sentence and a bar for each window."""
    title = f"Why {run} scores {explanation.score:.3f}"
    body = _BODY.format(
        title=escape(title),
        name=escape(name),
        image=_jpeg(picture),
        notes="\n".join(f'<p class="note">{escape(note)}</p>' for note in explanation.notes()),
        legend=LEGEND,
        readings="\n".join(_section(explanation, reading) for reading in explanation.readings),
    )
    colours = f":root {{ --for: rgb{FOR}; --against: rgb{AGAINST}; }}\n"
    style = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    return html.page(title, colours + style, body)


def _section(explanation: Explanation, reading: Reading) -> str:
    return _READING.format(
        title=escape(reading.title),
        score=reading.score,
        sentence="".join(_piece(*piece) for piece in explanation.pieces(reading)),
        rows="\n".join(_rows(explanation, reading)),
    )


def _piece(text: str, strength: float | None) -> str:
    if strength is None:
        return escape(text)
    side = "for" if strength > 0 else "against"
    return f'<mark class="{side}" style="--s: {abs(strength):.2f}">{escape(text)}</mark>'


def _rows(explanation: Explanation, reading: Reading) -> Iterator[str]:
    windows = reading.drawn()
    values = [window.contribution for window in windows]
    low, high = min(0.0, *values), max(0.0, *values)
    scale = 100 / (high - low or 1.0)
    for window, value in zip(windows, values, strict=True):
        yield _ROW.format(
            text=escape(explanation.text(window)),
            faint=' class="faint"' if abs(value) < FAINT * max(-low, high) else "",
            zero=-low * scale,
            side="for" if value > 0 else "against",
            left=(min(value, 0.0) - low) * scale,
            width=abs(value) * scale,
            value=value,
        )


def _jpeg(picture: Image.Image) -> str:
    small = picture.copy()
    small.thumbnail((_PAGE_SIDE, _PAGE_SIDE))
    out = io.BytesIO()
    small.save(out, "JPEG", quality=88)
    return base64.b64encode(out.getvalue()).decode()
