"""Images in a page: small, told in words, framed in the right place; missing ones are named."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from PIL import Image

from seesay.data.corpus import CorpusImage
from seesay.errors import ImageError
from seesay.report.pictures import Frame, Pictures
from tests.report.made import Elements


class Bytes:
    def __init__(self, data: bytes) -> None:
        self.data, self.reads = data, 0

    def read(self) -> bytes:
        self.reads += 1
        if not self.data:
            raise ImageError("gone")
        return self.data


def encoded(width: int, height: int) -> bytes:
    out = io.BytesIO()
    Image.fromarray(np.full((height, width, 3), 200, np.uint8)).save(out, "PNG")
    return out.getvalue()


@pytest.fixture
def pictures() -> Pictures:
    sources = [Bytes(encoded(900, 300)), Bytes(b"no image"), Bytes(b""), None]
    images = [CorpusImage(f"{i}<.png", "test", source) for i, source in enumerate(sources)]
    return Pictures(images, [f"shows {i} & more" for i in range(4)])


def test_an_image_is_made_small_once_and_keeps_its_shape(pictures: Pictures) -> None:
    (img,) = Elements(pictures.of(0)).of("img")
    assert img["alt"] == "shows 0 & more"
    kind, _, data = img["src"].partition(",")
    assert kind == "data:image/jpeg;base64"
    small = Image.open(io.BytesIO(base64.b64decode(data)))
    assert (small.width, small.height) == (256, 85)
    assert pictures.of(0) == pictures.of(0)
    assert pictures.images[0].source.reads == 1


@pytest.mark.parametrize("number", [1, 2, 3], ids=["broken", "gone", "never there"])
def test_one_that_cannot_be_shown_is_named(pictures: Pictures, number: int) -> None:
    elements = Elements(pictures.of(number, [Frame((0, 0, 1, 1), "true")]))
    assert not elements.of("img")
    assert elements.of("span", class_="missing")[0]["text"] == f"{number}<.png"


def test_frames_lie_where_their_shares_say(pictures: Pictures) -> None:
    frames = [Frame((0.1, 0.2, 0.5, 1.0), "true"), Frame((0, 0, 1, 0.25), "found", 0.5)]
    rects = Elements(pictures.of(0, frames)).of("rect")
    places = [tuple(rect[key] for key in ("x", "y", "width", "height")) for rect in rects]
    assert places == [("100", "200", "400", "800")] * 2 + [("0", "0", "1000", "250")] * 2
    assert [rect["class"] for rect in rects] == ["under true", "over true", "under found", "over found"]
    assert [rect["opacity"] for rect in rects] == ["1.00"] * 2 + ["0.50"] * 2
