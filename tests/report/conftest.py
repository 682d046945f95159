"""One page of every kind of run, written once."""

from __future__ import annotations

from pathlib import Path

import pytest

from seesay.data.corpus import Corpus
from seesay.data.readers import read_corpus
from seesay.recipes.load import load_recipe
from seesay.report.write import write_report
from seesay.runs.run import Run
from seesay.training.train import train
from tests.report.made import untrained, write_recipes


@pytest.fixture(scope="session")
def corpus(scenes: Path) -> Corpus:
    return read_corpus(scenes)


@pytest.fixture(scope="session")
def runs(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """Runs of all kinds; `common` alone is trained, the others have the weights that training begins with."""
    folder = tmp_path_factory.mktemp("runs")
    write_recipes(folder)
    found = {"common": train(load_recipe(str(folder / "common.yaml")), corpus, folder / "common")}
    for name in ("fused", "attends", "concepts", "reads"):
        found[name] = untrained(str(folder / f"{name}.yaml"), folder / name, corpus)
    return found


@pytest.fixture(scope="session")
def matching_page(runs: dict[str, Run], corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of all kinds of runs that read sentences."""
    out = tmp_path_factory.mktemp("report") / "matching.html"
    lines: list[str] = []
    matching = [run for name, run in runs.items() if name != "concepts"]
    write_report(matching, corpus, "test", out, lines.append)
    assert any("1/4 common" in line for line in lines)
    return out


@pytest.fixture(scope="session")
def grounding_page(scenes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a run that grounds phrases."""
    folder, phrases = tmp_path_factory.mktemp("grounds"), read_corpus(scenes, phrases=True)
    changes = ("sentence_encoder=minilm", "matcher.dim=16", "matcher.image_hidden=16")
    changes += ("matcher.sentence_hidden=16", "regions.proposals=20")
    run = untrained("ground-single", folder / "grounds", phrases, *changes)
    write_report([run], phrases, "test", folder / "grounding.html", lambda _: None)
    return folder / "grounding.html"
