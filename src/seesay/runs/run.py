"""Runs: a trained matcher with everything it needs, from a folder or from the shipped weights.

recipe.yaml            the resolved recipe
weights.safetensors    the matcher's weights; its metadata has the widths of the image arrays
export.json, *.onnx    its sides for ONNX Runtime, which read those weights: search needs no PyTorch
vocabulary.json        the words of the train split
text.safetensors       the sentence encoder, if it was fitted on the train split
calibration.json       what makes scores probabilities, fitted on the val split
encoder-*.safetensors  image encoders of the run's own: a fine-tuned network, a concept classifier
encoders/*.onnx        packaged encoders, if the run was exported to be used where these are not installed
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seesay.device import chosen_device, default_device
from seesay.encoders.feature_store import stores_folder
from seesay.encoders.images.base import Arrays, ImageEncoder, load_image_encoder
from seesay.encoders.images.encode import encode_images, read_or_encode
from seesay.encoders.images.stored import Stores, opened_stores
from seesay.encoders.images.tuned import adopt_tuned
from seesay.encoders.sentences.base import SentenceEncoder, load_sentence_encoder
from seesay.encoders.towers import TowerName, is_two_tower, use_towers_of
from seesay.errors import ImageError, SeesayError, did_you_mean, naming_extras
from seesay.onnx import use_networks_of
from seesay.paths import file_digest
from seesay.runs.backend import Backend, RunFacts
from seesay.runs.calibration import USUAL, Calibration
from seesay.runs.exported import WEIGHTS, Export, ExportedMatcher, read_export
from seesay.runs.images import ImageInput, read_images, read_texts
from seesay.runs.sentences import PreparedSentences, prepare_sentences
from seesay.text.spelling import corrections
from seesay.text.vocabulary import Vocabulary
from seesay.text.words import unknown_words

if TYPE_CHECKING:
    from torch import nn

    from seesay.recipes.schema import Recipe, RegionSettings

RECIPE, VOCABULARY, TEXT = "recipe.yaml", "vocabulary.json", "text.safetensors"
NETWORKS = "encoders"
PRECOMPUTED = "precomputed"

Vectors = NDArray[np.float32]


class Run:
    """A trained matcher with its recipe, vocabulary and encoders: embeds and scores images and sentences.

    `seesay.load` makes one from a folder, `seesay.train` from a corpus. What takes long to load is loaded
    when it is first used: a run that was exported embeds without PyTorch.

    Attributes:
        name: the shipped weights' name, or the run's folder.
        folder: where its files are.
        logit_scale: `score` multiplies inner products of embeddings by it,
        logit_bias: and adds this; only models of other libraries have others than 1 and 0.

    Example:
        >>> import numpy as np, seesay
        >>> run = seesay.load("seesay-small")
        >>> images = run.embed_images([np.zeros((48, 64, 3), np.uint8)])
        >>> texts = run.embed_sentences(["a black night", "two dogs play in the snow"])
        >>> run.score(images, texts).shape
        (1, 2)
    """

    logit_scale = 1.0
    logit_bias = 0.0

    def __init__(
        self,
        name: str,
        folder: Path,
        vocabulary: Vocabulary,
        sentence_encoder: SentenceEncoder | None,
        export: Export | None = None,
        device: str | None = None,
    ) -> None:
        self.name = name
        self.folder = folder
        self.vocabulary = vocabulary
        self.sentence_encoder = sentence_encoder
        self._export = export
        self._device = device

    def __repr__(self) -> str:
        """Name the run and its matcher, and `dim` once it is known: nothing is computed here."""
        kind = self._export.kind if self._export else self.recipe.matcher.kind
        dim = f", dim={self.dim}" if "dim" in vars(self) else ""
        return f"Run({self.name!r}, matcher={kind!r}{dim})"

    def __reduce__(self) -> tuple[Callable[..., Run], tuple[str, str | None]]:
        """Pickle where the run is and its device, not what is loaded: it is loaded there again.

        Raises:
            SeesayError: its module was asked for and may have been changed, which would be lost.
        """
        if "matcher" in vars(self):
            raise SeesayError(
                f"{self.name}: a run whose module is in use is not copied; copy run.matcher, or load another."
            )
        return Run.load, (self.name, self._device)

    @classmethod
    def load(cls, name: str, device: str | None = None, module: nn.Module | None = None) -> Run:
        """Load the run in that folder, or the shipped one of that name; see `seesay.load`.

        Raises:
            SeesayError: there is none, or a file of it is missing or damaged, or no such device.
            MissingExtraError: the run is not exported, and PyTorch is not installed.
        """
        device = device or chosen_device()
        if is_two_tower(name):
            from seesay.runs.two_tower import TwoTowerRun

            return TwoTowerRun(name, device)
        folder = run_folder(name)
        if folder not in shipped_runs():
            name = str(folder.resolve())  # an index records it, and is searched from anywhere
        export = _run_export(folder) if module is None and device in (None, "cpu") else None
        facts = export or run_recipe(folder)
        reader = facts.sentence_encoder
        text = load_sentence_encoder(reader, folder / TEXT) if reader else None
        run = cls(name, folder, Vocabulary.load(folder / VOCABULARY), text, export, device)
        if not isinstance(facts, Export):
            with naming_extras():
                from seesay.runs.trained import load_matcher
            run.recipe = facts
            run.matcher = load_matcher(run, module)
        return run

    @classmethod
    def from_matcher(
        cls,
        folder: Path,
        recipe: Recipe,
        vocabulary: Vocabulary,
        sentence_encoder: SentenceEncoder | None,
        matcher: nn.Module,
    ) -> Run:
        """Return the run of a matcher in memory, whose files are or will be in `folder`."""
        from seesay.runs.trained import module_device

        run = cls(str(folder), folder, vocabulary, sentence_encoder, device=module_device(matcher))
        run.recipe, run.matcher = recipe, matcher.eval()
        return run

    @cached_property
    def recipe(self) -> Recipe:
        """The resolved recipe. Without PyTorch, its matcher and loss are as the file has them."""
        return run_recipe(self.folder)

    @cached_property
    def matcher(self) -> nn.Module:
        """The trained module, in evaluation mode; loading it takes PyTorch.

        From then on it computes the run's vectors and scores, in place of what was exported of it: whoever
        asks for it may change it.
        """
        with naming_extras():
            from seesay.runs.trained import load_matcher
        matcher = load_matcher(self)
        vars(self).pop("backend", None)
        return matcher

    @cached_property
    def device(self) -> str:
        """Where PyTorch computes, such as "cpu" or "cuda:1"."""
        return self._device or default_device()

    @cached_property
    def backend(self) -> Backend:
        """What computes vectors and scores."""
        if self._export is not None and "matcher" not in vars(self):
            return ExportedMatcher(self._export)
        from seesay.runs.torch_backend import TorchBackend

        return TorchBackend(self.matcher, self.recipe.matcher, self.device)

    @property
    def pretrained(self) -> bool:
        """True for shipped weights and models of other libraries, whose training is not recorded here."""
        return self.folder in shipped_runs()

    @property
    def title(self) -> str:
        """What tables and reports call it: the name of its folder."""
        return self.folder.name

    @property
    def facts(self) -> RunFacts:
        """What the run says of its inputs, without PyTorch if it was exported."""
        return self._export or self.recipe

    @property
    def regions(self) -> RegionSettings | None:
        """The regions that phrases are matched with; None for a run of whole images."""
        if self._export is None:
            return self.recipe.regions
        from seesay.recipes.schema import RegionSettings

        return RegionSettings(**self._export.regions) if self._export.regions is not None else None

    @property
    def max_words(self) -> int | None:
        """How many words of a sentence the matcher reads; None for all."""
        return self._export.max_words if self._export else self.recipe.matcher.max_words

    @cached_property
    def encoders(self) -> list[ImageEncoder]:
        """The image encoders that the recipe names.

        Raises:
            SeesayError: the run was trained on precomputed features, whose encoder is unknown.
        """
        return recipe_encoders(self.facts, self.device)

    @cached_property
    def _stores(self) -> Stores | None:
        """Feature stores of the image encoders, if there are any."""
        return opened_stores(self.encoders, stores_folder())

    @cached_property
    def fingerprint(self) -> str:
        """A hash of weights, vocabulary and preprocessing: vectors of two fingerprints never mix."""
        digest = hashlib.blake2b(digest_size=16)
        digest.update((self._export.weights if self._export else file_digest(self.folder / WEIGHTS)).encode())
        digest.update((self.folder / VOCABULARY).read_bytes())
        for encoder in self.encoders:
            digest.update(encoder.fingerprint.encode())
        if self.sentence_encoder is not None:
            digest.update(self.sentence_encoder.fingerprint.encode())
        return digest.hexdigest()

    @cached_property
    def dim(self) -> int:
        """Length of an embedding."""
        self._check_embeds()
        return self.backend.dim or int(self.embed_sentences(["a dog"]).shape[1])

    @cached_property
    def calibration(self) -> Calibration:
        """What makes standardised scores probabilities: fitted to the val split, or the usual one."""
        return Calibration.load(self.folder) or USUAL

    @property
    def embeds(self) -> bool:
        """True if the score of a pair is the inner product of two vectors, so that an index can be made."""
        return self.backend.embeds

    @property
    def asymmetric(self) -> bool:
        """True if queries and gallery items are embedded differently."""
        return self.backend.asymmetric

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
        """Embed many encoded images, (n, dim); a broken one has a zero row and its error.

        Features that training or measuring has stored are not computed again.
        """
        encoded = read_or_encode(self.encoders, self._stores, contents, names)
        vectors = self.embed_features(join_features(self.facts, encoded.arrays), query)
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
        if not self.embeds:
            return self.scores(self._features(images), self.prepare(sentences))  # type: ignore[arg-type]
        from seesay.metrics.inputs import as_array, refuse_nan

        rows = images if _are_vectors(images) else self.embed_images(images)  # type: ignore[arg-type]
        columns = sentences if _are_vectors(sentences) else self.embed_sentences(sentences)  # type: ignore[arg-type]
        left, right = as_array(rows, "images"), as_array(columns, "sentences")  # type: ignore[arg-type]
        for what, vectors in (("images", left), ("sentences", right)):
            if vectors.ndim != 2 or vectors.shape[1] != self.dim:
                raise SeesayError(
                    f"{what}: embeddings of shape (n, {self.dim}) are wanted, got {vectors.shape}."
                )
            refuse_nan(vectors, what)
        cosines = np.asarray(left, np.float32) @ np.asarray(right, np.float32).T
        return np.asarray(self.logit_scale * cosines + self.logit_bias, np.float32)

    def scores(self, features: Vectors, sentences: PreparedSentences, keep: bool = False) -> Vectors:
        """Score images, given as joined features (n, d), and m prepared sentences, (n, m).

        Args:
            features: (n, d).
            sentences: m of them.
            keep: for a pair matcher in PyTorch, show progress and cache the rows, so that a stopped scoring
                resumes.
        """
        if not len(features) or not len(sentences):
            return np.zeros((len(features), len(sentences)), np.float32)
        return self.backend.score_all(features, sentences, keep)

    def prepare(self, sentences: Sequence[str]) -> PreparedSentences:
        """Look up the word ids of sentences and run the sentence encoder."""
        return prepare_sentences(read_texts(sentences, "sentences"), self.vocabulary, self.sentence_encoder)

    def unknown_words(self, sentences: Sequence[str]) -> list[str]:
        """Return the words of sentences that mean nothing to the run, in lower case, each once, in order.

        A run that reads word ids knows those of its vocabulary. A sentence encoder reads any letters, and is
        taken to know frequent English words, too; of one from another library, which may know other
        languages, nothing is said.

        >>> import seesay
        >>> seesay.load("seesay-small").unknown_words(["a xyzzy dog", "Qwop!"])
        ['xyzzy', 'qwop']
        """
        if is_two_tower(self.facts.sentence_encoder or ""):
            return []
        return unknown_words(sentences, self.vocabulary, english=self.sentence_encoder is not None)

    def corrections(self, sentences: Sequence[str]) -> dict[str, str]:
        """Return the words that were probably meant by misspelt ones of sentences, in lower case.

        No word that is known to the run, or is English, is replaced.

        >>> import seesay
        >>> seesay.load("seesay-small").corrections(["A bicylce, a xyzzy"])
        {'bicylce': 'bicycle'}
        """
        unknown = self.unknown_words(sentences)
        return corrections(unknown, self.vocabulary, english=self.sentence_encoder is not None)

    def embed_features(self, features: Vectors, query: bool = False) -> Vectors:
        """Embed images given as joined features, (n, dim) from (n, d)."""
        self._check_embeds()
        if not len(features):
            return np.zeros((0, self.dim), np.float32)
        return self.backend.embed_images(features, query)

    def embed_prepared(self, sentences: PreparedSentences, query: bool = False) -> Vectors:
        """Embed prepared sentences, (m, dim)."""
        self._check_embeds()
        if not len(sentences):
            return np.zeros((0, self.dim), np.float32)
        return self.backend.embed_sentences(sentences, query)

    def _check_embeds(self) -> None:
        if not self.embeds:
            raise SeesayError(
                f"{self.name}: a pair matcher has no embeddings; it can re-rank another's results."
            )

    def _features(self, images: Sequence[ImageInput]) -> Vectors:
        """Encode images to joined features, (n, d); raise the error of a broken one."""
        encoded = encode_images(self.encoders, *read_images(images))
        return join_features(self.facts, encoded.checked())


def check_one_score(run: Run) -> None:
    """Check that a pair has one score, whichever of the two is the query.

    Raises:
        SeesayError: the run's matcher weighs its metrics by the query.
    """
    if run.asymmetric:
        raise SeesayError(
            f"{run.name}: its scores depend on whether the image or the sentence is the query; re-ranking "
            "needs one score a pair. Use the sum of the metrics (recipe gvse-sum), or do not re-rank."
        )


def recipe_encoders(facts: RunFacts, device: str | None = None) -> list[ImageEncoder]:
    """Load the image encoders of a recipe or run, on the default device if none is named.

    Raises:
        SeesayError: the recipe matches regions of images, or reads precomputed features.
    """
    if facts.regions is not None:
        raise SeesayError(
            f"Recipe '{facts.name}' matches phrases with regions of one image and embeds no whole images; "
            "use a run such as seesay-small for those."
        )
    if PRECOMPUTED in facts.encoders:
        raise SeesayError(
            "This run was trained on precomputed features: without their encoder it cannot take an image."
        )
    return [load_image_encoder(name, device or default_device()) for name in facts.encoders]


def array_dims(facts: RunFacts) -> tuple[int, ...]:
    """Return the widths of the arrays that a recipe's or run's image features are joined from."""
    return tuple(encoder.dims[name] for encoder in recipe_encoders(facts) for name in facts.arrays)


def join_features(facts: RunFacts, arrays: Sequence[Arrays]) -> Vectors:
    """Concatenate the encoders' arrays that a recipe or run names, (n, d)."""
    return np.concatenate([each[name] for each in arrays for name in facts.arrays], axis=1)


def shipped_runs() -> list[Path]:
    """Return the folders of the weights that come with seesay, by name."""
    return sorted(path.parent for path in (Path(str(files("seesay"))) / "weights").glob(f"*/{RECIPE}"))


def run_recipe(folder: Path) -> Recipe:
    """Read a run's recipe, and make the image encoders of the run's own available.

    Raises:
        SeesayError: it cannot be read, or the run lacks the weights of such an encoder.
    """
    from seesay.recipes.load import read_recipe

    recipe = read_recipe(folder / RECIPE)
    _adopt_encoders(recipe, folder)
    return recipe


def run_facts(name: str) -> RunFacts:
    """Read what a run says of its inputs, from its export if it has one.

    Raises:
        SeesayError: there is none, it cannot be read, or it lacks the weights of an encoder of its own.
    """
    if is_two_tower(name):
        return Run.load(name).facts
    folder = run_folder(name)
    return _run_export(folder) or run_recipe(folder)


def _run_export(folder: Path) -> Export | None:
    """Read a run's export, if it has one, and make the image encoders of the run's own available."""
    export = read_export(folder)
    if export is not None:
        _adopt_encoders(export, folder)
    return export


def _adopt_encoders(facts: RunFacts, folder: Path) -> None:
    """Make the encoders that a run brings available; raise a SeesayError if weights are missing."""
    use_networks_of(folder / NETWORKS)
    use_towers_of(folder)
    for encoder in facts.encoders:
        adopt_tuned(encoder, folder)


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
    library, colon, _ = name.partition(":")
    if colon and "/" not in library:
        TowerName.parse(name)  # no such library: says which there are
    raise SeesayError(
        f"{name}: no run there (no {RECIPE}), and no shipped weights of that name"
        f"{did_you_mean(name, shipped) or '.'} Shipped: {', '.join(shipped) or 'none'}."
    )


def _are_vectors(items: object) -> bool:
    """True for embeddings: nested numbers or an array of them; also for one vector, which is an error."""
    if isinstance(items, np.ndarray):
        return items.ndim <= 2 and items.dtype.kind not in "OUST"
    if (ndim := getattr(items, "ndim", None)) is not None:  # a tensor
        return bool(ndim <= 2)
    first = items[0] if isinstance(items, Sequence) and len(items) else None
    return isinstance(first, Sequence | float) and not isinstance(first, str | bytes)
