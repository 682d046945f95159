"""The page of what the papers printed: every row stands on it, and it is as the data say."""

from __future__ import annotations

from pathlib import Path

import pytest

from seesay.errors import SeesayError
from seesay.results.document_tables import refresh
from seesay.results.published import all_rows, papers
from seesay.results.published_page import published_block

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "published.md"


def cells(text):
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if "|" in line
    ]


def test_the_page_is_fresh():
    assert not refresh(PAGE, ROOT / "results", check=True)
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"<!-- table: published of={paper} -->" in text for paper in papers())


@pytest.mark.parametrize("paper", papers())
def test_every_row_stands_there_once_with_its_figures(paper):
    rows = [row for row in all_rows() if row.source == papers()[paper]["source"]]
    text = published_block(paper)
    lines = [line for line in cells(text) if line[-1] == "–" or line[-1].startswith("`")]
    assert [line[0] for line in lines] == [row.system for row in rows]
    for line, row in zip(lines, rows, strict=True):
        way = getattr(row, "recalls", None) or row.sentence_retrieval
        assert f"{way['R@1']:.1f}" in line if way["R@1"] is not None else "–" in line
        assert (line[-1] == "–") == (not row.recipe and not row.counterpart)
        assert row.note is None or f"- {row.system}: {row.note}.\n" in text
    titles = {f"**Table {row.table}**" for row in rows}
    assert all(title in text for title in titles)


def test_the_summary_counts_every_row():
    *lines, total = cells(published_block("summary"))[2:]
    assert len(lines) == len(papers())
    for column in (2, 3, 4):
        assert sum(int(line[column]) for line in lines) == int(total[column])
    assert int(total[2]) == len(all_rows()) == int(total[3]) + int(total[4])


def test_every_system_without_a_recipe_has_its_reason():
    lines = cells(published_block("missing"))[2:]
    told = [name for line in lines for name in line[0].split(", ")]
    without = {row.system for row in all_rows() if not row.recipe and not row.counterpart}
    assert {name for row in without for name in row.split(", ")} == set(told)
    assert all(line[2] for line in lines)
    by_name = {line[0]: line for line in lines}
    assert by_name["MCB"][1] == "Wang et al., 2019, table 1"
    assert by_name["NIC"][1] == "Ke et al., 2017, tables 2, 3; Ma et al., 2015, tables 2, 3"


def test_a_block_that_is_not_there_is_said():
    with pytest.raises(SeesayError, match="no block 'vse'; there are summary, missing, gvse"):
        published_block("vse")
