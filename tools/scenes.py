"""A synthetic corpus for tests and trials: small scenes of coloured shapes, with sentences and phrases.

A scene has two or three objects. Its sentences name their sizes, colours, shapes and relative places, so a
matcher that learns anything at all ranks them well above chance.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw

from seesay.paths import replace_text

COLOURS = {"red": (208, 40, 40), "green": (40, 152, 56), "blue": (40, 80, 208)}
COLOURS |= {"yellow": (240, 208, 32), "purple": (136, 56, 168), "orange": (240, 128, 24)}
COLOURS |= {"black": (24, 24, 24), "pink": (240, 136, 184)}
GROUNDS = {"white": (248, 248, 248), "grey": (168, 168, 168), "brown": (136, 96, 64), "cyan": (136, 216, 224)}
SHAPES = ("circle", "square", "triangle", "star", "bar", "ring")
SIZES = {"small": 13, "large": 24}
WIDTH, HEIGHT = 160, 128
SPLITS = {8: "val", 9: "test"}  # of ten scenes; the others are train
_COLUMNS = ("image", "split", "phrase", "chain", "x1", "y1", "x2", "y2")


@dataclass(frozen=True, slots=True)
class SceneObject:
    """One object of a scene; `x`, `y` is its centre in pixels."""

    size: str
    colour: str
    shape: str
    x: int
    y: int

    @property
    def phrase(self) -> str:
        """Its name, such as `small red circle`."""
        return f"{self.size} {self.colour} {self.shape}"

    @property
    def box(self) -> tuple[int, int, int, int]:
        """The box of its pixels, x1 y1 x2 y2, with x2 and y2 exclusive."""
        across = SIZES[self.size]
        down = across // 3 if self.shape == "bar" else across
        return self.x - across, self.y - down, self.x + across + 1, self.y + down + 1


def write_scenes(folder: str | Path, images: int, seed: int, captions: int = 5) -> None:
    """Draw scenes into `images/`, with their sentences in `dataset_scenes.json` and phrases in `phrases.tsv`.

    The JSON has Karpathy's format; of ten scenes eight are train, one val, one test. The same arguments give
    the same files. The JSON is written last, so a folder that has it is complete.
    """
    folder = Path(folder)
    (folder / "images").mkdir(parents=True, exist_ok=True)
    records = []
    rows = ["\t".join(_COLUMNS)]
    for index in range(images):
        rng = random.Random(f"{seed}:{index}")  # one for each scene: more scenes do not change earlier ones
        ground = rng.choice(sorted(GROUNDS))
        objects = _place(rng)
        filename, split = f"scene_{index:05d}.jpg", SPLITS.get(index % 10, "train")
        draw_scene(objects, ground).save(folder / "images" / filename, quality=90)
        raws = [_sentence(rng, objects, ground, number) for number in range(captions)]
        rows += [
            "\t".join(map(str, (filename, split, phrase, chain, *item.box)))
            for chain, item in enumerate(objects)
            for phrase in (_a(item.phrase), _a(f"{item.colour} {item.shape}"))
        ]
        sentences = [
            {"raw": raw, "tokens": raw.split(), "imgid": index, "sentid": sentid}
            for sentid, raw in enumerate(raws, start=index * captions)
        ]
        record = {"filename": filename, "imgid": index, "split": split}
        records.append(record | {"sentids": [s["sentid"] for s in sentences], "sentences": sentences})
    replace_text(folder / "phrases.tsv", "\n".join(rows) + "\n")
    replace_text(folder / "dataset_scenes.json", json.dumps({"dataset": "scenes", "images": records}))


def draw_scene(objects: list[SceneObject], ground: str) -> Image.Image:
    """Draw a scene as an RGB image of WIDTH × HEIGHT pixels."""
    image = Image.new("RGB", (WIDTH, HEIGHT), GROUNDS[ground])
    for item in objects:
        _draw(ImageDraw.Draw(image), item)
    return image


def _place(rng: random.Random) -> list[SceneObject]:
    """Place two or three objects of different colours in different cells of a 3 × 2 grid."""
    cells = rng.sample([(column, row) for column in range(3) for row in range(2)], rng.choice((2, 3)))
    colours = rng.sample(sorted(COLOURS), len(cells))
    objects = []
    for (column, row), colour in zip(cells, colours, strict=True):
        size, shape = rng.choice(sorted(SIZES)), rng.choice(SHAPES)
        x, y = 27 + 53 * column + rng.randint(-2, 2), 32 + 64 * row + rng.randint(-6, 6)
        objects.append(SceneObject(size, colour, shape, x, y))
    return objects


def _draw(draw: ImageDraw.ImageDraw, item: SceneObject) -> None:
    r, x, y = SIZES[item.size], item.x, item.y
    fill = COLOURS[item.colour]
    box = (x - r, y - r, x + r, y + r)
    if item.shape == "circle":
        draw.ellipse(box, fill=fill)
    elif item.shape == "square":
        draw.rectangle(box, fill=fill)
    elif item.shape == "triangle":
        draw.polygon([(x, y - r), (x - r, y + r), (x + r, y + r)], fill=fill)
    elif item.shape == "star":
        points = [(0, -r), (r // 3, -(r // 3)), (r, 0), (r // 3, r // 3)]
        points += [(-a, -b) for a, b in points]
        draw.polygon([(x + a, y + b) for a, b in points], fill=fill)
    elif item.shape == "bar":
        draw.rectangle((x - r, y - r // 3, x + r, y + r // 3), fill=fill)
    else:
        draw.ellipse(box, outline=fill, width=max(r // 3, 3))


def _relation(a: SceneObject, b: SceneObject) -> str:
    if abs(a.x - b.x) > abs(a.y - b.y):
        return "to the left of" if a.x < b.x else "to the right of"
    return "above" if a.y < b.y else "below"


def _sentence(rng: random.Random, objects: list[SceneObject], ground: str, number: int) -> str:
    """Describe the scene in one of five ways, with its objects in random order."""
    a, b, *_ = items = rng.sample(objects, len(objects))
    match number % 5:
        case 0:
            return f"{_a(a.phrase)} is {_relation(a, b)} {_a(b.phrase)}"
        case 1:
            return " and ".join(_a(item.phrase) for item in items) + f" on a {ground} background"
        case 2:
            return f"there is {_a(f'{a.colour} {a.shape}')} {_relation(a, b)} {_a(f'{b.colour} {b.shape}')}"
        case 3:
            named = ", ".join(_a(f"{item.colour} {item.shape}") for item in items)
            return f"{('two', 'three')[len(items) - 2]} shapes on {ground} : {named}"
        case _:
            return f"on the {ground} ground the {a.shape} is {a.colour} and the {b.shape} is {b.colour}"


def _a(phrase: str) -> str:
    return f"{'an' if phrase[0] in 'aeiou' else 'a'} {phrase}"
