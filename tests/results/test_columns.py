from statistics import mean, stdev

import pytest

from seesay.results.columns import (
    corpus_title,
    figures,
    find_published,
    is_plotted,
    is_published,
    published_figures,
    spread,
    spreads,
)


def way(first):
    return {"R@1": first, "R@5": first + 1, "R@10": first + 2, "Med r": 3.0}


def test_figures_of_either_shape():
    both = figures({"sentence_retrieval": way(10.0), "image_retrieval": way(20.0), "mR": 16.0, "images": 9})
    assert list(both) == [f"{w} {m}" for w in "SI" for m in ("R@1", "R@5", "R@10", "Med r")] + ["mR"]
    assert (both["S R@5"], both["I R@10"], both["mR"]) == (11.0, 22.0, 16.0)
    assert figures(way(5.0) | {"upper bound": None, "n": 3}) == way(5.0)
    assert list(figures({"R@1": 1.0, "R@5": 2.0, "R@10": 3.0, "upper bound": 4.0}))[-1] == "upper bound"


def test_composition_has_columns_for_each_kind():
    kinds = {
        "shuffle": {"true order": 80.0, "difference": 0.7},
        "swap": {"true order": 60.0, "difference": None},
    }
    shown = figures({"by kind": kinds, "protocol": "composition"})
    assert shown == {
        "shuffle: true order %": 80.0,
        "swap: true order %": 60.0,
        "shuffle: difference": 0.7,
        "swap: difference": None,
    }
    assert [column for column in shown if is_plotted(column)] == list(shown)[:2]
    grounding = way(5.0) | {"by kind": {"people": way(9.0)}}
    assert figures(grounding) == way(5.0)


def test_published_rows_have_the_same_columns():
    both = published_figures(find_published("two-branch-full", "flickr30k", "standard"))
    assert (both["S R@1"], both["I R@10"], both["S Med r"]) == (43.2, 72.4, None)
    assert both["mR"] == pytest.approx(mean([43.2, 71.6, 79.8, 31.7, 61.3, 72.4]))
    one = published_figures(find_published("ground-full", "flickr30k-entities", "grounding"))
    assert one == {"R@1": 50.69, "R@5": 70.42, "R@10": 75.51}


def test_a_published_row_is_of_its_table():
    two, five = ("Wang et al., 2019", 2), ("Wang et al., 2019", 5)
    assert find_published("Weighted distance", "flickr30k", "standard", five).table == 5
    assert find_published("Weighted distance", "flickr30k", "standard", two) is None
    assert find_published("two-branch-full", "flickr8k", "standard") is None
    assert is_published("flickr30k", "standard", two)
    assert not is_published("coco", "standard", two)


def test_spreads_are_of_what_is_known():
    rows = [way(5.0), way(8.0) | {"upper bound": 90.0}]
    assert spreads(rows, ["R@1", "upper bound", "mR"]) == ["6.5 ± 2.1", "90.0", "–"]
    assert spread([1.0, 2.0, 4.0]) == f"{mean([1, 2, 4]):.1f} ± {stdev([1, 2, 4]):.1f}"


def test_corpora_in_prose():
    assert [corpus_title(n) for n in ("flickr30k-entities", "coco", "flickr8k")] == [
        "Flickr30k Entities",
        "COCO",
        "Flickr8k",
    ]
