"""Searches for names of things: is the first photograph right, and are absent things reported?

    python -m benchmarks.answers --photos DIR [--data CORPUS]

DIR holds `labels.json`, {"images": [{"image": path, "objects": [names], "boxes": [{"name", "xywh"}]}]}, which
names all things of some kinds in each image. Each kind is a query with an answer. The names in `ABSENT` have
none: the photographs must not show them. "Reported without" is about searching each kind among the
photographs that do not show it.

The second table shows what other thresholds of "sure" would mean for the same searches.

The third table has the names as people type them: in the plural, or with one slip, with and without
correction. The slips are drawn: two letters swapped, one doubled, one dropped, or a neighbouring key.

The fourth table has each photograph as the query. Photographs that also show its largest thing are right;
among those that share nothing with it, nothing fits. Then the query is the photograph and the name of a thing
that it does not show; photographs with both are right.

The fifth table searches 400 captioned images of val for common words. Images whose sentences have the word
are right, and in the columns "of all kinds" also those that name it differently, such as "puppy" for dog.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from lemminflect import getInflection  # type: ignore[import-untyped]
from numpy.typing import NDArray

from benchmarks._harness import arguments, report
from seesay.data.readers import read_corpus
from seesay.metrics import auc, average_precision
from seesay.search import Index
from seesay.search.certainty import FITS, SURE
from seesay.text.concepts import nouns
from seesay.text.tokens import replace_words

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


COMMON = {
    "dog": "puppy dachshund terrier retriever labrador poodle collie greyhound bulldog husky beagle spaniel",
    "man": "guy gentleman male",
    "woman": "lady female",
    "boy": "",
    "girl": "",
    "child": "kid boy girl toddler baby infant",
    "water": "ocean sea lake river pool wave pond stream surf waterfall puddle fountain",
    "snow": "",
    "beach": "shore seashore",
    "ball": "football basketball baseball",
    "bicycle": "bike",
}
"""Words that many photographs match, with other words for them or for kinds of them."""

_OF_VAL = 400  # images
_THRESHOLDS = (FITS, 0.25, 0.3, 0.4, SURE)


def main() -> int:
    parser = arguments(__doc__ or "", "captioned images, whose val split is asked for common words")
    parser.add_argument("--photos", type=Path, required=True, help="a folder of photographs with labels.json")
    options = parser.parse_args()
    labels = json.loads((options.photos / "labels.json").read_text(encoding="utf-8"))["images"]
    row, thresholds = measured(options.photos, labels)
    report("answers", [row], options)
    report("answers-sure", thresholds, options)
    report("answers-typed", measured_typed(options.photos, labels), options)
    report("answers-by-image", measured_by_image(options.photos, labels), options)
    report("answers-common", measured_common(options.data), options)
    return 0


def measured(photos: Path, labels: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Index the photographs and search for every name; return a row in percent, and those of thresholds."""
    objects = {each["image"]: set(each["objects"]) for each in labels}
    names = sorted(set().union(*objects.values()))
    absent = [" ".join(name.split()) for name in ABSENT.split(";")]
    precisions, right, present, without, shown = [], [], [], [], []
    with TemporaryDirectory() as folder, Index.create(Path(folder) / "index") as index:
        index.update_images(photos)
        for name in names:
            answer = index.search(f'"{name}"', len(objects))
            fitting = np.array([name in objects.get(str(hit.path), ()) for hit in answer])
            precisions.append(average_precision([[hit.score] for hit in answer], fitting[:, None])[0])
            right.append(bool(fitting[0]))
            present.append(answer[0].probability or 0.0)
            others = [hit.fits for hit, fits in zip(answer, fitting, strict=True) if not fits]
            without.append(not any(others))
            likely = np.array([hit.fits for hit in answer])
            shown.append(((likely & fitting).sum(), likely.sum(), fitting.sum()))
        answers = [index.search(f'"{name}"', 1) for name in absent]
        reported = [answer.certainty == "nothing" for answer in answers]
        unsure = [answer.certainty != "sure" for answer in answers]
        found = [
            index.search(f'"{name}"', 1).certainty for name, fits in zip(names, right, strict=True) if fits
        ]
        lost = [index.search(f'"{name}"', 1).certainty == "nothing" for name in names]
    missing = [answer[0].probability or 0.0 for answer in answers]
    chances, outcomes = np.array(present + missing), np.array([*right, *[False] * len(absent)])
    row = {
        "system": "seesay-small",
        "names": len(names),
        "first right": 100 * float(np.mean(right)),
        "mAP": 100 * float(np.mean(precisions)),
        "absent": len(absent),
        **_told_apart(present, missing, _calibration_error(chances, outcomes)),
        "reported": 100 * float(np.mean(reported)),
        "reported without": 100 * float(np.mean(without)),
        "false alarms": 100 * float(np.mean(lost)),
        "absent not sure": 100 * float(np.mean(unsure)),
        "right but perhaps": 100 * found.count("perhaps") / len(found),
        "right but nothing": 100 * found.count("nothing") / len(found),
        "precision": 100 * float(np.mean([hits / likely for hits, likely, _ in shown if likely])),
        "recall": 100 * float(np.mean([hits / fitting for hits, _, fitting in shown])),
    }
    return row, _thresholds(chances, outcomes, len(present))


def _thresholds(
    chances: NDArray[np.float64], outcomes: NDArray[np.bool_], present: int
) -> list[dict[str, Any]]:
    """What thresholds of "sure" mean for the best answers, the first of which are to `present` things."""
    rows = []
    for threshold in _THRESHOLDS:
        sure = chances >= threshold
        of_present = outcomes[:present][sure[:present]]
        rows.append(
            {
                "sure from": threshold,
                "absent not sure": 100 * float(np.mean(~sure[present:])),
                "right but not sure": 100 * float(np.mean(~sure[outcomes])),
                "right of the sure": 100 * float(np.mean(outcomes[sure])),
                "right of the sure, of what is there": 100 * float(np.mean(of_present)),
            }
        )
    return rows


def _told_apart(present: Sequence[float], missing: Sequence[float], error: float) -> dict[str, float]:
    """How well queries with and without an answer are separated by their probabilities, in percent."""
    area = auc(np.array([*present, *missing]), [True] * len(present) + [False] * len(missing))
    threshold = sorted(present)[len(present) // 20]
    recognised = float(np.mean(np.array(missing) < threshold))
    return {"AUC": 100 * (area or 0.0), "ECE": 100 * error, "recognised": 100 * recognised}


def measured_by_image(photos: Path, labels: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Search for every photograph, and for each with a name; return a row of figures for each kind."""
    objects = {each["image"]: set(each["objects"]) for each in labels}
    largest = {each["image"]: _largest(each["boxes"]) for each in labels}
    alone, with_name = list[tuple[float, float, bool]](), list[tuple[float, float, bool]]()
    with TemporaryDirectory() as folder, Index.create(Path(folder) / "index") as index:
        index.update_images(photos)
        ids = {item.path: item.id for item in index.store.photos().values()}
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


def measured_common(data: Path) -> list[dict[str, Any]]:
    """Search for common words; return a row of figures for each, and one for all."""
    corpus = read_corpus(data).split("val")
    named: list[frozenset[str]] = [frozenset()] * _OF_VAL
    for sentence in corpus.sentences:
        if sentence.image < _OF_VAL:
            named[sentence.image] |= nouns(sentence.text.lower())
    found, kinds, own = ({word: np.zeros(_OF_VAL, bool) for word in COMMON} for _ in range(3))
    with TemporaryDirectory() as folder, Index.create(Path(folder) / "index") as index:
        photos = Path(folder) / "photos"
        photos.mkdir()
        for number, image in enumerate(corpus.images[:_OF_VAL]):
            assert image.source is not None
            (photos / f"{number}.jpg").write_bytes(image.source.read())
        index.update_images(photos)
        for word, others in COMMON.items():
            for hit in index.search(f'"{word}"', _OF_VAL):
                number = int(Path(str(hit.path)).stem)
                found[word][number] = hit.fits
                own[word][number] = word in named[number]
                kinds[word][number] = bool({word, *others.split()} & named[number])
    for each in (found, own, kinds):
        each["all"] = np.concatenate(list(each.values()))
    return [
        {"word": word, "above the line": int(found[word].sum())}
        | _above_the_line(found[word], own[word], "")
        | _above_the_line(found[word], kinds[word], " of all kinds")
        for word in found
    ]


def _above_the_line(above: NDArray[np.bool_], right: NDArray[np.bool_], of: str) -> dict[str, Any]:
    both = float((above & right).sum())
    return {
        f"right{of}": int(right.sum()),
        f"recall{of}": 100 * both / int(right.sum()),
        f"precision{of}": 100 * both / max(int(above.sum()), 1),
    }


def measured_typed(photos: Path, labels: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Search for every name as spelt and in other ways; return a row of figures in percent for each way."""
    names = sorted({name for each in labels for name in each["objects"]})
    random = Random(0)
    ways = {"as spelt": names, "in the plural": [_plural(name) for name in names]}
    ways |= {
        slip: [_mistyped(name, slip, random) for name in names for _ in range(_TYPED)] for slip in _SLIPS
    }
    with TemporaryDirectory() as folder, Index.create(Path(folder) / "index") as index:
        index.update_images(photos)
        return [_typed(index, labels, way, names, typed) for way, typed in ways.items()]


def _typed(
    index: Index, labels: Sequence[dict[str, Any]], way: str, names: Sequence[str], typed: Sequence[str]
) -> dict[str, Any]:
    objects = {each["image"]: set(each["objects"]) for each in labels}
    right, uncorrected, outcomes = [], [], Counter[str]()
    for i, query in enumerate(typed):
        name = names[i * len(names) // len(typed)]
        answer = index.search(query, 1)
        meant = replace_words(query, answer.corrected_words)
        outcomes["not" if not answer.corrected_words else "rightly" if meant == name else "wrongly"] += 1
        right.append(name in objects[str(answer[0].path)])
        uncorrected.append(name in objects[str(index.search(f'"{query}"', 1)[0].path)])
    shares = {f"corrected {how}": 100 * outcomes[how] / len(typed) for how in ("rightly", "wrongly")}
    return {
        "typed": way,
        "queries": len(typed),
        **shares,
        "first right": 100 * float(np.mean(right)),
        "without correction": 100 * float(np.mean(uncorrected)),
    }


def _plural(name: str) -> str:
    *before, last = name.split()
    return " ".join([*before, *getInflection(last, "NNS")[:1]])


_SLIPS = ("swapped", "doubled", "dropped", "beside")
_TYPED = 5  # times that each name is typed with a slip
_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")  # each row half a key to the right of the one above


def _mistyped(name: str, slip: str, random: Random) -> str:
    """Type a name with one slip, in a place where it makes a difference."""
    places = [i for i, letter in enumerate(name) if letter.isalpha()]
    if slip == "swapped":
        places = [i for i in places[:-1] if name[i + 1].isalpha() and name[i] != name[i + 1]]
    i = random.choice(places)
    letter = name[i]
    if slip == "swapped":
        return name[:i] + name[i + 1] + letter + name[i + 2 :]
    typed = {"doubled": 2 * letter, "dropped": "", "beside": random.choice(_beside(letter))}[slip]
    return name[:i] + typed + name[i + 1 :]


def _beside(letter: str) -> list[str]:
    """Return the letters whose keys touch that of a letter."""
    at = {key: (x + y / 2, y) for y, keys in enumerate(_KEYS) for x, key in enumerate(keys)}
    x, y = at[letter]
    return [key for key, (u, v) in at.items() if key != letter and abs(u - x) <= 1 and abs(v - y) <= 1]


def _asked(index: Index, query: str, right: set[str], related: set[str]) -> tuple[float, float, bool]:
    """The best probability, the best among unrelated photographs, and whether the first result is right."""
    answer = index.search(query, index.count("image"))
    unrelated = (hit.probability or 0.0 for hit in answer if hit.path not in related)
    return answer[0].probability or 0.0, max(unrelated, default=0.0), answer[0].path in right


def _largest(boxes: Sequence[dict[str, Any]]) -> str:
    areas = Counter[str]()
    for box in boxes:
        areas[box["name"]] += box["xywh"][2] * box["xywh"][3]
    return max(areas, key=areas.__getitem__, default="")


def _calibration_error(chances: NDArray[np.float64], outcomes: NDArray[np.bool_]) -> float:
    """Return the expected calibration error in ten bins (Guo et al., ICML 2017)."""
    excess = np.bincount(np.minimum((10 * chances).astype(int), 9), chances - outcomes, 10)
    return float(np.abs(excess).sum() / len(chances))


def _figures(rows: Sequence[tuple[float, float, bool]]) -> dict[str, float]:
    present, missing = [row[0] for row in rows], [row[1] for row in rows]
    outcomes = np.array([*(row[2] for row in rows), *[False] * len(rows)])
    return {
        "queries": len(rows),
        "first right": 100 * float(outcomes[: len(rows)].mean()),
        **_told_apart(present, missing, _calibration_error(np.array([*present, *missing]), outcomes)),
        "reported": 100 * float(np.mean(np.array(missing) < FITS)),
        "false alarms": 100 * float(np.mean(np.array(present) < FITS)),
    }


if __name__ == "__main__":
    sys.exit(main())
