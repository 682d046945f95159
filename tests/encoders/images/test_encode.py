"""From bytes to features and stores: broken images set aside, nothing encoded twice, memory bounded."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from seesay.data.corpus import CorpusImage
from seesay.data.images import FileSource, content_key
from seesay.encoders import stores
from seesay.encoders.images.base import ImageEncoder, load_image_encoder
from seesay.encoders.images.encode import encode_images, fill_stores, open_stores, read_features
from seesay.encoders.stores import ArrayStore, in_threads
from seesay.errors import ImageError


def colour_encoder(
    name: str = "colours", size: int = 4, crop: str = "squash"
) -> tuple[ImageEncoder, list[int]]:
    """Mean colours as features, and a list that grows by the size of each batch."""
    batches: list[int] = []

    def network(pixels: np.ndarray) -> dict[str, np.ndarray]:
        batches.append(len(pixels))
        return {"mean": pixels.mean((1, 2)).astype(np.float32)}

    return ImageEncoder(name, "none", size, {"mean": 3}, network, crop), batches


def png(colour: tuple[int, int, int], size: tuple[int, int] = (6, 5)) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", size, colour).save(out, "PNG")
    return out.getvalue()


@pytest.fixture
def photos(tmp_path: Path) -> list[CorpusImage]:
    """Forty images of forty colours in files."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(40):
        (folder / f"{number}.png").write_bytes(png((number, 2 * number, 3 * number)))
    return [CorpusImage(f"{n}.png", "train", FileSource(folder / f"{n}.png")) for n in range(40)]


def colours_in(folder: Path, encoder: ImageEncoder, keys: list[str | None]) -> np.ndarray:
    (store,) = open_stores([encoder], folder).values()
    return read_features(encoder, store, [key for key in keys if key is not None], "mean")


def test_no_images_are_no_rows() -> None:
    encoder, batches = colour_encoder()
    found = encode_images([encoder], [], [])
    assert found[0]["mean"].shape == (0, 3)
    assert found[0]["mean"].dtype == np.float32
    assert batches == []


def test_the_first_broken_image_is_named() -> None:
    encoder, _ = colour_encoder()
    images = [b"no image" if n in (7, 11) else png((n, 0, 9)) for n in range(20)]
    with pytest.raises(ImageError, match=r"^7\.png: "):
        encode_images([encoder, encoder], images, [f"{n}.png" for n in range(20)])


def test_equal_encoders_share_what_is_computed() -> None:
    encoder, batches = colour_encoder()
    for arrays in encode_images([encoder, encoder], [png((n, 0, 9)) for n in range(20)], ["a"] * 20):
        np.testing.assert_array_equal(arrays["mean"], [[n, 0, 9] for n in range(20)])
    assert sum(batches) == 20


def test_each_encoder_sees_its_own_crops() -> None:
    small, _ = colour_encoder()
    large, batches = colour_encoder("large", 8, "ten")
    found = encode_images([small, large], [png((1, 2, 3), (9, 30))] * 2, ["a", "b"])
    assert sum(batches) == 20
    np.testing.assert_array_equal(found[0]["mean"], [[1, 2, 3]] * 2)
    np.testing.assert_array_equal(found[1]["mean"], [[1, 2, 3]] * 2)


def test_features_of_an_image_do_not_depend_on_the_other_encoders() -> None:
    out = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    Image.fromarray(noise).resize((1600, 1200), Image.Resampling.BICUBIC).save(out, "JPEG")
    lite0 = load_image_encoder("efficientnet-lite0")
    alone = encode_images([lite0], [out.getvalue()], ["a"])[0]
    beside = encode_images(
        [load_image_encoder({"kind": "efficientnet-lite0", "crops": "ten"}), lite0], [out.getvalue()], ["a"]
    )[1]
    np.testing.assert_array_equal(alone["pooled"], beside["pooled"])


def test_stores_are_filled_and_keys_keep_the_order(photos: list[CorpusImage], tmp_path: Path) -> None:
    encoder, _ = colour_encoder()
    report = fill_stores([encoder], tmp_path, photos)
    assert report.keys == [content_key(image.source.read()) for image in photos if image.source]
    assert (report.encoded, report.errors) == (40, [])
    expected = [[n, 2 * n, 3 * n] for n in range(40)]
    np.testing.assert_array_equal(colours_in(tmp_path, encoder, report.keys), expected)


def test_broken_and_missing_images_are_counted_and_listed(photos: list[CorpusImage], tmp_path: Path) -> None:
    encoder, _ = colour_encoder()
    folder = tmp_path / "photos"
    (folder / "3.png").write_bytes(b"")
    (folder / "17.png").write_bytes(png((1, 1, 1))[:40])
    (folder / "18.png").write_bytes(png((1, 1, 1))[:40])  # broken in the same way, listed by its own name
    (folder / "39.png").unlink()
    photos.append(CorpusImage("features only", "train", row=0))
    report = fill_stores([encoder], tmp_path, photos)
    assert [n for n, key in enumerate(report.keys) if key is None] == [3, 17, 18, 39, 40]
    assert report.encoded == 36
    assert all(isinstance(error, ImageError) for error in report.errors)
    said = " ".join(map(str, report.errors))
    assert len(report.errors) == 5
    assert all(name in said for name in ("3.png", "17.png", "18.png", "39.png", "features only"))
    expected = [[n, 2 * n, 3 * n] for n in range(39) if n not in (3, 17, 18)]
    np.testing.assert_array_equal(colours_in(tmp_path, encoder, report.keys), expected)


def test_an_image_that_memory_cannot_hold_now_is_listed_and_the_others_are_stored(
    photos: list[CorpusImage], tmp_path: Path
) -> None:
    encoder, _ = colour_encoder()
    prepare = encoder.prepare

    def too_large(pixels: np.ndarray) -> object:
        if pixels[0, 0, 0] == 5:
            raise MemoryError
        return prepare(pixels)

    encoder.prepare = too_large
    report = fill_stores([encoder], tmp_path, photos)
    assert report.keys.index(None) == 5
    assert report.encoded == 39
    assert [str(error) for error in report.errors] == ["5.png: not enough memory to crop it now."]


def test_equal_files_are_encoded_once(photos: list[CorpusImage], tmp_path: Path) -> None:
    encoder, batches = colour_encoder()
    repeated = [photos[n % 5] for n in range(100)]
    report = fill_stores([encoder], tmp_path, repeated)
    assert sum(batches) == report.encoded == 5
    assert report.keys == report.keys[:5] * 20
    np.testing.assert_array_equal(
        colours_in(tmp_path, encoder, report.keys), [[n % 5, 2 * (n % 5), 3 * (n % 5)] for n in range(100)]
    )


def test_what_is_there_is_not_encoded_again(photos: list[CorpusImage], tmp_path: Path) -> None:
    encoder, batches = colour_encoder()
    fill_stores([encoder], tmp_path, photos[:30])
    batches.clear()
    assert fill_stores([encoder], tmp_path, photos[20:]).encoded == 10
    assert sum(batches) == 10


def test_a_second_encoder_leaves_the_firsts_features_alone(photos: list[CorpusImage], tmp_path: Path) -> None:
    first, seen_by_first = colour_encoder()
    second, seen_by_second = colour_encoder("second")
    fill_stores([first], tmp_path, photos[:25])
    seen_by_first.clear()
    report = fill_stores([first, second], tmp_path, photos)
    assert (sum(seen_by_first), sum(seen_by_second)) == (15, 40)
    for encoder in (first, second):
        np.testing.assert_array_equal(colours_in(tmp_path, encoder, report.keys)[:, 0], range(40))


def test_an_interrupted_call_resumes(
    photos: list[CorpusImage], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "STORED_AT_ONCE", 8)
    encoder, batches = colour_encoder()
    added = ArrayStore.add

    def interrupted(self: ArrayStore, items: dict) -> None:
        if len(self) >= 16:
            raise KeyboardInterrupt
        added(self, items)

    with monkeypatch.context() as patch:
        patch.setattr(ArrayStore, "add", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fill_stores([encoder], tmp_path, photos)
    batches.clear()
    report = fill_stores([encoder], tmp_path, photos)
    assert sum(batches) == report.encoded == 24
    np.testing.assert_array_equal(colours_in(tmp_path, encoder, report.keys)[:, 0], range(40))


def test_what_was_encoded_before_a_failure_is_kept(photos: list[CorpusImage], tmp_path: Path) -> None:
    encoder, _ = colour_encoder()
    network = encoder.network

    def failing(pixels: np.ndarray) -> dict[str, np.ndarray]:
        if (pixels[:, 0, 0, 0] == 32).any():
            raise RuntimeError("out of memory")
        return network(pixels)

    encoder.network = failing
    with pytest.raises(RuntimeError, match="out of memory"):
        fill_stores([encoder], tmp_path, photos)
    (store,) = open_stores([encoder], tmp_path).values()
    assert len(store) == 32


def test_threads_keep_the_order() -> None:
    def work(item: int) -> int:
        time.sleep(0.002 * (item % 3))
        return item * item

    assert list(in_threads(work, range(50))) == [n * n for n in range(50)]
    assert list(in_threads(work, [])) == []


def test_an_exception_in_a_thread_reaches_the_reader_and_ends_the_work() -> None:
    done: list[int] = []

    def work(item: int) -> int:
        if item == 5:
            raise ValueError("five")
        done.append(item)
        return item

    got: list[int] = []
    with pytest.raises(ValueError, match="five"):
        got.extend(in_threads(work, range(10_000)))
    assert len(done) < 200


def test_threads_run_few_items_ahead_of_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores.os, "sched_getaffinity", lambda _: range(3))
    started = 0
    lock = threading.Lock()

    def items() -> Iterator[int]:
        nonlocal started
        for item in range(1000):
            with lock:
                started += 1
            yield item

    for read, _ in enumerate(in_threads(lambda item: item, items()), start=1):
        assert started - read <= 2 * 3
    assert started == 1000


def test_a_reader_that_stops_stops_the_work() -> None:
    started: list[int] = []
    results = in_threads(lambda item: started.append(item), range(10_000))
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert len(started) < 200


def test_flickr8k_features_are_those_of_the_squash(flickr8k: Path) -> None:
    files = sorted((flickr8k / "images").iterdir())[:40]
    encoder = load_image_encoder("efficientnet-lite0")
    images = [file.read_bytes() for file in files]
    found = encode_images([encoder], images, [str(n) for n in range(40)])
    for n in (0, 39):
        pixels = np.asarray(Image.open(io.BytesIO(images[n])).convert("RGB"))
        alone = encoder.encode(encoder.prepare(pixels)[None])["pooled"][0]
        cosine = alone @ found[0]["pooled"][n]
        cosine /= np.linalg.norm(alone) * np.linalg.norm(found[0]["pooled"][n])
        assert cosine > 0.999
