"""A result as it is printed: its figures, intervals and comparison, and the published row beside it."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from seesay.data.corpus import Corpus, CorpusImage, Sentence
from seesay.protocols.base import Options, Result, read_result
from seesay.protocols.evaluate import measure
from seesay.protocols.subject import Subject
from seesay.results.terminal import print_result
from seesay.runs.scores import MatrixScores
from tests.results.made import composition, grounding, k_shot, values

OWNERS = np.repeat(np.arange(60), 3)


def measured(scores: np.ndarray, owners: np.ndarray = OWNERS, resamples: int = 0) -> Result:
    images = tuple(CorpusImage(f"{i}.jpg", "test") for i in range(len(scores)))
    corpus = Corpus("drawn", None, images, tuple(Sentence("a dog", int(i)) for i in owners))
    return measure(
        Subject("drawn", "test", corpus, MatrixScores(scores)), "standard", Options(resamples=resamples)
    )


def drawn(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(60, 180)) + 2 * np.equal(OWNERS, np.arange(60)[:, None])


def printed(result: Result, *about, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    print_result(result, *about, console=console)
    text = console.file.getvalue()
    assert max(len(line) for line in text.splitlines()) <= width
    return text


def flat(text: str) -> str:
    return " ".join(text.split())


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if "│" in line]


@pytest.fixture(scope="module")
def perfect() -> Result:
    return measured(np.eye(20), np.arange(20))


def test_the_published_row_stands_beside_and_what_differs_is_named(perfect):
    text = flat(printed(perfect, "IRMatchS", "flickr8k", ["EfficientNet-Lite0, not VGG-19", "one crop"]))
    assert "test: 20 images, 20 sentences, standard" in text
    assert "100.0" in text
    assert "IRMatchS, measured" in text
    assert "IRMatchS, Ke et al." in text
    assert "74.1" in text
    assert "What differs: EfficientNet-Lite0, not VGG-19; one crop." in text
    assert "VGG-19, second fully connected layer" in text


def test_another_protocol_is_a_difference_and_a_note_on_the_row_is_passed_on(perfect):
    assert "protocol standard, published coco-1k" in flat(printed(perfect, "irmatch-h", "coco"))
    assert "Med r 5 is at odds with R@5 47.6" in flat(printed(perfect, "m-CNN(ENS)", "flickr8k"))


def test_without_a_published_row_the_table_stands_alone(perfect):
    for system in (None, "seesay-small"):
        text = printed(perfect, system, "flickr8k", ["anything"])
        assert "100.0" in text
        assert "differs" not in text


def test_images_without_sentences_are_mentioned():
    text = flat(printed(measured(np.eye(3)[:, :2], np.arange(2))))
    assert "1 images without sentences are candidates only" in text


def test_every_column_has_its_interval():
    result = measured(drawn(1), resamples=100)
    text = printed(result)
    assert "95 % intervals" in text
    found = {row[0]: row[1:] for row in rows(text) if len(row) == 3}
    for column, value in result.metrics.items():
        low, high = result.interval(column)
        assert found[column] == [f"{value:.1f}", f"{low:.1f}–{high:.1f}"]


def test_a_comparison_has_the_other_difference_interval_and_p():
    mine, theirs = measured(drawn(1), resamples=100), measured(drawn(2))
    result = mine.model_copy(update={"against": mine.compare(theirs, "other")})
    text = printed(result)
    assert "Compared with other on the same queries" in flat(text)
    found = {row[0]: row for row in rows(text[text.index("Compared") :])}
    assert list(found) == list(result.metrics)
    for column, row in found.items():
        each = result.difference(column)
        assert row[3] == f"{each.theirs:.1f}"
        assert row[4].startswith("-" if each.difference < 0 else "+" if each.difference > 0 else "+0")
        assert row[6] == (f"{each.p:.3f}" if each.p >= 0.001 else "<0.001")


def test_an_ensemble_has_its_members_and_their_weights_and_notes():
    member = measured(drawn(1)).to_dict()
    about = {
        "combined": "learned",
        "members": {"a": member, "b": member},
        "weights": {"a": 0.25, "b": 0.75},
        "notes": ["s.npy: the first 5 sentences."],
    }
    text = printed(measured(drawn(2)).model_copy(update=about))
    assert [row[0] for row in rows(text) if row[0]] == ["a, weight 0.25", "b, weight 0.75", "learned"]
    assert "s.npy: the first 5 sentences." in text


def test_a_re_ranking_has_what_it_gains_and_costs():
    about = {key: v for key, v in values().items() if key in ("protocol", "split", "images", "sentences")}
    figures = {key: values()[key] for key in ("sentence_retrieval", "image_retrieval", "mR")}
    cost = {"pairs": 12_000, "embedding_ms": 0.5, "rerank_ms": 3.25}
    whole = about | figures | {"baselines": {"by the embedding": about | figures}}
    result = read_result(whole | {"shortlist": 100, "gain": 1.5, "cost": cost})
    text = printed(result, "IRMatchS", "flickr8k", width=100)
    assert [row[0] for row in rows(text) if row[0]] == ["by the embedding", "IRMatchS, re-ranked"]
    assert "Re-ranked: the best 100 of each query, 12,000 pairs; mR +1.5." in text
    assert "3.25 ms more to be re-ranked" in flat(text)
    assert "Ke et al." not in text


def test_composition_is_a_row_a_kind_and_cut_sentences_are_counted():
    result = composition(cut_sentences=2, max_length=30).result
    text = printed(result, "m-CNN(wd)", "flickr8k", width=120)
    assert text.startswith("test: 3 images, 14 sentences, composition; 2 sentences longer than 30 words, cut")
    assert rows(text) == [
        ["shuffle", "81.2", "0.5", "2.0", "+0.00", "30", "4"],
        ["swap", "81.2", "–", "2.0", "–", "30", "4"],
    ]
    assert "A tie counts half." in text


def test_phrases_stand_beside_their_baselines_and_kinds():
    recalls = {"R@1": 20.0, "R@5": 20.0, "R@10": 20.0, "upper bound": 20.0, "n": 5}
    whole = recalls | {"by kind": {}, "convention": "enclosing box", "IoU": "plummer"}
    text = printed(grounding(baselines={"whole image": whole}).result, "ground-full", "flickr8k-phrases")
    assert "test: 677 images, 3100 phrases, grounding" in text
    assert [row[0] for row in rows(text) if row[0]] == ["ground-full, measured", "whole image", "people"]
    assert "enclosing box, IoU as in Plummer et al." in flat(text)


def test_concepts_agreement_image_pairs_and_graded_relevance_say_what_they_are_of():
    about = {"split": "test", "images": 10}
    concepts = about | {"protocol": "concepts", "concepts": 3, "images_without_concepts": 1, "mAP": 30.0}
    concepts |= {"image mAP": 40.0, "baselines": {"training frequency": {"mAP": 5.0, "image mAP": 6.0}}}
    text = printed(read_result(concepts | {"by kind": {"nouns": {"mAP": 31.0}}}))
    assert rows(text)[-1] == ["nouns", "31.0", "–"]
    agreement = about | {"protocol": "agreement", "judgements": "expert", "sentences": 20, "pairs": 30}
    agreement |= {"ratings": 90, "tau-b": 50.1, "tau-c": 51.2, "left out": {"image not in the split": 2}}
    text = flat(printed(read_result(agreement | {"examples": {"image not in the split": ["a b", "c d"]}})))
    assert "the field reports tau-c" in text
    assert "30 pairs, 90 judgements." in text
    assert "Left out, image not in the split: 2, such as a b, c d." in text
    alike = about | {"protocol": "image-to-image", "queries": 4, "answered": 40.0, "relevance": "ROUGE-L"}
    alike |= {"R@1": 1.0, "R@5": 2.0, "R@10": 3.0, "Med r": 9.0, "nDCG@25": 70.0, "nDCG@25 by chance": 60.0}
    text = flat(printed(read_result(alike)))
    assert "of the 4 images (40.0 %)" in text
    assert "by chance 60.0" in text
    way = {"nDCG@25": 70.0, "nDCG@25 by chance": 60.0, "R-precision": 1.0, "mAP@R": 2.0, "R@1": 3.0}
    graded = about | {"protocol": "graded", "sentences": 20, "relevance": "ROUGE-L", "answers": "external"}
    ways = {f"{name} retrieval": way | {"queries": 7} for name in ("sentence", "image")}
    text = printed(read_result(graded | {"by direction": ways, "left out": 2}))
    assert rows(text)[-1] == ["", "image", "70.0", "1.0", "2.0", "3.0"]
    assert "2 names of which are not in the split" in flat(text)


def test_k_shot_has_a_row_a_k_and_one_a_band_of_frequencies():
    text = printed(k_shot().result, "gvse-gated", "scenes", width=140)
    figures = ["20.0", "40.0", "50.0", "10.0", "30.0", "40.0", "31.7"]
    assert rows(text)[0] == ["K = 0", "9", "40", "30", *figures]
    assert rows(text)[3] == ["K = 3", "0", "0", "0", *["–"] * 7]
    assert rows(text)[4] == ["0", "40", "30", *figures]
    assert "By the frequency in training of a sentence's rarest word" in text
    assert "images –, sentences 0.812." in text
