"""Matchers by the settings of a recipe."""

from __future__ import annotations

from collections.abc import Sequence

from seesay.errors import SeesayError
from seesay.matchers.base import EmbeddingMatcher, Matcher, PairMatcher
from seesay.matchers.cca import CCA
from seesay.matchers.concepts import ConceptPredictor
from seesay.matchers.dcca import DCCA
from seesay.matchers.devise import DeViSE
from seesay.matchers.dvsa import DVSA
from seesay.matchers.ensemble import Ensemble
from seesay.matchers.fusion import MetricFusion
from seesay.matchers.gvse import UncommonVSE
from seesay.matchers.irmatch import IRMatch
from seesay.matchers.mcnn import MatchingCNN
from seesay.matchers.order_embeddings import OrderEmbeddings
from seesay.matchers.projection import Projection
from seesay.matchers.sco import SCO
from seesay.matchers.two_branch import EmbeddingNetwork, SimilarityNetwork
from seesay.matchers.vsepp import VsePlusPlus
from seesay.recipes.matchers import (
    CcaSettings,
    ComposedSettings,
    ConceptSettings,
    DccaSettings,
    DeviseSettings,
    DvsaSettings,
    EmbeddingNetworkSettings,
    EnsembleSettings,
    FineTunedSettings,
    FusionSettings,
    IRMatchSettings,
    MatcherSettings,
    McnnSettings,
    OrderSettings,
    ScoSettings,
    SimilarityNetworkSettings,
    UncommonVseSettings,
    VsePlusPlusSettings,
)


def build_matcher(
    settings: MatcherSettings, image_parts: Sequence[int], words: int, sentence_dim: int
) -> Matcher:
    """The matcher with its initial weights.

    Args:
        settings: of the recipe; their kind chooses the matcher.
        image_parts: widths of the arrays that the image features are joined from.
        words: rows of a word embedding; of a recipe of concepts one more than these.
        sentence_dim: width of the frozen sentence encoder's vectors; 0 without one.

    Raises:
        SeesayError: the settings are of a composed matcher and do not say what its members are.
    """
    if isinstance(settings, IRMatchSettings):
        return IRMatch(
            sum(image_parts), words, settings.dim, settings.word_dim, settings.widths, settings.dropout
        )
    if isinstance(settings, VsePlusPlusSettings):
        return VsePlusPlus(sum(image_parts), words, settings.dim, settings.word_dim)
    if isinstance(settings, EmbeddingNetworkSettings):
        return EmbeddingNetwork(settings, sum(image_parts), words, sentence_dim)
    if isinstance(settings, SimilarityNetworkSettings):
        return SimilarityNetwork(settings, sum(image_parts), words, sentence_dim)
    if isinstance(settings, CcaSettings):
        return CCA(sum(image_parts), sentence_dim, settings.dim, settings.power)
    if isinstance(settings, McnnSettings):
        return MatchingCNN(settings, sum(image_parts), words)
    if isinstance(settings, ScoSettings):
        return SCO(settings, image_parts, words)
    if isinstance(settings, UncommonVseSettings):
        return UncommonVSE(settings, sum(image_parts), sentence_dim)
    if isinstance(settings, DeviseSettings):
        return DeViSE(sum(image_parts), sentence_dim)
    if isinstance(settings, OrderSettings):
        return OrderEmbeddings(settings, sum(image_parts), words)
    if isinstance(settings, DccaSettings):
        return DCCA(settings, sum(image_parts), sentence_dim)
    if isinstance(settings, DvsaSettings):
        return DVSA(settings, sum(image_parts), words)
    if isinstance(settings, ConceptSettings):
        return ConceptPredictor(settings, sum(image_parts), words - 1)
    if isinstance(settings, EnsembleSettings):
        return _ensemble(settings, image_parts, words, sentence_dim)
    if isinstance(settings, FusionSettings):
        return _fusion(settings, image_parts, words, sentence_dim)
    if isinstance(settings, FineTunedSettings):
        _check_resolved(settings, len(settings.matchers))
        return build_matcher(settings.matchers[0], image_parts, words, sentence_dim)
    return Projection(settings, image_parts, words, sentence_dim)


def _ensemble(
    settings: EnsembleSettings, image_parts: Sequence[int], words: int, sentence_dim: int
) -> Ensemble:
    _check_resolved(settings, len(settings.matchers))
    built = [build_matcher(member, image_parts, words, sentence_dim) for member in settings.matchers]
    members = [member for member in built if isinstance(member, PairMatcher)]
    return Ensemble(members, sum(image_parts), sentence_dim)


def _fusion(
    settings: FusionSettings, image_parts: Sequence[int], words: int, sentence_dim: int
) -> MetricFusion:
    _check_resolved(settings, min(len(settings.matchers), len(settings.parts)))
    built = [
        build_matcher(member, [image_parts[i] for i in parts], words, sentence_dim)
        for member, parts in zip(settings.matchers, settings.parts, strict=True)
    ]
    members = [member for member in built if isinstance(member, EmbeddingMatcher)]
    hidden = settings.gate.hidden if settings.gate else None
    return MetricFusion(members, image_parts, settings.parts, sentence_dim, hidden)


def _check_resolved(settings: ComposedSettings, filled: int) -> None:
    if filled != len(settings.members):
        raise SeesayError(
            f"The members {', '.join(settings.members)} come with the settings of {filled} matchers; "
            "`seesay train` fills them in from the members' recipes."
        )
