"""Two-step learning on a few drawn scenes: the gradient, the encoder in the run, and who finds it."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from safetensors import SafetensorError

from seesay.data.corpus import Corpus
from seesay.data.images import EncodedImage, FileSource, decode
from seesay.encoders.images.base import kept_encoder, load_image_encoder
from seesay.encoders.images.efficientnet import load_lite
from seesay.encoders.images.encode import bytes_of, encode_images
from seesay.encoders.settings import EncoderSettings
from seesay.errors import SeesayError
from seesay.losses.likelihood import MultiLabelLoss
from seesay.losses.margin import SoftMarginLoss
from seesay.matchers.sco import ConceptClassifier
from seesay.matchers.settings import MATCHERS, MatcherInputs
from seesay.matchers.vsepp import VSEPlusPlus
from seesay.paths import data_dir
from seesay.protocols.concepts import image_concepts, run_concepts
from seesay.protocols.evaluate import default_protocol, evaluate
from seesay.recipes.load import dump_recipe, load_recipe, member_recipes
from seesay.recipes.schema import Recipe
from seesay.results.records import encoder_and_crops
from seesay.runs.bundle import write_bundle
from seesay.runs.config import run_recipe, save_recipe
from seesay.runs.prepare import number_words
from seesay.runs.run import Run
from seesay.runs.summary import TrainingSummary
from seesay.search.index import Index
from seesay.text.vocabulary import Vocabulary
from seesay.training.composed import MEMBERS
from seesay.training.sentence_task import task_for
from seesay.training.train import train
from seesay.training.tuning import FromPixels, PixelsTask
from tests.fit_torchvision import fit_torchvision
from tests.training.steps import counted_steps

pytestmark = pytest.mark.slow  # a CNN is trained

MATCHING, CONCEPTS = "gvse-common-finetuned", "concepts-finetuned"
BOTH = (
    "encoders=[efficientnet-lite0]",
    "min_count=1",
    "batch_size=8",
    "schedule.epochs=1",
    "optimizer.lr=0.001",
    "matcher.views=null",
)
SMALL = {
    MATCHING: (*BOTH, "matcher.dim=16", "matcher.word_dim=8"),
    CONCEPTS: (*BOTH, "matcher.hidden=16", "matcher.dropout=0"),
}
SPLITS = {"train": 16, "val": 4, "test": 4}


@pytest.fixture(scope="module")
def few(corpus: Corpus) -> Corpus:
    """Twenty-four scenes with one sentence each: a CNN takes its time."""
    of = {name: [i for i, image in enumerate(corpus.images) if image.split == name] for name in SPLITS}
    chosen = [i for name, count in SPLITS.items() for i in of[name][:count]]
    first = {s.image: s for s in reversed(corpus.sentences)}
    sentences = tuple(replace(first[i], image=n) for n, i in enumerate(chosen))
    return replace(corpus, images=tuple(corpus.images[i] for i in chosen), sentences=sentences)


@pytest.fixture(scope="module")
def tuned(few: Corpus, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A fine-tuned run of each recipe."""
    folder = tmp_path_factory.mktemp("tuned")
    for name, changes in SMALL.items():
        train(load_recipe(name, changes=changes), few, folder / name)
    return {name: folder / name for name in SMALL}


@pytest.fixture
def matching(tuned: dict[str, Path]) -> Path:
    return tuned[MATCHING]


@pytest.fixture
def concepts(tuned: dict[str, Path]) -> Path:
    return tuned[CONCEPTS]


def first_step(folder: Path) -> Run:
    (member,) = (folder / MEMBERS).iterdir()
    return Run.load(str(member))


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
    network, matcher = Tiny(), VSEPlusPlus(image_dim=6, vocabulary_size=20, dim=5, word_dim=4)
    pixels = torch.randint(0, 256, (10, 2, 2, 3), dtype=torch.uint8)
    texts = [f"w{i} w{i + 1}" for i in range(10)]
    sentences = number_words(texts, Vocabulary([f"w{i}" for i in range(12)])).to_tensors()
    gradients, loss = [], SoftMarginLoss(margin=0.2, top_k=1)
    for at_once in (3, 10):
        module = FromPixels([network], matcher, ("pooled",), at_once).train()
        assert not network.norm.training
        module.zero_grad()
        loss(matcher(module([pixels]), sentences), torch.arange(10)).backward()
        gradients.append([parameter.grad.clone() for parameter in module.parameters()])
    for first, second in zip(*gradients, strict=True):
        assert torch.allclose(first, second, atol=1e-6)
    features = network(pixels)[0]
    assert torch.allclose(FromPixels([network], matcher, ("pooled",), 3)([pixels]), features)
    both = FromPixels([network], matcher, ("pooled", "logits"), 3)([pixels])
    assert torch.allclose(both, torch.cat([features, 2 * features], dim=1))
    assert any(gradient.abs().max() > 0 for gradient in gradients[0][:2])  # the CNN learns


def test_the_run_names_its_encoder_and_measures_as_training_did(few: Corpus, matching: Path) -> None:
    run = Run.load(str(matching))
    (encoder,) = run.recipe.encoders
    assert (matching / f"encoder-{encoder.get('tuned')}.safetensors").is_file()
    summary = TrainingSummary.load(matching)
    assert evaluate(run, few, "standard", "val", resamples=0).to_dict() == summary.best_val
    assert (summary.epochs, list(summary.members)) == (1, ["gvse-common"])
    assert not (matching / "checkpoint.safetensors").exists()
    assert encoder_and_crops(run.recipe) == ("efficientnet-lite0 fine-tuned", "squash")


def test_it_is_another_encoder_than_the_one_it_began_with(few: Corpus, matching: Path) -> None:
    run, first = Run.load(str(matching)), first_step(matching)
    (ours,), (theirs,) = run.encoders, first.encoders
    assert ours.fingerprint != theirs.fingerprint
    assert run.fingerprint != first.fingerprint
    image = few.images[0].source.read()
    crops = ours.prepare(np.random.default_rng(0).integers(0, 256, (240, 240, 3), np.uint8))[None]
    assert not np.allclose(ours.encode(crops)["pooled"], theirs.encode(crops)["pooled"], atol=1e-4)
    assert not np.allclose(run.embed_images([image]), first.embed_images([image]), atol=1e-4)


def test_a_run_brings_its_encoder_along(
    few: Corpus, matching: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To a machine whose cache never saw it, and to an index."""
    image = few.images[3].source.read()
    expected = Run.load(str(matching)).embed_images([image])
    moved = Path(shutil.copytree(matching, tmp_path / "moved"))
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path / "cache"))
    kept_encoder.cache_clear()
    name = run_recipe(moved).encoders[0]
    with pytest.raises(SeesayError, match="belong to a run; load that run"):
        load_image_encoder(name)
    run = Run.load(str(moved))
    assert np.allclose(run.embed_images([image]), expected, atol=1e-5)
    photos = tmp_path / "photos"
    photos.mkdir()
    (photos / "a.png").write_bytes(image)
    index = Index.create(tmp_path / "index", run)
    index.update_images(photos)
    assert index.search(image, 1)[0].score == pytest.approx(1.0, abs=1e-2)
    (moved / f"encoder-{name.get('tuned')}.safetensors").unlink()
    kept_encoder.cache_clear()
    with pytest.raises(SeesayError, match=r"the weights of an encoder are missing"):
        Run.load(str(moved)).embed_images([image])


def test_a_damaged_encoder_is_an_error(
    matching: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = Path(shutil.copytree(matching, tmp_path / "copy"))
    (file,) = copy.glob("encoder-*.safetensors")
    file.write_bytes(b"nothing")
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path / "cache"))
    kept_encoder.cache_clear()
    with pytest.raises(SeesayError, match="damaged"):
        Run.load(str(copy)).embed_images([np.zeros((8, 8, 3), np.uint8)])


@pytest.mark.parametrize("name", SMALL)
def test_an_interrupted_second_step_goes_on(
    few: Corpus, tuned: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The first step is taken as it is; the second one was killed when its last epoch was done."""
    out = tmp_path / "run"
    shutil.copytree(tuned[name] / MEMBERS, out / MEMBERS)
    recipe = load_recipe(name, changes=SMALL[name])
    with pytest.raises(SeesayError, match="resume it"):
        train(recipe, few, out)
    too_much = load_recipe(name, changes=[*SMALL[name], "matcher.at_once=3"])
    with monkeypatch.context() as patch:
        patch.setattr("seesay.training.loop.Loop.run", lambda _: 1 / 0)  # before there is an epoch to keep
        with pytest.raises(ZeroDivisionError):
            train(too_much, few, out, resume=True)
    (out / "encoder.safetensors").mkdir()  # in its place no network can be kept
    with pytest.raises(SafetensorError):
        train(recipe, few, out, resume=True)
    (out / "encoder.safetensors").rmdir()
    for changes in ([*SMALL[name], "matcher.frozen=true"], ()):
        with pytest.raises(SeesayError, match=r"another recipe was trained there: .*Name this run's changes"):
            train(load_recipe(name, changes=changes), few, out, resume=True)
    (out / "weights.safetensors").mkdir()
    with pytest.raises((SafetensorError, OSError)), counted_steps() as steps:
        train(recipe, few, out, resume=True)
    assert steps == []
    (out / "weights.safetensors").rmdir()
    with counted_steps() as steps:
        run = train(recipe, few, out, resume=True)
    assert steps == []
    assert not (out / "checkpoint.safetensors").exists()
    assert run.recipe.encoders == run_recipe(tuned[name]).encoders  # bit for bit


def test_a_first_step_on_other_sentences_is_refused(few: Corpus, concepts: Path, tmp_path: Path) -> None:
    shutil.copytree(concepts / MEMBERS, tmp_path / "run" / MEMBERS)
    others = replace(few, sentences=tuple(replace(s, text="golden " + s.text) for s in few.sentences))
    with pytest.raises(SeesayError, match="other sentences"):
        train(load_recipe(CONCEPTS, changes=SMALL[CONCEPTS]), others, tmp_path / "run", resume=True)


FUSED = """
name: fused
corpus: flickr8k
about: a fine-tuned member and one that is not
encoders: ["efficientnet-lite0", ENCODER]
matcher: {kind: metric-fusion, members: [TUNED, OTHER]}
loss: {kind: margin}
"""
OTHER = """
name: other
corpus: flickr8k
about: reads the features of a CNN that stays as it is
encoders: [ENCODER]
matcher: {kind: vse++, dim: 6, word_dim: 4}
loss: {kind: margin}
schedule: {epochs: 1}
batch_size: 8
"""


def fusion(matching: Path, folder: Path, encoder: object) -> Recipe:
    """The recipe of a fusion of a fine-tuned run with another; both of its steps as files without changes."""
    first = run_recipe(matching / MEMBERS / "gvse-common")
    second = load_recipe(MATCHING, changes=SMALL[MATCHING])
    (folder / "first.yaml").write_text(dump_recipe(first.model_copy(update={"changes": ()})))
    matcher = second.matcher.model_copy(update={"members": (str(folder / "first.yaml"),)})
    (folder / "tuned.yaml").write_text(
        dump_recipe(second.model_copy(update={"changes": (), "matcher": matcher}))
    )
    (folder / "other.yaml").write_text(OTHER.replace("ENCODER", json.dumps(encoder)))
    text = FUSED.replace("ENCODER", json.dumps(encoder)).replace("TUNED", str(folder / "tuned.yaml"))
    (folder / "fused.yaml").write_text(text.replace("OTHER", str(folder / "other.yaml")))
    return load_recipe(str(folder / "fused.yaml"))


def members(recipe: Recipe, matching: Path, out: Path) -> None:
    """The finished fine-tuned run in the place of that member's."""
    there = Path(shutil.copytree(matching, out / MEMBERS / MATCHING))
    encoders = run_recipe(matching).encoders
    ours = member_recipes(recipe)[0].model_copy(update={"encoders": encoders})
    save_recipe(ours, there)


def test_a_fusion_takes_its_members_fine_tuned_encoder(few: Corpus, matching: Path, tmp_path: Path) -> None:
    recipe = fusion(matching, tmp_path, {"kind": "efficientnet-lite0", "crops": "ten"})
    members(recipe, matching, tmp_path / "run")
    run = train(recipe, few, tmp_path / "run", resume=True)
    assert run.recipe.encoders == (
        *Run.load(str(matching)).recipe.encoders,
        EncoderSettings.parse({"kind": "efficientnet-lite0", "crops": "ten"}),
    )
    shutil.rmtree(tmp_path / "run" / MEMBERS)
    run = Run.load(str(tmp_path / "run"))
    image = few.images[0].source.read()
    alone = Run.load(str(matching)).embed_images([image])
    assert np.allclose(run.embed_images([image])[:, :16], alone, atol=1e-5)
    with pytest.raises(SeesayError, match="an encoder is named twice"):  # fine-tuned and as it is
        fusion(matching, tmp_path, "efficientnet-lite0")


def test_the_run_predicts_by_the_cnn_that_it_names(few: Corpus, concepts: Path) -> None:
    run, summary = Run.load(str(concepts)), TrainingSummary.load(concepts)
    (encoder,) = run.recipe.encoders
    assert encoder.untuned == EncoderSettings("efficientnet-lite0") != encoder
    assert (concepts / f"encoder-{encoder.get('tuned')}.safetensors").is_file()
    assert encoder_and_crops(run.recipe) == ("efficientnet-lite0 fine-tuned", "squash")
    assert default_protocol(run.config) == "concepts"
    assert (summary.monitor, summary.best_epoch, list(summary.members)) == ("mAP", 1, ["concepts"])
    assert summary.concepts == {"wanted": 256, "kept": len(run.vocabulary.words)}
    measured = evaluate(run, few, "concepts", "val", resamples=0)  # of features in half precision
    assert measured.monitor == pytest.approx(summary.best, abs=1)


def test_its_concepts_are_those_of_the_first_step(few: Corpus, concepts: Path) -> None:
    run, first = Run.load(str(concepts)), first_step(concepts)
    assert run_concepts(run) == run_concepts(first)
    data = few.images[0].source.read()
    seen = image_concepts(run, data, "a", 5)
    scores = [score for _, score in seen]
    assert sorted(scores, reverse=True) == scores
    assert [score for _, score in image_concepts(first, data, "a", 5)] != scores


class Thinned(torch.nn.Module):
    """Stands for a CNN: a layer on every 32nd pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(7 * 7 * 3, 1280)
        self.seen: list[torch.Tensor] = []

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.seen.append(pixels)
        pooled = torch.tanh(self.layer(pixels[:, ::32, ::32].flatten(1) / 255))
        return pooled, pooled


def test_the_loss_is_that_of_the_cnns_features(few: Corpus, concepts: Path) -> None:
    """Of images cropped at random, which an epoch crops alike and the next one does not."""
    first, recipe = first_step(concepts), run_recipe(concepts / MEMBERS / "concepts")
    inner = task_for(recipe, few, first.vocabulary, None)
    task, network, head = PixelsTask(recipe, inner), Thinned(), first.matcher
    assert isinstance(head, ConceptClassifier)
    module = FromPixels([network], head, ("pooled",), at_once=2).train()
    batch = task.batches(1)[0][:3]
    (loss,) = task.losses(module, batch, "cpu")
    features, _ = network(torch.cat(network.seen))
    expected = MultiLabelLoss()(head(features), inner.targets[batch])
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    loss.backward()
    assert network.layer.weight.grad.abs().max() > 0  # the CNN learns
    task.batches(2)
    assert task.losses(module, batch, "cpu")[0].item() != loss.item()


READER = """
name: matching
corpus: flickr8k
about: context of a CNN as it was, concepts of the one that was fine-tuned
encoders: ["efficientnet-lite0", {kind: concepts, run: "RUN"}]
matcher: {kind: sco, dim: 8, word_dim: 4, max_length: 8, fusion: gate}
loss: {kind: margin, margin: 0.2}
schedule: {epochs: 1}
batch_size: 16
"""


def test_sco_reads_its_concepts_and_keeps_the_cnn_with_them(
    few: Corpus, concepts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run that reads them is moved to where neither it nor the run of concepts has ever been."""
    image = few.images[2].source.read()
    source = Path(shutil.copytree(concepts, tmp_path / "concepts"))
    reader = train(
        Recipe.model_validate(yaml.safe_load(READER.replace("RUN", str(source)))), few, tmp_path / "sco"
    )
    tuned_name = run_recipe(concepts).encoders[0]
    features = encode_images([load_image_encoder(tuned_name, run=concepts)], [image], ["a"])[0]["pooled"]
    head = Run.load(str(concepts)).matcher
    assert isinstance(head, ConceptClassifier)
    with torch.inference_mode():
        expected = torch.sigmoid(head(torch.from_numpy(features)))
    (scores,) = encode_images([reader.encoders[1]], [image], ["a"])
    np.testing.assert_allclose(scores["pooled"], expected, atol=1e-5)
    vectors = reader.embed_images([image])

    shutil.move(tmp_path / "sco", tmp_path / "moved")
    shutil.rmtree(source)
    (tmp_path / "cache").mkdir()
    shutil.copy(data_dir() / "index.key", tmp_path / "cache")  # it is still this user's
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path / "cache"))
    kept_encoder.cache_clear()
    moved = Run.load(str(tmp_path / "moved"))
    np.testing.assert_allclose(moved.embed_images([image]), vectors, atol=1e-5)
    assert len(list((tmp_path / "moved").glob("encoder-*"))) == 2  # the CNN and the head


FUSED_CONCEPTS = """
name: fused
corpus: flickr8k
about: a fusion with what matches no sentences
encoders: [{kind: efficientnet-lite0, crops: ten}]
min_count: 5
matcher: {kind: metric-fusion, members: [gvse-common, concepts-finetuned]}
loss: {kind: margin}
"""
MATCHED = """
name: matched
corpus: flickr8k
about: concepts as if they were matched with sentences
encoders: [{kind: efficientnet-lite2, crops: ten}]
min_count: 5
matcher: {kind: fine-tuned, members: [concepts]}
loss: {kind: margin}
"""


def test_a_pair_matcher_is_tuned_too(few: Corpus, tmp_path: Path) -> None:
    """Of the CNN the blocks after stride 16; the run's scores are those of training."""
    small = [change for change in BOTH if not change.startswith("matcher.views")]
    changes = [*small, "matcher.maps=[8, 8, 8]", "matcher.image=8", "matcher.hidden=8", "matcher.views=2"]
    run = train(load_recipe("mcnn-st-finetuned", changes=changes), few, tmp_path / "run")
    assert run.recipe.encoders[0].kind == "efficientnet-lite0"
    ours = load_lite("efficientnet-lite0", run.folder, run.recipe.encoders[0].get("tuned")).state_dict()
    moved = {
        key
        for key, value in load_lite("efficientnet-lite0").state_dict().items()
        if not torch.equal(ours[key], value)
    }
    assert {"network._blocks.11._expand_conv.weight", "network._conv_head.weight"} <= moved
    still = ("network._conv_stem.", "network._fc.", *(f"network._blocks.{i}." for i in range(11)))
    assert not [key for key in moved if key.startswith(still) or "running" in key]
    found = evaluate(run, few, "standard", "val", resamples=0).to_dict()
    best = TrainingSummary.load(run.folder).best_val
    assert found["metrics"]["mR"] == pytest.approx(best["metrics"]["mR"])


def test_an_epoch_shows_one_of_the_views_of_each_image(few: Corpus, concepts: Path) -> None:
    """The crop of its encoder, or a random one, which stays the same from epoch to epoch."""
    first = first_step(concepts)
    task = PixelsTask(first.recipe, task_for(first.recipe, few, first.vocabulary, None), views=2)
    seen = []
    for task.epoch in range(1, 9):
        seen.append(task.inputs(np.arange(3), "cpu")[0])
    encoder = load_image_encoder(first.recipe.encoders[0])
    for image in range(3):
        different = {squares[image].numpy().tobytes() for squares in seen}
        pixels = decode(bytes_of(few.images[image]), "scene", 320)
        assert len(different) == 2
        assert encoder.prepare(pixels)[0].tobytes() in different


def test_only_the_val_images_that_are_measured_are_encoded(few: Corpus, tmp_path: Path) -> None:
    reads = Counter[str]()

    class Counted(FileSource):
        def read(self) -> bytes:
            reads[self.path.name] += 1
            return super().read()

    images = tuple(replace(image, source=Counted(image.source.path)) for image in few.images)  # type: ignore[union-attr]
    changes = [*SMALL[MATCHING], "schedule.epochs=3", "val_images=2"]
    train(load_recipe(MATCHING, changes=changes), replace(few, images=images), tmp_path / "run")
    measured, others = np.split(np.array([reads[i.source.path.name] for i in few.split("val").images]), 2)  # type: ignore[union-attr]
    assert measured.min() >= others.max() + 3


def test_the_control_trains_the_matcher_alone(few: Corpus, tmp_path: Path) -> None:
    """The encoder keeps its name, and so the features that are stored under it."""
    small = [change for change in BOTH if not change.startswith("matcher.views")]
    changes = [*small, "matcher.maps=[8, 8, 8]", "matcher.image=8", "matcher.hidden=8", "matcher.views=2"]
    run = train(load_recipe("mcnn-st-finetuned-frozen", changes=changes), few, tmp_path / "run")
    assert run.recipe.encoders == (EncoderSettings("efficientnet-lite0"),)
    assert not list(run.folder.glob("encoder-*"))
    before, after = first_step(run.folder).matcher.state_dict(), run.matcher.state_dict()
    moved = {key for key, value in before.items() if not torch.equal(value, after[key])}
    assert {key.split(".")[0] for key in moved} >= {
        key.split(".")[0] for key, _ in run.matcher.named_parameters()
    }
    found = evaluate(run, few, "standard", "val", resamples=0).to_dict()
    best = TrainingSummary.load(run.folder).best_val
    assert found["metrics"]["mR"] == pytest.approx(best["metrics"]["mR"])


def test_a_network_of_timm_is_tuned(few: Corpus, tmp_path: Path) -> None:
    fit_torchvision()
    pytest.importorskip("timm", reason="timm is not installed")
    changes = ("encoders=[{kind: timm, crops: ten, model: test_vit, weights: random}]", *SMALL[MATCHING][1:])
    run = train(load_recipe(MATCHING, changes=changes), few, tmp_path / "run")
    (encoder,) = run.recipe.encoders
    assert (encoder.untuned.title, len(encoder.get("tuned"))) == ("timm:test_vit/random/ten", 16)
    found = evaluate(run, few, "standard", "val", resamples=0).to_dict()
    best = TrainingSummary.load(run.folder).best_val
    assert found["metrics"]["mR"] == pytest.approx(best["metrics"]["mR"])
    assert encoder_and_crops(run.recipe) == ("timm:test_vit/random/ten fine-tuned", "ten crops")
    ours, theirs = load_image_encoder(encoder, run=run.folder), load_image_encoder(encoder.untuned)
    assert ours.fingerprint != theirs.fingerprint
    kept_encoder.cache_clear()
    assert write_bundle(str(run.folder), tmp_path / "bundle") == "hub"
    assert (tmp_path / "bundle" / f"encoder-{encoder.get('tuned')}.safetensors").is_file()
    assert str(tmp_path) not in (tmp_path / "bundle" / "run.json").read_text()
    given, photo = Run.load(str(tmp_path / "bundle"), "cpu"), few.images[0]
    assert given.encoders[0].crop == "ten"
    vectors = [
        each.embed_photos([EncodedImage(bytes_of(photo), "").decoded(each.side)]) for each in (run, given)
    ]
    np.testing.assert_allclose(*vectors, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        (MATCHING, "encoders=[precomputed]", "encoders are precomputed; those of .* can be fine-tuned"),
        (MATCHING, "encoders=[{kind: efficientnet-lite0, crops: ten}, efficientnet-lite1]", "the same crops"),
        (MATCHING, "loss={kind: correlation}", "correlation needs a matcher with solve"),
        (MATCHING, "matcher.members=[cca-mean]", r"matcher 'cca'; fine-tuning goes on with"),
        (MATCHING, "matcher.at_once=0", r"matcher\.at_once"),
        (CONCEPTS, "loss={kind: margin}", "they take no other"),
        (MATCHING, "loss={kind: multi-label}", "they take no other"),
        (CONCEPTS, "encoders=[efficientnet-lite0, efficientnet-lite1]", "features of one encoder"),
        (CONCEPTS, "encoders=[precomputed]", "can be fine-tuned"),
        ("fused", "seed=1", "a fusion is of embedding matchers"),
        ("matched", "seed=1", "Recipe 'matched': key 'loss'"),
    ],
)
def test_what_cannot_be_fine_tuned(few: Corpus, tmp_path: Path, name: str, change: str, said: str) -> None:
    for own, text in (("fused", FUSED_CONCEPTS), ("matched", MATCHED)):
        (tmp_path / f"{own}.yaml").write_text(text)
    file = tmp_path / f"{name}.yaml"
    with pytest.raises(SeesayError, match=said):
        train(load_recipe(str(file) if file.is_file() else name, changes=[change]), few, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("place", ["flickr8k", "flickr30k", "coco"])
def test_the_recipes_go_on_with_the_head_of_their_corpus(place: str) -> None:
    recipe, first = load_recipe(f"{place}/{CONCEPTS}"), load_recipe(f"{place}/concepts")
    assert recipe.matcher.matchers == (first.matcher,)
    assert ("needs a GPU" in recipe.about) == (place != "flickr8k")
    assert recipe.optimizer.lr <= first.optimizer.lr / 10


def test_settings_that_are_not_resolved() -> None:
    settings = MATCHERS["fine-tuned"](members=("gvse-common",))
    with pytest.raises(SeesayError, match="gvse-common come with the settings of 0 matchers"):
        settings.build(MatcherInputs((4,), 10, 0))
    resolved = load_recipe(MATCHING).matcher
    assert isinstance(resolved.matchers[0], MATCHERS["sco"])
