"""`run.json`: the metadata of a run, which is read before anything else is loaded."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seesay.encoders.images.tuned import encoder_of_head
from seesay.encoders.spec import EXPORTED, EncoderSpec
from seesay.errors import SeesayError
from seesay.paths import cache_dir, file_digest, read_small_json, replace_text, unusable
from seesay.runs.calibration import Calibration, ScoreCalibration
from seesay.seal import is_sealed, seal

if TYPE_CHECKING:
    from seesay.recipes.schema import Recipe

RUN, WEIGHTS, VOCABULARY = "run.json", "weights.safetensors", "vocabulary.json"
GRAPHS = ("images", "sentences", "query_images", "query_sentences", "pairs")  # that a run may have
_FORMAT = 1
_MOST_NUMBERS = 1 << 22  # features of an image; the matcher is built for them before its weights are read
_HERE = f"{EXPORTED}:./"  # prefix of the names of towers in a run's folder


@dataclass(frozen=True, slots=True)
class Graph:
    """One side of a matcher as an ONNX graph beside the weights.

    Attributes:
        digest: SHA-256 of its file.
        weights: names of its tensors in `weights.safetensors`.
        error: the largest difference between its outputs and PyTorch's at export, as a share of the largest
            output if that exceeds 1.
    """

    digest: str
    weights: tuple[str, ...]
    error: float


@dataclass(frozen=True, slots=True)
class RunConfig:
    """The metadata of a run, available without loading its matcher.

    Attributes:
        recipe: the resolved recipe as JSON, unchecked.
        image_dims: widths of the concatenated arrays of image features.
        sentence_dim: width of the sentence encoder's vectors; 0 without one.
        embeds: whether it embeds both sides and can be indexed; a pair matcher scores pairs.
        asymmetric: whether queries and gallery items are embedded differently.
        max_words: the maximum number of words that are read; None for all.
        dim: length of an embedding, known after export.
        logit_scale: the factor of the inner product in a score; 1 except for CLIP models.
        logit_bias: the bias added to it; 0 except for CLIP models.
        calibration: the fitted calibration of probabilities, or None.
        weights: SHA-256 of the weights that the graphs belong to; None without graphs.
        graphs: the exported sides of the matcher, by the names of their files without `.onnx`.
    """

    recipe: Mapping[str, Any]
    image_dims: tuple[int, ...]
    sentence_dim: int
    embeds: bool
    asymmetric: bool
    max_words: int | None = None
    dim: int | None = None
    logit_scale: float = 1.0
    logit_bias: float = 0.0
    calibration: Calibration | ScoreCalibration | None = None
    weights: str | None = None
    graphs: Mapping[str, Graph] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The recipe's name."""
        return str(self.recipe["name"])

    @property
    def kind(self) -> str:
        """The registered name of the matcher."""
        return str(self.recipe["matcher"]["kind"])

    @property
    def encoders(self) -> tuple[EncoderSpec, ...]:
        """The image encoders."""
        return tuple(map(EncoderSpec.parse, self.recipe["encoders"]))

    @property
    def arrays(self) -> tuple[str, ...]:
        """The names of the image encoders' arrays that are concatenated."""
        return tuple(self.recipe["arrays"])

    @property
    def sentence_encoder(self) -> EncoderSpec | None:
        """The sentence encoder, if there is one."""
        name: str | None = self.recipe["sentence_encoder"]
        return None if name is None else EncoderSpec.parse(name)

    @property
    def regions(self) -> Mapping[str, Any] | None:
        """The region settings of a grounding run; None for a run of whole images."""
        regions: Mapping[str, Any] | None = self.recipe["regions"]
        return regions

    def save(self, folder: Path) -> None:
        """Write `run.json` into a run's folder."""
        values = {"format": _FORMAT, **asdict(self)}
        if outside := _outside(self.recipe, folder):
            values["seal"] = seal("run", outside)
        replace_text(folder / RUN, json.dumps(values, indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, folder: Path) -> RunConfig:
        """Read the `run.json` of a run's folder. Graphs of other weights are left out.

        Raises:
            SeesayError: the file cannot be read, is damaged, or is another user's and names files outside the
                folder.
        """
        path = folder / RUN
        try:
            found = read_small_json(path)
            sealed = str(found.pop("seal", ""))
            config = _parsed(found)
        except (OSError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError) as failure:
            raise unusable(path, failure, f"damaged ({failure}); restore it, or train again.") from failure
        if (outside := _outside(config.recipe, folder)) and not is_sealed("run", outside, sealed):
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

    def checked_recipe(self, folder: Path) -> Recipe:
        """Return the validated recipe. Without PyTorch, the values of matcher and loss are not checked.

        Args:
            folder: of the run, for the message.

        Raises:
            SeesayError: a value is not allowed.
        """
        from seesay.recipes.load import validated
        from seesay.recipes.schema import Recipe

        return validated(Recipe, self.recipe, str(folder / RUN))


def run_recipe(folder: Path) -> Recipe:
    """Read the recipe of the run in a folder.

    Raises:
        SeesayError: `run.json` is missing or damaged, or a value is not allowed.
    """
    return RunConfig.load(folder).checked_recipe(folder)


def _parsed(found: Any) -> RunConfig:
    """Create a configuration from parsed JSON; raise ValueError, TypeError or LookupError if it is invalid.

    The run may be untrusted, so file names are checked before use.
    """
    if found.pop("format") != _FORMAT:
        raise ValueError("of another version of seesay")
    calibration = found.pop("calibration")
    if calibration is not None:  # of the scores of images and sentences, or of boxes
        calibration = (ScoreCalibration if "of_words" in calibration else Calibration).from_dict(calibration)
    graphs = {name: _parsed_graph(name, graph) for name, graph in found.pop("graphs").items()}
    if not isinstance(found["image_dims"], list):
        raise ValueError(f"image_dims is {found['image_dims']!r}")
    config = RunConfig(
        **found | {"image_dims": tuple(found["image_dims"])},
        calibration=calibration,
        graphs=graphs,
    )
    _check_recipe(config.recipe)
    allowed = {
        "image_dims": all(map(_is_integer, config.image_dims)) and sum(config.image_dims) <= _MOST_NUMBERS,
        "sentence_dim": _is_integer(config.sentence_dim, 0),
        "embeds": isinstance(config.embeds, bool),
        "asymmetric": isinstance(config.asymmetric, bool),
        "max_words": config.max_words is None or _is_integer(config.max_words),
        "dim": config.dim is None or _is_integer(config.dim),
        "logit_scale": _is_finite(config.logit_scale),
        "logit_bias": _is_finite(config.logit_bias),
        "weights": isinstance(config.weights, str | None),
    }
    for key, is_allowed in allowed.items():
        if not is_allowed:
            raise ValueError(f"{key} is {getattr(config, key)!r}")
    return config


def _parsed_graph(name: str, graph: Any) -> Graph:
    """Create a graph from parsed JSON; its name becomes a file name, so only known names are allowed."""
    if name not in GRAPHS:
        raise ValueError(f"a graph is named {name!r}")
    made = Graph(graph["digest"], tuple(graph["weights"]), graph["error"])
    if not (_are_texts([made.digest]) and _are_texts(graph["weights"]) and _is_finite(made.error)):
        raise ValueError(f"the description of graph {name!r} is invalid")
    return made


def _check_recipe(recipe: Mapping[str, Any]) -> None:
    """Check the keys of a recipe that are read first; raise ValueError, TypeError or LookupError."""
    for key in ("encoders", "arrays", "changes"):
        if not _are_texts(recipe[key]) or (key != "changes" and not recipe[key]):
            raise ValueError(f"{key} is {recipe[key]!r}")
    reader = recipe["sentence_encoder"]
    names = [recipe["name"], recipe["corpus"], recipe["matcher"]["kind"], "" if reader is None else reader]
    if not _are_texts(names):
        raise ValueError("a name in the recipe is not a text")
    if not isinstance(recipe["regions"], Mapping | None):
        raise ValueError(f"regions is {recipe['regions']!r}")
    for name in (*recipe["encoders"], reader or ""):
        if name.startswith(_HERE) and ".." in Path(name.removeprefix(_HERE)).parts:
            raise ValueError(f"{name!r} lies outside its folder")


def _outside(recipe: Mapping[str, Any], folder: Path) -> str:
    """Return the encoders, also of heads, with a path outside the folder, such as `onnx:/models/clip`."""
    names = (*recipe["encoders"], recipe["sentence_encoder"] or "")
    read = [EncoderSpec.parse(name) for name in names if not name.startswith(_HERE)]
    of_heads = [encoder_of_head(EncoderSpec.parse(name), folder) for name in recipe["encoders"]]
    return ", ".join(str(spec) for spec in (*read, *of_heads) if spec is not None and spec.names_path)


def _are_texts(values: object) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _is_integer(value: object, least: int = 1) -> bool:
    """Whether a value is an integer from `least` on; to Python, `True` is one too."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
