"""What is refused, each in one line."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from seesay.encoders import load_image_encoder
from seesay.encoders.towers import load_two_tower
from seesay.errors import SeesayError


def refusal(name: str) -> str:
    with pytest.raises(SeesayError) as caught:
        load_two_tower(name)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("library", "module"),
    [
        ("open_clip", "open_clip"),
        ("transformers", "transformers"),
        ("sentence-transformers", "sentence_transformers"),
    ],
)
def test_a_missing_library_names_the_extra(
    library: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    assert "pip install 'seesay[hub]'" in refusal(f"{library}:anything")


def test_a_missing_timm_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(SeesayError, match=r"pip install 'seesay\[hub\]'"):
        load_image_encoder("timm:anything")


@pytest.mark.parametrize(
    "failure", [RuntimeError("Unknown model\nand a long list of others"), TimeoutError()]
)
def test_a_failing_library_is_one_line(failure: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def create_model(*_: object, **__: object) -> None:
        raise failure

    timm = ModuleType("timm")
    timm.create_model = create_model
    monkeypatch.setitem(sys.modules, "timm", timm)
    reason = "Unknown model" if str(failure) else "TimeoutError"
    with pytest.raises(SeesayError, match=f"^timm could not load 'unknown': {reason}$"):
        load_image_encoder("timm:unknown")


def test_open_clip_without_weights(open_clip: Any) -> None:
    assert "open_clip:ViT-B-32/WEIGHTS; there are openai" in refusal("open_clip:ViT-B-32")
    assert "did you mean 'laion2b_s34b_b79k'?" in refusal("open_clip:ViT-B-32/laion2b_s34b_b79")
    assert "did you mean 'ViT-B-32'?" in refusal("open_clip:ViT-B32/openai")


def test_pickled_weights(open_clip_folders: dict[str, Path], clip: Path, tmp_path: Path) -> None:
    weights = tmp_path / "weights.pt"
    torch.save({}, weights)
    assert "pickled weights are not read" in refusal(f"open_clip:ViT-B-32/{weights}")
    for source in (open_clip_folders["shortest"], clip):
        folder = tmp_path / source.name
        folder.mkdir()
        for path in source.iterdir():
            if path.suffix != ".safetensors":
                (folder / path.name).write_bytes(path.read_bytes())
        torch.save({}, folder / "pytorch_model.bin")
    assert "pickled weights are not read" in refusal(f"open_clip:{tmp_path / 'open-clip-shortest'}")
    assert "safetensors" in refusal(f"transformers:{tmp_path / 'clip'}")


def test_a_repository_that_is_not_there(transformers: Any, tmp_path: Path) -> None:
    assert "no such folder" in refusal(f"transformers:{tmp_path}/nowhere/at/all")
    assert "transformers could not load" in refusal("transformers:nowhere/at/all")


def test_a_text_model_without_known_images(multilingual: Path, tmp_path: Path) -> None:
    shutil.copytree(multilingual, tmp_path / "unknown")
    assert "it is not known which image tower fits" in refusal(
        f"sentence-transformers:{tmp_path / 'unknown'}"
    )


def test_preprocessing_that_seesay_does_not_know(siglip: Path, tmp_path: Path) -> None:
    folder = tmp_path / "padded"
    shutil.copytree(siglip, folder)
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    settings |= {"size": {"shortest_edge": 32, "longest_edge": 64}}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    assert "in a way that seesay does not know" in refusal(f"transformers:{folder}")
