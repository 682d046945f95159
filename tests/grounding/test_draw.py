"""What is drawn: frames where the boxes are, labels that can be read, files that are whole."""

from __future__ import annotations

import io
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageColor, ImageDraw

from seesay.errors import ImageError, SeesayError
from seesay.grounding import (
    COLOURS,
    FORMATS,
    TEXT_COLOURS,
    GroundedBox,
    GroundedPhrase,
    Grounding,
    colour,
    draw_grounding,
    write_groundings,
)
from seesay.paths import check_file

Box = tuple[float, float, float, float]


def grounding(size: tuple[int, int], *boxes: Box, text: str = "a dog") -> Grounding:
    found = {"text": text, "start": 0, "end": len(text), "known": True}
    phrases = [GroundedPhrase(**found, boxes=[GroundedBox(box=box, score=0.5)]) for box in boxes]
    return Grounding(width=size[0], height=size[1], phrases=phrases)


def png(size: tuple[int, int], fill: str = "white") -> bytes:
    out = io.BytesIO()
    Image.new("RGB", size, fill).save(out, "PNG")
    return out.getvalue()


def shown(picture: Image.Image, of: str) -> tuple[int, int, int, int]:
    """The box around the pixels of that very colour, x2 and y2 exclusive."""
    y, x = np.nonzero((np.asarray(picture) == ImageColor.getrgb(of)).all(-1))
    return int(x.min()), int(y.min()), int(x.max()) + 1, int(y.max()) + 1


def contrast(a: str, b: str) -> float:
    """WCAG 2's contrast ratio, with its own rounded constants."""

    def luminance(name: str) -> float:
        parts = np.array(ImageColor.getrgb(name)) / 255
        linear = np.where(parts <= 0.03928, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_a_frame_lies_within_its_box_in_the_phrase_s_colour() -> None:
    boxes = ((20.0, 120.0, 180.0, 280.0), (200.0, 60.0, 380.0, 200.0))
    picture = draw_grounding(Image.new("RGB", (400, 300), "white"), grounding((400, 300), *boxes))
    pixels = np.asarray(picture)
    for i, (x1, y1, x2, y2) in enumerate(boxes):
        middle = int((y1 + y2) / 2)
        assert (pixels[middle, int(x1)] == 0).all()
        assert (pixels[middle, int(x1) + 1] == ImageColor.getrgb(colour(i))).all()
        assert (pixels[middle, int(x2) - 2] == ImageColor.getrgb(colour(i))).all()
        assert (pixels[middle, int((x1 + x2) / 2)] == 255).all()
        left, _, right, bottom = shown(picture, colour(i))
        assert (left, right, bottom) == (x1 + 1 - 1, x2 - 1, y2 - 1)  # the label starts where the box does


@pytest.mark.parametrize("size", [(40, 30), (1, 1), (300, 12), (12, 300), (4000, 3000)])
def test_any_box_and_any_text_can_be_drawn(size: tuple[int, int]) -> None:
    width, height = size
    boxes = [
        (0, 0, width, height),
        (0, 0, 1, 1),
        (width - 1, height - 1, width, height),
        (0.2, 0.3, 0.9, 0.9),
    ]
    for text in ("x", "a very long phrase " * 20, "собака 犬 🐕", "a red\nball"):
        image = Image.new("RGB", size, "grey")
        picture = draw_grounding(image, grounding(size, *boxes, text=text))
        assert picture.size == size
        assert (np.asarray(image) == 128).all()


def test_a_label_of_any_length_is_cut_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = []
    length = ImageDraw.ImageDraw.textlength
    monkeypatch.setattr(
        ImageDraw.ImageDraw, "textlength", lambda *args, **more: measured.append(1) or length(*args, **more)
    )
    found = grounding((200, 100), (0, 0, 50, 50), text="a dog " * 500)
    draw_grounding(Image.new("RGB", (200, 100)), found)
    assert 1 < len(measured) < 20


def test_labels_of_one_place_do_not_cover_each_other() -> None:
    box = (100.0, 100.0, 300.0, 250.0)
    picture = draw_grounding(Image.new("RGB", (400, 300), "white"), grounding((400, 300), *[box] * 3))
    pixels = np.asarray(picture)
    filled = [int((pixels == ImageColor.getrgb(colour(i))).all(-1).sum()) for i in range(3)]
    assert min(filled) > 300  # each label's ground; frames of one box are drawn over


def test_lines_grow_with_the_image() -> None:
    widths = []
    for side in (200, 3000):
        box = (side * 0.2, side * 0.2, side * 0.8, side * 0.8)
        picture = draw_grounding(Image.new("RGB", (side, side)), grounding((side, side), box))
        row = np.asarray(picture)[side // 2, : side // 2]
        widths.append(int((row == ImageColor.getrgb(colour(0))).all(-1).sum()))
    assert widths == [2, 19]


@pytest.mark.parametrize("ground", COLOURS)
def test_text_can_be_read_on_its_ground(ground: str) -> None:
    written = TEXT_COLOURS[ground]
    assert contrast(written, ground) == max(contrast("black", ground), contrast("white", ground))
    assert contrast(written, ground) >= 4.5


def test_colours_differ_and_come_round_again() -> None:
    assert len(set(COLOURS)) == 7
    assert colour(7) == colour(0)
    for a, b in combinations(COLOURS, 2):
        assert np.abs(np.subtract(ImageColor.getrgb(a), ImageColor.getrgb(b))).max() >= 50


@pytest.mark.parametrize("name", ["boxed.png", "boxed.JPG", "boxed.jpeg"])
def test_a_picture_is_written_in_the_format_of_its_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("old")
    found = {"run": grounding((90, 60), (10, 10, 80, 50))}
    write_groundings(png((90, 60)), "photo", found, tmp_path / name)
    with Image.open(tmp_path / name) as written:
        assert (written.format, written.size) == ("PNG" if name.endswith("png") else "JPEG", (90, 60))
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(SeesayError, match=r"boxed\.gif.*\.png"):
        check_file(tmp_path / "boxed.gif", FORMATS)
    with pytest.raises(SeesayError, match="nowhere: no such folder"):
        check_file(tmp_path / "nowhere" / "boxed.png", FORMATS)
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(SeesayError, match="a folder; choose the name of a file"):
        write_groundings(png((9, 9)), "photo", {"run": grounding((9, 9))}, tmp_path / "folder.png")
    with pytest.raises(ImageError, match="photo"):
        write_groundings(b"", "photo", {"run": grounding((9, 9))}, tmp_path / "boxed.png")
    assert [file.name for file in tmp_path.iterdir()] == ["folder.png"]


def test_groundings_of_several_runs_stand_side_by_side_with_their_names(tmp_path: Path) -> None:
    """As in Figure 2 of the two-branch paper."""
    found = {"one": grounding((90, 60), (10, 10, 80, 50)), "runs/other": grounding((90, 60))}
    write_groundings(png((90, 60)), "photo", found, tmp_path / "both.png")
    alone = {"runs/other": found["runs/other"]}
    write_groundings(png((90, 60)), "photo", alone, tmp_path / "other.png")
    with Image.open(tmp_path / "both.png") as sheet, Image.open(tmp_path / "other.png") as second:
        assert sheet.size[0] > 2 * 90
        assert sheet.size[1] > 60
        pixels = np.asarray(sheet)
        assert (pixels[:60, -90:] == np.asarray(second)).all()
        below = pixels[60:].min(axis=(0, 2))
        assert below[:90].min() < 128  # a name below each
        assert below[-90:].min() < 128
