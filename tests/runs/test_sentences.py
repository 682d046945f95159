from __future__ import annotations

import torch

from seesay.matchers.composed import EnsembleSettings
from seesay.matchers.mcnn import MatchingCNNSettings
from seesay.matchers.sco import SCOSettings
from seesay.matchers.sentences import Sentences
from seesay.matchers.two_branch import SimilarityNetworkSettings
from seesay.recipes.load import load_recipe
from seesay.runs.sentences import count_cut


def sentences(*lengths: int) -> Sentences:
    return Sentences(
        torch.ones(sum(lengths), dtype=torch.int64), torch.tensor(lengths), torch.zeros(len(lengths), 0)
    )


def test_longer_sentences_are_counted() -> None:
    some = sentences(30, 31, 5, 60)
    assert count_cut(MatchingCNNSettings(), some) == {"cut_sentences": 2, "max_length": 30}
    assert count_cut(SCOSettings(max_length=50), some) == {"cut_sentences": 1, "max_length": 50}
    assert count_cut(load_recipe("irmatch-s").matcher, some) == {}


def test_an_ensemble_reads_what_all_its_members_read() -> None:
    members = (SimilarityNetworkSettings(), MatchingCNNSettings())
    assert EnsembleSettings(members=("a", "b"), matchers=members).max_words == 30
    assert EnsembleSettings(members=("a", "b"), matchers=members[:1] * 2).max_words is None
