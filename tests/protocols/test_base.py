"""Results as JSON: every recorded row, intervals by column, and a protocol of somebody else."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from seesay.data.corpus import Corpus, CorpusImage, Sentence
from seesay.errors import SeesayError
from seesay.metrics.bootstrap import MeanSample
from seesay.protocols.base import (
    PROTOCOLS,
    CorpusContent,
    Options,
    Protocol,
    Result,
    register_protocol,
)
from seesay.protocols.evaluate import measure
from seesay.protocols.subject import Subject
from seesay.results.records import Row
from tests.protocols.drawn import subject_of

RESULTS = Path(__file__).parents[2] / "results"
ROWS = [
    json.loads(line)
    for name in ("flickr8k.jsonl", "flickr8k-phrases.jsonl")
    for line in (RESULTS / name).read_text(encoding="utf-8").splitlines()
]


def noisy(seed, n=30):
    owners = np.repeat(np.arange(n), 2)
    draw = np.random.default_rng(seed)
    return draw.normal(size=(n, 2 * n)) + 1.5 * (owners == np.arange(n)[:, None]), owners


def test_every_recorded_row_is_itself_after_a_round_trip() -> None:
    assert {row["protocol"] for row in ROWS} >= {"standard", "k-shot", "grounding"}
    for row in ROWS:
        result = Row.read(row)
        assert list(result.to_dict().items()) == list(row.items())
        assert result.shown
        assert str(result).startswith(f"{row['protocol']}, {row['split']}")


def test_a_wrong_or_unknown_key_is_named() -> None:
    row = measure(subject_of(*noisy(0)), "standard").to_dict()
    with pytest.raises(SeesayError, match=r"key 'metrics\.mR"):
        Result.read(row | {"metrics": row["metrics"] | {"mR": "high"}})
    with pytest.raises(SeesayError, match="no such key; did you mean 'metrics'"):
        Result.read(row | {"metric": 1})
    with pytest.raises(SeesayError, match="No protocol 'standrad'; did you mean 'standard'"):
        Result.read(row | {"protocol": "standrad"})


def test_a_result_prints_its_columns_with_their_intervals() -> None:
    result = measure(subject_of(*noisy(1)), "standard", Options(resamples=50))
    lines = str(result).splitlines()
    assert lines[0] == "standard, test: 30 images, 60 sentences"
    low, high = result.intervals["I R@5"]
    assert f"I R@5   {result.metrics['I R@5']:7.1f}  [{low:.1f}, {high:.1f}]" in lines
    assert result.monitor == result.metrics["mR"]
    assert Result.read(result.to_dict()).intervals["I R@5"] == (low, high)
    assert "intervals" not in result.to_dict(uncertainty=False)


def test_results_are_compared_by_query_and_survive_json() -> None:
    ours, theirs = (measure(subject_of(*noisy(seed)), "standard") for seed in (1, 2))
    compared = ours.model_copy(update={"against": ours.compare(theirs, "other run")})
    again = Result.read(compared.to_dict())
    for column, value in ours.metrics.items():
        difference = again.against.metrics[column]
        assert difference.theirs == theirs.metrics[column]
        assert difference.difference == pytest.approx(value - difference.theirs, abs=2e-3)
    assert again.against.name == "other run"
    with pytest.raises(SeesayError, match="needs per-query values"):
        ours.compare(Result.read(theirs.to_dict()))
    fewer = measure(subject_of(*noisy(1, n=20)), "standard")
    with pytest.raises(SeesayError, match="same queries"):
        ours.compare(fewer)
    other_protocol = Result(protocol="x", split="test", metrics={"R@1": 1.0})
    with pytest.raises(SeesayError, match="'standard' and 'x' cannot be compared"):
        ours.compare(other_protocol)


def test_metrics_of_parts_are_rows_of_their_own() -> None:
    metrics = {"R@1": 1.0, "people: R@1": 2.0, "people: phrases": 3, "a: b: R@1": None}
    result = Result(protocol="grounding", split="test", metrics=metrics)
    assert result.shown == {"R@1": 1.0}
    assert result.rows == {"": {"R@1": 1.0}, "people": {"R@1": 2.0, "phrases": 3}, "a: b": {"R@1": None}}
    assert Result.read(json.loads(json.dumps(result.to_dict()))) == result


def test_your_own_protocol_is_one_class() -> None:
    @register_protocol
    class Margin(Protocol):
        name = "margin"
        monitor = "margin"

        def measure(self, subject: Subject, options: Options) -> Result:
            scores, owners = subject.scores.by_direction()[1], subject.owners
            ahead = scores[owners, np.arange(len(owners))] - scores.mean(axis=0)
            samples = [("", [MeanSample(["margin"], ahead[:, None], owners)])]
            return self.result(subject, options, samples, {"images": subject.n_images})

    try:
        result = measure(subject_of(*noisy(1)), "margin", Options(resamples=50))
        assert result.monitor == pytest.approx(1.45, abs=0.3)
        assert result.compare(measure(subject_of(*noisy(2)), "margin")).metrics["margin"].p > 0
        assert Result.read(result.to_dict()).about == {"images": 30}
    finally:
        del PROTOCOLS._known["margin"]


def test_results_of_other_sentences_are_not_compared() -> None:
    ours, theirs = (measure(subject_of(*noisy(1)), "standard") for _ in range(2))
    assert theirs.content is not None
    other = theirs.content.model_copy(update={"digest": "other"})
    with pytest.raises(SeesayError, match="not the same"):
        ours.compare(theirs.model_copy(update={"content": other}))


def test_a_split_is_known_by_its_content_in_any_order() -> None:
    images = CorpusImage("a.jpg", "test"), CorpusImage("b.jpg", "test")
    first = Corpus("x", Path(), images, (Sentence("a dog", 0), Sentence("a cat", 1), Sentence("it", 1)))
    again = Corpus("y", Path("z"), images, (Sentence("it", 0), Sentence("a cat", 0), Sentence("a dog", 1)))
    other = Corpus("x", Path(), images, (Sentence("a dog", 0), Sentence("a cat", 1), Sentence("it", 0)))
    assert CorpusContent.of(first) == CorpusContent.of(again) != CorpusContent.of(other)
    assert str(CorpusContent.of(first)) == "2 images, 3 sentences"
