"""Training end to end on drawn scenes: resuming, seeds, what a run's folder holds, and bad folders."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import seesay
from seesay.data.corpus import Corpus
from seesay.data.images import EncodedImage
from seesay.data.readers import read_corpus
from seesay.errors import SeesayError
from seesay.matchers import IRMatch, Matcher, PairMatcher, Sentences, register_matcher
from seesay.matchers.settings import MATCHERS
from seesay.paths import cache_dir
from seesay.protocols.evaluate import measure_inputs, open_corpus_of
from seesay.recipes.load import load_recipe
from seesay.recipes.schema import Recipe
from seesay.runs.inputs import split_inputs
from seesay.runs.run import Run
from seesay.runs.summary import CorpusPlace, TrainingSummary, is_finished, list_runs
from seesay.training.loop import Callback
from seesay.training.train import train
from tests.training.steps import counted_steps
from tests.training.test_callbacks import SMALL
from tools.scenes import write_scenes


def small(*changes: str, name: str = "irmatch-s") -> Recipe:
    return load_recipe(
        name,
        changes=[
            "encoders=[efficientnet-lite0]",
            "matcher.dim=60",
            "matcher.word_dim=16",
            "schedule.epochs=4",
            "batch_size=64",
            *changes,
        ],
    )


@pytest.fixture(scope="module")
def finished(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "whole"
    train(small(), corpus, out)
    return out


# Of 240 pairs an epoch; killed after that step, in the middle of the second or the third epoch.
RESUMED = {
    "irmatch-s": (4 + 2, ["matcher.dim=60", "matcher.word_dim=16", "batch_size=64"]),
    # Drawn negatives, dropout and SGD.
    "mcnn-phs": (
        24 + 5,
        [
            "matcher.maps=[8, 12, 12]",
            "matcher.image=16",
            "matcher.hidden=16",
            "batch_size=20",
            "loss.count=3",
        ],
    ),
    # Neighbourhood batches, dropout and batch normalisation.
    "two-branch-full": (8 + 2, ["matcher.image_hidden=64", "matcher.sentence_hidden=64", "batch_size=64"]),
    # Scheduled sampling, which draws, and grows with the epochs of the whole schedule.
    "sco-ctx-gen-s": (16 + 3, ["min_count=1", "matcher.dim=48", "matcher.word_dim=24", "batch_size=30"]),
}


@pytest.mark.parametrize("name", RESUMED)
def test_resumed_ends_with_the_same_weights(corpus: Corpus, tmp_path: Path, name: str) -> None:
    last, small = RESUMED[name]
    changes = ["encoders=[efficientnet-lite0]", *small, "schedule.epochs=3"]
    recipe = load_recipe(name, changes=changes)
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    with counted_steps() as taken:
        train(recipe, corpus, whole)
    with pytest.raises(KeyboardInterrupt), counted_steps(last):
        train(recipe, corpus, cut)
    torch.rand(7)  # whatever the random state is then
    with counted_steps() as left:
        train(recipe, corpus, cut, resume=True)
    an_epoch = len(taken) // 3
    assert len(left) == len(taken) - last // an_epoch * an_epoch
    expected, resumed = (load_file(folder / "weights.safetensors") for folder in (whole, cut))
    assert expected.keys() == resumed.keys()
    for key in expected:
        assert torch.equal(expected[key], resumed[key]), key
    assert losses(cut) == losses(whole)


@pytest.mark.parametrize(("steps", "epochs"), [(40, 3), (7, 1)])
def test_steps_are_counted_and_resumed(corpus: Corpus, tmp_path: Path, steps: int, epochs: int) -> None:
    recipe = small(
        "batch_size=16", "matcher.dim=24", "epochs=null", f"steps={steps}"
    )  # of which an epoch has 15
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    with counted_steps() as taken:
        train(recipe, corpus, whole)
    assert (len(taken), TrainingSummary.load(whole).epochs) == (steps, epochs)
    with pytest.raises(KeyboardInterrupt), counted_steps(steps - 2):
        train(recipe, corpus, cut)
    train(recipe, corpus, cut, resume=True)
    expected, resumed = (load_file(folder / "weights.safetensors") for folder in (whole, cut))
    assert all(torch.equal(expected[key], resumed[key]) for key in expected)
    assert losses(cut) == losses(whole)


def losses(folder: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_same_seed_same_weights_other_seed_others(corpus: Corpus, finished: Path, tmp_path: Path) -> None:
    train(small(), corpus, tmp_path / "again")
    train(small("seed=2"), corpus, tmp_path / "other")
    first, again, other = (
        load_file(folder / "weights.safetensors")
        for folder in (finished, tmp_path / "again", tmp_path / "other")
    )
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not torch.equal(first["image_map.weight"], other["image_map.weight"])


def test_random_numbers_drawn_while_vectors_are_loaded_change_no_weight(
    corpus: Corpus, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network that is loaded for the first time draws its initial weights, one from the cache does not."""
    monkeypatch.setattr(Matcher, "prepare", lambda matcher, pretrained: torch.rand(3))
    train(small(), corpus, tmp_path / "run")
    first, second = (load_file(folder / "weights.safetensors") for folder in (finished, tmp_path / "run"))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_it_learns_and_the_best_epoch_is_kept(corpus: Corpus, finished: Path) -> None:
    history = [json.loads(line) for line in (finished / "metrics.jsonl").read_text().splitlines()]
    assert history[-1]["loss"] < history[0]["loss"]
    best = max(history, key=lambda row: row["val"]["metrics"]["mR"])
    assert TrainingSummary.load(finished).best_val == best["val"]
    run = Run.load(str(finished))
    inputs = split_inputs(run.recipe, corpus, "val", run.vocabulary)
    assert measure_inputs(run, inputs, "val").to_dict() == best["val"]
    place = CorpusPlace(name=corpus.name, root=str(corpus.root.resolve()))
    assert TrainingSummary.load(run.folder).corpus == place


def test_the_folder_holds_what_it_should(finished: Path) -> None:
    names = {path.name for path in finished.iterdir()}
    assert {
        "run.json",
        "weights.safetensors",
        "vocabulary.json",
        "training.json",
        "metrics.jsonl",
    } <= names
    assert not [name for name in names if name.endswith(".tmp")]
    assert {(finished / name).stat().st_mode for name in names} == {(finished / "run.json").stat().st_mode}


def test_runs_are_listed(finished: Path) -> None:
    assert "val mR" in dict(list_runs(finished.parent))[str(finished)]


@pytest.mark.parametrize("name", ["vse++", pytest.param("projection", marks=pytest.mark.slow)])
def test_other_matchers_train_and_search(corpus: Corpus, tmp_path: Path, name: str) -> None:
    changes = ["encoders=[efficientnet-lite0]", "schedule.epochs=1", "matcher.dim=24", "matcher.word_dim=8"]
    run = train(load_recipe(name, changes=changes), corpus, tmp_path / "run")
    source = corpus.images[0].source
    assert source is not None
    vectors = run.embed_photos([EncodedImage(source.read(), "a photo").decoded(run.side)])
    assert vectors[0] @ vectors[0] == pytest.approx(1, abs=1e-5)
    assert run.embed_sentences(["a red circle", ""]).shape == (2, run.dim)


def test_a_folder_in_use_is_not_overwritten(corpus: Corpus, finished: Path) -> None:
    with pytest.raises(SeesayError, match="already contains a run"):
        train(small(), corpus, finished)
    with pytest.raises(SeesayError, match="another recipe"):
        train(small("seed=9"), corpus, finished, resume=True)


def test_resuming_on_other_sentences_leaves_the_run_as_it_was(
    finished: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    write_scenes(tmp_path, images=12, seed=99)
    before = {path.name: path.read_bytes() for path in finished.iterdir()}
    with pytest.raises(SeesayError, match="other sentences"):
        train(small(), read_corpus(tmp_path), finished, resume=True)
    assert {path.name: path.read_bytes() for path in finished.iterdir()} == before


def test_a_corpus_without_train_leaves_no_folder(scenes: Path, tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    shutil.copy(next(scenes.rglob("*.jpg")), photos)
    with pytest.raises(SeesayError, match="no image in split 'train'"):
        train(small(), read_corpus(photos), tmp_path / "run")
    assert not (tmp_path / "run").exists()


class Stopped(Callback):
    """Is interrupted after the first epoch."""

    def on_epoch_end(self, *_: object) -> None:
        raise KeyboardInterrupt


class Again(Callback):
    """Begins the same training once more, while it is under way."""

    def __init__(self, corpus: Corpus, out: Path) -> None:
        self.corpus, self.out, self.refused = corpus, out, 0

    def on_epoch_end(self, *_: object) -> None:
        with pytest.raises(SeesayError, match=r"run: another process is training this run"):
            train(small(), self.corpus, self.out)
        self.refused += 1


def test_two_trainings_of_one_folder_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path / "cache"))  # in which no other lock lies
    write_scenes(tmp_path / "scenes", images=12, seed=3)
    corpus, out = read_corpus(tmp_path / "scenes"), tmp_path / "run"
    out.mkdir()
    (out / "weights.safetensors.12.34.tmp").write_bytes(b"half")  # what a kill left
    again = Again(corpus, out)
    train(small("schedule.epochs=1"), corpus, out, callbacks=[again])
    assert again.refused == 1
    assert not list(out.glob("*.tmp"))
    [lock] = (cache_dir() / "locks").iterdir()
    before = lock.stat().st_ino
    train(small("schedule.epochs=1"), corpus, out, resume=True)
    assert lock.stat().st_ino == before  # one that was deleted could be held twice


def test_a_full_disk_is_one_line(corpus: Corpus, tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
    try:
        with pytest.raises(SeesayError, match=r"cannot be written \(File too large\)"):
            train(small("schedule.epochs=1"), corpus, tmp_path / "run")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list((tmp_path / "run").glob("*.tmp"))
    train(small("schedule.epochs=1"), corpus, tmp_path / "run")


def test_a_run_in_a_place_that_is_none(corpus: Corpus, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SeesayError, match="cannot be used for a run"):
        train(small(), corpus, tmp_path / "file" / "run")


def test_nothing_to_resume(corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(SeesayError, match="nothing to resume"):
        train(small(), corpus, tmp_path / "none", resume=True)


def test_damaged_checkpoint_is_named(corpus: Corpus, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(small("schedule.epochs=2"), corpus, out, callbacks=[Stopped()])
    path = out / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(SeesayError, match=r"checkpoint\.safetensors: .*; delete it to train from the start"):
        train(small("schedule.epochs=2"), corpus, out, resume=True)
    path.unlink()
    assert len(train(small("schedule.epochs=2"), corpus, out, resume=True).history) == 2


def test_a_finished_run_has_no_checkpoint_and_is_returned_as_it_is(corpus: Corpus, tmp_path: Path) -> None:
    out = tmp_path / "run"
    run = train(small("schedule.epochs=1"), corpus, out)
    assert not (out / "checkpoint.safetensors").exists()
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in out.iterdir()}
    assert train(small("schedule.epochs=1"), corpus, out, resume=True).fingerprint == run.fingerprint
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in out.iterdir()} == before


@pytest.mark.parametrize(("lr", "improving"), [(1e-3, True), (1e-12, None)])
def test_it_is_said_that_the_last_epoch_was_the_best(
    corpus: Corpus, tmp_path: Path, lr: float, improving: bool | None
) -> None:
    train(small("schedule.epochs=2", f"optimizer.lr={lr}"), corpus, tmp_path / "run")
    assert (TrainingSummary.load(tmp_path / "run").improving or None) == improving


class OwnPairs(PairMatcher):
    """Scores a pair by the product of a linear layer of the image and the mean of learned word vectors."""

    def __init__(self, image_dim: int, vocabulary_size: int, dim: int = 8) -> None:
        super().__init__()
        self.images, self.words = nn.Linear(image_dim, dim), nn.EmbeddingBag(vocabulary_size, dim)

    def encode_images(self, images: torch.Tensor) -> torch.Tensor:
        return self.images(images)

    def encode_sentences(self, sentences: Sentences) -> torch.Tensor:
        return self.words(sentences.words, sentences.lengths.cumsum(0) - sentences.lengths)

    def score_pairs(self, images: torch.Tensor, sentences: torch.Tensor) -> torch.Tensor:
        return (images * sentences).sum(dim=1)


def test_a_pair_matcher_of_ones_own_is_trained_and_loaded(
    scenes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as registered:
        registered.setattr(MATCHERS, "_known", {name: MATCHERS[name] for name in MATCHERS})
        register_matcher("own-pairs")(OwnPairs)
        trained = seesay.train(
            "mcnn-st",
            scenes,
            tmp_path / "run",
            matcher={"kind": "own-pairs", "dim": 6},
            encoders=["efficientnet-lite0"],
            epochs=1,
        )
        loaded = seesay.load(tmp_path / "run")
        assert loaded.fingerprint == trained.fingerprint
        assert seesay.evaluate(loaded, scenes, split="test").metrics["mR"] > 0
    with pytest.raises(SeesayError, match="key 'matcher': No matcher 'own-pairs'"):
        _ = seesay.load(tmp_path / "run").matcher


def test_a_training_that_failed_in_its_first_epoch_is_not_in_the_way(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = small("encoders=[efficientnet-lite0]", "matcher.dim=12", "schedule.epochs=1")
    with monkeypatch.context() as patch:
        patch.setattr(IRMatch, "embed_images", Mock(side_effect=SeesayError("no memory")))
        with pytest.raises(SeesayError, match="no memory"):
            train(recipe, corpus, tmp_path / "run")
    train(recipe, corpus, tmp_path / "run")


ONE: dict[str, Any] = SMALL | {"epochs": 1}


@pytest.fixture(scope="module")
def first(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> seesay.Run:
    return seesay.train("irmatch-s", corpus, tmp_path_factory.mktemp("first") / "run", **ONE)


def test_the_weights_and_the_words_are_those_of_the_run(
    first: seesay.Run, corpus: Corpus, tmp_path: Path
) -> None:
    some = seesay.Corpus(corpus.name, corpus.root, corpus.images, corpus.sentences[::2])
    run = seesay.train("irmatch-s", some, tmp_path / "run", **ONE, lr=1e-12, start_from=first.folder)
    assert run.vocabulary.words == first.vocabulary.words
    for name, weights in first.matcher.named_parameters():  # statistics of batches go on
        torch.testing.assert_close(run.matcher.get_parameter(name), weights)
    named = f"irmatch-s, seed 1 ({first.fingerprint[:8]})"
    assert run.recipe.departures[-1] == f"Starts from the weights of {named}."
    again = seesay.train("irmatch-s", some, tmp_path / "run", **ONE, lr=1e-12, start_from=first, resume=True)
    assert again.recipe == run.recipe
    with pytest.raises(SeesayError, match=rf"weights of {re.escape(named)}; name that run with --from"):
        seesay.train("irmatch-s", some, tmp_path / "run", **ONE, lr=1e-12, resume=True)
    # Of the same name and seed, with other weights.
    other = seesay.train("irmatch-s", corpus, tmp_path / "other", **ONE, lr=0.5)
    with pytest.raises(SeesayError, match=rf"{re.escape(named)}, not of irmatch-s, seed 1 \("):
        seesay.train("irmatch-s", some, tmp_path / "run", **ONE, lr=1e-12, start_from=other, resume=True)
    with pytest.raises(SeesayError, match="omit --from"):
        seesay.train("irmatch-s", corpus, first.folder, **ONE, start_from=first, resume=True)


@pytest.mark.parametrize(
    ("recipe", "changes", "said"),
    [
        (
            "irmatch-s",
            {"matcher": {"dim": 30, "word_dim": 8}},
            r"its weights do not fit .* is \(.*\), not \(",
        ),
        (
            "irmatch-s",
            {"encoders": [{"kind": "efficientnet-lite0", "crops": "ten"}]},
            "was trained with 'encoders' .*lite0'",
        ),
        ("vse++", {"matcher": {"dim": 24}}, "its weights do not fit recipe 'vse\\+\\+'"),
        ("cca-mean", {"matcher": {"dim": 4}}, "'cca-mean' cannot start from weights"),
        ("mcnn-ens", {"matcher": {}}, "'mcnn-ens' combines runs"),
    ],
)
def test_another_shape_is_refused(
    first: seesay.Run, corpus: Corpus, tmp_path: Path, recipe: str, changes: dict[str, Any], said: str
) -> None:
    changes = {"encoders": ["efficientnet-lite0"], "epochs": 1} | changes
    with pytest.raises(SeesayError, match=said):
        seesay.train(recipe, corpus, tmp_path / "run", **changes, start_from=first)
    assert not (tmp_path / "run").exists()


def test_training_goes_on_from_the_included_weights(corpus: Corpus, tmp_path: Path) -> None:
    included = Run.load("seesay-small", "cpu")
    run = seesay.train(
        "seesay-small", corpus, tmp_path / "run", start_from="seesay-small", epochs=1, lr=1e-12
    )
    assert run.vocabulary.words == included.vocabulary.words
    texts = ["a red circle", "a dog"]
    assert run.embed_sentences(texts) == pytest.approx(included.embed_sentences(texts), abs=1e-5)


def test_a_run_is_finished_when_it_has_its_probabilities(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(run: Run, corpus: Corpus) -> None:
        raise KeyboardInterrupt

    recipe = small("schedule.epochs=1")
    with monkeypatch.context() as patch:
        patch.setattr("seesay.training.summarize.calibrate", killed)
        with pytest.raises(KeyboardInterrupt):
            train(recipe, corpus, tmp_path / "run")
    assert not is_finished(tmp_path / "run")
    train(recipe, corpus, tmp_path / "run", resume=True)
    assert is_finished(tmp_path / "run")


def test_a_recipe_of_ones_own_that_was_edited_is_not_resumed(corpus: Corpus, tmp_path: Path) -> None:
    own = small("schedule.epochs=1").model_copy(update={"name": "mine", "changes": ()})
    train(own, corpus, tmp_path / "run")
    train(own, corpus, tmp_path / "run", resume=True)
    edited = small("schedule.epochs=2").model_copy(update={"name": "mine", "changes": ()})
    with pytest.raises(SeesayError, match=r"schedule\.epochs=1, you asked for 2\. Name this run's changes"):
        train(edited, corpus, tmp_path / "run", resume=True)


def test_a_run_is_measured_by_the_columns_of_its_training(tmp_path: Path, scenes: Path) -> None:
    drawn = read_corpus(scenes)
    rows = [f"{drawn.images[s.image].name},xx yy zz,{s.text}" for s in drawn.sentences]
    table = tmp_path / "two.csv"
    table.write_text("\n".join(["image,caption,title", *rows]))
    corpus = read_corpus(table, images=scenes / "images", caption_column="title")
    run = train(small("schedule.epochs=1"), corpus, tmp_path / "run")
    assert open_corpus_of([run]).texts() == corpus.texts()


def test_a_training_that_was_killed_before_its_run_json_begins_again(corpus: Corpus, tmp_path: Path) -> None:
    recipe = load_recipe("irmatch-s", changes=SMALL)
    with pytest.raises(KeyboardInterrupt), counted_steps(last=1):
        train(recipe, corpus, tmp_path)
    for file in tmp_path.iterdir():
        if file.name != "recipe.json":
            file.unlink()
    with pytest.raises(KeyboardInterrupt), counted_steps(last=1):
        train(recipe, corpus, tmp_path)
    (tmp_path / "run.json").unlink()
    (tmp_path / "recipe.json").write_text('{"flour": "500 g"}')
    with pytest.raises(SeesayError, match="other files"):
        train(recipe, corpus, tmp_path)
