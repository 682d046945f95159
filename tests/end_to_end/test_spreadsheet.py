"""What somebody with photos and a spreadsheet of captions sees."""

from __future__ import annotations

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
        "1 of 3 rows left out:",
        f"  {museum}/captions.csv:4: no image img_9",
    ]


def test_german_column_names_are_known(museum: Path) -> None:
    (museum / "captions.csv").write_text("Bild;Beschreibung\nIMG_0.jpg;Eine Vase, blau\n")
    done = seesay("data", museum)
    assert "1-1, mean 1.0" in done.stdout
    assert "at most K" not in done.stdout
    assert not done.stderr
