"""SCO's multi-label CNN fine-tuned on a few drawn scenes: the loss, the run, and who reads its concepts."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from seesay.data.corpus import Corpus, Sentence
from seesay.data.readers import read_corpus
from seesay.encoders.images.base import load_image_encoder
from seesay.encoders.images.encode import encode_images
from seesay.encoders.names import untuned
from seesay.errors import SeesayError
from seesay.losses.multi_label import MultiLabelLoss
from seesay.matchers.sco import ConceptClassifier
from seesay.protocols.evaluate import default_protocol, evaluate
from seesay.protocols.provenance import encoder_and_crops
from seesay.recipes.load import load_recipe, parse_recipe, read_recipe
from seesay.runs.concepts import image_concepts, run_concepts
from seesay.runs.run import Run
from seesay.runs.summary import TrainingSummary
from seesay.training.composed import MEMBERS
from seesay.training.concept_task import ConceptTask
from seesay.training.fine_tune import FineTuneTask, FromPixels
from seesay.training.loop import Loop
from seesay.training.train import train

SMALL = (
    "encoders=[efficientnet-lite0]",
    "matcher.hidden=16",
    "matcher.dropout=0",
    "min_count=1",
    "batch_size=8",
    "schedule.epochs=1",
    "optimizer.lr=0.001",
)
RECIPE = "concepts-finetuned"


@pytest.fixture(scope="module")
def corpus(scenes: Path) -> Corpus:
    """Twenty scenes: a CNN takes its time."""
    whole = read_corpus(scenes)
    few = [i for split, count in (("train", 12), ("val", 4), ("test", 4))
           for i in [i for i, image in enumerate(whole.images) if image.split == split][:count]]  # fmt: skip
    place = {old: new for new, old in enumerate(few)}
    sentences = tuple(Sentence(s.text, place[s.image]) for s in whole.sentences if s.image in place)
    return replace(whole, images=tuple(whole.images[i] for i in few), sentences=sentences)


@pytest.fixture(scope="module")
def tuned(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tuned") / "run"
    train(load_recipe(RECIPE, changes=SMALL), corpus, folder)
    return folder


def test_the_run_predicts_by_the_cnn_that_it_names(corpus: Corpus, tuned: Path) -> None:
    run, report = Run.load(str(tuned)), TrainingSummary.load(tuned)
    (name,) = run.recipe.encoders
    assert untuned(name) == "efficientnet-lite0" != name
    assert (tuned / f"encoder-{name.partition('@')[2]}.safetensors").is_file()
    assert encoder_and_crops(run.recipe) == ("efficientnet-lite0 fine-tuned", "squash")
    assert default_protocol(run.recipe) == "concepts"
    assert (report["monitor"], report["best_epoch"], list(report["members"])) == ("mAP", 1, ["concepts"])
    assert report["concepts"] == {"wanted": 256, "kept": len(run.vocabulary.words)}
    measured = evaluate(
        run, corpus, "concepts", "val", resamples=0
    ).to_dict()  # of features stored in half precision
    assert measured["mAP"] == pytest.approx(report["best_val"]["mAP"], abs=1)
    assert (
        measured["mAP"]
        != evaluate(first_step(tuned), corpus, "concepts", "val", resamples=0).to_dict()["mAP"]
    )


def test_its_concepts_are_those_of_the_first_step(corpus: Corpus, tuned: Path) -> None:
    run, first = Run.load(str(tuned)), first_step(tuned)
    assert run_concepts(run) == run_concepts(first)
    data = corpus.images[0].source.read()
    seen = image_concepts(run, data, "a", 5)
    assert sorted((each.score for each in seen), reverse=True) == [each.score for each in seen]
    assert [each.score for each in image_concepts(first, data, "a", 5)] != [each.score for each in seen]
    assert len(image_concepts(run, data, "a", 3, regions=True)) == 3


class Thinned(torch.nn.Module):
    """Stands for a CNN: a layer on every 32nd pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(7 * 7 * 3, 1280)

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        pooled = torch.tanh(self.layer(pixels[:, ::32, ::32].flatten(1) / 255))
        return pooled, pooled


def test_the_loss_is_that_of_the_cnns_features(corpus: Corpus, tuned: Path) -> None:
    """Of images cropped at random, which an epoch crops alike and the next one does not."""
    first, recipe = first_step(tuned), read_recipe(tuned / MEMBERS / "concepts" / "recipe.yaml")
    inner = ConceptTask.of(recipe, corpus, first.vocabulary)
    task, network, head = FineTuneTask(recipe, inner, "efficientnet-lite0"), Thinned(), first.matcher
    assert isinstance(head, ConceptClassifier)
    module = FromPixels(network, head, ("pooled",), at_once=2).train()
    batch = task.batches(1)[0][:3]
    loss_of = MultiLabelLoss()
    (loss,) = task.losses(loss_of, module, batch, "cpu")
    features, _ = network(task._squares(batch, "cpu"))
    expected = loss_of(head(features), inner.targets[batch])
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    loss.backward()
    assert network.layer.weight.grad.abs().max() > 0  # the CNN learns
    task.batches(2)
    assert task.losses(loss_of, module, batch, "cpu")[0].item() != loss.item()


MATCHING = """
name: matching
corpus: flickr8k
about: context of a CNN as it was, concepts of the one that was fine-tuned
encoders: ["efficientnet-lite0", "concepts:RUN"]
matcher: {kind: sco, dim: 8, word_dim: 4, max_length: 8, fusion: gate}
loss: {kind: margin, margin: 0.2}
schedule: {epochs: 1}
batch_size: 16
"""


def test_sco_reads_its_concepts_and_keeps_the_cnn_with_them(
    corpus: Corpus, tuned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run that reads them is moved to where neither it nor the run of concepts has ever been."""
    image = corpus.images[2].source.read()
    source = Path(shutil.copytree(tuned, tmp_path / "concepts"))
    matching = train(parse_recipe(MATCHING.replace("RUN", str(source)), "x"), corpus, tmp_path / "sco")
    tuned_name = read_recipe(tuned / "recipe.yaml").encoders[0]
    features = encode_images([load_image_encoder(tuned_name)], [image], ["a"]).arrays[0]["pooled"]
    head = Run.load(str(tuned)).matcher
    assert isinstance(head, ConceptClassifier)
    with torch.inference_mode():
        expected = torch.sigmoid(head(torch.from_numpy(features)))
    (scores,) = encode_images([matching.encoders[1]], [image], ["a"]).arrays
    np.testing.assert_allclose(scores["pooled"], expected, atol=1e-5)
    vectors, _ = matching.embed_images([image], ["a"])

    shutil.move(tmp_path / "sco", tmp_path / "moved")
    shutil.rmtree(source)
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path / "cache"))
    load_image_encoder.cache_clear()
    moved = Run.load(str(tmp_path / "moved"))
    np.testing.assert_allclose(moved.embed_images([image], ["a"])[0], vectors, atol=1e-5)
    assert len(list((tmp_path / "moved").glob("encoder-*"))) == 2  # the CNN and the head

    (tmp_path / "cache" / "encoders" / f"encoder-{tuned_name.partition('@')[2]}.safetensors").unlink()
    load_image_encoder.cache_clear()
    assert Run.load(str(tmp_path / "moved")).fingerprint == moved.fingerprint


def test_a_finished_first_step_is_taken_and_the_second_goes_on(
    corpus: Corpus, tuned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    shutil.copytree(tuned / MEMBERS, out / MEMBERS)
    recipe = load_recipe(RECIPE, changes=SMALL)
    ends = Loop.run

    def dies(self):
        ends(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(Loop, "run", dies)
    with pytest.raises(KeyboardInterrupt):
        train(recipe, corpus, out, resume=True)
    monkeypatch.setattr(Loop, "run", ends)
    monkeypatch.setattr(Loop, "_learn", None)  # the epoch is done: nothing is learned again
    run = train(recipe, corpus, out, resume=True)
    assert run.recipe.encoders == read_recipe(tuned / "recipe.yaml").encoders  # bit for bit
    words = tuple(replace(s, text=s.text.replace("red", "golden")) for s in corpus.sentences)
    shutil.rmtree(out)
    shutil.copytree(tuned / MEMBERS, out / MEMBERS)
    with pytest.raises(SeesayError, match="other sentences"):
        train(recipe, replace(corpus, sentences=words), out, resume=True)


FUSED = """
name: fused
corpus: flickr8k
about: a fusion with what matches no sentences
encoders: ["efficientnet-lite0:ten"]
min_count: 5
matcher: {kind: metric-fusion, members: [gvse-common, concepts-finetuned]}
loss: {kind: margin}
"""
MATCHED = """
name: matched
corpus: flickr8k
about: concepts as if they were matched with sentences
encoders: ["efficientnet-lite0:ten"]
min_count: 5
matcher: {kind: fine-tuned, members: [concepts]}
loss: {kind: margin}
"""


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        (RECIPE, "loss={kind: margin}", "multi-label is what concepts are learned with"),
        ("gvse-common-finetuned", "loss={kind: multi-label}", "multi-label is what concepts are"),
        (RECIPE, "encoders=[efficientnet-lite0, efficientnet-lite1]", "features of one encoder"),
        (RECIPE, "encoders=[precomputed]", "what can be fine-tuned is"),
        ("fused", "seed=1", "a fusion is of embedding matchers"),
        ("matched", "seed=1", "Recipe 'matched': key 'loss'"),
    ],
)
def test_what_cannot_be(corpus: Corpus, tmp_path: Path, name: str, change: str, said: str) -> None:
    for own, text in (("fused", FUSED), ("matched", MATCHED)):
        (tmp_path / f"{own}.yaml").write_text(text)
    file = tmp_path / f"{name}.yaml"
    with pytest.raises(SeesayError, match=said):
        train(load_recipe(str(file) if file.is_file() else name, changes=[change]), corpus, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("place", ["flickr8k", "flickr30k", "coco"])
def test_the_recipes_go_on_with_the_head_of_their_corpus(place: str) -> None:
    recipe, first = load_recipe(f"{place}/{RECIPE}"), load_recipe(f"{place}/concepts")
    assert recipe.matcher.matchers == (first.matcher,)
    assert "wants a GPU" in recipe.about
    assert recipe.optimizer.lr <= first.optimizer.lr / 10


def first_step(tuned: Path) -> Run:
    return Run.load(str(tuned / MEMBERS / "concepts"))
