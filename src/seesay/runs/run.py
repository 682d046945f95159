"""Runs: a trained matcher with everything it needs, from a folder or from the shipped weights.

recipe.yaml            the resolved recipe
weights.safetensors    the matcher's weights; its metadata has the widths of the image arrays
vocabulary.json        the words of the train split
text.safetensors       the sentence encoder, if it was fitted on the train split
encoder-*.safetensors  image encoders of the run's own: a fine-tuned network, a concept classifier
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from functools import cached_property
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from seesay.encoders.images.base import Arrays, ImageEncoder, load_image_encoder
from seesay.encoders.images.concepts import save_head_inputs
from seesay.encoders.images.encode import encode_images
from seesay.encoders.images.tuned import adopt_tuned
from seesay.encoders.sentences.base import SentenceEncoder, load_sentence_encoder, save_sentence_encoder
from seesay.errors import ImageError, SeesayError, did_you_mean
from seesay.matchers.base import EmbeddingMatcher, as_matcher
from seesay.matchers.sentences import Sentences
from seesay.matchers.settings import MatcherInputs
from seesay.metrics.inputs import as_array, refuse_nan
from seesay.paths import replace_text, replacing
from seesay.recipes.load import dump_recipe, read_recipe
from seesay.recipes.schema import Recipe
from seesay.runs.images import ImageInput, read_images, read_texts
from seesay.runs.scores import score_matrix
from seesay.runs.sentences import prepare_sentences
from seesay.text.vocabulary import Vocabulary

RECIPE, WEIGHTS, VOCABULARY, TEXT = (
    "recipe.yaml",
    "weights.safetensors",
    "vocabulary.json",
    "text.safetensors",
)
PRECOMPUTED = "precomputed"
_BATCH = 512
_NAMED = 3  # weights of a kind that an error names
_IMAGE_DIMS = "image_dims"  # in the metadata of the weights

Vectors = NDArray[np.float32]


class Run:
    """A trained matcher with its recipe, vocabulary and encoders: embeds and scores images and sentences.

    `seesay.load` makes one from a folder, `seesay.train` from a corpus.

    Attributes:
        name: the shipped weights' name, or the run's folder.
        folder: where its files are.
        recipe: the resolved recipe.
        matcher: the trained module.
        device: where the matcher is, such as "cpu" or "cuda:1".

    Example:
        >>> import numpy as np, seesay
        >>> run = seesay.load("seesay-small")
        >>> images = run.embed_images([np.zeros((48, 64, 3), np.uint8)])
        >>> texts = run.embed_sentences(["a black night", "two dogs play in the snow"])
        >>> run.score(images, texts).shape
        (1, 2)
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        recipe: Recipe,
        vocabulary: Vocabulary,
        sentence_encoder: SentenceEncoder | None,
        matcher: nn.Module,
    ) -> None:
        self.name = name
        self.folder = folder
        self.recipe = recipe
        self.vocabulary = vocabulary
        self.sentence_encoder = sentence_encoder
        self.matcher = matcher.eval()
        self.device = str(next(chain(matcher.parameters(), matcher.buffers())).device)

    def __repr__(self) -> str:
        """Name the run and its matcher, and `dim` once it is known: nothing is computed here."""
        dim = f", dim={self.dim}" if "dim" in vars(self) else ""
        return f"Run({self.name!r}, matcher={self.recipe.matcher.kind!r}{dim})"

    @classmethod
    def load(cls, name: str, device: str | None = None, module: nn.Module | None = None) -> Run:
        """Load the run in that folder, or the shipped one of that name; see `seesay.load`.

        Raises:
            SeesayError: there is none, or a file of it is missing or damaged, or no such device.
        """
        device = _checked_device(device or default_device())
        folder = run_folder(name)
        if folder not in shipped_runs():
            name = str(folder.resolve())  # an index records it, and is searched from anywhere
        path = folder / WEIGHTS
        recipe = run_recipe(folder)
        vocabulary = Vocabulary.load(folder / VOCABULARY)
        weights, image_dims = _read_weights(path)
        encoder_name = recipe.sentence_encoder
        encoder = load_sentence_encoder(encoder_name, folder / TEXT) if encoder_name else None
        matcher = new_matcher(recipe, vocabulary, encoder, image_dims, module)
        try:
            matcher.load_state_dict(
                {k: v.float() if v.is_floating_point() else v for k, v in weights.items()}
            )
        except RuntimeError as failure:
            misfit = _misfit(matcher.state_dict(), weights)
            if module is not None:
                raise SeesayError(
                    f"module: the one whose weights are in {path} is wanted, got another one ({misfit})."
                ) from failure
            raise SeesayError(
                f"{path}: not the weights of {folder / RECIPE} ({misfit}); train again."
            ) from failure
        return cls(name, folder, recipe, vocabulary, encoder, matcher.to(device))

    def save_inputs(self) -> None:
        """Write everything but the weights: recipe, vocabulary and sentence encoder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        replace_text(self.folder / RECIPE, dump_recipe(self.recipe))
        self.vocabulary.save(self.folder / VOCABULARY)
        if self.recipe.matcher.predicts_concepts:
            save_head_inputs(self.folder, self.recipe.encoders[0], self.recipe.arrays)
        if self.sentence_encoder is not None:
            save_sentence_encoder(self.sentence_encoder, self.folder / TEXT)

    def save_weights(self, weights: Mapping[str, Tensor], image_dims: Sequence[int]) -> None:
        """Write the matcher's weights, with the widths of the image arrays that it takes."""
        kept = {key: value.contiguous() for key, value in weights.items()}
        with replacing(self.folder / WEIGHTS) as beside:
            save_file(kept, beside, {_IMAGE_DIMS: json.dumps(list(image_dims))})

    @cached_property
    def encoders(self) -> list[ImageEncoder]:
        """The image encoders that the recipe names.

        Raises:
            SeesayError: the run was trained on precomputed features, whose encoder is unknown.
        """
        return recipe_encoders(self.recipe, self.device)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of weights, vocabulary and preprocessing: vectors of two fingerprints never mix."""
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
        """Length of an embedding."""
        return int(self.embed_sentences(["a dog"]).shape[1])

    @property
    def asymmetric(self) -> bool:
        """True if queries and gallery items are embedded differently."""
        return isinstance(self.matcher, EmbeddingMatcher) and self.matcher.asymmetric

    def embed_images(self, images: Sequence[ImageInput], query: bool = False) -> Vectors:
        """Embed images, (n, dim).

        Args:
            images: paths, encoded bytes, PIL images or (h, w, 3) uint8 arrays of RGB pixels.
            query: embed them as queries, if the matcher embeds queries and gallery items differently.

        Raises:
            ImageError: an image cannot be decoded.
            SeesayError: the run has no embedding (a pair matcher), or takes no whole images.
        """
        return self.embed_features(self._features(images), query)

    def embed_image_files(
        self, contents: Sequence[bytes | NDArray[np.uint8]], names: Sequence[str], query: bool = False
    ) -> tuple[Vectors, list[ImageError | None]]:
        """Embed many encoded images, (n, dim); a broken one has a zero row and its error."""
        encoded = encode_images(self.encoders, contents, names)
        vectors = self.embed_features(join_features(self.recipe, encoded.arrays), query)
        vectors[[i for i, error in enumerate(encoded.errors) if error is not None]] = 0.0
        return vectors, encoded.errors

    def embed_sentences(self, sentences: Sequence[str], query: bool = False) -> Vectors:
        """Embed sentences, (m, dim); the score of a pair is the inner product of its vectors."""
        return self.embed_prepared(self.prepare(sentences), query)

    def score(
        self, images: ArrayLike | Sequence[ImageInput], sentences: ArrayLike | Sequence[str]
    ) -> NDArray[np.float32]:
        """Score every image against every sentence, (n, m); higher is a better match.

        Args:
            images: embeddings (n, dim) from `embed_images`, or images as `embed_images` takes them.
            sentences: embeddings (m, dim) from `embed_sentences`, or strings.

        Raises:
            SeesayError: embeddings of another width or with NaN, or embeddings for a pair matcher, which
                has none.
        """
        if not isinstance(self.matcher, EmbeddingMatcher):
            return self.scores(self._features(images), self.prepare(sentences))  # type: ignore[arg-type]
        rows = images if _are_vectors(images) else self.embed_images(images)  # type: ignore[arg-type]
        columns = sentences if _are_vectors(sentences) else self.embed_sentences(sentences)  # type: ignore[arg-type]
        left, right = as_array(rows, "images"), as_array(columns, "sentences")  # type: ignore[arg-type]
        for what, vectors in (("images", left), ("sentences", right)):
            if vectors.ndim != 2 or vectors.shape[1] != self.dim:
                raise SeesayError(
                    f"{what}: embeddings of shape (n, {self.dim}) are wanted, got {vectors.shape}."
                )
            refuse_nan(vectors, what)
        return np.asarray(left, np.float32) @ np.asarray(right, np.float32).T

    def scores(self, features: Vectors, sentences: Sentences, keep: bool = False) -> Vectors:
        """Score images, given as joined features, and prepared sentences, (n, m); see `score_matrix`."""
        return score_matrix(self, features, sentences, keep)

    def prepare(self, sentences: Sequence[str]) -> Sentences:
        """Look up the word ids of sentences and run the sentence encoder."""
        return prepare_sentences(read_texts(sentences, "sentences"), self.vocabulary, self.sentence_encoder)

    def embed_features(self, features: Vectors, query: bool = False) -> Vectors:
        """Embed images given as joined features, (n, dim) from (n, d)."""
        matcher = self.embedding_matcher()
        embed = matcher.query_images if query else matcher.embed_images
        parts = (torch.from_numpy(features[i : i + _BATCH]) for i in range(0, len(features), _BATCH))
        return self._batched(embed, parts)

    def embed_prepared(self, sentences: Sentences, query: bool = False) -> Vectors:
        """Embed prepared sentences, (m, dim)."""
        matcher = self.embedding_matcher()
        embed = matcher.query_sentences if query else matcher.embed_sentences
        parts = (
            sentences.take(rows) for rows in torch.split(torch.arange(len(sentences)), _BATCH) if len(rows)
        )
        return self._batched(embed, parts)

    def embedding_matcher(self) -> EmbeddingMatcher:
        """Return the matcher if it embeds.

        Raises:
            SeesayError: it scores pairs.
        """
        if not isinstance(self.matcher, EmbeddingMatcher):
            raise SeesayError(
                f"{self.name}: a pair matcher has no embeddings; it can re-rank another's results."
            )
        return self.matcher

    def _features(self, images: Sequence[ImageInput]) -> Vectors:
        """Encode images to joined features, (n, d); raise the error of a broken one."""
        encoded = encode_images(self.encoders, *read_images(images))
        return join_features(self.recipe, encoded.checked())

    @torch.inference_mode()
    def _batched(self, embed: Callable[[Any], Tensor], parts: Iterable[Any]) -> Vectors:
        rows = [embed(part.to(self.device)).float().cpu().numpy() for part in parts]
        return np.concatenate(rows) if rows else np.zeros((0, self.dim), np.float32)


def check_one_score(run: Run) -> None:
    """Check that a pair has one score, whichever of the two is the query.

    Raises:
        SeesayError: the run's matcher weighs its metrics by the query.
    """
    if run.asymmetric:
        raise SeesayError(
            f"{run.name}: its scores depend on whether the image or the sentence is the query; re-ranking "
            "needs one score a pair. Use the sum of the metrics (recipe gvse-sum), or omit --rerank."
        )


def default_device() -> str:
    """Return "cuda" if there is a GPU, and "cpu" otherwise."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def recipe_encoders(recipe: Recipe, device: str | None = None) -> list[ImageEncoder]:
    """Load the recipe's image encoders, on the default device if none is named.

    Raises:
        SeesayError: the recipe matches regions of images, or reads precomputed features.
    """
    if recipe.regions is not None:
        raise SeesayError(
            f"Recipe '{recipe.name}' matches phrases with regions of one image and embeds no whole images; "
            "use a run such as seesay-small for those."
        )
    if PRECOMPUTED in recipe.encoders:
        raise SeesayError(
            "This run was trained on precomputed features: without their encoder it cannot take an image."
        )
    return [load_image_encoder(name, device or default_device()) for name in recipe.encoders]


def array_dims(recipe: Recipe) -> tuple[int, ...]:
    """Return the widths of the arrays that the recipe's image features are joined from."""
    return tuple(encoder.dims[name] for encoder in recipe_encoders(recipe) for name in recipe.arrays)


def join_features(recipe: Recipe, arrays: Sequence[Arrays]) -> Vectors:
    """Concatenate the encoders' arrays that the recipe names, (n, d)."""
    return np.concatenate([each[name] for each in arrays for name in recipe.arrays], axis=1)


def new_matcher(
    recipe: Recipe,
    vocabulary: Vocabulary,
    encoder: SentenceEncoder | None,
    image_dims: Sequence[int],
    module: nn.Module | None = None,
) -> nn.Module:
    """Build the recipe's matcher with initial weights, or wrap a copy of the caller's own module.

    Raises:
        SeesayError: the module is not a matcher, or cannot be copied.
    """
    if module is not None:
        try:
            return as_matcher(deepcopy(uncompiled(module)))
        except (RuntimeError, TypeError) as failure:
            raise SeesayError(
                f"module: one that copy.deepcopy copies is wanted, got {type(module).__name__} ({failure})."
            ) from failure
    inputs = MatcherInputs(tuple(image_dims), len(vocabulary), encoder.dim if encoder else 0)
    return recipe.matcher.build(inputs)


def uncompiled(module: nn.Module) -> nn.Module:
    """Return the module that `torch.compile` wrapped, or else the module itself."""
    return cast(nn.Module, getattr(module, "_orig_mod", module))


def shipped_runs() -> list[Path]:
    """Return the folders of the weights that come with seesay, by name."""
    return sorted(path.parent for path in (Path(str(files("seesay"))) / "weights").glob(f"*/{RECIPE}"))


def run_recipe(folder: Path) -> Recipe:
    """Read a run's recipe, and make the image encoders of the run's own available.

    Raises:
        SeesayError: it cannot be read, or the run lacks the weights of such an encoder.
    """
    recipe = read_recipe(folder / RECIPE)
    for encoder in recipe.encoders:
        adopt_tuned(encoder, folder)
    return recipe


def run_folder(name: str) -> Path:
    """Return the folder of that run, or of the shipped one of that name.

    Raises:
        SeesayError: there is none.
    """
    path = Path(name)
    if (path / RECIPE).is_file():
        return path
    shipped = {folder.name: folder for folder in shipped_runs()}
    if name in shipped:
        return shipped[name]
    raise SeesayError(
        f"{name}: no run there (no {RECIPE}), and no shipped weights of that name"
        f"{did_you_mean(name, shipped) or '.'} Shipped: {', '.join(shipped) or 'none'}."
    )


def _checked_device(device: str) -> str:
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as failure:  # the latter if PyTorch was built without CUDA
        raise SeesayError(
            f'device: one that PyTorch has here is wanted, such as "{default_device()}", got "{device}".'
        ) from failure
    return device


def _misfit(wanted: Mapping[str, Any], found: Mapping[str, Tensor]) -> str:
    """Name the first weights that are missing, unexpected or of another shape."""
    both = [key for key in wanted if key in found]
    names = {
        "missing": [key for key in wanted if key not in found],
        "unexpected": [key for key in found if key not in wanted],
        "of another shape": [key for key in both if np.shape(wanted[key]) != found[key].shape],
    }
    parts = [
        f"{what}: {', '.join(keys[:_NAMED])}{', …' if len(keys) > _NAMED else ''}"
        for what, keys in names.items()
        if keys
    ]
    return "; ".join(parts) or "they do not load"


def _read_weights(path: Path) -> tuple[dict[str, Tensor], list[int]]:
    """Read the weights of a run, and the widths of the image arrays that they take."""
    try:
        with safe_open(path, "pt") as file:
            dims = json.loads((file.metadata() or {}).get(_IMAGE_DIMS, "null"))
            if dims is None:
                raise ValueError(f"no '{_IMAGE_DIMS}' in its metadata")
            return {key: file.get_tensor(key) for key in file.keys()}, dims  # noqa: SIM118
    except (OSError, SafetensorError, ValueError) as failure:
        raise SeesayError(f"{path}: unreadable weights ({failure}); train again.") from failure


def _are_vectors(items: object) -> bool:
    """True for embeddings: nested numbers or an array of them; also for one vector, which is an error."""
    if isinstance(items, Tensor):
        return items.ndim <= 2
    if isinstance(items, np.ndarray):
        return items.ndim <= 2 and items.dtype.kind not in "OUST"
    first = items[0] if isinstance(items, Sequence) and len(items) else None
    return isinstance(first, Sequence | float) and not isinstance(first, str | bytes)
