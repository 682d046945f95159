import json

import pytest

from seesay.errors import SeesayError
from seesay.results.document_tables import benchmark_table, refresh, results_table
from seesay.results.rows import record_row


def row(**changed):
    way = {"R@1": 20.0, "R@5": 40.0, "R@10": 60.0, "Med r": 4.0}
    return {
        "protocol": "standard", "split": "test", "images": 1000, "sentences": 5000,
        "sentence_retrieval": way, "image_retrieval": way, "mR": 40.0,
        "recipe": "irmatch-s", "seed": 1, "encoder": "lite0:ten", "commit": "abc", "seconds": 60.0,
    } | changed  # fmt: skip


def cells(table):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def test_the_published_row_stands_under_the_measured_one():
    header, _, measured, published = cells(results_table([row()], "flickr8k"))
    assert header[0] == "system"
    assert measured[0] == "`irmatch-s`"
    assert measured[1:5] == ["20.0", "40.0", "60.0", "4.0"]
    assert published[0].startswith("IRMatchS")
    assert published[1:10] == ["30.0", "60.1", "74.1", "4.0", "24.2", "55.0", "69.2", "4.0", "52.1"]


def test_seeds_become_mean_and_deviation():
    rows = [row(seed=s, mR=m, changes=[f"seed={s}"]) for s, m in ((1, 40.0), (2, 42.0), (3, 44.0))]
    line = cells(results_table(rows, "flickr8k"))[2]
    assert line[0] == "`irmatch-s`, 3 seeds"
    assert line[1] == "20.0 ± 0.0"
    assert line[9] == "42.0 ± 2.0"
    assert line[10] == "lite0:ten"


def test_rows_are_chosen_and_ordered():
    rows = [
        row(),
        row(recipe="seesay-small", mR=57.0),
        row(recipe="vse++", mR=45.0),
        row(split="val", mR=99.0),
    ]

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


def one_direction(protocol="sentence-to-sentence", **changed):
    measured = {"R@1": 58.0, "R@5": 80.0, "R@10": 86.5}
    measured |= (
        {"images": 677, "n": 3100, "upper bound": 84.0, "convention": "enclosing box", "IoU": "continuous"}
        if protocol == "grounding"
        else {"sentences": 5000, "queries": 5000, "Med r": 1.0}
    )
    return {
        "protocol": protocol, "split": "test", **measured,
        "recipe": "two-branch-full", "seed": 1, "encoder": "lite0", "commit": "abc", "seconds": 6.0,
    } | changed  # fmt: skip


def test_a_protocol_with_one_direction_has_its_own_columns():
    rows = [row(recipe="two-branch-full"), one_direction(), one_direction(seed=2, **{"R@1": 60.0})]
    rows.append(one_direction(recipe="two-branch", **{"R@1": 55.0}))
    table = cells(results_table(rows, "flickr8k", protocol="sentence-to-sentence"))
    assert table[0] == ["system", "R@1", "R@5", "R@10", "Med r", "encoder"]
    full, plain = table[2:]
    assert full == [
        "`two-branch-full`, 2 seeds",
        "59.0 ± 1.4",
        "80.0 ± 0.0",
        "86.5 ± 0.0",
        "1.0 ± 0.0",
        "lite0",
    ]
    assert plain[0] == "`two-branch`"


def test_another_corpus_stands_beside_and_says_so():
    table = results_table([one_direction()], "flickr8k", protocol="sentence-to-sentence", beside="flickr30k")
    published = cells(table)[3]
    assert published[0].endswith("(Wang et al., 2019, table 4, on Flickr30k)")
    assert published[1:5] == ["63.8", "84.1", "90.2", "–"]
    own = results_table([one_direction()], "flickr30k", protocol="sentence-to-sentence", beside="flickr30k")
    assert "on Flickr30k" not in own


def test_grounding_shows_the_bound_and_names_its_convention():
    rows = [one_direction("grounding", recipe="ground-full", crops=None)]
    table = results_table(rows, "flickr8k-phrases", protocol="grounding", beside="flickr30k-entities")
    header, _, measured, published, *_ = cells(table)
    assert header[1:5] == ["R@1", "R@5", "R@10", "upper bound"]
    assert measured[4] == "84.0"
    assert published[1:5] == ["50.7", "70.4", "75.5", "–"]
    assert "Flickr30k Entities" in published[0]
    assert table.endswith("several boxes: enclosing box, IoU continuous.\n")


def test_a_block_chooses_what_stands_beside(tmp_path, document):
    record_row(tmp_path, "flickr8k", one_direction())
    document.write_text(
        "<!-- table: flickr8k protocol=sentence-to-sentence beside=coco -->\n<!-- /table -->\n",
        encoding="utf-8",
    )
    assert refresh(document, tmp_path)
    assert "on COCO" in document.read_text(encoding="utf-8")
