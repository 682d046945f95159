"""The adapter recipe on a small CLIP model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import seesay
from seesay.errors import SeesayError
from seesay.matchers import Adapter
from seesay.matchers.adapter import ALPHAS
from seesay.protocols.evaluate import evaluate
from seesay.runs.export import TOLERANCE
from seesay.runs.run import Run

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def run(clip: Path, scenes: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    name = {"kind": "open_clip", "model": str(clip)}
    return seesay.train(
        "adapter",
        scenes,
        tmp_path_factory.mktemp("adapter") / "run",
        encoders=[name],
        sentence_encoder=name,
        batch_size=60,
        epochs=4,
        lr=0.003,
    )


def val(run: Run | str, scenes: Path) -> float:
    return evaluate(run, scenes, split="val", resamples=0).monitor


def test_the_kept_alpha_is_the_best_on_val(run: Run, clip: Path, scenes: Path) -> None:
    matcher = run.matcher
    assert isinstance(matcher, Adapter)
    kept, best = float(matcher.alpha), val(run, scenes)
    found = {}
    for alpha in ALPHAS:
        matcher.alpha.fill_(alpha)
        in_memory = Run.from_matcher(run.folder, run.recipe, run.vocabulary, run.sentence_encoder, matcher)
        found[alpha] = val(in_memory, scenes)
    matcher.alpha.fill_(kept)
    assert best == max(found.values()) == found[round(kept, 1)]
    assert found[0.0] == val(f"open_clip:{clip}", scenes)


def test_it_is_exported(run: Run) -> None:
    assert run.config.graphs
    images = [np.full((40, 50, 3), level, np.uint8) for level in (0, 100, 200)]
    texts = ["two dogs in the snow", "", "a red circle"]
    found = run.embed_images(images), run.embed_sentences(texts)  # by ONNX Runtime
    encoder, matcher = run.encoders[0], run.matcher
    features = encoder.encode_prepared([encoder.prepare(image) for image in images])["pooled"]
    assert isinstance(matcher, Adapter)
    with torch.inference_mode():
        wanted = (
            matcher.embed_images(torch.from_numpy(features).to(run.device)),
            matcher.embed_sentences(run.prepare(texts).to_tensors(run.device)),
        )
    for mine, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs.cpu().numpy(), atol=TOLERANCE)


def test_two_models_are_refused(clip: Path, siglip: Path, scenes: Path, tmp_path: Path) -> None:
    with pytest.raises(SeesayError, match="name one model in encoders and in sentence_encoder"):
        seesay.train(
            "adapter",
            scenes,
            tmp_path / "run",
            encoders=[{"kind": "open_clip", "model": str(clip)}],
            sentence_encoder={"kind": "open_clip", "model": str(siglip)},
        )
