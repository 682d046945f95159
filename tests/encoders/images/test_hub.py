"""Hub towers through small stand-ins for the libraries, and without the libraries."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from seesay.encoders.images.base import load_image_encoder
from seesay.encoders.images.hub import _weights_hash
from seesay.errors import SeesayError

MEAN, STD = (0.1, 0.2, 0.3), (0.5, 0.6, 0.7)


class Tower(nn.Module):
    """The mean of each channel, times a weight that the seed decides."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3))
        self.register_buffer("steps", torch.tensor(0))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.mean((2, 3)) * self.weight


@pytest.fixture(autouse=True)
def forget_encoders() -> None:
    load_image_encoder.cache_clear()


@pytest.fixture
def timm(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("timm")
    module.asked = []

    def create_model(name: str, pretrained: bool, num_classes: int) -> Tower:
        module.asked.append((name, pretrained, num_classes))
        if name == "unknown":
            raise RuntimeError("Unknown model (unknown)\nand a long list of others")
        if name == "silent":
            raise TimeoutError
        return Tower()

    module.create_model = create_model
    config = {"input_size": (3, 12, 12), "mean": MEAN, "std": STD}
    module.data = SimpleNamespace(resolve_model_data_config=lambda _: config)
    monkeypatch.setitem(sys.modules, "timm", module)
    return module


@pytest.mark.parametrize("library", ["timm", "open_clip", "transformers"])
def test_a_missing_library_names_the_extra(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)  # as if it were not installed
    with pytest.raises(SeesayError, match=r"pip install 'seesay\[hub\]'"):
        load_image_encoder(f"{library}:anything")


def test_timm_towers_see_normalised_pixels(timm: ModuleType) -> None:
    encoder = load_image_encoder("timm:small@random")
    assert timm.asked == [("small", False, 0)]
    assert (encoder.size, encoder.dims) == (12, {"pooled": 3})
    pixels = np.random.default_rng(0).integers(0, 256, (2, 1, 12, 12, 3), dtype=np.uint8)
    torch.manual_seed(0)
    weight = torch.randn(3).numpy()
    expected = (pixels[:, 0].mean((1, 2)) / 255 - MEAN) / STD * weight
    np.testing.assert_allclose(encoder.encode(pixels)["pooled"], expected, atol=1e-5)


def test_pretrained_weights_are_asked_for_unless_random(timm: ModuleType) -> None:
    load_image_encoder("timm:small")
    assert timm.asked == [("small", True, 0)]


def test_loading_leaves_the_callers_seed_alone(timm: ModuleType) -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    load_image_encoder("timm:small@random")
    assert torch.rand(1) == expected


@pytest.mark.parametrize(("which", "reason"), [("unknown", "Unknown model"), ("silent", "TimeoutError")])
def test_a_failing_library_is_one_line(timm: ModuleType, which: str, reason: str) -> None:
    with pytest.raises(SeesayError, match=f"timm could not load '{which}': {reason}") as caught:
        load_image_encoder(f"timm:{which}")
    assert "\n" not in str(caught.value)


def test_fingerprints_follow_the_weights(timm: ModuleType) -> None:
    torch.manual_seed(1)
    one, other = Tower(), Tower()
    same = Tower()
    same.load_state_dict(one.state_dict())
    assert _weights_hash(one) == _weights_hash(same) != _weights_hash(other)


def test_open_clip_towers(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clip(Tower):
        def __init__(self) -> None:
            super().__init__()
            self.visual = SimpleNamespace(image_size=(16, 16), image_mean=list(MEAN), image_std=list(STD))

        def encode_image(self, images: torch.Tensor) -> torch.Tensor:
            return self.forward(images)

    asked = []
    module = ModuleType("open_clip")
    module.create_model = lambda name, pretrained: asked.append((name, pretrained)) or Clip()
    monkeypatch.setitem(sys.modules, "open_clip", module)
    encoder = load_image_encoder("open_clip:ViT-B-32/openai")
    assert asked == [("ViT-B-32", "openai")]
    assert (encoder.size, encoder.dims) == (16, {"pooled": 3})


def test_transformers_towers(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    transformers = pytest.importorskip("transformers", reason="the hub extra is not installed")
    vision = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    text = vision | {"vocab_size": 20, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
    config = transformers.CLIPConfig(
        text_config=text, vision_config=vision | {"image_size": 32, "patch_size": 16}, projection_dim=5
    )
    transformers.CLIPModel(config).save_pretrained(tmp_path)
    processor = transformers.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size=32)
    processor.save_pretrained(tmp_path)
    encoder = load_image_encoder(f"transformers:{tmp_path}")
    assert (encoder.size, encoder.dims) == (32, {"pooled": 5})
    assert np.isfinite(encoder.encode(np.zeros((2, 1, 32, 32, 3), np.uint8))["pooled"]).all()


def test_transformers_repository_that_is_not_there(tmp_path: object) -> None:
    pytest.importorskip("transformers", reason="the hub extra is not installed")
    with pytest.raises(SeesayError, match="transformers could not load"):
        load_image_encoder(f"transformers:{tmp_path}/nowhere/at/all")
