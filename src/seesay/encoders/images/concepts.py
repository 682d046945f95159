"""Concept scores as features of an image: the multi-label CNN of SCO as an encoder (section 3.2).

`concepts:RUN` is the run's head on the features that it was trained on, computed from those in the feature
store; `concepts-regions:RUN` shows the network 50 regions and takes each concept's highest score, and is
stored itself. Without `:RUN` the run is `runs/concepts`. A run that is trained on either keeps the head
(`keep_concepts`), and its recipe names the encoder by it: `concepts@HASH:RUN`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file

from seesay.encoders.images import concept_regions
from seesay.encoders.images.concept_regions import REGIONS, SIDE
from seesay.encoders.images.crops import Pixels, squares_of
from seesay.encoders.images.efficientnet import LITE
from seesay.encoders.images.encoder import CONCEPTS, Arrays, Encoder, lite_encoder, load_encoder
from seesay.encoders.images.tuned import READS, adopt_tuned, copy_tuned, metadata, own_file, save_own
from seesay.encoders.names import TunedName, kind_of
from seesay.encoders.regions import proposals
from seesay.errors import SeesayError
from seesay.matchers.base import MatcherInputs, MatcherSettings
from seesay.matchers.concepts import ConceptClassifier
from seesay.recipes.load import dump_recipe, parse_recipe, read_recipe
from seesay.recipes.schema import Recipe

DEFAULT_RUN = Path("runs/concepts")
_RECIPE, _WEIGHTS = "recipe.yaml", "weights.safetensors"
_AT_ONCE = 32  # crops that the network sees at a time


class ConceptEncoder(Encoder):
    """Concept scores from the features of another encoder.

    `pooled` are the scores, sigmoids in 0..1 in the order of the run's concepts, `logits` what they are of.
    """

    def __init__(self, base: Encoder, arrays: Sequence[str], head: ConceptClassifier, weights: str) -> None:
        def of_squares(squares: Pixels) -> Arrays:
            return self.from_source(base.encode(squares[:, None]))

        dims = _dims(head)
        super().__init__(f"concepts of {base.name}", weights, base.size, dims, of_squares, base.crop)
        self._base = base
        self._arrays = tuple(arrays)
        self._head = head

    @property
    def source(self) -> Encoder:
        """The encoder that the head was trained on."""
        return self._base

    def from_source(self, arrays: Arrays) -> Arrays:
        """Scores and logits, (n, K) each."""
        return scores_of(self._head, np.concatenate([arrays[name] for name in self._arrays], axis=1))

    def encode(self, crops: Pixels) -> Arrays:
        """As `Encoder.encode`; the head sees the features averaged over the crops, as in training."""
        return self.from_source(self._base.encode(crops))


class ConceptRegionsEncoder(Encoder):
    """Concept scores of an image as the highest of its regions': section 3.2, "multi-regional".

    One network and one head see each region by itself, resized to a square.
    """

    def __init__(
        self, one_crop: Encoder, arrays: Sequence[str], head: ConceptClassifier, weights: str
    ) -> None:
        def of_squares(squares: Pixels) -> Arrays:
            starts = range(0, len(squares), _AT_ONCE)
            parts = [one_crop.encode(squares[i : i + _AT_ONCE, None]) for i in starts]
            features = [np.concatenate([part[name] for part in parts]) for name in arrays]
            return scores_of(head, np.concatenate(features, axis=1))

        what = f"{weights} regions v{concept_regions.VERSION}={REGIONS} proposals v{proposals.VERSION}"
        name = f"concepts of regions, {one_crop.name}"
        super().__init__(name, what, one_crop.size, _dims(head), of_squares, "regions")

    def crops(self, pixels: Pixels) -> Pixels:
        """The regions as squares, (50, size, size, 3) uint8; where there are fewer, the whole image again."""
        boxes = concept_regions.concept_regions(pixels)
        squares = squares_of(pixels, boxes, self.size)
        return np.stack(squares + squares[-1:] * (REGIONS - len(squares)))

    def encode(self, crops: Pixels) -> Arrays:
        """The maxima over the regions of images given as their crops, (n, K) each."""
        n, c = crops.shape[:2]
        scores = self._network(crops.reshape(n * c, *crops.shape[2:]))
        return {name: rows.reshape(n, c, -1).max(axis=1) for name, rows in scores.items()}


@torch.inference_mode()
def scores_of(head: ConceptClassifier, features: NDArray[np.float32]) -> Arrays:
    """`pooled`, sigmoids, and `logits` of features (n, d): (n, K) each."""
    logits = head(torch.from_numpy(np.ascontiguousarray(features)))
    return {"pooled": torch.sigmoid(logits).numpy(), "logits": logits.numpy()}


def load_concept_encoder(name: str, device: str) -> Encoder:
    """The encoder `concepts:RUN` or `concepts-regions:RUN`.

    Raises:
        SeesayError: there is no such run, it predicts no concepts, or a file of it is damaged.
    """
    recipe, weights = _recipe_and_weights(name)
    base = load_encoder(recipe.encoders[0], device)
    head = _load_head(weights, recipe.matcher, sum(base.dims[each] for each in recipe.arrays))
    digest = hashlib.blake2b(digest_size=16)
    for tensor in head.state_dict().values():
        digest.update(tensor.numpy().tobytes())
    what = f"{base.fingerprint} {','.join(recipe.arrays)} {digest.hexdigest()}"
    if kind_of(name) == "concepts":
        return ConceptEncoder(base, recipe.arrays, head, what)
    network = recipe.encoders[0].partition(":")[0]
    lite = network.partition("@")[0] in LITE
    one_crop = lite_encoder(network, device, SIDE) if lite else load_encoder(network, device)
    return ConceptRegionsEncoder(one_crop, recipe.arrays, head, what)


def keep_concepts(name: str, folder: Path) -> str:
    """Write the head that an encoder of concepts is into a run's folder, so that the run needs no other.

    Returns:
        The encoder's new name; that name itself where it is another encoder, or kept already.

    Raises:
        SeesayError: see `load_concept_encoder`.
    """
    if kind_of(name) not in CONCEPTS or TunedName.of(name) is not None:
        return name
    recipe, weights = _recipe_and_weights(name)
    base = recipe.encoders[0]
    copy_tuned(base, weights.parent, folder)
    about = {_RECIPE: dump_recipe(recipe)} | ({READS: base} if TunedName.of(base) else {})
    kept = save_own(name, load_file(weights), folder, about)
    adopt_tuned(kept, folder)
    return kept


def _recipe_and_weights(name: str) -> tuple[Recipe, Path]:
    """The recipe of the run of concepts, and the file of its weights."""
    if (kept := TunedName.of(name)) is not None:
        path = own_file(kept)
        return parse_recipe(metadata(path).get(_RECIPE, ""), str(path)), path
    folder = Path(name.partition(":")[2] or DEFAULT_RUN)
    if not (folder / _WEIGHTS).is_file():
        raise SeesayError(
            f"Encoder '{name}': no trained run at {folder}; `seesay train concepts --out {folder}` makes one."
        )
    recipe = read_recipe(folder / _RECIPE)
    if not recipe.matcher.predicts_concepts:
        raise SeesayError(f"Encoder '{name}': {folder} predicts no concepts; train the recipe 'concepts'.")
    for encoder in recipe.encoders:
        adopt_tuned(encoder, folder)
    return recipe, folder / _WEIGHTS


def _load_head(path: Path, settings: MatcherSettings, image_dim: int) -> ConceptClassifier:
    try:
        weights = {key: value.float() for key, value in load_file(path).items()}
        concepts = len(next(reversed(weights.values())))
        head = settings.build(MatcherInputs((image_dim,), concepts + 1))
        assert isinstance(head, ConceptClassifier)
        head.load_state_dict(weights)
    except (OSError, SafetensorError, RuntimeError, StopIteration) as failure:
        raise SeesayError(f"{path}: no weights of a concept head ({failure}); train again.") from failure
    return head.eval()


def _dims(head: ConceptClassifier) -> dict[str, int]:
    return {"pooled": head.concepts, "logits": head.concepts}
