"""A result as it is printed: its figures, intervals and comparison, and the published row beside it."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from seesay.data.corpus import Corpus, CorpusImage, Sentence
from seesay.protocols.base import Options, Result
from seesay.protocols.evaluate import measure
from seesay.protocols.subject import Scores, Subject
from seesay.results.comparison import print_result
from seesay.results.formats import Section, Table
from tests.results.made import grounding, k_shot

OWNERS = np.repeat(np.arange(60), 3)


def measured(scores: np.ndarray, owners: np.ndarray = OWNERS, resamples: int = 0) -> Result:
    images = tuple(CorpusImage(f"{i}.jpg", "test") for i in range(len(scores)))
    corpus = Corpus("drawn", None, images, tuple(Sentence("a dog", int(i)) for i in owners))
    return measure(Subject("drawn", "test", corpus, Scores(scores)), "standard", Options(resamples=resamples))


def drawn(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(60, 180)) + 2 * np.equal(OWNERS, np.arange(60)[:, None])


class Printed(str):
    """What is printed, and the tables in it."""

    tables: list[Table]


def printed(result: Result, *about, width: int = 80) -> Printed:
    console, tables, terminal = Console(file=io.StringIO(), width=width), [], Table.terminal
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Table, "terminal", lambda table: terminal(tables.append(table) or table))
        print_result(result, *about, console=console)
    text = Printed(console.file.getvalue())
    text.tables = tables
    assert max(len(line) for line in text.splitlines()) <= width
    for row in rows(text):
        assert all(cell in flat(text) for cell in row)
    return text


def flat(text: str) -> str:
    return " ".join(text.split())


def rows(text: Printed) -> list[list[str]]:
    listed = (row for table in text.tables for row in table.rows if not isinstance(row, Section))
    return [list(map(str, row)) for row in listed]


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
    assert "What differs: EfficientNet-Lite0, not VGG-19; one crop; images 20, published 1,000." in text
    assert "VGG-19, second fully connected layer" in text


def test_notes_on_the_papers_row_are_passed_on(perfect):
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
        low, high = result.intervals[column]
        assert found[column] == [f"{value:.1f}", f"{low:.1f}–{high:.1f}"]


def test_a_comparison_has_the_other_difference_interval_and_p():
    mine, theirs = measured(drawn(1), resamples=100), measured(drawn(2))
    result = mine.model_copy(update={"against": mine.compare(theirs, "other")})
    text = printed(result)
    assert "Compared with other on the same queries" in flat(text)
    assert "difference" in text.tables[1].headings
    found = {row[0]: row for row in text.tables[1].rows}
    assert list(found) == list(result.metrics)
    for column, row in found.items():
        each = result.against.metrics[column]
        assert row[3] == f"{each.theirs:.1f}"
        assert row[4].startswith("-" if each.difference < 0 else "+" if each.difference > 0 else "+0")
        assert row[6] == (f"{each.p:.3f}" if each.p >= 0.001 else "<0.001")


def test_an_ensemble_has_its_members_and_notes():
    whole = measured(drawn(2))
    members = {f"{name}: {metric}": value for name in "ab" for metric, value in whole.metrics.items()}
    about = {"combined": "learned", "weights": {"a": 0.25, "b": 0.75}}
    notes = ["s.npy: the first 5 sentences.", "Weights: a 0.25, b 0.75."]
    update = {"metrics": members | whole.metrics, "about": about, "notes": notes}
    text = printed(whole.model_copy(update=update))
    assert [row[0] for row in rows(text) if row[0]] == ["a", "b", "learned"]
    assert "s.npy: the first 5 sentences." in text


def test_phrases_stand_beside_their_baselines_and_kinds():
    text = printed(grounding(), "ground-full", "flickr8k-phrases")
    assert "test: 677 images, 3100 phrases, grounding" in text
    assert [row[0] for row in rows(text) if row[0]] == ["ground-full, measured", "whole image", "people"]


def test_k_shot_has_a_row_a_k_and_one_a_band_of_frequencies():
    text = printed(k_shot(), "gvse-gated", "scenes", width=140)
    shown = rows(text)
    assert shown[0] == ["0-shot", "sentence", "20.0", "40.0", "50.0", "4.0", "9", "30", "40", "31.7"]
    assert shown[1] == ["", "image", "10.0", "30.0", "40.0", "4.0", "", "", "", ""]
    assert [row[0] for row in shown if row[0]][-1] == "3-shot"
