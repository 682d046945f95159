"""SCO's multi-label CNN, from its loss to a trained run."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from seesay.data.corpus import Corpus
from seesay.device import default_device
from seesay.encoders import register_image_encoder
from seesay.encoders.images.base import ImageEncoder, load_image_encoder
from seesay.encoders.images.encode import encode_images
from seesay.encoders.settings import EncoderSettings
from seesay.errors import SeesayError
from seesay.protocols.concepts import image_concepts
from seesay.protocols.evaluate import evaluate
from seesay.recipes.load import load_recipe
from seesay.recipes.schema import Recipe
from seesay.recipes.table import TableRow, load_table
from seesay.runs.inputs import split_inputs
from seesay.runs.run import Run
from seesay.runs.summary import TrainingSummary
from seesay.text.concepts import frequent_concepts, load_concepts
from seesay.text.vocabulary import Vocabulary
from seesay.training.composed import MEMBERS
from seesay.training.concept_task import held_out_scores, save_held_out, score_held_out
from seesay.training.sentence_task import task_for
from seesay.training.table import TableRuns, measure_table
from seesay.training.train import train
from tests.concept_heads import write_head
from tests.training.steps import cosine, counted_steps

CHANGES = [
    "encoders=[efficientnet-lite0]",
    "matcher.hidden=64",
    "matcher.folds=0",
    "schedule.epochs=15",
    "batch_size=16",
    "min_count=2",
    "optimizer.lr=0.01",
]


@pytest.fixture(scope="module")
def run(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("concepts") / "run"
    return train(load_recipe("concepts", changes=CHANGES), corpus, folder)


def test_it_learns_more_than_frequency(run: Run, corpus: Corpus) -> None:
    measured = evaluate(run, corpus, "concepts", "val", resamples=0).to_dict()
    assert measured["metrics"]["mAP"] > measured["metrics"]["training frequency: mAP"] + 10
    summary = TrainingSummary.load(run.folder)
    assert summary.monitor == "mAP"
    best = summary.best_val["metrics"]["mAP"]
    assert best == pytest.approx(measured["metrics"]["mAP"], abs=0.5)  # stored in half precision
    assert summary.concepts == {"wanted": 256, "kept": len(run.vocabulary.words)}


def test_the_run_holds_its_concepts(run: Run, corpus: Corpus) -> None:
    kept = load_concepts(run.folder / "concepts.json")
    assert kept == frequent_concepts(corpus.split("train").texts(), 256, 2)
    assert tuple(concept.word for concept in kept) == run.vocabulary.words


def test_a_run_is_an_encoder(run: Run, corpus: Corpus) -> None:
    """The interface of SCO's matchers: the last array is of the concepts' scores."""
    recipe = load_recipe(
        "vse++",
        changes=[
            f"encoders=[efficientnet-lite0, {{kind: concepts, run: {run.folder}}}]",
            "schedule.epochs=1",
            "batch_size=16",
        ],
    )
    matching = train(recipe, corpus, run.folder.parent / "matching")
    data = corpus.images[0].source.read()  # type: ignore[union-attr]
    vectors = matching.embed_images([data])
    assert vectors.shape == (1, matching.dim)
    assert matching.encoders[1].dims["pooled"] == len(run.vocabulary.words)


def test_concepts_of_an_image_are_the_encoders_best(run: Run, corpus: Corpus) -> None:
    data = corpus.images[0].source.read()  # type: ignore[union-attr]
    found = image_concepts(run, data, "a", 3)
    encoder = load_image_encoder({"kind": "concepts", "run": str(run.folder)}, default_device())
    scores = encode_images([encoder], [data], ["a"])[0]["pooled"][0]
    best = sorted(scores.tolist(), reverse=True)[:3]
    assert [score for _, score in found] == pytest.approx(best, rel=1e-5)
    assert found[0][0].word == run.vocabulary.words[int(scores.argmax())]


def test_an_interrupted_run_ends_as_it_would_have(run: Run, corpus: Corpus, tmp_path: Path) -> None:
    recipe = load_recipe("concepts", changes=CHANGES)
    with pytest.raises(KeyboardInterrupt), counted_steps(last=2 * 3 + 2):  # 48 images in batches of 16
        train(recipe, corpus, tmp_path / "run")
    resumed = train(recipe, corpus, tmp_path / "run", resume=True)
    for key, value in run.matcher.state_dict().items():
        torch.testing.assert_close(resumed.matcher.state_dict()[key], value, rtol=0, atol=0)


def test_heads_of_folds_learn_for_as_many_steps_as_the_run(corpus: Corpus, tmp_path: Path) -> None:
    schedule = ["matcher.folds=2", "schedule={steps: 4, shape: cosine}"]
    with counted_steps() as rates:
        train(
            load_recipe("concepts", changes=[*CHANGES[:2], *CHANGES[4:], *schedule]), corpus, tmp_path / "run"
        )
    assert rates == pytest.approx(3 * cosine(0.01, 4))  # an epoch has three


def test_sentences_without_content_words_leave_nothing_to_learn(corpus: Corpus, tmp_path: Path) -> None:
    silent = replace(corpus, sentences=tuple(replace(s, text="it is on") for s in corpus.sentences))
    with pytest.raises(SeesayError, match="No content word"):
        train(load_recipe("concepts", changes=CHANGES), silent, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_it_matches_no_sentences(run: Run, corpus: Corpus) -> None:
    with pytest.raises(SeesayError):
        evaluate(run, corpus, "standard", "val", resamples=0)
    with pytest.raises(SeesayError, match="predicts no concepts"):
        evaluate(Run.load("seesay-small"), corpus, "concepts", "val", resamples=0)


@pytest.mark.parametrize(
    "change", ["encoders=[efficientnet-lite0, efficientnet-lite1]", "loss.kind=logistic"]
)
def test_a_recipe_that_cannot_be_is_refused(change: str) -> None:
    with pytest.raises(SeesayError, match="loss"):
        load_recipe("concepts", changes=[change])


def test_matchers_learn_from_scores_of_heads_that_have_not_seen_the_images(
    corpus: Corpus, tmp_path: Path
) -> None:
    """With folds a train image's scores are another head's; a val image's are the run's own."""
    folded = train(load_recipe("concepts", changes=[*CHANGES, "matcher.folds=3"]), corpus, tmp_path / "run")
    recipe = load_recipe(
        "sco-cnp",
        changes=[
            f"encoders=[{{kind: concepts, run: {folded.folder}}}]",
            "matcher.dim=8",
            "schedule.epochs=1",
        ],
    )
    vocabulary = Vocabulary.from_texts(corpus.split("train").texts(), 1)
    task = task_for(recipe, corpus, vocabulary, None)
    for split, features in (("train", task.data.features), ("val", task.val.features)):
        own = split_inputs(recipe, corpus, split, vocabulary).features
        assert (np.abs(features - own).max(axis=1) > 1e-3).all() == (split == "train")
        assert ((features >= 0) & (features <= 1)).all()


def test_a_fold_is_scored_by_a_head_that_learned_from_the_others(
    run: Run, corpus: Corpus, tmp_path: Path
) -> None:
    """What an image's own labels are makes no difference to its score."""
    recipe = run.recipe.model_copy(update={"matcher": run.recipe.matcher.model_copy(update={"folds": 2})})
    scores = []
    for changed in (False, True):
        task = task_for(recipe, corpus, run.vocabulary, None)
        if changed:
            first = np.random.default_rng(recipe.seed).permutation(len(task.targets)) % 2 == 0
            task.targets[torch.from_numpy(first)] ^= True
        view = Run.from_matcher(tmp_path, recipe, run.vocabulary, None, run.matcher)
        write_head(tmp_path, "efficientnet-lite0", ["pooled"], folds=2)
        score_held_out(task, view, 2)
        names = [image.name for image in task.data.corpus.images]
        scores.append(
            held_out_scores(EncoderSettings.parse({"kind": "concepts", "run": str(tmp_path)}), names)[
                "logits"
            ]
        )
    same = np.isclose(*scores, atol=1e-4).all(axis=1)
    assert (same == first).all()


def test_a_resumed_training_learns_from_the_same_scores(corpus: Corpus, tmp_path: Path) -> None:
    """The run keeps them, whatever becomes of the run of concepts."""
    folded = train(load_recipe("concepts", changes=[*CHANGES, "matcher.folds=2"]), corpus, tmp_path / "run")
    changes = [
        f"encoders=[{{kind: concepts, run: {folded.folder}}}]",
        "matcher.dim=8",
        "schedule.epochs=1",
        "batch_size=30",
    ]
    matching = train(load_recipe("sco-cnp", changes=changes), corpus, tmp_path / "matching")
    named = load_recipe("sco-cnp", changes=changes)
    before = task_for(named, corpus, matching.vocabulary, None).data.features
    shutil.rmtree(folded.folder)
    after = task_for(matching.recipe, corpus, matching.vocabulary, None, matching.folder)
    np.testing.assert_array_equal(before, after.data.features)


def test_held_out_scores_are_of_the_same_images(run: Run, tmp_path: Path) -> None:
    assert (
        held_out_scores(EncoderSettings.parse({"kind": "efficientnet-lite0", "crops": "ten"}), ["a.jpg"])
        is None
    )
    assert (
        held_out_scores(EncoderSettings.parse({"kind": "concepts", "run": str(run.folder)}), ["a.jpg"])
        is None
    )  # trained without folds
    write_head(tmp_path, "efficientnet-lite0", ["pooled"], folds=5)
    with pytest.raises(SeesayError, match=r"held-out.safetensors is missing, .* matcher.folds=0"):
        held_out_scores(EncoderSettings.parse({"kind": "concepts", "run": str(tmp_path)}), ["a.jpg"])
    save_held_out(tmp_path, ["a.jpg"], np.zeros((1, 2), np.float32))
    with pytest.raises(SeesayError, match=r"trained on other images \(b.jpg is not among them\)"):
        held_out_scores(EncoderSettings.parse({"kind": "concepts", "run": str(tmp_path)}), ["a.jpg", "b.jpg"])


def test_a_fold_of_an_average_is_an_average(run: Run, corpus: Corpus, tmp_path: Path) -> None:
    """An average that keeps nothing of itself is the weights as the last step left them."""
    changes = {"matcher": run.recipe.matcher.model_copy(update={"folds": 2})}
    scores = []
    for average in (None, 1e-9, 0.9):
        schedule = run.recipe.schedule.model_copy(update={"average": average})
        recipe = run.recipe.model_copy(update={**changes, "schedule": schedule})
        task = task_for(recipe, corpus, run.vocabulary, None)
        view = Run.from_matcher(tmp_path, recipe, run.vocabulary, None, run.matcher)
        write_head(tmp_path, "efficientnet-lite0", ["pooled"], folds=2)
        score_held_out(task, view, 2)
        found = held_out_scores(
            EncoderSettings.parse({"kind": "concepts", "run": str(tmp_path)}),
            [each.name for each in task.data.corpus.images],
        )
        assert found is not None
        scores.append(found["logits"])
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-4)
    assert np.abs(scores[0] - scores[2]).max() > 1e-2


class Quarters(ImageEncoder):
    """The mean colours of an image's four quarters, side by side: four regions of three numbers."""

    @classmethod
    def load(cls, settings: EncoderSettings, device: str, run: Path | None) -> ImageEncoder:
        def network(pixels: np.ndarray) -> dict[str, np.ndarray]:
            quarters = pixels.reshape(len(pixels), 2, 4, 2, 4, 3).mean(axis=(2, 4)).reshape(len(pixels), -1)
            return {"pooled": np.float32(quarters / 255)}

        return cls(settings.title, "v1", 8, {"pooled": 12}, network)


def test_a_head_learns_from_regions_of_which_the_highest_logit_counts(corpus: Corpus, tmp_path: Path) -> None:
    register_image_encoder("test-quarters")(Quarters)
    changes = ["encoders=[test-quarters]", "matcher.instances=4", "matcher.hidden=8", "matcher.folds=2"]
    short = ["schedule.epochs=3", "batch_size=16", "min_count=2"]
    run = train(load_recipe("concepts-instances", changes=[*changes, *short]), corpus, tmp_path / "run")
    images = corpus.split("val").images[:3]
    names = ["test-quarters", {"kind": "concepts", "run": str(run.folder)}]
    data = [image.source.read() for image in images if image.source is not None]
    regions, scores = encode_images([load_image_encoder(n) for n in names], data, list("abc"))
    state = {key.rpartition("layers.")[2]: value.numpy() for key, value in run.matcher.state_dict().items()}
    for row, found in zip(regions["pooled"], scores["logits"], strict=True):
        of_regions = []
        for region in row.reshape(4, 3):
            roots = np.sqrt(region)
            hidden = np.maximum(
                state["0.weight"] @ (roots / np.linalg.norm(roots) * 3**0.5) + state["0.bias"], 0
            )
            of_regions.append(state["3.weight"] @ hidden + state["3.bias"])
        np.testing.assert_allclose(found, np.max(of_regions, axis=0), rtol=1e-3, atol=1e-4)
    assert (
        held_out_scores(
            EncoderSettings.parse(names[1]), [image.name for image in corpus.split("train").images]
        )
        is not None
    )


SHORT = ("schedule.epochs=1", "batch_size=30", "min_count=1")
PREDICTS = (*SHORT, "encoders=[efficientnet-lite0]")
READS = ("encoders=[efficientnet-lite0, concepts]", "matcher.dim=8", "matcher.word_dim=4")


@pytest.fixture(scope="module")
def concepts(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of concepts in the folder `concepts`."""
    folder = tmp_path_factory.mktemp("runs") / "concepts"
    train(load_recipe("concepts", changes=PREDICTS), corpus, folder)
    return folder


def reader() -> Recipe:
    return load_recipe("vse++", changes=[*SHORT, *READS])


def read_by(run: Run) -> list[str | dict[str, str]]:
    """The image encoders of a run, without the hashes of their weights."""
    return [encoder.untuned.dump() for encoder in run.recipe.encoders]


def test_it_is_the_run_concepts_beside_the_new_run(corpus: Corpus, concepts: Path) -> None:
    run = train(reader(), corpus, concepts.parent / "reader")
    assert read_by(run) == ["efficientnet-lite0", {"kind": "concepts", "run": str(concepts)}]
    assert run.recipe.encoders[1].get("tuned")  # the run keeps what it reads
    assert run.encoders[1].dims["pooled"] == len(Run.load(str(concepts)).vocabulary.words)
    train(reader(), corpus, concepts.parent / "reader", resume=True)  # is the same recipe


def test_it_is_the_run_of_a_recipe_that_is_named(corpus: Corpus, concepts: Path, tmp_path: Path) -> None:
    recipe = load_recipe(
        "vse++", changes=[*SHORT, *READS, "encoders=[{kind: concepts, run: concepts-instances}]"]
    )
    with pytest.raises(SeesayError, match=f"`seesay train concepts-instances --out {tmp_path}/concepts-inst"):
        train(recipe, corpus, tmp_path / "run")
    shutil.copytree(concepts, tmp_path / "concepts-instances")
    run = train(recipe, corpus, tmp_path / "run")
    assert read_by(run) == [{"kind": "concepts", "run": f"{tmp_path}/concepts-instances"}]


def test_another_run_can_be_named(corpus: Corpus, concepts: Path, tmp_path: Path) -> None:
    named = reader().model_copy(
        update={
            "encoders": (
                EncoderSettings("efficientnet-lite0"),
                EncoderSettings.parse({"kind": "concepts", "run": str(concepts)}),
            )
        }
    )
    run = train(named, corpus, tmp_path / "run")
    assert read_by(run)[1] == {"kind": "concepts", "run": str(concepts)}


def test_without_such_a_run_nothing_is_trained(corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(SeesayError, match=rf"there is none at {tmp_path}/concepts; train one"):
        train(reader(), corpus, tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_members_read_the_concepts_of_the_whole(corpus: Corpus, concepts: Path, tmp_path: Path) -> None:
    shutil.copytree(concepts, tmp_path / "concepts")
    for name, changes in (("vse++", READS), ("vse0", (*READS, "encoders=[efficientnet-lite0]"))):
        text = load_recipe(name, changes=[*SHORT, *changes]).model_copy(update={"changes": ()})
        (tmp_path / f"{name}.yaml").write_text(text.model_dump_json())
    members = ", ".join(str(tmp_path / f"{name}.yaml") for name in ("vse++", "vse0"))
    (tmp_path / "fused.yaml").write_text(
        "name: fused\ncorpus: flickr8k\nabout: one of two members reads concepts\nmin_count: 1\n"
        "encoders: [efficientnet-lite0, concepts]\nloss: {kind: margin}\n"
        f"matcher: {{kind: metric-fusion, members: [{members}]}}\n"
    )
    recipe = load_recipe(str(tmp_path / "fused.yaml"))
    run = train(recipe, corpus, tmp_path / "run")
    expected = ["efficientnet-lite0", {"kind": "concepts", "run": str(tmp_path / "concepts")}]
    assert read_by(run) == expected
    assert read_by(Run.load(str(tmp_path / "run" / MEMBERS / "vse++"))) == expected
    assert train(recipe, corpus, tmp_path / "run", resume=True).fingerprint == run.fingerprint


@pytest.mark.slow
def test_a_table_trains_and_reads_its_own(corpus: Corpus, tmp_path: Path) -> None:
    row = TableRow(name="reader", recipe="vse++", changes=READS)
    definition = load_table("two-branch-2").model_copy(update={"rows": (row,)})
    runs = TableRuns(definition, corpus, tmp_path, changes=SHORT)
    (failure,) = measure_table(replace(runs, may_train=False), [1], lambda _: None).failures
    assert "concepts-seed1: no finished run" in failure
    assert measure_table(runs, [1], lambda _: None).failures == []
    own = tmp_path / corpus.name / "concepts-seed1"
    assert read_by(Run.load(str(tmp_path / corpus.name / "reader-seed1")))[1] == {
        "kind": "concepts",
        "run": str(own),
    }
    assert measure_table(replace(runs, may_train=False), [1], lambda _: None).failures == []


def test_concepts_do_not_read_themselves(corpus: Corpus, tmp_path: Path) -> None:
    definition = load_table("two-branch-2").model_copy(update={"rows": (TableRow(name="vse++"),)})
    changes = (*SHORT, "encoders=[{kind: concepts, role: context}]")
    runs = TableRuns(definition, corpus, tmp_path, changes=changes)
    (failure,) = measure_table(runs, [1], lambda _: None).failures
    assert "reads the concepts of a run" in failure
