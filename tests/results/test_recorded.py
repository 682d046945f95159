"""Tables of recorded rows: which row stands where, and what is said of those that are not there."""

from __future__ import annotations

import pytest

from seesay.errors import SeesayError
from seesay.recipes.table import TableDefinition
from seesay.results.recorded import recorded_table
from seesay.results.rows import record_row


def row(recipe, mean=40.0, **changed):
    way = {"R@1": mean - 20, "R@5": mean, "R@10": mean + 10, "Med r": 4.0}
    return {
        "protocol": "standard", "split": "test", "images": 1000, "sentences": 5000,
        "sentence_retrieval": way, "image_retrieval": way, "mR": mean, "recipe": recipe, "seed": 1,
        "encoder": "lite0", "changes": [], "commit": "abc", "seconds": 60.0,
    } | changed  # fmt: skip


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
        row("irmatch-s"),
        row("irmatch-s", 42.0, seed=2, changes=["seed=2"]),
        row("irmatch-s", 50.0, changes=["batch_size=7", "matcher.dim=9"]),
        row("irmatch-s", 60.0, changes=["batch_size=7"]),
        row("irmatch-s", 70.0, split="val"),
        row("irmatch-s", 80.0, protocol="coco-1k"),
        row("irmatch-s", 90.0, shortlist=100),
        row("two-branch-regions", 33.0),
    ]
    for each in rows:
        record_row(tmp_path, "flickr8k", each)
    return tmp_path / "flickr8k.jsonl"


def test_a_row_is_of_its_recipe_and_its_changes(results):
    table = recorded_table(DEFINITION, results)
    assert [line.measured("mR") for line in table.lines] == [[40.0, 42.0], [50.0], [], [33.0]]
    assert recorded_table(DEFINITION, results, "val").lines[0].measured("mR") == [70.0]


def test_published_rows_are_of_the_corpus_or_of_those_beside(results):
    lines = recorded_table(DEFINITION, results).lines
    assert [(line.published.source, line.published.corpus) for line in lines if line.published] == [
        ("Ke et al., 2017", "flickr8k"),
        ("Wang et al., 2019", "flickr30k"),
        ("Wang et al., 2019", "flickr30k"),
    ]
    assert lines[1].published is None  # no paper measured the variant


def test_what_is_not_measured_is_said_or_left_out(results):
    table = recorded_table(DEFINITION, results)
    notes = "\n".join(table.notes())
    assert "Not measured: two-branch-full." in notes
    assert "wide is irmatch-s with matcher.dim=9 batch=7." in notes
    assert "With ± they are the mean ± the standard deviation of 2 seeds." in notes
    assert table.failures == []
    assert [(group, sources, len(lines)) for group, sources, lines in table.groups()] == [
        ("IRMatch", "Ke et al., 2017, table 2", 2),
        ("Two branches", "Wang et al., 2019, tables 2, 5, on Flickr30k", 2),
    ]
    kept = table.only_measured()
    assert [line.name for line in kept.lines] == ["irmatch-s", "wide", "two-branch-regions"]
    assert "Not measured" not in "\n".join(kept.notes())
    other = DEFINITION.only(["two-branch-full"])
    with pytest.raises(SeesayError, match="no row is measured on flickr8k"):
        recorded_table(other, results).only_measured()


def test_other_images_are_told(results):
    record_row(results.parent, "flickr8k", row("two-branch-full", encoder="lite2", crops="ten crops"))
    notes = recorded_table(DEFINITION, results).notes()
    assert "Images seen by lite0; by lite2, ten crops in two-branch-full." in notes


def test_columns_are_those_asked_for(results):
    def columns(**choice):
        return recorded_table(DEFINITION, results, **choice).columns

    assert columns(measures=["R@1", "mR"]) == ["S R@1", "I R@1", "mR"]
    assert columns(measures=["I R@1"]) == ["I R@1"]
    assert not any("Med r" in column for column in columns())  # one of the papers prints none


def test_the_best_of_ours_stands_out_and_no_papers(results):
    cells = recorded_table(DEFINITION, results).cells()
    assert [[cell.best for cell in line[1:3]] for line in cells] == [[False] * 2, [True, False]] + [
        [False] * 2
    ] * 2


def test_no_recorded_rows_is_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SeesayError, match=r"results/flickr8k\.jsonl: no recorded rows there; .*--data"):
        recorded_table(DEFINITION)
