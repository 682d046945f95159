"""Settings of encoders, the public package, and an encoder that another package brings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import seesay.encoders
from seesay.encoders import IMAGE_ENCODERS, load_image_encoder
from seesay.encoders.settings import EncoderSettings, checked_encoder, role_of
from seesay.errors import SeesayError

PLUGIN = '''
import numpy as np
from seesay.encoders import ImageEncoder, register_image_encoder

@register_image_encoder("tiny")
class Tiny(ImageEncoder):
    """A tiny encoder."""

    @classmethod
    def load(cls, settings, device, run):
        return cls(settings.title, "v1", 4, {"pooled": 3}, lambda pixels: {"pooled": pixels.mean((1, 2))})
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
    "values",
    [
        "efficientnet-lite0",
        {"kind": "efficientnet-lite0", "crops": "ten"},
        {"kind": "concepts", "run": "runs/a@b"},
        {"kind": "timm", "model": "x", "weights": "random"},
    ],
)
def test_settings_without_tuned_weights_are_themselves(values: Any) -> None:
    settings = EncoderSettings.parse(values)
    assert settings.untuned == settings == EncoderSettings.parse(yaml.safe_load(str(settings)))
    assert settings.dump() == values


def test_settings_with_tuned_weights() -> None:
    values = {"kind": "concepts", "run": "runs/concepts", "tuned": "0123456789abcdef"}
    settings = EncoderSettings.parse(values)
    assert (settings.get("tuned"), role_of(settings)) == ("0123456789abcdef", "concepts")
    assert settings.dump() == values
    assert settings.untuned.dump() == {"kind": "concepts", "run": "runs/concepts"}


def test_titles_are_those_that_stores_were_named_by() -> None:
    """Features that are stored would be computed again if a fingerprint changed."""
    tuned = {"kind": "efficientnet-lite0", "crops": "ten", "tuned": "0123456789abcdef"}
    titles = {
        "efficientnet-lite0:ten": {"kind": "efficientnet-lite0", "crops": "ten"},
        "efficientnet-lite0@0123456789abcdef:ten": tuned,
        "instances:grid": {"kind": "instances", "boxes": "grid"},
        "mean:/words.txt": {"kind": "mean", "file": "/words.txt"},
        "open_clip:ViT-B-32/openai": {"kind": "open_clip", "model": "ViT-B-32", "weights": "openai"},
    }
    assert [EncoderSettings.parse(values).title for values in titles.values()] == list(titles)


def test_a_default_is_left_out() -> None:
    assert (
        IMAGE_ENCODERS.checked({"kind": "efficientnet-lite0", "crops": "squash"}).dump()
        == "efficientnet-lite0"
    )


@pytest.mark.parametrize("tuned", ["b", "../../evil", "0123456789ABCDEF", "0123456789abcdef0"])
def test_weights_that_no_run_can_hold_are_refused(tuned: str) -> None:
    with pytest.raises(SeesayError, match="expected 16 hexadecimal digits"):
        load_image_encoder({"kind": "efficientnet-lite0", "tuned": tuned})


@pytest.mark.parametrize("values", [None, 3, [], {}, {"crops": "ten"}, {"kind": "instances", "boxes": 36}])
def test_what_is_no_encoder_is_refused(values: Any) -> None:
    with pytest.raises(SeesayError, match=r"name an encoder|'boxes' is 36; write a text"):
        EncoderSettings.parse(values)


def test_a_sentence_encoder_imports_no_image_encoder() -> None:
    code = (
        "import sys; from seesay.encoders import load_sentence_encoder as load; load('minilm-int8'); "
        "assert not {'seesay.encoders.regions', 'seesay.encoders.images.cluster'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_public_name_is_there() -> None:
    for name in seesay.encoders.__all__:
        assert getattr(seesay.encoders, name).__doc__ is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = seesay.encoders.nothing


def test_the_role_of_an_encoder_is_the_given_one() -> None:
    assert role_of(checked_encoder({"kind": "concepts", "role": "context"})) == "context"
    assert checked_encoder({"kind": "concepts", "role": "concepts"}) == checked_encoder("concepts")
    assert role_of(checked_encoder("efficientnet-lite0")) == "context"
