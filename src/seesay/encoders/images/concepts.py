"""Concept scores as features of an image: the multi-label CNN of SCO as an encoder (section 3.2).

`{kind: concepts, run: RUN}` applies the concept head of a run to stored features of the encoder that it was
trained on; a head that was trained on regions takes each concept's highest score. `concepts-regions` applies
a head that was trained on whole images to 50 regions, takes the highest scores, and has a store of its own. A
run that is trained on either keeps a copy of the head, which `tuned` identifies.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from seesay.arrays import Pixels
from seesay.encoders.images.base import TEN, Arrays, ImageEncoder, load_image_encoder, squares_of
from seesay.encoders.images.efficientnet import LITE, LiteEncoder
from seesay.encoders.images.tuned import BASE, metadata, tuned_file
from seesay.encoders.proposals import SIDE, describe_regions, diverse_regions
from seesay.encoders.settings import PRECOMPUTED, EncoderSettings, register_image_encoder
from seesay.errors import SeesayError, first_line
from seesay.paths import RUN, WEIGHTS, read_small_json
from seesay.text.concepts import FILE as CONCEPTS

CONCEPT_ENCODERS = ("concepts", "concepts-regions")
REGIONS = 50  # the paper's r, the whole image among them
_CROPS_AT_ONCE = 32  # that the network sees
_IMAGES_AT_ONCE = 256  # whose regions a head scores

Layer = tuple[NDArray[np.float32], NDArray[np.float32]]  # weight (out, in) and bias (out,)


class StoredHead(NamedTuple):
    """The output layers of a multi-label CNN (linear, with ReLU between them) and their input."""

    encoder: EncoderSettings  # whose features are read
    arrays: tuple[str, ...]  # of that encoder, side by side
    layers: tuple[Layer, ...]  # weight and bias of each
    path: Path  # of the weights
    instances: int = 0  # regions that the arrays join, if any; each concept gets its highest logit

    @classmethod
    def read(cls, settings: EncoderSettings, run: Path | None = None) -> StoredHead:
        """Read the head that a run keeps in its folder `run`, or that of the run in the settings.

        Raises:
            SeesayError: there is none, it is damaged, or it reads another head (heads could form a loop).
        """
        source, tuned = settings.get("run"), settings.get("tuned")
        if not (source or tuned):
            raise SeesayError(
                f"Encoder {settings}: name the run whose concepts it predicts, "
                f"encoders=[…, {{kind: {settings.kind}, run: RUN}}]; `seesay train concepts --out RUN` makes "
                "one."
            )
        path = tuned_file(tuned, run) if tuned else Path(source) / WEIGHTS
        about = about_head(settings, run)
        try:
            arrays, instances = tuple(about["arrays"].split(",")), int(about.get("instances", "0"))
            encoder, layers = EncoderSettings.parse(json.loads(about[BASE])), _layers(path)
        except (OSError, SafetensorError, RuntimeError, ValueError, LookupError) as failure:
            raise SeesayError(
                f"{path}: not the weights of a concept head ({first_line(failure)}); train again."
            ) from failure
        if encoder.kind in CONCEPT_ENCODERS:
            raise SeesayError(
                f"{path}: the head reads '{encoder}', which is also a head; train it on an encoder."
            )
        return cls(encoder, arrays, layers, path, instances)

    def base(self, device: str) -> ImageEncoder:
        """Load the encoder whose features are read, from the run that holds the head.

        Raises:
            SeesayError: the head reads arrays of other widths.
        """
        base = load_image_encoder(self.encoder, device, self.path.parent)
        given = sum(base.dims[name] for name in self.arrays) if set(self.arrays) <= set(base.dims) else 0
        self._check_width(given)
        return base

    def _check_width(self, given: int) -> None:
        """Raise SeesayError unless the head reads that many numbers for an image."""
        width = self.layers[0][0].shape[1]  # for an image, or for each of its regions
        if given != width * (self.instances or 1):
            wanted = f"{self.instances} regions of {width}" if self.instances else width
            raise SeesayError(
                f"{self.path}: the head reads {wanted} numbers per image, but {self.encoder} returns "
                f"{given}; train the concepts again."
            )

    @property
    def dims(self) -> dict[str, int]:
        """Width of the arrays that `scores` returns."""
        return dict.fromkeys(("pooled", "logits"), len(self.layers[-1][0]))

    def scores(self, arrays: Arrays) -> Arrays:
        """Compute `pooled`, sigmoids, and `logits` from the encoder's arrays: (n, K) each."""
        return self.scores_of(np.concatenate([arrays[name] for name in self.arrays], axis=1))

    def scores_of(self, features: NDArray[np.float32]) -> Arrays:
        """Compute the arrays of `scores` from the features (n, d) that the head reads.

        Raises:
            SeesayError: they have another width.
        """
        self._check_width(features.shape[1])
        if not self.instances:
            return concept_scores(_apply(self.layers, features))
        starts = range(0, max(len(features), 1), _IMAGES_AT_ONCE)
        parts = [self._highest(features[i : i + _IMAGES_AT_ONCE]) for i in starts]
        return concept_scores(np.concatenate(parts))

    def _highest(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Each concept's highest logit among the instances of an image, (n, K).

        The input is the signed square root of the features, scaled to a mean square of 1, as in
        `ConceptClassifier`.
        """
        shape = len(features), self.instances, self.layers[0][0].shape[1]
        rows = np.asarray(features, np.float32).reshape(shape)
        roots = np.sign(rows) * np.sqrt(np.abs(rows))
        lengths = np.linalg.norm(roots, axis=2, keepdims=True)
        units = roots / np.maximum(lengths, np.float32(1e-12))
        logits = _apply(self.layers, units * np.float32(rows.shape[2] ** 0.5))
        there = lengths > 0
        return np.asarray(np.where(there | ~there.any(axis=1, keepdims=True), logits, -np.inf).max(axis=1))

    def fingerprint(self, base: ImageEncoder) -> str:
        """Identify the head and its base encoder."""
        digest = hashlib.blake2b(digest_size=16)
        for tensor in (tensor for layer in self.layers for tensor in layer):
            digest.update(tensor.tobytes())
        highest = f" highest of {self.instances}" if self.instances else ""
        return f"{base.fingerprint} {','.join(self.arrays)} {digest.hexdigest()}{highest}"


@register_image_encoder("concepts")
class ConceptEncoder(ImageEncoder):
    """Concept scores from the features of another encoder: `pooled` are the sigmoids of `logits`, (n, K)."""

    of_run, role = True, "concepts"
    options: ClassVar = {**ImageEncoder.options, "run": (), "tuned": ()}
    variants: ClassVar = {
        "run: RUN": "scores of the concepts that the run has learned to predict",
        "run: RECIPE": "in a recipe: the same, by the run of that recipe, such as concepts-instances",
    }

    def __init__(self, base: ImageEncoder, head: StoredHead) -> None:
        name, weights = f"concepts of {base.name}", head.fingerprint(base)
        super().__init__(name, weights, base.size, head.dims, base.network, base.crop)
        self._base, self._head, self.sessions = base, head, base.sessions

    @classmethod
    def load(cls, settings: EncoderSettings, device: str, run: Path | None) -> ImageEncoder:
        head = StoredHead.read(settings, run)
        return cls(head.base(device), head)

    @property
    def source(self) -> ImageEncoder:
        return self._base

    def from_source(self, arrays: Arrays) -> Arrays:
        return self._head.scores(arrays)

    def encode(self, images: Sequence[Any]) -> Arrays:
        """Encode prepared images; the head reads features averaged over their crops, as in training."""
        return self.from_source(self._base.encode(images))


@register_image_encoder("concepts-regions")
class ConceptRegionsEncoder(ImageEncoder):
    """Highest concept scores among the regions of an image: section 3.2, "multi-regional".

    Network and head are applied to each region separately, resized to a square.
    """

    of_run, role, over_crops = True, "concepts", "max"
    options: ClassVar = ConceptEncoder.options
    variants: ClassVar = {"run: RUN": "the same, the highest of 50 regions of the image"}

    def __init__(self, one_crop: ImageEncoder, head: StoredHead, weights: str) -> None:
        def of_regions(regions: Pixels) -> Arrays:
            starts = range(0, len(regions), _CROPS_AT_ONCE)
            parts = [one_crop.encode(list(regions[i : i + _CROPS_AT_ONCE, None])) for i in starts]
            return head.scores({name: np.concatenate([part[name] for part in parts]) for name in head.arrays})

        what, name = f"{weights} {describe_regions(REGIONS)}", f"concepts of regions, {one_crop.name}"
        super().__init__(name, what, one_crop.size, head.dims, of_regions, "regions")
        self._one_crop, self.sessions = one_crop, one_crop.sessions

    @classmethod
    def load(cls, settings: EncoderSettings, device: str, run: Path | None) -> ImageEncoder:
        head = StoredHead.read(settings, run)
        if head.instances:
            raise SeesayError(
                f"{head.path.parent}: its scores are already the highest of {head.instances} regions; "
                f"use the encoder {{kind: concepts, run: RUN}} or the protocol concepts."
            )
        network, holder = head.encoder, head.path.parent
        if network.get("crops") == TEN:
            network = network.replaced(crops="")
        if network.kind in LITE:
            one_crop = LiteEncoder.load(network, device, holder, SIDE)
        else:
            one_crop = load_image_encoder(network, device, holder)
        return cls(one_crop, head, head.fingerprint(head.base(device)))

    def prepare(self, pixels: Pixels) -> Pixels:
        """Cut out 50 regions, each as the network takes it; the whole image replaces missing ones."""
        squares = squares_of(pixels, diverse_regions(pixels, REGIONS), self.size)
        squares += squares[-1:] * (REGIONS - len(squares))
        return np.concatenate([self._one_crop.prepare(square) for square in squares])


def own_array(encoder: EncoderSettings, run: Path | None) -> tuple[EncoderSettings, StoredHead | None] | None:
    """Return the precomputed array that an encoder of that run reads, and the head that it applies to it.

    None if it computes features from images.
    """
    if encoder.kind == PRECOMPUTED:
        return encoder, None
    if encoder.kind != "concepts" or not (encoder.get("run") or encoder.get("tuned")):
        return None
    head = StoredHead.read(encoder, run)
    return (head.encoder, head) if head.encoder.kind == PRECOMPUTED else None


def about_head(encoder: EncoderSettings, folder: Path | None) -> dict[str, str]:
    """Return the metadata of the head that a run keeps in that folder, or of that of the run in the settings.

    They are the encoder, its arrays, and the numbers of folds and regions in training.
    """
    if tuned := encoder.get("tuned"):
        return metadata(tuned_file(tuned, folder))
    run = Path(encoder.get("run"))
    try:
        (run / CONCEPTS).stat()
        config = read_small_json(run / RUN)
        numbers = {key: str(config["matcher"].get(key) or 0) for key in ("folds", "instances")}
        return {BASE: json.dumps(config["encoders"][0]), "arrays": ",".join(config["arrays"]), **numbers}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        raise SeesayError(
            f"Encoder {encoder}: {run} predicts no concepts (no {CONCEPTS}); "
            f"`seesay train concepts --out {run}` makes a run that does."
        ) from None


def concept_scores(logits: NDArray[np.float32]) -> Arrays:
    """Sigmoids and logits, (n, K) each; tanh does not overflow."""
    return {"pooled": 0.5 + 0.5 * np.tanh(0.5 * logits), "logits": logits}


def _layers(path: Path) -> tuple[Layer, ...]:
    """Read linear layers named `….NUMBER.weight` and `….NUMBER.bias`, in the order of their numbers."""
    tensors = {key: np.asarray(value, np.float32) for key, value in load_file(path).items()}
    names = {int(key.split(".")[-2]): key.rpartition(".")[0] for key in tensors}
    layers = tuple((tensors[f"{n}.weight"], tensors[f"{n}.bias"]) for _, n in sorted(names.items()))
    _apply(layers, np.zeros((1, layers[0][0].shape[1]), np.float32))
    return layers


def _apply(layers: Sequence[Layer], features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Apply linear layers with ReLU between them: (n, d) to (n, K)."""
    for number, (weight, bias) in enumerate(layers):
        features = (np.maximum(features, 0) if number else features) @ weight.T + bias
    return features
