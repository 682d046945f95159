"""What a mini-batch takes of the train split: whole images, or one crop of each at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from seesay.data.corpus import Corpus
from seesay.encoders import load_image_encoder
from seesay.encoders.images.encode import bytes_of, encode_images
from seesay.errors import SeesayError
from seesay.recipes.load import load_recipe
from seesay.training.sentence_task import SentenceTask, TrainImages, single_crops
from seesay.training.train import train

TEN = ("encoders=['efficientnet-lite0:ten', efficientnet-lite0]", "arrays=[pooled, logits]")


@pytest.fixture(scope="module", autouse=True)
def _encoders_are_let_go() -> Iterator[None]:
    """Sessions that have encoded ten crops at once keep over a gigabyte."""
    yield
    load_image_encoder.cache_clear()


def test_rows_are_those_of_the_images() -> None:
    features = np.arange(12, dtype=np.float32).reshape(4, 3)
    taken = TrainImages(features).take(np.array([3, 0, 3]), "cpu")
    assert np.array_equal(taken, features[[3, 0, 3]])


def test_a_crop_is_drawn_anew_and_is_of_one_place_in_every_array() -> None:
    ten = np.arange(20, dtype=np.float16).reshape(2, 10, 1)
    whole = np.array([[[50]], [[60]]], np.float16)
    images = TrainImages(np.zeros((2, 3), np.float32), (ten, 100 + ten, whole))
    torch.manual_seed(0)
    rows = images.take(np.array([0, 1] * 200), "cpu").reshape(200, 2, 3)
    assert rows.dtype == torch.float32
    assert torch.equal(rows[:, :, 1], rows[:, :, 0] + 100)
    assert sorted(set(rows[:, 0, 0].tolist())) == list(range(10))
    assert sorted(set(rows[:, 1, 0].tolist())) == list(range(10, 20))
    assert rows[:, :, 2].unique(dim=0).tolist() == [[50, 60]]


def test_the_mean_of_the_single_crops_is_what_everything_else_sees(corpus: Corpus) -> None:
    recipe = load_recipe("irmatch-s", changes=[*TEN, "crops=true"])
    val = corpus.split("val")
    ten, ten_logits, whole, logits = single_crops(recipe, val)
    assert [each.shape for each in (ten, whole, logits)] == [(6, 10, 1280), (6, 1, 1280), (6, 1, 1000)]
    encoders = [load_image_encoder(name) for name in recipe.encoders]
    images = [bytes_of(image) for image in val.images]
    mean, plain = encode_images(encoders, images, [image.name for image in val.images]).arrays
    assert np.allclose(ten.astype(np.float32).mean(axis=1), mean["pooled"], atol=2e-3)
    assert np.allclose(ten_logits.astype(np.float32).mean(axis=1), mean["logits"], atol=2e-2)
    assert np.allclose(whole[:, 0].astype(np.float32), plain["pooled"], atol=5e-3)
    assert not np.allclose(ten[:, 0], ten[:, 4], atol=0.1)


# Nothing but a crop is drawn at random, so that only what is seen can make a difference.
SMALL = (
    "encoders=['efficientnet-lite0:ten']",
    "matcher.dim=24",
    "matcher.word_dim=8",
    "matcher.dropout=0",
    "schedule.epochs=1",
)


@pytest.mark.slow
def test_training_sees_single_crops(corpus: Corpus, tmp_path: Path) -> None:
    runs = [
        train(load_recipe("irmatch-s", changes=[*SMALL, f"crops={crops}"]), corpus, tmp_path / crops)
        for crops in ("true", "false")
    ]
    ours, theirs = (run.matcher.state_dict()["image_map.weight"] for run in runs)
    assert ours.shape == theirs.shape
    assert not torch.allclose(ours, theirs)


@pytest.mark.slow
def test_training_on_the_drawn_rows_is_training_on_crops(corpus: Corpus, tmp_path: Path) -> None:
    whole = train(load_recipe("irmatch-s", changes=SMALL), corpus, tmp_path / "run")
    recipe = load_recipe("irmatch-s", changes=[*SMALL, "crops=true"])
    task = SentenceTask.from_corpus(recipe, corpus, whole.vocabulary, None)
    matcher, batch = whole.matcher.cpu().train(), task.batches(1)[0]
    [mean] = task.losses_of(matcher, torch.from_numpy(task.data.features[batch[0]]).float(), batch, "cpu")
    torch.manual_seed(5)
    [loss] = task.losses(matcher, batch, "cpu")
    torch.manual_seed(5)
    drawn = torch.randint(10, (len(batch[0]),))
    rows = single_crops(recipe, task.data.corpus)[0][batch[0], drawn].astype(np.float32)
    [expected] = task.losses_of(matcher, torch.from_numpy(rows), batch, "cpu")
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert loss.item() != pytest.approx(mean.item(), rel=1e-4)


def test_crops_need_an_encoder_that_has_them() -> None:
    with pytest.raises(SeesayError, match=r"crops.*':ten'"):
        load_recipe("irmatch-s", changes=["encoders=[efficientnet-lite0]", "crops=true"])
