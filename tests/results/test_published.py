import re
from pathlib import Path

import pytest

from seesay.recipes.load import list_recipes, load_recipe
from seesay.results.published import (
    all_rows,
    corpora,
    papers,
    published_recalls,
    published_row,
    published_rows,
    published_scores,
)

PAPERS = Path(__file__).parents[2] / ".." / "shared" / "papers"
PAPER = PAPERS / "irmatch-2017-zh.txt"
TWO_BRANCH = PAPERS / "two-branch-tpami2019.txt"
MCNN = PAPERS / "mcnn-iccv2015.txt"
SCO = PAPERS / "sco-cvpr2018.txt"
GVSE = PAPERS / "gvse-aaai2019.txt"
CORPORA = {"2": "flickr8k", "3": "flickr30k", "4": "coco"}


def printed_rows():
    table = None
    for line in PAPER.read_text(encoding="utf-8").splitlines():
        if heading := re.match(r"表 ?([234]) \S", line):
            table = heading[1]
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if table and len(cells) == 9 and re.fullmatch(r"[\d.]+|\*", cells[1]):
            system = re.sub(r"\s*<sup>.*", "", cells[0]).replace("(wigh", "(weigh")
            yield CORPORA[table], system, [None if cell == "*" else float(cell) for cell in cells[1:]]


@pytest.mark.skipif(not PAPER.exists(), reason="the paper's text is not beside the repository")
def test_every_row_is_the_papers():
    ours = [
        (row.corpus, row.system, [*row.sentence_retrieval.values(), *row.image_retrieval.values()])
        for row in published_rows()
        if row.source == "Ke et al., 2017"
    ]
    assert ours == list(printed_rows())
    assert len(ours) == 61


def printed_columns(table):
    """Each column's numbers in the text of a two-branch table, top down; some of its cells are merged."""
    text = re.split(r"\nTABLE (\d)\n", TWO_BRANCH.read_text(encoding="utf-8"))
    columns = []
    for line in text[text.index(str(table)) + 1].splitlines():
        cells = [re.findall(r"\b\d+\.\d+\b", cell) for cell in line.split("|")]
        numbers = [cell for cell in cells if cell] if line.startswith("|") else []
        columns = columns or [[] for _ in numbers]
        for column, cell in zip(columns, numbers, strict=bool(numbers)):
            column += map(float, cell)
    return columns


def our_columns(table):
    if table in (1, 4):
        protocol = "phrase-localization" if table == 1 else "sentence-to-sentence"
        rows = [list(row.recalls.values()) for row in published_recalls(protocol)]
    else:
        chosen = [row for row in published_rows() if (row.source, row.table) == ("Wang et al., 2019", table)]
        ways = [(row.sentence_retrieval, row.image_retrieval) for row in chosen]
        rows = [[way[f"R@{k}"] for way in both for k in (1, 5, 10)] for both in ways]
    return [[value for value in column if value is not None] for column in zip(*rows, strict=True)]


@pytest.mark.skipif(not TWO_BRANCH.exists(), reason="the paper's text is not beside the repository")
@pytest.mark.parametrize(("table", "numbers"), [(1, 37), (2, 94), (3, 78), (4, 18), (5, 12)])
def test_every_number_is_the_two_branch_papers(table, numbers):
    columns = our_columns(table)
    assert columns == printed_columns(table)
    assert sum(map(len, columns)) == numbers


def mcnn_rows():
    """Rows of the m-CNN paper's tables 2 and 3; its own systems are named below their image CNN."""
    table = network = None
    for line in MCNN.read_text(encoding="utf-8").splitlines():
        if heading := re.match(r"Table (\d)\. Bidirectional", line):
            table = heading[1]
        if heading := re.match(r"(OverFeat|VGG) \[\d+\]:", line):
            network = heading[1]
        name, *cells = line.rstrip("\t").split("\t")
        if table and len(cells) == 8 and re.fullmatch(r"[\d.]+|\*", cells[0]):
            level = re.search(r"_\{(\w+)\}", name)
            system = f"m-CNN({level[1]}), {network}" if level else re.sub(r" \[\d+\]$|\$", "", name)
            yield CORPORA[table], system, [None if cell == "*" else float(cell) for cell in cells]


@pytest.mark.skipif(not MCNN.exists(), reason="the paper's text is not beside the repository")
def test_every_row_is_the_m_cnn_papers():
    chosen = [row for row in published_rows() if row.source == "Ma et al., 2015"]
    ours = [
        (row.corpus, row.system, [*row.sentence_retrieval.values(), *row.image_retrieval.values()])
        for row in chosen
    ]
    assert ours == list(mcnn_rows())
    assert len(ours) == 22 + 24
    assert {(row.corpus, row.table) for row in chosen} == {("flickr8k", 2), ("flickr30k", 3)}


@pytest.mark.skipif(not MCNN.exists(), reason="the paper's text is not beside the repository")
def test_every_score_is_the_m_cnn_papers():
    text = MCNN.read_text(encoding="utf-8").split("\nTable 4. ")[1]
    heading, *lines = [line.split("\t") for line in text.splitlines() if line.count("\t") == 5][:5]
    (scores,) = published_scores()
    assert scores.systems == tuple(f"m-CNN({re.search(r'_{(.+)}', cell)[1]})" for cell in heading[2:])
    assert list(scores.rows.values()) == [tuple(map(float, line[2:])) for line in lines]
    true, *others = scores.rows.values()
    assert all(score > max(column) for score, column in zip(true, zip(*others, strict=True), strict=True))


def sco_rows(table):
    """Rows of a table of the SCO paper: seven numbers a corpus, the last of them mR, in its text."""
    rest = (
        SCO.read_text(encoding="utf-8").split(f"\nTable {table}. ")[1].replace("<b>", "").replace("</b>", "")
    )
    started = False
    for line in rest.splitlines():
        name, *cells = line.split("\t")
        if len(cells) not in (7, 14) or not re.fullmatch(r"[\d.]+|-", cells[0]):
            if started and not line.strip():
                return
            continue
        started = True
        name = f"λ = {name}" if table == 3 else re.sub(r" ?\[\d+\]$", "", name)
        numbers = [None if cell == "-" else float(cell) for cell in cells]
        corpora = ("flickr30k", "coco") if len(cells) == 14 else ("coco",)
        for corpus, start in zip(corpora, (0, 7), strict=False):
            if any(numbers[start : start + 7]):
                yield corpus, name, numbers[start : start + 6], numbers[start + 6]


@pytest.mark.skipif(not SCO.exists(), reason="the paper's text is not beside the repository")
@pytest.mark.parametrize(("table", "count"), [(2, 22), (3, 8), (4, 34), (5, 8)])
def test_every_number_is_the_sco_papers(table, count):
    """MR is not kept: it is the printed numbers' mean, or a note says what it is printed as."""
    ours = {
        (row.corpus, row.system): row
        for row in published_rows()
        if (row.source, row.table) == ("Huang et al., 2018", table)
    }
    printed = list(sco_rows(table))
    assert len(ours) == len(printed) == count
    for corpus, system, recalls, mean in printed:
        row = ours[corpus, system]
        ways = (row.sentence_retrieval, row.image_retrieval)
        assert [way[f"R@{k}"] for way in ways for k in (1, 5, 10)] == recalls
        assert row.protocol == ("standard" if corpus == "flickr30k" else f"coco-{5 if table == 5 else 1}k")
        if mean is None:
            assert row.mean_recall is None
        elif abs(row.mean_recall - mean) > 0.07:  # rounded from numbers with more places than printed
            assert f"mR printed {mean}" in row.note


def test_sco_stands_beside_its_ablations_row():
    full = published_row("sco-full", "flickr30k")
    assert (full.system, full.source, full.table) == ("cnp + ctx + gen", "Huang et al., 2018", 2)
    for name in ("ctx-1crop", "ctx-gen-s", "cnp", "cnp-ctx-c", "full", "lambda-0.01", "lambda-100"):
        for corpus in ("flickr30k", "coco"):
            recipe = load_recipe(f"{corpus}/sco-{name}")
            assert published_row(recipe.system, corpus) == published_row(recipe.name, corpus)


def gvse_rows(table):
    """Rows of a table of the GVSE paper: corpus, protocol, system, six recalls and mR."""
    text = GVSE.read_text(encoding="utf-8")
    base = k = ""
    for line in text.split(f"\nTable {table}: ")[1].split("\nTable ")[0].splitlines():
        cells = line.split("\t")
        wide = 14 if table < 4 else 7
        if len(cells) <= wide or not re.fullmatch(r"[\d.]+|-", cells[-1]):
            continue
        k, name = cells[0] or k, cells[-wide - 1]
        base = base if name.startswith("+") else name.removesuffix(":")
        name = f"{base} {name}" if name.startswith("+") else base
        few = "0-shot" if table == 1 else f"{k}-shot"
        protocols = {1: (few, few), 2: (few, few), 3: ("standard", "coco-1k"), 4: ("coco-5k",)}[table]
        corpora = ("flickr30k", "coco") if table < 4 else ("coco",)
        numbers = [None if cell == "-" else float(cell) for cell in cells[-wide:]]
        for start, corpus, protocol in zip((0, 7), corpora, protocols, strict=False):
            if any(numbers[start : start + 7]):
                yield corpus, protocol, name, numbers[start : start + 6], numbers[start + 6]


@pytest.mark.skipif(not GVSE.exists(), reason="the paper's text is not beside the repository")
@pytest.mark.parametrize(("table", "count"), [(1, 12), (2, 24), (3, 31), (4, 9)])
def test_every_number_is_the_gvse_papers(table, count):
    ours = {
        (row.corpus, row.protocol, row.system): row
        for row in published_rows()
        if (row.source, row.table) == ("Huang et al., 2019", table)
    }
    printed = list(gvse_rows(table))
    assert len(ours) == len(printed) == count
    for *of, recalls, mean in printed:
        row = ours[tuple(of)]
        ways = (row.sentence_retrieval, row.image_retrieval)
        assert [way[f"R@{k}"] for way in ways for k in (1, 5, 10)] == recalls
        if mean is None:
            assert row.mean_recall is None
        elif abs(row.mean_recall - mean) > 0.07:
            assert f"mR printed {mean}" in row.note


def test_gvse_stands_beside_its_row_of_the_protocol():
    assert published_row("gvse-gated", "flickr30k").sentence_retrieval["R@1"] == 68.5
    assert published_row("gvse-gated", "flickr30k", "0-shot").sentence_retrieval["R@1"] == 62.5
    assert published_row("gvse-gated", "flickr30k", "3-shot").sentence_retrieval["R@1"] == 63.8
    assert published_row("gvse-common", "flickr30k") is None  # few-shot rows are of no other protocol
    assert published_row("VSE++", "flickr30k").protocol == "standard"


@pytest.mark.parametrize("corpus", ["flickr8k", "flickr30k"])
@pytest.mark.parametrize("level", ["wd", "phs", "phl", "st", "ens"])
def test_m_cnn_stands_beside_the_papers_own_row(corpus, level):
    """Not what another paper printed of it, nor its rows with another image CNN."""
    by_recipe = published_row(f"mcnn-{level}", corpus)
    assert by_recipe is not None
    assert by_recipe.source == "Ma et al., 2015"
    assert "VGG-19" in by_recipe.encoder
    assert published_row(load_recipe(f"{corpus}/mcnn-{level}").system, corpus) == by_recipe


def test_what_another_paper_prints_of_m_cnn_stays_its_own():
    other = published_row("m-CNN(ENS)", "flickr30k")
    assert (other.source, other.sentence_retrieval["R@1"]) == ("Ke et al., 2017", 33.6)
    assert published_row("mcnn-ens", "flickr30k").sentence_retrieval["R@1"] == 32.2
    assert published_row(load_recipe("coco/mcnn-ens").system, "coco").source == "Ke et al., 2017"
    ens = published_row("mcnn-ens", "flickr8k")
    assert ens.mean_recall == pytest.approx((24.8 + 53.7 + 67.1 + 20.3 + 47.6 + 61.7) / 6)


def test_rows_of_protocols_with_one_direction():
    best = {row.recipe: row.recalls for row in published_recalls("phrase-localization", "flickr30k-entities")}
    assert best["ground-sampling"] == {"R@1": 51.03, "R@5": 70.26, "R@10": 75.25}
    assert best["ground-similarity-linear-single"]["R@1"] == 43.19
    coco = published_recalls("sentence-to-sentence", "coco")
    assert [row.recipe for row in coco] == ["two-branch", "two-branch-sampling", "two-branch-full"]
    assert published_recalls("sentence-to-sentence", "scenes") == []


def test_a_row_without_a_median_rank():
    row = published_row("two-branch-full", "flickr30k")
    assert row is not None
    assert row.table == 2
    assert row.sentence_retrieval == {"R@1": 43.2, "R@5": 71.6, "R@10": 79.8, "Med r": None}
    assert row.mean_recall == pytest.approx(60.0, abs=0.01)


@pytest.mark.parametrize("row", published_rows(), ids=lambda row: f"{row.corpus} {row.system}")
def test_numbers_that_cannot_be_right_have_a_note(row):
    issues = 0
    for way in (row.sentence_retrieval, row.image_retrieval):
        recalls = [(k, way[f"R@{k}"]) for k in (1, 5, 10) if way[f"R@{k}"] is not None]
        values = [value for _, value in recalls]
        median = way["Med r"]
        issues += values != sorted(values)
        if median is not None:
            issues += any((median <= k and value < 50) or (median > k and value > 50) for k, value in recalls)
    assert not issues or row.note


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


def test_every_row_has_a_recipe_or_a_reason():
    """A recipe that stands beside a row, one that does the same, or what is missing."""
    recipes = {recipe.name for recipe in list_recipes()} | {"two-branch-regions"}  # two recipes combined
    assert len(all_rows()) == 308
    for row in all_rows():
        assert row.recipe or row.counterpart or row.missing, row.system
        assert not (row.recipe and row.counterpart), row.system
        assert not (row.recipe and row.missing), row.system
        named = {row.recipe, row.counterpart, *re.findall(r"`(.+?)`", row.missing or "")} - {None}
        assert named <= recipes, row.system


def test_no_row_of_a_recipe_is_told_apart_by_its_paper_alone():
    """Its rows on one corpus by one protocol are of the same system, so that the first may stand beside."""
    for row in published_rows():
        if row.recipe:
            beside = published_row(row.recipe, row.corpus, row.protocol)
            assert beside.recipe == row.recipe


def test_every_system_that_is_told_of_is_printed():
    printed = {row.system for row in all_rows()}
    for paper in papers().values():
        own = {system for table in paper["tables"] for system in table["rows"]}
        assert set(paper["systems"]) <= own
        for table in paper["tables"]:
            assert set(table.get("notes", {})) <= set(table["rows"])
    assert {row.corpus for row in all_rows()} == set(corpora())
    assert {"SDT-RNN", "DVSA", "MCB"} <= printed
