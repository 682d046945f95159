"""Ids against open_clip's own, over captions and what tokenizers read differently."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from seesay.encoders.towers.export import load_towers
from tests.encoders.towers.conftest import ODD, settings_of
from tests.small_towers import CAPTIONS


@pytest.fixture(scope="module")
def captions(request: pytest.FixtureRequest) -> list[str]:
    """Sentences of Flickr8k where it exists, else made ones."""
    file = Path(__file__).parents[4] / "shared" / "flickr8k" / "dataset_flickr8k.json"
    if not file.is_file():
        return CAPTIONS[::7]
    images = json.loads(file.read_text())["images"][:400]
    return [sentence["raw"] for image in images for sentence in image["sentences"]]


@pytest.mark.parametrize("kind", ["clip", "siglip"])
def test_ids_are_the_librarys(kind: str, captions: list[str], request: pytest.FixtureRequest) -> None:
    text = load_towers(settings_of(f"open_clip:{request.getfixturevalue(kind)}")).text
    assert text is not None
    np.testing.assert_array_equal(text.tokens.ids(captions), text.library_ids(captions))
    for sentence in ODD:
        ours = text.tokens.ids([sentence])
        np.testing.assert_array_equal(ours, text.library_ids([sentence]), err_msg=repr(sentence))
    assert text.tokens.ids([]).shape == (0, 20)
