"""Runs: a trained matcher with all it needs, from a folder or from the shipped weights.

recipe.yaml           the resolved recipe
weights.safetensors   the matcher's weights
vocabulary.json       words of the train split
text.safetensors      the sentence encoder, where the recipe's is fitted on the train split
encoder-*.safetensors a fine-tuned image encoder
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from importlib.resources import files
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from seesay.encoders.images.encode import encode_images
from seesay.encoders.images.encoder import Arrays, Encoder, load_encoder
from seesay.encoders.images.tuned import adopt_tuned
from seesay.encoders.regions.encoder import load_region_encoder
from seesay.encoders.regions.geometry import GEOMETRY
from seesay.encoders.sentences.encoder import SentenceEncoder, load_sentence_encoder
from seesay.errors import ImageError, SeesayError
from seesay.matchers.base import EmbeddingMatcher, Matcher
from seesay.matchers.build import build_matcher
from seesay.matchers.sentences import Sentences, prepare_sentences
from seesay.recipes.load import read_recipe
from seesay.recipes.matchers import InstanceSettings
from seesay.recipes.schema import Recipe
from seesay.runs.scores import score_matrix
from seesay.text.vocabulary import Vocabulary

RECIPE, WEIGHTS, VOCABULARY, TEXT = (
    "recipe.yaml",
    "weights.safetensors",
    "vocabulary.json",
    "text.safetensors",
)
PRECOMPUTED = "precomputed"
_BATCH = 512


class Run:
    """A recipe, its vocabulary, sentence encoder and trained matcher, on one device."""

    def __init__(
        self,
        name: str,
        folder: Path,
        recipe: Recipe,
        vocabulary: Vocabulary,
        sentence_encoder: SentenceEncoder | None,
        matcher: Matcher,
    ) -> None:
        self.name = name
        self.folder = folder
        self.recipe = recipe
        self.vocabulary = vocabulary
        self.sentence_encoder = sentence_encoder
        self.matcher = matcher.eval()
        self.device = next(chain(matcher.parameters(), matcher.buffers())).device.type

    @classmethod
    def load(cls, name: str, device: str | None = None) -> Run:
        """The run in that folder, or the shipped one of that name.

        Raises:
            SeesayError: there is none, or a file of it is missing or damaged.
        """
        folder = run_folder(name)
        if folder not in shipped_runs():
            name = str(folder.resolve())  # an index records it, and is searched from anywhere
        path = folder / WEIGHTS
        recipe = run_recipe(folder)
        vocabulary = Vocabulary.load(folder / VOCABULARY)
        try:
            weights = load_file(path)
        except (OSError, SafetensorError) as failure:
            raise SeesayError(f"{path}: unreadable weights ({failure}); train again.") from failure
        name_of_encoder = recipe.sentence_encoder
        encoder = load_sentence_encoder(name_of_encoder, folder / TEXT) if name_of_encoder else None
        matcher = new_matcher(recipe, vocabulary, encoder, precomputed_parts(recipe, weights))
        try:
            matcher.load_state_dict({key: value.float() for key, value in weights.items()})
        except RuntimeError as failure:
            raise SeesayError(f"{path}: not the weights of {folder / RECIPE}; train again.") from failure
        return cls(name, folder, recipe, vocabulary, encoder, matcher.to(device or default_device()))

    @cached_property
    def encoders(self) -> list[Encoder]:
        """The image encoders that the recipe names.

        Raises:
            SeesayError: the run was trained on features that came without an encoder.
        """
        return recipe_encoders(self.recipe)

    @cached_property
    def fingerprint(self) -> str:
        """Changes whenever weights, vocabulary or preprocessing change."""
        digest = hashlib.blake2b(digest_size=16)
        for file in (WEIGHTS, VOCABULARY):
            digest.update((self.folder / file).read_bytes())
        for encoder in self.encoders:
            digest.update(encoder.fingerprint.encode())
        if self.sentence_encoder is not None:
            digest.update(self.sentence_encoder.fingerprint.encode())
        return digest.hexdigest()

    @cached_property
    def dim(self) -> int:
        """Length of a vector."""
        return int(self.embed_sentences(["a dog"]).shape[1])

    def embed_images(
        self, images: Sequence[bytes], names: Sequence[str], query: bool = False
    ) -> tuple[NDArray[np.float32], list[ImageError | None]]:
        """Vectors of encoded images, (n, dim); a broken image has a zero row and its error.

        Here and below `query` asks for the vectors of what asks, where a matcher tells it from what is found.
        """
        encoded = encode_images(self.encoders, images, names)
        vectors = self.embed_features(join_features(self.recipe, encoded.arrays), query)
        broken = [i for i, error in enumerate(encoded.errors) if error is not None]
        vectors[broken] = 0.0
        return vectors, encoded.errors

    def embed_features(self, features: NDArray[np.float32], query: bool = False) -> NDArray[np.float32]:
        """Vectors of images from their joined features, (n, dim) from (n, d)."""
        matcher = self._embedding_matcher()
        embed = matcher.query_images if query else matcher.embed_images
        rows = [
            _on_device(embed, torch.from_numpy(features[i : i + _BATCH]).to(self.device))
            for i in range(0, len(features), _BATCH)
        ]
        return np.concatenate(rows) if rows else np.zeros((0, self.dim), np.float32)

    def embed_sentences(self, sentences: Sequence[str], query: bool = False) -> NDArray[np.float32]:
        """Vectors of sentences, (m, dim); a pair's score is the inner product of its vectors."""
        prepared = prepare_sentences(sentences, self.vocabulary, self.sentence_encoder)
        return self.embed_prepared(prepared, query)

    def embed_prepared(self, sentences: Sentences, query: bool = False) -> NDArray[np.float32]:
        """The same from sentences that are numbered already."""
        matcher = self._embedding_matcher()
        embed = matcher.query_sentences if query else matcher.embed_sentences
        order = torch.arange(len(sentences))
        rows = [
            _on_device(embed, sentences.take(order[i : i + _BATCH]).to(self.device))
            for i in range(0, len(sentences), _BATCH)
        ]
        return np.concatenate(rows) if rows else np.zeros((0, self.dim), np.float32)

    def scores(
        self, features: NDArray[np.float32], sentences: Sentences, keep: bool = False
    ) -> NDArray[np.float32]:
        """Score images, given as joined features, and prepared sentences; see `score_matrix`."""
        return score_matrix(self, features, sentences, keep)

    def _embedding_matcher(self) -> EmbeddingMatcher:
        if not isinstance(self.matcher, EmbeddingMatcher):
            raise SeesayError(f"{self.name}: a pair matcher has no vectors; it re-ranks another's results.")
        return self.matcher


@torch.inference_mode()
def _on_device(embed, batch) -> NDArray[np.float32]:  # type: ignore[no-untyped-def]
    vectors: NDArray[np.float32] = embed(batch).float().cpu().numpy()
    return vectors


def check_one_score(run: Run) -> None:
    """See that a pair has one score, whichever of the two asks.

    Raises:
        SeesayError: the run's matcher is a fusion that weighs by its query.
    """
    if isinstance(run.matcher, EmbeddingMatcher) and run.matcher.asks:
        raise SeesayError(
            f"{run.name}: its scores depend on whether image or sentence asks, and re-ranking has one score "
            "a pair; take the sum of the metrics (recipe gvse-sum), or leave --rerank away."
        )


def default_device() -> str:
    """A GPU where there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def recipe_encoders(recipe: Recipe) -> list[Encoder]:
    """The recipe's image encoders, on the default device."""
    if recipe.regions is not None:
        raise SeesayError(
            f"Recipe '{recipe.name}' matches phrases with regions of one image, and has no vectors of whole "
            "images; for those take a run such as seesay-small."
        )
    if PRECOMPUTED in recipe.encoders:
        raise SeesayError(
            "This run was trained on precomputed features: without their encoder it cannot take an image."
        )
    return [load_encoder(name, default_device()) for name in recipe.encoders]


def join_features(recipe: Recipe, arrays: Sequence[Arrays]) -> NDArray[np.float32]:
    """What the matcher takes of the encoders' arrays, side by side: (n, d)."""
    return np.concatenate([each[name] for each in arrays for name in recipe.arrays], axis=1)


def new_matcher(
    recipe: Recipe, vocabulary: Vocabulary, encoder: SentenceEncoder | None, precomputed: int
) -> Matcher:
    """The recipe's matcher with initial weights; `precomputed` is the width of features given as files."""
    if recipe.regions is not None:
        width = load_region_encoder(recipe.encoders[0], default_device()).dim
        parts = [width + (GEOMETRY if recipe.regions.geometry else 0)]
    elif PRECOMPUTED in recipe.encoders:
        parts = [precomputed]
    else:
        parts = [encoder.dims[name] for encoder in recipe_encoders(recipe) for name in recipe.arrays]
    return build_matcher(recipe.matcher, parts, len(vocabulary), encoder.dim if encoder else 0)


def precomputed_parts(recipe: Recipe, weights: dict[str, Tensor]) -> int:
    """The width of the precomputed features a run was trained on, read off its weights."""
    if PRECOMPUTED not in recipe.encoders:
        return 0
    if "image_mean" in weights:  # CCA's maps stand the other way round
        return len(weights["image_mean"])
    width = next(int(w.shape[1]) for key, w in weights.items() if "image_map" in key and w.ndim == 2)
    settings = recipe.matcher
    return width * settings.instances if isinstance(settings, InstanceSettings) else width


def shipped_runs() -> list[Path]:
    """The folders of the weights that come with seesay, by name."""
    return sorted(path.parent for path in (Path(str(files("seesay"))) / "weights").glob(f"*/{RECIPE}"))


def run_recipe(folder: Path) -> Recipe:
    """A run's recipe, whose encoders are at hand where the run has fine-tuned them.

    Raises:
        SeesayError: it cannot be read, or the run lacks a fine-tuned encoder's weights.
    """
    recipe = read_recipe(folder / RECIPE)
    for encoder in recipe.encoders:
        adopt_tuned(encoder, folder)
    return recipe


def run_folder(name: str) -> Path:
    """The folder of that run, or of the shipped one of that name.

    Raises:
        SeesayError: there is none.
    """
    path = Path(name)
    if (path / RECIPE).is_file():
        return path
    for shipped in shipped_runs():
        if shipped.name == name:
            return shipped
    there = ", ".join(folder.name for folder in shipped_runs()) or "none"
    raise SeesayError(f"{name}: no run there (no {RECIPE}), nor shipped weights of that name ({there}).")
