import io

import numpy as np
from rich.console import Console

from seesay.metrics import retrieval_metrics
from seesay.results.terminal import print_report


def printed(system, corpus, differences=(), scores=None, owners=None):
    if scores is None:
        scores, owners = np.eye(20), np.arange(20)
    console = Console(file=io.StringIO(), width=80)
    print_report(evaluate_scores(scores, owners), system, corpus, differences, console)
    text = console.file.getvalue()
    assert max(len(line) for line in text.splitlines()) <= 80
    return " ".join(text.split())


def test_the_published_row_stands_beside_and_what_differs_is_named():
    text = printed("IRMatchS", "flickr8k", ["EfficientNet-Lite0 instead of VGG-19", "one crop"])
    assert "100.0" in text
    assert "IRMatchS, measured" in text
    assert "IRMatchS, Ke et al." in text
    assert "74.1" in text
    assert "What differs: EfficientNet-Lite0 instead of VGG-19; one crop." in text
    assert "VGG-19, second fully connected layer" in text


def test_another_protocol_is_a_difference():
    assert "protocol standard, published coco-1k" in printed("irmatch-h", "coco")


def test_a_note_on_the_printed_row_is_passed_on():
    assert "Med r 5 is at odds with R@5 47.6" in printed("m-CNN(ENS)", "flickr8k")


def test_without_a_published_row_the_table_stands_alone():
    for system in (None, "seesay-small"):
        text = printed(system, "flickr8k", ["anything"])
        assert "100.0" in text
        assert "differs" not in text


def test_images_without_sentences_are_said():
    assert "1 images without sentences" in printed(None, "x", scores=np.eye(3)[:, :2], owners=np.arange(2))


def test_composition_is_a_row_a_kind_and_cut_sentences_are_counted():
    kind = {
        "true order": 81.234, "standard error": 0.51, "ties": 2.0, "difference": -0.001, "n": 30,
        "left out": 4,
    }  # fmt: skip
    result = {"protocol": "composition", "split": "test", "images": 3, "sentences": 14, "cut_sentences": 2}
    result["max_length"] = 30
    result["by kind"] = {"shuffle": kind, "swap": kind | {"standard error": None, "difference": None}}
    console = Console(file=io.StringIO(), width=120)
    print_report(result, "m-CNN(wd)", "flickr8k", (), console)
    lines = console.file.getvalue().splitlines()
    assert lines[0].strip() == (
        "test: 3 images, 14 sentences, composition; 2 sentences longer than 30 words, cut"
    )
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if "│" in line]
    assert cells == [
        ["shuffle", "81.2", "0.5", "2.0", "+0.00", "30", "4"],
        ["swap", "81.2", "–", "2.0", "–", "30", "4"],
    ]


def test_phrases_stand_beside_their_baselines_and_kinds():
    measures = {"R@1": 40.0, "R@5": 60.0, "R@10": 70.0, "upper bound": 88.0, "n": 5}
    whole = {"R@1": 20.0, "R@5": 20.0, "R@10": 20.0, "upper bound": 20.0, "n": 5}
    result = {
        "protocol": "grounding",
        "split": "test",
        "images": 3,
        **measures,
        "by kind": {"people": measures},
        "baselines": {"whole image": whole},
        "convention": "enclosing box",
        "IoU": "continuous",
    }
    console = Console(file=io.StringIO(), width=80)
    print_report(result, "ground-full", "flickr8k-phrases", (), console)
    text = " ".join(console.file.getvalue().split())
    assert "test: 3 images, 5 phrases, grounding" in text
    assert "ground-full, measured" in text
    assert "whole image" in text
    assert "people" in text
    assert "convention: enclosing box, IoU: continuous" in text
