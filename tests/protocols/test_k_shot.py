"""K-shot against a plain loop over queries, for a matcher of embeddings and one of pairs."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from seesay.data.corpus import Corpus, CorpusImage, Sentence
from seesay.errors import SeesayError
from seesay.matchers.base import EmbeddingMatcher, PairMatcher
from seesay.matchers.sentences import Sentences
from seesay.protocols.k_shot import BANDS, measure_k_shot, one_shot, train_texts
from seesay.protocols.measure import check_protocol
from seesay.recipes.load import load_recipe
from seesay.results.columns import figures
from seesay.results.frequency_plot import check_plot, draw_by_frequency
from seesay.results.rows import read_rows, record_row
from seesay.results.terminal import print_report
from seesay.runs.inputs import Inputs
from seesay.runs.run import Run
from seesay.runs.sentences import number_words
from seesay.runs.split_scores import scores_of_run
from seesay.text.vocabulary import Vocabulary

N, M = 30, 80
WORDS = [f"w{i}" for i in range(24)]


class Embedding(EmbeddingMatcher):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.table = torch.nn.Parameter(torch.randn(len(WORDS) + 1, 8))

    def embed_images(self, images: torch.Tensor) -> torch.Tensor:
        return images

    def embed_sentences(self, sentences: Sentences) -> torch.Tensor:
        parts = torch.split(self.table[sentences.words], sentences.lengths.tolist())
        return torch.stack([part.mean(dim=0) for part in parts])


class Pairs(PairMatcher):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = Embedding()

    def encode_images(self, images: torch.Tensor) -> torch.Tensor:
        return images

    def encode_sentences(self, sentences: Sentences) -> torch.Tensor:
        return self.embedding.embed_sentences(sentences)

    def score_pairs(self, images: torch.Tensor, sentences: torch.Tensor) -> torch.Tensor:
        return (images * sentences).sum(dim=1)


def prepared(matcher, tmp_path):
    """A run, its split, and training sentences in which word w<i> occurs i times."""
    draw = np.random.default_rng(5)
    owners = np.concatenate([np.arange(N), draw.integers(0, N, M - N)])
    texts = [" ".join(draw.choice(WORDS[4:], 3)) for _ in range(M)]
    for rare in range(4):
        texts[7 * rare + 1] += f" {WORDS[rare]}"
    images = tuple(CorpusImage(f"{i}.jpg", "test") for i in range(N))
    sentences = tuple(Sentence(t, int(o)) for t, o in zip(texts, owners, strict=True))
    vocabulary = Vocabulary(WORDS)
    features = torch.from_numpy(draw.normal(size=(N, 8)).astype(np.float32))
    corpus = Corpus("drawn", Path(), images, sentences)
    inputs = Inputs(corpus, features, number_words(texts, vocabulary), owners, [])
    run = Run("run", tmp_path, load_recipe("vse++"), vocabulary, None, matcher)
    return run, inputs, [" ".join([word] * i) for i, word in enumerate(WORDS)]


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
def test_recalls_are_those_of_a_loop(matcher, tmp_path, monkeypatch):
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path / "cache"))
    run, inputs, train = prepared(matcher(), tmp_path)
    measured = measure_k_shot(run, inputs, train, "test")
    scores, owners = run.scores(inputs.features.numpy(), inputs.sentences), inputs.image_of_sentence
    texts = inputs.corpus.texts()
    for k in range(4):
        told = measured["by K"][str(k)]
        sentences = [j for j in range(M) if any(int(word[1:]) <= k for word in texts[j].split())]
        images = sorted({int(owners[j]) for j in sentences})
        assert (told["N"], told["sentences"], told["images"]) == (k + 1, len(sentences), len(images))
        assert told["mR"] == pytest.approx(expected(scores, owners, images, sentences), abs=1e-3)
        among, own = scores[np.ix_(images, sentences)], [images.index(owners[j]) for j in sentences]
        alone = expected(among, own, range(len(images)), range(len(sentences)))
        assert told["alone"]["mR"] == pytest.approx(alone, abs=1e-3)
        part = one_shot(scores_of_run(run, inputs).ranks, inputs.corpus, train, "test", k)
        assert part["mR"] == told["mR"]


def test_every_sentence_and_image_is_in_one_band(tmp_path):
    run, inputs, train = prepared(Embedding(), tmp_path)
    bands = measure_k_shot(run, inputs, train, "test")["by frequency"]
    assert list(bands) == list(BANDS)
    assert sum(band["sentences"] for band in bands.values()) == M
    assert sum(band["images"] for band in bands.values()) == N
    assert bands["100+"] == {"images": 0, "sentences": 0}


def test_no_uncommon_words_are_a_result_not_a_crash(tmp_path):
    run, inputs, _ = prepared(Embedding(), tmp_path)
    measured = measure_k_shot(run, inputs, [" ".join(WORDS)] * 200, "test")
    assert measured["by K"]["3"] == {"N": 0, "images": 0, "sentences": 0}
    assert figures(measured)["0-shot mR"] is None
    assert printed(measured).count("K = ") >= 4
    with pytest.raises(SeesayError, match="'0-shot'"):
        one_shot(scores_of_run(run, inputs).ranks, inputs.corpus, [" ".join(WORDS)] * 200, "test", 0)


def test_the_report_and_the_row_and_the_plot(tmp_path):
    run, inputs, train = prepared(Embedding(), tmp_path)
    measured = measure_k_shot(run, inputs, train, "test")
    text = printed(measured)
    for k, row in measured["by K"].items():
        line = next(line for line in text.splitlines() if f"K = {k}" in line)
        assert f"{row['mR']:.1f}" in line
        assert f" {row['N']} " in line
    row = measured | {"recipe": "x", "seed": 1, "encoder": "e", "commit": None, "seconds": 1.0}
    assert read_rows(record_row(tmp_path, "drawn", row)) == [row]
    row["by K"] = {"0": {"N": -1}}
    with pytest.raises(SeesayError, match=r"by K\.0\.N"):
        record_row(tmp_path, "drawn", row)
    draw_by_frequency({"one": measured, "two": measured}, tmp_path / "new" / "bands.png")
    assert (tmp_path / "new" / "bands.png").read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_asked():
    corpus = Corpus("x", Path("there"), (CorpusImage("a", "test"),), (Sentence("A dog", 0),))
    with pytest.raises(SeesayError, match="there: no train split"):
        train_texts(corpus)
    with pytest.raises(SeesayError, match="4-shot"):
        check_protocol("4-shot")
    with pytest.raises(SeesayError, match="--protocol k-shot"):
        check_plot(Path("a.png"), "standard")
    with pytest.raises(SeesayError, match=r"ends in \.png"):
        check_plot(Path("a.pdf"), "k-shot")


def printed(measured):
    console = Console(file=io.StringIO(), width=120)
    print_report(measured, "VSE++", "drawn", (), console)
    return console.file.getvalue()
