"""A split's features and sentences: what is read, what is cached, what becomes of damaged files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from seesay.data.features import FeatureRows
from seesay.data.readers import read_corpus
from seesay.encoders.sentences.base import SentenceEncoder
from seesay.errors import SeesayError
from seesay.recipes.load import load_recipe
from seesay.runs.inputs import fitted_sentence_encoder, sentence_vectors, split_inputs
from seesay.text.vocabulary import Vocabulary

VOCABULARY = Vocabulary(["a", "dog"])
PRECOMPUTED = load_recipe("irmatch-h", changes=["encoders=[precomputed]"])
ENCODED = load_recipe("irmatch-h", changes=["encoders=[efficientnet-lite0]"])
TEXTS = ["a dog runs", "two dogs run", "a red ball", "xqzzk", "a man and a dog on a hill"]
FITTED = load_recipe("cca-mean", changes=["sentence_dim=3"])


def write_precomputed(folder: Path, features: np.ndarray, captions: list[str]) -> Path:
    for split in ("train", "dev", "test"):
        np.save(folder / f"{split}_ims.npy", features)
        (folder / f"{split}_caps.txt").write_text("\n".join(captions) + "\n")
    return folder


def test_global_features_as_they_came(tmp_path: Path) -> None:
    features = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    corpus = read_corpus(write_precomputed(tmp_path, features, [f"dog {i}" for i in range(15)]))
    inputs = split_inputs(PRECOMPUTED, corpus, "test", VOCABULARY)
    np.testing.assert_array_equal(inputs.features, features)
    np.testing.assert_array_equal(inputs.image_of_sentence, np.repeat(np.arange(3), 5))


def test_regions_become_their_mean(tmp_path: Path) -> None:
    regions = np.random.default_rng(0).normal(size=(3, 6, 4)).astype(np.float32)
    corpus = read_corpus(write_precomputed(tmp_path, regions, [f"dog {i}" for i in range(15)]))
    inputs = split_inputs(PRECOMPUTED, corpus, "train", VOCABULARY)
    np.testing.assert_allclose(inputs.features, regions.mean(axis=1), rtol=1e-6)


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("arrays", ["[pooled]", "[pooled, logits]"])
def test_they_join_those_of_encoders(scenes: Path, place: int, arrays: str) -> None:
    corpus = read_corpus(scenes)
    rows = {image.name: row for row, image in enumerate(corpus.images)}
    without = corpus.split("test").images[1].name
    images = tuple(
        replace(image, row=None if image.name == without else rows[image.name]) for image in corpus.images
    )
    features = np.random.default_rng(0).normal(size=(len(rows), 4)).astype(np.float32)
    both = "efficientnet-lite0, precomputed" if place else "precomputed, efficientnet-lite0"
    recipe, plain = (
        load_recipe("sco-ctx", changes=[f"encoders=[{names}]", f"arrays={arrays}"])
        for names in (both, "efficientnet-lite0")
    )
    inputs = split_inputs(recipe, replace(corpus, images=images, features=features), "test", VOCABULARY)
    encoded = split_inputs(plain, corpus, "test", VOCABULARY)
    there = [image.name for image in inputs.corpus.images]
    assert without not in there
    assert len(there) == len(encoded.corpus.images) - 1
    given, seen = features[[rows[name] for name in there]], np.delete(encoded.features, 1, axis=0)
    np.testing.assert_array_equal(inputs.features, np.hstack([seen, given] if place else [given, seen]))
    assert sum(inputs.image_dims) == inputs.features.shape[1]
    assert inputs.image_dims[0] == (4 if place == 0 else 1280)


def test_joined_features_keep_the_files_half_precision(scenes: Path) -> None:
    corpus = read_corpus(scenes)
    train_first = sorted(corpus.images, key=lambda image: image.split != "train")
    rows = {image.name: row for row, image in enumerate(train_first)}
    images = tuple(replace(image, row=rows[image.name]) for image in corpus.images)
    halves = np.random.default_rng(0).normal(size=(len(images), 4)).astype(np.float16)
    features = FeatureRows({Path("halves.npy"): halves})
    recipe = load_recipe("sco-ctx", changes=["encoders=[precomputed, efficientnet-lite0]"])
    inputs = split_inputs(recipe, replace(corpus, images=images, features=features), "train", VOCABULARY)
    assert inputs.features.dtype == np.float16
    np.testing.assert_array_equal(inputs.features[:, :4], halves[: len(inputs.features)])


def test_an_image_that_lacks_both_is_one_error(scenes: Path) -> None:
    corpus = read_corpus(scenes)
    images = tuple(replace(image, row=row) for row, image in enumerate(corpus.images))
    features = np.zeros((len(images), 4), np.float32)
    place = next(place for place, image in enumerate(images) if image.split == "test")
    lacking = replace(images[place], row=None, source=None)
    recipe = load_recipe("sco-ctx", changes=["encoders=[efficientnet-lite0, precomputed]"])
    given = replace(corpus, images=(*images[:place], lacking, *images[place + 1 :]), features=features)
    assert [str(error) for error in split_inputs(recipe, given, "test", VOCABULARY).broken] == [
        f"{lacking.name}: no features."
    ]
    none = replace(corpus, images=tuple(replace(image, row=None) for image in images), features=features)
    with pytest.raises(SeesayError, match="no sentence with a usable image"):
        split_inputs(recipe, none, "test", VOCABULARY)


def test_features_without_images_name_the_way_out(tmp_path: Path) -> None:
    corpus = read_corpus(write_precomputed(tmp_path, np.zeros((1, 4), np.float32), ["dog"] * 5))
    with pytest.raises(SeesayError, match=r"encoders=\[precomputed\]"):
        split_inputs(ENCODED, corpus, "test", VOCABULARY)


def test_an_array_that_an_encoder_lacks_is_named(scenes: Path) -> None:
    recipe = load_recipe("sco-ctx", changes=["encoders=[efficientnet-lite0-stages]", "arrays=[logits]"])
    with pytest.raises(SeesayError, match="'arrays': efficientnet-lite0-stages has pooled, not logits"):
        split_inputs(recipe, read_corpus(scenes), "test", VOCABULARY)


def test_a_broken_image_goes_with_its_sentences(scenes: Path, tmp_path: Path) -> None:
    rows = ["image\tcaption\tsplit"]
    for i, path in enumerate(sorted(scenes.rglob("*.jpg"))[:3]):
        data = path.read_bytes()
        (tmp_path / path.name).write_bytes(data[:200] if i == 1 else data)
        rows += [f"{path.name}\ta dog {n}\ttest" for n in range(i + 1)]
    (tmp_path / "table.tsv").write_text("\n".join(rows))
    inputs = split_inputs(ENCODED, read_corpus(tmp_path), "test", VOCABULARY)
    assert len(inputs.broken) == 1
    assert len(inputs.features) == 2
    assert inputs.image_of_sentence.tolist() == [0, 1, 1, 1]


def test_a_split_of_broken_images_says_why(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_text("no image")
    (tmp_path / "table.tsv").write_text("image\tcaption\tsplit\na.jpg\ta dog\ttrain")
    with pytest.raises(SeesayError, match=r"no image of split 'train' can be used; the first: a\.jpg: "):
        split_inputs(ENCODED, read_corpus(tmp_path), "train", VOCABULARY)


def test_an_empty_split_is_named(scenes: Path) -> None:
    with pytest.raises(SeesayError, match="no image in split 'dev'"):
        split_inputs(ENCODED, read_corpus(scenes), "dev", VOCABULARY)


def test_first_images_keep_their_sentences(tmp_path: Path) -> None:
    features = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    corpus = read_corpus(write_precomputed(tmp_path, features, ["dog", "a", "dog a", "a dog", "a a"] * 4))
    inputs = split_inputs(PRECOMPUTED, corpus, "val", VOCABULARY)
    few = inputs.of_first_images(3)
    np.testing.assert_array_equal(few.features, features[:3])
    np.testing.assert_array_equal(few.image_of_sentence, np.repeat(np.arange(3), 5))
    np.testing.assert_array_equal(few.sentences.words, inputs.sentences.words[: 3 * 8])
    assert len(inputs.of_first_images(10).sentences) == 20


@pytest.fixture
def encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SentenceEncoder:
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path))
    fitted = fitted_sentence_encoder(FITTED, TEXTS, np.arange(len(TEXTS)))
    assert fitted is not None
    return fitted


def test_many_sentences_have_the_vectors_of_each(encoder: SentenceEncoder) -> None:
    """So many that they are encoded and written in several parts."""
    vectors = sentence_vectors(encoder, TEXTS * 7000)
    np.testing.assert_allclose(vectors, np.tile(encoder.encode(TEXTS), (7000, 1)), atol=1e-6)
    assert sentence_vectors(encoder, []).shape == (0, encoder.dim)


def test_changed_vectors_stay_out_of_the_cache(encoder: SentenceEncoder) -> None:
    before = np.array(sentence_vectors(encoder, TEXTS))
    sentence_vectors(encoder, TEXTS)[:] = 7
    np.testing.assert_array_equal(sentence_vectors(encoder, TEXTS), before)


@pytest.mark.parametrize("damage", [b"", b"no array", "half", "a byte"])
def test_damaged_caches_are_made_again(tmp_path: Path, encoder: SentenceEncoder, damage: bytes | str) -> None:
    before = np.array(sentence_vectors(encoder, TEXTS))
    # A test before this one may have loaded a run that brings its networks: what they compute is kept apart.
    patterns = ("arrays/**/vectors.f32", "text/**/*.safetensors")
    (vectors,), (fitted,) = ([*tmp_path.glob(pattern)] for pattern in patterns)
    if damage == "a byte":
        vectors.write_bytes(bytes([vectors.read_bytes()[0] ^ 1]) + vectors.read_bytes()[1:])
    for file in (vectors, fitted):
        whole = file.read_bytes()
        if isinstance(damage, bytes):
            file.write_bytes(damage)
        elif damage == "half":
            file.write_bytes(whole[: len(whole) // 2])
    again = fitted_sentence_encoder(FITTED, TEXTS, np.arange(len(TEXTS)))
    assert again is not None
    assert again.fingerprint == encoder.fingerprint
    np.testing.assert_array_equal(sentence_vectors(again, TEXTS), before)


@pytest.mark.parametrize("kind", [np.float16, np.float32])
@pytest.mark.parametrize("matcher", ["irmatch-h", "gvse-uncommon"])
def test_features_are_learned_from_where_they_lie(tmp_path: Path, kind: type, matcher: str) -> None:
    shape = (3, 4) if matcher == "irmatch-h" else (3, 36, 4)
    features = np.random.default_rng(0).normal(size=shape).astype(kind)
    corpus = read_corpus(write_precomputed(tmp_path, features, [f"dog {i}" for i in range(15)]))
    recipe = load_recipe(matcher, changes=["encoders=[precomputed]"])
    mapped = split_inputs(recipe, corpus, "train", VOCABULARY).features
    assert mapped.dtype == kind
    assert not mapped.flags.owndata
    np.testing.assert_array_equal(mapped, features.reshape(3, -1))


@pytest.mark.parametrize("encoders", ["efficientnet-lite0", "efficientnet-lite0, efficientnet-lite0-stages"])
def test_stored_features_keep_their_precision(scenes: Path, encoders: str) -> None:
    corpus, recipe = read_corpus(scenes), load_recipe("irmatch-h", changes=[f"encoders=[{encoders}]"])
    assert split_inputs(recipe, corpus, "train", VOCABULARY).features.dtype == np.float16


def test_infinite_features_name_the_image(tmp_path: Path) -> None:
    features = np.ones((3, 4), np.float32)
    features[1, 2] = np.inf
    corpus = read_corpus(write_precomputed(tmp_path, features, ["dog"] * 15))
    with pytest.raises(SeesayError, match="image train/1 contain NaN or infinity"):
        split_inputs(PRECOMPUTED, corpus, "train", VOCABULARY)
