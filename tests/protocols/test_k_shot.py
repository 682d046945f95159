"""K-shot against a plain loop over queries, for a matcher of embeddings and one of pairs."""

from __future__ import annotations

import numpy as np
import pytest

from seesay.errors import SeesayError
from seesay.protocols.base import Options
from seesay.protocols.evaluate import measure
from tests.protocols.drawn import WORDS, Embedding, Pairs, measured, run_subject

N, M = 30, 80


def subject_of(matcher, tmp_path, train=None):
    """A split, and training sentences in which word w<i> occurs i times."""
    draw = np.random.default_rng(5)
    owners = np.concatenate([np.arange(N), draw.integers(0, N, M - N)])
    texts = [" ".join(draw.choice(WORDS[4:], 3)) for _ in range(M)]
    for rare in range(4):
        texts[7 * rare + 1] += f" {WORDS[rare]}"
    counted = train or [" ".join([word] * i) for i, word in enumerate(WORDS)]
    return run_subject(matcher, texts, owners, N, tmp_path, counted)


def expected(scores, owners, images, sentences):
    """MR of the chosen queries among all candidates, by sorting."""
    n, m = scores.shape
    found = []
    for i in images:
        order = sorted(range(m), key=lambda j: -scores[i, j])
        found.append(min(rank for rank, j in enumerate(order) if owners[j] == i))
    other = [sorted(range(n), key=lambda i: -scores[i, j]).index(owners[j]) for j in sentences]
    return np.mean([100 * np.mean([r < k for r in ranks]) for ranks in (found, other) for k in (1, 5, 10)])


@pytest.mark.parametrize("matcher", [Embedding, Pairs])
def test_recalls_are_those_of_a_loop(matcher, tmp_path):
    subject = subject_of(matcher(), tmp_path)
    found = measure(subject, "k-shot", Options(resamples=20)).to_dict()
    scores, owners, texts = subject.scores.by_direction()[0], subject.owners, subject.corpus.texts()
    for k in range(4):
        row = {
            name.removeprefix(f"{k}-shot: "): value
            for name, value in found["metrics"].items()
            if name.startswith(f"{k}-shot: ")
        }
        sentences = [j for j in range(M) if any(int(word[1:]) <= k for word in texts[j].split())]
        images = sorted({int(owners[j]) for j in sentences})
        assert (row["N"], row["sentences"], row["images"]) == (k + 1, len(sentences), len(images))
        assert row["mR"] == pytest.approx(expected(scores, owners, images, sentences), abs=1e-3)
        one = measure(subject, f"{k}-shot", Options(resamples=20)).to_dict()
        assert one["about"] | one["metrics"] == row
        for name, ends in one["intervals"].items():
            assert ends == found["intervals"][f"{k}-shot: {name}"]


def test_no_uncommon_words_are_a_result_and_not_a_crash(tmp_path):
    subject = subject_of(Embedding(), tmp_path, [" ".join(WORDS)] * 200)
    result = measure(subject, "k-shot")
    assert result.rows["3-shot"] == {"N": 0, "images": 0, "sentences": 0}
    assert result.shown == {f"{k}-shot: mR": None for k in range(4)}
    with pytest.raises(SeesayError, match="'0-shot': training has every word"):
        measure(subject, "0-shot")


def test_two_runs_are_compared_at_every_k(tmp_path):
    ours, theirs = (measure(subject_of(each, tmp_path), "k-shot") for each in (Embedding(), Embedding(True)))
    compared = ours.compare(theirs)
    for k in range(4):
        difference = compared.metrics[f"{k}-shot: mR"]
        mine, other = (result.metrics[f"{k}-shot: mR"] for result in (ours, theirs))
        assert difference.difference == pytest.approx(mine - other, abs=2e-3)


def test_a_train_split_is_needed():
    with pytest.raises(SeesayError, match="there: has no train split"):
        measured(np.eye(3), [0, 1, 2], "k-shot")
    with pytest.raises(SeesayError, match="4-shot"):
        measured(np.eye(3), [0, 1, 2], "4-shot")
