"""Image-sentence retrieval as a task: a matcher that learns from another's scores, on drawn scenes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from seesay.data.corpus import Corpus
from seesay.data.readers import read_corpus
from seesay.errors import SeesayError
from seesay.losses.base import Batch
from seesay.recipes.load import load_recipe, settings_digest
from seesay.recipes.schema import Recipe
from seesay.results.records import read_rows, recorded_rows, row_of
from seesay.runs.inputs import split_inputs
from seesay.runs.run import Run
from seesay.runs.summary import read_history
from seesay.text.vocabulary import Vocabulary
from seesay.training.sentence_task import SentenceTask, Teacher, task_for
from seesay.training.train import train
from tests.results.made import RESULT
from tools.scenes import write_scenes


@pytest.fixture(scope="module")
def teacher(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Run:
    changes = ["encoders=[efficientnet-lite0]", "matcher.dim=60", "matcher.word_dim=16", "schedule.epochs=10"]
    return train(
        load_recipe("irmatch-s", changes=changes), corpus, tmp_path_factory.mktemp("teacher") / "run"
    )


def student(teacher: str, *changes: str) -> Recipe:
    small = (
        "encoders=[efficientnet-lite0]",
        "matcher.maps=[32, 48, 48]",
        "matcher.image=32",
        "matcher.hidden=64",
        "schedule.epochs=4",
        "batch_size=20",
    )
    return load_recipe("mcnn-st-plus", changes=[*small, f"loss.teacher={teacher}", *changes])


def test_a_teacher_scores_as_its_run(corpus: Corpus, teacher: Run) -> None:
    data = split_inputs(teacher.recipe, corpus, "train", teacher.vocabulary)
    loaded = Teacher(teacher.name, corpus, data)
    images, sentences = np.array([3, 0, 7]), np.array([11, 4, 2])
    batch = Batch(torch.zeros(3, 1), None, torch.from_numpy(images), positions=(images, sentences))
    scores = teacher.score_prepared(np.asarray(data.features), data.sentences)
    found = loaded.scores(batch)
    assert np.allclose(found, scores[np.ix_(images, sentences)], atol=1e-5)


def test_the_student_comes_to_score_as_the_teacher(corpus: Corpus, teacher: Run, tmp_path: Path) -> None:
    run = train(student(teacher.name), corpus, tmp_path / "run")
    inputs = split_inputs(run.recipe, corpus, "train", run.vocabulary)
    features = np.asarray(inputs.features)
    theirs = teacher.score_prepared(
        features, split_inputs(teacher.recipe, corpus, "train", teacher.vocabulary).sentences
    )
    ours = run.score_prepared(features, inputs.sentences)
    start = train(student(teacher.name, "schedule.epochs=1", "optimizer.lr=1e-9"), corpus, tmp_path / "start")
    before = start.score_prepared(features, inputs.sentences)
    agreement, chance = (np.corrcoef(each.ravel(), theirs.ravel())[0, 1] for each in (ours, before))
    assert agreement > chance + 0.3
    assert row_of(RESULT, [run], 0.0).teacher == teacher.fingerprint
    assert row_of(RESULT, [teacher], 0.0).teacher is None


def test_a_pair_matcher_is_no_teacher(corpus: Corpus, pair_run: Path, tmp_path: Path) -> None:
    with pytest.raises(SeesayError, match="a pair matcher has no embeddings"):
        train(student(str(pair_run)), corpus, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_teacher_of_other_sentences_is_refused(teacher: Run, tmp_path: Path) -> None:
    write_scenes(tmp_path / "other", images=30, seed=8)
    with pytest.raises(SeesayError, match=r"was trained on other sentences .* loss\.teacher=RUN"):
        train(student(teacher.name), read_corpus(tmp_path / "other"), tmp_path / "run")
    with pytest.raises(SeesayError, match="'seesay-small' was trained on other sentences"):
        train(student("seesay-small"), read_corpus(tmp_path / "other"), tmp_path / "run")


def test_a_teacher_that_is_not_there_is_named(corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(SeesayError, match="no-such-run"):
        train(student("no-such-run"), corpus, tmp_path / "run")


@pytest.mark.parametrize(
    ("change", "images"), [("val_images=null", 6), ("val_images=2", 2), ("val_images=9", 6)]
)
def test_the_recipe_says_which_val_images_choose_the_epoch(
    corpus: Corpus, tmp_path: Path, change: str, images: int
) -> None:
    recipe = student("none", "loss={kind: pair-margin}", "schedule.epochs=1", change)
    run = train(recipe, corpus, tmp_path / "run")
    [epoch] = read_history(run.folder)
    assert epoch.val["about"]["images"] == images


def shop(folder: Path, alike: int) -> Corpus:
    """Drawn scenes as products, of which that many in each split have the same name."""
    write_scenes(folder, images=40, seed=2)
    drawn = read_corpus(folder)
    first = {sentence.image: sentence for sentence in reversed(drawn.sentences)}
    splits = [image.split for image in drawn.images]
    numbers = [splits[:i].count(split) for i, split in enumerate(splits)]
    said = (replace(first[i], text=f"a product {max(n - alike + 1, 0)}") for i, n in enumerate(numbers))
    return replace(drawn, sentences=tuple(said))


def task_of(corpus: Corpus, *changes: str) -> SentenceTask:
    recipe = load_recipe("irmatch-s", changes=["encoders=[efficientnet-lite0]", "min_count=1", *changes])
    vocabulary = Vocabulary.from_texts(corpus.split("train").texts(), 1)
    return task_for(recipe, corpus, vocabulary, None)


def test_images_that_carry_the_same_text_are_no_negatives_of_it(tmp_path: Path) -> None:
    corpus = shop(tmp_path / "shop", alike=8)
    task = task_of(corpus)
    part = task.data.corpus
    names = [part.sentences[i].text for i in range(len(part.images))]
    positions = np.array([7, 2, 9, 0, 3]), np.array([7, 2, 9, 0, 3])
    shared = task.drawn(positions, "cpu").shared
    assert shared is not None
    assert shared.tolist() == [[names[i] == names[j] for j in positions[1]] for i in positions[0]]
    assert task.sizes()[0]["shared_sentences"] == 8
    assert task_of(corpus, "shared_sentences=false").drawn(positions, "cpu").shared is None


@pytest.mark.parametrize(
    ("alike", "wanted", "counted"),
    [(2, "null", False), (2, "true", True), (8, "null", True), (1, "true", False)],
)
def test_a_few_shared_sentences_are_negatives_as_in_the_papers(
    tmp_path: Path, alike: int, wanted: str, counted: bool
) -> None:
    task = task_of(shop(tmp_path / "shop", alike), f"shared_sentences={wanted}")
    assert (task.shared is not None) == counted


def test_recorded_rows_keep_their_digest_and_a_loss_that_cannot_share_refuses_it() -> None:
    recipe = load_recipe("irmatch-s", "flickr8k")
    assert settings_digest(recipe) != settings_digest(recipe.model_copy(update={"shared_sentences": True}))
    rows = list(read_rows(recorded_rows("flickr8k")))
    recorded = {row.settings_digest for row in rows if row.recipe == "irmatch-s"}
    assert settings_digest(recipe) in recorded
    with pytest.raises(
        SeesayError, match="'shared_sentences': multi-label learns from a sentence's own image"
    ):
        load_recipe("concepts", changes=["shared_sentences=true"])
