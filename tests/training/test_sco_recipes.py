"""The SCO recipes: what Table 1 ticks, the paper's settings, and training them small on drawn scenes."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from seesay.data.corpus import Corpus
from seesay.data.images import EncodedImage
from seesay.encoders.images.base import kept_encoder
from seesay.encoders.settings import EncoderSettings
from seesay.errors import SeesayError
from seesay.losses.settings import LOSSES
from seesay.matchers.sco import GenerationSettings
from seesay.matchers.settings import MATCHERS, MatcherInputs
from seesay.protocols.evaluate import evaluate
from seesay.recipes.load import load_recipe
from seesay.results.records import encoder_and_crops
from seesay.runs.inputs import split_inputs
from seesay.runs.run import Run
from seesay.text.vocabulary import Vocabulary
from seesay.training.sentence_task import task_for
from seesay.training.train import train
from tests.matchers.taken import taken

pytestmark = pytest.mark.slow  # a decoder is trained for each row of the table

TEN, ONE, CONCEPTS = {"kind": "efficientnet-lite0", "crops": "ten"}, "efficientnet-lite0", "concepts"
GENERATION = GenerationSettings()
TABLE_1 = {
    "ctx-1crop": ("context", (ONE,), None),
    "ctx": ("context", (TEN,), None),
    "ctx-sen": ("context", (TEN,), GenerationSettings(role="sentence")),
    "ctx-gen-s": ("context", (TEN,), GenerationSettings(sampling=0.25)),
    "ctx-gen-e": ("context", (TEN,), GenerationSettings(shared=True)),
    "ctx-gen": ("context", (TEN,), GENERATION),
    "cnp": ("concepts", (CONCEPTS,), None),
    "cnp-gen": ("concepts", (CONCEPTS,), GENERATION),
    "cnp-ctx-c": ("sum", (TEN, CONCEPTS), None),
    "cnp-ctx": ("gate", (TEN, CONCEPTS), None),
    "full": ("gate", (TEN, CONCEPTS), GENERATION),
    "lambda-0.01": ("gate", (TEN, CONCEPTS), GenerationSettings(weight=0.01)),
    "lambda-100": ("gate", (TEN, CONCEPTS), GenerationSettings(weight=100)),
}
SMALL = (
    "encoders=[efficientnet-lite0]",
    "min_count=1",
    "matcher.dim=48",
    "matcher.word_dim=24",
    "optimizer.lr=5e-3",
    "schedule.epochs=6",
    "schedule.patience=null",
    "batch_size=30",
)
UNDROPPED = ("matcher.image_dropout=0", "matcher.sentence_dropout=0", "word_dropout=0")
# Logits stand for the scores of concepts: as many numbers of an image, behind its context.
GATED = (*SMALL, "arrays=[pooled, logits]")


@pytest.fixture(scope="module")
def full(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Run:
    out = tmp_path_factory.mktemp("sco") / "run"
    return train(load_recipe("sco-full", changes=GATED), corpus, out)


@pytest.mark.parametrize("corpus_name", ["flickr8k", "flickr30k", "coco"])
@pytest.mark.parametrize("name", TABLE_1)
def test_recipes_are_the_rows_of_table_1(corpus_name: str, name: str) -> None:
    recipe = load_recipe(f"{corpus_name}/sco-{name}")
    fusion, encoders, generation = TABLE_1[name]
    small = corpus_name == "flickr8k"
    own = {"standardise": True, "image_dropout": 0.5, "sentence_dropout": 0.3} if small else {}
    dim = 512 if small else 1024
    if small and generation is not None and generation.weight == 1 and generation.role == "supervision":
        generation = generation.model_copy(update={"weight": 0.02})  # by val
    assert recipe.matcher == MATCHERS["sco"](dim=dim, fusion=fusion, generation=generation, **own)
    assert (recipe.matcher.word_dim, recipe.matcher.max_length) == (300, 50)
    concepts = CONCEPTS if small else "concepts-regions"  # of 50 regions, which take an hour to see
    assert recipe.encoders == tuple(
        EncoderSettings.parse(concepts if encoder == CONCEPTS else encoder) for encoder in encoders
    )
    printed = LOSSES["margin"](margin=0.2)
    assert recipe.loss == (LOSSES["soft-margin"](margin=0.2, top_k=10) if small else printed)
    assert recipe.batch_size == (512 if small else 129)  # a matched pair and 128 mismatched ones
    assert (recipe.sampler, recipe.departures != ()) == ("rounds", True)
    assert any("H = 512" in line for line in recipe.departures) == small
    assert small or recipe.schedule.epochs == 30


def test_the_loss_is_matching_and_the_weight_times_generation(corpus: Corpus) -> None:
    """Eq. 4: the sum over mismatched pairs and that over words, each a mean over the pairs of a batch."""
    printed = ("loss={kind: margin, margin: 0.2}", "matcher.standardise=false", *UNDROPPED)
    recipe = load_recipe("sco-full", changes=[*GATED, "matcher.generation.weight=3", *printed])
    vocabulary = Vocabulary.from_texts(corpus.split("train").texts(), 1)
    task = task_for(recipe, corpus, vocabulary, None)
    torch.manual_seed(1)
    matcher = recipe.matcher.build(MatcherInputs((1280, 1000), len(vocabulary)))
    images, chosen = task.batches(1)[0]
    (loss,) = task.losses(matcher, (images, chosen), "cpu")
    features = torch.from_numpy(task.data.features[images]).float()
    sentences = task.data.sentences.take(chosen).to_tensors()
    scores = matcher(features, sentences).detach().numpy()
    matching = sum(
        max(0, 0.2 - scores[i, i] + scores[i, k]) + max(0, 0.2 - scores[i, i] + scores[k, i])
        for i in range(len(images))
        for k in range(len(images))
        if images[i] != images[k]
    )
    generation = 0.0
    for row in range(len(images)):
        one = taken(sentences, [row])
        generation += matcher.generation_loss(features[row : row + 1], one, 0.0).item()  # type: ignore[operator]
    assert loss.item() == pytest.approx((matching + generation) / len(images), rel=1e-4)
    by_chance = np.log(len(vocabulary) + 1) * (sentences.lengths + 1).sum().item()
    assert generation == pytest.approx(3 * by_chance, rel=0.05)
    task.batches(4)
    assert task.progress == pytest.approx(3 / 5)


@pytest.mark.parametrize("name", ["ctx", "ctx-sen", "ctx-gen-s", "ctx-gen-e", "cnp-gen", "cnp-ctx-c"])
def test_every_kind_of_row_learns(corpus: Corpus, tmp_path: Path, name: str) -> None:
    few = ("schedule.epochs=3", "matcher.max_length=12")
    changes = [*(GATED if "cnp-ctx" in name else SMALL), *few]
    changes += ["arrays=[logits]"] if name == "cnp-gen" else []
    train(load_recipe(f"sco-{name}", changes=changes), corpus, tmp_path / "run")
    rows = (tmp_path / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    losses = [json.loads(row)["loss"] for row in rows]
    assert losses[-1] < 0.95 * losses[0]


def test_it_matches_what_it_never_saw_and_is_loaded_again(full: Run, corpus: Corpus) -> None:
    inputs = split_inputs(full.recipe, corpus, "val", full.vocabulary)
    scores = full.score_prepared(inputs.features, inputs.sentences)
    owners = inputs.image_of_sentence
    others = np.arange(len(scores))[:, None] != owners
    assert (scores[owners, np.arange(len(owners))] > scores)[others].mean() > 0.6  # chance is a half
    again = Run.load(str(full.folder))
    np.testing.assert_allclose(again.score_prepared(inputs.features, inputs.sentences), scores, atol=1e-5)


def test_a_run_keeps_what_sees_its_concepts(corpus: Corpus, tmp_path: Path) -> None:
    seen = load_recipe("concepts", changes=[*SMALL[:2], "matcher.hidden=0", "schedule.epochs=1"])
    train(seen, corpus, tmp_path / "concepts")
    names = f"encoders=[efficientnet-lite0, {{kind: concepts, run: {tmp_path / 'concepts'}}}]"
    recipe = load_recipe("sco-cnp-ctx", changes=[names, *SMALL[1:], "schedule.epochs=1"])
    train(recipe, corpus, tmp_path / "run")
    shutil.rmtree(tmp_path / "concepts")
    moved = (tmp_path / "run").rename(tmp_path / "moved")
    kept_encoder.cache_clear()
    run = Run.load(str(moved))
    data, name = corpus.images[0].source.read(), corpus.images[0].name  # type: ignore[union-attr]
    vectors = run.embed_photos([EncodedImage(data, name).decoded(run.side)])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [1], atol=1e-5)
    assert encoder_and_crops(run.recipe)[0] == "efficientnet-lite0+concepts"


@pytest.mark.parametrize("regions", [False, True])
def test_concepts_are_predicted_from_arrays_of_ones_own(
    corpus: Corpus, tmp_path: Path, regions: bool
) -> None:
    """A head that was trained on a precomputed array reads that array in SCO, also of a moved run."""
    images = tuple(replace(image, row=row) for row, image in enumerate(corpus.images))
    shape = (len(images), 3, 4) if regions else (len(images), 4)
    features = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    own = replace(corpus, images=images, features=features)
    changes = ["encoders=[precomputed]", "schedule.epochs=1"]
    changes += ["matcher.instances=3"] if regions else ["matcher.hidden=0"]
    head = load_recipe("concepts-instances" if regions else "concepts", changes=changes)
    concepts = train(head, own, tmp_path / "concepts")
    names = f"encoders=[precomputed, {{kind: concepts, run: {tmp_path / 'concepts'}}}]"
    recipe = load_recipe("sco-cnp-ctx", changes=[names, *SMALL[1:], "schedule.epochs=1"])
    train(recipe, own, tmp_path / "run")
    shutil.rmtree(tmp_path / "concepts")
    run = Run.load(str((tmp_path / "run").rename(tmp_path / "moved")))
    read = split_inputs(run.config, own, "test", run.vocabulary, run=run.folder)
    inputs = split_inputs(head, own, "test", concepts.vocabulary)
    with torch.inference_mode():
        seen = concepts.matcher.eval()(torch.from_numpy(inputs.features)).sigmoid()
    np.testing.assert_allclose(read.features[:, 4:], seen.numpy(), atol=1e-5)
    wider = replace(own, features=np.concatenate([features, features], axis=-1))
    with pytest.raises(SeesayError, match=r"the head reads .* numbers per image, but precomputed returns"):
        split_inputs(run.config, wider, "test", run.vocabulary, run=run.folder)
    with pytest.raises(SeesayError, match="trained on precomputed features"):
        _ = run.encoders


def test_a_precomputed_context_beside_concepts(corpus: Corpus, tmp_path: Path) -> None:
    seen = load_recipe("concepts", changes=[*SMALL[:2], "matcher.hidden=0", "schedule.epochs=1"])
    train(seen, corpus, tmp_path / "concepts")
    images = tuple(replace(image, row=row) for row, image in enumerate(corpus.images))
    features = np.random.default_rng(0).normal(size=(len(images), 4)).astype(np.float32)
    both = replace(corpus, images=images, features=features)
    names = f"encoders=[precomputed, {{kind: concepts, run: {tmp_path / 'concepts'}}}]"
    train(
        load_recipe("sco-cnp-ctx", changes=[names, *SMALL[1:], "schedule.epochs=1"]), both, tmp_path / "run"
    )
    run = Run.load(str(tmp_path / "run"))
    assert evaluate(run, both, "standard", "test", resamples=0).to_dict()["about"]["images"] == 6
