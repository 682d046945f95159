import json
import re

import numpy as np
import pytest

from seesay.data.images import decode
from seesay.data.readers import read_corpus
from seesay.data.readers.builder import OTHER_FILE
from tools.scenes import (
    COLOURS,
    GROUNDS,
    HEIGHT,
    SHAPES,
    SIZES,
    WIDTH,
    SceneObject,
    draw_scene,
    write_scenes,
)


def files(folder):
    return {
        path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def test_the_corpus_can_be_read(tmp_path):
    write_scenes(tmp_path, 30, seed=0)
    corpus = read_corpus(tmp_path)
    assert corpus.name == "scenes"
    assert [len(corpus.split(s).images) for s in ("train", "val", "test")] == [24, 3, 3]
    assert (np.bincount(corpus.image_of_sentence()) == 5).all()
    assert corpus.issues.counts == {OTHER_FILE: 1}  # of phrases, or of sentences


def test_the_same_seed_gives_the_same_files_and_more_scenes_keep_the_first(tmp_path):
    for name, images, seed in (("a", 12, 0), ("b", 12, 0), ("c", 12, 1), ("d", 14, 0)):
        write_scenes(tmp_path / name, images, seed)
    a, b, c, d = (files(tmp_path / name) for name in "abcd")
    assert a == b
    assert a != c
    pictures = [name for name in a if name.suffix == ".jpg"]
    assert len(pictures) == 12
    assert all(a[name] == d[name] for name in pictures)


@pytest.mark.parametrize("captions", [1, 7])
def test_any_number_of_captions(tmp_path, captions):
    write_scenes(tmp_path, 3, seed=0, captions=captions)
    assert len(read_corpus(tmp_path).sentences) == 3 * captions


def test_sentences_tell_what_is_drawn(tmp_path):
    write_scenes(tmp_path, 40, seed=3)
    for record in json.loads((tmp_path / "dataset_scenes.json").read_text())["images"]:
        for sentence in record["sentences"]:
            relation = re.search(r"to the left of|to the right of|above|below", sentence["raw"])
            named = {colour for colour in COLOURS if colour in sentence["raw"].split()}
            assert len(named) >= 2
            assert sentence["tokens"] == sentence["raw"].split()
            if relation is not None:
                assert len(named) == 2


def test_every_shape_is_drawn_in_its_colour_at_its_place():
    for shape in ("circle", "square", "triangle", "star", "bar", "ring"):
        item = SceneObject("large", "red", shape, 80, 64)
        pixels = np.asarray(draw_scene([item], "white"))
        assert pixels.shape == (HEIGHT, WIDTH, 3)
        y, x = np.nonzero((pixels == COLOURS["red"]).all(-1))
        assert len(y) > 300
        assert abs((x.min() + x.max()) / 2 - 80) <= 1
        assert (pixels[0, 0] == GROUNDS["white"]).all()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", SIZES)
def test_the_box_holds_what_is_drawn_and_no_more(shape, size):
    item = SceneObject(size, "blue", shape, 70, 60)
    y, x = np.nonzero((np.asarray(draw_scene([item], "white")) == COLOURS["blue"]).all(-1))
    assert (x.min(), y.min(), x.max() + 1, y.max() + 1) == item.box


def test_phrases_name_what_is_in_their_boxes(tmp_path):
    write_scenes(tmp_path, 30, seed=5)
    corpus = read_corpus(tmp_path, phrases=True)
    assert corpus.issues.counts == {OTHER_FILE: 1}  # of phrases, or of sentences
    assert [len(corpus.split(s).images) for s in ("train", "val", "test")] == [24, 3, 3]
    assert {image.size for image in corpus.images} == {(WIDTH, HEIGHT)}
    for phrase in corpus.sentences:
        source = corpus.images[phrase.image].source
        x1, y1, x2, y2 = phrase.box.astype(int)
        inside = decode(source.read(), "scene")[y1:y2, x1:x2].reshape(-1, 3)
        colour = next(name for name in phrase.text.split() if name in COLOURS)
        near = np.abs(inside.astype(int) - COLOURS[colour]).max(axis=1) < 40  # JPEG
        assert near.mean() > 0.15, phrase
