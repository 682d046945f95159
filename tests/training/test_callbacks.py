"""What callbacks are told, and that they are always told of the end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import seesay
from seesay.data.corpus import Corpus
from seesay.device import chosen_device
from seesay.runs.summary import read_history

SMALL: dict[str, Any] = {
    "encoders": ["efficientnet-lite0"],
    "matcher": {"dim": 24, "word_dim": 8},
    "batch_size": 64,
    "epochs": 2,
}


class Recording(seesay.Callback):
    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def on_train_start(self, name: str, folder: Path, recipe: Mapping[str, Any]) -> None:
        self.told.append(("start", name, folder.name, recipe["batch_size"]))

    def on_epoch_end(self, epoch: int, metrics: Mapping[str, float]) -> None:
        self.told.append(("epoch", epoch, dict(metrics)))

    def on_train_end(self) -> None:
        self.told.append(("end",))


def test_every_epoch_is_told_with_plain_numbers(corpus: Corpus, tmp_path: Path) -> None:
    callback = Recording()
    seesay.train("irmatch-s", corpus, tmp_path / "run", **SMALL, callbacks=[callback])
    assert [each[0] for each in callback.told] == ["start", "epoch", "epoch", "end"]
    assert callback.told[0] == ("start", "irmatch-s", "run", 64)
    (_, first, metrics), (_, second, _) = callback.told[1:3]
    assert (first, second) == (1, 2)
    assert {"loss", "lr", "seconds", "val/mR", "val/S R@1", "val/I Med r"} <= metrics.keys()
    assert all(type(value) is float for value in metrics.values())
    epoch = read_history(tmp_path / "run")[0]
    assert (metrics["loss"], metrics["val/mR"]) == (epoch.loss, epoch.val["metrics"]["mR"])


def test_a_ridge_of_a_closed_form_is_told_as_an_epoch(corpus: Corpus, tmp_path: Path) -> None:
    callback = Recording()
    seesay.train(
        "cca-mean",
        corpus,
        tmp_path / "run",
        encoders=["efficientnet-lite0"],
        matcher={"dim": 4},
        loss={"ridges": [0.1, 1.0]},
        sentence_dim=8,
        callbacks=[callback],
    )
    assert [metrics["ridge"] for _, _, metrics in callback.told[1:-1]] == [0.1, 1.0]


def test_the_end_is_told_after_an_error_too(corpus: Corpus, tmp_path: Path) -> None:
    class Failing(Recording):
        def on_epoch_end(self, epoch: int, metrics: Mapping[str, float]) -> None:
            raise KeyboardInterrupt

    first, failing = Recording(), Failing()
    with pytest.raises(KeyboardInterrupt):
        seesay.train("irmatch-s", corpus, tmp_path / "run", **SMALL, callbacks=[first, failing])
    assert [each[0] for each in first.told] == ["start", "epoch", "end"]
    assert failing.told[-1] == ("end",)
    resumed = Recording()
    seesay.train("irmatch-s", corpus, tmp_path / "run", **SMALL, resume=True, callbacks=[resumed])
    assert [each[1] for each in resumed.told if each[0] == "epoch"] == [2]


def test_the_device_is_that_of_the_call_alone(corpus: Corpus, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("SEESAY_DEVICE", "meta:1")
    seen = []

    class Seen(seesay.Callback):
        def on_epoch_end(self, epoch, metrics):
            seen.append(chosen_device())

    options = SMALL | {"epochs": 1}
    run = seesay.train("irmatch-s", corpus, tmp_path / "run", device="cpu", callbacks=[Seen()], **options)
    assert (seen, chosen_device()) == (["cpu"], "meta:1")
    (epoch,) = run.history
    assert epoch.loss > 0
    assert seesay.load("seesay-small", "cpu").history == []
