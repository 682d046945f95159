"""Intervals and comparisons as they are printed."""

import io

import numpy as np
from rich.console import Console

from seesay.metrics.paired import compare
from seesay.protocols.retrieval import answers_of_folds, evaluate_scores, protocol_named
from seesay.results.terminal import print_report
from seesay.results.terminal_uncertainty import interval
from seesay.runs.split_scores import MatrixScores

OWNERS = np.repeat(np.arange(60), 3)


def scored(seed):
    return np.random.default_rng(seed).normal(size=(60, 180)) + 2 * np.equal(OWNERS, np.arange(60)[:, None])


def lines(result, width=80):
    console = Console(file=io.StringIO(), width=width)
    print_report(result, None, "drawn", (), console)
    text = console.file.getvalue()
    return [
        [cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if "│" in line
    ], text


def test_intervals_stand_below_in_eighty_columns():
    result = evaluate_scores(scored(1), OWNERS, resamples=200)
    cells, text = lines(result)
    told = result["intervals"]
    assert "95 % intervals: the images drawn 200 times, each with its sentences" in text
    expected = [interval(told["sentence_retrieval"][name]) for name in ("R@1", "R@5", "R@10", "Med r")]
    assert cells[2:] == [
        ["sentence", *expected, interval(told["mR"])],
        ["image", *(interval(ends) for ends in told["image_retrieval"].values()), ""],
    ]


def test_a_comparison_has_the_other_difference_interval_and_p():
    whole = protocol_named("standard")
    mine, theirs = (answers_of_folds(MatrixScores(scored(i)).ranks, OWNERS, 60, whole, "x") for i in (1, 2))
    told = compare(mine, theirs, 100, 100)
    told["image_retrieval"]["R@1"]["p"] = 0.0001
    result = evaluate_scores(scored(1), OWNERS) | {"against": {"name": "other"} | told}
    cells, text = lines(result, 120)
    assert "Compared with other, on the same queries" in text
    rows = {row[1]: row[2:] for row in cells[2:6]}
    r1 = told["sentence_retrieval"]["R@1"]
    assert cells[2][0] == "sentence"
    assert rows["theirs"][0] == f"{r1['theirs']:.1f}"
    assert rows["difference"][0] == f"{r1['difference']:+.1f}"
    assert rows["95 %"][0] == "{:.1f} to {:.1f}".format(*r1["interval"])
    assert rows["p"] == [
        *(f"{c['p']:.3f}" for c in told["sentence_retrieval"].values()),
        f"{told['mR']['p']:.3f}",
    ]
    assert cells[9][2] == "<0.001"


def test_an_ensemble_has_its_members_and_their_weights_and_notes_are_said():
    member = evaluate_scores(scored(1), OWNERS)
    result = evaluate_scores(scored(2), OWNERS) | {
        "combined": "learned",
        "members": {"a": member, "b": member},
    }
    result |= {"weights": {"a": 0.25, "b": 0.75}, "notes": ["s.npy: the first 5 sentences."]}
    cells, text = lines(result)
    assert [row[0] for row in cells if row[0]] == ["a, weight 0.25", "b, weight 0.75", "learned"]
    assert "s.npy: the first 5 sentences." in text
