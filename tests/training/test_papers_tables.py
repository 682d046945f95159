"""The commands that the page of tables prints, run on a small corpus in each published layout."""

from __future__ import annotations

import json
import re
import shlex
from itertools import chain
from pathlib import Path

import pytest

from seesay.paths import file_digest
from seesay.recipes.table import list_tables, load_table
from seesay.runs.folder import WEIGHTS
from tests.conftest import ROOT
from tests.end_to_end.command import seesay
from tests.training.published_layouts import PROPOSALS, write_corpora

PAGE = (ROOT / "docs" / "tables.md").read_text(encoding="utf-8")
SMALL = "--set schedule.epochs=2"  # scheduled sampling begins with the second
# A batch of all sentences has the neighbours of each without sampling. Runs of other batches are kept apart.
BATCHES = "--set batch_size=50"
# The 300 images of val are more than there are, and in two epochs the hardest pairs violate any margin.
ALIKE = {"mcnn-ens-300", "irmatch-s-0.5"}


def section(title: str) -> str:
    """Return the text under a heading of the page."""
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


COMMANDS = {
    shlex.split(command)[2]: command
    for line in section("Tables").splitlines()
    for command in re.findall(r"`(seesay table [^`]+)`", line if line.startswith("|") else "")
}


def option(file: str) -> str:
    """Return the option of the page, in a block of code, that names a file."""
    (found,) = re.findall(rf"^ +(--set '[^']*{file}[^']*')$", PAGE, re.M)
    return str(found)


def rows_of(table: str, column: int) -> str | None:
    """Return the option that the page has for a table of one's own features; None if no row reads them."""
    for line in section("Your own features").splitlines():
        cells = [cell.strip(" `") for cell in line.strip("|").split("|")]
        if table in cells[0].replace("`", "").split(", "):
            return {"all": "", "none": None}.get(cells[column], f"--rows '{cells[column]}'")
    return ""


OWN_VECTORS = "Boxes and sentence vectors of your own"
ONE, THREE = 2, 1  # columns of the page


@pytest.fixture(scope="module")
def corpora(scenes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("papers")
    write_corpora(folder, scenes)
    return folder


def run(command: str, corpora: Path, runs: str, *options: str) -> None:
    """Run a command of the page with the settings for the paper's corpus.

    No row fails, rows of different models have different weights, and COCO's are measured on 5,000 images.
    """
    name = shlex.split(command)[2]
    if name.startswith("two-branch"):
        options, runs = (*options, BATCHES), f"{runs}-two-branch"
    further = chain.from_iterable(map(shlex.split, (*options, SMALL)))
    done = seesay(*shlex.split(command)[1:], *further, "--runs", runs, "--json", cwd=corpora)
    shown, table = json.loads(done.stdout), load_table(name)
    assert f"{table.name}: settings for {table.corpus}" in done.stderr
    assert shown["failures"] == []
    measured = [row for line in shown["rows"] for row in line["measured"]]
    assert table.corpus != "coco" or {row["content"]["images"] for row in measured} == {5000}
    names = {row["row"] for row in shown["rows"] if row["measured"]}
    models = {
        f"{row.name if row.changes else row.recipes[0]}-seed1"
        for row in table.rows
        if row.name in names - ALIKE
    }
    folders = [folder for folder in (corpora / runs / table.corpus).glob("*-seed1") if folder.name in models]
    assert {folder.name for folder in folders} == models
    assert len({file_digest(folder / WEIGHTS) for folder in folders}) == len(models)


def test_the_page_has_a_command_for_each_table_of_a_paper() -> None:
    of_papers = {table.name: table.corpus for table in list_tables() if table.paper}
    assert set(COMMANDS) == set(of_papers)
    for name, command in COMMANDS.items():
        assert f"--data {of_papers[name].removeprefix('flickr30k-')}" in command


def tables_of(corpus: str, column: int) -> list[str]:
    """Return the tables of a corpus with rows that read one's own features."""
    of_corpus = [name for name, command in COMMANDS.items() if command.endswith(f"--data {corpus}")]
    return [name for name in of_corpus if name != "two-branch-5" and rows_of(name, column) is not None]


def small_rows(table: str, column: int) -> str:
    """Return the option of the page without the rows that a small corpus cannot have.

    m-CNN scores 5 million pairs of COCO's test images one by one, which takes an hour, and the teacher of the
    rows `-plus` on Flickr8k knows the sentences of Flickr8k itself.
    """
    rows, definition = rows_of(table, column), load_table(table)
    left_out = {"coco": "mcnn-ens", "flickr8k": "-plus"}.get(definition.corpus, "none")
    names = shlex.split(rows)[1].split(",") if rows else [row.name for row in definition.rows if row.measured]
    return f"--rows '{','.join(name for name in names if not name.endswith(left_out))}'"


@pytest.mark.slow
@pytest.mark.parametrize(
    "table", [*tables_of("flickr8k", THREE), *tables_of("flickr30k", THREE), *tables_of("coco", THREE)]
)
def test_every_table_is_trained_on_three_arrays_beside_karpathys_file(corpora: Path, table: str) -> None:
    run(COMMANDS[table], corpora, "runs-three", option("concepts.npy"), small_rows(table, THREE))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("corpus", "layout", "table"),
    [("flickr30k", "f30k_precomp", table) for table in tables_of("flickr30k", ONE)]
    + [("coco", "coco_precomp", table) for table in tables_of("coco", ONE)],
)
def test_rows_of_the_context_are_trained_on_features_as_they_are_published(
    corpora: Path, corpus: str, layout: str, table: str
) -> None:
    command = COMMANDS[table].replace(f"--data {corpus}", f"--data {layout}")
    run(command, corpora, "runs-one", option("precomputed]"), small_rows(table, ONE))


@pytest.mark.slow
def test_both_tables_of_phrases_are_trained_on_the_authors_boxes_and_vectors(corpora: Path) -> None:
    phrases, sentences = (
        command.replace("\\\n", "")
        for command in re.findall(r"^    (seesay table (?:.*\\\n)*.*)$", section(OWN_VECTORS), re.M)
    )
    context, (vectors,) = option("concepts.npy"), re.findall("--set 'sentence_encoder=.*'", sentences)
    run(phrases, corpora, "runs-phrases", vectors, f"--set regions.proposals={PROPOSALS}")
    run(sentences, corpora, "runs-phrases", context)
    run(COMMANDS["two-branch-5"], corpora, "runs-phrases", context, vectors)


@pytest.mark.parametrize("column", [ONE, THREE])
def test_no_option_of_the_page_is_refused_by_a_row(column: int) -> None:
    (change,) = shlex.split(option({ONE: "precomputed]", THREE: "concepts.npy"}[column]))[1:]
    for name in COMMANDS.keys() - {"two-branch-1"}:
        if (chosen := rows_of(name, column)) is not None:
            table = load_table(name)
            rows = shlex.split(chosen)[1].split(",") if chosen else []
            table.only(rows).check_changes(table.corpus, [change])
