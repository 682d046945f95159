"""`run.json`: what inference needs to know of a run; `recipe.json` beside it says how it was trained."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seesay.encoders.images.tuned import encoder_of_head
from seesay.encoders.settings import EncoderSettings
from seesay.errors import SeesayError, did_you_mean
from seesay.paths import cache_dir, file_digest, home_expanded, read_small_json, replace_text, unusable
from seesay.runs.calibration import Calibration, ScoreCalibration
from seesay.seal import is_sealed, seal

if TYPE_CHECKING:
    from seesay.recipes.schema import Recipe, RegionSettings

RUN, RECIPE, WEIGHTS, VOCABULARY = "run.json", "recipe.json", "weights.safetensors", "vocabulary.json"
_INCLUDED = Path(str(files("seesay"))) / "weights"
GRAPHS = ("images", "sentences", "query_images", "query_sentences", "pairs")  # that a run may have
_FORMAT = 1
_MOST_NUMBERS = 1 << 22  # features of an image; the matcher is built for them before its weights are read


@dataclass(frozen=True, slots=True)
class Graph:
    """One side of a matcher as an ONNX graph beside the weights."""

    digest: str  # SHA-256 of its file
    weights: tuple[str, ...]  # names of its tensors in `weights.safetensors`


@dataclass(frozen=True, slots=True)
class RunConfig:
    """The metadata of a run, available without loading its matcher."""

    name: str  # of the recipe, or of a CLIP model
    matcher: Mapping[str, Any]  # the settings that PyTorch builds it from, `kind` among them, unchecked
    encoders: tuple[EncoderSettings, ...]  # of images; of a grounding run, that of regions
    arrays: tuple[str, ...]  # the names of the image encoders' arrays that are concatenated
    sentence_encoder: EncoderSettings | None
    regions: Mapping[str, Any] | None  # unchecked settings of a grounding run; None for whole images
    image_dims: tuple[int, ...]  # widths of the concatenated arrays of image features
    sentence_dim: int  # width of the sentence encoder's vectors; 0 without one
    embeds: bool  # both sides, so that it can be indexed; a pair matcher scores pairs
    asymmetric: bool  # queries and gallery items are embedded differently
    predicts_concepts: bool = False  # classifies images by concepts instead of matching them with sentences
    instances: int | None = None  # in an image's features; None for a single vector
    max_words: int | None = None  # that are read of a sentence; None for all
    dim: int | None = None  # length of an embedding, known after export
    logit_scale: float = 1.0  # the factor of the inner product in a score; others are of CLIP models
    logit_bias: float = 0.0  # added to it; others are of CLIP models
    calibration: Calibration | ScoreCalibration | None = None  # of probabilities
    weights: str | None = None  # SHA-256 of the weights that the graphs belong to; None without graphs
    graphs: Mapping[str, Graph] = field(default_factory=dict)  # by the names of their files without `.onnx`

    @property
    def kind(self) -> str:
        """The registered name of the matcher."""
        return str(self.matcher["kind"])

    @property
    def region_settings(self) -> RegionSettings | None:
        """The region settings of a grounding run; None for a run of whole images.

        Raises:
            SeesayError: a value is not allowed.
        """
        if self.regions is None:
            return None
        from seesay.recipes.load import validated
        from seesay.recipes.schema import RegionSettings

        return validated(RegionSettings, self.regions, f"{self.name}: {RUN}, regions")

    def save(self, folder: Path) -> None:
        """Write `run.json` into a run's folder."""
        values = {"format": _FORMAT, **asdict(self), "encoders": [each.dump() for each in self.encoders]}
        if self.sentence_encoder is not None:
            values["sentence_encoder"] = self.sentence_encoder.dump()
        if outside := self._outside(folder):
            values["seal"] = seal("run", outside)
        replace_text(folder / RUN, json.dumps(values, indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, folder: Path) -> RunConfig:
        """Read the `run.json` of a run's folder. Graphs of other weights are left out.

        Raises:
            SeesayError: it is missing, damaged, or another user's and names files outside the folder.
        """
        path = folder / RUN
        try:
            found = read_small_json(path)
            sealed = str(found.pop("seal", ""))
            config = _parsed(found)
        except Exception as failure:  # whatever values of any type lead to
            raise unusable(path, failure, f"damaged ({failure}); restore it, or train again.") from failure
        if (outside := config._outside(folder)) and not is_sealed("run", outside, sealed):
            raise SeesayError(
                f"{path}: was not made here by you, and names files outside its folder ({outside}). If you "
                f"made it elsewhere, put `index.key` of the cache there into {cache_dir()}; otherwise train "
                f"it here, or use a folder written by `seesay export --out`, which contains everything."
            )
        try:
            current = bool(config.graphs) and file_digest(folder / WEIGHTS) == config.weights
        except OSError:
            current = False
        return config if current else replace(config, graphs={}, weights=None)

    def _outside(self, folder: Path) -> str:
        """Return the encoders, also of heads, with a path outside the folder, such as a CLIP model."""
        of_heads = [encoder_of_head(encoder, folder) for encoder in self.encoders]
        read = (*self.encoders, self.sentence_encoder, *of_heads)
        return ", ".join(str(each) for each in read if each is not None and each.names_path)


def included_runs() -> list[Path]:
    """Return the folders of the included weights, by name."""
    return sorted(path.parent for path in _INCLUDED.glob(f"*/{RUN}"))


def is_included(folder: Path) -> bool:
    """Return whether a run's folder is one of the included weights."""
    return folder.parent == _INCLUDED


def run_folder(name: str) -> Path:
    """Return the folder of a run or of included weights.

    Raises:
        SeesayError: there is none.
    """
    path = home_expanded(name)
    if (path / RUN).is_file():
        return path
    included = {folder.name: folder for folder in included_runs()}
    if name in included:
        return included[name]
    from seesay.recipes.files import included_recipes

    if name in included_recipes():
        raise SeesayError(
            f"{name}: a recipe and not yet a run; train it, and name the folder of its run, such as "
            f"runs/{name}: seesay train {name} --data CORPUS"
        )
    raise SeesayError(
        f"{name}: no run there (no {RUN}), and no included weights of that name"
        f"{did_you_mean(name, included) or '.'} Included: {', '.join(included) or 'none'}."
    )


def save_recipe(recipe: Recipe, folder: Path) -> None:
    """Write `recipe.json`, the resolved recipe of a training, into a run's folder."""
    replace_text(folder / RECIPE, recipe.model_dump_json(indent=1) + "\n")


def run_recipe(folder: Path) -> Recipe:
    """Read the recipe that the run in a folder was trained by.

    Without PyTorch, the values of matcher and loss are not checked.

    Raises:
        SeesayError: `recipe.json` is missing, damaged or of another run, or a value is not allowed.
    """
    from seesay.recipes.load import validated
    from seesay.recipes.schema import Recipe

    config, path = RunConfig.load(folder), folder / RECIPE
    try:
        found = read_small_json(path)
    except FileNotFoundError as failure:
        raise SeesayError(
            f"{path}: missing; the run can be searched and measured, but how it was trained is not known."
        ) from failure
    except (OSError, ValueError) as failure:
        raise unusable(path, failure, f"damaged ({failure}); restore it, or train again.") from failure
    recipe = validated(Recipe, found, str(path))
    if (recipe.encoders, recipe.sentence_encoder) != (config.encoders, config.sentence_encoder):
        raise SeesayError(f"{path}: names other encoders than {RUN}; restore both, or train again.")
    return recipe


def _parsed(found: Any) -> RunConfig:
    """Create a configuration from parsed JSON, which may be anything; raise an exception if it is invalid."""
    if found.pop("format") != _FORMAT:
        raise ValueError("of another version of seesay")
    for key, is_allowed in _ALLOWED.items():
        if not is_allowed(found[key]):
            raise ValueError(f"{key} is {found[key]!r}")
    reader = found["sentence_encoder"]
    parsed = {
        "encoders": tuple(map(EncoderSettings.parse, found["encoders"])),
        "arrays": tuple(found["arrays"]),
        "sentence_encoder": None if reader is None else EncoderSettings.parse(reader),
        "image_dims": tuple(found["image_dims"]),
        "calibration": _calibration(found["calibration"]),
        "graphs": {
            name: Graph(graph["digest"], tuple(graph["weights"])) for name, graph in found["graphs"].items()
        },
    }
    return RunConfig(**found | parsed)


def _calibration(values: Any) -> Calibration | ScoreCalibration | None:
    """Read that of the scores of images and sentences, or of boxes; a parameter must be a finite number."""
    if values is None:
        return None
    if "of_words" in values:
        return ScoreCalibration(**{key: Calibration(**_finite(each)) for key, each in values.items()})
    return Calibration(**_finite(values))


def _finite(values: Mapping[str, Any]) -> dict[str, float]:
    if not all(_is_number(value) for value in values.values()):
        raise ValueError(f"calibration has {dict(values)}")
    return {key: float(value) for key, value in values.items()}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _are_texts(values: object) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _is_integer(value: object, least: int = 1) -> bool:
    """Whether a value is an integer from `least` on, and not `True`, which Python also takes for one."""
    return type(value) is int and value >= least


def _are_graphs(graphs: Any) -> bool:
    return all(
        name in GRAPHS  # it becomes a file name
        and _are_texts([graph["digest"], *graph["weights"]])
        and isinstance(graph["weights"], list)
        for name, graph in graphs.items()
    )


_ALLOWED: Mapping[str, Callable[[Any], bool]] = {
    "name": lambda name: isinstance(name, str),
    "matcher": lambda settings: isinstance(settings["kind"], str),
    "encoders": lambda encoders: isinstance(encoders, list) and bool(encoders),
    "arrays": lambda names: _are_texts(names) and bool(names),
    "regions": lambda settings: isinstance(settings, dict | None),
    "image_dims": lambda widths: (
        isinstance(widths, list) and all(map(_is_integer, widths)) and sum(widths) <= _MOST_NUMBERS
    ),
    "sentence_dim": lambda width: _is_integer(width, 0),
    **dict.fromkeys(("embeds", "asymmetric", "predicts_concepts"), lambda value: isinstance(value, bool)),
    **dict.fromkeys(("instances", "max_words", "dim"), lambda n: n is None or _is_integer(n)),
    **dict.fromkeys(("logit_scale", "logit_bias"), _is_number),
    "weights": lambda digest: isinstance(digest, str | None),
    "graphs": _are_graphs,
}
