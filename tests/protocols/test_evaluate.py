"""One call of `evaluate`: a run, files, ensembles, comparisons by every protocol, and where rows are from."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from torch import nn

from seesay.data.corpus import Corpus
from seesay.data.images import FileSource
from seesay.data.readers import read_corpus
from seesay.errors import SeesayError
from seesay.protocols.evaluate import evaluate, open_entry
from seesay.recipes.load import settings_digest
from seesay.results.comparison import compare_entries
from seesay.results.records import make_record, row_of, source_commit
from seesay.runs.run import Run
from tests.results.made import RESULT


@pytest.fixture(scope="module")
def corpus(scenes: Path) -> Corpus:
    return read_corpus(scenes)


@pytest.fixture(scope="module")
def small() -> Run:
    return Run.load("seesay-small")


@pytest.fixture(scope="module")
def files(small: Run, corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run's embeddings of test and val in files, and the same with noise."""
    from seesay.runs.inputs import split_inputs

    folder, draw = tmp_path_factory.mktemp("files"), np.random.default_rng(0)
    for split in ("test", "val", "train"):
        inputs = split_inputs(small.recipe, corpus, split, small.vocabulary, small.sentence_encoder)
        images = small.embed_features(np.asarray(inputs.features))
        sentences = small.embed_prepared(inputs.sentences)
        np.save(folder / f"images-{split}.npy", images)
        np.save(folder / f"sentences-{split}.npy", sentences)
        np.save(folder / f"noisy-{split}.npy", images + draw.normal(0, 0.02, images.shape))
    return folder


def named(folder: Path, images: str = "noisy", split: str = "test") -> str:
    return f"{folder / images}-{split}.npy,{folder / 'sentences'}-{split}.npy"


def test_a_run_and_the_files_of_its_embeddings_measure_the_same(
    small: Run, corpus: Corpus, files: Path
) -> None:
    result = evaluate(small, corpus, resamples=20)
    assert result.to_dict() == evaluate(named(files, "images"), corpus, resamples=20).to_dict()
    assert result.to_dict() == evaluate("seesay-small", str(corpus.root), "standard", resamples=20).to_dict()
    assert result.resamples == 20
    assert result.intervals.keys() == result.metrics.keys()


@pytest.mark.parametrize("protocol", ["standard", "sentence-to-sentence"])
def test_every_protocol_of_scores_is_compared_and_has_intervals(
    protocol: str, corpus: Corpus, files: Path
) -> None:
    said = {"split": "train"}
    noisy = named(files, **said)
    ours = evaluate(named(files, "images", **said), corpus, protocol, against=noisy, resamples=30, **said)
    theirs = evaluate(noisy, corpus, protocol, resamples=0, **said)
    for column, value in ours.metrics.items():
        if value is None or column not in ours.intervals:
            continue
        low, high = ours.intervals[column]
        assert low <= high
        difference = ours.against.metrics[column]
        assert difference.theirs == pytest.approx(theirs.metrics[column], abs=1e-3)
        assert difference.difference == pytest.approx(value - difference.theirs, abs=2e-3)
        assert difference.interval[0] <= difference.interval[1]
        assert 0 < difference.p <= 1
    assert json.loads(json.dumps(ours.to_dict())) == ours.to_dict()


@pytest.mark.parametrize("how", ["mean", "learned"])
def test_the_result_of_an_ensemble_lists_its_members(how: str, corpus: Corpus, files: Path) -> None:
    both = ["seesay-small", named(files)] if how == "mean" else ["seesay-small", "seesay-small"]
    result = evaluate(both, corpus, combine=how, against="seesay-small", resamples=10)
    assert (result.about["combined"], "weights" in result.about) == (how, how == "learned")
    name = "seesay-small" if how == "mean" else "seesay-small (1)"
    assert result.rows[name] == evaluate("seesay-small", corpus, resamples=0).metrics
    assert result.against.name == "seesay-small"
    assert not {"notes", "intervals", "against"} & result.to_dict(uncertainty=False).keys()


def test_what_cannot_be_evaluated(corpus: Corpus, files: Path) -> None:
    one = f"{files / 'images-test.npy'},{files / 'sentences-test.npy'}"
    with pytest.raises(SeesayError, match="None for 2 runs; choose mean"):
        evaluate(["seesay-small", one], corpus)
    with pytest.raises(SeesayError, match="chooses weights on val"):
        evaluate(["seesay-small", one], corpus, combine="learned")
    with pytest.raises(SeesayError, match="No protocol 'standrd'; did you mean"):
        evaluate("seesay-small", corpus, "standrd")
    with pytest.raises(SeesayError, match="predicts no concepts"):
        evaluate("seesay-small", corpus, "concepts")


def test_provenance_names_the_training(small: Run, pair_run: Path, files: Path) -> None:
    trained = Run.load(str(pair_run))
    origin = row_of(RESULT, [trained], 1.25).to_dict()
    summary = json.loads((pair_run / "training.json").read_text())
    assert origin["epochs"] == summary["epochs"] == 4
    assert origin["best_epoch"] == summary["best_epoch"]
    assert origin["train_seconds"] == summary["seconds"] > 0
    assert origin["machine"] == summary["machine"]
    assert (origin["seconds"], origin["commit"], origin["recipe"]) == (
        1.2,
        source_commit(),
        "mcnn-wd",
    )
    shipped = row_of(RESULT, [small], 1.0).to_dict()
    assert not {"epochs", "best_epoch", "train_seconds", "machine"} & set(shipped)
    both = row_of(RESULT, [small, trained], 1.0)
    assert both.recipe == both.system == "mean of seesay-small + mcnn-wd"
    digests = [settings_digest(run.recipe) for run in (small, trained)]
    assert [origin["settings_digest"], both.settings_digest] == [digests[1], " + ".join(digests)]
    with pytest.raises(SeesayError, match="Only rows of recipes are recorded"):
        make_record(files, "flickr8k", [small, *_external(files)])


def test_a_run_is_searched_and_measured_without_its_recipe(
    small: Run, corpus: Corpus, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(small.folder, folder)
    (folder / "recipe.json").write_text("not read")
    run = Run.load(str(folder))
    np.testing.assert_array_equal(run.embed_sentences(["a dog"]), small.embed_sentences(["a dog"]))
    wanted = evaluate(small, corpus, resamples=0).metrics
    assert evaluate(run, corpus, resamples=0).metrics == wanted
    (folder / "recipe.json").unlink()
    assert evaluate(Run.load(str(folder)), corpus, resamples=0).metrics == wanted
    (row, alone) = compare_entries([run, small], corpus, "test", None, lambda _: None, resamples=0).lines
    assert (row.row.name, row.rows[0].recipe) == (run.title, run.title)
    assert alone.row.name == "seesay-small"
    with pytest.raises(SeesayError, match=r"recipe\.json: missing"):
        make_record(tmp_path, "flickr8k", [run])


def test_an_ensemble_names_the_crops_of_members_that_have_some(
    small: Run, pair_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {
        "seesay-small": ("efficientnet-lite0", "ten crops"),
        "mcnn-wd": ("instances:grid", ""),
    }
    monkeypatch.setattr("seesay.results.records.encoder_and_crops", lambda recipe: seen[recipe.name])
    both = row_of(RESULT, [small, Run.load(str(pair_run))], 1.0)
    assert (both.encoder, both.crops) == ("efficientnet-lite0 + instances:grid", "ten crops")


def _external(files: Path):
    return [open_entry(named(files))]


def test_images_that_cannot_be_read_are_counted(pair_run: Path, scenes: Path, tmp_path: Path) -> None:
    corpus = read_corpus(Path(shutil.copytree(scenes, tmp_path / "scenes")))
    first = corpus.split("test").images[0]
    assert isinstance(first.source, FileSource)
    first.source.path.write_bytes(first.source.read()[:-200])
    (note,) = evaluate(pair_run, corpus, resamples=0).notes
    assert note.startswith(f"Images that cannot be read, which were left out: 1 ({first.name}: truncated")


def test_a_run_is_named_by_its_path(pair_run: Path, corpus: Corpus) -> None:
    expected = evaluate(str(pair_run), corpus, resamples=0).to_dict()
    assert evaluate(pair_run, corpus, resamples=0).to_dict() == expected


def test_something_that_is_no_run_is_named(corpus: Corpus) -> None:
    with pytest.raises(SeesayError, match="run: expected at least one"):
        evaluate([], corpus)
    with pytest.raises(SeesayError, match=r"run: .* got Linear; register a matcher of your own"):
        evaluate(nn.Linear(2, 2), corpus)  # type: ignore[arg-type]
    with pytest.raises(SeesayError, match=r"resamples: .* got -1"):
        evaluate("seesay-small", corpus, resamples=-1)
