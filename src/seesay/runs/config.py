"""`run.json`: what inference needs to know of a run; `recipe.json` beside it says how it was trained."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from seesay.encoders.images.tuned import encoder_of_head
from seesay.encoders.settings import EncoderSettings
from seesay.errors import SeesayError
from seesay.paths import data_dir, file_digest, read_small_json, replace_text, unusable
from seesay.runs.calibration import Calibration, ScoreCalibration
from seesay.runs.folder import GRAPHS, RECIPE, RUN, WEIGHTS
from seesay.seal import is_sealed, seal

if TYPE_CHECKING:
    from seesay.recipes.schema import Recipe, RegionSettings

_FORMAT = 1
_MOST_NUMBERS = 1 << 22  # features of an image; the matcher is built for them before its weights are compared


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
                f"made it elsewhere, put that machine's `index.key` into {data_dir()}; otherwise train "
                f"it here, or use a folder written by `seesay export --out`, which contains everything."
            )
        try:
            current = bool(config.graphs) and file_digest(folder / WEIGHTS) == config.weights
        except OSError:
            current = False
        return config if current else replace(config, graphs={}, weights=None)

    def encoders_read(self, folder: Path) -> list[EncoderSettings]:
        """Return the encoders of images, of heads in the run's folder, and of sentences."""
        of_heads = [encoder_of_head(encoder, folder) for encoder in self.encoders]
        return [each for each in (*self.encoders, self.sentence_encoder, *of_heads) if each is not None]

    def _outside(self, folder: Path) -> str:
        """Return the encoders with a path outside the folder, such as a CLIP model."""
        return ", ".join(str(each) for each in self.encoders_read(folder) if each.names_path)


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
    config: RunConfig = _value(RunConfig, found)
    wrong = {
        "matcher": not isinstance(config.matcher.get("kind"), str),
        "encoders": not config.encoders,
        "arrays": not config.arrays,
        "image_dims": min(config.image_dims, default=1) < 1 or sum(config.image_dims) > _MOST_NUMBERS,
        "sentence_dim": config.sentence_dim < 0,
        **{key: found[key] is not None and found[key] < 1 for key in ("instances", "max_words", "dim")},
        "graphs": not config.graphs.keys() <= set(GRAPHS),  # they become file names
        **dict.fromkeys(found.keys() - asdict(config).keys(), True),
    }
    for key in (key for key, is_wrong in wrong.items() if is_wrong):
        raise ValueError(f"{key} is {found[key]!r}")
    return config


def _value(kind: Any, found: Any, key: str = RUN) -> Any:
    """Return parsed JSON as a value of a type; raise an exception that names its key if it has another."""
    kinds = get_args(kind)
    if isinstance(kind, UnionType):
        for each in kinds:
            with suppress(ValueError, LookupError, SeesayError):
                return _value(each, found)
    elif kind is EncoderSettings:
        return EncoderSettings.parse(found)
    elif isinstance(kind, type) and is_dataclass(kind) and isinstance(found, dict):
        return kind(**{name: _value(each, found[name], name) for name, each in get_type_hints(kind).items()})
    elif get_origin(kind) is tuple and isinstance(found, list):
        return tuple(_value(kinds[0], each, key) for each in found)
    elif get_origin(kind) is Mapping and isinstance(found, dict):
        return {name: _value(kinds[1], each, key) for name, each in found.items()}
    elif kind is Any or type(found) is kind is not float:
        return found
    elif kind is float and type(found) in (int, float) and math.isfinite(found):
        return float(found)
    raise ValueError(f"{key} is {found!r}")
