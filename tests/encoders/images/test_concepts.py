"""Concept scores as an image's features: from another encoder's, and of regions."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from seesay.data.corpus import CorpusImage
from seesay.data.images import FileSource, decode
from seesay.encoders import register_image_encoder
from seesay.encoders.images.base import ImageEncoder, kept_encoder, load_image_encoder
from seesay.encoders.images.concepts import ConceptEncoder, StoredHead
from seesay.encoders.images.efficientnet import LiteEncoder
from seesay.encoders.images.encode import encode_images, fill_stores, open_stores, read_features
from seesay.encoders.images.tuned import save_tuned
from seesay.encoders.proposals import SIDE, diverse_regions
from seesay.encoders.settings import EncoderSettings
from seesay.errors import SeesayError
from seesay.matchers import ConceptClassifier
from seesay.training.concept_task import keep_concepts
from tests.concept_heads import write_head

K = 6


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The parts of a run of concepts, its weights from chance."""
    return _write_run(tmp_path / "run", seed=1)


def _write_run(folder: Path, seed: int, hidden: int = 0, width: int = 1280) -> Path:
    folder.mkdir()
    write_head(folder, {"kind": "efficientnet-lite0", "crops": "ten"}, ["pooled"])
    torch.manual_seed(seed)
    layers = [torch.nn.Linear(width, hidden), torch.nn.ReLU()] if hidden else []
    head = torch.nn.Sequential(*layers, torch.nn.Dropout(), torch.nn.Linear(hidden or width, K))
    weights = {f"head.layers.{key}": value for key, value in head.state_dict().items()}
    save_file(weights, folder / "weights.safetensors")
    return folder


@pytest.fixture(scope="module")
def photo(scenes: Path) -> Path:
    return next(iter(sorted(scenes.rglob("*.jpg"))))


def _by_hand(run: Path, features: np.ndarray) -> np.ndarray:
    """Sigmoids of a linear layer, in NumPy."""
    weight, bias = (load_file(run / "weights.safetensors")[f"head.layers.1.{k}"] for k in ("weight", "bias"))
    return 1 / (1 + np.exp(-(features @ weight.numpy().T + bias.numpy())))


@pytest.mark.parametrize(
    "about",
    [
        None,
        {"arrays": "pooled"},
        {"encoder": "efficientnet-lite0", "arrays": "pooled"},
        {"encoder": '"efficientnet-lite0"'},
        {"encoder": '"efficientnet-lite0"', "arrays": "pooled", "instances": "many"},
    ],
)
def test_a_kept_head_that_does_not_say_what_it_reads_is_damaged(
    tmp_path: Path, about: dict[str, str] | None
) -> None:
    kept = save_tuned(
        EncoderSettings("concepts"), {"head.0.weight": np.zeros((K, 4), np.float32)}, tmp_path, about
    )
    with pytest.raises(SeesayError, match="not the weights of a concept head") as raised:
        StoredHead.read(kept, tmp_path)
    assert "\n" not in str(raised.value)


def test_a_run_whose_head_reads_itself_is_refused(run: Path) -> None:
    write_head(run, {"kind": "concepts", "run": str(run)}, ["pooled"])
    with pytest.raises(
        SeesayError, match=r"the head reads '{kind: concepts, run: .*}', which is also a head"
    ):
        load_image_encoder({"kind": "concepts", "run": str(run)})


def test_scores_are_the_heads_on_the_features_of_its_encoder(run: Path, photo: Path) -> None:
    names = [{"kind": "efficientnet-lite0", "crops": "ten"}, {"kind": "concepts", "run": str(run)}]
    data = photo.read_bytes()
    plain, scores = encode_images([load_image_encoder(name) for name in names], [data], ["a"])
    np.testing.assert_allclose(scores["pooled"][0], _by_hand(run, plain["pooled"][0]), rtol=1e-4)
    logits = np.log(scores["pooled"][0] / (1 - scores["pooled"][0]))
    np.testing.assert_allclose(scores["logits"][0], logits, atol=1e-4)


def _concepts_of(run: Path) -> EncoderSettings:
    return EncoderSettings("concepts").replaced(run=str(run))


def _of_instances(folder: Path) -> Path:
    """A run of concepts whose head sees the 36 regions of a grid."""
    run = _write_run(folder, seed=1, hidden=7, width=1000)
    write_head(run, {"kind": "instances", "boxes": "grid"}, ["pooled"], instances=36)
    return run


def test_a_head_that_has_seen_regions_takes_the_highest_logit(tmp_path: Path, photo: Path) -> None:
    run = _of_instances(tmp_path / "run")
    names = [{"kind": "instances", "boxes": "grid"}, {"kind": "concepts", "run": str(run)}]
    (regions, scores) = encode_images([load_image_encoder(n) for n in names], [photo.read_bytes()], ["a"])
    classifier = ConceptClassifier(36_000, K, hidden=7, instances=36).eval()
    weights = load_file(run / "weights.safetensors")
    classifier.load_state_dict({key.removeprefix("head."): value for key, value in weights.items()})
    with torch.inference_mode():
        expected = classifier(torch.from_numpy(np.float32(regions["pooled"])))
    np.testing.assert_allclose(scores["logits"], expected.numpy(), rtol=1e-3, atol=1e-4)


def test_regions_that_an_image_lacks_do_not_count(tmp_path: Path) -> None:
    head = StoredHead.read(_concepts_of(_of_instances(tmp_path / "run")))
    rows = np.random.default_rng(0).random((2, 36, 1000), np.float32)
    rows[0, 3:] = 0
    every = head.scores({"pooled": rows.reshape(2, -1)})["logits"]
    alone = [head.scores({"pooled": np.tile(rows[0, i], 36)[None]})["logits"][0] for i in range(3)]
    np.testing.assert_allclose(every[0], np.max(alone, axis=0), rtol=1e-4, atol=1e-5)
    assert not np.allclose(every[0], head.scores({"pooled": np.zeros((1, 36_000), np.float32)})["logits"][0])


def test_of_no_images_there_are_no_scores(tmp_path: Path) -> None:
    head = StoredHead.read(_concepts_of(_of_instances(tmp_path / "run")))
    assert head.scores({"pooled": np.zeros((0, 36_000), np.float32)})["logits"].shape == (0, K)


def test_many_images_are_scored_as_each_alone(tmp_path: Path) -> None:
    head = StoredHead.read(_concepts_of(_of_instances(tmp_path / "run")))
    rows = np.random.default_rng(0).random((258, 36_000), np.float32)  # more than are scored at once
    together = head.scores({"pooled": rows})["pooled"]
    assert together.shape == (258, K)
    for i in (0, 255, 256, 257):
        alone = head.scores({"pooled": rows[i : i + 1]})["pooled"]
        np.testing.assert_allclose(together[i : i + 1], alone, rtol=1e-4, atol=1e-5)


def test_a_head_that_does_not_fit_its_features_is_refused(tmp_path: Path) -> None:
    run = _of_instances(tmp_path / "run")
    write_head(run, {"kind": "instances", "boxes": "grid"}, ["pooled"], instances=35)
    with pytest.raises(SeesayError, match=r"reads 35 regions of 1000 numbers .* returns 36000; train"):
        load_image_encoder({"kind": "concepts", "run": str(run)})


def test_a_kept_head_of_regions_stays_one(tmp_path: Path) -> None:
    run = _of_instances(tmp_path / "run")
    kept = keep_concepts(EncoderSettings.parse({"kind": "concepts", "run": str(run)}), tmp_path / "sco")
    assert StoredHead.read(kept, tmp_path / "sco").instances == 36


def test_such_a_head_is_shown_no_other_regions(tmp_path: Path) -> None:
    with pytest.raises(SeesayError, match="already the highest of 36 regions; use the encoder"):
        load_image_encoder({"kind": "concepts-regions", "run": str(_of_instances(tmp_path / "run"))})


def test_they_come_from_stored_features_and_are_not_stored(run: Path, photo: Path, tmp_path: Path) -> None:
    images = [CorpusImage(photo.name, "train", FileSource(photo))]
    base = load_image_encoder({"kind": "efficientnet-lite0", "crops": "ten"})
    first = fill_stores([base], tmp_path, images)
    concepts = load_image_encoder({"kind": "concepts", "run": str(run)})
    again = fill_stores([concepts, base], tmp_path, images)
    assert (first.encoded, again.encoded) == (1, 0)
    key = str(again.keys[0])
    assert key in again.stores[0]
    found, given = (
        read_features(encoder, store, [key], "pooled")
        for encoder, store in zip([concepts, base], again.stores, strict=True)
    )
    np.testing.assert_allclose(found, _by_hand(run, given), rtol=1e-4)
    assert [path.name for path in tmp_path.iterdir() if path != run] == [base.fingerprint]


def test_one_encoding_serves_an_encoder_and_its_concepts(run: Path, photo: Path) -> None:
    seen = []

    def network(pixels: np.ndarray) -> dict[str, np.ndarray]:
        seen.append(len(pixels))
        return {"pooled": np.ones((len(pixels), 1280), np.float32)}

    base = ImageEncoder("counting", "v1", 8, {"pooled": 1280}, network, "ten")
    concepts = ConceptEncoder(base, StoredHead.read(_concepts_of(run)))
    encode_images([base, concepts], [photo.read_bytes()], ["a"])
    assert seen == [10]


def test_of_regions_the_highest_score_counts(run: Path, photo: Path) -> None:
    encoder, one = (
        load_image_encoder({"kind": "concepts-regions", "run": str(run)}),
        LiteEncoder.load(EncoderSettings("efficientnet-lite0"), "cpu", None, SIDE),
    )
    pixels = decode(photo.read_bytes(), "a", 320)
    expected = np.zeros(K)
    for x1, y1, x2, y2 in diverse_regions(pixels, 50):
        part = pixels[int(y1) : int(np.ceil(y2)), int(x1) : int(np.ceil(x2))]
        features = one.encode(one.prepare(part)[None])["pooled"]
        expected = np.maximum(expected, _by_hand(run, features)[0])
    encoded = encode_images([encoder], [photo.read_bytes()], ["a"])
    np.testing.assert_allclose(encoded[0]["pooled"][0], expected, rtol=1e-3)
    assert encoder.dims == {"pooled": K, "logits": K}


class Colours(ImageEncoder):
    """Colours of an image, by a table in a folder."""

    options: ClassVar = {"folder": ()}

    @classmethod
    def load(cls, settings: EncoderSettings, device: str, run: Path | None) -> ImageEncoder:
        assert settings.get("folder") == "/tables/a"

        def network(pixels: np.ndarray) -> dict[str, np.ndarray]:
            return {"pooled": np.float32(pixels[:, 0].reshape(-1, 12))}

        return cls(settings.title, "v1", 4, {"pooled": 12}, network)


def test_regions_are_seen_by_an_encoder_in_a_folder(tmp_path: Path, photo: Path) -> None:
    register_image_encoder("test-colours")(Colours)
    _write_run(tmp_path / "run", seed=1, width=12)
    write_head(tmp_path / "run", {"kind": "test-colours", "folder": "/tables/a"}, ["pooled"])
    encoder = load_image_encoder({"kind": "concepts-regions", "run": str(tmp_path / "run")})
    (arrays,) = encode_images([encoder], [photo.read_bytes()], ["a"])
    assert arrays["pooled"].shape == (1, K)
    assert arrays["pooled"].any()


def test_an_image_without_proposals_is_looked_at_whole(run: Path, tmp_path: Path) -> None:
    Image.new("RGB", (80, 60), (9, 99, 200)).save(tmp_path / "flat.png")
    data = (tmp_path / "flat.png").read_bytes()
    regions, whole = (
        load_image_encoder({"kind": "concepts-regions", "run": str(run)}),
        LiteEncoder.load(EncoderSettings("efficientnet-lite0"), "cpu", None, SIDE),
    )
    scores, features = encode_images([regions, whole], [data], ["flat"])
    np.testing.assert_allclose(scores["pooled"], _by_hand(run, features["pooled"]), rtol=1e-3)


def test_fingerprints_are_of_weights_and_not_of_folders(run: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    _write_run(moved, seed=1)
    other = _write_run(tmp_path / "other", seed=2)
    for kind in ("concepts", "concepts-regions"):
        prints = [
            load_image_encoder({"kind": kind, "run": str(folder)}).fingerprint
            for folder in (run, moved, other)
        ]
        assert prints[0] == prints[1] != prints[2]
    assert (
        load_image_encoder({"kind": "concepts", "run": str(run)}).fingerprint
        != load_image_encoder({"kind": "concepts-regions", "run": str(run)}).fingerprint
    )


def test_a_moved_run_finds_its_stored_regions(run: Path, tmp_path: Path) -> None:
    moved, stores = _write_run(tmp_path / "moved", seed=1), set()
    for folder in (run, moved):
        encoder = load_image_encoder({"kind": "concepts-regions", "run": str(folder)})
        stores.update(open_stores([encoder], tmp_path / "stores"))
    assert len(stores) == 1


def test_a_hidden_layer(tmp_path: Path) -> None:
    run = _write_run(tmp_path / "run", seed=1, hidden=16)
    encoder = load_image_encoder({"kind": "concepts", "run": str(run)})
    assert encoder.dims["pooled"] == K
    w = {
        key.removeprefix("head.layers."): value.numpy()
        for key, value in load_file(run / "weights.safetensors").items()
    }
    features = np.random.default_rng(0).standard_normal((3, 1280)).astype(np.float32)
    logits = np.maximum(features @ w["0.weight"].T + w["0.bias"], 0) @ w["3.weight"].T + w["3.bias"]
    np.testing.assert_allclose(encoder.from_source({"pooled": features})["logits"], logits, atol=1e-4)


def test_what_is_no_run_of_concepts_is_reported(run: Path, tmp_path: Path) -> None:
    with pytest.raises(SeesayError, match="nothing predicts no concepts"):
        load_image_encoder({"kind": "concepts", "run": str(tmp_path / "nothing")})
    with pytest.raises(SeesayError, match=r"name the run .*encoders=\[…, {kind: concepts, run: RUN}\]"):
        load_image_encoder("concepts")
    (run / "concepts.json").unlink()
    with pytest.raises(SeesayError, match="predicts no concepts"):
        load_image_encoder({"kind": "concepts", "run": str(run)})


@pytest.mark.parametrize("kind", ["concepts", "concepts-regions"])
def test_a_run_that_reads_concepts_keeps_them(
    run: Path, tmp_path: Path, photo: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path / "cache"))
    named = EncoderSettings(kind).replaced(run=str(run))
    there = load_image_encoder(named)
    kept = keep_concepts(named, tmp_path / "reader")
    assert kept.untuned == named != kept
    assert keep_concepts(kept, tmp_path / "reader") == kept
    plain = EncoderSettings.parse({"kind": "efficientnet-lite0", "crops": "ten"})
    assert keep_concepts(plain, tmp_path / "reader") == plain
    shutil.rmtree(run)
    kept_encoder.cache_clear()
    with pytest.raises(SeesayError, match="of an encoder belong to a run"):
        load_image_encoder(kept)
    here = load_image_encoder(kept, run=tmp_path / "reader")
    assert here.fingerprint == there.fingerprint
    encoded = [encode_images([each], [photo.read_bytes()], ["a"])[0] for each in (here, there)]
    np.testing.assert_array_equal(encoded[0]["pooled"], encoded[1]["pooled"])


def test_damaged_weights_are_told(run: Path) -> None:
    (run / "weights.safetensors").write_bytes(b"no weights")
    with pytest.raises(SeesayError, match="not the weights of a concept head"):
        load_image_encoder({"kind": "concepts", "run": str(run)})
