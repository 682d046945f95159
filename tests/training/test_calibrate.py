"""Probabilities fitted to a split: against plain loops over its queries."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from seesay.errors import SeesayError
from seesay.protocols.subject import RunSubject
from seesay.runs.calibration import Calibration
from seesay.text.vocabulary import Vocabulary
from seesay.training.summarize import fit_calibration
from tests.protocols.drawn import Embedding, Pairs, run_subject

NOUNS = ("dog", "cat", "horse", "car", "tree", "boat", "ball", "house", "chair", "bird", "lake", "shirt")


def subject(folder: Path, matcher: Embedding | Pairs | None = None) -> RunSubject:
    draw = np.random.default_rng(0)
    texts = [f"a {a} and the {b}" for a, b in draw.choice(NOUNS, (30, 2))]
    texts[3] = "Is  it there?"
    texts[5] = f" {texts[4].upper()}"
    vocabulary = Vocabulary(["a", "and", "the", *NOUNS])
    return run_subject(
        matcher or Embedding(), texts, [i // 2 for i in range(30)], 15, folder, vocabulary=vocabulary
    )


@pytest.mark.parametrize("matcher", [Embedding, lambda: Embedding(asymmetric=True), Pairs])
def test_sentences_and_nouns_are_fitted_to_the_images_that_are_known(tmp_path: Path, matcher) -> None:
    about = subject(tmp_path, matcher())
    found = fit_calibration(about)
    texts = [" ".join(text.lower().split()) for text in about.corpus.texts()]
    shown = [{noun for text in texts[2 * i : 2 * i + 2] for noun in NOUNS if noun in text} for i in range(15)]
    scores = about.scores.by_direction()[1]
    of_sentences, of_nouns = [], []
    for text in dict.fromkeys(texts):
        mine = {noun for noun in NOUNS if noun in text}
        right = [text in texts[2 * i : 2 * i + 2] for i in range(15)]
        if mine and not all(mine & others for others in shown):
            of_sentences += [
                (scores[i, texts.index(text)], right[i]) for i in range(15) if right[i] or not mine & shown[i]
            ]
    names = [noun for noun in NOUNS if 5 <= sum(noun in others for others in shown) < 15]
    assert names
    for noun in names:
        of_noun = about.run.score_prepared(about.inputs.features, about.run.prepare([noun]))[:, 0]
        of_nouns += [(of_noun[i], noun in shown[i]) for i in range(15)]
    for fitted, known in ((found.of_sentences, of_sentences), (found.of_words, of_nouns)):
        values, outcomes = zip(*known, strict=True)
        expected = Calibration.fit(values, outcomes, np.full(len(values), 1e4 / len(values)))
        assert fitted.probabilities(values) == pytest.approx(expected.probabilities(values), abs=1e-4)
        chances = fitted.probabilities(values)
        assert np.mean((chances - outcomes) ** 2) < np.mean((chances**0.1 - outcomes) ** 2)


def test_a_split_without_nouns_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SeesayError, match="no sentence of split 'test' has a noun"):
        fit_calibration(run_subject(Embedding(), ["is it", "are they there"], [0, 1], 2, tmp_path))


def test_nan_is_an_error(tmp_path: Path) -> None:
    matcher = Embedding()
    matcher.table.data[3] = torch.nan
    with pytest.raises(SeesayError, match="NaN"):
        fit_calibration(subject(tmp_path, matcher))
