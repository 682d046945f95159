"""Queries without an answer: figures against plain loops, and what must not change them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seesay.errors import SeesayError
from seesay.metrics import auc
from seesay.protocols.base import Options
from seesay.protocols.evaluate import measure
from seesay.protocols.no_match import (
    LOST,
    FirstAnswers,
    ToldApartSample,
    asked_twice,
    first_answers,
    fit_calibration,
    queries_of,
)
from seesay.protocols.subject import RunSubject
from seesay.runs.calibration import (
    FITS,
    Calibration,
    ScoreCalibration,
    chances,
    unrelated_sentences,
    usual_unit,
)
from seesay.text.vocabulary import Vocabulary
from tests.protocols.drawn import Embedding, Pairs, corpus_of, flat, run_subject

NOUNS = ("dog", "cat", "horse", "car", "tree", "boat", "ball", "house", "chair", "bird", "lake", "shirt")


def subject(folder: Path, matcher: Embedding | Pairs | None = None, seed: int = 0) -> RunSubject:
    draw = np.random.default_rng(seed)
    texts = [f"a {a} and the {b}" for a, b in draw.choice(NOUNS, (30, 2))]
    vocabulary = Vocabulary(["a", "and", "the", *NOUNS])
    return run_subject(
        matcher or Embedding(), texts, [i // 2 for i in range(30)], 15, folder, vocabulary=vocabulary
    )


def test_right_answers_and_related_images() -> None:
    texts = [
        "A dog runs.",
        "a  dog runs.",
        "Two dogs and a cat",
        "a red car",
        "Is it there?",
        "a car, a dog, a cat",
    ]
    corpus = corpus_of([0, 1, 2, 3, 3, 4], 5, texts)
    found = {
        query.column: (query.right.tolist(), query.related.tolist())
        for query in queries_of(corpus, corpus.image_of_sentence(), 5)
    }
    assert found == {
        0: ([True, True, False, False, False], [True, True, True, False, True]),
        2: ([False, False, True, False, False], [True, True, True, False, True]),
        3: ([False, False, False, True, False], [False, False, False, True, True]),
    }


@pytest.mark.parametrize("matcher", [Embedding, lambda: Embedding(asymmetric=True), Pairs])
def test_figures_against_loops(tmp_path: Path, matcher) -> None:
    about = subject(tmp_path, matcher())
    found = flat(measure(about, "no-match"))
    run, scores = about.run, about.scores.by_direction()[1]
    unrelated = run.prepare(unrelated_sentences())
    if run.embeds:
        reached = run.embed_features(about.inputs.features) @ run.embed_prepared(unrelated, query=True).T
    else:
        reached = run.score_prepared(about.inputs.features, unrelated)
    unit = usual_unit(reached)
    present, absent, told, outcomes = [], [], [], []
    queries = list(queries_of(about.corpus, about.owners, about.n_images))
    for query in queries:
        column = np.asarray(scores[:, query.column], np.float64)
        for found_there, into in ((column, present), (column[~query.related], absent)):
            [best] = chances([found_there.max()], found_there, len(found_there), unit)
            into.append(best)
        first = int(column.argmax())
        if query.right[first] or not query.related[first]:
            told.append(present[-1])
            outcomes.append(query.right[first])
        told.append(absent[-1])
        outcomes.append(False)
    values = np.array(present + absent)
    assert found["AUC"] == pytest.approx(
        100 * auc(values, [True] * len(present) + [False] * len(absent)), abs=1e-3
    )
    threshold = sorted(present)[int(LOST / 100 * len(present))]
    assert found["recognised"] == pytest.approx(100 * np.mean(np.array(absent) < threshold), abs=1e-3)
    for name, some in (("reported", absent), ("false alarms", present)):
        assert found[name] == pytest.approx(100 * np.mean(np.array(some) < FITS), abs=1e-3)
    error = 0.0
    for low in range(10):
        inside = [low <= 10 * chance < low + 1 for chance in told]
        error += abs(sum(c - o for c, o, there in zip(told, outcomes, inside, strict=True) if there))
    assert found["ECE"] == pytest.approx(100 * error / len(told), abs=1e-3)
    assert (found["images"], found["queries"]) == (15, len(queries))


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1))
def test_weights_count_queries_as_often(seed: int) -> None:
    draw = np.random.default_rng(seed)
    q = int(draw.integers(2, 30))
    present, absent = draw.uniform(0.2, 1, q).round(1), draw.uniform(0, 0.8, q).round(1)
    right, images = draw.choice([0.0, 1.0, np.nan], q), draw.integers(0, 4, q)
    images = np.unique(images, return_inverse=True)[1]
    samples = FirstAnswers(present, absent, right, images).samples()
    weights = draw.integers(0, 3, (1, samples[0].size))
    if not weights[0, images].any():
        return
    often = np.repeat(np.arange(q), weights[0, images])
    repeated = FirstAnswers(present[often], absent[often], right[often], images[often]).samples()
    plain = np.ones((1, repeated[0].size), np.int64)
    for sample, again in zip(samples, repeated, strict=True):
        assert sample.metrics(weights) == pytest.approx(again.metrics(plain), nan_ok=True)


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), better=st.floats(0, 0.5))
def test_auc_is_between_chance_and_perfect(seed: int, better: float) -> None:
    draw = np.random.default_rng(seed)
    absent = draw.uniform(0, 0.25, 40)
    images = np.arange(40)

    def figures(present: np.ndarray) -> list[float]:
        sample = ToldApartSample(present, absent, images)
        return sample.metrics(np.ones((1, 40), np.int64))[0].tolist()

    assert figures(absent)[0] == pytest.approx(50)
    assert figures(absent + better)[0] >= 50
    everything = figures(absent.max() + 0.1 + draw.uniform(0, 0.5, 40))
    assert everything == [100, 100]


def test_fitted_probabilities_are_calibrated(tmp_path: Path) -> None:
    about = subject(tmp_path)
    calibration = fit_calibration(about)
    about.run.update(calibration=calibration)
    fitted = flat(measure(about, "no-match"))
    about.run.update(calibration=ScoreCalibration(Calibration(5, 3), Calibration(5, 3)))
    assert fitted["ECE"] < flat(measure(about, "no-match"))["ECE"]
    assert first_answers(asked_twice(about), calibration).right.tolist().count(1.0) > 0


def test_words_and_sentences_are_fitted_apart(tmp_path: Path) -> None:
    about = subject(tmp_path)
    found = fit_calibration(about)
    assert found.of_words != found.of_sentences
    asked = asked_twice(about)
    values, outcomes = [], []
    for query in asked.queries:
        known = query.right | ~query.related
        values += asked.answered(query)[known].tolist()
        outcomes += query.right[known].tolist()
    expected = Calibration.fit(values, outcomes, np.full(len(values), 1e4 / len(values)))
    given_ = expected.probabilities(values)
    assert found.of_sentences.probabilities(values) == pytest.approx(given_, abs=1e-6)


def test_intervals_hold_the_figures(tmp_path: Path) -> None:
    result = measure(subject(tmp_path), "no-match", Options(resamples=200))
    assert list(result.row) == ["AUC", "ECE", "recognised", "reported", "false alarms"]
    for column, value in result.row.items():
        low, high = result.intervals.get(column) or (0, 0)
        assert low - 1e-9 <= value <= high + 1e-9


def test_sentences_without_nouns_and_scores_without_a_run_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SeesayError, match="no sentence of split 'test' has a noun"):
        measure(run_subject(Embedding(), ["is it", "are they there"], [0, 1], 2, tmp_path), "no-match")
    from tests.protocols.drawn import subject_of

    with pytest.raises(SeesayError, match="needs one run"):
        measure(subject_of(np.eye(2), [0, 1]), "no-match")


def test_nan_is_an_error(tmp_path: Path) -> None:
    matcher = Embedding()
    matcher.table.data[3] = torch.nan
    with pytest.raises(SeesayError, match="NaN"):
        measure(subject(tmp_path, matcher), "no-match")
