"""Models of open_clip as runs: their vectors and scores are the library's."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

import seesay
from seesay.encoders.settings import EncoderSettings
from seesay.encoders.towers import open_clip_model
from seesay.errors import SeesayError
from seesay.runs.bundle import write_bundle
from seesay.runs.run import Run
from seesay.search import Index

SENTENCES = ["two black dogs in the snow .", "a café, at the lake!", "犬", "", "many words " * 60]


pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def images() -> list[np.ndarray]:
    draw = np.random.default_rng(0)
    return [draw.integers(0, 256, (h, w, 3), dtype=np.uint8) for h, w in ((60, 90), (97, 61), (20, 20))]


@torch.inference_mode()
def test_vectors_and_scores_are_the_librarys(siglip: Path, open_clip: Any, images: list[np.ndarray]) -> None:
    """Other models are compared with their library in tests/encoders/towers."""
    model, _, transform = open_clip.create_model_and_transforms(f"local-dir:{siglip}")
    model.eval()
    pixels = torch.stack([transform(Image.fromarray(image)) for image in images])
    ids = open_clip.get_tokenizer(f"local-dir:{siglip}")(SENTENCES)
    unit = model.encode_image(pixels, normalize=True), model.encode_text(ids, normalize=True)
    for device in ("cpu", "cpu:0"):  # the second stands for a GPU
        run = seesay.load(f"open_clip:{siglip}", device=device)
        mine, theirs = run.embed_images(images), run.embed_sentences(SENTENCES)
        np.testing.assert_allclose(mine, unit[0].numpy(), atol=1e-4)
        np.testing.assert_allclose(theirs, unit[1].numpy(), atol=1e-4)
        logits = model.get_logits(pixels, ids)[0].numpy()
        np.testing.assert_allclose(run.score(images, SENTENCES), logits, atol=1e-4, rtol=1e-5)
        np.testing.assert_array_equal(run.score(images, SENTENCES), run.score(mine, theirs))


def test_what_a_run_says_of_itself(clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(clip.parent)
    name = f"open_clip:{clip}"
    run = seesay.load("open_clip:./clip")
    assert (run.name, run.title) == (name, "open_clip:clip")
    assert repr(run) == f"Run('{name}', matcher='cosine', dim=24)"
    assert run.pretrained
    assert run.embeds
    assert not run.asymmetric
    assert run.dim == 24
    assert run.config.max_words is None
    assert run.config.regions is None
    towers = EncoderSettings("open_clip").replaced(model=str(clip))
    for of in (run.recipe, run.config):
        assert (of.encoders, of.sentence_encoder, of.regions) == ((towers,), towers, None)
    assert run.recipe.matcher.kind == "cosine"


def test_the_matcher_is_the_backend_in_pytorch(clip: Path, images: list[np.ndarray]) -> None:
    run = seesay.load(f"open_clip:{clip}")
    encoder = run.encoders[0]
    features = encoder.encode([encoder.prepare(image) for image in images])["pooled"]
    texts = run.prepare(SENTENCES)
    with torch.inference_mode():
        wanted = run.matcher(torch.from_numpy(features), texts.to_tensors())
    np.testing.assert_allclose(run.score_prepared(features, texts), wanted.numpy(), atol=1e-6)


def test_what_is_no_model_is_refused(clip: Path) -> None:
    with pytest.raises(SeesayError, match=r"\./missing: no such folder"):
        seesay.load("open_clip:./missing")
    with pytest.raises(SeesayError, match="did you mean 'open_clip'"):
        seesay.load("openclip:ViT-B-32/openai")
    with pytest.raises(SeesayError, match="device: expected one that PyTorch has here"):
        seesay.load(f"open_clip:{clip}", device="tpu")


def test_an_index_refuses_other_weights(clip: Path, scenes: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(clip, tmp_path / "clip")
    with Index.open_or_create(tmp_path / "index", f"open_clip:{copy}") as index:
        index.update_images(scenes / "images")
        assert index.run_name == f"open_clip:{copy}"
    moved = copy.rename(tmp_path / "moved")
    with Index.open_or_create(tmp_path / "index", f"open_clip:{moved}") as index:
        assert len(index.search("a red circle")) == 10  # the weights count, not their place
    weights = load_file(moved / "open_clip_model.safetensors")
    weights["text_projection"] *= -1
    save_file(weights, moved / "open_clip_model.safetensors")
    open_clip_model.cache_clear()  # as in another process
    with (
        pytest.raises(SeesayError, match="has different weights"),
        Index.open_or_create(tmp_path / "index", f"open_clip:{moved}") as index,
    ):
        index.search("a red circle")


def test_a_trained_run_finds_its_towers_from_anywhere(
    clip: Path, scenes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(clip.parent)
    run = seesay.train(
        "two-branch",
        scenes,
        tmp_path / "run",
        encoders=[{"kind": "open_clip", "model": "./clip"}],
        sentence_encoder={"kind": "open_clip", "model": "./clip"},
        epochs=1,
    )
    monkeypatch.chdir(tmp_path)
    again = Run.load("run")
    assert again.config.encoders == (EncoderSettings("open_clip").replaced(model=str(clip)),)
    np.testing.assert_allclose(again.embed_sentences(SENTENCES), run.embed_sentences(SENTENCES), atol=1e-6)
    written = json.loads((tmp_path / "run" / "run.json").read_text())
    assert written["sentence_encoder"] == {"kind": "open_clip", "model": str(clip)}


def test_a_model_is_not_exported(clip: Path, tmp_path: Path) -> None:
    with pytest.raises(SeesayError, match="cannot be exported"):
        write_bundle(f"open_clip:{clip}", tmp_path / "given")
    assert not (tmp_path / "given").exists()
