"""Vectors and scores of small models against open_clip's and timm's."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from seesay.encoders import fit_sentence_encoder, load_image_encoder, load_sentence_encoder
from seesay.encoders.towers import open_clip_model
from seesay.errors import SeesayError
from seesay.recipes.load import load_recipe
from seesay.runs.load import clip_model
from tests.encoders.towers.conftest import Model, settings_of

SENTENCES = ["two black dogs in the snow .", "a café, at the lake!", "犬", "", "many words " * 60]


@pytest.fixture(scope="module")
def photographs() -> list[Image.Image]:
    """Upright, wide, small and odd sides."""
    draw = np.random.default_rng(0)
    sizes = [(90, 60), (61, 97), (40, 33), (20, 20)]
    coarse = [Image.fromarray(draw.integers(0, 256, (9, 9, 3), dtype=np.uint8)) for _ in sizes]
    return [image.resize(size, Image.Resampling.BICUBIC) for image, size in zip(coarse, sizes, strict=True)]


def vectors(tower: Model, photographs: list[Image.Image]) -> tuple[np.ndarray, np.ndarray]:
    prepared = [tower.image.prepare(np.asarray(image)) for image in photographs]
    return tower.image.encode(prepared)["pooled"], tower.text.encode(SENTENCES)


def scores(tower: Model, images: np.ndarray, texts: np.ndarray) -> np.ndarray:
    """The model's own logits of vectors that are not normalised."""
    unit = [each / np.linalg.norm(each, axis=1, keepdims=True) for each in (images, texts)]
    return tower.logit_scale * unit[0] @ unit[1].T + tower.logit_bias


def check(name: str, photographs: list[Image.Image], images: Any, texts: Any, logits: Any = None) -> Model:
    """Hold vectors and logits to the library's."""
    tower = Model(name)
    found = vectors(tower, photographs)
    np.testing.assert_allclose(found[0], images.numpy(), atol=1e-4)
    np.testing.assert_allclose(found[1], texts.numpy(), atol=1e-4)
    if logits is not None:
        np.testing.assert_allclose(scores(tower, *found), logits.numpy(), atol=1e-4, rtol=1e-5)
    return tower


@torch.inference_mode()
@pytest.mark.parametrize("kind", ["clip", "siglip", "letterboxed"])
def test_models_of_open_clip(
    kind: str, open_clip: Any, request: pytest.FixtureRequest, photographs: list[Image.Image]
) -> None:
    folder = request.getfixturevalue(kind)
    model, _, transform = open_clip.create_model_and_transforms(f"local-dir:{folder}")
    model.eval()
    tokens = open_clip.get_tokenizer(f"local-dir:{folder}")(SENTENCES)
    images = torch.stack([transform(image) for image in photographs])
    logits = model.get_logits(images, tokens)[0]
    expected = model.encode_image(images), model.encode_text(tokens)
    tower = check(f"open_clip:{folder}", photographs, *expected, logits)
    assert tower.dim == (32 if kind == "siglip" else 24)
    assert tower.logit_bias == (-12.5 if kind == "siglip" else 0)


@torch.inference_mode()
def test_networks_of_timm(timm: Any, photographs: list[Image.Image]) -> None:
    torch.manual_seed(5)
    expected_seed = torch.rand(1)
    torch.manual_seed(5)
    encoder = load_image_encoder({"kind": "timm", "model": "test_vit", "weights": "random"})
    assert torch.rand(1) == expected_seed  # the caller's own seed goes on as it was
    torch.manual_seed(0)
    model = timm.create_model("test_vit", num_classes=0).eval()
    transform = timm.data.create_transform(**timm.data.resolve_model_data_config(model), is_training=False)
    expected = model(torch.stack([transform(image) for image in photographs]))
    prepared = [encoder.prepare(np.asarray(image)) for image in photographs]
    np.testing.assert_allclose(encoder.encode(prepared)["pooled"], expected.numpy(), atol=1e-4)


@torch.inference_mode()
def test_ten_crops_of_a_network_of_timm(
    timm: Any, photographs: list[Image.Image], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"kind": "timm", "model": "test_vit", "weights": "random"}
    one, ten = (load_image_encoder(settings | {"crops": crops}) for crops in ("own", "ten"))
    torch.manual_seed(0)
    model = timm.create_model("test_vit", num_classes=0).eval()
    config = timm.data.resolve_model_data_config(model)
    side = config["input_size"][1]
    mean, std = (torch.tensor(config[key]).view(3, 1, 1) for key in ("mean", "std"))

    def normalised(crop: Image.Image) -> torch.Tensor:
        return (torch.from_numpy(np.asarray(crop).copy()).permute(2, 0, 1) / 255 - mean) / std

    for image in photographs:
        scale = side * 256 / 224 / min(image.size)
        large = image.resize([round(length * scale) for length in image.size], Image.Resampling.BICUBIC)
        right, down = large.width - side, large.height - side
        corners = [(0, 0), (right, 0), (0, down), (right, down), (right // 2, down // 2)]
        crops = [large.crop((x, y, x + side, y + side)) for x, y in corners]
        crops += [ImageOps.mirror(crop) for crop in crops]
        expected = model(torch.stack([normalised(crop) for crop in crops])).mean(dim=0)
        found = ten.encode([ten.prepare(np.asarray(image))])["pooled"][0]
        np.testing.assert_allclose(found, expected.numpy(), atol=1e-4)
    assert ten.fingerprint != one.fingerprint

    def flat(*_: object, **__: object) -> torch.nn.Module:
        model.pretrained_cfg = model.pretrained_cfg | {"input_size": (3, 32, 64)}
        return model

    monkeypatch.setattr(timm, "create_model", flat)
    with pytest.raises(SeesayError, match="ten crops are squares, and it takes others; leave out"):
        load_image_encoder({"kind": "timm", "crops": "ten", "model": "test_vit2", "weights": "random"})


@torch.inference_mode()
def test_the_last_layer_of_vgg_before_its_activation_function(
    timm: Any, photographs: list[Image.Image], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        SeesayError, match=r"layer: before-relu is for VGG networks; it has no such layers\.$"
    ):
        load_image_encoder({"kind": "timm", "layer": "before-relu", "model": "test_vit", "weights": "random"})
    with pytest.raises(SeesayError, match="'weights' is rnadom; there are published, random"):
        load_image_encoder({"kind": "timm", "model": "test_vit", "weights": "rnadom"})

    def small(*_: object, **__: object) -> torch.nn.Module:
        network = timm.models.vgg.VGG([4, "M"] * 5, num_classes=0, mlp_ratio=1 / 64)
        network.pretrained_cfg = timm.get_pretrained_cfg("vgg19.tv_in1k").to_dict()
        return network

    monkeypatch.setattr(timm, "create_model", small)
    after, before = map(
        load_image_encoder,
        (
            {"kind": "timm", "model": "vgg19", "weights": "random"},
            {"kind": "timm", "layer": "before-relu", "model": "vgg19", "weights": "random"},
        ),
    )
    activated, linear = (
        encoder.encode([encoder.prepare(np.asarray(image)) for image in photographs])["pooled"]
        for encoder in (after, before)
    )
    assert (linear < 0).any()
    np.testing.assert_allclose(np.maximum(linear, 0), activated, atol=1e-5)
    assert before.fingerprint != after.fingerprint  # though their weights are the same


def test_fingerprints_follow_the_weights_and_the_preprocessing(clip: Path, tmp_path: Path) -> None:
    first = Model(f"open_clip:{clip}")
    copied = tmp_path / "clip"
    shutil.copytree(clip, copied)
    assert Model(f"open_clip:{copied}").fingerprint == first.fingerprint
    settings = json.loads((copied / "open_clip_config.json").read_text())
    settings["preprocess_cfg"]["interpolation"] = "bilinear"
    (copied / "open_clip_config.json").write_text(json.dumps(settings))
    open_clip_model.cache_clear()  # as in another process
    changed = Model(f"open_clip:{copied}")
    assert changed.fingerprint != first.fingerprint
    assert changed.text.fingerprint == first.text.fingerprint


def test_threads_encode_images_at_once(clip: Path, photographs: list[Image.Image]) -> None:
    image = Model(f"open_clip:{clip}").image
    prepared = [image.prepare(np.asarray(each)) for each in photographs]
    expected = image.encode(prepared)["pooled"]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: image.encode(prepared)["pooled"], range(8)))
    for each in found:
        np.testing.assert_array_equal(each, expected)


def test_a_row_of_pixels_is_cut_before_it_is_enlarged(clip: Path) -> None:
    image = Model(f"open_clip:{clip}").image
    for shape in ((20_000, 1, 3), (1, 20_000, 3)):
        assert image.prepare(np.zeros(shape, np.uint8)).shape == (1, 3, 32, 32)


def test_text_towers_are_sentence_encoders_of_recipes(clip: Path) -> None:
    name = {"kind": "open_clip", "model": str(clip)}
    expected = Model(name).text
    for encoder in (fit_sentence_encoder(name, [], dim=1), load_sentence_encoder(name)):
        assert encoder.fingerprint == expected.fingerprint
        np.testing.assert_array_equal(encoder.encode(SENTENCES), expected.encode(SENTENCES))
    recipe = load_recipe("cca-hglmm", changes=["sentence_encoder={kind: open_clip, model: somewhere}"])
    assert str(recipe.sentence_encoder) == "{kind: open_clip, model: somewhere}"
    with pytest.raises(SeesayError, match="no sentence encoder 'openclip'; did you mean 'open_clip'"):
        load_recipe("cca-hglmm", changes=["sentence_encoder={kind: openclip, model: somewhere}"])


def test_names() -> None:
    published = {"kind": "open_clip", "model": "ViT-B-32", "weights": "openai"}
    assert settings_of("open_clip:ViT-B-32/openai").dump() == published
    assert str(clip_model("open_clip:hf-hub:a/b")) == "{kind: open_clip, model: hf-hub:a/b}"
    assert not any(map(clip_model, ("weights/run", "open_clip", "timm:vgg19", "onnx@mine/run:2")))
    with pytest.raises(SeesayError, match="no setting 'tuned'; it has role, model, weights"):
        load_image_encoder({"kind": "open_clip", "model": "ViT-B-32", "tuned": "0123456789abcdef"})
    with pytest.raises(SeesayError, match="did you mean 'open_clip'"):
        Model("openclip:ViT-B-32/openai")
    with pytest.raises(SeesayError, match="also name its model"):
        Model("open_clip:")
