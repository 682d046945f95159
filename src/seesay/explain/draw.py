"""Write an explanation as an HTML page."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from html import escape
from importlib.resources import files
from pathlib import Path

from PIL import Image

from seesay import html
from seesay.data.images import decode
from seesay.explain import AGAINST, FAINT, FOR, LEGEND, Explanation, Reading
from seesay.paths import check_output, writing

FORMATS = (".html",)
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
    """Write the page of an encoded image and a sentence.

    Raises:
        ImageError: the image cannot be decoded.
        SeesayError: the file cannot be written.
    """
    check_output(out, FORMATS)
    picture = Image.fromarray(decode(image, name, min_side=720))
    with writing(out) as beside:
        beside.write_text(html_page(picture, name, run, explanation), encoding="utf-8")


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
