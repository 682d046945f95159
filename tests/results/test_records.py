"""Recorded rows: what tells them apart, what is checked, and that a file is never half right."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from seesay.errors import SeesayError
from seesay.recipes.files import included_recipes
from seesay.recipes.load import load_recipe, settings_digest
from seesay.results.records import (
    Row,
    encoder_and_crops,
    read_rows,
    record_row,
    recorded_changes,
    recorded_rows,
    repetitions,
    source_commit,
)
from tests.results.made import grounding, k_shot, one_direction, row, values

ROOT = Path(__file__).parents[2]

EVERY_KIND = (row(), one_direction(), grounding(), k_shot())


def test_rows_are_sorted_and_a_new_measurement_replaces_the_old(tmp_path):
    for one in (row(seed=10), row(seed=2), row("irmatch-h"), row(seed=2, mR=55.0, commit="def")):
        path = record_row(tmp_path / "results", "flickr8k", one)
    rows = read_rows(path)
    assert [(r.recipe, r.seed) for r in rows] == [("irmatch-h", 1), ("irmatch-s", 2), ("irmatch-s", 10)]
    assert (read_rows(path)[1].monitor, rows[1].commit) == (55.0, "def")
    assert [entry.name for entry in path.parent.iterdir()] == ["flickr8k.jsonl"]


@pytest.mark.parametrize("made", EVERY_KIND, ids=lambda made: made.protocol)
def test_a_row_reads_back_as_it_was_written(tmp_path, made):
    (back,) = read_rows(record_row(tmp_path, "flickr8k", made))
    assert back == made
    assert back.to_dict() == made.to_dict()


def test_processes_that_record_at_once_lose_nothing(tmp_path):
    script = "import sys; from tests.results.made import record_seeds; record_seeds(*sys.argv[1:])"
    writers = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path), first], cwd=ROOT) for first in "15"
    ]
    assert [writer.wait() for writer in writers] == [0, 0]
    rows = read_rows(tmp_path / "flickr8k.jsonl")
    assert [each.seed for each in rows] == list(range(1, 9))


def test_an_untouched_line_stays_as_it_is(tmp_path):
    path = tmp_path / "flickr8k.jsonl"
    line = json.dumps(dict(reversed(values().items())))  # its keys in another order
    path.write_text(line + "\n", encoding="utf-8")
    record_row(tmp_path, "flickr8k", row(seed=2))
    assert path.read_text(encoding="utf-8").startswith(line + "\n")


@pytest.mark.parametrize(
    "changed",
    [
        {"encoder": "lite2"},
        {"split": "val"},
        {"protocol": "coco-1k"},
        {"crops": "ten"},
        {"changes": ["batch_size=100"]},
    ],
)
def test_what_tells_rows_apart(tmp_path, changed):
    record_row(tmp_path, "flickr8k", row())
    assert len(read_rows(record_row(tmp_path, "flickr8k", row(**changed)))) == 2


def test_a_seed_set_by_hand_is_no_change_and_seeds_repeat_a_measurement(tmp_path):
    record_row(tmp_path, "flickr8k", row(seed=3))
    record_row(tmp_path, "flickr8k", row(seed=3, changes=["seed=3"]))
    rows = read_rows(record_row(tmp_path, "flickr8k", row(seed=4)))
    assert [each.changes for each in rows] == [["seed=3"], []]
    assert repetitions([*rows, row("vse++")]) == [rows, [row("vse++")]]


def test_changes_in_another_order_are_the_same(tmp_path):
    some = ["batch_size=7", "loss.margin=0.1"]
    one, again, other = row(seed=1, changes=some), row(seed=1, changes=some[::-1]), row(seed=2, changes=some)
    assert repetitions([again, other]) == [[again, other]]
    record_row(tmp_path, "flickr8k", one)
    assert read_rows(record_row(tmp_path, "flickr8k", again)) == [again]


def test_changes_to_other_values_are_others():
    rows = [row(changes=[f"encoders={value}"]) for value in ("[a, b]", "[b, a]", "[a]", "a")]
    assert repetitions(rows) == [[each] for each in rows]


@pytest.mark.parametrize(
    "changed", [{"settings_digest": "0b"}, {"teacher": "7f"}, {"departures": ["one crop"]}]
)
def test_rows_of_a_recipe_that_has_changed_are_no_repetitions(tmp_path, changed):
    old, retrained = [row(seed=1), row(seed=2)], row(seed=2, **changed)
    assert repetitions([*old, retrained]) == [old, [retrained]]
    for each in (*old, retrained):
        path = record_row(tmp_path, "flickr8k", each)
    assert read_rows(path) == [old[0], retrained]  # the older one of this seed is replaced


def test_a_digest_is_of_the_settings_alone():
    ours = settings_digest(load_recipe("vse++"))
    for same in (
        "seed=7",
        "name=mine",
        "departures=[one crop]",
        "encoders=[{kind: efficientnet-lite2, crops: ten}]",
    ):
        assert settings_digest(load_recipe("vse++", changes=[same])) == ours
    for other in ("optimizer.lr=0.5", "matcher.dim=3", "loss.margin=0.5", "val_images=7", "lemmas=true"):
        assert settings_digest(load_recipe("vse++", changes=[other])) != ours


def test_a_digest_counts_the_proposals_of_training_if_they_are_their_own():
    plain, same, other = (
        settings_digest(load_recipe("ground-augmented", changes=changes))
        for changes in ((), ["regions.train_nms=null"], ["regions.train_nms=0.75"])
    )
    assert plain == same != other


def test_a_digest_counts_a_frozen_cnn():
    tuned, frozen = (
        settings_digest(load_recipe(name, changes=["val_images=300"]))
        for name in ("mcnn-st-finetuned", "mcnn-st-finetuned-frozen")
    )
    assert tuned != frozen


def test_a_digest_does_not_name_the_folder_of_a_teacher():
    one, other = (load_recipe("mcnn-st-plus", changes=[f"loss.teacher={run}"]) for run in ("a", "b"))
    assert settings_digest(one) == settings_digest(other)


@pytest.mark.parametrize(
    ("encoder", "named"),
    [
        ("{kind: open_clip, model: /models/mine/clip}", "open_clip:clip"),
        ("{kind: timm, model: vit_tiny}", "timm:vit_tiny"),
        ("{kind: timm, model: vit_tiny, weights: random}", "timm:vit_tiny/random"),
        ("precomputed", "precomputed"),
        ("{kind: precomputed, file: /my/resnet152.npy}", "precomputed resnet152.npy"),
        ("{kind: precomputed, file: a.npy, is: resnet152}", "resnet152 a.npy"),
    ],
)
def test_a_row_does_not_say_where_an_encoder_lies(encoder, named):
    name, crops = encoder_and_crops(load_recipe("vse++", changes=[f"encoders=[{encoder}]"]))
    assert name == named
    assert not ("precomputed" in encoder and crops)  # they are not known


@pytest.mark.parametrize(
    ("change", "recorded"),
    [
        (
            "encoders=[{kind: detector, file: /my models/yolox.onnx}]",
            "encoders=[{kind: detector, file: yolox.onnx}]",
        ),
        (
            "encoders=[{kind: open_clip, model: /models/clip}, {kind: timm, model: vit_tiny}]",
            "encoders=[{kind: open_clip, model: clip}, {kind: timm, model: vit_tiny}]",
        ),
        (
            "encoders=[{kind: efficientnet-lite0, crops: ten}]",
            "encoders=[{kind: efficientnet-lite0, crops: ten}]",
        ),
        ("loss.margin=0.5", "loss.margin=0.5"),
    ],
)
def test_a_change_is_recorded_without_the_folders_of_files(change, recorded):
    recipe = load_recipe("vse++").model_copy(update={"changes": (change,)})
    assert recorded_changes(recipe) == [recorded]


def test_a_row_knows_its_training_and_old_rows_need_not():
    trained = row(epochs=30, best_epoch=12, train_seconds=81.5, machine="x86_64, 2 cores, cpu")
    assert (trained.epochs, trained.best_epoch, trained.train_seconds) == (30, 12, 81.5)
    assert trained.machine == "x86_64, 2 cores, cpu"
    assert "epochs" not in row().to_dict()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"mR": "101"}, r"key 'metrics\.mR"),
        ({"mR": float("nan")}, r"key 'metrics\.mR"),
        ({"seed": "1"}, "key 'seed'"),
        ({"metric": {"R@1": 1.0}}, "key 'metric': no such key; did you mean 'metrics'"),
        ({"protocol": "standrad"}, "No protocol 'standrad'; did you mean 'standard'"),
    ],
)
def test_a_wrong_row_is_refused(changed, said):
    with pytest.raises(SeesayError, match=said):
        Row.read(values(**changed))


@pytest.mark.parametrize("key", ["commit", "recipe", "metrics"])
def test_a_row_needs_its_origin_and_its_figures(key):
    without = values()
    del without[key]
    with pytest.raises(SeesayError, match=f"key '{key}'"):
        Row.read(without)


@pytest.mark.parametrize("line", ["{", "[1]", "{}"])
def test_a_broken_line_is_named_and_left_alone(tmp_path, line):
    path = tmp_path / "flickr8k.jsonl"
    path.write_text(json.dumps(values()) + "\n" + line + "\n", encoding="utf-8")
    with pytest.raises(SeesayError, match=r"flickr8k\.jsonl:2"):
        read_rows(path)
    with pytest.raises(SeesayError):
        record_row(tmp_path, "flickr8k", row(seed=5))
    assert path.read_text(encoding="utf-8").endswith(line + "\n")


@pytest.mark.parametrize("content", [b"\xff", b"[" * 200_000])
def test_what_is_no_record_is_one_line(tmp_path, content):
    (tmp_path / "flickr8k.jsonl").write_bytes(content)
    with pytest.raises(SeesayError, match=r"flickr8k\.jsonl(:1)?: cannot be read"):
        read_rows(tmp_path / "flickr8k.jsonl")


def test_a_name_may_end_a_line_of_text(tmp_path):
    for seed in (1, 2):
        path = record_row(tmp_path, "flickr8k", row("a\u2028b", seed=seed))
    assert [each.recipe for each in read_rows(path)] == ["a\u2028b"] * 2


def test_a_folder_that_cannot_be_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(SeesayError, match="file: cannot hold rows"):
        record_row(tmp_path / "file", "flickr8k", row())


@pytest.mark.parametrize("name", ["", "../flickr8k", "a/b", ".hidden"])
def test_the_name_of_a_corpus_is_no_path(tmp_path, name):
    with pytest.raises(SeesayError, match="not a name for a results file"):
        record_row(tmp_path, name, row())


def test_the_commit_says_whether_the_source_has_changed(tmp_path):
    def git(*arguments):
        command = ["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
        subprocess.run(command, check=True, capture_output=True)

    git("init")
    assert source_commit(tmp_path) is None
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-m", "one")
    source_commit.cache_clear()
    commit = source_commit(tmp_path)
    assert len(commit) == 10
    (tmp_path / "file").write_text("2")
    assert source_commit(tmp_path) == commit  # of when it was first asked for
    source_commit.cache_clear()
    assert source_commit(tmp_path) == f"{commit}+"
    (tmp_path / "installed").mkdir()  # as in an environment within somebody's repository
    assert source_commit(tmp_path / "installed") is None


@pytest.mark.parametrize("corpus", ["flickr8k", "flickr8k-phrases"])
def test_recorded_rows_are_of_the_recipes_as_they_are(corpus: str) -> None:
    rows = [
        each
        for each in read_rows(recorded_rows(corpus))
        if each.settings_digest and each.recipe in included_recipes()
    ]
    assert len(rows) > 20
    for origin in rows:
        recipe = load_recipe(origin.recipe, corpus, origin.variant)
        if not origin.variant:
            assert (origin.recipe, origin.settings_digest) == (origin.recipe, settings_digest(recipe))
        departures = [each for each in origin.departures if not each.startswith("Starts from ")]  # --from
        assert (origin.recipe, departures) == (origin.recipe, [*recipe.departures])
