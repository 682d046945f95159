"""An explanation as one HTML page that needs nothing beside it."""

from __future__ import annotations

import base64
import io
from html import escape

from PIL import Image

from seesay import html
from seesay.explain.colours import AGAINST, FAINT, FOR
from seesay.explain.explanation import LEGEND, Explanation, Reading, Window

_SIDE = 720  # pixels of the longer side that the page's image has at most

_STYLE = """body { max-width: 76rem; padding: 2.5rem clamp(1rem, 4vw, 3rem); }
main { display: grid; grid-template-columns: minmax(0, 2fr) minmax(0, 3fr); gap: 2.5rem;
  align-items: start; }
figure { margin: 0; position: sticky; top: 2rem; }
img { display: block; width: 100%; border-radius: 8px; }
figcaption, .note { margin: .75rem 0 0; color: var(--soft); font-size: .85rem; }
section + section { margin-top: 2.5rem; padding-top: 2rem; border-top: 1px solid var(--line); }
h1 { margin: 0 0 1.75rem; font-size: 1.05rem; font-weight: 600; }
h2 { display: flex; justify-content: space-between; gap: 1rem; margin: 0;
  font-size: .85rem; font-weight: 400; color: var(--soft); }
td, .score { font-variant-numeric: tabular-nums; }
.score { color: var(--ink); font-weight: 600; }
.sentence { margin: .5rem 0 1.25rem; font-size: 1.35rem; line-height: 1.75; overflow-wrap: anywhere; }
mark { color: inherit; padding: .1em .2em; margin: 0 -.08em; border-radius: 4px;
  background: color-mix(in srgb, var(--hue) calc(var(--s) * 70%), transparent); }
.for { --hue: var(--for); }
.against { --hue: var(--against); }
table { width: 100%; border-spacing: 0 3px; font-size: .85rem; }
td { padding: 0; }
td:first-child { padding-right: 1rem; overflow-wrap: anywhere; }
td.bar { width: 38%; }
td:last-child { width: 4.5em; text-align: right; }
tr.faint { color: var(--soft); }
.track { position: relative; height: .8rem; }
.track::before { content: ""; position: absolute; inset: -3px auto -3px var(--zero); width: 1px;
  background: var(--line); }
.track i { position: absolute; top: 0; bottom: 0; border-radius: 2px; background: var(--hue); }
.key i { display: inline-block; width: .8em; height: .8em; margin: 0 .4em -.08em 0; border-radius: 2px;
  background: var(--hue); }
.key .against { margin-left: 1em; }
@media (max-width: 44rem) { main { grid-template-columns: 1fr; gap: 1.5rem; }
  figure { position: static; } }
"""

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


def page(picture: Image.Image, name: str, run: str, explanation: Explanation) -> str:
    """The page: the image, and for each reading the coloured sentence and a bar a window.

    Args:
        picture: the image, RGB.
        name: of the image.
        run: name of the run that read the sentence.
        explanation: of the two.
    """
    title = f"Why {run} scores {explanation.score:.3f}"
    body = _BODY.format(
        title=escape(title),
        name=escape(name),
        image=_jpeg(picture),
        notes="\n".join(f'<p class="note">{escape(note)}</p>' for note in explanation.notes()),
        legend=LEGEND,
        readings="\n".join(_reading(explanation, reading) for reading in explanation.readings),
    )
    colours = f":root {{ --for: rgb({_numbers(FOR)}); --against: rgb({_numbers(AGAINST)}); }}\n"
    return html.page(title, colours + _STYLE, body)


def _numbers(colour: tuple[int, ...]) -> str:
    return " ".join(map(str, colour))


def _reading(explanation: Explanation, reading: Reading) -> str:
    return _READING.format(
        title=escape(reading.title),
        score=reading.score,
        sentence=_sentence(explanation, reading),
        rows="\n".join(_rows(explanation, reading)),
    )


def _sentence(explanation: Explanation, reading: Reading) -> str:
    return "".join(_piece(*piece) for piece in explanation.pieces(reading))


def _piece(text: str, strength: float | None) -> str:
    if strength is None:
        return escape(text)
    side = "for" if strength > 0 else "against"
    return f'<mark class="{side}" style="--s: {abs(strength):.2f}">{escape(text)}</mark>'


def _rows(explanation: Explanation, reading: Reading) -> list[str]:
    windows = reading.drawn()
    values = [window.contribution for window in windows]
    low, high = min(0.0, *values), max(0.0, *values)
    scale = 100 / (high - low or 1.0)
    most = max(-low, high)
    return [_row(explanation.text(window), window, -low * scale, scale, most) for window in windows]


def _row(text: str, window: Window, zero: float, scale: float, most: float) -> str:
    value = window.contribution
    return _ROW.format(
        text=escape(text),
        faint=' class="faint"' if abs(value) < FAINT * most else "",
        zero=zero,
        side="for" if value > 0 else "against",
        left=zero + min(value, 0.0) * scale,
        width=abs(value) * scale,
        value=value,
    )


def _jpeg(picture: Image.Image) -> str:
    small = picture.copy()
    small.thumbnail((_SIDE, _SIDE))
    out = io.BytesIO()
    small.save(out, "JPEG", quality=88)
    return base64.b64encode(out.getvalue()).decode()
