"""Images of a corpus small enough to stand in a page, with boxes drawn over them where there are some."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass, field

from PIL import Image

from seesay.data.corpus import CorpusImage
from seesay.data.pixels import decode
from seesay.errors import ImageError
from seesay.report.html import Html, tag, void

_SIDE = 256  # pixels of the longer side: twice the width on a screen, for print
_QUALITY = 72

Box = Sequence[float]


@dataclass(frozen=True)
class Frame:
    """A box, x1 y1 x2 y2 as shares of the image's width and height.

    `kind` is a class of the page's style, `strength` in 0..1 how opaque it is.
    """

    box: Box
    kind: str
    strength: float = 1.0


@dataclass(frozen=True)
class Pictures:
    """The images of a split as elements of a page.

    Attributes:
        images: of the split.
        told: what each shows, for those who do not see it.
    """

    images: Sequence[CorpusImage]
    told: Sequence[str]
    _kept: dict[int, str | None] = field(default_factory=dict)

    def of(self, image: int, frames: Sequence[Frame] = ()) -> Html:
        """An image, framed where boxes are wanted; its name where it is not at hand or broken."""
        if image not in self._kept:
            self._kept[image] = self._encoded(image)
        data = self._kept[image]
        if data is None:
            return tag("span", self.images[image].name, class_="missing")
        picture = void("img", src=f"data:image/jpeg;base64,{data}", alt=self.told[image])
        return tag("span", picture, _overlay(frames), class_="framed") if frames else picture

    def _encoded(self, image: int) -> str | None:
        source, name = self.images[image].source, self.images[image].name
        if source is None:
            return None
        try:
            small = Image.fromarray(decode(source.read(), name, min_side=_SIDE))
        except ImageError:
            return None
        small.thumbnail((_SIDE, _SIDE))
        out = io.BytesIO()
        small.save(out, "JPEG", quality=_QUALITY, optimize=True)
        return base64.b64encode(out.getvalue()).decode()


def _overlay(frames: Sequence[Frame]) -> Html:
    """The boxes as lines that stay sharp; each twice, so that it shows on any ground."""
    lines = []
    for frame in frames:
        x1, y1, x2, y2 = (1000 * share for share in frame.box)
        place = {"x": f"{x1:.0f}", "y": f"{y1:.0f}", "width": f"{x2 - x1:.0f}", "height": f"{y2 - y1:.0f}"}
        for side in ("under", "over"):
            lines.append(tag("rect", **place, class_=f"{side} {frame.kind}", opacity=f"{frame.strength:.2f}"))
    return tag("svg", *lines, viewBox="0 0 1000 1000", preserveAspectRatio="none", aria_hidden="true")
