"""A paper's table of measured rows: against means, deviations and orders computed here."""

from __future__ import annotations

import io
from statistics import fmean, stdev

import pytest
from rich.console import Console

from seesay.errors import SeesayError
from seesay.recipes.table import TableDefinition, TableRow, load_table
from seesay.results.formats import Section
from seesay.results.paper_table import PaperTable, recorded_table
from seesay.results.records import record_row
from tests.results.made import grounding, row


def composed(name="two-branch-2", corpus="flickr8k", rows=("two-branch", "two-branch-full"), measured=()):
    table = PaperTable(load_table(name).only(rows), corpus, "test")
    for each in measured:
        table.line(each.recipe).rows.append(each)
    return table


@pytest.fixture
def table():
    firsts = {"two-branch": (40.0, 42.0, 45.5), "two-branch-full": (44.0, 43.0)}
    measured = [
        row(name, first, seed, departures=["another encoder"])
        for name, values in firsts.items()
        for seed, first in enumerate(values, start=1)
    ]
    table = composed(measured=measured)
    table.line("two-branch-full").failures.append("two-branch-full seed 3 failed: the loss is nan")
    return table


def markdown_lines(table):
    lines = [line for line in table.table(names=True).markdown().splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_ours_are_mean_and_deviation_beside_the_papers(table):
    headings, _, plain, full = markdown_lines(table)
    assert headings[:3] == ["recipe", "S R@1", "paper, Flickr30k"]  # ours are of another corpus
    assert headings[-3:] == ["mR", "paper, Flickr30k", "in the paper"]
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
    assert table.failures[0] in table.table(names=True).markdown()


@pytest.mark.parametrize(
    ("corpus", "paper"), [("coco", "coco"), ("flickr30k", "flickr30k"), ("x", "flickr30k")]
)
def test_the_papers_figures_are_of_the_corpus_at_hand_if_there_are_any(corpus, paper):
    table = composed("two-branch-4", corpus, ["two-branch"])
    assert table.lines[0].published.corpus == paper
    assert table.lines[0].printed["R@1"] == {"coco": 54.4, "flickr30k": 60.5}[paper]


def test_one_direction_and_its_bound():
    table = composed("two-branch-1", "scenes", ["ground-full"], [grounding("ground-full")])
    headings, _, line = markdown_lines(table)
    measures = ("R@1", "R@5", "R@10")
    paper = "paper, Flickr30k Entities"
    assert headings[1:-1] == [*(h for name in measures for h in (name, paper)), "upper bound"]
    assert line[1:-1] == ["40.0", "50.7", "60.0", "70.4", "70.0", "75.5", "84.0"]
    assert any("enclosing box, IoU as in Plummer" in note for note in table.notes())


def test_equal_figures_are_all_best_and_one_alone_is_not():
    firsts = {"two-branch": 40.04, "two-branch-full": 40.0}
    same = [row(name, first) for name, first in firsts.items()]
    assert [cells[1].bold for cells in composed(measured=same).cells()] == [True, True]
    assert [cells[1].bold for cells in composed(measured=same[:1]).cells()] == [False, False]


def test_a_row_that_failed_keeps_its_place():
    table = composed()
    table.line("two-branch").failures.append("no luck")
    first, second = table.cells()
    assert [first[0].text, first[1].text, first[2].text] == ["two-branch, failed", "–", "40.5"]
    assert second[0].text == "two-branch-full"


@pytest.mark.parametrize("width", [80, 140])
def test_the_terminal_shows_every_figure(table, width):
    console = Console(file=io.StringIO(), width=width)
    console.print(table.table().terminal())
    shown = console.file.getvalue()
    assert max(map(len, shown.splitlines())) <= width
    assert "…" not in shown
    if width == 140:
        assert "42.5±2.8" in shown
        assert "43.5±0.7" in shown


def test_a_published_row_that_does_not_exist_is_an_error():
    definition = load_table("two-branch-2")
    wrong = definition.model_copy(update={"rows": (TableRow(name="two-branch", published="Two Branches"),)})
    with pytest.raises(SeesayError, match=r"two-branch-2.*no row 'Two Branches' in table 2"):
        PaperTable(wrong, "flickr8k", "test")
    own = definition.model_copy(update={"rows": (TableRow(name="seesay-small"),)})
    assert PaperTable(own, "flickr8k", "test").lines[0].printed == {}


def test_json_holds_rows_and_the_papers(table):
    whole = table.to_dict()
    assert [len(line["measured"]) for line in whole["rows"]] == [3, 2]
    assert whole["rows"][0]["paper"]["S R@1"] == 40.5
    assert (whole["table"], whole["corpus"]) == ("two-branch-2", "flickr8k")
    assert whole["rows"][0]["published"]["corpus"] == "flickr30k"


# Tables of recorded rows.

DEFINITION = TableDefinition(
    name="mine",
    title="Of two papers",
    corpus="flickr8k",
    beside=("flickr30k",),
    protocol="standard",
    rows={
        "IRMatch": [
            "irmatch-s",
            {"name": "wide", "recipe": "irmatch-s", "changes": ["matcher.dim=9", "batch_size=7"]},
        ],
        "Two branches": [
            "two-branch-full",
            {"name": "two-branch-regions", "combine": ["two-branch-full", "ground-full"]},
        ],
    },
)


@pytest.fixture
def results(tmp_path):
    rows = [
        row(first=20.0),
        row(first=22.0, seed=2, changes=["seed=2"]),
        row(first=30.0, changes=["batch_size=7", "matcher.dim=9"]),
        row(first=40.0, changes=["batch_size=7"]),
        row(first=50.0, split="val"),
        row(first=55.0, protocol="coco-1k"),
        row("two-branch-regions", 13.0),
    ]
    for each in rows:
        record_row(tmp_path, "flickr8k", each)
    return tmp_path / "flickr8k.jsonl"


def test_a_recorded_row_is_of_its_recipe_and_its_changes(results):
    table = recorded_table(DEFINITION, results)
    assert [line.measured("S R@1") for line in table.lines] == [[20.0, 22.0], [30.0], [], [13.0]]
    assert recorded_table(DEFINITION, results, "val").lines[0].measured("S R@1") == [50.0]


def test_published_rows_are_of_the_corpus_or_of_those_beside(results):
    lines = recorded_table(DEFINITION, results).lines
    assert [(line.published.source, line.published.corpus) for line in lines if line.published] == [
        ("Ke et al., 2017", "flickr8k"),
        ("Wang et al., 2019", "flickr30k"),
        ("Wang et al., 2019", "flickr30k"),
    ]
    assert lines[1].published is None  # no paper measured the variant


def test_what_is_not_measured_is_named_or_left_out(results):
    table = recorded_table(DEFINITION, results)
    notes = "\n".join(table.notes())
    assert "Not measured: two-branch-full." in notes
    assert "wide is irmatch-s with matcher.dim=9 batch_size=7." in notes
    assert "Changed:" not in notes  # in another order where they were recorded
    assert "Figures with ± are the mean ± the standard deviation of 2 seeds." in notes
    assert table.failures == []
    rows = table.table().rows
    assert [isinstance(row, Section) for row in rows] == [True, False, False, True, False, False]
    assert rows[0] == Section("IRMatch", "Ke et al., 2017, table 2")
    assert rows[3] == Section("Two branches", "Wang et al., 2019, tables 2, 5, on Flickr30k")


def test_other_images_are_named(results):
    record_row(results.parent, "flickr8k", row("two-branch-full", encoder="lite2", crops="ten crops"))
    notes = recorded_table(DEFINITION, results).notes()
    assert "Image features: lite0, unless a line below says otherwise." in notes
    assert "Image features of two-branch-full: lite2, ten crops." in notes


def test_without_recorded_rows_there_is_a_way_on(tmp_path):
    with pytest.raises(SeesayError, match=r"flickr8k\.jsonl: no recorded rows; .*--data"):
        recorded_table(DEFINITION, tmp_path / "flickr8k.jsonl")


def test_columns_are_those_wanted(results):
    def columns(**choice):
        return recorded_table(DEFINITION, results, **choice).columns

    assert columns(metrics=["R@1", "mR"]) == ["S R@1", "I R@1", "mR"]
    assert columns(metrics=["I R@1"]) == ["I R@1"]
    assert not any("Med r" in column for column in columns())  # one of the papers prints none


def test_the_best_of_several_papers_is_not_marked(results):
    cells = recorded_table(DEFINITION, results).cells()
    assert [[cell.bold for cell in line[1:3]] for line in cells] == [
        [False] * 2,
        [True, False],
        [False] * 2,
        [False] * 2,
    ]


SUBSET = {"content": {"images": 50, "sentences": 250, "digest": "a"}}
WHOLE = {"content": {"images": 1000, "sentences": 5000, "digest": "b"}}


def test_a_table_of_fifty_images_says_so_and_is_not_set_against_the_papers_thousand():
    measured = [row("irmatch-s", 50.0, **SUBSET), row("irmatch-h", 40.0, **SUBSET)]
    table = composed("irmatch-2", rows=("irmatch-s", "irmatch-h"), measured=measured)
    assert table.title.endswith(": 50 images, 250 sentences")
    assert "\\caption" in table.table().latex()
    assert "50 images, 250 sentences" in table.table().latex().partition("caption")[2]  # not only a comment
    assert not any("**50.0" in cell for line in markdown_lines(table) for cell in line)
    assert any("the papers' test set has 1,000" in note for note in table.notes())
    assert "50 images, 250 sentences" in table.data().csv()


def test_rows_of_other_images_are_named_and_never_the_best():
    measured = [
        row("irmatch-s", 30.0, **WHOLE),
        row("irmatch-s", 31.0, 2, **WHOLE),
        row("irmatch-h", 90.0, **SUBSET),
    ]
    table = composed("irmatch-2", rows=("irmatch-s", "irmatch-h"), measured=measured)
    assert "on 50 images, 250 sentences" in table.table().latex().partition("caption")[2]
    other = next(line for line in markdown_lines(table) if "irmatch-h" in line[0])
    assert other[1] == "90.0"
    assert any("do not compare" in note for note in table.notes())


def test_a_table_of_the_papers_own_test_set_keeps_its_title():
    table = composed("irmatch-2", rows=("irmatch-s",), measured=[row("irmatch-s", **WHOLE)])
    assert table.title == table.definition.title
    assert not any("do not compare" in note for note in table.notes())


def test_recorded_rows_of_a_subset_stand_beside_those_of_the_whole_and_do_not_replace_them(tmp_path):
    for seed in (1, 2):
        record_row(tmp_path, "flickr8k", row("irmatch-s", 30.0, seed, **WHOLE))
    for seed in (1, 2, 3):
        record_row(tmp_path, "flickr8k", row("irmatch-s", 90.0, seed, **SUBSET))
    record_row(tmp_path, "flickr8k", row("irmatch-h", 20.0, **WHOLE))
    record_row(tmp_path, "flickr8k", row("irmatch-h", 20.0, 2, **WHOLE))
    path = tmp_path / "flickr8k.jsonl"
    assert len(path.read_text(encoding="utf-8").splitlines()) == 7
    table = recorded_table(load_table("irmatch-2").only(("irmatch-s", "irmatch-h")), path)
    measured = {line.row.name: line.measured("S R@1") for line in table.lines}
    assert measured == {"irmatch-s": [30.0, 30.0], "irmatch-h": [20.0, 20.0]}
