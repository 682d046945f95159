"""Agreement with human judgements against Kendall's τ counted pair by pair, on files as published."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seesay.data.corpus import Corpus, CorpusImage, Sentence
from seesay.data.judgements import Judgement, Judgements, read_judgements
from seesay.data.readers import read_corpus
from seesay.errors import SeesayError
from seesay.metrics.bootstrap import image_draws
from seesay.protocols.agreement import judged_pairs
from seesay.protocols.base import Options
from seesay.protocols.evaluate import evaluate, measure
from seesay.protocols.subject import Subject
from seesay.runs.scores import MatrixScores, SplitScores
from tests.protocols.drawn import WORDS, Embedding, Pairs, corpus_of, flat, run_subject

FLICKR8K = Path(__file__).parents[3] / "shared" / "flickr8k"


def taus(x, y):
    """τ-b and τ-c as Kendall and Stuart define them, by looking at every two rows."""
    concordant = discordant = tied_x = tied_y = 0
    for i in range(len(x)):
        for j in range(i):
            sign = np.sign(x[i] - x[j]) * np.sign(y[i] - y[j])
            concordant, discordant = concordant + (sign > 0), discordant + (sign < 0)
            tied_x, tied_y = tied_x + (x[i] == x[j]), tied_y + (y[i] == y[j])
    n, m = len(x), min(len(set(x)), len(set(y)))
    pairs = n * (n - 1) / 2
    b = (concordant - discordant) / np.sqrt((pairs - tied_x) * (pairs - tied_y))
    return 100 * b, 100 * 2 * (concordant - discordant) * m / (n**2 * (m - 1))


def agreement(scores, ratings, kind="expert", images=None, sentences=None, resamples=0):
    """Pair p is of image images[p] and of sentence sentences[p]; by default both are p."""
    n = len(ratings)
    images, sentences = (np.arange(n) if some is None else some for some in (images, sentences))
    # Sentences are the image's own nowhere: they belong to an image of their own.
    corpus = corpus_of([n] * n, n + 1, [f"text {i}" for i in range(n)])
    matrix = np.zeros((n + 1, n))
    matrix[images, sentences] = scores
    pairs = tuple(
        Judgement(f"{image}.jpg", f"{n}.jpg#{sentence}", tuple(map(float, rating)))
        for image, sentence, rating in zip(images, sentences, ratings, strict=True)
    )
    options = Options(judgements=Judgements(Path("there"), kind, pairs), resamples=resamples)
    return flat(measure(Subject("drawn", "test", corpus, MatrixScores(matrix)), "agreement", options))


@given(st.lists(st.tuples(st.integers(0, 6), *[st.integers(1, 4)] * 3), min_size=2, max_size=12))
@settings(max_examples=60)
def test_each_experts_score_is_a_row(rows):
    scores, ratings = np.array([row[0] for row in rows]) / 4, [row[1:] for row in rows]
    beside = np.repeat(scores, 3), np.array(ratings).ravel()
    if any(len(set(column)) == 1 for column in beside):
        with pytest.raises(SeesayError, match="undefined"):
            agreement(scores, ratings)
        return
    found = agreement(scores, ratings)
    assert (found["tau-b"], found["tau-c"]) == pytest.approx(taus(*beside), abs=1e-3)
    assert (found["pairs"], found["ratings"]) == (len(rows), 3 * len(rows))


def test_shares_of_the_crowd_by_hand():
    # Of the six twos of pairs four agree, one disagrees and one is tied in its shares.
    found = agreement([0.1, 0.2, 0.4, 0.3], [[0], [1 / 3], [1], [1]], "crowdflower")
    assert found["tau-b"] == pytest.approx(100 * 5 / np.sqrt(6 * 5), abs=1e-3)
    assert found["judgements"] == "crowdflower"


def test_where_tau_is_not_defined():
    with pytest.raises(SeesayError, match="every judgement of the 2 pairs is 4"):
        agreement([0.1, 0.2], [[4, 4, 4], [4, 4, 4]])
    with pytest.raises(SeesayError, match=r"every score of the 2 pairs is 0\.5"):
        agreement([0.5, 0.5], [[1, 2, 4], [4, 4, 4]])
    with pytest.raises(SeesayError, match="judged pair 1 is NaN"):
        agreement([0.5, np.nan], [[1, 2, 4], [4, 4, 4]])


EXPERT = """a.jpg\tb.jpg#0\t1\t1\t2
a.jpg\ta.jpg#1\t4\t4\t4
b.jpg\ta.jpg#0\t1\t3\t2
b.jpg\ta.jpg#1\t2\t2\t2
b.jpg\tc.jpg#0\t3\t4\t3
z.jpg\ta.jpg#0\t1\t1\t1
a.jpg\tz.jpg#0\t1\t1\t1
a.jpg\ta.jpg#2\t1\t1\t1
"""


@pytest.fixture
def corpus():
    images = tuple(CorpusImage(f"{name}.jpg", "test") for name in "abc")
    texts = (("w1 w2", 0), ("w3 w3 w4", 0), ("w5", 1), ("w3 w3 w4", 2), ("w6 w1", 2), ("w3 w3 w4", 1))
    return Corpus("drawn", Path("there"), images, tuple(Sentence(*each) for each in texts))


def read(tmp_path, text):
    path = tmp_path / "judged.txt"
    path.write_text(text)
    return read_judgements(path)


def test_experts_pairs_leave_out_own_sentences_by_their_words(tmp_path, corpus):
    found = judged_pairs(read(tmp_path, EXPERT), corpus)
    # Sentence 1 of a and 0 of c read as b's own do.
    assert list(zip(found.images.tolist(), found.sentences.tolist(), strict=True)) == [(0, 2), (1, 0)]
    assert found.ratings.tolist() == [[1, 1, 2], [1, 3, 2]]
    counts = {why: len(pairs) for why, pairs in found.left_out.items()}
    assert counts == {
        "sentence of the image itself": 3,
        "image not in the split": 1,
        "sentence not in the split": 2,
    }
    assert found.left_out["sentence not in the split"] == ["a.jpg z.jpg#0", "a.jpg a.jpg#2"]


def test_the_crowds_pairs_keep_own_sentences(tmp_path, corpus):
    text = "a.jpg\ta.jpg#0\t1\t3\t0\nb.jpg\ta.jpg#0\t0\t0\t3\n"
    found = judged_pairs(read(tmp_path, text), corpus)
    assert found.images.tolist() == [0, 1]
    assert found.left_out == {}


def test_no_pair_left(tmp_path, corpus):
    with pytest.raises(SeesayError, match=r"1 × image not in the split, such as z\.jpg a\.jpg#0"):
        judged_pairs(read(tmp_path, "z.jpg\ta.jpg#0\t1\t1\t1\n"), corpus)


@pytest.mark.parametrize("matcher", [Embedding, Pairs])
def test_only_the_judged_pairs_are_scored(matcher, tmp_path):
    draw = np.random.default_rng(1)
    texts, owners = [" ".join(draw.choice(WORDS, 3)) for _ in range(90)], np.arange(90) % 30
    subject = run_subject(matcher(asymmetric=True), texts, owners, 30, tmp_path)
    images, sentences = draw.integers(0, 30, 2000), draw.integers(0, 90, 2000)  # more than a block
    found = subject.scores.pairs(images, sentences)
    assert not isinstance(subject.run.matcher, Pairs) or subject.run.matcher.pairs == 2000
    expected = subject.scores.whole().pairs(images, sentences)
    assert found == pytest.approx(expected, abs=1e-4)
    rows = Embedding(asymmetric=True).query_images(torch.from_numpy(subject.inputs.features)).numpy()
    columns = Embedding().embed_sentences(subject.inputs.sentences.to_tensors()).detach().numpy()
    assert found == pytest.approx((rows @ columns.T)[images, sentences], abs=1e-4)


def test_the_result_of_a_file(tmp_path, corpus):
    judgements = read(tmp_path, EXPERT)
    subject = Subject("drawn", "test", corpus, MatrixScores(np.arange(18.0).reshape(3, 6)))
    result = measure(subject, "agreement", Options(judgements=judgements))
    assert result.metrics["tau-c"] == pytest.approx(taus([2, 2, 2, 6, 6, 6], [1, 1, 2, 1, 3, 2])[1], abs=1e-3)
    assert list(result.metrics) == ["tau-b", "tau-c"]
    assert (result.about["pairs"], result.about["ratings"]) == (2, 6)
    assert result.about["left out"]["sentence not in the split"] == 2
    notes = " ".join(result.notes)
    assert "the field reports tau-c" in notes
    assert "Left out, sentence not in the split: 2, such as a.jpg z.jpg#0, a.jpg a.jpg#2." in notes


def test_judgements_are_needed_and_no_others_protocol(tmp_path, corpus):
    np.save(tmp_path / "scores.npy", np.zeros((3, 6)))
    scores = str(tmp_path / "scores.npy")
    with pytest.raises(SeesayError, match=r"by judgements \(--judgements\): Flickr8k"):
        evaluate(scores, corpus, "agreement")
    with pytest.raises(SeesayError, match="judgements is for protocol 'agreement', not 'standard'"):
        evaluate(scores, corpus, "standard", judgements=tmp_path / "x")
    with pytest.raises(SeesayError, match="answers is for protocol 'graded', not 'agreement'"):
        evaluate(scores, corpus, "agreement", answers=tmp_path / "x")


@pytest.mark.skipif(not FLICKR8K.is_dir(), reason="needs Flickr8k in ../shared/flickr8k")
def test_judgements_of_flickr8k(tmp_path):
    """Files as published, of real sentences, judged by the words in common, as the scorer does."""
    corpus = read_corpus(FLICKR8K).split("test")
    draw = np.random.default_rng(0)
    words = [set(text.lower().split()) for text in corpus.texts()]
    own = [set[str]().union(*words[5 * i : 5 * i + 5]) for i in range(len(corpus.images))]

    def overlaps(images, sentences):
        return np.array(
            [len(own[i] & words[j]) / len(words[j]) for i, j in zip(images, sentences, strict=True)]
        )

    class Overlaps(SplitScores):
        def pairs(self, images, sentences):
            return overlaps(images, sentences)

        ranks = by_direction = None

    images, others = draw.integers(0, len(own), (2, 400))
    lines = {"expert": [], "crowdflower": []}
    for i, j, overlap in zip(images, others, overlaps(images, 5 * others + 2), strict=True):
        names = f"{corpus.images[i].name}\t{corpus.images[j].name}#2"
        scores = np.clip(np.round(4 * overlap + draw.normal(0, 0.3, 3)), 1, 4).astype(int)
        yes = int(draw.binomial(3, overlap))
        lines["expert"].append("\t".join([names, *map(str, scores)]))
        lines["crowdflower"].append(f"{names}\t{yes / 3:.15g}\t{yes}\t{3 - yes}")
    name = corpus.images[7].name
    lines["expert"].append(f"{name}\t{name}#2\t4\t4\t4")
    lines["crowdflower"].append(f"{name}\t{name}#2\t1\t3\t0")
    for kind, tau, left_out in (("expert", "tau-c", 1), ("crowdflower", "tau-b", 0)):
        (tmp_path / kind).write_text("\n".join(lines[kind]) + "\n")
        result = measure(
            Subject("", "test", corpus, Overlaps()), "agreement", Options(read_judgements(tmp_path / kind))
        )
        assert (result.about["judgements"], result.about["pairs"]) == (kind, 401 - left_out)
        assert result.metrics[tau] > 25


def test_tau_is_drawn_by_image_and_by_sentence():
    draw = np.random.default_rng(0)
    images, ratings = np.repeat(np.arange(8), 5), draw.integers(1, 5, (40, 3)).astype(float)
    sentences = np.tile(np.arange(10), 4)  # each is shared by four images
    scores = ratings.mean(axis=1) + draw.normal(size=40)
    found = agreement(scores, ratings, images=images, sentences=sentences, resamples=50)
    each = []
    for weights in image_draws(np.random.default_rng(0), 18, 50):
        for times in weights:
            rows = np.repeat(np.arange(40), times[images] * times[8 + sentences])
            each.append(taus(np.repeat(scores[rows], 3), ratings[rows].ravel()))
    for name, column in zip(("tau-b", "tau-c"), np.transpose(each), strict=True):
        assert found["intervals"][name] == pytest.approx(np.percentile(column, [2.5, 97.5]), abs=2e-3)
