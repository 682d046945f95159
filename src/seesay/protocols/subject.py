"""Subjects, which protocols measure: a split of a corpus with scores from a run or another source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from pydantic import JsonValue

from seesay.arrays import Ints
from seesay.errors import SeesayError
from seesay.metrics.bootstrap import RetrievalSample
from seesay.metrics.ranks import Ranks
from seesay.progress import progress
from seesay.runs.scores import Embeddings, Matrix, Scores, Selection
from seesay.runs.sentences import count_cut

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
        scores: the scores of all pairs, or what computes them when they are needed.
        about: additional entries for `about` of its results, see `Result`.
        notes: notes for its results.
        whole: the corpus with its train split, for protocols that count words in it.
    """

    run: Run | None = None

    def __init__(
        self,
        name: str,
        split: str,
        corpus: Corpus,
        scores: Scores | Callable[[], Scores],
        about: dict[str, JsonValue] | None = None,
        notes: Sequence[str] = (),
        whole: Corpus | None = None,
    ) -> None:
        self.name, self.split, self.corpus, self.whole = name, split, corpus, whole
        self._scores, self.about, self.notes = scores, about or {}, list(notes)

    @property
    def owners(self) -> Ints:
        """For each sentence the row of its image, (m,)."""
        return self.corpus.image_of_sentence()

    @property
    def n_images(self) -> int:
        """The number of images with scores."""
        return len(self.corpus.images)

    @cached_property
    def scores(self) -> Scores:
        """The scores of all pairs."""
        return self._scores() if callable(self._scores) else self._scores

    def sentence_vectors(self) -> Matrix:
        """Return the embeddings of the sentences, (m, d).

        Raises:
            SeesayError: these are scores of pairs.
        """
        if not isinstance(found := self.scores.image_queries, Embeddings):
            raise SeesayError(
                f"{self.name}: the protocol compares embeddings, but these are scores of pairs."
            )
        return found.sentences

    def retrieval_sample(
        self,
        images: Selection = slice(None),
        sentences: Selection = slice(None),
        own: Ints | None = None,
    ) -> RetrievalSample:
        """Rank the split or a part of it, see `Scores.ranks`."""
        owners = self.owners if own is None else own
        return RetrievalSample(self._ranks(images, sentences, owners), owners)

    def _ranks(self, images: Selection, sentences: Selection, own: Ints) -> Ranks:
        return self.scores.ranks(images, sentences, own)

    def train_texts(self) -> Sequence[str]:
        """Return the sentences of the train split.

        Raises:
            SeesayError: the corpus has none.
        """
        whole = self.whole or self.corpus
        if "train" not in whole.splits:
            raise SeesayError(
                f"{whole.root}: has no train split, in which the protocol counts words; name the corpus "
                f"of training."
            )
        return whole.split("train").texts()


class RunSubject(Subject):
    """A split with a run, whose scores of whole images or regions are computed when a protocol needs them.

    Args:
        run: the run.
        inputs: the split, prepared for the run.
        split: the name of the split.
        whole: see `Subject`.
        long: the split is scored once and may take minutes: show progress, and prefer PyTorch.
    """

    run: Run

    def __init__(
        self, run: Run, inputs: Inputs, split: str, whole: Corpus | None = None, long: bool = False
    ) -> None:
        cut = count_cut(run.config.max_words, inputs.sentences)
        notes = []
        if cut.get("cut_sentences"):
            longer = f"Sentences longer than {cut['max_length']} words, which were cut"
            notes = [f"{longer}: {cut['cut_sentences']}."]
        if broken := inputs.broken:
            first = "; ".join(map(str, broken[:3]))
            notes.append(f"Images that cannot be read, which were left out: {len(broken)} ({first}).")
        super().__init__(
            run.title, split, inputs.corpus, lambda: run_scores(run, inputs, long), {**cut}, notes, whole
        )
        self.run, self.inputs, self._long = run, inputs, long

    def sentence_vectors(self) -> Matrix:
        """See `Subject`."""
        return self.run.embed_prepared(self.inputs.sentences)

    def _ranks(self, images: Selection, sentences: Selection, own: Ints) -> Ranks:
        """Rank a part of the split; a pair matcher scores only the pairs within it."""
        if self.run.embeds or "scores" in vars(self) or len(own) == len(self.owners):
            return super()._ranks(images, sentences, own)
        inputs = self.inputs
        read = inputs.sentences.take(np.arange(len(inputs.sentences))[sentences])
        part = replace(inputs, features=inputs.features[images], sentences=read)
        return run_scores(self.run, part, self._long).ranks(slice(None), slice(None), own)


def run_scores(run: Run, inputs: Inputs, long: bool = False) -> Scores:
    """Score all images and sentences of a prepared split; see `RunSubject` for `long`."""
    features, sentences = inputs.features, inputs.sentences
    if not run.embeds:
        if not long:
            return Scores(run.score_prepared(features, sentences))
        run.prefer_pytorch()
        with progress("Scoring", len(features) * len(sentences), "pairs") as advance:
            return Scores(run.score_prepared(features, sentences, advance))
    rows, columns = run.embed_features(features), run.embed_prepared(sentences)
    if not run.asymmetric:
        return Scores(Embeddings(rows, columns))
    return Scores(
        Embeddings(run.embed_features(features, query=True), columns),
        Embeddings(rows, run.embed_prepared(sentences, query=True)),
    )
