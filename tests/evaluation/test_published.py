import re
from pathlib import Path

import pytest

from seesay.evaluation.published import published_row, published_rows

PAPER = Path(__file__).parents[2] / ".." / "shared" / "papers" / "irmatch-2017-zh.txt"
CORPORA = {"2": "flickr8k", "3": "flickr30k", "4": "coco"}


def printed_rows():
    table = None
    for line in PAPER.read_text(encoding="utf-8").splitlines():
        if heading := re.match(r"表 ?([234]) \S", line):
            table = heading[1]
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if table and len(cells) == 9 and re.fullmatch(r"[\d.]+|\*", cells[1]):
            system = re.sub(r"\s*<sup>.*", "", cells[0])
            yield CORPORA[table], system, [None if cell == "*" else float(cell) for cell in cells[1:]]


@pytest.mark.skipif(not PAPER.exists(), reason="the paper's text is not beside the repository")
def test_every_row_is_the_papers():
    ours = [
        (row.corpus, row.system, [*row.sentence_retrieval.values(), *row.image_retrieval.values()])
        for row in published_rows()
    ]
    assert ours == list(printed_rows())
    assert len(ours) == 61


@pytest.mark.parametrize("row", published_rows(), ids=lambda row: f"{row.corpus} {row.system}")
def test_numbers_that_cannot_be_right_have_a_note(row):
    faults = 0
    for way in (row.sentence_retrieval, row.image_retrieval):
        recalls = [(k, way[f"R@{k}"]) for k in (1, 5, 10) if way[f"R@{k}"] is not None]
        values = [value for _, value in recalls]
        median = way["Med r"]
        faults += values != sorted(values)
        if median is not None:
            faults += any((median <= k and value < 50) or (median > k and value > 50) for k, value in recalls)
    assert not faults or row.note


def test_a_row_is_found_by_its_name_or_its_recipe():
    soft = published_row("irmatch-s", "flickr8k")
    assert soft is not None
    assert soft == published_row("IRMatchS", "flickr8k")
    assert soft.sentence_retrieval == {"R@1": 30.0, "R@5": 60.1, "R@10": 74.1, "Med r": 4}
    assert soft.mean_recall == pytest.approx((30 + 60.1 + 74.1 + 24.2 + 55 + 69.2) / 6)
    assert "VGG-19" in soft.encoder
    assert published_row("irmatch-s", "scenes") is None
    assert published_row("seesay-small", "flickr8k") is None


def test_a_row_with_a_star_has_no_mean_recall():
    star = published_row("NIC", "flickr8k")
    assert star is not None
    assert star.sentence_retrieval["R@5"] is None
    assert star.mean_recall is None
