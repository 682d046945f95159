"""Which run `concepts` means in a recipe: the one beside, one that is named, or the table's own."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from seesay.data.corpus import Corpus
from seesay.encoders.spec import untuned
from seesay.errors import SeesayError
from seesay.recipes.load import load_recipe
from seesay.recipes.schema import Recipe
from seesay.recipes.table import TableRow, load_table
from seesay.runs.run import Run
from seesay.training.composed import MEMBERS
from seesay.training.table import TableRuns, measure_table
from seesay.training.train import train

SHORT = ("schedule.epochs=1", "batch_size=30", "min_count=1")
PREDICTS = (*SHORT, "encoders=[efficientnet-lite0]")
READS = ("encoders=[efficientnet-lite0, concepts]", "matcher.dim=8", "matcher.word_dim=4")


@pytest.fixture(scope="module")
def concepts(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of concepts in the folder `concepts`."""
    folder = tmp_path_factory.mktemp("runs") / "concepts"
    train(load_recipe("concepts", changes=PREDICTS), corpus, folder)
    return folder


def reader() -> Recipe:
    return load_recipe("vse++", changes=[*SHORT, *READS])


def read_by(run: Run) -> list[str]:
    """The image encoders of a run, without the hashes of their weights."""
    return [untuned(name) for name in run.recipe.encoders]


def test_it_is_the_run_concepts_beside_the_new_run(corpus: Corpus, concepts: Path) -> None:
    run = train(reader(), corpus, concepts.parent / "reader")
    assert read_by(run) == ["efficientnet-lite0", f"concepts:{concepts}"]
    assert run.recipe.encoders[1].startswith("concepts@")  # the run keeps what it reads
    assert run.encoders[1].dims["pooled"] == len(Run.load(str(concepts)).vocabulary.words)
    train(reader(), corpus, concepts.parent / "reader", resume=True)  # is the same recipe


def test_it_is_the_run_of_a_recipe_that_is_named(corpus: Corpus, concepts: Path, tmp_path: Path) -> None:
    recipe = load_recipe("vse++", changes=[*SHORT, *READS, "encoders=[concepts:concepts-instances]"])
    with pytest.raises(SeesayError, match=f"`seesay train concepts-instances --out {tmp_path}/concepts-inst"):
        train(recipe, corpus, tmp_path / "run")
    shutil.copytree(concepts, tmp_path / "concepts-instances")
    run = train(recipe, corpus, tmp_path / "run")
    assert read_by(run) == [f"concepts:{tmp_path}/concepts-instances"]


def test_another_run_can_be_named(corpus: Corpus, concepts: Path, tmp_path: Path) -> None:
    run = train(reader(), corpus, tmp_path / "run", concepts=concepts)
    assert read_by(run)[1] == f"concepts:{concepts}"


def test_without_such_a_run_nothing_is_trained(corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(SeesayError, match=rf"none is at {tmp_path}/concepts: train one"):
        train(reader(), corpus, tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_members_read_the_concepts_of_the_whole(corpus: Corpus, concepts: Path, tmp_path: Path) -> None:
    shutil.copytree(concepts, tmp_path / "concepts")
    for name, changes in (("vse++", READS), ("vse0", (*READS, "encoders=[efficientnet-lite0]"))):
        text = load_recipe(name, changes=[*SHORT, *changes]).model_copy(update={"changes": ()})
        (tmp_path / f"{name}.yaml").write_text(text.model_dump_json())
    members = ", ".join(str(tmp_path / f"{name}.yaml") for name in ("vse++", "vse0"))
    (tmp_path / "fused.yaml").write_text(
        "name: fused\ncorpus: flickr8k\nabout: one of two members reads concepts\nmin_count: 1\n"
        "encoders: [efficientnet-lite0, concepts]\nloss: {kind: margin}\n"
        f"matcher: {{kind: metric-fusion, members: [{members}]}}\n"
    )
    recipe = load_recipe(str(tmp_path / "fused.yaml"))
    run = train(recipe, corpus, tmp_path / "run")
    expected = ["efficientnet-lite0", f"concepts:{tmp_path / 'concepts'}"]
    assert read_by(run) == expected
    assert read_by(Run.load(str(tmp_path / "run" / MEMBERS / "vse++"))) == expected
    assert train(recipe, corpus, tmp_path / "run", resume=True).fingerprint == run.fingerprint


@pytest.mark.slow
def test_a_table_trains_and_reads_its_own(corpus: Corpus, tmp_path: Path) -> None:
    row = TableRow(name="reader", recipe="vse++", changes=READS)
    definition = load_table("two-branch-2").model_copy(update={"rows": (row,)})
    runs = TableRuns(definition, corpus, tmp_path, changes=SHORT)
    (failure,) = measure_table(replace(runs, may_train=False), [1], lambda _: None).failures
    assert "concepts-seed1: no finished run" in failure
    assert measure_table(runs, [1], lambda _: None).failures == []
    own = tmp_path / corpus.name / "concepts-seed1"
    assert read_by(Run.load(str(tmp_path / corpus.name / "reader-seed1")))[1] == f"concepts:{own}"
    assert measure_table(replace(runs, may_train=False), [1], lambda _: None).failures == []


def test_concepts_do_not_read_themselves(corpus: Corpus, tmp_path: Path) -> None:
    definition = load_table("two-branch-2").model_copy(update={"rows": (TableRow(name="vse++"),)})
    runs = TableRuns(definition, corpus, tmp_path, changes=(*SHORT, "encoders=[concepts]"))
    (failure,) = measure_table(runs, [1], lambda _: None).failures
    assert "reads the concepts that a run predicts" in failure
