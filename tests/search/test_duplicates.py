"""Stacks of images: copies and bursts lie in one, and what merely looks alike does not."""

from __future__ import annotations

import io
import shutil
from itertools import combinations
from pathlib import Path
from random import Random

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageEnhance, ImageFont

from seesay.search import Index
from seesay.search.duplicates import stacks
from tests.search.colours import Colours, gallery, picture
from tools.scenes import write_scenes

WORDS = ("dear", "order", "amount", "invoice", "days", "house", "milk", "bread", "train", "seat", "gate")


def document(seed: int, changed: int | None = None, ink: str = "black", paper: str = "white") -> Image.Image:
    """A page of 24 lines of words; one line may be another."""
    draw = Random(seed)
    page = Image.new("RGB", (1240, 1754), paper)
    pen, font = ImageDraw.Draw(page), ImageFont.load_default(34)
    for line in range(24):
        words = [draw.choice(WORDS) for _ in range(8)]
        if line == changed:
            words.reverse()
        pen.text((100, 150 + 60 * line), " ".join(words), font=font, fill=ink)
    return page


def encoded(image: Image.Image, side: int | None = None, quality: int = 90) -> bytes:
    """A JPEG, with a longer side of that many pixels."""
    image = image.copy()
    if side is not None:
        image.thumbnail((side, side), Image.Resampling.LANCZOS)
    image.save(out := io.BytesIO(), "JPEG", quality=quality)
    return out.getvalue()


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> list[Image.Image]:
    """Drawn scenes, enlarged."""
    folder = tmp_path_factory.mktemp("scenes")
    write_scenes(folder, images=12, seed=3)
    files = sorted(file for file in folder.rglob("*") if file.suffix in (".png", ".jpg"))
    return [Image.open(file).convert("RGB").resize((1200, 900), Image.Resampling.BICUBIC) for file in files]


def stacks_of(pictures: list[bytes], seconds: dict[int, float] | None = None) -> list[list[int]]:
    """The stacks of pictures whose vectors are all alike."""
    vectors = np.ones((len(pictures), 8), np.float16)
    return stacks(np.arange(len(pictures)), vectors, pictures.__getitem__, seconds or {})


def test_copies_of_another_quality_size_or_brightness_lie_in_one_stack(photos: list[Image.Image]) -> None:
    pictures = []
    for photo in photos:
        brighter = ImageEnhance.Brightness(photo).enhance(1.04)
        pictures += [encoded(photo), encoded(photo, quality=50), encoded(photo, 640), encoded(photo, 320)]
        pictures.append(encoded(brighter))
    wanted = [list(range(5 * i, 5 * i + 5)) for i in range(len(photos))]
    assert [sorted(stack) for stack in stacks_of(pictures)] == wanted


COLOURS = [("black", "white"), ("#b4b4b4", "white"), ("#5a5a5a", "#1e1e1e"), ("#464646", "#1e1e1e")]


@pytest.mark.parametrize(("ink", "paper"), COLOURS, ids=["black", "pale", "dark mode", "faint"])
def test_documents_that_differ_in_a_single_line_are_kept_apart(ink: str, paper: str) -> None:
    pictures = [encoded(document(0, changed, ink, paper), 440) for changed in (None, 3, 11, 20)]
    pictures += [encoded(document(seed, None, ink, paper), 440) for seed in range(1, 5)]
    assert stacks_of(pictures) == []


@pytest.mark.parametrize(("ink", "paper"), COLOURS, ids=["black", "pale", "dark mode", "faint"])
def test_a_copied_document_is_a_copy(ink: str, paper: str) -> None:
    page = document(0, None, ink, paper)
    assert stacks_of([encoded(page), encoded(page, 800, 70)]) == [[0, 1]]


def test_pages_of_one_colour_are_copies_only_if_the_colour_is_the_same() -> None:
    pages = [picture("red"), picture("red", size=(90, 60)), picture("blue"), picture("green")]
    assert stacks_of(pages) == [[0, 1]]


def test_shots_of_a_burst_are_stacked_by_the_camera_s_clock_alone(photos: list[Image.Image]) -> None:
    shots = [photos[0].crop((i, 0, 1100 + i, 900)) for i in (0, 20, 40)]  # the camera moved
    pictures = [encoded(shot, 440) for shot in shots]
    assert stacks_of(pictures) == []
    assert stacks_of(pictures, {0: 100.0, 1: 101.0, 2: 102.0}) == [[0, 1, 2]]
    assert stacks_of(pictures, {0: 100.0, 1: 160.0, 2: 220.0}) == []


def test_an_image_is_like_the_first_of_its_stack_and_not_only_like_another_one(
    photos: list[Image.Image],
) -> None:
    pictures = [encoded(photos[0].crop((i, 0, 1100 + i, 900)), 440) for i in (0, 20, 40)]
    assert stacks_of(pictures, {0: 100.0, 1: 102.5, 2: 105.0}) == [[0, 1]]


def test_images_whose_vectors_are_far_apart_are_not_compared() -> None:
    def picture(_: int) -> bytes:
        raise AssertionError("compared")

    assert stacks(np.arange(6), np.eye(6, 8, dtype=np.float16), picture, {}) == []
    assert stacks(np.empty(0, np.int64), np.empty((0, 8), np.float16), picture, {}) == []


def test_pairs_are_those_of_all_vectors_also_over_several_blocks() -> None:
    draw = np.random.default_rng(0)
    vectors = draw.standard_normal((5000, 16)).astype(np.float16)
    copies = draw.permutation(5000)[:40]
    vectors[copies[20:]] = vectors[copies[:20]]
    found = stacks(np.arange(5000), vectors, lambda id_: picture(["red", "blue"][id_ in copies]), {})
    pairs = {tuple(sorted(pair)) for pair in zip(copies[:20].tolist(), copies[20:].tolist(), strict=True)}
    assert pairs <= {pair for stack in found for pair in combinations(stack, 2)}


def test_identical_files_are_one_stack_however_many_there_are(tmp_path: Path) -> None:
    photos = gallery(tmp_path / "photos", "red.png", "blue.png")
    for i in range(300):
        (photos / f"red {i}.png").write_bytes(picture("red"))
    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(photos)
        (stack,) = index.stacks()
        assert len(stack) == 301


def test_a_thumbnail_that_cannot_be_read_hides_nothing(tmp_path: Path) -> None:
    photos = gallery(tmp_path / "photos", "red.png")
    (photos / "red again.png").write_bytes(picture("red", size=(90, 60)))
    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(photos)
        assert len(index.stacks()) == 1
        (photos / "red again.png").unlink()
        assert len(index.stacks()) == 1  # by its stored thumbnail
        for file in (Path(index.place) / "thumbnails").rglob("*.jpg"):
            file.write_bytes(file.read_bytes()[:100])
        assert index.stacks() == []
        shutil.rmtree(Path(index.place) / "thumbnails")
        assert index.stacks() == []
