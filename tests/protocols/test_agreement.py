"""Agreement with people against Kendall's τ counted pair by pair, on files in the published formats."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from seesay.data.corpus import Corpus, CorpusImage, Sentence
from seesay.data.judgements import read_judgements
from seesay.data.readers import read_corpus
from seesay.errors import SeesayError
from seesay.matchers.base import EmbeddingMatcher, PairMatcher
from seesay.matchers.sentences import Sentences
from seesay.metrics.bootstrap import image_draws
from seesay.protocols.agreement import JudgedPairs, agreement, judged_pairs, measure_agreement
from seesay.protocols.people import NOBODY, judged_by, measure_relevance, read_people
from seesay.recipes.load import load_recipe
from seesay.results.columns import figures
from seesay.results.rows import read_rows, record_row
from seesay.results.terminal import print_report
from seesay.runs import pair_scores
from seesay.runs.inputs import Inputs
from seesay.runs.pair_scores import pairs_of_run, pairs_of_scores
from seesay.runs.run import Run
from seesay.runs.sentences import number_words
from seesay.runs.split_scores import EmbeddingScores, MatrixScores
from seesay.text.vocabulary import Vocabulary

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


def judged(ratings, kind="expert"):
    count = np.arange(len(ratings))
    return JudgedPairs(kind, count, count, np.array(ratings, float), {}, {})


@given(st.lists(st.tuples(st.integers(0, 6), *[st.integers(1, 4)] * 3), min_size=2, max_size=12))
@settings(max_examples=60, deadline=None)
def test_each_experts_score_is_a_row(rows):
    scores, ratings = np.array([row[0] for row in rows]) / 4, [row[1:] for row in rows]
    beside = np.repeat(scores, 3), np.array(ratings).ravel()
    if any(len(set(column)) == 1 for column in beside):
        with pytest.raises(SeesayError, match="not defined"):
            agreement(scores, judged(ratings))
        return
    measured = agreement(scores, judged(ratings))
    assert (measured["tau-b"], measured["tau-c"]) == pytest.approx(taus(*beside), abs=1e-3)
    assert (measured["pairs"], measured["ratings"]) == (len(rows), 3 * len(rows))


def test_shares_of_the_crowd_by_hand():
    # Of the six twos of pairs four agree, one disagrees and one is tied in its shares.
    measured = agreement([0.1, 0.2, 0.4, 0.3], judged([[0], [1 / 3], [1], [1]], "crowdflower"))
    assert measured["tau-b"] == pytest.approx(100 * 5 / np.sqrt(6 * 5), abs=1e-3)
    assert measured["judgements"] == "crowdflower"


def test_where_tau_is_not_defined():
    with pytest.raises(SeesayError, match="every judgement of the 2 pairs is 4"):
        agreement([0.1, 0.2], judged([[4, 4, 4], [4, 4, 4]]))
    with pytest.raises(SeesayError, match=r"every score of the 2 pairs is 0\.5"):
        agreement([0.5, 0.5], judged([[1, 2, 4], [4, 4, 4]]))
    with pytest.raises(SeesayError, match="judged pair 1 is NaN"):
        agreement([0.5, np.nan], judged([[1, 2, 4], [4, 4, 4]]))


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
    assert found.left_out == {
        "sentence of the image itself": 3,
        "image not in the split": 1,
        "sentence not in the split": 2,
    }
    assert found.examples["sentence not in the split"] == ["a.jpg z.jpg#0", "a.jpg a.jpg#2"]


def test_the_crowds_pairs_keep_own_sentences(tmp_path, corpus):
    text = "a.jpg\ta.jpg#0\t1\t3\t0\nb.jpg\ta.jpg#0\t0\t0\t3\n"
    found = judged_pairs(read(tmp_path, text), corpus)
    assert found.images.tolist() == [0, 1]
    assert found.left_out == {}


def test_no_pair_left(tmp_path, corpus):
    with pytest.raises(SeesayError, match=r"1 × image not in the split, such as z\.jpg a\.jpg#0"):
        judged_pairs(read(tmp_path, "z.jpg\ta.jpg#0\t1\t1\t1\n"), corpus)


class Embedding(EmbeddingMatcher):
    asks = True

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.table = torch.nn.Parameter(torch.randn(8, 4))

    def embed_images(self, images: torch.Tensor) -> torch.Tensor:
        return images

    def query_images(self, images: torch.Tensor) -> torch.Tensor:
        return images * torch.tensor([1.0, 2.0, 3.0, 4.0])

    def embed_sentences(self, sentences: Sentences) -> torch.Tensor:
        parts = torch.split(self.table[sentences.words], sentences.lengths.tolist())
        return torch.stack([part.mean(dim=0) for part in parts])


class Pairs(PairMatcher):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = Embedding()
        self.pairs = 0

    def encode_images(self, images: torch.Tensor) -> torch.Tensor:
        return self.embedding.query_images(images)

    def encode_sentences(self, sentences: Sentences) -> torch.Tensor:
        return self.embedding.embed_sentences(sentences)

    def score_pairs(self, images: torch.Tensor, sentences: torch.Tensor) -> torch.Tensor:
        self.pairs += len(images)
        return (images * sentences).sum(dim=1)


@pytest.mark.parametrize("matcher", [Embedding, Pairs])
@pytest.mark.parametrize("at_once", [1, 3, 1000])
def test_the_scores_of_pairs(matcher, at_once, tmp_path, corpus, monkeypatch):
    monkeypatch.setattr(pair_scores, "_PAIRS", at_once)
    features = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
    vocabulary = Vocabulary([f"w{i}" for i in range(1, 8)])
    inputs = Inputs(
        corpus, features, number_words(corpus.texts(), vocabulary), corpus.image_of_sentence(), []
    )
    run = Run("run", tmp_path, load_recipe("vse++"), vocabulary, None, matcher())
    rows, columns = (
        Embedding().query_images(features),
        Embedding().embed_sentences(inputs.sentences).detach(),
    )
    expected = (rows @ columns.T).numpy()
    images, sentences = np.array([2, 0, 0, 2, 2]), np.array([5, 1, 0, 5, 2])
    found = pairs_of_run(run, inputs)(images, sentences)
    assert found == pytest.approx(expected[images, sentences], abs=1e-5)
    assert not isinstance(run.matcher, Pairs) or run.matcher.pairs == 5  # and no others
    given_scores = (
        MatrixScores(expected),
        EmbeddingScores(features.numpy(), columns.numpy(), rows.numpy(), columns.numpy()),
        EmbeddingScores(rows.numpy(), columns.numpy()),
    )
    for scores in given_scores:
        assert pairs_of_scores(scores)(images, sentences) == pytest.approx(found, abs=1e-5)


def test_the_report_and_the_row(tmp_path, corpus):
    (tmp_path / "judged.txt").write_text(EXPERT)
    people = read_people("agreement", tmp_path / "judged.txt")
    scores = np.arange(18.0).reshape(3, 6)
    measured = measure_relevance(MatrixScores(scores), corpus, "test", "agreement", people)
    assert measured["tau-c"] == pytest.approx(taus([2, 2, 2, 6, 6, 6], [1, 1, 2, 1, 3, 2])[1], abs=1e-3)
    assert figures(measured) == {"tau-b": measured["tau-b"], "tau-c": measured["tau-c"]}
    console = Console(file=io.StringIO(), width=120)
    print_report(measured, "VSE++", "drawn", (), console)
    text = console.file.getvalue()
    for told in (
        "the field reports tau-c",
        "itself: 3",
        "split: 2, such as a.jpg z.jpg#0",
        "2 pairs, 6 judge",
    ):
        assert told in text
    row = measured | {"recipe": "x", "seed": 1, "encoder": "e", "commit": None, "seconds": 1.0}
    crowd = row | {"judgements": "crowdflower"}
    record_row(tmp_path, "drawn", row)
    record_row(tmp_path, "drawn", row)
    assert len(read_rows(record_row(tmp_path, "drawn", crowd))) == 2
    with pytest.raises(SeesayError, match="tau-b"):
        record_row(tmp_path, "drawn", row | {"tau-b": 101.0})


def test_which_files_go_with_which_protocol(tmp_path):
    with pytest.raises(SeesayError, match="--judgements FILE"):
        judged_by(NOBODY)
    with pytest.raises(SeesayError, match="--judgements FILE"):
        read_people("agreement")
    with pytest.raises(SeesayError, match="--judgements is for protocol 'agreement', not 'standard'"):
        read_people("standard", tmp_path / "x")
    with pytest.raises(SeesayError, match="--answers is for protocol 'graded', not 'agreement'"):
        read_people("agreement", answers=tmp_path / "x")


@pytest.mark.skipif(not FLICKR8K.is_dir(), reason="needs Flickr8k in ../shared/flickr8k")
def test_judgements_of_flickr8k(tmp_path):
    """Files as published, of real sentences, by people who go by the words in common, as the scorer does."""
    corpus = read_corpus(FLICKR8K).split("test")
    draw = np.random.default_rng(0)
    words = [set(text.lower().split()) for text in corpus.texts()]
    own = [set[str]().union(*words[5 * i : 5 * i + 5]) for i in range(len(corpus.images))]

    def overlaps(images, sentences):
        return np.array(
            [len(own[i] & words[j]) / len(words[j]) for i, j in zip(images, sentences, strict=True)]
        )

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
        measured = measure_agreement(overlaps, corpus, read_judgements(tmp_path / kind), "test")
        assert (measured["judgements"], measured["pairs"]) == (kind, 401 - left_out)
        assert measured[tau] > 25


def test_tau_is_drawn_by_image():
    draw = np.random.default_rng(0)
    images, ratings = np.repeat(np.arange(8), 5), draw.integers(1, 5, (40, 3)).astype(float)
    pairs = JudgedPairs("expert", images, np.arange(40), ratings, {}, {})
    scores = ratings.mean(axis=1) + draw.normal(size=40)
    measured = agreement(scores, pairs, resamples=50)
    each = []
    for _, weights in image_draws(np.random.default_rng(0), 8, 50):
        for times in weights:
            rows = np.concatenate([np.flatnonzero(images == i) for i in np.repeat(np.arange(8), times)])
            each.append(taus(np.repeat(scores[rows], 3), ratings[rows].ravel()))
    for name, column in zip(("tau-b", "tau-c"), np.transpose(each), strict=True):
        assert measured["intervals"][name] == pytest.approx(np.percentile(column, [2.5, 97.5]), abs=2e-3)
