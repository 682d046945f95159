"""Tables of papers: what their definitions name is there, and what is said of wrong ones."""

from __future__ import annotations

import pytest

from seesay.encoders.settings import role_of
from seesay.errors import SeesayError
from seesay.protocols.base import PROTOCOLS
from seesay.recipes.files import included_recipes
from seesay.recipes.load import load_recipe, member_recipes, settings_line
from seesay.recipes.table import (
    TableDefinition,
    corpus_title,
    list_tables,
    load_table,
    parse_numbers,
)
from seesay.results.published import find_published

TABLES = list_tables()
OF_ONE_PAPER = [table for table in TABLES if table.paper]
FLICKR8K = load_table("flickr8k")


def recipes_for(corpus: str) -> set[str]:
    return {name for name, values in included_recipes().items() if corpus in values["corpora"]}


@pytest.mark.parametrize(("paper", "numbers"), [("two-branch", range(1, 6)), ("mcnn", range(2, 4))])
def test_a_papers_tables_are_there(paper: str, numbers: range) -> None:
    of_paper = [table for table in TABLES if table.name.startswith(paper)]
    tables = {table.name.removesuffix("-coco"): table.table for table in of_paper}
    assert tables == {f"{paper}-{number}": number for number in numbers}
    corpora = {corpus for values in included_recipes().values() for corpus in values["corpora"]}
    assert not corpora & {"tables", paper}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_the_recipes_of_shipped_tables_are_valid(table: TableDefinition) -> None:
    for row in table.rows:
        for name in row.recipes:
            assert table.recipe(name, table.corpus, row.changes, seed=2).seed == 2


def test_scos_tables_are_the_ablation_the_weights_and_the_comparison() -> None:
    for name, corpus, protocol in (("", "flickr30k", "standard"), ("-coco", "coco", "coco-1k")):
        for number in (2, 3, 4):
            table = load_table(f"sco-{number}{name}")
            assert (table.table, table.corpus, table.protocol) == (number, corpus, protocol)
            assert corpus_title(corpus) in table.title
            assert set(table.rows) >= set(load_table(f"sco-{number}").rows)
    weights = []
    for row in load_table("sco-3").rows:
        matcher = load_recipe(f"flickr30k/{row.recipes[0]}", changes=row.changes).matcher
        assert matcher.kind == "sco"
        weights.append(matcher.generation.weight if matcher.generation else 0)
    assert weights == [0, 0.01, 1, 100]


def test_gvses_tables_are_the_ablation_by_k_and_the_comparison() -> None:
    by_k = load_table("gvse-2")
    assert [by_k.protocol_of(row) for row in by_k.rows] == [f"{k}-shot" for k in range(4) for _ in range(3)]
    assert [row.recipes for row in by_k.rows[:3]] == [("vse++",), ("sco-full",), ("gvse-gated",)]
    for number, protocols in ((3, ("standard", "coco-1k")), (4, ("coco-5k",))):
        tables = [table for table in TABLES if (table.source, table.table) == (by_k.source, number)]
        assert tuple(table.protocol for table in tables) == protocols


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_table_has_known_protocols_and_each_row_once(table) -> None:
    assert {table.protocol_of(row) for row in table.rows} <= set(PROTOCOLS)
    assert len({row.name for row in table.rows}) == len(table.rows)
    assert table.grounds == (PROTOCOLS[table.protocol].needs == "phrases")


@pytest.mark.parametrize("table", OF_ONE_PAPER, ids=lambda table: table.name)
def test_every_row_has_a_published_row_and_valid_recipes(table) -> None:
    for row in table.rows:
        for name in row.recipes:
            for corpus in (table.corpus, "flickr8k"):
                recipe = table.recipe(name, corpus, (), seed=3)
                assert (recipe.name, recipe.seed, recipe.changes) == (name, 3, ())
        if row.measured:
            assert (load_recipe(row.recipes[0], table.corpus).regions is not None) == table.grounds
        wanted, protocol = row.published or row.recipe or row.name, table.protocol_of(row)
        published = find_published(wanted, table.corpus, protocol, table.paper)
        assert published is not None, row.name


def test_the_readmes_table_has_every_recipe_of_sentences_on_flickr8k() -> None:
    assert FLICKR8K.paper is None
    recipes = {name for row in FLICKR8K.rows for name in row.recipes}
    losses = {name: load_recipe(name, "flickr8k").loss.kind for name in recipes_for("flickr8k")}
    matched = {name for name, loss in losses.items() if loss != "multi-label"}
    assert matched <= recipes
    assert recipes - matched == {"ground-full"}
    assert all(row.group for row in FLICKR8K.rows)


def test_the_table_of_phrases_has_every_grounding_recipe() -> None:
    recipes = {name for row in load_table("flickr8k-phrases").rows for name in row.recipes}
    assert recipes == recipes_for("flickr8k-phrases")


def test_a_row_of_several_papers_is_compared_with_its_recipes_system() -> None:
    for row in FLICKR8K.rows:
        recipe = FLICKR8K.recipe(row.recipes[0], "flickr8k", row.changes, seed=1)
        of = recipe  # a second step from another level is compared with that level
        if recipe.matcher.kind == "fine-tuned" and any("matcher.members" in each for each in row.changes):
            of = load_recipe(recipe.composition.members[0], "flickr8k")
        if row.published:
            assert row.published == of.system
        assert recipe.changes == tuple(sorted(row.changes))
        assert bool(row.changes) == (row.name not in {*row.recipes, "two-branch-regions"})


def test_rows_stand_under_headings() -> None:
    table = load_table("flickr8k")
    groups = {row.name: row.group for row in table.rows}
    assert (groups["seesay-small"], groups["irmatch-h-0.3"]) == ("seesay's own", "IRMatch")
    assert table.paper is None
    assert {row.group for row in load_table("sco-2").rows} == {None}


def test_a_misspelt_table_is_answered_with_those_there_are() -> None:
    with pytest.raises(
        SeesayError, match=r"No table 'two-branch-9'; did you mean 'two-branch-\d'.* flickr8k, "
    ):
        load_table("two-branch-9")


def test_rows_are_chosen_in_the_tables_order() -> None:
    table = load_table("two-branch-2")
    chosen = table.only(["two-branch-full", "cca-mean"])
    assert [row.name for row in chosen.rows] == ["cca-mean", "two-branch-full"]
    assert table.only(()) == table
    with pytest.raises(SeesayError, match=r"two-branch-2: no row 'ca-mean'; did you mean 'cca-mean'"):
        table.only(["ca-mean"])


def test_seeds() -> None:
    assert parse_numbers("3, 1,2", "--seeds") == [3, 1, 2]
    for wrong in ("", "1,", "1,1", "-1", "a", "1.5", "1,01", "4294967296", "9" * 5000):
        with pytest.raises(SeesayError, match="--seeds"):
            parse_numbers(wrong, "--seeds")


def test_a_table_can_have_the_settings_for_another_corpus() -> None:
    named = load_table("flickr30k/irmatch-2")
    recipes = {recipe.name: recipe for recipe in named.recipes_for("photos")}
    assert (recipes["irmatch-s"].settings_of, recipes["irmatch-s"].corpus) == ("flickr30k", "photos")
    assert load_table("irmatch-2").settings_of is None
    lines = load_table("two-branch-2").only(["two-branch", "two-branch-full", "two-branch-one"])
    assert settings_line(lines.name, lines.recipes_for("coco")) == (
        "two-branch-2: settings for coco, flickr8k. Others: flickr30k/two-branch-2, --set."
    )
    with pytest.raises(SeesayError, match="Table flickr8k-phrases has settings for"):
        load_table("coco/flickr8k-phrases")


@pytest.mark.parametrize(
    ("name", "rows", "changes", "said"),
    [
        ("sco-2", (), ["encoders=[precomputed]"], "'sco-cnp' reads concepts, but .* the role concepts"),
        ("gvse-1", (), ["encoders=[precomputed]"], "reads instances, but .* the role instances"),
        (
            "sco-2",
            ("sco-ctx", "sco-ctx-1crop"),
            ["encoders=[precomputed]"],
            "sco-ctx-1crop and sco-ctx are one",
        ),
        ("two-branch-1", (), ["matcher.linear=true"], "ground-linear-one and ground-one are one model"),
        (
            "sco-2",
            ("sco-ctx",),
            ["sentence_encoder={kind: vectors, file: v.npy}"],
            "reads vectors of sentences",
        ),
    ],
)
def test_a_change_that_removes_what_rows_compare_is_refused(
    name: str, rows: tuple[str, ...], changes: list[str], said: str
) -> None:
    with pytest.raises(SeesayError, match=said):
        load_table(name).only(rows).check_changes("flickr30k", changes)


def test_other_encoders_replace_those_of_their_role_in_each_row() -> None:
    table = load_table("sco-2")
    changes = ["encoders=[efficientnet-lite1, {kind: precomputed, role: concepts}]"]
    read = {
        name: [encoder.kind for encoder in table.recipe(name, "flickr30k", (), 1, changes).encoders]
        for name in ("sco-ctx", "sco-cnp", "sco-cnp-ctx", "sco-full")
    }
    both = ["efficientnet-lite1", "precomputed"]
    assert list(read.values()) == [both[:1], both[1:], both, both]
    changes = ["encoders=[{kind: instances, boxes: grid}, efficientnet-lite1]"]
    fused = load_table("gvse-1").recipe("gvse-sum", "flickr30k", (), 1, changes)
    members = [[role_of(encoder) for encoder in member.encoders] for member in member_recipes(fused)]
    assert sorted(members) == [["context"], ["instances"]]


@pytest.mark.parametrize("table", OF_ONE_PAPER, ids=lambda table: table.name)
def test_no_row_of_a_papers_table_repeats_another_on_its_corpus(table: TableDefinition) -> None:
    models: dict[tuple[str, str], str] = {}
    for row in table.rows:
        if row.combine is None and row.measured:
            recipe = table.recipe(row.recipes[0], table.corpus, row.changes, seed=1)
            settings = recipe.model_dump_json(exclude={"name", "about", "system", "departures", "changes"})
            assert models.setdefault((settings, table.protocol_of(row)), row.name) == row.name


@pytest.mark.parametrize(
    ("name", "rows", "changes"),
    [
        ("sco-2", ("sco-ctx", "sco-ctx-gen"), ["encoders=[precomputed]"]),
        ("sco-3", (), ["encoders=[precomputed, concepts]"]),
        ("gvse-1", (), ["encoders=[{kind: instances, boxes: grid}, efficientnet-lite1]"]),
        ("gvse-2", (), ["schedule.epochs=1"]),  # a model stands in several rows, by protocol
        ("irmatch-3", (), ["encoders=[precomputed]", "schedule.epochs=1"]),
        ("two-branch-5", (), ["schedule.epochs=1"]),
    ],
)
def test_a_change_that_keeps_what_rows_compare_is_taken(
    name: str, rows: tuple[str, ...], changes: list[str]
) -> None:
    load_table(name).only(rows).check_changes("flickr30k", changes)
