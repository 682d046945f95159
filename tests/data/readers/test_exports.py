"""Tables as Excel, LibreOffice, Google Sheets, Shopify and WooCommerce write them."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from seesay.data.readers import read_corpus
from seesay.data.readers.builder import MALFORMED_LINE, MISSING_IMAGE
from seesay.data.readers.table import NO_CAPTION, PASSED_OVER
from seesay.data.readers.table_files import OTHER_SHEET, PICTURE_IN_SHEET, WINDOWS
from seesay.errors import SeesayError
from tests.end_to_end.command import seesay

HEAD, UMLAUTS = "Bild;Beschreibung\r\n", "Ein grüner Übertopf – 5 €"
TWO_LINES = 'A mug, 0.3 l:\n"Best dad"\tin red'
QUOTED = '"A mug, 0.3 l:\n""Best dad""\tin red"'
SHOPIFY = (
    "Handle,Title,Body (HTML),Vendor,Image Src,Image Position,Image Alt Text\n"
    "mug,Red mug,<p>A <b>red</b> mug.</p>,Me,https://cdn.shopify.com/s/files/1/0/a.jpg?v=1699,1,\n"
    "mug,,,,https://cdn.shopify.com/s/files/1/0/b.jpg?v=1699,2,\n"
)
WOOCOMMERCE = (
    '\ufeffID,Type,SKU,Name,Published,"Short description",Description,Images\n'
    '7,simple,M-1,"Red mug",1,"<p>Best</p>","A red mug, 0.3 l.",'
    '"https://shop.example/wp-content/uploads/2024/01/a.jpg, https://shop.example/b.jpg"\n'
)


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("excel-utf8.csv", (f"\ufeff{HEAD}a.jpg;{UMLAUTS}\r\n").encode(), UMLAUTS),
        ("excel-ansi.csv", (f"{HEAD}a.jpg;{UMLAUTS}\r\n").encode("cp1252"), UMLAUTS),
        ("excel-unicode.txt", f"image\tcaption\r\na.jpg\t{QUOTED}\r\n".encode("utf-16"), TWO_LINES),
        ("excel-mac.csv", f"image;caption\ra.jpg;{UMLAUTS}\r".encode("utf-8-sig"), UMLAUTS),
        ("libreoffice.csv", f"image,caption\na.jpg,{QUOTED}\n".encode(), TWO_LINES),
        ("libreoffice.tsv", f"image\tcaption\na.jpg\t{QUOTED}\n".encode(), TWO_LINES),
        ("sheets.csv", f"image,caption\r\na.jpg,{QUOTED}\r\n".encode(), TWO_LINES),
        ("sheets.tsv", b'image\tcaption\r\na.jpg\tA "red" mug\r\n', 'A "red" mug'),
        ("shopify.csv", SHOPIFY.encode(), "Red mug"),
        ("woocommerce.csv", WOOCOMMERCE.encode(), "A red mug, 0.3 l."),
    ],
)
def test_tables_as_programs_and_shops_export_them(
    tmp_path: Path, photos: Any, name: str, data: bytes, said: str
) -> None:
    photos("a.jpg", "b.jpg")
    (tmp_path / name).write_bytes(data)
    corpus = read_corpus(tmp_path)
    assert corpus.texts() == [" ".join(said.split())]
    assert corpus.images[0].name.endswith("a.jpg")
    assert corpus.issues.counts[WINDOWS] == (name == "excel-ansi.csv")


@pytest.mark.parametrize(
    "text",
    ["#N/A", "n/a", "N/A", "-", "–", "#REF!", "https://shop.example/mug", "www.shop.example", "<p>A mug</p>"],
)
def test_what_is_no_caption_is_dropped_and_listed(tmp_path: Path, photos: Any, text: str) -> None:
    photos("a.jpg", "b.jpg")
    (tmp_path / "x.csv").write_text(f"image,caption\na.jpg,{text}\nb.jpg,a size <3 cup - see www.x.example\n")
    corpus = read_corpus(tmp_path)
    assert corpus.texts() == ["a size <3 cup - see www.x.example"]
    assert corpus.issues.examples[NO_CAPTION] == [f"{tmp_path}/x.csv:2: {text}"]
    assert NO_CAPTION in corpus.issues.omissions


def write_sheet(file: Path, rows: list[list[Any]]) -> None:
    openpyxl = pytest.importorskip("openpyxl", reason="pip install 'seesay[xlsx]'")
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(file)


def test_an_excel_file_is_a_table(tmp_path: Path, photos: Any, content: Any) -> None:
    photos("a.jpg", "7.jpg")
    rows = [["Image", "Caption 1", "Caption 2", "Split"], ["a.jpg", TWO_LINES, None, "train"], [None] * 4]
    write_sheet(tmp_path / "x.xlsx", [*rows, [7, "a cup", "one", "test"], ["b.jpg", "#N/A", None, "test"]])
    with zipfile.ZipFile(tmp_path / "x.xlsx", "a") as archive:
        archive.writestr("xl/media/image1.png", b"")
    (tmp_path / "~$x.xlsx").write_bytes(b"as Excel holds an open file")
    corpus = read_corpus(tmp_path)
    assert content(corpus) == {
        "a.jpg": ("train", [" ".join(TWO_LINES.split())]),
        "7": ("test", ["a cup", "one"]),
    }
    assert corpus.issues.counts[PICTURE_IN_SHEET] == 1
    assert corpus.issues.examples[MISSING_IMAGE] == [f"{tmp_path}/x.xlsx:5 b.jpg"]


def test_an_empty_last_cell_of_an_excel_file_is_an_empty_sentence(tmp_path: Path, photos: Any) -> None:
    photos("a.jpg", "b.jpg")
    write_sheet(tmp_path / "x.xlsx", [["image", "caption"], ["a.jpg", "a cup"], ["b.jpg"]])
    corpus = read_corpus(tmp_path)
    assert MALFORMED_LINE not in corpus.issues.counts
    assert corpus.texts() == ["a cup"]
    assert len(corpus.images) == 2


def test_sheets_after_the_first_are_listed_and_numbers_are_texts(tmp_path: Path, photos: Any) -> None:
    openpyxl = pytest.importorskip("openpyxl", reason="pip install 'seesay[xlsx]'")
    photos("a.jpg", "7.jpg")
    write_sheet(tmp_path / "x.xlsx", [["image", "caption"], ["a.jpg", 1984], [7.0, "a cup"]])
    book = openpyxl.load_workbook(tmp_path / "x.xlsx")
    book.create_sheet("more").append(["image", "caption"])
    book.save(tmp_path / "x.xlsx")
    corpus = read_corpus(tmp_path)
    assert corpus.texts() == ["1984", "a cup"]
    assert corpus.issues.examples[OTHER_SHEET] == [f"{tmp_path}/x.xlsx: more"]


def test_an_excel_file_that_expands_as_no_text_does_is_refused(tmp_path: Path) -> None:
    write_sheet(tmp_path / "x.xlsx", [["image", "caption"]])
    with zipfile.ZipFile(tmp_path / "x.xlsx", "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet9.xml", bytes(40_000_000))
    with pytest.raises(SeesayError, match="expands to over 100 times its size"):
        read_corpus(tmp_path / "x.xlsx")


PRODUCTS = [["image", "title", "description"], ["a.jpg", "Mug", "a blue mug"], ["b.jpg", "Bowl", None]]


@pytest.mark.parametrize("suffix", ["csv", "xlsx"])
def test_a_product_without_a_description_has_its_title_for_a_sentence(tmp_path, photos, suffix) -> None:
    photos("a.jpg", "b.jpg")
    if suffix == "xlsx":
        write_sheet(tmp_path / "x.xlsx", PRODUCTS)
    else:
        lines = [",".join(cell or "" for cell in row) for row in PRODUCTS]
        (tmp_path / "x.csv").write_text("\n".join(lines))
    corpus = read_corpus(tmp_path)
    assert {each.text for each in corpus.sentences} == {"a blue mug", "Bowl"}
    assert not corpus.issues.omissions


def test_a_description_in_html_gives_way_to_the_name_and_the_columns_that_were_read_are_said(
    tmp_path: Path, photos: Any
) -> None:
    photos("a.jpg", "b.jpg", "c.jpg")
    rows = ["Name,Description,Images", "Red mug,<p>A <b>mug</b></p>,a.jpg", "Bowl,,b.jpg", "n/a,-,c.jpg"]
    (tmp_path / "x.csv").write_text("\n".join(rows))
    corpus = read_corpus(tmp_path)
    assert {each.text for each in corpus.sentences} == {"Red mug", "Bowl"}
    assert corpus.issues.examples[PASSED_OVER] == [f"{tmp_path}/x.csv:2: <p>A <b>mug</b></p>"]
    assert corpus.issues.examples[NO_CAPTION] == [f"{tmp_path}/x.csv:4: -"]
    done = seesay("data", tmp_path)
    said = "Columns that were read, and in how many rows: images (3), name (2), description (1)."
    assert said in done.stdout
    assert json.loads(seesay("data", tmp_path, "--json").stdout)["columns"] == corpus.columns


@pytest.mark.parametrize("suffix", ["csv", "xlsx"])
def test_a_title_above_the_names_of_the_columns_is_said(tmp_path, photos, suffix) -> None:
    photos("a.jpg", "b.jpg")
    rows = [["Export of 29 November", None, None], *PRODUCTS]
    if suffix == "xlsx":
        write_sheet(tmp_path / "x.xlsx", rows)
    else:
        (tmp_path / "x.csv").write_text("\n".join(",".join(cell or "" for cell in row) for row in rows))
    with pytest.raises(SeesayError, match=r"columns export of 29 november\. If that is a title, delete"):
        read_corpus(tmp_path)
