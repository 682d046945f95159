"""What search answers to names of things: is the first photograph right, and is what is absent reported?

    python -m benchmarks.answers --photos DIR [--detector FILE.onnx]

DIR holds `labels.json`, {"images": [{"image": path, "objects": [names], "boxes": [{"name", "xywh"}]}]}, which
names all things of some kinds in each image. Each kind is a query that is answered. Those of `ABSENT` are
not: the photographs must show none of them. "Reported without" is of the kinds among the photographs that do
not show them.

A second table has each photograph as the query. Photographs that show its largest thing, too, are right;
among those that share nothing with it, nothing fits. The query is then the photograph and the name of a thing
that it does not show, of which photographs with both are right.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks._harness import arguments, report
from seesay.metrics import auc, average_precision
from seesay.runs.calibration import FITS
from seesay.search import Index
from seesay.search.detecting import with_detector

ABSENT = """
penguin; submarine; volcano; camel; helicopter; piano; guitar; violin; kangaroo; lighthouse; castle;
octopus; whale; dolphin; shark; windmill; tractor; rocket; igloo; hot air balloon; crab; snail; spider;
jellyfish; starfish; parachute; tank; cactus; telescope; microscope; cannon; robot; astronaut; ferris
wheel; roller coaster; lion; tiger; monkey; gorilla; panda; koala; hippopotamus; rhinoceros; crocodile;
snake; turtle; frog; peacock; flamingo; parrot; owl; butterfly; ant; lobster; sushi; spaghetti;
watermelon; pineapple; strawberries; mushroom; corn; pumpkin; egg carton; waterfall; desert; cave;
glacier; rainbow; lightning; drum; trumpet; saxophone; harp; accordion; sewing machine; typewriter;
vacuum cleaner; washing machine; lawn mower; chainsaw; hammer; screwdriver; stethoscope; wheelchair;
stroller; tent; swimming pool; canoe; sailboat; cruise ship; hovercraft; golf course; bowling alley;
boxing ring; hockey player; ballet dancer; wedding dress; crown; sword; knight in armor; mermaid;
dragon; santa claus; snowman; skeleton; chess board; dice; billiard table; map; barcode; spreadsheet;
x-ray; mri scan; satellite image; solar eclipse; galaxy; coral reef; oil rig; wind turbine; dam
"""


def main() -> int:
    parser = arguments(__doc__ or "")
    parser.add_argument("--photos", type=Path, required=True, help="a folder of photographs with labels.json")
    parser.add_argument("--detector", type=Path, help="measured in a second row")
    options = parser.parse_args()
    labels = json.loads((options.photos / "labels.json").read_text(encoding="utf-8"))["images"]
    rows = [measured(options.photos, labels, None)]
    if options.detector is not None:
        rows.append(measured(options.photos, labels, options.detector))
    report("answers", rows, options)
    report("answers-by-image", measured_by_image(options.photos, labels), options)
    return 0


def measured(photos: Path, labels: Sequence[dict[str, Any]], detector: Path | None) -> dict[str, Any]:
    """Index the photographs and ask for every name; return a row of figures in percent."""
    objects = {each["image"]: set(each["objects"]) for each in labels}
    names = sorted(set().union(*objects.values()))
    absent = [" ".join(name.split()) for name in ABSENT.split(";")]
    precisions, right, present, without = [], [], [], []
    with TemporaryDirectory() as folder:
        embedder = "seesay-small" if detector is None else with_detector(Path(folder), None, detector)
        with Index.create(Path(folder) / "index", embedder) as index:
            index.update_images(photos)
            for name in names:
                answer = index.search(f'"{name}"', len(objects))
                fitting = np.array([name in objects.get(str(hit.path), ()) for hit in answer])
                precisions.append(average_precision([[hit.score] for hit in answer], fitting[:, None])[0])
                right.append(bool(fitting[0]))
                present.append(answer[0].probability or 0.0)
                others = [hit.fits for hit, fits in zip(answer, fitting, strict=True) if not fits]
                without.append(not any(others))
            answers = [index.search(f'"{name}"', 1) for name in absent]
            reported = [answer.nothing_fits for answer in answers]
            lost = [index.search(f'"{name}"', 1).nothing_fits for name in names]
    missing = [answer[0].probability or 0.0 for answer in answers]
    chances, outcomes = np.array(present + missing), np.array([*right, *[False] * len(absent)])
    return {
        "system": "seesay-small" if detector is None else f"with {detector.stem}",
        "names": len(names),
        "first right": 100 * float(np.mean(right)),
        "mAP": 100 * float(np.mean(precisions)),
        "absent": len(absent),
        **_told_apart(present, missing, calibration_error(chances, outcomes)),
        "reported": 100 * float(np.mean(reported)),
        "reported without": 100 * float(np.mean(without)),
        "false alarms": 100 * float(np.mean(lost)),
    }


def _told_apart(present: Sequence[float], missing: Sequence[float], error: float) -> dict[str, float]:
    """How well probabilities of answered queries are told from those of others, in percent."""
    area = auc(np.array([*present, *missing]), [True] * len(present) + [False] * len(missing))
    threshold = sorted(present)[len(present) // 20]
    recognised = float(np.mean(np.array(missing) < threshold))
    return {"AUC": 100 * (area or 0.0), "ECE": 100 * error, "recognised": 100 * recognised}


def measured_by_image(photos: Path, labels: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Ask for every photograph, and for each with a name; return a row of figures for each kind."""
    objects = {each["image"]: set(each["objects"]) for each in labels}
    largest = {each["image"]: _largest(each["boxes"]) for each in labels}
    alone, with_name = list[tuple[float, float, bool]](), list[tuple[float, float, bool]]()
    with TemporaryDirectory() as folder, Index.create(Path(folder) / "index") as index:
        index.update_images(photos)
        ids = {item.path: item.id for item in index.store.items().values()}
        for name, shown in objects.items():
            right = {each for each in objects if each != name and largest[name] in objects[each]}
            related = {each for each in objects if objects[each] & shown}
            if not right:
                continue
            alone.append(_asked(index, f"id:{ids[name]}", right, related))
            both = {each: objects[each] - shown for each in sorted(right) if objects[each] - shown}
            if both:
                thing = min(both[min(both)])
                having = {each for each in objects if thing in objects[each]}
                query = f'id:{ids[name]} + "{thing}"'
                with_name.append(_asked(index, query, right & having, related | having))
    return [
        {"query": query, **_figures(rows)}
        for query, rows in (("photograph", alone), ("photograph + name", with_name))
    ]


def _asked(index: Index, query: str, right: set[str], related: set[str]) -> tuple[float, float, bool]:
    """The best probability, the best among photographs that share nothing, and whether the first is right."""
    answer = index.search(query, index.count("image"))
    unrelated = (hit.probability or 0.0 for hit in answer if hit.path not in related)
    return answer[0].probability or 0.0, max(unrelated, default=0.0), answer[0].path in right


def _largest(boxes: Sequence[dict[str, Any]]) -> str:
    areas = Counter[str]()
    for box in boxes:
        areas[box["name"]] += box["xywh"][2] * box["xywh"][3]
    return max(areas, key=areas.__getitem__, default="")


def _figures(rows: Sequence[tuple[float, float, bool]]) -> dict[str, float]:
    present, missing = [row[0] for row in rows], [row[1] for row in rows]
    outcomes = np.array([*(row[2] for row in rows), *[False] * len(rows)])
    return {
        "queries": len(rows),
        "first right": 100 * float(outcomes[: len(rows)].mean()),
        **_told_apart(present, missing, calibration_error(np.array([*present, *missing]), outcomes)),
        "reported": 100 * float(np.mean(np.array(missing) < FITS)),
        "false alarms": 100 * float(np.mean(np.array(present) < FITS)),
    }


def calibration_error(chances: np.ndarray[Any, Any], outcomes: np.ndarray[Any, Any]) -> float:
    """The mean distance of probabilities (n,) from how often they are right, over ten bins."""
    bins = np.minimum((10 * chances).astype(int), 9)
    return sum(abs(float((chances - outcomes)[bins == each].sum())) for each in range(10)) / len(chances)


if __name__ == "__main__":
    sys.exit(main())
