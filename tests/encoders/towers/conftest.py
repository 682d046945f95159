"""What tests of towers share: both towers of a model, and texts that tokenizers read differently."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from seesay.encoders import IMAGE_ENCODERS, SENTENCE_ENCODERS
from seesay.encoders.settings import OPEN_CLIP, AnyEncoder, EncoderSettings
from seesay.encoders.towers.opened import open_towers
from seesay.runs.load import clip_towers
from tests.fit_torchvision import fit_torchvision
from tests.small_towers import save_model


def settings_of(named: AnyEncoder) -> EncoderSettings:
    """Return the settings of towers, given as a mapping or by the name of a run."""
    towers = clip_towers(named) if isinstance(named, str) else EncoderSettings.parse(named)
    assert towers is not None
    return towers


class Model:
    """Both towers of a model as encoders."""

    def __init__(self, named: AnyEncoder, device: str | None = None) -> None:
        settings = settings_of(named)
        towers = open_towers(settings, device)
        image, text = IMAGE_ENCODERS[OPEN_CLIP], SENTENCE_ENCODERS[OPEN_CLIP]
        self.image, self.text = image(settings, towers), text(settings.title, towers)
        self.dim = self.text.dim
        self.logit_scale, self.logit_bias = towers.about["logit_scale"], towers.about["logit_bias"]
        self.fingerprint = self.image.fingerprint, self.text.fingerprint


# What tokenizers tend to read differently.
ODD = [
    "",
    " ",
    "  A  dog\tand\na CAT ",
    "don't they've I'LL 's",
    "ﬁne ＡＢＣ １２３ ½ ²",
    "café cafe\u0301 ÉCOLE Straße İstanbul",
    "&amp; &lt;b&gt; &eacute;",
    "“quotes” ‘single’ — dash…",
    "schÃ¶n",
    "犬が走る Собака عربي हिन्दी",
    "🐕‍🦺👩‍👩‍👧 :-)",
    "a_b_c !!! #hash @at U.S.A.",
    "▁hello ▁ world",
    "\u200bzero\xa0width",
    "\x00\x07control \x1b[31mred\x1b[0m",
    "x" * 300,
    "many words " * 80,
]


@pytest.fixture(scope="module", autouse=True)
def _every_module_has_its_own_cache(own_cache: None) -> None:
    """See `own_cache`."""


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
