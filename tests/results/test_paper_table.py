"""A paper's table composed from outcomes: against means, deviations and orders computed here."""

from __future__ import annotations

import io
from statistics import fmean, stdev

import pytest
from PIL import Image
from rich.console import Console

from seesay.errors import SeesayError
from seesay.recipes.table import TableRow, load_table
from seesay.results.paper_table import Outcome, PaperTable
from seesay.results.table_formats import as_markdown, terminal, write_table


def row(name, seed, first, **changed):
    way = {"R@1": first, "R@5": first + 20, "R@10": first + 30, "Med r": 3.0}
    other = {"R@1": first - 10, "R@5": first + 10, "R@10": first + 20, "Med r": 5.0}
    return {
        "protocol": "standard", "split": "test", "images": 1000, "sentences": 5000,
        "sentence_retrieval": way, "image_retrieval": other, "mR": first + 10,
        "recipe": name, "seed": seed, "encoder": "lite0", "commit": None, "seconds": 1.0,
        "departures": ["another encoder"], "changes": [],
    } | changed  # fmt: skip


def composed(name="two-branch-2", corpus="flickr8k", rows=("two-branch", "two-branch-full"), outcomes=()):
    table = PaperTable(load_table(name).only(rows), corpus, "test")
    for outcome in outcomes:
        table.add(outcome)
    return table


@pytest.fixture
def table():
    values = {"two-branch": (40.0, 42.0, 45.5), "two-branch-full": (44.0, 43.0)}
    outcomes = [
        Outcome(name, seed, row(name, seed, first))
        for name, firsts in values.items()
        for seed, first in enumerate(firsts, start=1)
    ]
    outcomes.append(Outcome("two-branch-full", 3, None, "the loss is nan"))
    return composed(outcomes=outcomes)


def markdown_lines(table):
    lines = [line for line in as_markdown(table).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_ours_are_mean_and_deviation_beside_the_papers(table):
    headings, _, plain, full = markdown_lines(table)
    assert headings[:3] == ["recipe", "S R@1", "paper"]
    assert headings[-3:] == ["mR", "paper", "in the paper"]
    assert not any("Med r" in heading for heading in headings)  # the paper prints none
    three, two = [40.0, 42.0, 45.5], [44.0, 43.0]
    assert plain[:3] == ["`two-branch`", f"{fmean(three):.1f} ± {stdev(three):.1f}", "40.5"]
    assert full[:3] == ["`two-branch-full`", f"**{fmean(two):.1f} ± {stdev(two):.1f}**", "**43.2**"]
    at = headings.index("I R@10") + 1
    assert (plain[at], full[at]) == ("72.3", "**72.4**")
    assert full[-1] == "Embedding network, neighborhood sampling and constraints"


def test_the_notes_say_whose_figures_they_are_and_what_failed(table):
    notes = "\n".join(table.notes())
    assert "standard on Flickr8k, test. Paper: Wang et al., 2019, table 2, on Flickr30k." in notes
    assert "3 seeds" in notes
    assert "another encoder" in notes
    assert table.failures == ["two-branch-full seed 3 failed: the loss is nan"]
    assert table.failures[0] in as_markdown(table)


@pytest.mark.parametrize(
    ("corpus", "paper"), [("coco", "coco"), ("flickr30k", "flickr30k"), ("x", "flickr30k")]
)
def test_the_papers_figures_are_of_the_corpus_at_hand_where_it_has_them(corpus, paper):
    table = composed("two-branch-4", corpus, ["two-branch"])
    assert table.paper_corpora == [paper]
    assert table.lines[0].printed()["R@1"] == {"coco": 54.4, "flickr30k": 60.5}[paper]


def test_one_direction_and_its_bound():
    measured = {"R@1": 40.0, "R@5": 60.0, "R@10": 70.0, "upper bound": 84.0} | {
        "convention": "enclosing box",
        "IoU": "continuous",
        "departures": [],
    }
    table = composed(
        "two-branch-1", "scenes", ["ground-full"], [Outcome("ground-full", 1, row("", 1, 1.0) | measured)]
    )
    for key in ("sentence_retrieval", "image_retrieval", "mR"):
        del table.lines[0].rows[0][key]
    headings, _, line = markdown_lines(table)
    assert headings == [
        "recipe",
        "R@1",
        "paper",
        "R@5",
        "paper",
        "R@10",
        "paper",
        "upper bound",
        "in the paper",
    ]
    assert line[1:-1] == ["40.0", "50.7", "60.0", "70.4", "70.0", "75.5", "84.0"]
    assert any("enclosing box" in note for note in table.notes())


def test_equal_figures_are_all_best_and_one_alone_is_not():
    same = [Outcome(name, 1, row(name, 1, 40.04 if name == "two-branch" else 40.0)) for name in
            ("two-branch", "two-branch-full")]  # fmt: skip
    assert [cells[1].best for cells in composed(outcomes=same).cells()] == [True, True]
    assert [cells[1].best for cells in composed(outcomes=same[:1]).cells()] == [False, False]


def test_a_row_without_a_measure_keeps_its_place(table):
    table = composed(outcomes=[Outcome("two-branch", 1, None, "no luck")])
    first, second = table.cells()
    assert [first[0].text, first[1].text, first[2].text] == ["two-branch, failed", "–", "40.5"]
    assert second[0].text == "two-branch-full"
    assert "failed: no luck" in Outcome("two-branch", 1, None, "no luck").summary()


@pytest.mark.parametrize("width", [80, 140])
def test_the_terminal_shows_every_figure(table, width):
    console = Console(file=io.StringIO(), width=width)
    console.print(terminal(table))
    shown = console.file.getvalue()
    assert max(map(len, shown.splitlines())) <= width
    assert "…" not in shown
    if width == 140:
        assert "42.5±2.8" in shown
        assert "43.5±0.7" in shown


def test_markdown_and_plot_are_written(table, tmp_path):
    path = tmp_path / "below" / "table.md"
    write_table(table, path)
    assert "![R@1](table.png)" in path.read_text(encoding="utf-8")
    with Image.open(path.with_suffix(".png")) as plot:
        assert min(plot.size) > 100
    assert len(list(path.parent.iterdir())) == 2
    write_table(composed(), path)  # nothing measured: the paper's alone
    with pytest.raises(SeesayError, match="cannot be written"):
        write_table(table, path / "deeper.md")
    with pytest.raises(
        SeesayError, match=r"plot\.png: a table is written as one of \.md, \.tex, \.csv, \.json"
    ):
        write_table(table, tmp_path / "plot.png")


def test_a_published_row_that_is_not_there_is_said():
    definition = load_table("two-branch-2")
    wrong = definition.model_copy(update={"rows": (TableRow(name="two-branch", published="Two Branches"),)})
    with pytest.raises(SeesayError, match=r"two-branch-2.*no row 'Two Branches' in table 2"):
        PaperTable(wrong, "flickr8k", "test")
    own = definition.model_copy(update={"rows": (TableRow(name="seesay-small"),)})
    assert PaperTable(own, "flickr8k", "test").lines[0].printed() == {}


def test_json_holds_rows_and_the_papers(table):
    whole = table.as_json()
    assert [len(line["measured"]) for line in whole["rows"]] == [3, 2]
    assert whole["rows"][0]["paper"]["S R@1"] == 40.5
    assert (whole["table"], whole["corpus"]) == ("two-branch-2", "flickr8k")
    assert whole["rows"][0]["published"]["corpus"] == "flickr30k"
