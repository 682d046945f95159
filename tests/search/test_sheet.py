from pathlib import Path

import pytest

from seesay.errors import SeesayError
from seesay.search.index import Index
from seesay.search.thumbnails import sheet, write_sheet
from tests.search.colours import Colours, gallery


@pytest.fixture
def index(tmp_path: Path):
    photos = gallery(tmp_path / "photos", "red.png", "blue.png")
    (photos / "red.png").rename(photos / '<b>"red.png')
    made = Index.create(tmp_path / "index", Colours())
    made.update_images(photos)
    yield made
    made.close()


def test_it_holds_its_images_and_nothing_from_elsewhere(index: Index, tmp_path: Path) -> None:
    hits = index.search("red")
    write_sheet(index, "<script>red</script>", hits, tmp_path / "sheet.html")
    page = (tmp_path / "sheet.html").read_text("utf-8")
    assert page.count('src="data:image/jpeg;base64,') == 2
    assert "<script>" not in page
    assert "&lt;b&gt;&quot;red.png" in page
    assert "http" not in page
    assert page.index("1.000") < page.index("0.000")


def test_images_that_are_gone_are_left_out(index: Index, tmp_path: Path) -> None:
    hits = index.search("red")
    (tmp_path / "photos" / "blue.png").unlink()
    assert "1 of 2 images" in sheet(index, "red", hits)


def test_a_place_that_cannot_be_written(index: Index, tmp_path: Path) -> None:
    with pytest.raises(SeesayError, match="cannot be written"):
        write_sheet(index, "red", [], tmp_path / "no folder" / "sheet.html")
