"""Matchers: modules that score images against sentences, one paper a file.

A matcher takes image features (n, d) and sentences, and gives the score matrix (n, m). One that embeds both
(`EmbeddingMatcher`) can be indexed, one that looks at every pair (`PairMatcher`) re-ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seesay.lazy import lazy_names

if TYPE_CHECKING:
    from seesay.matchers.adapter import Adapter, Cosine
    from seesay.matchers.base import EmbeddingMatcher, Matcher, PairMatcher, as_matcher
    from seesay.matchers.baselines.cca import CCA
    from seesay.matchers.baselines.dcca import DCCA
    from seesay.matchers.baselines.devise import DeViSE
    from seesay.matchers.baselines.dvsa import DVSA
    from seesay.matchers.baselines.order_embeddings import OrderEmbeddings
    from seesay.matchers.baselines.vsepp import VSEPlusPlus
    from seesay.matchers.composed import Ensemble
    from seesay.matchers.gvse import GVSE, UncommonVSE
    from seesay.matchers.irmatch import IRMatch
    from seesay.matchers.mcnn import MatchingCNN
    from seesay.matchers.projection import Projection
    from seesay.matchers.sco import SCO, ConceptClassifier
    from seesay.matchers.sentences import Sentences, read_words
    from seesay.matchers.settings import MatcherInputs, MatcherSettings, register_matcher
    from seesay.matchers.two_branch import SimilarityNetwork, TwoBranchEmbedding

__all__ = [
    "CCA",
    "DCCA",
    "DVSA",
    "GVSE",
    "SCO",
    "Adapter",
    "ConceptClassifier",
    "Cosine",
    "DeViSE",
    "EmbeddingMatcher",
    "Ensemble",
    "IRMatch",
    "Matcher",
    "MatcherInputs",
    "MatcherSettings",
    "MatchingCNN",
    "OrderEmbeddings",
    "PairMatcher",
    "Projection",
    "Sentences",
    "SimilarityNetwork",
    "TwoBranchEmbedding",
    "UncommonVSE",
    "VSEPlusPlus",
    "as_matcher",
    "read_words",
    "register_matcher",
]

# PyTorch comes with the first name that is used.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "adapter": ("Adapter", "Cosine"),
        "base": ("EmbeddingMatcher", "Matcher", "PairMatcher", "as_matcher"),
        "baselines.cca": ("CCA",),
        "baselines.dcca": ("DCCA",),
        "baselines.devise": ("DeViSE",),
        "baselines.dvsa": ("DVSA",),
        "baselines.order_embeddings": ("OrderEmbeddings",),
        "baselines.vsepp": ("VSEPlusPlus",),
        "composed": ("Ensemble",),
        "gvse": ("GVSE", "UncommonVSE"),
        "irmatch": ("IRMatch",),
        "mcnn": ("MatchingCNN",),
        "projection": ("Projection",),
        "sco": ("SCO", "ConceptClassifier"),
        "sentences": ("Sentences", "read_words"),
        "settings": ("MatcherInputs", "MatcherSettings", "register_matcher"),
        "two_branch": ("SimilarityNetwork", "TwoBranchEmbedding"),
    },
)
