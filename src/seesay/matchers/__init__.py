"""Matchers: modules that score images against sentences, one file per paper.

A matcher takes image features (n, d) and sentences, and returns the score matrix (n, m). One that embeds
both (`EmbeddingMatcher`) can be indexed; one that scores every pair separately (`PairMatcher`) re-ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seesay.lazy import lazy_names

if TYPE_CHECKING:
    from seesay.matchers.base import EmbeddingMatcher as EmbeddingMatcher
    from seesay.matchers.base import Matcher as Matcher
    from seesay.matchers.base import PairMatcher as PairMatcher
    from seesay.matchers.cca import CCA as CCA
    from seesay.matchers.composed import Ensemble as Ensemble
    from seesay.matchers.cosine import Cosine as Cosine
    from seesay.matchers.gvse import GVSE as GVSE
    from seesay.matchers.gvse import UncommonVSE as UncommonVSE
    from seesay.matchers.irmatch import IRMatch as IRMatch
    from seesay.matchers.mcnn import MatchingCNN as MatchingCNN
    from seesay.matchers.projection import Projection as Projection
    from seesay.matchers.sco import SCO as SCO
    from seesay.matchers.sco import ConceptClassifier as ConceptClassifier
    from seesay.matchers.sentences import Sentences as Sentences
    from seesay.matchers.sentences import read_words as read_words
    from seesay.matchers.settings import MatcherInputs as MatcherInputs
    from seesay.matchers.settings import MatcherSettings as MatcherSettings
    from seesay.matchers.settings import register_matcher as register_matcher
    from seesay.matchers.two_branch import SimilarityNetwork as SimilarityNetwork
    from seesay.matchers.two_branch import TwoBranchEmbedding as TwoBranchEmbedding
    from seesay.matchers.vsepp import VSEPlusPlus as VSEPlusPlus

# PyTorch is imported with the first name that is used.
__getattr__, __dir__ = lazy_names(__name__)
