"""GVSE's fusion end to end on drawn scenes, small: members with inputs of their own, gates, search."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from seesay.data.corpus import Corpus
from seesay.errors import SeesayError
from seesay.matchers.gvse import GVSE
from seesay.matchers.settings import MATCHERS
from seesay.metrics.ranks import Ranks, ranks
from seesay.metrics.recall import metrics_of
from seesay.protocols.evaluate import evaluate
from seesay.recipes.load import load_recipe, member_recipes
from seesay.runs.inputs import split_inputs
from seesay.runs.run import Run
from seesay.runs.summary import GateSummary, TrainingSummary
from seesay.search.index import Index
from seesay.training.composed import MEMBERS
from seesay.training.train import train

pytestmark = pytest.mark.slow  # two matchers and their gates are trained, several times

UNCOMMON = """
name: uncommon
corpus: flickr8k
about: reads sentence vectors alone
encoders: [efficientnet-lite0]
sentence_encoder: mean
matcher: {kind: embedding-network, dim: 12, image_hidden: 16, sentence_hidden: 16}
loss: {kind: margin, margin: 0.2}
schedule: {epochs: 4}
batch_size: 40
"""
COMMON = """
name: common
corpus: flickr8k
about: reads words alone
encoders: [{kind: efficientnet-lite0, crops: ten}]
min_count: 2
matcher: {kind: sco, dim: 10, word_dim: 8, fusion: context}
loss: {kind: margin, margin: 0.2}
schedule: {epochs: 4}
batch_size: 40
"""
FUSED = """
name: fused
corpus: flickr8k
about: both
encoders: ["efficientnet-lite0", {kind: efficientnet-lite0, crops: ten}]
sentence_encoder: mean
min_count: 2
matcher: {kind: metric-fusion, members: [MEMBERS], gate: {uncommon: 20, hidden: 8}}
loss: {kind: margin, margin: 0.2}
optimizer: {kind: sgd, lr: 0.05, momentum: 0.9}
schedule: {epochs: 4}
batch_size: 40
"""


@pytest.fixture(scope="module")
def recipes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recipe of a fusion, its members' beside it."""
    folder = tmp_path_factory.mktemp("recipes")
    (folder / "uncommon.yaml").write_text(UNCOMMON)
    (folder / "common.yaml").write_text(COMMON)
    members = f"{folder / 'uncommon.yaml'}, {folder / 'common.yaml'}"
    (folder / "fused.yaml").write_text(FUSED.replace("MEMBERS", members))
    return folder


@pytest.fixture(scope="module")
def fused(corpus: Corpus, recipes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fusion") / "run"
    train(load_recipe(str(recipes / "fused.yaml")), corpus, folder)
    return folder


def test_it_scores_as_its_members_runs_do_weighed_by_its_gates(corpus: Corpus, fused: Path) -> None:
    run = Run.load(str(fused))
    assert isinstance(run.matcher, GVSE)
    inputs = split_inputs(run.recipe, corpus, "test", run.vocabulary, run.sentence_encoder)
    metrics = []
    for name in ("uncommon", "common"):
        member = Run.load(str(fused / MEMBERS / name))
        theirs = split_inputs(member.recipe, corpus, "test", member.vocabulary, member.sentence_encoder)
        metrics.append(member.score_prepared(theirs.features, theirs.sentences))
    assert np.allclose(run.score_prepared(inputs.features, inputs.sentences), sum(metrics), atol=1e-5)
    with torch.inference_mode():
        images = run.matcher.embed_images(torch.from_numpy(inputs.features).float())
        sentences = run.matcher.embed_sentences(inputs.sentences.to_tensors())
        by_image = run.matcher.image_gate(images).sigmoid().numpy()[:, None]
        by_sentence = run.matcher.sentence_gate(sentences).sigmoid().numpy()[None]
    assert np.ptp(by_sentence) > 0
    # The standard protocol ranks each direction by the gates of its queries.
    owners = inputs.image_of_sentence
    first = ranks(by_image * metrics[0] + (1 - by_image) * metrics[1], owners)
    second = ranks(by_sentence * metrics[0] + (1 - by_sentence) * metrics[1], owners)
    expected = metrics_of(Ranks(first.sentence, second.image))["mR"]
    assert evaluate(run, corpus, "standard", "test", resamples=0).metrics["mR"] == pytest.approx(
        expected, abs=1e-3
    )


def test_the_summary_names_members_and_gates(corpus: Corpus, fused: Path) -> None:
    summary = TrainingSummary.load(fused)
    assert list(summary.members) == ["uncommon", "common"]
    assert set(summary.gates) == {"image", "sentence"}


def test_it_can_be_searched(corpus: Corpus, fused: Path, scenes: Path, tmp_path: Path) -> None:
    run = Run.load(str(fused))
    index = Index.create(tmp_path / "index", run)
    assert index.update_images(scenes).added == len(corpus.images)
    text = corpus.texts()[0]
    found = [hit.score for hit in index.search(text, 5)]
    splits = (
        split_inputs(run.recipe, corpus, split, run.vocabulary, run.sentence_encoder)
        for split in ("train", "val", "test")
    )
    images = run.embed_features(np.concatenate([part.features for part in splits]))
    scores = images @ run.embed_sentences([text], query=True)[0]
    assert np.allclose(found, np.sort(scores)[::-1][:5], atol=2e-3)


def test_the_sum_needs_no_gates(corpus: Corpus, recipes: Path, fused: Path, tmp_path: Path) -> None:
    recipe = load_recipe(str(recipes / "fused.yaml"), changes=["matcher.gate=null"])
    assert isinstance(recipe.matcher, MATCHERS["metric-fusion"])
    assert recipe.matcher.gate is None
    assert recipe.matcher.parts == ((0,), (1,))
    assert [member.changes for member in member_recipes(recipe)] == [(), ()]
    run = train(recipe, corpus, tmp_path / "sum")
    assert not any("gate" in key for key in run.matcher.state_dict())
    assert TrainingSummary.load(tmp_path / "sum").gates is None


def test_no_uncommon_words_leave_the_sum(corpus: Corpus, recipes: Path, tmp_path: Path) -> None:
    recipe = load_recipe(str(recipes / "fused.yaml"), changes=["matcher.gate.uncommon=0"])
    train(recipe, corpus, tmp_path / "run")
    gates = TrainingSummary.load(tmp_path / "run").gates
    assert gates["sentence"] == GateSummary(epoch=0, why="no train sentence holds uncommon words")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("matcher.members=[mcnn-wd, vse++]", "a fusion is of embedding matchers"),
        ("matcher.members=[vse++, vse++]", "named twice"),
        ("matcher.members=[vse++]", r"matcher\.members"),
        ("matcher.gate.folds=1", r"matcher\.gate\.folds"),
    ],
)
def test_recipes_that_cannot_be(recipes: Path, change: str, said: str) -> None:
    with pytest.raises(SeesayError, match=said):
        load_recipe(str(recipes / "fused.yaml"), changes=[change])


def test_members_that_read_something_else(recipes: Path, tmp_path: Path) -> None:
    text = (recipes / "fused.yaml").read_text()
    for old, new, said in (
        (
            "{kind: efficientnet-lite0, crops: ten}]",
            "efficientnet-lite1]",
            "'encoders' is .* in its member 'common'",
        ),
        ("sentence_encoder: mean", "sentence_encoder: minilm", "'sentence_encoder' is minilm, and mean"),
        ("min_count: 2", "min_count: 3", "'min_count' is 3, and 2 in its member 'common'"),
    ):
        (tmp_path / "fused.yaml").write_text(text.replace(old, new))
        with pytest.raises(SeesayError, match=said):
            load_recipe(str(tmp_path / "fused.yaml"))
