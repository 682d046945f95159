"""ROUGE-L against the dynamic programme written out, and the definition with several references."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seesay.errors import SeesayError
from seesay.metrics.rouge import rouge_l


def common(a, b):
    table = np.zeros((len(a) + 1, len(b) + 1), int)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1, j + 1] = table[i, j] + 1 if x == y else max(table[i, j + 1], table[i + 1, j])
    return table[-1, -1]


def naive(candidate, references):
    if not candidate:
        return 0.0
    found = [(common(candidate, reference), len(reference)) for reference in references if reference]
    precision = max((length / len(candidate) for length, _ in found), default=0)
    recall = max((length / whole for length, whole in found), default=0)
    return (1 + 1.44) * precision * recall / (recall + 1.44 * precision) if precision else 0.0


SENTENCES = st.lists(st.lists(st.sampled_from("abcdefg"), max_size=9), min_size=1, max_size=8)


@given(SENTENCES, SENTENCES, st.data())
@settings(max_examples=50)
def test_is_the_definition(candidates, references, data):
    images = data.draw(st.lists(st.integers(0, 3), min_size=len(references), max_size=len(references)))
    scores = rouge_l(candidates, references, np.array(images), 5)
    expected = [
        [
            naive(words, [r for r, at in zip(references, images, strict=True) if at == i])
            for words in candidates
        ]
        for i in range(5)
    ]
    assert scores == pytest.approx(np.array(expected), abs=1e-6)


@pytest.mark.parametrize("length", [63, 64, 65, 130])
def test_sentences_longer_than_a_machine_word(length):
    draw = np.random.default_rng(length)
    long, other = (list(draw.choice(list("abcdefghijkl"), length + extra)) for extra in (0, 7))
    (score,) = rouge_l([long], [other], np.array([0]), 1)[0]
    assert score == pytest.approx(naive(long, [other]), abs=1e-6)


def test_an_unknown_word_and_no_word_at_all():
    texts = [["a", "dog", "runs"], ["a", "cat"]]
    scores = rouge_l([["a", "dog", "runs"], ["zebras"], []], texts, [0, 1], 2)
    assert scores[:, 0] == pytest.approx([1, naive(["a", "dog", "runs"], [["a", "cat"]])])
    assert not scores[:, 1:].any()
    assert rouge_l([["a", "dog"]], [], np.array([], np.int64), 2).tolist() == [[0], [0]]


@pytest.mark.parametrize(
    ("candidates", "images", "message"),
    [
        (["a dog"], [0], "candidates: expected lists of words, got the string 'a dog'"),
        ("a dog", [0], "candidates: expected lists of words, got the string 'a dog'"),
        ([["a"]], [-1], r"image_of_reference: expected whole numbers in 0\.\.1, got -1"),
        ([["a"]], [2], r"image_of_reference: expected whole numbers in 0\.\.1, got 2"),
    ],
)
def test_wrong_input_is_refused(candidates, images, message):
    with pytest.raises(SeesayError, match=message):
        rouge_l(candidates, [["a", "dog"]], images, 2)


def test_nothing_is_printed(capsys):
    rouge_l([["a"]], [["a"]], [0], 1)
    assert capsys.readouterr() == ("", "")
