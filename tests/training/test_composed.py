"""Ensembles on drawn scenes: members trained each alone, resumed, shared with tables, combined."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file

from seesay.data.corpus import Corpus
from seesay.errors import SeesayError
from seesay.matchers.settings import MATCHERS
from seesay.recipes.load import load_recipe, member_recipes
from seesay.recipes.table import load_table
from seesay.runs.config import run_recipe, save_recipe
from seesay.runs.inputs import split_inputs
from seesay.runs.run import Run
from seesay.runs.summary import TrainingSummary, list_runs
from seesay.training.composed import MEMBERS
from seesay.training.table import TableRuns, measure_table
from seesay.training.train import train
from tests.training.steps import counted_steps

NAMES = ["mcnn-wd", "mcnn-phs", "mcnn-phl", "mcnn-st"]
SMALL = (
    "encoders=[efficientnet-lite0]",
    "matcher.maps=[8, 8, 8]",
    "matcher.image=8",
    "matcher.hidden=8",
    "schedule.epochs=2",
    "batch_size=60",
)
TWO = (*SMALL, "matcher.members=[mcnn-phs, mcnn-st]")


@pytest.fixture(scope="module")
def finished(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An ensemble of two."""
    folder = tmp_path_factory.mktemp("ensemble") / "run"
    train(load_recipe("mcnn-ens", changes=TWO), corpus, folder)
    return folder


@pytest.fixture
def ensemble(finished: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    return Path(shutil.copytree(finished, tmp_path / "copy"))


def test_its_scores_are_the_sums_of_its_members_runs(corpus: Corpus, finished: Path) -> None:
    whole = Run.load(str(finished))
    inputs = split_inputs(whole.recipe, corpus, "test", whole.vocabulary)
    features = np.asarray(inputs.features)
    parts = [Run.load(str(finished / MEMBERS / name)) for name in ("mcnn-phs", "mcnn-st")]
    scores = whole.score_prepared(features, inputs.sentences)
    assert np.allclose(
        scores, sum(part.score_prepared(features, inputs.sentences) for part in parts), atol=1e-5
    )
    assert np.ptp(scores) > 0
    assert len({whole.fingerprint, *(part.fingerprint for part in parts)}) == 3


def test_the_run_is_whole_without_its_members(corpus: Corpus, ensemble: Path) -> None:
    inputs = split_inputs(Run.load(str(ensemble)).recipe, corpus, "val", Run.load(str(ensemble)).vocabulary)
    before = Run.load(str(ensemble)).score_prepared(np.asarray(inputs.features), inputs.sentences)
    shutil.rmtree(ensemble / MEMBERS)
    names = {"run.json", "recipe.json", "weights.safetensors", "vocabulary.json", "training.json"}
    assert {path.name for path in ensemble.iterdir()} == names | {
        "images.onnx",
        "sentences.onnx",
        "pairs.onnx",
    }
    again = Run.load(str(ensemble)).score_prepared(np.asarray(inputs.features), inputs.sentences)
    assert np.array_equal(again, before)
    summary = TrainingSummary.load(ensemble)
    assert summary.members.keys() == {"mcnn-phs", "mcnn-st"}
    assert {member.machine for member in summary.members.values()} == {summary.machine}
    assert summary.train["cut_sentences"] == 0
    about = dict(list_runs(ensemble))[str(ensemble)]
    best = summary.best_val["metrics"]["mR"]
    assert about == f"mcnn-ens on scenes, seed 1, val mR {best:.1f}, of 6 images"


def test_changes_and_seed_go_to_every_member(finished: Path) -> None:
    recipe = load_recipe("mcnn-ens", changes=[*TWO, "seed=5"])
    assert isinstance(recipe.matcher, MATCHERS["ensemble"])
    members = member_recipes(recipe)
    assert recipe.matcher.matchers == tuple(member.matcher for member in members)
    assert [member.matcher.level for member in members] == ["phs", "st"]
    for member in members:
        assert member.matcher.maps == (8, 8, 8)
        assert (member.schedule.epochs, member.batch_size, member.seed) == (2, 60, 5)
        assert member.changes == tuple(sorted((*SMALL, "seed=5")))
    assert [each.seed for each in member_recipes(recipe.model_copy(update={"seed": 9}))] == [9, 9]
    assert run_recipe(finished / MEMBERS / "mcnn-st").matcher.maps == (8, 8, 8)
    with pytest.raises(SeesayError, match=r"mcnn-wd with matcher\.breadth=3: key 'matcher\.breadth'"):
        load_recipe("mcnn-ens", changes=["matcher.breadth=3"])


@pytest.mark.parametrize("corpus_name", ["flickr8k", "flickr30k", "coco"])
def test_the_recipe_says_what_its_members_say(corpus_name: str) -> None:
    recipe = load_recipe(f"{corpus_name}/mcnn-ens")
    own = {"departures", "name", "about", "system", "matcher", "schedule"}
    for member, name in zip(member_recipes(recipe), NAMES, strict=True):
        assert (member.name, member.corpus) == (name, corpus_name)
        assert member.model_dump(exclude=own) == recipe.model_dump(exclude=own)
        assert {*member.departures} <= {line.removeprefix(f"{name}: ") for line in recipe.departures}


@pytest.mark.slow
def test_a_kill_in_the_second_member_is_resumed_to_the_same_weights(
    corpus: Corpus, finished: Path, tmp_path: Path
) -> None:
    recipe, out = load_recipe("mcnn-ens", changes=TWO), tmp_path / "run"
    steps = 2 * 4 + 4 + 2  # 240 pairs in batches of 60: the second epoch of the second member
    with pytest.raises(KeyboardInterrupt), counted_steps(last=steps):
        train(recipe, corpus, out)
    with pytest.raises(SeesayError, match="or resume it"):
        train(recipe, corpus, out)
    with counted_steps() as taken:
        train(recipe, corpus, out, resume=True)
    assert len(taken) == 4  # the second epoch of the second member
    whole, resumed = (load_file(folder / "weights.safetensors") for folder in (finished, out))
    assert whole.keys() == resumed.keys()
    assert all((whole[key] == resumed[key]).all() for key in whole)


@pytest.mark.parametrize("is_finished", [True, False])
def test_members_that_are_there_must_be_of_this_recipe_and_corpus(
    corpus: Corpus, ensemble: Path, is_finished: bool
) -> None:
    (ensemble / "run.json").unlink()  # as after a kill before the members were combined
    if not is_finished:  # as after one while the first was trained
        (ensemble / MEMBERS / "mcnn-phs" / "training.json").unlink()
    other = load_recipe("mcnn-ens", changes=[*TWO, "loss.margin=0.3"])
    with pytest.raises(SeesayError, match=r"mcnn-phs.recipe\.json: another recipe was trained there"):
        train(other, corpus, ensemble, resume=True)
    said = tuple(replace(sentence, text="one dog") for sentence in corpus.sentences)
    with pytest.raises(SeesayError, match="mcnn-phs: was trained on other sentences"):
        train(load_recipe("mcnn-ens", changes=TWO), replace(corpus, sentences=said), ensemble, resume=True)


def test_a_corpus_that_cannot_be_trained_on_leaves_nothing_in_the_way(corpus: Corpus, tmp_path: Path) -> None:
    images = tuple(replace(image, split="train") for image in corpus.images)
    with pytest.raises(SeesayError, match="split 'val'"):
        train(load_recipe("mcnn-ens", changes=TWO), replace(corpus, images=images), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("member", "said"),
    [
        ("irmatch-s", "member 'irmatch-s' has the matcher 'irmatch'"),
        ("mcnn-ens", "member 'mcnn-ens' has the matcher 'ensemble'"),
        (
            "two-branch-similarity",
            "in its member 'two-branch-similarity'; members of an ensemble read the same",
        ),
        ("mcnn-st", "a member is named twice"),
        ("mcnn-no", "No recipe 'mcnn-no'"),
    ],
)
def test_members_that_cannot_be_combined_are_refused_before_training(member: str, said: str) -> None:
    with pytest.raises(SeesayError, match=said):
        load_recipe("mcnn-ens", changes=[f"matcher.members=[mcnn-st, {member}]"])


@pytest.mark.slow
def test_a_table_combines_its_own_runs(corpus: Corpus, tmp_path: Path) -> None:
    rows = load_table("mcnn-2").only(["mcnn-wd", "mcnn-ens"])
    runs = TableRuns(rows, corpus, tmp_path, changes=SMALL)
    forbidden = measure_table(replace(runs, may_train=False), [1], lambda _: None)
    assert "mcnn-wd-seed1: no finished run" in forbidden.failures[-1]
    with counted_steps() as taken:
        first = measure_table(runs, [1], lambda _: None)
    assert first.failures == []
    assert len(taken) == len(NAMES) * 2 * 4  # the row of its own and the member are one run
    scenes = tmp_path / "scenes"
    assert {path.name for path in scenes.iterdir()} == {f"{name}-seed1" for name in (*NAMES, "mcnn-ens")}
    assert first.lines[1].rows[0].system == "m-CNN(ENS), VGG"
    weights = scenes / "mcnn-ens-seed1" / "weights.safetensors"
    written, before = weights.stat().st_mtime_ns, load_file(weights)
    assert measure_table(replace(runs, may_train=False), [1], lambda _: None).failures == []
    assert weights.stat().st_mtime_ns == written  # not combined again
    # A member that is trained anew makes another ensemble.
    shutil.rmtree(scenes / "mcnn-st-seed1")
    member = rows.recipe("mcnn-st", corpus.name, SMALL, 2)
    train(member, corpus, scenes / "mcnn-st-seed1")
    recipe = rows.recipe("mcnn-st", corpus.name, SMALL, 1)
    save_recipe(recipe, scenes / "mcnn-st-seed1")
    assert measure_table(runs, [1], lambda _: None).failures == []
    after = load_file(weights)
    assert {key.split(".")[1] for key in after if (after[key] != before[key]).any()} == {"3"}


@pytest.mark.parametrize("place", ["members/mcnn-phs", "members/own", "."])
@pytest.mark.parametrize("file", ["notes.txt", "run.json"])
def test_nothing_is_written_into_a_folder_of_others_members(
    corpus: Corpus, tmp_path: Path, place: str, file: str
) -> None:
    (tmp_path / "members" / "mcnn-phs").mkdir(parents=True)
    (tmp_path / place).mkdir(exist_ok=True)
    (tmp_path / place / file).write_text("{}")
    before = sorted(tmp_path.rglob("*"))
    for resume in (True, False):
        with pytest.raises(SeesayError, match=r"nothing to resume|damaged|other files|already contains"):
            train(load_recipe("mcnn-ens", changes=TWO), corpus, tmp_path, resume=resume)
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / place / file).read_text() == "{}"


@pytest.mark.parametrize("has_recipe", [False, True])
def test_a_training_that_was_killed_before_its_first_member_had_begun_starts_again(
    corpus: Corpus, tmp_path: Path, has_recipe: bool
) -> None:
    member = tmp_path / "members" / "mcnn-phs"
    member.mkdir(parents=True)
    recipe = load_recipe("mcnn-ens", changes=TWO)
    if has_recipe:
        save_recipe(load_recipe("mcnn-phs", changes=SMALL), member)
        (member / "run.json.12.34.tmp").touch()
    with pytest.raises(SeesayError, match="nothing to resume"):
        train(recipe, corpus, tmp_path, resume=True)
    with pytest.raises(KeyboardInterrupt), counted_steps(last=1):
        train(recipe, corpus, tmp_path)
    with pytest.raises(SeesayError, match="nothing to resume"):  # the members are no run of this recipe
        train(load_recipe("mcnn-st", changes=SMALL), corpus, tmp_path, resume=True)
    with pytest.raises(KeyboardInterrupt), counted_steps(last=1):
        train(recipe, corpus, tmp_path, resume=True)
