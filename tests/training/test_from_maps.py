"""Fine-tuning from maps of stages that stay: the same gradient as from pixels, and nothing else moves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from seesay.data.corpus import Corpus
from seesay.encoders.images.efficientnet import load_lite
from seesay.encoders.networks.lite import PixelsToStages, last_stages
from seesay.encoders.settings import EncoderSettings
from seesay.errors import SeesayError
from seesay.losses.ranking import ContrastiveLoss
from seesay.matchers.baselines.vsepp import VSEPlusPlus
from seesay.matchers.settings import MATCHERS
from seesay.protocols.evaluate import evaluate
from seesay.recipes.load import load_recipe
from seesay.runs.run import Run
from seesay.runs.sentences import number_words
from seesay.runs.summary import TrainingSummary
from seesay.text.vocabulary import Vocabulary
from seesay.training import tuning
from seesay.training.composed import check_tunable
from seesay.training.train import train
from seesay.training.tuning import FromMaps, FromPixels

NETWORK = "efficientnet-lite0"
TEN = f"{{kind: {NETWORK}, crops: ten}}"
SMALL = (
    f"encoders=[{NETWORK}]",
    "min_count=1",
    "sentence_encoder=minilm-int8",
    "batch_size=8",
    "schedule.epochs=1",
    "matcher.dim=16",
    "matcher.hidden=16",
    "matcher.word_dim=8",
    "matcher.at_once=4",
    "matcher.views=2",
)
SPLITS = {"train": 12, "val": 4, "test": 4}
RECIPE = """
name: tuned
encoders: [efficientnet-lite0]
arrays: [pooled, logits]
sentence_encoder: minilm-int8
min_count: 3
matcher: {kind: fine-tuned, members: [projection], views: 3, keep_classes: 3.0}
loss: {kind: contrastive, scale: 20.0}
optimizer: {lr: 0.0003, weight_decay: 0.01, grad_clip: 5.0}
sampler: images
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A recipe that tunes the CNN of a projection."""
    path = tmp_path_factory.mktemp("recipe") / "tuned.yaml"
    path.write_text(RECIPE)
    return str(path)


@pytest.fixture(scope="module")
def few(corpus: Corpus) -> Corpus:
    """Twenty scenes with two sentences each."""
    of = {name: [i for i, image in enumerate(corpus.images) if image.split == name] for name in SPLITS}
    chosen = [i for name, count in SPLITS.items() for i in of[name][:count]]
    sentences = [
        replace(sentence, image=number)
        for number, i in enumerate(chosen)
        for sentence in [s for s in corpus.sentences if s.image == i][:2]
    ]
    return replace(corpus, images=tuple(corpus.images[i] for i in chosen), sentences=tuple(sentences))


@pytest.fixture(scope="module")
def tuned(recipe: str, few: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tuned") / "run"
    train(load_recipe(recipe, few.name, changes=SMALL), few, folder)
    return folder


def pixels(count: int) -> torch.Tensor:
    draw = np.random.default_rng(0)
    return torch.from_numpy(draw.integers(0, 256, (count, 224, 224, 3), dtype=np.uint8))


@pytest.mark.parametrize("number", [0, 1])
def test_the_stages_together_are_the_network(number: int) -> None:
    network = load_lite(f"efficientnet-lite{number}")
    squares = pixels(2)
    with torch.inference_mode():
        pooled, logits = network(squares)
        maps, seen = PixelsToStages(network.network, logits=True)(squares)
        (alone,) = PixelsToStages(network.network, logits=False)(squares)
        found = last_stages(network.network, maps)
    assert maps.shape == (2, 14, 14, 112)
    assert torch.equal(alone, maps)
    for ours, wanted in zip((*found, seen), (pooled, logits, logits), strict=True):
        torch.testing.assert_close(ours, wanted, atol=1e-4, rtol=1e-4)


def test_the_gradient_is_that_from_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    """In parts, too; of the blocks behind stride 16 alone."""
    monkeypatch.setattr(tuning, "multiplies_bfloat16", lambda device: False)
    torch.manual_seed(0)
    matcher = VSEPlusPlus(image_dim=1280, vocabulary_size=20, dim=5, word_dim=4)
    sentences = number_words(["w0 w1", "w2", "w3 w4"], Vocabulary([f"w{i}" for i in range(6)])).to_tensors()
    squares = pixels(3)
    gradients = []
    for kind, at_once in ((FromPixels, 3), (FromMaps, 3), (FromMaps, 2)):
        network = load_lite(NETWORK)
        module = kind([network], matcher, ("pooled",), at_once).train()
        with torch.no_grad():
            (maps,) = PixelsToStages(network.network, logits=False)(squares)
        given = squares if kind is FromPixels else maps
        ContrastiveLoss(5.0)(matcher(module([given]), sentences), torch.arange(3)).backward()
        gradients.append({name: p.grad for name, p in network.network.named_parameters()})
    whole, *parts = gradients
    for part in parts:
        for name, gradient in part.items():
            if gradient is None:
                assert name.startswith(("_conv_stem", "_bn0", "_fc", *(f"_blocks.{i}." for i in range(11))))
            else:
                assert (gradient - whole[name]).abs().max() < 1e-3 * whole[name].abs().max() + 1e-6
    assert parts[0]["_blocks.11._expand_conv.weight"].abs().max() > 0


@pytest.mark.slow
def test_only_the_last_stages_are_tuned_and_the_maps_are_gone(tuned: Path, few: Corpus) -> None:
    run = Run.load(str(tuned))
    (name,) = run.recipe.encoders
    assert name.untuned == EncoderSettings(NETWORK)
    ours = load_lite(NETWORK, tuned, name.get("tuned")).state_dict()
    theirs = load_lite(NETWORK).state_dict()
    moved = {key for key, value in theirs.items() if not torch.equal(ours[key], value)}
    assert "network._blocks.11._expand_conv.weight" in moved
    assert "network._conv_head.weight" in moved
    still = {f"network._blocks.{i}." for i in range(11)} | {"network._fc.", "network._conv_stem."}
    assert not [key for key in moved if key.startswith(tuple(still)) or "running" in key]
    assert not (tuned / "maps").exists()


@pytest.mark.slow
def test_it_measures_as_training_did(tuned: Path, few: Corpus) -> None:
    """But for maps of half precision, in which near scores may change places."""
    found = evaluate(Run.load(str(tuned)), few, "standard", "val", resamples=0).to_dict()
    best = TrainingSummary.load(tuned).best_val
    assert abs(found["metrics"]["mR"] - best["metrics"]["mR"]) < 10
    assert found["about"]["images"] == best["about"]["images"]


@pytest.mark.slow
def test_ten_crops_are_views(recipe: str, few: Corpus, tmp_path: Path) -> None:
    """A step sees one of them; what is measured is their mean, as the trained encoder has it."""
    others = [change for change in SMALL if not change.startswith(("encoders", "matcher.views"))]
    changes = (
        *others,
        f"encoders=[{TEN}]",
        "matcher.views=10",
        "optimizer.lr=1e-8",
    )
    run = train(load_recipe(recipe, few.name, changes=changes), few, tmp_path / "ten")
    found = evaluate(run, few, "standard", "val", resamples=0).to_dict()
    assert abs(found["metrics"]["mR"] - TrainingSummary.load(run.folder).best_val["metrics"]["mR"]) < 5


@pytest.mark.slow
def test_a_large_weight_keeps_the_classes(recipe: str, few: Corpus, tmp_path: Path) -> None:
    """Of two runs with a great rate, the answers of the classifier move less in that which keeps them."""

    @torch.inference_mode()
    def answers(run: Path | None = None, tuned: str = "") -> torch.Tensor:
        return load_lite(NETWORK, run, tuned)(pixels(4))[1].softmax(1)

    moved = []
    for keep in (0.0, 100.0):
        changes = (*SMALL, f"matcher.keep_classes={keep}", "optimizer.lr=0.001", "schedule.epochs=2")
        run = train(load_recipe(recipe, few.name, changes=changes), few, tmp_path / str(keep))
        moved.append(
            float((answers(run.folder, run.recipe.encoders[0].get("tuned")) - answers()).abs().sum())
        )
    assert moved[1] < moved[0]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            ["matcher.views=9", f"encoders=[{TEN}]"],
            "views is 9; set it to 10 or more",
        ),
        ([f"encoders=[{TEN}, {NETWORK}]"], "same crops of an image"),
        (["arrays=[pooled]", f"encoders=[{NETWORK}]"], "keep_classes is of logits"),
    ],
)
def test_what_cannot_be_tuned_from_maps(recipe: str, changes: list[str], said: str) -> None:
    with pytest.raises(SeesayError, match=said):
        check_tunable(load_recipe(recipe, "scenes", changes=changes))


def test_what_was_never_seen_cannot_be_kept() -> None:
    with pytest.raises(ValueError, match="set views"):
        MATCHERS["fine-tuned"].settings(members=("gvse-common",), keep_classes=1.0)
    with pytest.raises(ValueError, match="no effect on a frozen CNN"):
        MATCHERS["fine-tuned"].settings(members=("gvse-common",), keep_classes=1.0, views=2, frozen=True)
