"""Several arrays beside one corpus, each named by its file, trained through the tables of SCO and GVSE."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from seesay.data.boxes import iou
from seesay.data.readers import read_corpus
from seesay.errors import SeesayError
from seesay.paths import file_digest
from seesay.protocols.evaluate import evaluate
from seesay.recipes.load import load_recipe
from seesay.recipes.table import load_table
from seesay.runs.folder import WEIGHTS
from seesay.runs.inputs import NEAR, Inputs, split_inputs
from seesay.runs.run import Run
from seesay.text.vocabulary import Vocabulary
from seesay.training.summarize import compared_with_included
from seesay.training.table import TableRuns, measure_table
from seesay.training.train import train
from tests.training.published_layouts import PROPOSALS, write_boxes

OBJECTS = ["dog", "cat", "horse", "boy", "girl", "ball", "car", "boat", "tree", "house"]
SPLITS = {"train": 40, "val": 12, "test": 12}
CONTEXT = "{kind: precomputed, file: resnet152.npy, is: resnet152}"
CONCEPTS = "{kind: precomputed, file: concepts.npy, role: concepts}"
INSTANCES = "{kind: precomputed, file: frcnn.npy, role: instances}"
OWN = f"encoders=[{INSTANCES}, {CONTEXT}, {CONCEPTS}]"


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A split file in Karpathy's layout with three arrays beside it and no images.

    Each array has another order of the images: the vectors (n, 16) of a network, the scores (n, 10) of
    concepts, and five instances an image with ten scores each.
    """
    folder, rng = tmp_path_factory.mktemp("drawn"), np.random.default_rng(0)
    count = sum(SPLITS.values())
    splits = [split for split, images in SPLITS.items() for _ in range(images)]
    names = [f"{number}.jpg" for number in range(count)]
    shown = np.array([rng.choice(len(OBJECTS), 2, replace=False) for _ in names])
    records = []
    for name, split, (a, b) in zip(names, splits, shown, strict=True):
        unseen = " xylophone" if split == "test" else ""
        text = f"a {OBJECTS[a]} and a {OBJECTS[b]}{unseen}"
        records.append({"filename": name, "split": split, "sentences": [{"raw": text}] * 5})
    document = {"dataset": "flickr30k", "images": records}
    (folder / "dataset_flickr30k.json").write_text(json.dumps(document))
    scores = np.eye(len(OBJECTS))[shown]  # (n, 2, 10)
    instances = np.concatenate([scores, rng.random((count, 3, len(OBJECTS)))], axis=1)
    context = rng.normal(size=(len(OBJECTS), 16))[shown].sum(axis=1)
    for stem, rows in {"resnet152": context, "concepts": scores.sum(axis=1), "frcnn": instances}.items():
        order = rng.permutation(count)
        np.save(folder / f"{stem}.npy", rows[order].astype(np.float32))
        (folder / f"{stem}_ids.txt").write_text("\n".join(names[row] for row in order))
    return folder


def inputs_of(folder: Path, recipe: str, *encoders: str, split: str = "train") -> Inputs:
    changes = [f"encoders=[{', '.join(encoders)}]"]
    return split_inputs(load_recipe(recipe, changes=changes), read_corpus(folder), split, Vocabulary(["a"]))


def by_name(folder: Path, stem: str) -> dict[str, np.ndarray]:
    ids = (folder / f"{stem}_ids.txt").read_text().splitlines()
    return dict(zip(ids, np.load(folder / f"{stem}.npy"), strict=True))


def test_one_override_trains_every_row_on_the_arrays_of_its_roles(drawn: Path, tmp_path: Path) -> None:
    rows, asked = ["sco-ctx", "sco-cnp", "sco-cnp-ctx"], [OWN, "schedule.epochs=1", "matcher.dim=16"]
    runs = TableRuns(load_table("sco-2").only(rows), read_corpus(drawn), tmp_path, changes=asked, resamples=0)
    assert measure_table(runs, [1], [].append).failures == []
    folders = {row: tmp_path / "flickr30k" / f"{row}-seed1" for row in rows}
    assert len({file_digest(folder / WEIGHTS) for folder in folders.values()}) == len(rows)
    widths = [Run.load(str(folder)).config.image_dims for folder in folders.values()]
    assert widths == [(16,), (10,), (16, 10)]


def test_gvse_sums_and_gates_own_instances_and_an_own_vector(drawn: Path, tmp_path: Path) -> None:
    corpus = read_corpus(drawn)
    asked = [f"encoders=[{INSTANCES}, {CONTEXT}]", "schedule.epochs=1", "matcher.gate.folds=2"]
    for name, changes in (("gvse-sum-minilm", asked[:2]), ("gvse-gated-minilm", asked)):
        train(load_recipe(name, corpus="flickr30k", changes=changes), corpus, tmp_path / name)
        run = Run.load(str(tmp_path / name))
        assert run.config.image_dims == (36 * 10, 16)
        result = evaluate(run, corpus, "standard", "test", resamples=0).to_dict()
        assert result["about"]["images"] == SPLITS["test"]
    weights = [tmp_path / name / WEIGHTS for name in ("gvse-sum-minilm", "gvse-gated-minilm")]
    assert file_digest(weights[0]) != file_digest(weights[1])


@pytest.mark.parametrize("split", SPLITS)
def test_each_array_is_aligned_by_its_own_ids(drawn: Path, split: str) -> None:
    inputs = inputs_of(drawn, "sco-cnp-ctx", CONTEXT, CONCEPTS, split=split)
    context, concepts = by_name(drawn, "resnet152"), by_name(drawn, "concepts")
    assert inputs.image_dims == (16, 10)
    assert len(inputs.corpus.images) == SPLITS[split]
    expected = [np.concatenate([context[image.name], concepts[image.name]]) for image in inputs.corpus.images]
    np.testing.assert_array_equal(inputs.features, expected)


def test_instances_are_joined_beside_the_mean_of_the_same_regions(drawn: Path) -> None:
    whole = "{kind: precomputed, file: frcnn.npy}"
    inputs = inputs_of(drawn, "gvse-sum", INSTANCES, whole)
    regions = by_name(drawn, "frcnn")
    assert inputs.image_dims == (36 * 10, 10)
    expected = np.stack([regions[image.name] for image in inputs.corpus.images])
    np.testing.assert_array_equal(inputs.features[:, :50], expected.reshape(-1, 50))
    assert not inputs.features[:, 50:360].any()
    np.testing.assert_allclose(inputs.features[:, 360:], expected.mean(axis=1), rtol=1e-6)


def test_rows_in_the_order_of_a_split_are_read_where_they_lie(drawn: Path, tmp_path: Path) -> None:
    corpus = read_corpus(drawn)
    np.save(tmp_path / "vgg.npy", np.ones((len(corpus.images), 4), np.float16))
    (tmp_path / "vgg_ids.txt").write_text("\n".join(image.name for image in corpus.images))
    inputs = inputs_of(drawn, "sco-ctx", f"{{kind: precomputed, file: {tmp_path}/vgg.npy}}")
    assert inputs.features.dtype == np.float16
    assert not inputs.features.flags.owndata


def test_the_layout_of_vse_takes_further_arrays_by_split_and_row(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names = []
    for split, count in (("train", 40), ("dev", 8), ("test", 8)):
        np.save(tmp_path / f"{split}_ims.npy", rng.normal(size=(count, 6)))
        (tmp_path / f"{split}_caps.txt").write_text("a dog\n" * 5 * count)
        names += [f"{split}/{row}" for row in range(count)]
    np.save(tmp_path / "concepts.npy", np.arange(len(names), dtype=np.float32)[:, None])
    (tmp_path / "concepts_ids.txt").write_text("\n".join(names))
    for split, first in (("train", 0), ("val", 40), ("test", 48)):
        inputs = inputs_of(tmp_path, "sco-cnp-ctx", "precomputed", CONCEPTS, split=split)
        assert inputs.image_dims == (6, 1)
        np.testing.assert_array_equal(inputs.features[:, 6], first + np.arange(len(inputs.features)))
    rows = [str(row) for row in range(len(names))]  # which do not tell the splits apart
    (tmp_path / "concepts_ids.txt").write_text("\n".join(rows))
    with pytest.raises(SeesayError, match=r"concepts\.npy: no row for image train/0"):
        inputs_of(tmp_path, "sco-cnp-ctx", "precomputed", CONCEPTS)


def test_sentence_vectors_are_found_beside_the_corpus(
    drawn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = read_corpus(drawn)
    texts = sorted(set(corpus.texts()))
    np.save(drawn / "thought.npy", np.random.default_rng(0).normal(size=(len(texts), 8)))
    (drawn / "thought_texts.txt").write_text("\n".join(texts))
    monkeypatch.chdir(tmp_path)  # where another file of that name would be an accident
    (tmp_path / "thought.npy").touch()
    asked = [
        f"encoders=[{CONTEXT}]",
        "sentence_encoder={kind: vectors, file: thought.npy}",
        "schedule.epochs=1",
    ]
    runs = TableRuns(
        load_table("two-branch-2").only(["two-branch"]), corpus, tmp_path, changes=asked, resamples=0
    )
    assert measure_table(runs, [1], [].append).failures == []
    assert measure_table(runs, [1], [].append).failures == []  # the same run, which is finished
    run = Run.load(str(tmp_path / "flickr30k" / "two-branch-seed1"))
    assert run.sentence_encoder is not None
    assert run.sentence_encoder.encode(texts[:1]).shape == (1, 8)


def own_file(folder: Path, rows: np.ndarray, ids: list[str]) -> str:
    np.save(folder / "own.npy", rows)
    (folder / "own_ids.txt").write_text("\n".join(ids))
    return f"file: {folder}/own.npy"


def test_a_file_that_does_not_fit_is_named_in_one_line(drawn: Path, tmp_path: Path) -> None:
    names = [image.name for image in read_corpus(drawn).images]
    lacking = own_file(tmp_path, np.ones((63, 4)), [name for name in names if name != "7.jpg"])
    refused = {
        ("sco-ctx", "{kind: precomputed, file: none.npy}"): r"none\.npy: no such file of features",
        ("sco-ctx", "precomputed"): r"there are concepts\.npy, frcnn\.npy, resnet152\.npy; name the one",
        ("sco-ctx", f"{{kind: precomputed, {lacking}}}"): r"own\.npy: no row for image 7\.jpg",
        ("gvse-uncommon", "{kind: precomputed, file: resnet152.npy, role: instances}"): (
            r"resnet152\.npy: global features per image, but the matcher takes 36 instances"
        ),
        ("irmatch-h", "efficientnet-lite0"): "features but no images",
        ("sco-ctx", f"{CONTEXT}, {CONTEXT.replace('resnet152}', 'vgg19}')}"): "an encoder is named twice",
    }
    for (recipe, encoders), said in refused.items():
        with pytest.raises(SeesayError, match=said) as raised:
            inputs_of(drawn, recipe, encoders)
        assert "\n" not in str(raised.value)
    wrong = own_file(tmp_path, np.ones((64, 2, 2, 2)), names)
    with pytest.raises(SeesayError, match=r"own\.npy: expected numbers of shape"):
        inputs_of(drawn, "sco-ctx", f"{{kind: precomputed, {wrong}}}")
    fewer = own_file(tmp_path, np.ones((64, 2)), names[:-1])
    with pytest.raises(SeesayError, match=r"own\.npy: 63 ids for the features of 64 images"):
        inputs_of(drawn, "sco-ctx", f"{{kind: precomputed, {fewer}}}")
    infinite = own_file(tmp_path, np.full((64, 2), np.inf), names)
    with pytest.raises(SeesayError, match=r"own\.npy: the features of image 0\.jpg contain NaN"):
        inputs_of(drawn, "sco-ctx", f"{{kind: precomputed, {infinite}}}")


def test_a_cnn_is_tuned_only_where_there_are_images(drawn: Path, tmp_path: Path) -> None:
    said, corpus = "tunes a CNN on pixels, but the corpus has no images; leave it out", read_corpus(drawn)
    with pytest.raises(SeesayError, match=said):
        train(load_recipe("gvse-common-finetuned"), corpus, tmp_path / "run")
    definition = load_table("gvse-1").only(["gvse-common-finetuned"])
    with pytest.raises(SeesayError, match=said):
        TableRuns(definition, corpus, tmp_path / "runs").run("gvse-common-finetuned", 1)
    assert not (tmp_path / "runs").exists()


def test_a_row_of_two_images_is_refused(tmp_path: Path) -> None:
    records = [
        {"filename": name, "split": "train", "sentences": [{"raw": "a dog"}]} for name in ("1.jpg", "1.png")
    ]
    (tmp_path / "dataset.json").write_text(json.dumps({"images": records}))
    file = own_file(tmp_path, np.ones((1, 4)), ["1"])
    with pytest.raises(SeesayError, match=r"own\.npy: the row of image 1\.png is another's, too"):
        inputs_of(tmp_path, "sco-ctx", f"{{kind: precomputed, {file}}}")


def test_phrases_without_a_box_near_theirs_are_left_out_of_training(
    scenes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = read_corpus(scenes, phrases=True)
    write_boxes(tmp_path, corpus)
    boxes = np.load(tmp_path / "frcnn_boxes.npy")
    first = corpus.sentences[0]
    near = iou(boxes[first.image], first.box[None])[:, 0] >= NEAR
    boxes[first.image, near] = 0
    boxes[1] = 0
    np.save(tmp_path / "frcnn_boxes.npy", boxes)
    changes = [
        f"encoders=[{{kind: precomputed, file: {tmp_path}/frcnn.npy}}]",
        f"regions.proposals={PROPOSALS}",
    ]
    recipe = load_recipe("ground-single", changes=changes)
    inputs = split_inputs(recipe, corpus, "train", Vocabulary(()))
    assert [str(error) for error in inputs.broken] == [
        f"{corpus.images[1].name}: no boxes in {tmp_path}/frcnn.npy."
    ]
    assert first not in inputs.corpus.sentences
    whole = len(corpus.split("train").sentences)
    lost = whole - len(inputs.corpus.sentences)
    assert f"{lost} of {whole} phrases of split 'train' are left out" in capsys.readouterr().err
    for phrase, region in zip(inputs.corpus.sentences, inputs.true_region, strict=True):
        assert iou(inputs.regions[phrase.image].boxes[region][None], phrase.box[None]) >= NEAR


def test_a_run_of_arrays_is_compared_with_nothing_if_no_image_can_be_read(
    drawn: Path, tmp_path: Path
) -> None:
    images = tmp_path / "images"
    images.mkdir()
    for number in range(sum(SPLITS.values())):
        (images / f"{number}.jpg").write_bytes(b"no image")
    corpus = read_corpus(drawn, images=images)
    recipe = load_recipe("sco-ctx", changes=[f"encoders=[{CONTEXT}]", "matcher.dim=8", "schedule.epochs=1"])
    assert compared_with_included(train(recipe, corpus, tmp_path / "run"), corpus) is None
