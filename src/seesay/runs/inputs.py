"""A split of a corpus as inputs of a recipe's matcher; sentence vectors are cached."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from seesay.data.boxes import iou, jittered
from seesay.data.corpus import Corpus
from seesay.data.features import BoxFile, FeatureRows, RegionFiles, find_region_files
from seesay.device import default_device
from seesay.encoders.images.concepts import own_array
from seesay.encoders.images.encode import fill_stores, read_features
from seesay.encoders.proposals import NMS
from seesay.encoders.regions import (
    RegionFill,
    Regions,
    box_file_of,
    fill_regions,
    load_region_encoder,
    read_regions,
    region_features,
)
from seesay.encoders.sentences.base import (
    SentenceEncoder,
    fit_sentence_encoder,
    load_sentence_encoder,
    save_sentence_encoder,
)
from seesay.encoders.settings import PRECOMPUTED, EncoderSettings, role_of
from seesay.encoders.stores import ArrayStore, Encoding, fill, stores_folder
from seesay.errors import ImageError, SeesayError
from seesay.paths import cache_dir, file_beside
from seesay.progress import tell
from seesay.runs.config import RunConfig
from seesay.runs.prepare import PreparedSentences, number_words, recipe_encoders, rows_of_each
from seesay.runs.run import Run
from seesay.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from seesay.recipes.schema import Recipe, RegionSettings

NEAR = 0.7  # the IoU with the true region from which a region counts as positive
JITTERED = 9  # boxes near each true one; the paper has 10.7 positives per phrase, including the true one

_ROWS = 1 << 15  # sentences encoded at a time
_IMAGES = 1 << 10  # images whose features are checked or joined at a time


@dataclass(frozen=True)
class Inputs:
    """One split as inputs of a matcher. For phrases, it has regions instead of image features."""

    corpus: Corpus  # without broken images and their sentences; of phrases, all
    features: NDArray[np.floating]  # joined image features, (n, d), float16 if all are stored so
    sentences: PreparedSentences  # m of them
    image_of_sentence: NDArray[np.int64]  # for each sentence the row of its image, (m,)
    broken: list[ImageError]  # images that cannot be decoded
    image_dims: tuple[int, ...]  # widths of the concatenated arrays of features
    # For each image its proposals, then the true boxes of its phrases, then boxes near these if the recipe
    # learns from such; empty for a broken image.
    regions: Sequence[Regions] = ()
    proposals: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))  # of each image, (n,)
    # For each phrase the index of its true region in its image, (m,).
    true_region: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def of_first_images(self, count: int) -> Inputs:
        """Return the first `count` images with their sentences; phrases are not supported."""
        kept = self.image_of_sentence < count
        return replace(
            self,
            corpus=self.corpus.only(range(min(count, len(self.corpus.images)))),
            features=self.features[:count],
            sentences=self.sentences.take(np.flatnonzero(kept)),
            image_of_sentence=self.image_of_sentence[kept],
        )

    def region_features(
        self, image: int, chosen: slice | NDArray[np.int64], geometry: bool
    ) -> NDArray[np.float32]:
        """Return the matcher's features of the chosen regions of an image, (r, d).

        Raises:
            SeesayError: they contain NaN or infinity, as those of a file may.
        """
        boxes, features = self.regions[image]
        shown = self.corpus.images[image]
        found = region_features(features[chosen], boxes[chosen], shown.size, geometry)
        if not np.isfinite(found).all():
            raise SeesayError(f"{shown.name}: the features of its regions contain NaN or infinity.")
        return found


def split_inputs(
    recipe: Recipe | RunConfig,
    corpus: Corpus,
    split: str,
    vocabulary: Vocabulary,
    encoder: SentenceEncoder | None = None,
    run: Path | None = None,
) -> Inputs:
    """Read the features of a split from the store, encoding missing ones, and prepare its sentences.

    Features keep the files' half precision, and contiguous ones of a single array are memory-mapped: for
    113,000 images with 36 instances of 1,000 numbers, a copy in single precision takes 16 GB. `run` is the
    folder of the run, which may hold weights of its encoders.

    Raises:
        SeesayError: the split is empty, no image can be decoded, or the recipe does not fit a corpus of
            phrases.
    """
    part = corpus.split(split)
    of_regions: tuple[Sequence[Regions], NDArray[np.int64], NDArray[np.int64]] | tuple[()] = ()
    if corpus.has_boxes:
        part, fill, true_region = _regions(recipe, part, split, run)
        of_regions, errors = (fill.regions, fill.proposals, true_region), fill.errors
        features, image_dims = np.zeros((len(part.images), 0), np.float32), list[int]()
    else:
        features, kept, errors, image_dims = _image_features(recipe, part, run)
        part = part.only(kept)
        if not part.sentences:
            raise SeesayError(f"{corpus.root}: split '{split}' has no sentence with a usable image.")
    texts = prepare_texts(part.texts(), vocabulary, encoder)
    return Inputs(part, features, texts, part.image_of_sentence(), errors, tuple(image_dims), *of_regions)


def run_inputs(run: Run, corpus: Corpus, split: str) -> Inputs:
    """Read the features of a split and prepare its sentences for a run; see `split_inputs`."""
    return split_inputs(run.config, corpus, split, run.vocabulary, run.sentence_encoder, run.folder)


def _image_features(
    recipe: Recipe | RunConfig, part: Corpus, run: Path | None
) -> tuple[NDArray[np.floating], list[int], list[ImageError], list[int]]:
    """Return the features of usable images, their rows in the split, the errors of the others, and widths."""
    read = {each: found for each in recipe.encoders if (found := own_array(each, run)) is not None}
    own = {each: _own_rows(array, part) for each, (array, _) in read.items()}
    others = [each for each in recipe.encoders if each not in own]
    encoders = recipe_encoders(recipe, run, without=own)
    lacking = {i for _, rows, _ in own.values() for i, row in enumerate(rows) if row is None}
    errors = [ImageError(f"{part.images[i].name}: no features.") for i in sorted(lacking)]
    there = [i for i in range(len(part.images)) if i not in lacking]
    if not there:
        return np.zeros((0, 0), np.float32), [], errors, []
    stored: dict[EncoderSettings, list[NDArray[np.floating]]] = {}
    if encoders:
        images = [part.images[i] for i in there]
        if all(each.source is None for each in images) and (part.features is not None or _files(part)):
            raise SeesayError(
                f"{part.root}: this corpus has features but no images; name precomputed ones alone, "
                f"encoders=[{PRECOMPUTED}] or those of files."
            )
        report = fill_stores(encoders, stores_folder(), images)
        errors += report.errors
        there = [i for i, key in zip(there, report.keys, strict=True) if key is not None]
        keys = [key for key in report.keys if key is not None]
        if not keys:
            raise SeesayError(
                f"{part.root}: no image of split '{images[0].split}' can be used; the first: {errors[-1]}"
            )
        for settings, encoder, store in zip(others, encoders, report.stores, strict=True):
            stored[settings] = [read_features(encoder, store, keys, name) for name in recipe.arrays]
    columns = list[NDArray[np.floating]]()
    for each in recipe.encoders:
        if (known := stored.get(each)) is not None:
            columns += known
        elif (head := read[each][1]) is None:
            columns.append(_precomputed_features(own[each], _instances(recipe, each), there, part))
        else:
            given = _precomputed_features(own[each], head.instances or None, there, part)
            scores = head.scores_of(np.asarray(given, np.float32))
            columns += [scores[name] for name in recipe.arrays]
    features = columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1)
    return features, there, errors, [column.shape[1] for column in columns]


_OwnRows: TypeAlias = "tuple[NDArray[np.float32] | FeatureRows, Sequence[int | None], Path]"


def _own_rows(encoder: EncoderSettings, part: Corpus) -> _OwnRows:
    """Return an array of precomputed features, the row of each image (None for none), and where it lies."""
    if file := encoder.get("file"):
        path = file_beside(part.root, file)
        files, seen = RegionFiles([path]), set[int]()
        rows = [files.row(image.name) for image in part.images]
        for image, row in zip(part.images, rows, strict=True):
            if row is None:
                raise SeesayError(f"{path}: no row for image {image.name}; rows are found by their ids.")
            if row in seen:
                raise SeesayError(
                    f"{path}: the row of image {image.name} is another's, too; write whole names as ids."
                )
            seen.add(row)
        return files.features, rows, path
    if part.features is None:
        if beside := _files(part):
            raise SeesayError(
                f"{part.root}: there are {', '.join(beside)}; name the one to be read, "
                f"{{kind: {PRECOMPUTED}, file: {beside[0]}}}."
            )
        raise SeesayError(f"{part.root}: no precomputed features; name an encoder in the recipe.")
    return part.features, [image.row for image in part.images], part.root


def _files(part: Corpus) -> list[str]:
    """Return the names of the files of features in the folder of a corpus."""
    folder = file_beside(part.root, "")
    return [path.name for path in find_region_files(folder)] if folder.is_dir() else []


def _instances(recipe: Recipe | RunConfig, encoder: EncoderSettings) -> int | None:
    """Return how many instances of an image the matcher takes from a precomputed array; None for global ones.

    A matcher with other encoders, too, takes those with `role: instances` as instances.
    """
    if len(recipe.encoders) > 1 and role_of(encoder) != "instances":
        return None
    return recipe.instances if isinstance(recipe, RunConfig) else recipe.matcher.instances_per_image


def _precomputed_features(
    own: _OwnRows, instances: int | None, images: Sequence[int], part: Corpus
) -> NDArray[np.floating]:
    """Return the precomputed features of images that have a row each, (n, d).

    Those of regions, (n, r, d), are joined if `instances` are taken, and averaged otherwise.
    """
    features, of_image, place = own
    rows = [of_image[i] or 0 for i in images]
    if len(features.shape) == 3 and instances is None:  # all regions at once would take gigabytes
        given: NDArray[np.floating] = np.empty((len(rows), features.shape[2]), np.float32)
        for start in range(0, len(rows), _IMAGES):
            regions = features[rows[start : start + _IMAGES]]
            count = (regions != 0).any(axis=2).sum(axis=1, keepdims=True, dtype=np.float32)
            given[start : start + _IMAGES] = regions.sum(axis=1, dtype=np.float32) / np.maximum(count, 1)
    elif isinstance(features, FeatureRows):
        given = features.as_stored(rows)
    else:
        given = np.asarray(features[rows], np.float32)
    for start in range(0, len(given), _IMAGES):
        finite = np.isfinite(given[start : start + _IMAGES])
        if not finite.all():
            name = part.images[images[start + int(np.argwhere(~finite)[0, 0])]].name
            raise SeesayError(f"{place}: the features of image {name} contain NaN or infinity.")
    if instances is None:
        return given
    if given.ndim != 3 or given.shape[1] > instances:
        found = f"{given.shape[1]} regions" if given.ndim == 3 else "global features"
        raise SeesayError(
            f"{place}: {found} per image, but the matcher takes {instances} instances; "
            "set matcher.instances to N for features of regions (n, N, d)."
        )
    missing = instances - given.shape[1]
    padded = np.pad(given, ((0, 0), (0, missing), (0, 0))) if missing else given
    return padded.reshape(len(given), -1)


def _regions(
    recipe: Recipe | RunConfig, part: Corpus, split: str, run: Path | None
) -> tuple[Corpus, RegionFill, NDArray[np.int64]]:
    """Return the regions of each image, of a file or proposals and true boxes, and each phrase's true one.

    The corpus that is returned may lack phrases.
    """
    settings = recipe.region_settings if isinstance(recipe, RunConfig) else recipe.regions
    if settings is None:
        raise SeesayError(
            f"Recipe '{recipe.name}' matches whole images with sentences; {part.root} contains phrases, "
            f"which need a grounding recipe (ground-…)."
        )
    if (file := box_file_of(recipe.encoders[0], part.root)) is not None:
        return _given_regions(file, settings, part, split)
    boxes, owners = part.enclosing_boxes(), part.image_of_sentence()
    named, place = [], np.zeros(len(owners), np.int64)  # distinct true boxes, and the index of each phrase's
    for mine in rows_of_each(owners, len(part.images)):
        unique, inverse = np.unique(boxes[mine], axis=0, return_inverse=True)
        named.append(unique)
        place[mine] = inverse.reshape(-1)
    nms = NMS
    if split == "train":
        nms = settings.train_nms or NMS
        if settings.positives == "jittered":
            for i, (true, image) in enumerate(zip(named, part.images, strict=True)):
                near = (jittered(box, *image.size, JITTERED, NEAR) for box in true)
                named[i] = np.concatenate([true, *near])
    regions = load_region_encoder(recipe.encoders[0], default_device(), run)
    fill = fill_regions(regions, stores_folder(), part.images, named, settings.proposals, nms)
    if len(fill.errors) == len(part.images):
        raise SeesayError(f"{part.root}: no image of split '{split}' can be decoded; {fill.errors[0]}")
    return part, fill, fill.proposals[owners] + place


def _given_regions(
    file: BoxFile, settings: RegionSettings, part: Corpus, split: str
) -> tuple[Corpus, RegionFill, NDArray[np.int64]]:
    """Read the regions of each image from a file, and find the true region of each phrase among them.

    The true region is the box that overlaps the true box most. Phrases of the train split without a box that
    overlaps theirs by an IoU of NEAR cannot be learned; the corpus that is returned lacks them.
    """
    training = split == "train"
    fill = read_regions(file, part.images, settings.proposals, further=training)
    if len(fill.errors) == len(part.images):
        raise SeesayError(f"{file.path}: no boxes of any image of split '{split}'; {fill.errors[0]}")
    truths = part.enclosing_boxes()
    region, overlap = np.zeros(len(truths), np.int64), np.zeros(len(truths))
    for mine, regions in zip(
        rows_of_each(part.image_of_sentence(), len(part.images)), fill.regions, strict=True
    ):
        if len(mine) and len(regions.boxes):
            overlaps = iou(regions.boxes, truths[mine])
            region[mine], overlap[mine] = overlaps.argmax(axis=0), overlaps.max(axis=0)
    kept = overlap >= NEAR
    if not training or kept.all():
        return part, fill, region
    if not kept.any():
        raise SeesayError(
            f"{file.path}: no phrase of split 'train' has a box with an IoU of {NEAR} or more with its own; "
            "are they x1 y1 x2 y2 in pixels of the images?"
        )
    tell(
        f"{file.path}: {(~kept).sum():,} of {len(kept):,} phrases of split 'train' are left out, as no box "
        f"has an IoU of {NEAR} with theirs; true boxes may follow the first {settings.proposals} of an image."
    )
    return replace(part, sentences=tuple(compress(part.sentences, kept))), fill, region[kept]


def fitted_sentence_encoder(
    recipe: Recipe, texts: Sequence[str], images: NDArray[np.int64]
) -> SentenceEncoder | None:
    """Fit the recipe's sentence encoder on texts, or load it from the cache; None if the recipe has none.

    `images` is the row of the image of each text, (m,).
    """
    settings = recipe.sentence_encoder
    if settings is None:
        return None
    file = Path(settings.get("file"))
    changed = file.stat().st_mtime_ns if file.is_file() else 0
    of_images = hashlib.blake2b(images.tobytes(), digest_size=16).hexdigest()
    what = f"{settings.title} {recipe.sentence_dim} v2 {changed} {of_images}"
    folder = cache_dir() / "text" / _digest(what, texts)
    if folder.is_dir():
        with suppress(SeesayError):  # damaged: fitted again
            return load_sentence_encoder(settings, folder)
    encoder = fit_sentence_encoder(settings, texts, recipe.sentence_dim, images)
    folder.mkdir(parents=True, exist_ok=True)
    save_sentence_encoder(encoder, folder)
    return encoder


def prepare_texts(
    texts: Sequence[str], vocabulary: Vocabulary, encoder: SentenceEncoder | None
) -> PreparedSentences:
    """Look up the word ids of texts and, if there is a sentence encoder, their vectors."""
    return number_words(texts, vocabulary, sentence_vectors(encoder, texts) if encoder else None)


def sentence_vectors(encoder: SentenceEncoder, texts: Sequence[str]) -> NDArray[np.float32]:
    """Return the vectors of texts, (m, dim), from the store of arrays or newly encoded.

    If contiguous, they are memory-mapped, copy on write: 160,000 sentences of 6,000 numbers are 3.8 GB.
    """
    if not texts:
        return np.zeros((0, encoder.dim), np.float32)
    label = f"sentences {encoder.stored_as}"
    folder = stores_folder() / hashlib.blake2b(label.encode(), digest_size=8).hexdigest()
    store = ArrayStore(folder, {"vectors": ("<f4", encoder.dim)})
    parts = [texts[start : start + _ROWS] for start in range(0, len(texts), _ROWS)]
    encoding = Encoding[Sequence[str], Sequence[str]](
        read=lambda part: (_digest(label, part), part),
        prepare=lambda part, _: [part],
        encode=lambda _, some: [{"vectors": encoder.encode(part)} for part in some],
        uses_all_cores=True,
    )
    filled = fill("Sentences", parts, [store], encoding, "parts")
    return store.read([key for key in filled.keys if key], "vectors")


def _digest(what: str, texts: Sequence[str]) -> str:
    digest = hashlib.blake2b(what.encode(), digest_size=16)
    for text in texts:
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()
