"""The teacher of a distilled matcher: a trained run that says how well the pairs of a batch match."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seesay.data.corpus import Corpus
from seesay.errors import SeesayError
from seesay.matchers.base import EmbeddingMatcher
from seesay.runs.inputs import Inputs, split_inputs
from seesay.runs.run import Run
from seesay.training.concept_task import learned_from


@dataclass(frozen=True)
class Teacher:
    """An embedding matcher and the corpus's train split as it reads it."""

    matcher: EmbeddingMatcher
    data: Inputs

    @classmethod
    def of(cls, name: str, corpus: Corpus, pupil: Inputs) -> Teacher:
        """The run of that name as a teacher, for the train split that the `pupil` reads.

        Raises:
            SeesayError: there is no such run; it is no embedding matcher's, or reads other images, or was
                trained on another corpus, whose train split may hold this one's test images.
        """
        run = Run.load(name)
        if not isinstance(run.matcher, EmbeddingMatcher):
            raise SeesayError(f"Teacher '{run.name}' scores pairs; a teacher has to be an embedding matcher.")
        if not learned_from(run, corpus.split("train").texts()):
            raise SeesayError(
                f"Teacher '{run.name}' was trained on other sentences than those of {corpus.root}; name a "
                "run of that corpus with --set loss.teacher=RUN, or train without a teacher: "
                "--set 'loss={kind: contrastive, scale: 1.0}'."
            )
        data = split_inputs(run.recipe, corpus, "train", run.vocabulary, run.sentence_encoder)
        if not np.array_equal(data.image_of_sentence, pupil.image_of_sentence):
            raise SeesayError(
                f"Teacher '{run.name}' reads other images of {corpus.root} than those that are trained on."
            )
        return cls(run.matcher, data)

    @torch.no_grad()
    def scores(self, batch: tuple[NDArray[np.int64], NDArray[np.int64]], device: str) -> Tensor:
        """Scores (n, m) of the images and sentences at those positions, (n,) and (m,)."""
        images, sentences = (torch.from_numpy(part) for part in batch)
        texts = self.data.sentences.take(sentences).to(device)
        scores: Tensor = self.matcher(self.data.features[images].to(device), texts)
        return scores.float()
