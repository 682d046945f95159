"""Subjects, which protocols measure: a split of a corpus with scores from a run or another source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from seesay.arrays import Ints
from seesay.errors import SeesayError
from seesay.metrics.bootstrap import RetrievalSample
from seesay.metrics.ranks import Ranks
from seesay.progress import progress
from seesay.runs.scores import EmbeddingScores, Matrix, MatrixScores, Selection, SplitScores
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
        scores: the scores of all pairs.
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
        scores: SplitScores,
        about: dict[str, JsonValue] | None = None,
        notes: Sequence[str] = (),
        whole: Corpus | None = None,
    ) -> None:
        self.name, self.split, self.corpus, self.whole = name, split, corpus, whole
        self.scores, self.about, self.notes = scores, about or {}, list(notes)

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
        if (found := self.scores.embeddings()) is None:
            raise SeesayError(
                f"{self.name}: the protocol compares embeddings, but these are scores of pairs."
            )
        return found

    def retrieval_sample(
        self,
        images: Selection = slice(None),
        sentences: Selection = slice(None),
        own: NDArray[np.int64] | None = None,
        at: Sequence[int] = (),
    ) -> RetrievalSample:
        """Rank the split or a part of it, see `SplitScores.ranks`; `at` adds R@K of further K."""
        owners = self.owners if own is None else own
        return RetrievalSample(self.scores.ranks(images, sentences, owners), owners, at)

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


class RunScores(SplitScores):
    """The scores of a run, computed when they are needed.

    Args:
        run: an embedding or a pair matcher.
        inputs: the split, prepared for the run.
        long: the split is scored once and may take minutes: show progress, and prefer PyTorch.
    """

    def __init__(self, run: Run, inputs: Inputs, long: bool = False) -> None:
        self._run, self._inputs, self._long = run, inputs, long
        self._whole: MatrixScores | EmbeddingScores | None = None

    def whole(self) -> MatrixScores | EmbeddingScores:
        """Return the scores of all pairs, or the embeddings behind them."""
        if self._whole is None:
            self._whole = self._of(self._inputs)
        return self._whole

    def ranks(self, images: Selection, sentences: Selection, own: Ints) -> Ranks:
        """See `SplitScores`; of a fold, a pair matcher scores only the pairs within it."""
        inputs = self._inputs
        if self._run.embeds or self._whole is not None or len(own) == len(inputs.sentences):
            return self.whole().ranks(images, sentences, own)
        read = inputs.sentences.take(np.arange(len(inputs.sentences))[sentences])
        fold = self._of(replace(inputs, features=inputs.features[images], sentences=read))
        return fold.ranks(slice(None), slice(None), own)

    def by_direction(self) -> tuple[Matrix, Matrix]:
        """See `SplitScores`."""
        return self.whole().by_direction()

    def embeddings(self) -> EmbeddingScores | None:
        """See `SplitScores`.

        Raises:
            SeesayError: the run is a pair matcher.
        """
        self._run.dim  # noqa: B018 — raises it, before all pairs are scored
        return self.whole().embeddings()

    def _of(self, inputs: Inputs) -> MatrixScores | EmbeddingScores:
        run, features, sentences = self._run, inputs.features, inputs.sentences
        if not run.embeds:
            if not self._long:
                return MatrixScores(run.score_prepared(features, sentences))
            run.prefer_pytorch()
            with progress("Scoring", len(features) * len(sentences), "pairs") as advance:
                return MatrixScores(run.score_prepared(features, sentences, advance))
        rows, columns = run.embed_features(features), run.embed_prepared(sentences)
        if not run.asymmetric:
            return EmbeddingScores(rows, columns)
        queries = run.embed_features(features, query=True), run.embed_prepared(sentences, query=True)
        return EmbeddingScores(rows, columns, *queries)


class RunSubject(Subject):
    """A split with a run, whose scores of whole images or regions are computed when a protocol needs them.

    Args:
        run: the run.
        inputs: the split, prepared for the run.
        split: the name of the split.
        whole: see `Subject`.
        long: see `RunScores`.
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
        scores = RunScores(run, inputs, long)
        super().__init__(run.title, split, inputs.corpus, scores, {**cut}, notes, whole)
        self.run, self.inputs = run, inputs
