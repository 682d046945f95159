"""What tests of towers share: both towers of a model, and the library of image networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from seesay.encoders.settings import AnyEncoder, EncoderSettings
from seesay.encoders.towers import OpenClipEncoder, OpenClipSentenceEncoder, open_clip_model
from seesay.runs.load import clip_model
from tests.fit_torchvision import fit_torchvision
from tests.small_towers import save_model


def settings_of(named: AnyEncoder) -> EncoderSettings:
    """Return the settings of towers, given as a mapping or by the name of a run."""
    towers = clip_model(named) if isinstance(named, str) else EncoderSettings.parse(named)
    assert towers is not None
    return towers


class Model:
    """Both towers of a model as encoders."""

    def __init__(self, named: AnyEncoder, device: str = "cpu") -> None:
        settings = settings_of(named)
        towers = open_clip_model(settings, device)
        self.image = OpenClipEncoder.load(settings, device, None)
        self.text = OpenClipSentenceEncoder(towers)
        self.dim, self.logit_scale, self.logit_bias = towers.dim, towers.logit_scale, towers.logit_bias
        self.fingerprint = self.image.fingerprint, self.text.fingerprint


@pytest.fixture(scope="session")
def letterboxed(open_clip: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model that pads images."""
    padded = {"resize_mode": "longest", "interpolation": "bilinear", "fill_color": 20}
    return save_model(open_clip, tmp_path_factory.mktemp("models") / "letterboxed", {}, padded)


@pytest.fixture(scope="session")
def timm() -> Any:
    """The library, which imports torchvision."""
    fit_torchvision()
    return pytest.importorskip("timm", reason="timm is not installed")
