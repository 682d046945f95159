"""Recipes by name or file, changed from the command line, and what is said of wrong ones."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from seesay.encoders.settings import EncoderSettings
from seesay.errors import SeesayError
from seesay.matchers.composed import FineTunedSettings
from seesay.matchers.settings import MatcherInputs
from seesay.recipes.files import changes_of, included_recipes
from seesay.recipes.load import (
    differences,
    dump_recipe,
    learns_phrases,
    load_recipe,
    member_recipes,
    reaches_members,
    settings_line,
    validated,
)
from seesay.recipes.schema import Recipe
from seesay.settings import Settings

SHIPPED = [f"{corpus}/{name}" for name, values in included_recipes().items() for corpus in values["corpora"]]

SMALL = """
name: mine
corpus: photos
about: of one's own
encoders: [efficientnet-lite0]
matcher: {kind: irmatch, dim: 12, widths: [1, 2]}
loss: {kind: margin}
"""

THREE_ARRAYS = (
    "[{kind: precomputed, file: resnet152.npy}, {kind: precomputed, file: concepts.npy, role: concepts}, "
    "{kind: precomputed, file: frcnn.npy, role: instances}]"
)


def test_recipes_are_shipped_and_lie_where_they_say() -> None:
    assert "flickr8k/irmatch-s" in SHIPPED
    assert len(set(SHIPPED)) == len(SHIPPED)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_recipe_loads_and_is_itself_after_a_round_trip(name: str) -> None:
    recipe = load_recipe(name)
    assert Recipe.model_validate(yaml.safe_load(dump_recipe(recipe))) == recipe
    assert recipe.about
    assert recipe.changes == ()


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_recipes_name_encoders_that_there_are(name: str) -> None:
    from seesay.encoders import IMAGE_ENCODERS, REGION_ENCODERS

    recipe = load_recipe(name)
    registry = IMAGE_ENCODERS if recipe.regions is None else REGION_ENCODERS
    for encoder in recipe.encoders:
        assert registry.checked(encoder) == encoder


def test_irmatch_is_the_papers() -> None:
    hard, soft = load_recipe("irmatch-h"), load_recipe("irmatch-s")
    for recipe in (hard, soft):
        assert (recipe.matcher.dim, recipe.matcher.word_dim) == (1200, 300)
        assert recipe.matcher.kind == "irmatch"
        assert recipe.matcher.widths == (1, 2, 3, 4, 5, 6)
        assert recipe.batch_size == 250
        assert recipe.optimizer.lr == 1e-3
    assert (hard.loss.kind, soft.loss.kind) == ("margin", "soft-margin")


@pytest.mark.parametrize(
    ("name", "corpus", "trained", "settings"),
    [
        ("vse0", None, "flickr8k", "flickr8k"),
        ("vse0", "coco", "coco", "coco"),
        ("vse0", "photos", "photos", "flickr8k"),
        ("coco/vse0", None, "coco", "coco"),
        ("coco/vse0", "flickr8k", "flickr8k", "coco"),
    ],
)
def test_a_recipe_has_the_settings_for_the_corpus_in_its_name_or_at_hand(
    name: str, corpus: str | None, trained: str, settings: str
) -> None:
    recipe = load_recipe(name, corpus)
    assert (recipe.corpus, recipe.settings_of) == (trained, settings)
    assert (getattr(recipe.matcher, "dim", None) == 1024) == (settings == "coco")


def test_settings_for_another_corpus_are_a_departure_and_said_in_one_line() -> None:
    """Also for the members of a composed matcher."""
    ensemble = load_recipe("flickr30k/mcnn-ens", "photos")
    assert ensemble.departures.count("the settings for flickr30k, on photos") == 1
    assert [member.settings_of for member in member_recipes(ensemble)] == ["flickr30k"] * 4
    assert "the settings" not in str(load_recipe("mcnn-ens", "flickr30k").departures)
    assert settings_line("vse0", [load_recipe("vse0", "flickr30k")]) == (
        "vse0: settings for flickr30k. Others: flickr8k/vse0, coco/vse0, --set."
    )
    assert settings_line("concepts-1crop", [load_recipe("concepts-1crop", "flickr8k")]) is None  # no others


def test_a_subset_has_the_settings_of_its_corpus() -> None:
    recipe = load_recipe("irmatch-s", "flickr30k-70")
    assert (recipe.corpus, recipe.settings_of) == ("flickr30k-70", "flickr30k")
    assert "the settings for flickr30k, on flickr30k-70" in recipe.departures
    assert "there are none" not in str(settings_line("irmatch-s", [recipe]))


@pytest.mark.parametrize("encoders", ["null", "5", "efficientnet-lite0", "{kind: precomputed, file: a.npy}"])
def test_encoders_that_are_no_list_are_refused_by_their_key(encoders: str) -> None:
    with pytest.raises(SeesayError, match=r"key 'encoders"):
        load_recipe("vse++", changes=[f"encoders={encoders}"])


def test_vectors_of_sentences_are_for_matchers_that_read_them() -> None:
    vectors = "sentence_encoder={kind: vectors, file: v.npy}"
    for name in ("two-branch-lstm", "gvse-common", "mcnn-st", "irmatch-s"):
        with pytest.raises(SeesayError, match=r"'sentence_encoder': .* reads no vectors of sentences; leave"):
            load_recipe(name, changes=[vectors])
        assert load_recipe(name, of_all=changes_of([vectors])).sentence_encoder is None
    assert load_recipe("two-branch", of_all=changes_of([vectors])).sentence_encoder is not None


def test_a_row_that_tunes_a_cnn_keeps_it_beside_arrays_for_the_others() -> None:
    arrays = changes_of([f"encoders={THREE_ARRAYS}"])
    tuned = load_recipe("gvse-common-finetuned", of_all=arrays)
    assert tuned.encoders == load_recipe("gvse-common-finetuned").encoders
    assert [str(encoder) for encoder in load_recipe("gvse-common", of_all=arrays).encoders] == [
        "{kind: precomputed, file: resnet152.npy}"
    ]
    other = changes_of(["encoders=[{kind: efficientnet-lite1, crops: ten}]"])
    assert [encoder.kind for encoder in load_recipe("gvse-common-finetuned", of_all=other).encoders] == [
        "efficientnet-lite1"
    ]


def test_the_corpus_of_the_settings_is_no_setting() -> None:
    with pytest.raises(SeesayError, match="write CORPUS/vse0 to take"):
        load_recipe("vse0", "photos", ["settings_of=coco"])


@pytest.mark.parametrize(
    "changes", [["changes=[epochs=5]"], {"changes": {"epochs": 5}}, {"changes": ["epochs=5"]}]
)
def test_changes_are_not_a_key_that_would_swallow_them(changes) -> None:
    with pytest.raises(SeesayError, match="give each change as a key of its own, such as epochs=5"):
        load_recipe("vse0", "photos", changes)


@pytest.mark.parametrize("name", ["only", "", "photos/vse0", "../vse0"])
def test_an_unknown_name_is_answered_with_the_known_ones(name: str) -> None:
    with pytest.raises(
        SeesayError, match=r"No recipe|Recipe 'vse0' is for flickr8k, flickr30k, coco, not for"
    ):
        load_recipe(name)


def test_a_file_is_a_recipe_too(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(SMALL)
    recipe = load_recipe(str(path), corpus="flickr8k")
    assert (recipe.name, recipe.corpus, recipe.batch_size, recipe.schedule.epochs) == (
        "mine",
        "photos",
        128,
        30,
    )


@pytest.mark.parametrize(
    "name", ["/tmp/mine", "../../mine", "a/b", "a\\b", "..", ".mine", "-x", "", "a\nb", "\0"]
)
def test_a_name_that_is_a_path_is_no_name_of_a_recipe(tmp_path: Path, name: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(SMALL), "name": name}))
    with pytest.raises(SeesayError, match=r"mine\.yaml: key 'name': '.*' cannot name a folder\.$"):
        load_recipe(str(path))


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(SeesayError, match="no such recipe file"):
        load_recipe(str(tmp_path / "none.yaml"))
    (tmp_path / "folder.yml").mkdir()
    with pytest.raises(SeesayError, match="no such recipe file"):
        load_recipe(str(tmp_path / "folder.yml"))
    (tmp_path / "latin.yaml").write_bytes("about: naïve".encode("latin-1"))
    with pytest.raises(SeesayError, match=r"latin\.yaml: cannot be read as UTF-8"):
        load_recipe(str(tmp_path / "latin.yaml"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 20_000, "not YAML: "),
        ("a: " + "{b: " * 4000, "not YAML: "),
        ("- " * 9000, "not YAML: "),
        ("a: &a [*a]", "not YAML: "),
        ("a: " + "9" * 5000, "not YAML: "),
        ("a: 2019-02-31", "not YAML: "),
        ("".join(f"a{i}: {i}\n" for i in range(200_000)), "more than 20000 characters"),
        (
            "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
            + "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in pairwise("abcdefghij")),
            "its aliases expand to 4412961506 values",
        ),
    ],
)
def test_files_made_to_take_long_are_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    with pytest.raises(SeesayError, match=said):
        load_recipe(str(path))


def test_single_values_are_changed() -> None:
    changes = ["seed=7", "schedule.epochs=2", "optimizer.lr=2e-4", "matcher.widths=[1, 3]"]
    recipe = load_recipe("irmatch-h", changes=changes)
    assert (recipe.seed, recipe.schedule.epochs, recipe.optimizer.lr) == (7, 2, 2e-4)
    assert recipe.matcher.widths == (1, 3)  # type: ignore[union-attr]
    assert recipe.schedule.patience == load_recipe("irmatch-h").schedule.patience  # its neighbours stay
    assert recipe.changes == tuple(sorted(changes))


def test_a_part_that_the_file_leaves_out_can_be_changed(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(SMALL)
    assert load_recipe(str(path), changes=["optimizer.grad_clip=2"]).optimizer.grad_clip == 2


def test_a_null_takes_a_value_away() -> None:
    assert load_recipe("irmatch-s", changes=["schedule.patience="]).schedule.patience is None


def test_a_whole_part_can_be_replaced() -> None:
    recipe = load_recipe("irmatch-s", changes=["loss={kind: contrastive, scale: 5}"])
    assert recipe.loss.kind == "contrastive"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("irmatch", "did you mean 'irmatch-h' or 'irmatch-s'[?]"),
        ("IRMatch-S", "did you mean 'irmatch-s'[?]"),
        ("gvse", "did you mean 'gvse-sum', 'gvse-gated' or 'gvse-common'[?]"),
        ("zzz", "No recipe 'zzz'[.]"),
    ],
)
def test_an_unknown_recipe_gets_the_nearest_names(name: str, said: str) -> None:
    with pytest.raises(SeesayError, match=f"{said} `seesay recipes` lists them"):
        load_recipe(name)


def test_changes_and_keywords_take_the_same_short_keys() -> None:
    recipe = load_recipe("irmatch-s", "flickr8k", ["margin=0.25", "epochs=3"])
    assert recipe == load_recipe("irmatch-s", "flickr8k", {"margin": 0.25, "epochs": 3})
    assert recipe == load_recipe("irmatch-s", "flickr8k", ["loss.margin=0.25", "schedule.epochs=3"])


@pytest.mark.parametrize("name", ["vse0", "mcnn-ens", "gvse-gated-plus", "mcnn-st-finetuned"])
def test_a_recipe_and_its_members_are_validated_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def counted(model: type[Settings], values: Mapping[str, Any], where: str) -> Settings:
        seen.extend([values["name"]] if model is Recipe else [])
        return validated(model, values, where)

    monkeypatch.setattr("seesay.recipes.load.validated", counted)
    recipe = load_recipe(name, "flickr8k", ["epochs=3"])
    assert sorted(seen) == sorted([name, *getattr(recipe.matcher, "members", ())])


@pytest.mark.parametrize(
    ("name", "change", "key"),
    [("mcnn-ens", "dropout=0.2", "dropout"), ("gvse-gated-plus", "dim=96", "dim")],
)
def test_a_key_of_a_members_matcher_reaches_the_members(name: str, change: str, key: str) -> None:
    recipe = load_recipe(name, "flickr8k", [change])
    value = float(change.partition("=")[2])
    assert [getattr(member, key) for member in recipe.composition.matchers] == [value] * len(
        recipe.composition.members
    )
    assert recipe.changes == (f"matcher.{change}",)
    assert recipe.word_dropout == load_recipe(name, "flickr8k").word_dropout


def test_descriptions_and_keys_of_the_composed_matcher_do_not_reach_the_members() -> None:
    keys = ("about", "views", "matcher.views", "matcher.members", "epochs", "matcher.kind", "matcher.dim")
    assert [reaches_members(key, FineTunedSettings) for key in keys] == [False] * 4 + [True] * 3


@pytest.mark.parametrize("key", ["dropout", "matcher.dropout"])
def test_a_missing_key_is_not_answered_with_that_of_another_experiment(key: str) -> None:
    with pytest.raises(SeesayError, match=r"no (such )?key.*") as refusal:
        load_recipe("vse0", "flickr8k", [f"{key}=0.2"])
    assert "did you mean" not in str(refusal.value)


def test_a_change_can_name_a_key_of_what_an_earlier_one_chose() -> None:
    recipe = load_recipe("vse0", "flickr8k", ["loss={kind: contrastive}", "scale=7"])
    assert recipe.loss.model_dump()["scale"] == 7


def test_steps_take_the_place_of_epochs(tmp_path: Path) -> None:
    by_steps = load_recipe("irmatch-s", changes=["steps=500"])
    assert (by_steps.schedule.epochs, by_steps.schedule.steps) == (None, 500)
    assert any("over 500 steps" in line for line in by_steps.departures)
    instead = load_recipe("vse++", "flickr8k", ["schedule.steps=500"]).departures
    assert "500 steps instead of 30 epochs" in instead
    assert load_recipe("irmatch-s", changes={"schedule": {"steps": 500}}) == by_steps
    assert load_recipe("irmatch-s", changes=["steps=null"]).schedule.epochs == 15  # the recipe's own
    for changes in (["steps=5", "epochs=5"], ["schedule={steps: 5, epochs: 5}"]):
        with pytest.raises(SeesayError, match="key 'schedule': epochs and steps both say how long"):
            load_recipe("irmatch-s", changes=changes)
    with pytest.raises(SeesayError, match="step_epoch counts epochs"):
        load_recipe("irmatch-s", changes=["steps=5", "shape=step"])
    (tmp_path / "mine.yaml").write_text(SMALL + "schedule: {steps: 500}\n")
    assert load_recipe(str(tmp_path / "mine.yaml"), "pets").schedule.steps == 500


def test_the_later_of_two_changes_counts() -> None:
    recipe = load_recipe("irmatch-h", changes=["seed=2", "seed=3"])
    assert (recipe.seed, recipe.changes) == (3, ("seed=3",))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("seed", r"^seed: write key=value"),
        ("unheard=1", r"Recipe 'irmatch-h' has no key 'unheard'\."),
        (r'matcher.kind="\ud800"', "the value is not YAML"),
        ("schedule.nonsense=1", r"key 'schedule\.nonsense'"),
        ("schedule.epoch=5", r"key 'schedule\.epoch': no such key; did you mean 'schedule\.epochs'\?"),
        ("epochz=5", r"has no key 'epochz'; did you mean 'epochs'\?"),
        ("kind=rnn", r"'kind' is a key of matcher and .*; write matcher\.kind or loss\.kind"),
        ("schedule.zeal=5", r"no such key; there are: epochs, steps, patience, shape, step_epoch, average\."),
        ("schedule.epochs=0", r"key 'schedule\.epochs': input should be greater than 0"),
        ("schedule.epochs=many", r"key 'schedule\.epochs': input should be a valid integer"),
        ("schedule.shape=zigzag", r"key 'schedule\.shape'.*'constant', 'cosine' or 'step'"),
        ("matcher.kind=rnn", r"key 'matcher'.*'rnn'"),
        ("matcher.widths=[]", r"key 'matcher.*widths'"),
        ("matcher.widths=[0, 1]", r"key 'matcher.*widths\.0'"),
        ("encoders=[]", r"key 'encoders'"),
        ("arrays=[pixels]", r"key 'arrays\.0'"),
        ("batch_size=1", r"key 'batch_size': input should be greater than 1"),
        ("seed.deep=1", r"^seed\.deep=1: 'seed' is a value"),
        ("seed=[1", r"^seed=\[1: the value is not YAML"),
        ("seed=2024-99-99", r"^seed=2024-99-99: the value is not YAML"),
        ("name=" + "[" * 1000, r"^name=\[+: the value is not YAML"),
        ("=5", r"no key ''"),
        ("seed=", r"key 'seed'"),
    ],
)
def test_a_wrong_change_is_one_line_that_says_where(change: str, said: str) -> None:
    with pytest.raises(SeesayError, match=said) as caught:
        load_recipe("irmatch-h", changes=[change])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "mine: not a mapping"),
        ("- a\n- b", "mine: not a mapping"),
        ("a: [1", "mine: not YAML"),
        ("a: b: c", "mine: not YAML"),
        ("a: \x00", "mine: not YAML"),
        (r'a: {b: "\ud800"}', "mine: not YAML"),
        (r'{"\ud800": a}', "mine: not YAML"),
        ("!!python/object/apply:os.getcwd []", "mine: not YAML"),
        ("name: x", "mine: key 'corpus': field required"),
        (SMALL + "1: 2\n", "mine: key '1'"),
        (SMALL + "seed: {a: 1}\n", "mine: key 'seed'"),
        (SMALL.replace("kind: margin", "margin: 0.2"), "mine: key 'loss'"),
        (SMALL + "departures: {a: 1}\n", "mine: key 'departures'"),
        (SMALL + "departures: [3]\n", "mine: key 'departures"),
        (SMALL + "paper: 3\n", "mine: key 'paper'"),
        (SMALL + "paper: {printed: {}}\n", "mine: key 'paper': key 'printed': no such key"),
        (SMALL + "paper: {departures: {seed: 3}}\n", "mine: key 'paper': key 'departures"),
    ],
)
def test_a_wrong_file_is_one_line_that_says_where(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(SeesayError, match=said.replace("mine:", "mine.yaml:")) as caught:
        load_recipe(str(tmp_path / "mine.yaml"))
    assert "\n" not in str(caught.value)


WITH_A_PAPER = """
paper:
  settings: {loss: {margin: 0.2}, batch_size: 250}
  departures: {loss.margin: "a margin of {value} instead of {printed}"}
"""


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("seed=2", ("a margin of 0.5 instead of 0.2", "batch_size: 128 instead of 250")),
        ("loss.margin=0.2", ("batch_size: 128 instead of 250",)),
        ("batch_size=250", ("a margin of 0.5 instead of 0.2",)),
        ("departures=[mine]", ("mine",)),
    ],
)
def test_departures_follow_from_the_settings(tmp_path: Path, change: str, named: tuple[str, ...]) -> None:
    (tmp_path / "mine.yaml").write_text(SMALL + WITH_A_PAPER)
    assert load_recipe(str(tmp_path / "mine.yaml"), changes=[change]).departures == named


@pytest.mark.parametrize(("margin", "lines"), [(0.1, ["0.1"]), (0.3, ["0.3"]), (0.5, [])])
def test_a_row_at_another_margin_names_its_own(margin: float, lines: list[str]) -> None:
    named = load_recipe("irmatch-h", "flickr8k", [f"loss.margin={margin}"]).departures
    assert [line.split()[3] for line in named if line.startswith("a margin of")] == lines


def test_what_members_depart_in_is_named_once_or_with_their_names() -> None:
    named = load_recipe("mcnn-ens", "flickr8k").departures
    assert named.count("the CNN is not tuned") == 1
    assert next(line for line in named if "20 epochs" in line).startswith("mcnn-wd: ")


def test_a_corpus_that_a_variant_sets_to_null_is_none_of_its_own() -> None:
    assert included_recipes()["two-branch-plus"]["corpora"].keys() == {"flickr8k"}
    with pytest.raises(SeesayError, match="for flickr8k, not for 'coco'"):
        load_recipe("coco/two-branch-plus")


def test_a_pair_matcher_is_not_measured_on_all_pairs_after_each_epoch() -> None:
    for name in ("mcnn-st", "mcnn-ens", "two-branch-similarity"):
        assert [load_recipe(name, corpus).val_images for corpus in ("flickr30k", "coco")] == [None, 1000]


@pytest.mark.parametrize("corpus", ["flickr30k", "coco"])
@pytest.mark.parametrize(
    "name", ["mcnn-wd", "mcnn-ens", "irmatch-h", "sco-full", "gvse-common", "vse++", "vse0"]
)
def test_the_regularisation_of_flickr8k_is_not_that_of_larger_corpora(name: str, corpus: str) -> None:
    recipe = load_recipe(name, corpus)
    assert recipe.word_dropout == 0
    assert recipe.optimizer.weight_decay == (0.0005 if name == "gvse-common" else 0)  # as printed
    for matcher in getattr(recipe.matcher, "matchers", [recipe.matcher]):
        assert not any(getattr(matcher, key, None) for key in ("image_dropout", "sentence_dropout"))
        assert getattr(matcher, "standardise", False) == ("length" if matcher.kind == "mcnn" else False)


@pytest.mark.parametrize("corpus", ["flickr8k", "flickr30k", "coco"])
def test_concepts_come_from_another_network_than_the_context(corpus: str) -> None:
    context, _ = load_recipe("sco-full", corpus).encoders
    assert (
        load_recipe("concepts", corpus).encoders
        == (EncoderSettings.parse({"kind": "efficientnet-lite2", "crops": "ten"}),)
        != (context,)
    )


def test_a_shipped_row_without_its_teacher_names_none() -> None:
    without = load_recipe("mcnn-st-plus", "flickr8k", ["loss={kind: contrastive, scale: 1.0}"])
    lost = set(load_recipe("mcnn-st-plus", "flickr8k").departures) - set(without.departures)
    assert [("seesay-small" in line) for line in lost] == [True]


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("two-branch", "sentence_encoder=null", "embedding-network takes a sentence's vector"),
        ("two-branch-similarity", "sentence_encoder=null", "similarity-network takes a sentence's vector"),
        ("cca-mean", "sentence_encoder=null", "cca takes a sentence's vector"),
        (
            "ground-full",
            "encoders=[roi-pooling, detector]",
            "one region encoder",
        ),
        ("ground-full", "val_images=100", "key 'val_images': concepts and phrases"),
        ("concepts", "val_images=100", "key 'val_images': concepts and phrases"),
        (
            "ground-full",
            "loss={kind: margin}",
            "phrases are learned with the losses correlation, logistic, triplet",
        ),
        ("ground-full", "regions.box_voting=0.25", "box_voting takes odds, which the logistic loss learns"),
        ("vse++", "optimizer.lr=.inf", "optimizer.lr"),
        ("two-branch", "word_dropout=0.1", "key 'word_dropout': no words .* embedding-network reads none"),
        ("concepts", "word_dropout=0.1", "key 'word_dropout': no words"),
        ("ground-full", "word_dropout=0.1", "key 'word_dropout': .* phrases are learned"),
        ("sco-cnp-ctx", "encoders=[precomputed, precomputed]", "an encoder is named twice"),
        ("gvse-sum-minilm", "encoders=[precomputed]", "reads instances, but .* the role instances"),
        (
            "sco-cnp-ctx",
            "encoders=[{kind: precomputed, is: vgg19}, {kind: precomputed, is: resnet152}]",
            "an encoder is named twice",
        ),
        ("cca-mean", "schedule.average=0.9", "key 'schedule.average': .* is solved, not trained"),
    ],
)
def test_parts_that_do_not_go_together(name: str, change: str, said: str) -> None:
    with pytest.raises(SeesayError, match=said):
        load_recipe(name, changes=[change])


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("two-branch-lstm", "word_dropout=0.1"),
        ("mcnn-ens", "word_dropout=0.2"),  # which its members take
        ("vse++", "schedule.average=0.9"),
        ("irmatch-s", "val_images=100"),
    ],
)
def test_keys_that_have_an_effect_are_taken(name: str, change: str) -> None:
    assert load_recipe(name, changes=[change]).changes == (change,)


def test_the_resolved_recipe_says_every_value(tmp_path: Path) -> None:
    recipe = Recipe.model_validate(yaml.safe_load(SMALL))
    values = yaml.safe_load(dump_recipe(recipe))
    assert values["schedule"]["epochs"] == 30
    assert values["optimizer"] == {
        "kind": "adam",
        "lr": 1e-3,
        "weight_decay": 0.0,
        "momentum": 0.0,
        "grad_clip": None,
    }
    path = tmp_path / "resolved.yaml"
    path.write_text(dump_recipe(recipe), encoding="utf-8")
    assert load_recipe(str(path)) == recipe


def lambdas(recipe: Recipe) -> tuple[float, ...]:
    return tuple(getattr(recipe.loss, f"lambda{i}") for i in (1, 2, 3, 4))


def test_two_branch_rows_are_the_papers() -> None:
    """Sections 4.2, 4.3, 5.2 and 5.3, where a recipe is for the paper's own corpus."""
    full, lstm = load_recipe("flickr30k/two-branch-full"), load_recipe("flickr30k/two-branch-lstm")
    for recipe in (full, lstm):
        assert recipe.loss.kind == "triplet"
        assert (recipe.loss.margin, recipe.loss.top_k) == (0.05, 10)
        assert lambdas(recipe) == (1, 1.5, 0, 0.05)
        assert (recipe.batch_size, recipe.sampler) == (500, "neighbourhood")
        assert recipe.matcher.kind == "embedding-network"
        assert (recipe.matcher.image_hidden, recipe.matcher.dim, recipe.matcher.dropout) == (2048, 512, 0.5)
    assert (full.optimizer.lr, lstm.optimizer.lr) == (1e-4, 2e-4)
    assert (full.matcher.sentence_hidden, full.sentence_dim) == (2048, 6000)
    assert (lstm.matcher.sentence_hidden, lstm.matcher.lstm, lstm.matcher.word_dim) == (1024, 512, 256)
    ground = load_recipe("flickr30k-entities/ground-full")
    assert lambdas(ground) == (1, 4, 0.1, 0.1)
    assert (ground.batch_size, ground.loss.top_k, ground.optimizer.lr) == (100, 30, 1e-3)
    assert ground.regions is not None
    assert (ground.regions.proposals, ground.regions.negatives) == (200, None)


def test_a_recipe_of_ones_own_takes_the_corpus_at_hand(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(SMALL.replace("corpus: photos\nabout: of one's own\n", ""))
    assert load_recipe(str(path), "photos").corpus == "photos"
    assert not learns_phrases(str(path))
    with pytest.raises(SeesayError, match="key 'corpus'"):
        load_recipe(str(path))


def test_keywords_may_be_numpy_scalars_and_a_seed_must_be_possible() -> None:
    recipe = load_recipe("irmatch-s", "flickr8k", {"margin": np.float64(0.25), "epochs": np.int64(3)})
    assert recipe.loss.model_dump()["margin"] == 0.25
    assert recipe.schedule.epochs == 3
    with pytest.raises(SeesayError, match="key 'seed'"):
        load_recipe("irmatch-s", "flickr8k", {"seed": -1})


def test_keywords_may_hold_paths_and_numpy_scalars() -> None:
    widths = load_recipe("irmatch-s", "flickr8k", {"matcher": {"widths": [np.int64(1), 2]}})
    assert widths.matcher.model_dump()["widths"] == (1, 2)
    vectors = load_recipe("irmatch-s", "flickr8k", {"words": {"vectors": Path("v.txt")}}).words
    assert vectors is not None
    assert Path(vectors.vectors).name == "v.txt"


def test_a_loss_that_is_no_mapping_is_shown_one() -> None:
    with pytest.raises(SeesayError, match=r"key 'loss': give a mapping with 'kind', such as \{kind: \w"):
        load_recipe("irmatch-s", "flickr8k", {"loss": 3})


def test_a_run_of_concepts_is_the_same_however_its_folder_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    here, *others = (
        load_recipe("irmatch-s", changes=[]).model_copy(
            update={"encoders": (EncoderSettings.parse({"kind": "concepts", "run": str(run)}),)}
        )
        for run in ("runs/concepts", "./runs/../runs/concepts", tmp_path / "link" / "runs" / "concepts")
    )
    assert not any(differences(here, other) for other in others)
    assert "runs/other" in differences(
        here,
        here.model_copy(
            update={"encoders": (EncoderSettings.parse({"kind": "concepts", "run": "runs/other"}),)}
        ),
    )


@pytest.mark.parametrize(
    ("name", "encoders", "said"),
    [
        ("sco-ctx", "[precomputed, concepts]", "'context' reads the context alone"),
        ("sco-cnp", "[precomputed, concepts]", "'concepts' reads concepts alone"),
        ("sco-cnp", "[efficientnet-lite0]", "'concepts' reads concepts alone"),
        ("sco-cnp", "[precomputed]", "'concepts' reads concepts alone"),
        ("sco-ctx", "[{kind: precomputed, role: concepts}]", "'context' reads the context alone"),
        ("sco-full", "[efficientnet-lite0, precomputed]", "'gate' joins one encoder of the context"),
        ("sco-full", "[precomputed]", "'gate' joins one encoder of the context and concepts, in this order"),
        (
            "sco-full",
            "[concepts, precomputed]",
            "'gate' joins one encoder of the context and concepts, in this order",
        ),
        ("sco-full", "[efficientnet-lite0, efficientnet-lite1, concepts]", "'gate' joins one encoder"),
        ("irmatch-s", "[precomputed, {kind: precomputed, file: c.npy, role: concepts}]", "takes no concepts"),
        ("gvse-common", "[{kind: precomputed, role: instances}]", "sco takes no instances"),
        ("gvse-uncommon", "[{kind: precomputed, role: instances}, precomputed]", "instances of one encoder"),
        ("gvse-gated", THREE_ARRAYS, "none of its members reads .*concepts"),
        ("gvse-sum-minilm", THREE_ARRAYS, "none of its members reads .*concepts"),
    ],
)
def test_a_fusion_that_lacks_its_role_or_has_too_much_is_refused(name: str, encoders: str, said: str) -> None:
    with pytest.raises(SeesayError, match=said):
        load_recipe(name, changes=[f"encoders={encoders}"])


@pytest.mark.parametrize(
    ("name", "encoders"),
    [
        ("sco-cnp", "[{kind: precomputed, role: concepts}]"),
        ("gvse-sum-minilm", "[{kind: precomputed, role: instances}, efficientnet-lite0]"),
        ("gvse-gated", "[{kind: precomputed, file: frcnn.npy, role: instances}, precomputed]"),
        ("sco-ctx", "[precomputed]"),
        ("sco-ctx", "[efficientnet-lite0, efficientnet-lite1]"),
        ("sco-full", "[precomputed, concepts]"),
        ("sco-full", "[efficientnet-lite0, {kind: precomputed, role: concepts}]"),
    ],
)
def test_precomputed_features_have_the_role_that_they_are_given(name: str, encoders: str) -> None:
    load_recipe(name, changes=[f"encoders={encoders}"])


def test_precomputed_features_are_one_array_beside_the_several_of_a_network() -> None:
    encoders = "encoders=[efficientnet-lite0, {kind: precomputed, file: frcnn.npy, role: instances}]"
    recipe = load_recipe("gvse-sum", changes=[encoders, "arrays=[pooled, logits]"])
    assert recipe.matcher.parts == ((2,), (0, 1))
    assert recipe.matcher.build(MatcherInputs((1280, 1000, 36 * 8), 50, 384)).image_dims == [1280, 1000, 288]
