"""What somebody with photos and a spreadsheet of captions sees."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from tests.end_to_end.command import seesay


@pytest.fixture
def museum(tmp_path: Path) -> Path:
    """A folder of photos, and the table `captions.csv` to be written."""
    for at in range(3):
        Image.new("RGB", (8, 8), (80 * at, 9, 9)).save(tmp_path / f"IMG_{at}.JPG")
    return tmp_path


def test_a_table_of_unknown_columns_is_refused_until_they_are_named(museum: Path) -> None:
    (museum / "captions.csv").write_text("Fichier;Phrase\nimg_0;Un vase, bleu\nimg_1;Un bol\nimg_9;Rien\n")
    error = seesay("data", museum, code=2).stderr
    assert error.count("\n") == 1
    assert "it has the columns fichier, phrase. Name the right ones with --image-column" in error
    done = seesay("data", museum, "--image-column", "Fichier", "--caption-column", "Phrase")
    assert "train" in done.stdout
    assert done.stderr.splitlines() == [
        "1 × image listed but missing, dropped with its texts:",
        f"  {museum}/captions.csv:4 img_9",
    ]


def test_what_is_missing_from_rows_is_told_by_kind_with_its_places(museum: Path) -> None:
    rows = ("IMG_0,A vase,", "IMG_1,A bowl,A cup", "IMG_9,Nothing,", "IMG_2,,")
    (museum / "captions.csv").write_text("\n".join(["image,caption1,caption2", *rows, ""]))
    assert seesay("data", museum).stderr.splitlines() == [
        "3 × empty sentence or phrase, dropped:",
        *(f"  {museum}/captions.csv:{row}" for row in (2, 5, 5)),
        "1 × image listed but missing, dropped with its texts:",
        f"  {museum}/captions.csv:4 IMG_9",
    ]


def test_german_column_names_are_known(museum: Path) -> None:
    (museum / "captions.csv").write_text("Bild;Beschreibung\nIMG_0.jpg;Eine Vase, blau\n")
    done = seesay("data", museum)
    assert "1-1, mean 1.0" in done.stdout
    assert "at most K" not in done.stdout
    assert not done.stderr


def test_rows_that_name_a_file_differently_are_of_one_image(museum: Path) -> None:
    rows = ("IMG_0.JPG,A vase, with a comma", "img_0,A blue vase", "img_0.jpg,A vase", "IMG_1,A bowl")
    (museum / "captions.csv").write_text("\n".join(["image,caption", *rows, ""]))
    splits = json.loads(seesay("data", museum, "--json").stdout)["splits"]
    assert sum(split["images"] for split in splits.values()) == 2
    assert sum(split["sentences"] for split in splits.values()) == 4
