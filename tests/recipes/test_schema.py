"""What a recipe may say, for any values."""

from __future__ import annotations

import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from seesay.errors import SeesayError
from seesay.losses import MarginLoss
from seesay.losses.settings import LOSSES
from seesay.matchers.settings import MATCHERS
from seesay.recipes.load import dump_recipe, load_recipe
from seesay.recipes.schema import OptimizerSettings, Recipe, ScheduleSettings

counts = st.integers(1, 5000)
positive = st.floats(1e-6, 1e3)
text = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30)
mcnns = st.builds(
    MATCHERS["mcnn"], level=st.sampled_from(["wd", "phs", "phl", "st"]), image=counts, hidden=counts
)
matchers = st.one_of(
    st.builds(MATCHERS["irmatch"], dim=st.just(60), word_dim=counts, widths=st.just((1, 2, 3))),
    st.builds(MATCHERS["vse++"], dim=counts, word_dim=counts),
    mcnns,
    st.builds(
        MATCHERS["ensemble"],
        members=st.lists(text, min_size=2).map(tuple),
        matchers=st.lists(mcnns, max_size=3).map(tuple),
    ),
    st.builds(MATCHERS["projection"], dim=counts, members=counts, image_dropout=st.floats(0, 0.99)),
)
losses = st.one_of(
    st.builds(LOSSES["margin"], margin=positive),
    st.builds(LOSSES["soft-margin"], margin=positive, top_k=counts),
    st.builds(LOSSES["contrastive"], scale=positive),
    st.builds(LOSSES["distillation"], teacher=text, scale=positive, student_scale=positive),
)
encoders = st.sampled_from(["efficientnet-lite0", "instances"]) | st.builds(
    dict, kind=st.just("concepts"), run=text.filter(bool)
)
recipes = st.builds(
    Recipe,
    name=text,
    corpus=text,
    about=text,
    system=st.none() | text,
    encoders=st.lists(encoders, min_size=1, max_size=3, unique_by=str).map(tuple),
    matcher=matchers,
    loss=losses,
    optimizer=st.builds(
        OptimizerSettings, kind=st.sampled_from(["adam", "sgd"]), lr=positive, grad_clip=st.none() | positive
    ),
    schedule=st.builds(ScheduleSettings, epochs=counts, patience=st.none() | counts),
    batch_size=st.integers(2, 999),
    seed=st.integers(0, 2**31),
    departures=st.lists(text, max_size=3).map(tuple),
)


@given(recipes)
def test_any_recipe_is_itself_after_a_round_trip(recipe: Recipe) -> None:
    assert Recipe.model_validate(yaml.safe_load(dump_recipe(recipe))) == recipe


def test_a_recipe_is_not_changed_after_it_was_read() -> None:
    settings = LOSSES["margin"]()
    with pytest.raises(ValidationError, match="frozen"):
        settings.margin = 1.0  # type: ignore[misc]


@pytest.mark.parametrize("margin", [0, -1, float("nan"), float("inf")])
def test_recipe_and_constructor_refuse_values_outside_their_range(margin: float) -> None:
    with pytest.raises(ValidationError, match=r"greater than 0|a finite number"):
        LOSSES["margin"](margin=margin)
    with pytest.raises(SeesayError, match=r"margin: input should be (greater than 0|a finite number)"):
        MarginLoss(margin=margin)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("matcher={kind: mcn}", "key 'matcher': no matcher 'mcn'; did you mean 'mcnn'?"),
        ("matcher={kind: mcnn, dropout: 2}", "key 'matcher.dropout': input should be less than 1."),
        ("matcher={kind: mcnn, drop: 0}", "key 'matcher.drop': no such key"),
        ("loss.margin=-1", "key 'loss.margin': input should be greater than 0."),
        ("loss.kind=tripel", "key 'loss': no loss 'tripel'; did you mean 'triplet'?"),
        (
            "loss={kind: triplet}",
            "triplet needs a matcher with embed_images, embed_sentences, which mcnn lacks",
        ),
        (
            "sampler=round",
            "no sampler 'round'; did you mean 'rounds'? There are: rounds, ",
        ),
        ("loss={kind: multi-label}", "the multi-label loss is for matchers"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_key(change: str, message: str) -> None:
    with pytest.raises(SeesayError, match=re.escape(message)):
        load_recipe("mcnn-wd", changes=[change])


def test_further_losses_fit_the_matcher_too() -> None:
    further = ["losses=[{kind: contrastive}, {kind: logistic}]"]
    with pytest.raises(SeesayError, match="key 'losses': logistic needs a matcher with encode_images"):
        load_recipe("projection", "flickr8k", further)
    with pytest.raises(SeesayError, match="key 'losses': they are added to a loss of mini-batches"):
        load_recipe("cca-mean", "flickr8k", ["losses=[{kind: correlation}]"])
