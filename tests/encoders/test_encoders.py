"""Names of encoders, the public package, and an encoder that another package brings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import seesay.encoders
from seesay.encoders import load_image_encoder
from seesay.encoders.settings import EncoderSettings
from seesay.errors import SeesayError

PLUGIN = '''
import numpy as np
from seesay.encoders import ImageEncoder, register_image_encoder

@register_image_encoder("tiny")
class Tiny(ImageEncoder):
    """A tiny encoder."""

    @classmethod
    def load(cls, spec, device, run):
        return cls(spec, "v1", 4, {"pooled": 3}, lambda pixels: {"pooled": pixels.mean((1, 2))})
'''
USE = """
from seesay.encoders import IMAGE_ENCODERS, list_encoders, load_image_encoder
assert ("tiny", "A tiny encoder") in list_encoders()
assert load_image_encoder("tiny").dims == {"pooled": 3}
assert "broken" not in IMAGE_ENCODERS
try:
    load_image_encoder("broken")
except Exception as error:
    print(error)
"""


def test_an_installed_package_adds_an_encoder(tmp_path: Path) -> None:
    (tmp_path / "tiny_plugin.py").write_text(PLUGIN)
    info = tmp_path / "tiny_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-plugin\nVersion: 1.0\n")
    points = "[seesay.image_encoders]\ntiny = tiny_plugin\n"
    (info / "entry_points.txt").write_text(points)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", USE], env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "No image encoder 'broken'" in done.stdout


@pytest.mark.parametrize(
    "name",
    [
        "efficientnet-lite0",
        {"kind": "efficientnet-lite0", "crops": "ten"},
        {"kind": "concepts", "run": "runs/a@b"},
        {"kind": "timm", "model": "x", "weights": "random"},
    ],
)
def test_a_name_without_weights_is_itself(name: str) -> None:
    spec = EncoderSettings.parse(name)
    assert spec.weights == ""
    assert str(EncoderSettings.parse(name).untuned) == str(spec) == name


def test_the_parts_of_a_name_with_weights() -> None:
    spec = EncoderSettings.parse({"kind": "concepts", "run": "runs/concepts", "tuned": "0123456789abcdef"})
    assert spec == EncoderSettings("concepts", "0123456789abcdef", "runs/concepts")
    assert str(spec) == {"kind": "concepts", "run": "runs/concepts", "tuned": "0123456789abcdef"}
    assert str(EncoderSettings.parse(str(spec)).untuned) == {"kind": "concepts", "run": "runs/concepts"}


@pytest.mark.parametrize("name", ["a@b", "efficientnet-lite0@../../evil:ten", "x@0123456789ABCDEF", "x@"])
def test_weights_that_no_run_can_hold_are_refused(name: str) -> None:
    with pytest.raises(SeesayError, match="expected 16 hexadecimal digits after the @"):
        load_image_encoder(name)


def test_every_public_name_is_there() -> None:
    for name in seesay.encoders.__all__:
        assert getattr(seesay.encoders, name).__doc__ is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = seesay.encoders.nothing
