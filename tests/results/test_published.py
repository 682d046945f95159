"""Published rows: every number as the papers print it, and which row stands beside a recipe."""

import re
from pathlib import Path
from statistics import mean

import pytest
import yaml

from seesay.recipes.files import included_recipes
from seesay.recipes.load import load_recipe
from seesay.results import published
from seesay.results.published import find_published, papers, published_rows

DATA = Path(published.__file__).parent
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
    ours = [(row.corpus, row.system, list(row.metrics.values())[:-1]) for row in papers()["irmatch"].rows]
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


def recalls(row):
    """The six recalls of a row, or the three of one direction."""
    return [value for name, value in row.metrics.items() if name != "mR" and not name.endswith("Med r")]


def our_columns(table):
    rows = [recalls(row) for row in papers()["two-branch"].rows if row.table == table]
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
    chosen = papers()["mcnn"].rows
    ours = [(row.corpus, row.system, list(row.metrics.values())[:-1]) for row in chosen]
    assert ours == list(mcnn_rows())
    assert len(ours) == 22 + 24
    assert {(row.corpus, row.table) for row in chosen} == {("flickr8k", 2), ("flickr30k", 3)}


@pytest.mark.skipif(not MCNN.exists(), reason="the paper's text is not beside the repository")
def test_every_score_is_the_m_cnn_papers():
    text = MCNN.read_text(encoding="utf-8").split("\nTable 4. ")[1]
    heading, *lines = [line.split("\t") for line in text.splitlines() if line.count("\t") == 5][:5]
    (scores,) = papers()["mcnn"].scores
    assert scores["systems"] == [f"m-CNN({re.search(r'_{(.+)}', cell)[1]})" for cell in heading[2:]]
    assert list(scores["rows"].values()) == [list(map(float, line[2:])) for line in lines]
    true, *others = scores["rows"].values()
    assert all(score > max(column) for score, column in zip(true, zip(*others, strict=True), strict=True))


def check_mean(row, printed):
    """MR is not kept: it is the printed numbers' mean, or a note says what it is printed as."""
    if printed is None:
        assert row.metrics["mR"] is None
    elif abs(row.metrics["mR"] - printed) > 0.07:  # rounded from numbers with more places than printed
        assert f"mR printed {printed}" in row.note


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
    ours = {(row.corpus, row.system): row for row in papers()["sco"].rows if row.table == table}
    printed = list(sco_rows(table))
    assert len(ours) == len(printed) == count
    for corpus, system, printed_recalls, printed_mean in printed:
        row = ours[corpus, system]
        assert recalls(row) == printed_recalls
        assert row.protocol == ("standard" if corpus == "flickr30k" else f"coco-{5 if table == 5 else 1}k")
        check_mean(row, printed_mean)


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
    found = [row for row in papers()["gvse"].rows if row.table == table]
    ours = {(row.corpus, row.protocol, row.system): row for row in found}
    printed = list(gvse_rows(table))
    assert len(ours) == len(printed) == count
    for *of, printed_recalls, printed_mean in printed:
        row = ours[tuple(of)]
        assert recalls(row) == printed_recalls
        check_mean(row, printed_mean)


def beside(name, corpus, protocol="standard", **choice):
    """The row that an evaluation prints beside a system."""
    return find_published(name, corpus, protocol, **choice)


def test_a_row_stands_beside_its_recipe_and_its_systems_name():
    soft = beside("irmatch-s", "flickr8k")
    assert soft == beside("IRMatchS", "flickr8k")
    assert recalls(soft) == [30.0, 60.1, 74.1, 24.2, 55.0, 69.2]
    assert (soft.metrics["S Med r"], soft.metrics["mR"]) == (4, pytest.approx(mean(recalls(soft))))
    assert "VGG-19" in soft.images
    assert beside("irmatch-s", "scenes") is None
    assert beside("seesay-small", "flickr8k") is None


def test_sco_stands_beside_its_ablations_row():
    full = beside("sco-full", "flickr30k")
    assert (full.system, full.source, full.table) == ("cnp + ctx + gen", "Huang et al., 2018", 2)
    for name in ("ctx-1crop", "ctx-gen-s", "cnp", "cnp-ctx-c", "full", "lambda-0.01", "lambda-100"):
        for corpus in ("flickr30k", "coco"):
            recipe = load_recipe(f"{corpus}/sco-{name}")
            assert beside(recipe.system, corpus) == beside(recipe.name, corpus)


def test_a_row_of_the_same_protocol_comes_first():
    for protocol, first in (("standard", 68.5), ("0-shot", 62.5), ("3-shot", 63.8)):
        assert beside("gvse-gated", "flickr30k", protocol).metrics["S R@1"] == first
    assert beside("gvse-common", "flickr30k") is None
    assert beside("VSE++", "flickr30k").protocol == "standard"
    assert beside("irmatch-h", "coco", "coco-1k").protocol == "coco-1k"
    assert find_published("irmatch-h", "coco", "standard") is None


@pytest.mark.parametrize("corpus", ["flickr8k", "flickr30k"])
@pytest.mark.parametrize("level", ["wd", "phs", "phl", "st", "ens"])
def test_m_cnn_stands_beside_the_papers_own_row(corpus, level):
    """Not what another paper prints of it, nor its rows with another image CNN."""
    by_recipe = beside(f"mcnn-{level}", corpus)
    assert by_recipe.source == "Ma et al., 2015"
    assert "VGG-19" in by_recipe.encoder
    assert beside(load_recipe(f"{corpus}/mcnn-{level}").system, corpus) == by_recipe


def test_what_another_paper_prints_of_m_cnn_stays_its_own():
    other = beside("m-CNN(ENS)", "flickr30k")
    assert (other.source, other.metrics["S R@1"]) == ("Ke et al., 2017", 33.6)
    assert beside("mcnn-ens", "flickr30k").metrics["S R@1"] == 32.2
    assert beside(load_recipe("coco/mcnn-ens").system, "coco", "coco-1k").source == "Ke et al., 2017"


@pytest.mark.parametrize("recipe", ["cca-mean", "cca-hglmm", "cca-gmm+hglmm"])
def test_a_paper_that_ran_a_system_is_preferred_to_one_that_quotes_it(recipe):
    """CCA is the two-branch paper's baseline; another paper quotes it, with a misprint."""
    assert beside(recipe, "flickr30k").source == "Wang et al., 2019"
    assert beside(recipe, "flickr8k").source == "Ke et al., 2017"  # the only one there
    quoted = find_published(recipe, "flickr30k", "standard", ("Ke et al., 2017", 3))
    assert quoted.source == "Ke et al., 2017"
    assert beside("cca-gmm+hglmm", "flickr30k").metrics["I R@10"] == 66.0


def test_a_row_may_be_wanted_of_one_table():
    two, five = ("Wang et al., 2019", 2), ("Wang et al., 2019", 5)
    assert find_published("Weighted distance", "flickr30k", "standard", five).table == 5
    assert find_published("Weighted distance", "flickr30k", "standard", two) is None


def test_rows_of_protocols_with_one_direction():
    best = {row.recipe: row.metrics for row in published_rows("flickr30k-entities", "grounding")}
    assert best["ground-sampling"] == {"R@1": 51.03, "R@5": 70.26, "R@10": 75.25}
    assert best["ground-similarity-linear-single"]["R@1"] == 43.19
    coco = published_rows("coco", "sentence-to-sentence")
    assert [row.recipe for row in coco] == ["two-branch", "two-branch-sampling", "two-branch-full"]
    assert published_rows("scenes", "sentence-to-sentence") == []


def test_numbers_that_are_not_printed():
    row = beside("two-branch-full", "flickr30k")
    assert (row.table, row.metrics["S Med r"]) == (2, None)
    assert row.metrics["mR"] == pytest.approx(60.0, abs=0.01)
    star = beside("NIC", "flickr8k")
    assert (star.metrics["S R@5"], star.metrics["mR"]) == (None, None)


def test_numbers_that_cannot_be_right_have_a_note():
    both = [row for row in published_rows() if "mR" in row.metrics]
    assert len(both) > 250
    for row in both:
        issues = 0
        for way in "SI":
            known = [(k, v) for k in (1, 5, 10) if (v := row.metrics[f"{way} R@{k}"]) is not None]
            values, median = [value for _, value in known], row.metrics[f"{way} Med r"]
            issues += values != sorted(values)
            if median is not None:
                issues += any((median <= k and v < 50) or (median > k and v > 50) for k, v in known)
        assert not issues or row.note, (row.source, row.table, row.system)


def test_a_recall_below_that_of_fewer_results_is_in_no_mean():
    row = find_published("FV(Mean Vec)", "flickr8k", "standard")
    assert (row.metrics["S R@10"], row.metrics["mR"]) == (6.0, None)


def test_every_row_has_a_recipe_or_a_reason():
    """A recipe that stands beside a row, one that does the same, or what is missing."""
    recipes = included_recipes().keys() | {"two-branch-regions"}  # two recipes combined
    assert len(published_rows()) == 308
    for row in published_rows():
        assert row.recipe or row.counterpart or row.missing, row.system
        assert not (row.recipe and (row.counterpart or row.missing)), row.system
        named = {row.recipe, row.counterpart, *re.findall(r"`(.+?)`", row.missing or "")} - {None}
        assert named <= recipes, row.system
        if row.recipe:
            assert find_published(row.recipe, row.corpus, row.protocol).recipe == row.recipe


@pytest.mark.parametrize("paper", papers())
def test_every_system_that_is_described_is_printed(paper):
    content = yaml.safe_load((DATA / f"{paper}.yaml").read_text(encoding="utf-8"))
    assert set(content["systems"]) <= {system for table in content["tables"] for system in table["rows"]}
    for table in content["tables"]:
        assert set(table.get("notes", {})) <= set(table["rows"])


def test_the_systems_of_others_are_printed_and_every_corpus_is_known():
    others = yaml.safe_load((DATA / "systems.yaml").read_text(encoding="utf-8"))
    printed = {row.system for row in published_rows() if not row.own}
    assert {name for entry in others for name in entry["names"]} == printed
    assert {row.corpus for row in published_rows()} == {"flickr8k", "flickr30k", "flickr30k-entities", "coco"}
