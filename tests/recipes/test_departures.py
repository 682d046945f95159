"""Departures follow from the settings: a recipe as its paper prints it has none."""

from __future__ import annotations

from typing import Any

import pytest

from seesay.errors import SeesayError
from seesay.recipes.departures import PrintedSettings
from seesay.recipes.files import included_recipes, lay_over, values_for
from seesay.recipes.load import load_recipe
from seesay.recipes.schema import Recipe

PRINTED = {
    "encoders": ["vgg19", "concepts"],
    "loss": {"kind": "margin", "margin": 0.5},
    "optimizer": {"kind": "sgd", "momentum": 0.9},
    "batch_size": 2500,
}
PAPER = PrintedSettings(
    settings=PRINTED,
    departures={
        "encoders": {"lite?": "a small network, {value}", "stages": "maps of a network"},
        "loss.margin": "a margin of {value} instead of {printed}",
        "optimizer.kind": {"adam": "Adam for {schedule.epochs} epochs"},
        "matcher.power": "the power {value}; the paper names none",
        "batch_size": None,
    },
)
OURS: dict[str, Any] = {**PRINTED, "schedule": {"epochs": 5}, "matcher": {"kind": "irmatch", "power": None}}


@pytest.mark.parametrize(
    ("recipe", "role", "named"),
    [
        ("cca-mean", "context", "vgg19"),
        ("irmatch-s", "context", "vgg19"),
        ("mcnn-st", "context", "vgg19"),
        ("two-branch", "context", "vgg19"),
        ("sco-ctx", "context", "vgg19"),
        ("sco-cnp", "concepts", "vgg19-concepts"),
        ("gvse-uncommon", "instances", "faster-rcnn"),
        ("gvse-common", "context", "resnet152"),
        ("vse++", "context", "vgg19"),
        ("vse++", "context", "resnet152"),
    ],
)
def test_arrays_that_the_papers_encoder_computed_are_no_departure(recipe: str, role: str, named: str) -> None:
    lines = {
        kind: load_recipe(
            recipe, "flickr30k", [f"encoders=[{{kind: precomputed, role: {role}, is: {kind}}}]"]
        ).departures
        for kind in (named, "resnet50")
    }
    assert [line for line in lines["resnet50"] if line not in lines[named]] == [
        line for line in lines["resnet50"] if "resnet50" in line
    ]
    assert any("resnet50" in line for line in lines["resnet50"])
    assert not any(named in line or "precomputed" in line for line in lines[named])


@pytest.mark.parametrize("recipe", ["two-branch", "cca-hglmm", "ground-full"])
def test_sentence_vectors_of_ones_own_are_what_is_said_of_them(recipe: str) -> None:
    own, printed = "{kind: vectors, file: hglmm.npy%s}", ", is: word2vec-hglmm"
    own_lines, printed_lines = (
        load_recipe(recipe, changes=[f"sentence_encoder={own % what}"]).departures for what in ("", printed)
    )
    assert not any("GloVe" in line or "vectors, file" in line for line in printed_lines)
    assert "sentence_encoder: {kind: vectors, file: hglmm.npy} instead of word2vec-hglmm" in own_lines


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({}, []),
        ({"encoders": ["lite0", "concepts"]}, ["a small network, lite0"]),
        ({"encoders": ["lite0", "stages"]}, ["a small network, lite0", "maps of a network"]),
        ({"encoders": ["large", "concepts"]}, ["encoders: [large, concepts] instead of [vgg19, concepts]"]),
        ({"encoders": ["vgg19"]}, []),  # as in the paper's row without concepts
        ({"encoders": ["vgg19", "vgg19"]}, ["encoders: [vgg19, vgg19] instead of [vgg19, concepts]"]),
        ({"loss": {"margin": 0.05}}, ["a margin of 0.05 instead of 0.5"]),
        ({"loss": {"kind": "contrastive"}}, ["loss.kind: contrastive instead of margin"]),
        ({"optimizer": {"momentum": 0.5}}, ["optimizer.momentum: 0.5 instead of 0.9"]),
        # What belongs to another kind of optimizer is not compared.
        ({"optimizer": {"kind": "adam", "momentum": 0.0}}, ["Adam for 5 epochs"]),
        ({"matcher": {"power": 2}}, ["the power 2; the paper names none"]),
        ({"batch_size": 100}, []),  # told elsewhere
    ],
)
def test_what_differs_from_the_printed_settings_is_named(changes: dict[str, Any], named: list[str]) -> None:
    assert PAPER.departures_of(lay_over(OURS, changes)) == named


def test_a_departure_that_names_no_setting() -> None:
    paper = PrintedSettings(
        settings={"batch_size": 5}, departures={"batch_size": "{value} of {schedule.epoch}"}
    )
    with pytest.raises(SeesayError, match=r"no setting 'schedule\.epoch', which '\{value\} of"):
        paper.departures_of({"batch_size": 6, "schedule": {"epochs": 5}})


@pytest.mark.parametrize("name", included_recipes())
def test_what_is_said_of_another_kind_of_matcher_is_left_out(name: str) -> None:
    for kind in ("vse++", "sco", "irmatch", "mcnn", "projection"):
        refused = ""
        try:
            load_recipe(name, changes=[f"matcher={{kind: {kind}}}"])
        except SeesayError as refusal:
            refused = str(refusal)  # such as a loss that does not fit
        assert "paper.departures" not in refused


CASES = [(name, corpus) for name, values in included_recipes().items() for corpus in values["corpora"]]


@pytest.mark.parametrize(("name", "corpus"), CASES, ids="/".join)
def test_a_recipe_as_printed_has_no_departures(name: str, corpus: str) -> None:
    values = values_for(included_recipes()[name], (corpus,), name)
    recipe = load_recipe(name, corpus)
    if not values.get("paper"):
        assert not recipe.departures
        return
    paper = PrintedSettings.model_validate(values["paper"])
    printed = lay_over(recipe.model_dump(mode="json"), dict(paper.settings))
    for key in paper.departures:  # what the paper leaves open is left out
        *parents, last = key.split(".")
        at, there = printed, paper.settings
        for parent in parents:
            at, there = (each.get(parent) if isinstance(each, dict) else None for each in (at, there))
        if isinstance(at, dict) and (not isinstance(there, dict) or last not in there):
            at.pop(last, None)
    assert paper.departures_of(printed) == []


@pytest.mark.parametrize("name", {name: None for name, _ in CASES})
def test_the_keys_of_a_paper_are_a_recipes(name: str) -> None:
    paper = PrintedSettings.model_validate(included_recipes()[name].get("paper") or {})
    known = set(Recipe.model_fields)
    assert {key.partition(".")[0] for key in (*paper.departures, *paper.settings)} <= known
