"""Runs: a trained matcher with everything it needs, from a folder or from the included weights.

run.json               what inference needs: encoders, widths of the inputs, calibration, exported graphs
recipe.json            how it was trained, for training, rows and reports; search does not read it
training.json          the summary of the training
metrics.jsonl          its epochs
checkpoint.safetensors its last epoch, until it is finished
weights.safetensors    the matcher's weights
*.onnx                 the matcher's sides for ONNX Runtime, which use those weights without PyTorch
vocabulary.json        the words of the train split
text.safetensors       the sentence encoder, if it was fitted on the train split
encoder-*.safetensors  image encoders of the run's own: a fine-tuned network, a concept classifier
concepts.json          the concepts that a concept run predicts
encoders/*.onnx        networks of packaged encoders, if the run was exported for use without PyTorch
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seesay.arrays import Vectors, as_array, refuse_nan
from seesay.data.images import DecodedImage
from seesay.device import chosen_device, default_device
from seesay.encoders.images.base import ImageEncoder
from seesay.encoders.images.encode import decoded_side, encode_images
from seesay.encoders.sentences.base import SentenceEncoder, load_sentence_encoder, save_sentence_encoder
from seesay.errors import SeesayError, naming_extras
from seesay.paths import file_digest
from seesay.progress import Advance
from seesay.runs.calibration import ScoreCalibration
from seesay.runs.config import RunConfig, run_recipe, save_recipe
from seesay.runs.folder import RECIPE, VOCABULARY, WEIGHTS, is_included, run_folder
from seesay.runs.onnx_backend import OnnxBackend
from seesay.runs.prepare import (
    ImageInput,
    PreparedSentences,
    join_features,
    list_images,
    number_words,
    read_images,
    read_texts,
    recipe_encoders,
)
from seesay.text.spelling import corrections, unknown_words
from seesay.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from torch import nn

    from seesay.recipes.schema import Recipe
    from seesay.runs.summary import Epoch
    from seesay.runs.torch_backend import TorchBackend

_AT_ONCE = 128  # images whose files are read before they are encoded


class Run:
    """A trained matcher with its vocabulary and encoders: embeds and scores images and sentences.

    `seesay.load` opens a run from a folder, and `seesay.train` creates one from a corpus. Parts are loaded on
    first use, and an exported run embeds without PyTorch.

    Attributes:
        name: the name of included weights, or the run's folder.
        folder: of its files.
        config: the contents of `run.json`.
        vocabulary: the words that it reads.
        sentence_encoder: the frozen encoder of sentences, if it has one.
        title: the name in tables and reports: that of its folder, or of a CLIP model.
        pretrained: true for included weights and CLIP models, whose training is not recorded here.
        embeds: true if scores are inner products of vectors, so that the run can be indexed.
        asymmetric: true if queries and gallery items are embedded differently.

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
        config: RunConfig,
        vocabulary: Vocabulary,
        sentence_encoder: SentenceEncoder | None,
        device: str | None = None,
    ) -> None:
        self.name = name
        self.folder = folder
        self.config = config
        self.vocabulary = vocabulary
        self.sentence_encoder = sentence_encoder
        self.title, self.pretrained = folder.name, is_included(folder)
        self.embeds, self.asymmetric = config.embeds, config.asymmetric
        self._device = device
        self._recipe: Recipe | None = None
        self._matcher: nn.Module | None = None
        self._backend: OnnxBackend | TorchBackend | None = None

    def __repr__(self) -> str:
        """Show the run, its matcher, and `dim` if it is recorded; nothing is computed."""
        dim = f", dim={self.config.dim}" if self.config.dim else ""
        return f"Run({self.name!r}, matcher={self.config.kind!r}{dim})"

    @classmethod
    def load(cls, name: str, device: str | None = None) -> Run:
        """Load the run in a folder, or included weights by name; see `load_run`, which takes all names.

        Raises:
            SeesayError: the run or the device does not exist, or a file is missing or damaged.
            MissingExtraError: PyTorch is not installed, and the run is not exported or needs it for a
                device other than the CPU.
        """
        folder = run_folder(name).absolute()
        if not is_included(folder):
            name = str(folder.resolve())  # an index records it, and is searched from anywhere
        config, reader = RunConfig.load(folder), None
        if config.sentence_encoder is not None:
            reader = load_sentence_encoder(config.sentence_encoder, folder)
        device = device or chosen_device()
        run = cls(name, folder, config, Vocabulary.load(folder / VOCABULARY), reader, device)
        if device not in (None, "cpu") or not config.graphs:
            run._load_matcher()
        return run

    @classmethod
    def from_matcher(
        cls,
        folder: Path,
        recipe: Recipe,
        vocabulary: Vocabulary,
        sentence_encoder: SentenceEncoder | None,
        matcher: nn.Module,
        image_dims: Sequence[int] = (),
    ) -> Run:
        """Return the run of a matcher that a resolved recipe has built; its files are or will be in `folder`.

        `image_dims` are the widths of the concatenated arrays of image features, needed to save the run.
        """
        from seesay.runs.torch_backend import config_of

        config = config_of(recipe, matcher, image_dims, sentence_encoder.dim if sentence_encoder else 0)
        weight = next(chain(matcher.parameters(), matcher.buffers()), None)
        device = "cpu" if weight is None else str(weight.device)
        run = cls(str(folder), folder, config, vocabulary, sentence_encoder, device)
        run._recipe, run._matcher = recipe, matcher.eval()
        return run

    def save_inputs(self) -> None:
        """Write the run's folder except for its weights: metadata, recipe, vocabulary, sentence encoder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._recipe is not None:
            save_recipe(self._recipe, self.folder)
        self.config.save(self.folder)
        self.vocabulary.save(self.folder / VOCABULARY)
        if self.sentence_encoder is not None:
            save_sentence_encoder(self.sentence_encoder, self.folder)

    def update(self, **changes: Any) -> None:
        """Change the run's metadata, here and in its `run.json`; see `RunConfig`."""
        self.config = replace(self.config, **changes)
        self.config.save(self.folder)

    @property
    def recipe(self) -> Recipe:
        """The resolved recipe. Without PyTorch, its matcher and loss are unchecked.

        Raises:
            SeesayError: `recipe.json` is missing or damaged.
        """
        if self._recipe is None:
            self._recipe = run_recipe(self.folder)
        return self._recipe

    @property
    def has_recipe(self) -> bool:
        """Whether it is recorded how the run was trained; `seesay export --out` leaves the recipe out."""
        return self._recipe is not None or (self.folder / RECIPE).is_file()

    @property
    def matcher(self) -> nn.Module:
        """The trained module, in evaluation mode; this needs PyTorch.

        From then on it computes the run's vectors and scores instead of the export, because it may be
        changed.
        """
        return self._matcher if self._matcher is not None else self._load_matcher()

    def _load_matcher(self) -> nn.Module:
        with naming_extras():
            from seesay.runs.torch_backend import load_matcher
        self._matcher = load_matcher(self.folder, self.config, len(self.vocabulary), self.device)
        self._backend = None
        return self._matcher

    @cached_property
    def device(self) -> str:
        """The device of PyTorch, such as "cpu" or "cuda:1"."""
        return self._device or default_device()

    @property
    def backend(self) -> OnnxBackend | TorchBackend:
        """The backend that computes vectors and scores: the graphs, or the matcher once it has been used."""
        if self._backend is None and self._matcher is None:
            self._backend = OnnxBackend(self.folder, self.config)
        elif self._backend is None:
            from seesay.runs.torch_backend import TorchBackend

            self._backend = TorchBackend(self.matcher, self.device)
        return self._backend

    @property
    def history(self) -> list[Epoch]:
        """The epochs of its training, each with its loss and val metrics; empty for included weights."""
        from seesay.runs.summary import read_history  # pydantic is slow to import, and no search needs it

        return read_history(self.folder)

    @cached_property
    def encoders(self) -> list[ImageEncoder]:
        """The image encoders that the recipe names.

        Raises:
            SeesayError: the run was trained on precomputed features, whose encoder is unknown.
        """
        return recipe_encoders(self.config, self.folder, self.device)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of weights, vocabulary and preprocessing; vectors with different hashes are never mixed."""
        digest = hashlib.blake2b(digest_size=16)
        digest.update((self.config.weights or file_digest(self.folder / WEIGHTS)).encode())
        digest.update((self.folder / VOCABULARY).read_bytes())
        if any(encoder.is_tower for encoder in self.config.encoders):
            encoders = self.encoders
        else:
            encoders = recipe_encoders(self.config, self.folder, "cpu")  # a search need not look for a GPU
        for encoder in encoders:
            digest.update(encoder.fingerprint.encode())
        if self.sentence_encoder is not None:
            digest.update(self.sentence_encoder.fingerprint.encode())
        return digest.hexdigest()

    @cached_property
    def dim(self) -> int:
        """Length of an embedding."""
        self._check_embeds()
        return self.config.dim or int(self.embed_sentences(["a dog"]).shape[1])

    @property
    def calibration(self) -> ScoreCalibration | None:
        """The calibration of scores that was fitted to the val split, if any."""
        found = self.config.calibration
        return found if isinstance(found, ScoreCalibration) else None

    def embed_images(self, images: Sequence[ImageInput], query: bool = False) -> Vectors:
        """Embed images, (n, dim).

        Args:
            images: paths, encoded bytes, PIL images or (h, w, 3) uint8 arrays of RGB pixels.
            query: embed as queries, if the matcher embeds queries and gallery items differently.

        Raises:
            ImageError: an image cannot be decoded.
            SeesayError: the run has no embedding (a pair matcher), or does not take whole images.
        """
        return self.embed_features(self._features(images), query)

    @property
    def side(self) -> int:
        """The minimum shorter side of decoded photos, in pixels."""
        return decoded_side(self.encoders)

    def embed_photos(self, photos: Sequence[DecodedImage], query: bool = False) -> Vectors:
        """Embed photos that were decoded at `side`, (n, dim).

        Raises:
            UnavailableImageError: there is not enough memory now.
        """
        pixels, names = [photo.pixels for photo in photos], [photo.name for photo in photos]
        arrays = encode_images(self.encoders, pixels, names)
        return self.embed_features(join_features(self.config.arrays, arrays), query)

    def embed_sentences(self, sentences: Sequence[str], query: bool = False) -> Vectors:
        """Embed sentences, (m, dim); `score` is computed from inner products of these and image vectors."""
        return self.embed_prepared(self.prepare(sentences), query)

    def score(
        self, images: ArrayLike | Sequence[ImageInput], sentences: ArrayLike | Sequence[str]
    ) -> NDArray[np.float32]:
        """Score every image against every sentence, (n, m); higher is a better match.

        The score of two embeddings is their inner product, scaled and shifted for CLIP models.

        Args:
            images: embeddings (n, dim) from `embed_images`, or images as `embed_images` takes them.
            sentences: embeddings (m, dim) from `embed_sentences`, or strings.

        Raises:
            SeesayError: embeddings have the wrong width, contain NaN, or are given to a pair matcher.
        """
        if not self.embeds:
            return self.score_prepared(self._features(images), self.prepare(sentences))  # type: ignore[arg-type]
        rows = images if _are_vectors(images) else self.embed_images(images)  # type: ignore[arg-type]
        columns = sentences if _are_vectors(sentences) else self.embed_sentences(sentences)  # type: ignore[arg-type]
        left, right = as_array(rows, "images"), as_array(columns, "sentences")  # type: ignore[arg-type]
        for what, vectors in (("images", left), ("sentences", right)):
            if vectors.ndim != 2 or vectors.shape[1] != self.dim:
                raise SeesayError(
                    f"{what}: expected embeddings of shape (n, {self.dim}), got {vectors.shape}."
                )
            refuse_nan(vectors, what)
        cosines = np.asarray(left, np.float32) @ np.asarray(right, np.float32).T
        return np.asarray(self.config.logit_scale * cosines + self.config.logit_bias, np.float32)

    def prepare(self, sentences: Sequence[str]) -> PreparedSentences:
        """Look up the word ids of sentences and run the sentence encoder."""
        texts, encoder = read_texts(sentences, "sentences"), self.sentence_encoder
        return number_words(texts, self.vocabulary, encoder.encode(texts) if encoder else None)

    def unknown_words(self, sentences: Sequence[str]) -> list[str]:
        """Return the distinct unknown words of sentences, in lower case and in order.

        A run with word ids knows its vocabulary. A run with a sentence encoder is also assumed to know
        frequent English words. For CLIP models, which may know other languages, no words are
        reported.

        >>> import seesay
        >>> seesay.load("seesay-small").unknown_words(["a xyzzy dog", "Qwop!"])
        ['xyzzy', 'qwop']
        """
        if (reader := self.config.sentence_encoder) is not None and reader.is_tower:
            return []
        return unknown_words(sentences, self.vocabulary, english=self.sentence_encoder is not None)

    def corrections(self, sentences: Sequence[str]) -> dict[str, str]:
        """Return corrections of misspelt words of sentences, in lower case.

        Known and English words are never replaced.

        >>> import seesay
        >>> seesay.load("seesay-small").corrections(["A bicylce, a xyzzy"])
        {'bicylce': 'bicycle'}
        """
        unknown = self.unknown_words(sentences)
        return corrections(unknown, self.vocabulary, english=self.sentence_encoder is not None)

    def embed_features(self, features: Vectors, query: bool = False) -> Vectors:
        """Embed images given as joined features, (n, dim) from (n, d)."""
        self._check_embeds()
        features = np.asarray(features, np.float32)
        if not len(features):
            return np.zeros((0, self.dim), np.float32)
        return np.asarray(self.backend.encode_images(features, query))

    def embed_prepared(self, sentences: PreparedSentences, query: bool = False) -> Vectors:
        """Embed prepared sentences, (m, dim)."""
        self._check_embeds()
        if not len(sentences):
            return np.zeros((0, self.dim), np.float32)
        return np.asarray(self.backend.encode_sentences(sentences, query))

    def score_prepared(
        self, features: Vectors, sentences: PreparedSentences, advance: Advance = lambda _: None
    ) -> Vectors:
        """Score images, given as joined features (n, d), and m prepared sentences, (n, m).

        `advance` is called with the numbers of pairs that a pair matcher has scored.
        """
        from seesay.runs.onnx_backend import score_all_pairs

        if not len(features) or not len(sentences):
            return np.zeros((len(features), len(sentences)), np.float32)
        images, read = self.backend.encode_images(features), self.backend.encode_sentences(sentences)
        if self.embeds:
            return np.asarray(images @ read.T)
        return score_all_pairs(self.backend, images, read, advance)

    def prefer_pytorch(self) -> None:
        """Score pairs in PyTorch from now on, if it is installed: several times faster than the graphs."""
        if not self.embeds and find_spec("torch") is not None:
            with suppress(SeesayError):  # the package of its matcher may be missing
                self.matcher  # noqa: B018 — from now on it computes the scores

    def _check_embeds(self) -> None:
        if not self.embeds:
            raise SeesayError(
                f"{self.name}: a pair matcher has no embeddings; it can re-rank another's results."
            )

    def _features(self, images: Sequence[ImageInput]) -> Vectors:
        """Encode images to joined features, (n, d); raise the error of a broken one."""
        images = list_images(images)
        parts = []  # all files at once would not fit into memory
        for at in range(0, max(len(images), 1), _AT_ONCE):
            arrays = encode_images(self.encoders, *read_images(images[at : at + _AT_ONCE], at))
            parts.append(join_features(self.config.arrays, arrays))
        return np.concatenate(parts)


def _are_vectors(items: object) -> bool:
    """True for arrays and tensors in at most two dimensions, and for lists of numbers or of lists."""
    if isinstance(items, list | tuple) and items and isinstance(items[0], float | list | tuple):
        return True
    kind = getattr(getattr(items, "dtype", None), "kind", "f")  # tensors have none
    return getattr(items, "ndim", 3) <= 2 and kind not in "OUST"
