"""Runs: what they embed and score, and folders that hold none."""

from __future__ import annotations

import shutil
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from seesay.errors import ImageError, SeesayError
from seesay.matchers.settings import MatcherSettings
from seesay.recipes.load import load_recipe
from seesay.runs.folder import included_runs, run_folder
from seesay.runs.prepare import read_images, recipe_encoders
from seesay.runs.run import Run
from seesay.runs.torch_backend import save_weights

SENTENCES = ["a red circle", "two dogs play in the snow", ""]


@pytest.fixture(scope="module")
def small() -> Run:
    return Run.load("seesay-small")


@pytest.fixture(scope="module")
def pairs(pair_run: Path) -> Run:
    return Run.load(str(pair_run))


@pytest.fixture(scope="module")
def pictures(scenes: Path) -> list[Path]:
    return sorted(scenes.rglob("*.jpg"))[:3]


def test_embeddings_have_unit_length(small: Run, pictures: list[Path]) -> None:
    for vectors in (small.embed_images(pictures), small.embed_sentences(SENTENCES[:2])):
        assert vectors.shape[1] == small.dim
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert small.embed_images([]).shape == small.embed_sentences([]).shape == (0, small.dim)


def test_scores_of_images_are_those_of_their_embeddings(small: Run, pictures: list[Path]) -> None:
    scores = small.score(small.embed_images(pictures), small.embed_sentences(SENTENCES))
    assert scores.shape == (len(pictures), len(SENTENCES))
    pixels = [np.asarray(Image.open(picture).convert("RGB")) for picture in pictures]
    np.testing.assert_allclose(small.score(pixels, SENTENCES), scores, atol=1e-5)
    with pytest.raises(SeesayError, match=rf"sentences: expected embeddings of shape \(n, {small.dim}\)"):
        small.score(pictures, np.zeros((2, small.dim + 1)))


def test_files_are_read_a_few_at_a_time(
    small: Run, pictures: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = small.embed_images(pictures)
    read = []

    def reading(some, first):
        read.append(len(some))
        return read_images(some, first)

    monkeypatch.setattr("seesay.runs.run._AT_ONCE", 2)
    monkeypatch.setattr("seesay.runs.run.read_images", reading)
    np.testing.assert_allclose(small.embed_images(iter(pictures)), whole, atol=1e-5)
    assert read == [2, 1]
    with pytest.raises(ImageError, match=r"images\[2\]"):
        small.embed_images([*pictures[:2], b"no image"])


def test_a_lone_surrogate_is_no_character(small: Run) -> None:
    with pytest.raises(SeesayError, match=r"sentences\[1\]: contains a lone surrogate"):
        small.embed_sentences(["a", "caf\udce9"])


def test_a_broken_image_is_named(small: Run, pictures: list[Path]) -> None:
    with pytest.raises(ImageError, match=r"images\[1\]"):
        small.embed_images([pictures[0], b"no image"])


def test_one_string_is_no_list_of_sentences(small: Run) -> None:
    with pytest.raises(SeesayError, match="a list of strings"):
        small.embed_sentences("a dog")


def test_a_pair_matcher_scores_and_embeds_nothing(pairs: Run, pictures: list[Path]) -> None:
    scores = pairs.score(pictures, SENTENCES[:2])
    assert scores.shape == (len(pictures), 2)
    assert np.ptp(scores) > 0
    with pytest.raises(SeesayError, match="a pair matcher has no embeddings"):
        pairs.embed_images(pictures)
    with pytest.raises(ImageError, match=r"images\[0\]"):
        pairs.score([b"no image"], SENTENCES)


def test_a_run_moved_elsewhere_is_the_same(pairs: Run, tmp_path: Path) -> None:
    moved = Run.load(str(shutil.copytree(pairs.folder, tmp_path / "moved")))
    assert moved.fingerprint == pairs.fingerprint
    assert moved.name != pairs.name


def test_a_run_is_named_by_its_full_path(pairs: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(pairs.folder.parent)
    assert Run.load(pairs.folder.name).name == str(pairs.folder.resolve())


def test_what_takes_no_whole_image_says_so() -> None:
    with pytest.raises(SeesayError, match="precomputed features"):
        recipe_encoders(load_recipe("irmatch-h", changes=["encoders=[precomputed]"]))
    with pytest.raises(SeesayError, match="matches phrases with regions"):
        recipe_encoders(load_recipe("ground-full"))


def test_shipped_runs_are_found_by_name() -> None:
    assert {folder.name for folder in included_runs()} == {"seesay-small", "seesay-ground"}
    assert run_folder("seesay-small") in included_runs()
    with pytest.raises(SeesayError, match=r"no run there .* did you mean 'seesay-small'"):
        Run.load("seesay-smal")
    with pytest.raises(SeesayError, match="irmatch-s: a recipe and not yet a run; train it"):
        Run.load("irmatch-s")


def test_an_included_run_loads_where_the_cache_cannot_be_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEESAY_CACHE", f"/{'c' * 300}")
    assert Run.load("seesay-ground").name == "seesay-ground"


def test_damaged_weights_are_named(pairs: Run, tmp_path: Path) -> None:
    for name in ("run.json", "vocabulary.json"):
        shutil.copy(pairs.folder / name, tmp_path)
    with pytest.raises(SeesayError, match="missing; copy it"):
        Run.load(str(tmp_path))
    shutil.copy(run_folder("seesay-small") / "weights.safetensors", tmp_path)
    with pytest.raises(SeesayError, match="not the weights"):
        Run.load(str(tmp_path))


def test_vectors_are_taken_from_pytorch_and_bad_ones_named(small: Run) -> None:
    ones = torch.ones(2, small.dim)
    assert small.score(ones.clone().requires_grad_(), ones.bfloat16()).tolist() == [[small.dim] * 2] * 2
    assert small.score(ones.tolist(), ones).tolist() == [[small.dim] * 2] * 2
    for bad in (ones[0], ones[0].tolist(), ones[0].numpy()):
        with pytest.raises(SeesayError, match=r"images: expected embeddings of shape \(n, "):
            small.score(bad, ones)
    with pytest.raises(SeesayError, match="sentences: NaN at"):
        small.score(ones, ones * float("nan"))


def test_sentences_are_any_strings_and_nothing_else(small: Run) -> None:
    vectors = small.embed_sentences(sentence for sentence in SENTENCES)  # type: ignore[arg-type]
    np.testing.assert_array_equal(vectors, small.embed_sentences(SENTENCES))
    with pytest.raises(SeesayError, match=r"sentences\[1\]: expected a string, got int"):
        small.embed_sentences(["a dog", 3])  # type: ignore[list-item]


def test_a_run_prints_its_name_and_needs_a_device_that_is_there() -> None:
    run = Run.load("seesay-small", "cpu")
    assert repr(run) == f"Run('seesay-small', matcher='joint-projection', dim={run.dim})"
    assert run.device == "cpu"
    with pytest.raises(SeesayError, match=r'device: .* got "cudda"'):
        Run.load("seesay-small", "cudda")


def test_weights_of_another_matcher_are_named(pairs: Run, tmp_path: Path) -> None:
    folder = tmp_path / "own"
    shutil.copytree(pairs.folder, folder)
    save_weights(folder, torch.nn.Linear(3, 4).state_dict())
    with pytest.raises(SeesayError, match=r"not the weights of .* \(.* is missing, not \(.*, …\); train"):
        _ = Run.load(str(folder)).matcher


def test_whole_numbers_among_the_weights_keep_their_precision(pairs: Run, tmp_path: Path) -> None:
    folder = tmp_path / "counted"
    shutil.copytree(pairs.folder, folder)
    counted = deepcopy(pairs.matcher)
    counted.register_buffer("steps", torch.tensor(2**53 + 1))
    save_weights(folder, counted.state_dict())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MatcherSettings, "build", lambda *_: deepcopy(counted))
        assert int(Run.load(str(folder)).matcher.steps) == 2**53 + 1


def test_a_module_that_is_changed_computes_what_the_run_gives() -> None:
    run = Run.load("seesay-small", "cpu")
    before = run.embed_sentences(["two dogs"])
    matcher = run.matcher
    np.testing.assert_allclose(run.embed_sentences(["two dogs"]), before, atol=1e-5)
    with torch.no_grad():
        for weights in matcher.parameters():
            weights.mul_(1.5)
    assert not np.allclose(run.embed_sentences(["two dogs"]), before, atol=1e-3)
