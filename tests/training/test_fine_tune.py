"""Two-step learning on a few drawn scenes: the gradient, the encoder in the run, and who finds it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from seesay.data.corpus import Corpus
from seesay.data.readers import read_corpus
from seesay.encoders.images.base import load_image_encoder
from seesay.errors import SeesayError
from seesay.losses.ranking import soft_margin
from seesay.matchers.build import build_matcher
from seesay.matchers.composed import FineTunedSettings
from seesay.matchers.sco import SCOSettings
from seesay.matchers.vsepp import VSEPlusPlus
from seesay.protocols.evaluate import evaluate
from seesay.protocols.provenance import encoder_and_crops
from seesay.recipes.load import dump_recipe, load_recipe, member_recipes, read_recipe
from seesay.recipes.schema import Recipe
from seesay.runs.run import Run
from seesay.runs.sentences import number_words
from seesay.runs.summary import TrainingSummary
from seesay.search.index import Index
from seesay.text.vocabulary import Vocabulary
from seesay.training import loop
from seesay.training.composed import MEMBERS
from seesay.training.fine_tune import FromPixels
from seesay.training.train import train

SMALL = (
    "encoders=[efficientnet-lite0]",
    "matcher.dim=16",
    "matcher.word_dim=8",
    "least=1",
    "batch=8",
    "schedule.epochs=1",
    "optimizer.lr=0.001",
)
RECIPE = "gvse-common-finetuned"


@pytest.fixture(scope="module")
def corpus(scenes: Path) -> Corpus:
    """Twenty-four scenes with one sentence each: a CNN takes its time."""
    whole = read_corpus(scenes)
    few = [i for split, count in (("train", 16), ("val", 4), ("test", 4))
           for i in [i for i, image in enumerate(whole.images) if image.split == split][:count]]  # fmt: skip
    first = {s.image: s for s in reversed(whole.sentences)}
    sentences = tuple(replace(first[i], image=n) for n, i in enumerate(few))
    return replace(whole, images=tuple(whole.images[i] for i in few), sentences=sentences)


@pytest.fixture(scope="module")
def tuned(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tuned") / "run"
    train(load_recipe(RECIPE, changes=SMALL), corpus, folder)
    return folder


class Tiny(torch.nn.Module):
    """Stands for a CNN: pixels to pooled features and logits, through a batch normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.map, self.norm = torch.nn.Linear(12, 6), torch.nn.BatchNorm1d(6)

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        pooled = torch.tanh(self.norm(self.map(pixels.flatten(1) / 255)))
        return pooled, 2 * pooled


def test_the_gradient_in_parts_is_that_of_the_whole_batch() -> None:
    torch.manual_seed(0)
    network, matcher = Tiny(), VSEPlusPlus(6, 20, 5, 4)
    pixels = torch.randint(0, 256, (10, 2, 2, 3), dtype=torch.uint8)
    sentences = number_words([f"w{i} w{i + 1}" for i in range(10)], Vocabulary([f"w{i}" for i in range(12)]))
    gradients = []
    for at_once in (3, 10):
        module = FromPixels(network, matcher, ("pooled",), at_once).train()
        assert not network.norm.training
        module.zero_grad()
        soft_margin(module(pixels, sentences), torch.arange(10), 0.2, 1).backward()
        gradients.append([parameter.grad.clone() for parameter in module.parameters()])
    for first, second in zip(*gradients, strict=True):
        assert torch.allclose(first, second, atol=1e-6)
    plain = matcher(network(pixels)[0], sentences)
    assert torch.allclose(FromPixels(network, matcher, ("pooled",), 3)(pixels, sentences), plain)
    assert any(gradient.abs().max() > 0 for gradient in gradients[0][:2])  # the CNN learns


def test_the_run_names_its_encoder_and_measures_as_training_did(corpus: Corpus, tuned: Path) -> None:
    run = Run.load(str(tuned))
    (name,) = run.recipe.encoders
    assert (tuned / f"encoder-{name.partition('@')[2]}.safetensors").is_file()
    report = TrainingSummary.load(tuned)
    assert evaluate(run, corpus, "standard", "val", resamples=0).to_dict() == report["best_val"]
    assert (report["epochs"], list(report["members"])) == (1, ["gvse-common"])
    assert not (tuned / "checkpoint.safetensors").exists()
    assert encoder_and_crops(run.recipe) == ("efficientnet-lite0 fine-tuned", "squash")


def test_it_is_another_encoder_than_the_one_it_began_with(corpus: Corpus, tuned: Path) -> None:
    run, first = Run.load(str(tuned)), Run.load(str(tuned / MEMBERS / "gvse-common"))
    (ours,), (theirs,) = run.encoders, first.encoders
    assert ours.fingerprint != theirs.fingerprint
    assert run.fingerprint != first.fingerprint
    image = corpus.images[0].source.read()
    crops = ours.crops(np.random.default_rng(0).integers(0, 256, (240, 240, 3), np.uint8))[None]
    assert not np.allclose(ours.encode(crops)["pooled"], theirs.encode(crops)["pooled"], atol=1e-4)
    assert not np.allclose(
        run.embed_images([image], [""])[0], first.embed_images([image], [""])[0], atol=1e-4
    )


def test_a_run_brings_its_encoder_along(
    corpus: Corpus, tuned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To a machine whose cache never saw it, and to an index."""
    image = corpus.images[3].source.read()
    expected, _ = Run.load(str(tuned)).embed_images([image], ["image"])
    moved = Path(shutil.copytree(tuned, tmp_path / "moved"))
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path / "cache"))
    load_image_encoder.cache_clear()
    name = read_recipe(moved / "recipe.yaml").encoders[0]
    with pytest.raises(SeesayError, match="load that run"):
        load_image_encoder(name)
    run = Run.load(str(moved))
    assert np.allclose(run.embed_images([image], ["image"])[0], expected, atol=1e-5)
    photos = tmp_path / "photos"
    photos.mkdir()
    (photos / "a.png").write_bytes(image)
    index = Index.create(tmp_path / "index", run)
    index.update_images(photos)
    assert index.similar(image, 1)[0].score == pytest.approx(1.0, abs=1e-2)
    (moved / f"encoder-{name.partition('@')[2]}.safetensors").unlink()
    shutil.rmtree(tmp_path / "cache" / "encoders")
    with pytest.raises(SeesayError, match="the fine-tuned encoder's weights cannot be had"):
        Run.load(str(moved))


def test_a_damaged_encoder_is_told(tuned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = Path(shutil.copytree(tuned, tmp_path / "copy"))
    (file,) = copy.glob("encoder-*.safetensors")
    file.write_bytes(b"nothing")
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path / "cache"))
    load_image_encoder.cache_clear()
    with pytest.raises(SeesayError, match="damaged"):
        Run.load(str(copy))


def test_an_interrupted_second_step_goes_on(
    corpus: Corpus, tuned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    shutil.copytree(tuned / MEMBERS, out / MEMBERS)
    recipe = load_recipe(RECIPE, changes=SMALL)
    with pytest.raises(SeesayError, match="--resume"):
        train(recipe, corpus, out)
    ends = loop.Loop.run

    def dies(self):
        ends(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(loop.Loop, "run", dies)
    with pytest.raises(KeyboardInterrupt):
        train(recipe, corpus, out, resume=True)
    monkeypatch.setattr(loop.Loop, "run", ends)
    monkeypatch.setattr(loop.Loop, "_learn", None)  # the epoch is done: nothing is learned again
    run = train(recipe, corpus, out, resume=True)
    assert run.recipe.encoders == Run.load(str(tuned)).recipe.encoders  # bit for bit


FUSED = """
name: fused
corpus: flickr8k
about: a fine-tuned member and one that is not
encoders: ["efficientnet-lite0", "ENCODER"]
matcher: {kind: metric-fusion, members: [TUNED, OTHER]}
loss: {kind: margin}
"""
OTHER = """
name: other
corpus: flickr8k
about: reads the features of a CNN that stays as it is
encoders: ["ENCODER"]
matcher: {kind: vse++, dim: 6, word_dim: 4}
loss: {kind: margin}
schedule: {epochs: 1}
batch_size: 8
"""


def fusion(tuned: Path, folder: Path, encoder: str) -> Recipe:
    """The recipe of a fusion of a fine-tuned run with another; both of its steps as files without changes."""
    first = read_recipe(tuned / MEMBERS / "gvse-common" / "recipe.yaml")
    second = load_recipe(RECIPE, changes=SMALL)
    (folder / "first.yaml").write_text(dump_recipe(first.model_copy(update={"changes": ()})))
    matcher = second.matcher.model_copy(update={"members": (str(folder / "first.yaml"),)})
    (folder / "tuned.yaml").write_text(
        dump_recipe(second.model_copy(update={"changes": (), "matcher": matcher}))
    )
    (folder / "other.yaml").write_text(OTHER.replace("ENCODER", encoder))
    text = FUSED.replace("ENCODER", encoder).replace("TUNED", str(folder / "tuned.yaml"))
    (folder / "fused.yaml").write_text(text.replace("OTHER", str(folder / "other.yaml")))
    return load_recipe(str(folder / "fused.yaml"))


def members(recipe: Recipe, tuned: Path, out: Path) -> None:
    """The finished fine-tuned run in the place of that member's."""
    there = Path(shutil.copytree(tuned, out / MEMBERS / RECIPE))
    encoders = read_recipe(tuned / "recipe.yaml").encoders
    ours = member_recipes(recipe)[0].model_copy(update={"encoders": encoders})
    (there / "recipe.yaml").write_text(dump_recipe(ours))


def test_a_fusion_takes_its_members_fine_tuned_encoder(corpus: Corpus, tuned: Path, tmp_path: Path) -> None:
    recipe = fusion(tuned, tmp_path, "efficientnet-lite0:mirror")
    members(recipe, tuned, tmp_path / "run")
    run = train(recipe, corpus, tmp_path / "run", resume=True)
    assert run.recipe.encoders == (*Run.load(str(tuned)).recipe.encoders, "efficientnet-lite0:mirror")
    shutil.rmtree(tmp_path / "run" / MEMBERS)
    run = Run.load(str(tmp_path / "run"))
    image = corpus.images[0].source.read()
    alone = Run.load(str(tuned)).embed_images([image], ["image"])[0]
    assert np.allclose(run.embed_images([image], ["image"])[0][:, :16], alone, atol=1e-5)
    recipe = fusion(tuned, tmp_path, "efficientnet-lite0")
    members(recipe, tuned, tmp_path / "both")
    with pytest.raises(SeesayError, match="one member has fine-tuned efficientnet-lite0, another has not"):
        train(recipe, corpus, tmp_path / "both", resume=True)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("encoders=[precomputed]", "what can be fine-tuned is"),
        ("encoders=[efficientnet-lite0, efficientnet-lite1]", "what can be fine-tuned is"),
        ("loss={kind: correlation}", "correlation needs a matcher with solve"),
        ("matcher.members=[cca-mean]", r"matcher 'cca'; fine-tuning goes on with"),
        ("matcher.at_once=0", r"matcher\.at_once"),
    ],
)
def test_what_cannot_be_fine_tuned(corpus: Corpus, tmp_path: Path, change: str, said: str) -> None:
    with pytest.raises(SeesayError, match=said):
        train(load_recipe(RECIPE, changes=[*SMALL[3:], change]), corpus, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_settings_that_are_not_resolved() -> None:
    settings = FineTunedSettings(members=("gvse-common",))
    with pytest.raises(SeesayError, match="gvse-common come with the settings of 0 matchers"):
        build_matcher(settings, [4], 10, 0)
    resolved = load_recipe(RECIPE).matcher
    assert isinstance(resolved.matchers[0], SCOSettings)
