"""A page numbers its figures and tables; its images are small, described, and framed in the right place."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from PIL import Image

from seesay.data.corpus import CorpusImage
from seesay.errors import ImageError
from seesay.report.page import Frame, Page, Pictures, tag
from seesay.results.formats import Table
from tests.report.made import Elements

BAD = "<script>alert('x')</script> & \"y\""


@pytest.fixture
def page() -> Elements:
    made = Page(BAD, BAD)
    made.section(BAD)
    made.add(tag("h3", BAD), tag("p", BAD))
    made.figure("first", tag("i", "a"))
    made.table("only", Table(["", BAD, "n"], [[BAD, BAD, "1"], ["b", "c", "2"]], words={0, 1}))
    made.figure("second", tag("i", "b"), class_="cards")
    made.section("Second")
    made.add(tag("dl", tag("dt", BAD), tag("dd", BAD)), tag("pre", BAD))
    return Elements(made.html())


def test_a_page_is_whole_and_escaped(page: Elements) -> None:
    assert not page.of("script")
    for name in ("h1", "h2", "h3", "dt", "dd", "pre"):
        assert page.of(name)[0]["text"] == BAD


def test_figures_and_tables_are_numbered_by_themselves(page: Elements) -> None:
    assert [e["text"] for e in page.of("figcaption")] == ["Figure 1. first", "Figure 2. second"]
    assert [e["text"] for e in page.of("caption")] == ["Table 1. only"]


def test_the_contents_link_to_the_sections(page: Elements) -> None:
    links = {e["href"]: e["text"] for e in page.of("a")}
    assert links == {f"#{e['id']}": e["text"] for e in page.of("h2")}
    assert len(links) == 2


def test_a_table_names_rows_and_columns(page: Elements) -> None:
    assert [e["text"] for e in page.of("th", scope="col")] == ["", BAD, "n"]
    assert [e["text"] for e in page.of("th", scope="row")] == [BAD, "b"]
    cells = [(BAD, "words"), ("1", None), ("c", "words"), ("2", None)]
    assert [(e["text"], e.get("class")) for e in page.of("td")] == cells


class Bytes:
    def __init__(self, data: bytes) -> None:
        self.data, self.reads = data, 0

    def read(self) -> bytes:
        self.reads += 1
        if not self.data:
            raise ImageError("gone")
        return self.data


@pytest.fixture
def pictures() -> Pictures:
    out = io.BytesIO()
    Image.fromarray(np.full((300, 900, 3), 200, np.uint8)).save(out, "PNG")
    sources = [Bytes(out.getvalue()), Bytes(b"no image"), Bytes(b""), None]
    images = [CorpusImage(f"{i}<.png", "test", source) for i, source in enumerate(sources)]
    return Pictures(images, [f"shows {i} & more" for i in range(4)])


def test_an_image_is_made_small_once_and_keeps_its_shape(pictures: Pictures) -> None:
    (img,) = Elements(pictures.show(0)).of("img")
    assert img["alt"] == "shows 0 & more"
    kind, _, data = img["src"].partition(",")
    assert kind == "data:image/jpeg;base64"
    assert Image.open(io.BytesIO(base64.b64decode(data))).size == (256, 85)
    assert pictures.show(0) == pictures.show(0)
    assert pictures.images[0].source.reads == 1


@pytest.mark.parametrize("number", [1, 2, 3], ids=["broken", "gone", "never there"])
def test_one_that_cannot_be_shown_is_named(pictures: Pictures, number: int) -> None:
    elements = Elements(pictures.show(number, [Frame((0, 0, 1, 1), "true")]))
    assert not elements.of("img")
    assert elements.of("span", class_="missing")[0]["text"] == f"{number}<.png"


def test_frames_lie_where_their_shares_say(pictures: Pictures) -> None:
    frames = [Frame((0.1, 0.2, 0.5, 1.0), "true"), Frame((0, 0, 1, 0.25), "found")]
    rects = Elements(pictures.show(0, frames)).of("rect")
    places = [tuple(rect[key] for key in ("x", "y", "width", "height")) for rect in rects]
    assert places == [("100", "200", "400", "800")] * 2 + [("0", "0", "1000", "250")] * 2
    assert [rect["class"] for rect in rects] == ["under true", "over true", "under found", "over found"]
