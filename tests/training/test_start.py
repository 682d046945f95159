"""Training that starts from the weights of another run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import seesay
from seesay.data.corpus import Corpus
from seesay.errors import SeesayError
from tests.training.test_callbacks import SMALL

ONE: dict[str, Any] = SMALL | {"epochs": 1}


@pytest.fixture(scope="module")
def first(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> seesay.Run:
    return seesay.train("irmatch-s", corpus, tmp_path_factory.mktemp("first") / "run", **ONE)


def test_the_weights_and_the_words_are_those_of_the_run(
    first: seesay.Run, corpus: Corpus, tmp_path: Path
) -> None:
    some = seesay.Corpus(corpus.name, corpus.root, corpus.images, corpus.sentences[::2])
    run = seesay.train("irmatch-s", some, tmp_path / "run", **ONE, lr=1e-12, start_from=first.folder)
    assert run.vocabulary.words == first.vocabulary.words
    for name, weights in first.matcher.named_parameters():  # statistics of batches go on
        torch.testing.assert_close(run.matcher.get_parameter(name), weights)
    assert run.recipe.departures[-1] == "Starts from the weights of irmatch-s, seed 1."
    again = seesay.train("irmatch-s", some, tmp_path / "run", **ONE, lr=1e-12, start_from=first, resume=True)
    assert again.recipe == run.recipe


@pytest.mark.parametrize(
    ("recipe", "changes", "said"),
    [
        ("irmatch-s", {"matcher": {"dim": 30, "word_dim": 8}}, "its weights do not fit .* is .* there and"),
        ("irmatch-s", {"encoders": ["efficientnet-lite0:mirror"]}, "was trained with 'encoders' .*lite0'"),
        ("vse++", {"matcher": {"dim": 24}}, "its weights do not fit recipe 'vse\\+\\+'"),
        ("cca-mean", {"matcher": {"dim": 4}}, "'cca-mean' cannot start from weights"),
        ("mcnn-ens", {"matcher": {}}, "'mcnn-ens' combines runs"),
    ],
)
def test_another_shape_is_refused(
    first: seesay.Run, corpus: Corpus, tmp_path: Path, recipe: str, changes: dict[str, Any], said: str
) -> None:
    changes = {"encoders": ["efficientnet-lite0"], "epochs": 1} | changes
    with pytest.raises(SeesayError, match=said):
        seesay.train(recipe, corpus, tmp_path / "run", **changes, start_from=first)
    assert not (tmp_path / "run").exists()
