"""Draw groundings: each phrase and its boxes in one colour."""

from __future__ import annotations

from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from seesay.data.corpus import Box
from seesay.data.pixels import decode
from seesay.grounding.ground import Grounding
from seesay.paths import check_output, writing

# Okabe and Ito's colours, distinct for every kind of colour vision, best contrast first; black is for text.
COLOURS = ("#e69f00", "#56b4e9", "#009e73", "#f0e442", "#d55e00", "#cc79a7", "#0072b2")

FORMATS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG"}


def colour(number: int) -> str:
    """Return the colour of the phrase with that number, `#rrggbb`; they repeat."""
    return COLOURS[number % len(COLOURS)]


def write_grounding(image: bytes, name: str, grounding: Grounding, out: Path) -> None:
    """Draw a grounding over its image and write the picture, PNG or JPEG by its suffix.

    Raises:
        ImageError: the image cannot be decoded.
        SeesayError: the picture cannot be written there.
    """
    check_output(out, FORMATS)
    picture = draw_grounding(Image.fromarray(decode(image, name)), grounding)
    with writing(out) as beside:
        picture.save(beside, FORMATS[out.suffix.lower()], quality=92)


def draw_grounding(image: Image.Image, grounding: Grounding) -> Image.Image:
    """Draw boxes on a copy of an upright RGB image, and label the best one of each phrase with its score."""
    picture = image.copy()
    draw = ImageDraw.Draw(picture)
    line = max(2, round((image.width * image.height) ** 0.5 / 160))
    for i, phrase in enumerate(grounding.phrases):
        for place in phrase.places:
            _draw_box(draw, place.box, colour(i), line)
    labels = _Labels(draw, picture.size, line)
    for i, phrase in enumerate(grounding.phrases):
        if phrase.places:
            best = phrase.places[0]
            labels.draw(f"{phrase.text} {best.score:.2f}", best.box, colour(i))
    return picture


def _draw_box(draw: ImageDraw.ImageDraw, box: Box, fill: str, line: int) -> None:
    """A frame within the box, between two thin black ones that show it on its own colour."""
    edge = max(1, line // 3)
    for inset, outline, width in ((0, "black", line + 2 * edge), (edge, fill, line)):
        x1, y1 = box[0] + inset, box[1] + inset
        x2, y2 = box[2] - 1 - inset, box[3] - 1 - inset
        if x1 <= x2 and y1 <= y2:
            draw.rectangle((x1, y1, x2, y2), outline=outline, width=width)


class _Labels:
    """Writes labels on coloured grounds, without overlap if there is room."""

    def __init__(self, draw: ImageDraw.ImageDraw, size: tuple[int, int], line: int) -> None:
        self._draw, self._size, self._pad = draw, size, line
        self._font = ImageFont.load_default(size=max(11, 9 * line // 2))
        self._taken: list[Box] = []

    def draw(self, text: str, box: Box, ground: str) -> None:
        text = self._fitting(text)
        left, top, right, bottom = self._draw.textbbox((0, 0), text, font=self._font)
        room = self._room(box, right - left + 2 * self._pad, bottom - top + 2 * self._pad)
        self._taken.append(room)
        x1, y1, x2, y2 = room
        self._draw.rectangle((x1, y1, x2 - 1, y2 - 1), fill=ground)
        at = x1 + self._pad - left, y1 + self._pad - top
        self._draw.text(at, text, fill=text_colour(ground), font=self._font)

    def _room(self, box: Box, width: float, height: float) -> Box:
        """Above the box, within its top, within its bottom or below it, and within the image."""
        max_x, max_y = max(self._size[0] - width, 0), max(self._size[1] - height, 0)
        x = min(max(box[0], 0), max_x)
        wanted = (box[1] - height, box[1], box[3] - height, box[3])
        rows = [y for y in wanted if 0 <= y <= max_y] or [min(max(box[1], 0), max_y)]
        rooms = [(x, y, x + width, y + height) for y in rows]
        return next((r for r in rooms if not any(_meet(r, other) for other in self._taken)), rooms[0])

    def _fitting(self, text: str) -> str:
        """The text, cut to the width of the image."""
        width = self._size[0] - 2 * self._pad
        while self._draw.textlength(text, font=self._font) > width and len(text) > 1:
            text = text.removesuffix("…")[:-1] + "…"
        return text


def _meet(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def text_colour(ground: str) -> str:
    """Return "black" or "white", whichever has more contrast (WCAG 2) on `#rrggbb`."""
    shares = [int(ground[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "black" if (luminance + 0.05) / 0.05 >= 1.05 / (luminance + 0.05) else "white"
