"""Image-sentence retrieval as a training task, and the choice of a recipe's task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from seesay.data.corpus import Corpus
from seesay.data.summary import shared_sentences
from seesay.device import fits
from seesay.encoders.sentences.base import SentenceEncoder
from seesay.errors import SeesayError
from seesay.losses.base import Batch, Positions
from seesay.matchers.base import EmbeddingMatcher, Matcher
from seesay.matchers.sentences import Sentences
from seesay.protocols.base import Result
from seesay.protocols.evaluate import measure_inputs
from seesay.recipes.schema import Recipe
from seesay.runs.inputs import Inputs, run_inputs, split_inputs
from seesay.runs.load import load_run
from seesay.runs.run import Run
from seesay.runs.summary import Size
from seesay.samplers import SAMPLERS
from seesay.text.vocabulary import Vocabulary
from seesay.training.concept_task import ConceptTask, with_held_out_concepts
from seesay.training.phrase_task import PhraseTask
from seesay.training.task import Task
from seesay.training.words import learned_words

_MEASURED_AT_ONCE = 512  # images of val: the decoder's logits take memory
_MANY = 0.1  # of the train sentences; Flickr8k shares 1 %
_PAIRS = 4096  # passed at a time to what is fitted to all pairs


class TrainImages:
    """Features of all images (n, d), in half or single precision, from which mini-batches are taken.

    Copying the rows of each batch to a GPU takes longer than a small matcher's step, so all are copied once.
    """

    def __init__(self, features: NDArray[np.floating]) -> None:
        self._features = torch.from_numpy(np.asarray(features))

    def take(self, rows: NDArray[np.int64], device: str) -> Tensor:
        """Return the features (b, d) of images."""
        if self._features.device.type == "cpu" and fits(device, self._features.nbytes):
            self._features = self._features.to(device)
        return self._features[torch.from_numpy(rows).to(self._features.device)].to(device).float()


class Teacher:
    """A trained embedding matcher with its inputs of the train split that the student reads.

    Raises:
        SeesayError: the run does not exist, has no embedding, reads other images, or was trained on another
            corpus, whose train split may contain this one's test images.
    """

    def __init__(self, name: str, corpus: Corpus, student: Inputs) -> None:
        run = load_run(name)
        if not isinstance(run.matcher, EmbeddingMatcher):
            raise SeesayError(f"Teacher '{run.name}': a pair matcher has no embeddings; name another run.")
        texts = corpus.split("train").texts()
        if run.recipe.corpus and learned_words(run.recipe, texts)[0].words != run.vocabulary.words:
            raise SeesayError(
                f"Teacher '{run.name}' was trained on other sentences than those of {corpus.root}; name a "
                "run of that corpus as loss.teacher=RUN, or train without a teacher: "
                "loss={kind: contrastive, scale: 1.0}."
            )
        self.data = run_inputs(run, corpus, "train")
        if not np.array_equal(self.data.image_of_sentence, student.image_of_sentence):
            raise SeesayError(
                f"Teacher '{run.name}' reads other images of {corpus.root} than the student does."
            )
        self.fingerprint, self.matcher = run.fingerprint, run.matcher
        self.images = TrainImages(self.data.features)

    @torch.no_grad()
    def scores(self, batch: Batch) -> Tensor:
        """Score the images and sentences of a mini-batch of the train split, (n, m)."""
        assert batch.positions is not None
        (images, sentences), device = batch.positions, str(batch.image_ids.device)
        texts = self.data.sentences.take(sentences).to_tensors(device)
        scores: Tensor = self.matcher(self.images.take(images, device), texts)
        return scores.float()


@dataclass(frozen=True)
class SharedTexts:
    """Which texts the images of a split carry, where several images carry the same."""

    carried: sparse.csr_array  # the texts of each image, (images, texts)
    text_of_sentence: NDArray[np.int64]  # (m,)
    sentences: int  # the number of those whose text several images carry

    @classmethod
    def of(cls, part: Corpus, wanted: bool | None) -> SharedTexts | None:
        """Return the texts of a split; None if none is shared, or they are not `wanted`.

        By default (None) they are wanted if more than a tenth of the sentences are shared.
        """
        sentences = int((shared_sentences(part) or {}).get("sentences", 0))
        if not sentences or not (sentences > _MANY * len(part.sentences) if wanted is None else wanted):
            return None
        owners, texts = part.image_of_sentence(), part.text_numbers()
        shape = len(part.images), int(texts.max()) + 1
        carried = sparse.csr_array((np.ones(len(texts), bool), (owners, texts)), shape)
        return cls(carried, texts, sentences)

    def of_batch(self, batch: Positions) -> Tensor:
        """Return whether image i of a mini-batch carries the text of its sentence j, (n, n)."""
        images, sentences = batch
        return torch.from_numpy(self.carried[images][:, self.text_of_sentence[sentences]].toarray())


class SentenceTask(Task):
    """Matching whole images with the sentences that describe them.

    Attributes:
        vocabulary: the words that the matcher reads.
        encoder: the sentence encoder, if the matcher reads vectors.
        images: the features of the train split.
        corpus: with all of its splits.
        shared: which image carries which text, if texts of several images are positives of each.
        progress: 0 in the first epoch, 1 in the last.
    """

    def __init__(
        self,
        recipe: Recipe,
        data: Inputs,
        val: Inputs,
        vocabulary: Vocabulary,
        encoder: SentenceEncoder | None,
        corpus: Corpus,
    ) -> None:
        super().__init__(recipe, data, val)
        self.vocabulary, self.encoder, self.corpus = vocabulary, encoder, corpus
        self.images, self.progress = TrainImages(data.features), 0.0
        self.shared = SharedTexts.of(data.corpus, recipe.shared_sentences)
        for term in self.terms:
            term.begin(self)

    def sizes(self) -> tuple[Size, Size]:
        """See `Task`; also count the sentences that are positives of several images."""
        train, val = super().sizes()
        return train if self.shared is None else train | {"shared_sentences": self.shared.sentences}, val

    def teacher(self, run: str) -> Teacher:
        """Load a run whose scores a term learns from."""
        return Teacher(run, self.corpus, self.data)

    def batches(self, epoch: int) -> Sequence[Positions]:
        """Return the mini-batches of an epoch: positions of images and of their sentences."""
        recipe = self.recipe
        for term in self.terms:
            term.begin_epoch(recipe.seed, epoch)
        sampler = SAMPLERS[recipe.sampler]
        batches = list(sampler(self.data.image_of_sentence, recipe.batch_size, recipe.seed, epoch))
        self.progress = (epoch - 1) / max(recipe.schedule.epochs_of(len(batches)) - 1, 1)
        return batches

    def drawn(self, batch: Positions, device: str, features: Tensor | None = None) -> Batch:
        """Return the images and sentences of a mini-batch; words are left out at random."""
        images = self.images.take(batch[0], device) if features is None else features
        sentences = self.data.sentences.take(batch[1]).to_tensors(device)
        return Batch(
            images,
            sentences.with_unknown(self.recipe.word_dropout),
            torch.from_numpy(batch[0]).to(device),
            all_words=sentences,
            shared=None if self.shared is None else self.shared.of_batch(batch).to(device),
            positions=batch,
            progress=self.progress,
        )

    def pairs(self) -> Iterator[tuple[Tensor, Sentences]]:
        """Iterate over all sentences of the train split with their images' features, in batches."""
        for start in range(0, len(self.data.sentences), _PAIRS):
            images = self.data.image_of_sentence[start : start + _PAIRS]
            sentences = self.data.sentences.take(np.arange(start, start + len(images)))
            yield torch.from_numpy(self.data.features[images]).float(), sentences.to_tensors()

    def measure(self, run: Run) -> Result:
        """Measure the val split, or `val_images` of it."""
        count = self.recipe.val_images
        val = self.val if count is None else self.val.of_first_images(count)
        return measure_inputs(run, val, "val")

    def metrics(self, run: Run) -> dict[str, float]:
        """Return the matcher's own metrics of the first sentence of each val image."""
        if not isinstance(run.matcher, Matcher):
            return {}
        images, first = np.unique(self.val.image_of_sentence, return_index=True)
        total: dict[str, float] = {}
        for some in np.array_split(np.arange(len(images)), 1 + len(images) // _MEASURED_AT_ONCE):
            features = torch.from_numpy(self.val.features[images[some]]).float().to(run.device)
            sentences = self.val.sentences.take(first[some]).to_tensors(run.device)
            for name, value in run.matcher.metrics(features, sentences).items():
                total[name] = total.get(name, 0.0) + value * len(some) / len(images)
        return total


def task_for(
    recipe: Recipe,
    corpus: Corpus,
    vocabulary: Vocabulary,
    encoder: SentenceEncoder | None,
    run: Path | None = None,
) -> Task:
    """Create the recipe's task on a corpus, encoding missing features.

    `run` is the folder of the run that is trained, which may hold weights of its image encoders.

    Raises:
        SeesayError: the recipe is for another kind of corpus, or a split has nothing that can be used.
    """
    for split in ("train", "val"):
        corpus.split(split)  # raises an error if it is missing, before images are encoded
    train, val = (split_inputs(recipe, corpus, split, vocabulary, encoder, run) for split in ("train", "val"))
    if corpus.has_boxes:
        return PhraseTask(recipe, train, val)
    if recipe.matcher.predicts_concepts:
        return ConceptTask(recipe, train, val, vocabulary)
    train = with_held_out_concepts(recipe, train, run)
    return SentenceTask(recipe, train, val, vocabulary, encoder, corpus)
