"""Subjects, which protocols measure: a split of a corpus with the scores of a run or another source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from seesay.errors import SeesayError
from seesay.metrics.bootstrap import RetrievalSample
from seesay.metrics.ranks import Ranks
from seesay.runs.scores import EmbeddingScores, Part, SplitScores, score_pairs, split_scores

if TYPE_CHECKING:
    from seesay.data.corpus import Corpus
    from seesay.runs.inputs import Inputs
    from seesay.runs.run import Run


class Subject:
    """Images and sentences of a split with their scores.

    Args:
        name: the name of the run, the files or the ensemble.
        split: the name of the split.
        corpus: the images and sentences that have scores, in the same order.
        scores: the scores of all pairs.
        about: additional entries of `about` in its results, see `Result`.
        notes: notes for its results.
        whole: the corpus with its train split, for protocols that count words in it.
    """

    run: Run | None = None

    def __init__(
        self,
        name: str,
        split: str,
        corpus: Corpus,
        scores: SplitScores | None,
        about: dict[str, JsonValue] | None = None,
        notes: Sequence[str] = (),
        whole: Corpus | None = None,
    ) -> None:
        self.name, self.split, self.corpus, self.whole = name, split, corpus, whole
        self.about, self.notes = about or {}, list(notes)
        self._scores = scores

    @property
    def scores(self) -> SplitScores:
        """The scores of all pairs."""
        assert self._scores is not None
        return self._scores

    @property
    def owners(self) -> NDArray[np.int64]:
        """For each sentence the row of its image, (m,)."""
        return self.corpus.image_of_sentence()

    @property
    def n_images(self) -> int:
        """The number of images with scores."""
        return len(self.corpus.images)

    def embeddings(self) -> EmbeddingScores:
        """Return the embeddings behind the scores.

        Raises:
            SeesayError: there are none.
        """
        if not isinstance(scores := self.scores, EmbeddingScores):
            raise SeesayError(
                f"{self.name}: the protocol compares embeddings, but these are scores of pairs."
            )
        return scores

    def pair_scores(self, images: NDArray[np.int64], sentences: NDArray[np.int64]) -> NDArray[np.floating]:
        """Return the scores (p,) of pairs, with the images as queries."""
        return self.scores.pairs(images, sentences)

    def ranks(self, images: Part, sentences: Part, own: NDArray[np.int64]) -> Ranks:
        """Rank a part of the split; `own` is for each of its sentences the row of its image in the part."""
        return self.scores.ranks(images, sentences, own)

    def retrieval_sample(
        self,
        images: Part = slice(None),
        sentences: Part = slice(None),
        own: NDArray[np.int64] | None = None,
        at: Sequence[int] = (),
    ) -> RetrievalSample:
        """Rank all of the split or a part, see `ranks`; `at` adds recalls, see `RetrievalSample`."""
        owners = self.owners if own is None else own
        return RetrievalSample(self.ranks(images, sentences, owners), owners, at)

    def train_texts(self) -> Sequence[str]:
        """Return the sentences of the train split.

        Raises:
            SeesayError: the corpus has none.
        """
        whole = self.whole or self.corpus
        if "train" not in {image.split for image in whole.images}:
            raise SeesayError(
                f"{whole.root}: has no train split, in which the protocol counts words; name the corpus "
                f"of training."
            )
        return whole.split("train").texts()


class RunSubject(Subject):
    """A split with a run, which scores whole images, or phrases with regions, when a protocol needs it.

    Args:
        run: the run.
        inputs: the split, prepared for the run.
        split: the name of the split.
        whole: see `Subject`.
        keep: True to cache the scores of all pairs, see `score_matrix`.
    """

    run: Run

    def __init__(
        self, run: Run, inputs: Inputs, split: str, whole: Corpus | None = None, keep: bool = False
    ) -> None:
        from seesay.runs.sentences import count_cut

        cut = count_cut(run.config.max_words, inputs.sentences)
        notes = []
        if cut.get("cut_sentences"):
            longer = f"Sentences longer than {cut['max_length']} words, which were cut"
            notes = [f"{longer}: {cut['cut_sentences']}."]
        super().__init__(run.title, split, inputs.corpus, None, {**cut}, notes, whole)
        self.run, self.inputs, self._keep = run, inputs, keep

    @cached_property
    def scores(self) -> SplitScores:
        """The scores of all pairs."""
        return split_scores(self.run, self.inputs, self._keep)

    @property
    def owners(self) -> NDArray[np.int64]:
        """For each sentence the row of its image, (m,)."""
        return self.inputs.image_of_sentence

    @property
    def n_images(self) -> int:
        """See `Subject`."""
        return len(self.inputs.features)

    def embeddings(self) -> EmbeddingScores:
        """See `Subject`."""
        self.run.dim  # noqa: B018 — says so if the run is a pair matcher, before all its pairs are scored
        return super().embeddings()

    def ranks(self, images: Part, sentences: Part, own: NDArray[np.int64]) -> Ranks:
        """See `Subject`; of a fold, a pair matcher scores only the pairs within it."""
        if self.run.embeds or "scores" in vars(self) or len(own) == len(self.owners):
            return super().ranks(images, sentences, own)
        read = self.inputs.sentences.take(np.arange(len(self.owners))[sentences])
        fold = replace(self.inputs, features=self.inputs.features[images], sentences=read)
        return split_scores(self.run, fold, self._keep).ranks(slice(None), slice(None), own)

    def pair_scores(self, images: NDArray[np.int64], sentences: NDArray[np.int64]) -> NDArray[np.floating]:
        """See `Subject`; only these pairs are scored, and each image and sentence is encoded once."""
        from seesay.progress import progress

        backend = self.run.backend
        kept, rows = np.unique(images, return_inverse=True)
        read, columns = np.unique(sentences, return_inverse=True)
        encoded = backend.encode_images(self.inputs.features[kept], query=True)
        texts = backend.encode_sentences(self.inputs.sentences.take(read))
        with progress("Scoring", len(rows), "pairs") as advance:
            return score_pairs(backend, encoded, texts, rows, columns, advance)
