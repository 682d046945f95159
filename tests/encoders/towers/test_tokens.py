"""Ids against the libraries' own, over captions and what tokenizers read differently."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from seesay.encoders.spec import EncoderSpec
from seesay.encoders.towers.export import load_towers
from tests.encoders.towers.conftest import ODD
from tests.small_towers import CAPTIONS


@pytest.fixture(scope="module")
def captions(request: pytest.FixtureRequest) -> list[str]:
    """Sentences of Flickr8k where it exists, else made ones."""
    file = Path(__file__).parents[4] / "shared" / "flickr8k" / "dataset_flickr8k.json"
    if not file.is_file():
        return CAPTIONS[::7]
    images = json.loads(file.read_text())["images"][:400]
    return [sentence["raw"] for image in images for sentence in image["sentences"]]


@pytest.mark.parametrize("kind", ["clip", "siglip", "siglip2", "open_clip"])
def test_ids_are_the_librarys(kind: str, captions: list[str], request: pytest.FixtureRequest) -> None:
    if kind == "open_clip":
        name = f"open_clip:{request.getfixturevalue('open_clip_folders')['shortest']}"
    else:
        name = f"transformers:{request.getfixturevalue(kind)}"
    text = load_towers(EncoderSpec.of_tower(name)).text
    assert text is not None
    np.testing.assert_array_equal(text.tokens.ids(captions)[0], text.library_ids(captions))
    for sentence in ODD:
        ours = text.tokens.ids([sentence])[0]
        np.testing.assert_array_equal(ours, text.library_ids([sentence]), err_msg=repr(sentence))


def test_the_mask_shows_what_is_padding(clip: Path) -> None:
    text = load_towers(EncoderSpec.of_tower(f"transformers:{clip}")).text
    assert text is not None
    ids, mask = text.tokens.ids(["two dogs", "two black dogs running in the snow"])
    assert ids.shape == mask.shape
    assert mask.sum(axis=1).tolist() == [4, 9]
    assert text.tokens.ids([])[0].shape == (0, 0)
