from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seesay.data.corpus import CorpusImage
from seesay.data.phrases import Phrase, PhraseCorpus
from seesay.data.readers import read_phrases
from seesay.errors import SeesayError
from seesay.protocols.grounding import (
    baselines,
    grounding_recall,
    largest_first,
    random_recall,
    whole_images,
)

PHRASES = Path(__file__).parents[2].parent / "shared" / "flickr8k-phrases"
LEFT, RIGHT, ALL = (0.0, 0.0, 10.0, 10.0), (90.0, 0.0, 100.0, 10.0), (0.0, 0.0, 100.0, 10.0)


def some_boxes(rng, n):
    corners = np.sort(rng.integers(0, 12, (n, 2, 2)), axis=1)
    return corners.reshape(-1, 4) + np.array([0, 0, 1, 1])


def overlap_in_plain_python(a, b, extra):
    def span(low, high):
        return max(high - low + extra, 0)

    shared = span(max(a[0], b[0]), min(a[2], b[2])) * span(max(a[1], b[1]), min(a[3], b[3]))
    union = span(a[0], a[2]) * span(a[1], a[3]) + span(b[0], b[2]) * span(b[1], b[3]) - shared
    return shared / union


def recall_in_plain_python(ranked, phrases, convention, extra):
    """R@1, R@5, R@10 and the upper bound by loops over phrases, regions and boxes."""
    counts = [0, 0, 0, 0]
    for regions, phrase in zip(ranked, phrases, strict=True):
        truths = phrase.boxes
        if convention == "enclosing":
            x1, y1, x2, y2 = zip(*truths, strict=True)
            truths = [(min(x1), min(y1), max(x2), max(y2))]
        right = [any(overlap_in_plain_python(r, t, extra) >= 0.5 for t in truths) for r in regions]
        for at, k in enumerate((1, 5, 10, len(right))):
            counts[at] += any(right[:k])
    return [100 * count / len(phrases) for count in counts]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["enclosing", "any"]), st.booleans())
def test_recall_is_that_of_a_plain_loop(seed, convention, inclusive):
    rng = np.random.default_rng(seed)
    phrases = [
        Phrase("x", 0, tuple(map(tuple, some_boxes(rng, rng.integers(1, 4)).tolist()))) for _ in range(9)
    ]
    ranked = [some_boxes(rng, rng.integers(0, 15)) for _ in phrases]
    found = grounding_recall(ranked, phrases, convention, inclusive)
    measures = [found["R@1"], found["R@5"], found["R@10"], found["upper bound"]]
    assert measures == pytest.approx(
        recall_in_plain_python(ranked, phrases, convention, int(inclusive)), abs=1e-3
    )
    assert found["n"] == 9


def test_many_phrases_in_blocks_are_that_of_a_plain_loop():
    rng = np.random.default_rng(3)
    phrases = [Phrase("x", 0, tuple(map(tuple, some_boxes(rng, 2).tolist()))) for _ in range(2100)]
    ranked = [some_boxes(rng, 3) for _ in phrases]
    found = grounding_recall(ranked, phrases, "any")
    assert found["R@1"] == pytest.approx(recall_in_plain_python(ranked, phrases, "any", 0)[0], abs=1e-3)


def test_the_conventions_differ_where_a_phrase_has_several_boxes():
    two = [Phrase("two men", 0, (LEFT, RIGHT))]
    assert grounding_recall([[ALL]], two)["R@1"] == 100
    assert grounding_recall([[ALL]], two, "any")["R@1"] == 0
    assert grounding_recall([[LEFT]], two)["R@1"] == 0
    assert grounding_recall([[RIGHT]], two, "any")["R@1"] == 100


def test_the_extra_pixel_can_decide():
    narrow = [Phrase("x", 0, ((0, 0, 9, 1),))]
    assert grounding_recall([[(0, 0, 4, 1)]], narrow)["R@1"] == 0
    assert grounding_recall([[(0, 0, 4, 1)]], narrow, inclusive=True)["R@1"] == 100


def test_a_result_names_what_it_was_measured_by():
    found = grounding_recall([[LEFT]], [Phrase("x", 0, (LEFT,))])
    assert (found["convention"], found["IoU"]) == ("enclosing box", "continuous")
    found = random_recall([[LEFT]], [Phrase("x", 0, (LEFT,))], "any", inclusive=True)
    assert (found["convention"], found["IoU"]) == ("any box", "with the extra pixel")


def test_a_phrase_without_regions_is_a_miss():
    phrases = [Phrase("x", 0, (LEFT,))] * 4
    for measure in (grounding_recall, random_recall):
        found = measure([[], [LEFT], np.zeros((0, 4)), [RIGHT]], phrases)
        assert (found["R@1"], found["R@10"], found["upper bound"]) == (25, 25, 25)


def test_regions_are_taken_in_the_order_given():
    ranked = [[RIGHT] * 4 + [LEFT], [RIGHT] * 5 + [LEFT], [RIGHT] * 10 + [LEFT], [LEFT] * 2]
    found = grounding_recall(ranked, [Phrase("x", 0, (LEFT,))] * 4)
    assert (found["R@1"], found["R@5"], found["R@10"], found["upper bound"]) == (25, 50, 75, 100)


def test_a_phrase_of_two_kinds_counts_with_both():
    phrases = [
        Phrase("a", 0, (LEFT,), kinds=("people", "bodyparts")),
        Phrase("b", 0, (LEFT,), kinds=("people",)),
        Phrase("c", 0, (LEFT,)),
    ]
    kinds = grounding_recall([[LEFT], [RIGHT], [LEFT]], phrases)["by kind"]
    assert {kind: (of["R@1"], of["n"]) for kind, of in kinds.items()} == {
        "people": (50, 2),
        "bodyparts": (100, 1),
    }


def test_random_recall_is_the_mean_over_all_orders():
    rng = np.random.default_rng(0)
    phrases = [Phrase("x", 0, (LEFT,)), Phrase("y", 0, (LEFT, RIGHT)), Phrase("z", 0, (ALL,))]
    proposals = [[LEFT, RIGHT, ALL, LEFT, RIGHT, RIGHT], [ALL, LEFT], some_boxes(rng, 6) + 50]
    found = random_recall(proposals, phrases)
    for k, measure in ((1, "R@1"), (5, "R@5")):
        exact = [over_all_orders(boxes, phrase, k) for boxes, phrase in zip(proposals, phrases, strict=True)]
        assert found[measure] == pytest.approx(100 * np.mean(exact), abs=1e-3)


def over_all_orders(boxes, phrase, k):
    orders = [*permutations(range(len(boxes)))]
    right = [grounding_recall([[box]], [phrase])["R@1"] == 100 for box in boxes]
    return np.mean([any(right[i] for i in order[:k]) for order in orders])


def test_largest_first_keeps_ties_in_order():
    boxes = [(0, 0, 2, 2), (0, 0, 4, 1), (0, 0, 5, 5), (9, 9, 11, 11)]
    assert largest_first(boxes).tolist() == [[*boxes[2]], [*boxes[0]], [*boxes[1]], [*boxes[3]]]
    assert largest_first([]).shape == (0, 4)


@pytest.mark.parametrize(
    ("ranked", "phrases", "told"),
    [
        ([], [], "0 lists of regions for 0 phrases"),
        ([[LEFT]], [Phrase("x", 0, (LEFT,))] * 2, "1 lists of regions for 2 phrases"),
        ([[LEFT, (0, 0, np.nan, 1)]], [Phrase("x", 0, (LEFT,))], "regions of phrase 0: box 1"),
        ([[(1, 2, 3)]], [Phrase("x", 0, (LEFT,))], "regions of phrase 0: shape"),
    ],
)
def test_what_means_nothing_is_refused(ranked, phrases, told):
    with pytest.raises(SeesayError, match=told):
        grounding_recall(ranked, phrases)


def test_an_unknown_convention_is_refused():
    with pytest.raises(SeesayError, match="use enclosing or any"):
        grounding_recall([[LEFT]], [Phrase("x", 0, (LEFT,))], "union")


@pytest.mark.skipif(not PHRASES.exists(), reason="real data: no phrases at ../shared/flickr8k-phrases")
def test_the_whole_image_on_real_phrases(flickr8k):
    test = read_phrases(PHRASES, images=flickr8k).split("test")
    assert len(test.images) == 677
    assert sum(len(phrase.boxes) for phrase in test.phrases) == pytest.approx(3100, abs=30)
    whole = whole_images(test)
    assert grounding_recall(whole, test.phrases)["R@1"] == pytest.approx(24.4, abs=0.1)
    assert grounding_recall(whole, test.phrases, "any")["R@1"] == pytest.approx(19.6, abs=0.1)


def test_baselines_are_what_their_names_say() -> None:
    corpus = PhraseCorpus(
        "drawn",
        Path(),
        Path(),
        (CorpusImage("a.jpg", "test"),),
        (Phrase("a man", 0, ((0, 0, 80, 80),)), Phrase("a dog", 0, ((60, 60, 80, 80),))),
        np.array([[100, 100]]),
    )
    proposals = np.array([[60, 60, 80, 80], [0, 0, 80, 80], [0, 0, 1, 1], [0, 1, 2, 3]], np.float32)
    found = baselines([proposals, proposals], corpus)
    assert found["largest proposal"]["R@1"] == 50
    assert found["random proposal"]["R@1"] == 25
    assert found["whole image"]["R@1"] == 50
    assert found["whole image"]["upper bound"] == 50


def test_it_says_how_sure_it_is():
    rng = np.random.default_rng(5)
    phrases = [Phrase("x", i // 3, tuple(map(tuple, some_boxes(rng, 1).tolist()))) for i in range(120)]
    ranked = [some_boxes(rng, 12) for _ in phrases]
    found = grounding_recall(ranked, phrases, resamples=100)
    for name in ("R@1", "R@5", "R@10", "upper bound"):
        low, high = found["intervals"][name]
        assert low < found[name] < high
    assert found == grounding_recall(ranked, phrases) | {"intervals": found["intervals"]}
