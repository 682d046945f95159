"""Tables of the documentation: rows chosen, blocks filled, and the page of what the papers print."""

import json
from pathlib import Path

import pytest

from seesay.errors import SeesayError
from seesay.results.published import papers, published_rows
from seesay.results.records import record_row
from tests.results.made import cells, grounding, one_direction, row
from tools.documents import benchmark_table, published_block, refresh, results_table

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "published.md"


def test_the_published_row_stands_under_the_measured_one():
    header, _, measured, published = cells(results_table([row()], "flickr8k"))
    assert header[0] == "system"
    assert measured[0] == "`irmatch-s`"
    assert measured[1:5] == ["20.0", "40.0", "50.0", "4.0"]
    assert published[0].startswith("IRMatchS")
    assert published[1:10] == ["30.0", "60.1", "74.1", "4.0", "24.2", "55.0", "69.2", "4.0", "52.1"]


def test_seeds_become_mean_and_deviation():
    rows = [row(seed=s, mR=m, changes=[f"seed={s}"]) for s, m in ((1, 40.0), (2, 42.0), (3, 44.0))]
    line = cells(results_table(rows, "flickr8k"))[2]
    assert line[0] == "`irmatch-s`, 3 seeds"
    assert line[1] == "20.0 ± 0.0"
    assert line[9] == "42.0 ± 2.0"
    assert line[10] == "lite0"


def test_rows_are_chosen_and_ordered():
    rows = [row(mR=40.0), row("seesay-small", mR=57.0), row("vse++", mR=45.0), row(split="val", mR=99.0)]

    def measured(**choice):
        return [line[0] for line in cells(results_table(rows, "flickr8k", **choice))[2:] if line[0][0] == "`"]

    assert measured() == ["`seesay-small`", "`vse++`", "`irmatch-s`"]
    assert measured(recipes=["irmatch-s", "vse++"]) == ["`irmatch-s`", "`vse++`"]
    assert measured(split="val") == ["`irmatch-s`"]
    with pytest.raises(SeesayError, match="recipe 'irmatch-h'"):
        measured(recipes=["irmatch-h"])
    with pytest.raises(SeesayError, match="coco-1k"):
        measured(protocol="coco-1k")


def test_published_rows_are_of_the_same_protocol_and_split_only():
    for changed in ({"split": "val"}, {"protocol": "coco-5k"}):
        table = results_table([row(**changed)], "flickr8k", **changed)
        assert len(table.splitlines()) == 3


@pytest.fixture
def document(tmp_path):
    path = tmp_path / "page.md"
    path.write_text(
        "# A\n\n<!-- table: flickr8k recipes=irmatch-s -->\nstale\n<!-- /table -->\n\ntext\n",
        encoding="utf-8",
    )
    return path


def test_a_document_is_filled_once(tmp_path, document):
    results = tmp_path / "results"
    record_row(results, "flickr8k", row())
    stale = document.read_text(encoding="utf-8")
    assert refresh(document, results, check=True)
    assert document.read_text(encoding="utf-8") == stale
    assert refresh(document, results)
    assert not refresh(document, results)
    filled = document.read_text(encoding="utf-8")
    assert "stale" not in filled
    assert "| `irmatch-s` |" in filled
    assert filled.startswith("# A\n")
    assert filled.endswith("\ntext\n")
    record_row(results, "flickr8k", row(mR=41.0))
    assert refresh(document, results, check=True)


def test_a_block_that_names_nothing_is_said(tmp_path, document):
    with pytest.raises(SeesayError, match="irmatch-s"):
        refresh(document, tmp_path)
    document.write_text("<!-- table: flickr8k colour=red -->\n<!-- /table -->\n", encoding="utf-8")
    with pytest.raises(SeesayError, match=r"page\.md.*colour"):
        refresh(document, tmp_path)


def test_a_benchmark_is_a_table_too(tmp_path):
    path = tmp_path / "benchmarks.jsonl"
    stamp = {"machine": "two cores", "date": "2026-01-02"}
    rows = [{"benchmark": b, **stamp, "matrix": "1 × 5", "ratio": 93.123} for b in ("ranking", "other")]
    path.write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
    table = benchmark_table(path, "ranking")
    assert cells(table)[:3] == [["matrix", "ratio"], ["---", "---:"], ["1 × 5", "93.1"]]
    assert table.endswith("two cores; 2026-01-02.\n")
    document = tmp_path / "page.md"
    document.write_text("<!-- table: benchmarks benchmark=other -->\n<!-- /table -->", encoding="utf-8")
    assert refresh(document, tmp_path)
    with pytest.raises(SeesayError, match="--record"):
        benchmark_table(path, "speed")


def test_a_protocol_with_one_direction_has_its_own_columns():
    rows = [row("two-branch-full"), one_direction(first=58.0), one_direction(first=60.0, seed=2)]
    rows.append(one_direction("two-branch", 55.0))
    table = cells(results_table(rows, "flickr8k", protocol="sentence-to-sentence"))
    assert table[0] == ["system", "R@1", "R@5", "R@10", "Med r", "encoder"]
    full, plain = table[2:]
    figures = ["59.0 ± 1.4", "60.0 ± 0.0", "70.0 ± 0.0", "1.0 ± 0.0"]
    assert full == ["`two-branch-full`, 2 seeds", *figures, "lite0"]
    assert plain[0] == "`two-branch`"


def test_another_corpus_stands_beside_and_is_named():
    table = results_table([one_direction()], "flickr8k", protocol="sentence-to-sentence", beside="flickr30k")
    published = cells(table)[3]
    assert published[0].endswith("(Wang et al., 2019, table 4, on Flickr30k)")
    assert published[1:5] == ["63.8", "84.1", "90.2", "–"]
    own = results_table([one_direction()], "flickr30k", protocol="sentence-to-sentence", beside="flickr30k")
    assert "on Flickr30k" not in own


def test_grounding_shows_the_bound_and_names_its_convention():
    table = results_table(
        [grounding()], "flickr8k-phrases", protocol="grounding", beside="flickr30k-entities"
    )
    header, _, measured, published, *_ = cells(table)
    assert header[1:5] == ["R@1", "R@5", "R@10", "upper bound"]
    assert measured[4] == "84.0"
    assert published[1:5] == ["50.7", "70.4", "75.5", "–"]
    assert "Flickr30k Entities" in published[0]
    assert table.endswith("several boxes: enclosing box, IoU as in Plummer et al., 2017.\n")


def test_a_block_chooses_what_stands_beside(tmp_path, document):
    record_row(tmp_path, "flickr8k", one_direction())
    document.write_text(
        "<!-- table: flickr8k protocol=sentence-to-sentence beside=coco -->\n<!-- /table -->\n",
        encoding="utf-8",
    )
    assert refresh(document, tmp_path)
    assert "on COCO" in document.read_text(encoding="utf-8")


def test_a_changed_recipe_has_the_name_that_a_table_gives_it():
    wider = row("two-branch-sampling", changes=["seed=2", "batch_size=250"])
    other = row("two-branch-sampling", changes=["matcher.dropout=0.9"], seed=3)
    table = results_table([wider, other], "flickr8k")
    assert [name in table for name in ("`two-branch-sampling-250`", "`two-branch-sampling`")] == [True, True]
    assert table.count("batch_size=250") == 1


def test_a_block_holds_the_measured_rows_of_a_table(tmp_path, document):
    record_row(tmp_path, "flickr8k", row())
    document.write_text(
        "<!-- table: flickr8k definition=flickr8k metrics=R@1,mR -->\n<!-- /table -->\n", encoding="utf-8"
    )
    assert refresh(document, tmp_path)
    lines = cells(document.read_text(encoding="utf-8"))
    assert ["`irmatch-s`", "20.0", "30.0", "10.0", "24.2", "31.7", "52.1"] in lines
    assert not any("vse0" in line[0] for line in lines)
    assert "Not measured" not in document.read_text(encoding="utf-8")
    document.write_text("<!-- table: flickr8k definition=gvse-1 -->\n<!-- /table -->\n", encoding="utf-8")
    with pytest.raises(SeesayError, match="no row is measured on flickr8k"):
        refresh(document, tmp_path)


# The page of what the papers print.


def published_cells(text):
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if "|" in line
    ]


def test_the_page_of_published_rows_is_fresh():
    assert not refresh(PAGE, ROOT / "results", check=True)
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"<!-- table: published of={paper} -->" in text for paper in papers())


@pytest.mark.parametrize("paper", papers())
def test_every_published_row_stands_there_once_with_its_figures(paper):
    rows, text = papers()[paper].rows, published_block(paper)
    lines = [line for line in published_cells(text) if line[-1] == "–" or line[-1].startswith("`")]
    assert [line[0] for line in lines] == [each.system for each in rows]
    for line, each in zip(lines, rows, strict=True):
        first = next(iter(each.metrics.values()))
        assert f"{first:.1f}" in line if first is not None else "–" in line
        assert (line[-1] == "–") == (not each.recipe and not each.counterpart)
        assert each.note is None or f"- {each.system}: {each.note}.\n" in text
    assert all(f"**Table {each.table}**" in text for each in rows)


def test_the_summary_counts_every_row():
    *lines, total = published_cells(published_block("summary"))[2:]
    assert len(lines) == len(papers())
    for column in (2, 3, 4):
        assert sum(int(line[column]) for line in lines) == int(total[column])
    assert int(total[2]) == len(published_rows()) == int(total[3]) + int(total[4])


def test_every_system_without_a_recipe_has_its_reason():
    lines = published_cells(published_block("missing"))[2:]
    named = [name for line in lines for name in line[0].split(", ")]
    without = {row.system for row in published_rows() if not row.recipe and not row.counterpart}
    assert {name for row in without for name in row.split(", ")} == set(named)
    assert all(line[2] for line in lines)
    by_name = {line[0]: line for line in lines}
    assert by_name["MCB"][1] == "Wang et al., 2019, table 1"
    assert by_name["NIC"][1] == "Ke et al., 2017, tables 2, 3; Ma et al., 2015, tables 2, 3"


def test_a_block_that_does_not_exist_is_named():
    with pytest.raises(SeesayError, match="no block 'vse'; there are summary, missing, gvse"):
        published_block("vse")


def test_an_open_quote_is_named(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text('<!-- table: flickr8k "recipes=vse0 -->\n\n<!-- /table -->\n')
    with pytest.raises(SeesayError, match=r"page\.md: table .* No closing quotation; close the quotes"):
        refresh(page, tmp_path)
