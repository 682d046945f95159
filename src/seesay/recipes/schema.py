"""What a recipe may say. Unknown keys are errors; every value's type is checked."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    ValidationInfo,
    field_validator,
)


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class IRMatchSettings(_Part):
    """IRMatch: a linear image map and a sentence CNN into R^dim."""

    kind: Literal["irmatch"] = "irmatch"
    dim: int = Field(1200, gt=0)
    word_dim: int = Field(300, gt=0)
    widths: tuple[PositiveInt, ...] = Field((1, 2, 3, 4, 5, 6), min_length=1)
    dropout: float = Field(0.0, ge=0, lt=1)


class VsePlusPlusSettings(_Part):
    """VSE++: a linear image map and a GRU into R^dim."""

    kind: Literal["vse++"] = "vse++"
    dim: int = Field(1024, gt=0)
    word_dim: int = Field(300, gt=0)


class ProjectionSettings(_Part):
    """Perceptrons over packaged vectors on both sides; several members, their scores averaged."""

    kind: Literal["projection"] = "projection"
    dim: int = Field(512, gt=0)
    hidden: int = Field(1024, gt=0)
    word_dim: int = Field(300, ge=0)
    members: int = Field(1, gt=0)
    image_dropout: float = Field(0.3, ge=0, lt=1)
    sentence_dropout: float = Field(0.1, ge=0, lt=1)
    hidden_dropout: float = Field(0.3, ge=0, lt=1)
    class_names: float = Field(0.0, ge=0, lt=1)


class _BranchSettings(_Part):
    """Two branches of fully connected layers; `linear` keeps only the first of each.

    `lstm` is the width of an LSTM over the words that stands before the sentence branch; 0 takes the
    sentence encoder's vectors.
    """

    image_hidden: int = Field(2048, gt=0)
    sentence_hidden: int = Field(2048, gt=0)
    dim: int = Field(512, gt=0)
    linear: bool = False
    dropout: float = Field(0.5, ge=0, lt=1)
    lstm: int = Field(0, ge=0)
    word_dim: int = Field(256, gt=0)


class EmbeddingNetworkSettings(_BranchSettings):
    """The embedding network: both branches end in R^dim, on the unit sphere."""

    kind: Literal["embedding-network"] = "embedding-network"


class SimilarityNetworkSettings(_BranchSettings):
    """The similarity network: the branches' product, then layers of these widths and a score."""

    kind: Literal["similarity-network"] = "similarity-network"
    head: tuple[PositiveInt, ...] = (512, 256)


class CcaSettings(_Part):
    """Normalised CCA: `dim` canonical directions, scaled by eigenvalue (1 + correlation) to this power."""

    kind: Literal["cca"] = "cca"
    dim: int = Field(512, gt=0)
    power: float = Field(4.0, ge=0)


class McnnSettings(_Part):
    """m-CNN: the level at which the image meets the sentence, and the widths of Table 1.

    `image` is the width of the image vector, `maps` are the feature maps of the three convolutions and
    `hidden` the width of the MLP's hidden layer. `image_dropout` acts on the image features, which
    `standardise` brings to mean 0 and variance 1, as training sees them.
    """

    kind: Literal["mcnn"] = "mcnn"
    level: Literal["wd", "phs", "phl", "st"] = "wd"
    image: int = Field(256, gt=0)
    maps: tuple[PositiveInt, PositiveInt, PositiveInt] = (200, 300, 300)
    hidden: int = Field(400, gt=0)
    dropout: float = Field(0.1, ge=0, lt=1)
    image_dropout: float = Field(0.0, ge=0, lt=1)
    standardise: bool = False


class GenerationSettings(_Part):
    """Sentence generation: a decoder writes the matching sentence from the image vector (eq. 3).

    Attributes:
        weight: λ of eq. 4.
        role: what is written for: `supervision` of the image vector (section 3.3.2), or a `sentence` that
            itself stands for the image in matching (the ablation ctx + sen).
        sampling: scheduled sampling: the share of the decoder's own words that it reads instead of the true
            ones, growing from none in the first epoch to this in the last.
        shared: whether sentence encoder and decoder have one word embedding.
    """

    weight: float = Field(1.0, ge=0)
    role: Literal["supervision", "sentence"] = "supervision"
    sampling: float = Field(0.0, ge=0, le=1)
    shared: bool = False


class ScoSettings(_Part):
    """SCO: an image vector in R^dim of context and concept scores, and an LSTM over the words.

    `fusion` is what the image vector is of: both by the gated fusion unit (eq. 2) or their sum, or one of
    them. Concept scores are the last of the image's arrays. Sentences are cut after `longest` words.
    """

    kind: Literal["sco"] = "sco"
    dim: int = Field(1024, gt=0)
    word_dim: int = Field(300, gt=0)
    longest: int = Field(50, gt=0)
    fusion: Literal["gate", "sum", "context", "concepts"] = "gate"
    generation: GenerationSettings | None = None


class ConceptSettings(_Part):
    """The multi-label CNN of SCO: which of `count` concepts an image shows (eq. 1).

    It is a layer on the features of one encoder; `hidden` is the width of one before it, 0 for none.
    """

    kind: Literal["concepts"] = "concepts"
    count: int = Field(256, gt=0)
    hidden: int = Field(0, ge=0)
    dropout: float = Field(0.0, ge=0, lt=1)


class UncommonVseSettings(_Part):
    """GVSE's uncommon VSE: an attentional LSTM over instances, and a linear map of a frozen sentence vector.

    `dim` is H, `instances` I and `steps` T; 0 steps average the instances, without relation. `attention` is
    the width of the hidden layer of f (eq. 1).
    """

    kind: Literal["uncommon-vse"] = "uncommon-vse"
    dim: int = Field(1024, gt=0)
    instances: int = Field(36, gt=0)
    steps: int = Field(3, ge=0)
    attention: int = Field(512, gt=0)


PairSettings = McnnSettings | SimilarityNetworkSettings


class EnsembleSettings(_Part):
    """An ensemble sums the scores of pair matchers, each trained alone by its own recipe.

    `members` names those recipes. Their settings stand in `matchers` once the recipe is resolved, in the
    same order; the recipe's objective, optimiser and schedule are what its members have in common.
    """

    kind: Literal["ensemble"] = "ensemble"
    members: tuple[str, ...] = Field(min_length=2)
    matchers: tuple[Annotated[PairSettings, Field(discriminator="kind")], ...] = ()


MatcherSettings = Annotated[
    IRMatchSettings
    | VsePlusPlusSettings
    | ProjectionSettings
    | EmbeddingNetworkSettings
    | SimilarityNetworkSettings
    | CcaSettings
    | McnnSettings
    | ScoSettings
    | ConceptSettings
    | UncommonVseSettings
    | EnsembleSettings,
    Field(discriminator="kind"),
]


class MarginSettings(_Part):
    """Bidirectional ranking loss; `slack` is C of the soft margin, absent for the hard one."""

    kind: Literal["margin"] = "margin"
    margin: float = Field(0.5, gt=0)
    slack: int | None = Field(None, gt=0)


class ContrastiveSettings(_Part):
    """Cross-entropy over the batch in both directions, scores times `scale`."""

    kind: Literal["contrastive"] = "contrastive"
    scale: float = Field(20.0, gt=0)


class TripletSettings(_Part):
    """Ranking and neighbourhood constraints of the two-branch networks, eq. 6.

    `weights` are λ1 (the query is an image), λ2 (a sentence), λ3 (images among themselves) and
    λ4 (sentences among themselves); `keep` is K, the hardest triplets of each pair.
    """

    kind: Literal["triplet"] = "triplet"
    margin: float = Field(0.05, gt=0)
    keep: int = Field(10, gt=0)
    weights: tuple[NonNegativeFloat, NonNegativeFloat, NonNegativeFloat, NonNegativeFloat] = (1, 1.5, 0, 0)


class LogisticSettings(_Part):
    """Logistic loss on pairs, eq. 7: as many that match as pairs that do not."""

    kind: Literal["logistic"] = "logistic"


class MultiLabelSettings(_Part):
    """Logistic loss on each concept of each image, SCO's eq. 1."""

    kind: Literal["multi-label"] = "multi-label"


class PairMarginSettings(_Part):
    """Contrastive sampling of m-CNN, eq. 10: each pair against one negative of its batch, in both directions.

    `negatives` are drawn at random, as in the paper, or are the hardest, those with the highest scores.
    """

    kind: Literal["pair-margin"] = "pair-margin"
    margin: float = Field(0.5, gt=0)
    negatives: Literal["random", "hardest"] = "random"


class CorrelationSettings(_Part):
    """The correlation of CCA, in closed form; the ridge is the one of these with the best val measure."""

    kind: Literal["correlation"] = "correlation"
    ridges: tuple[PositiveFloat, ...] = Field((0.01, 0.1, 1.0), min_length=1)


ObjectiveSettings = Annotated[
    MarginSettings
    | ContrastiveSettings
    | TripletSettings
    | LogisticSettings
    | MultiLabelSettings
    | PairMarginSettings
    | CorrelationSettings,
    Field(discriminator="kind"),
]


class OptimiserSettings(_Part):
    """Adam, with decoupled weight decay when `decay` is not zero, or SGD; gradients clipped by norm."""

    kind: Literal["adam", "sgd"] = "adam"
    rate: float = Field(1e-3, gt=0)
    decay: float = Field(0.0, ge=0)
    momentum: float = Field(0.0, ge=0, lt=1)
    clip: float | None = Field(None, gt=0)

    @field_validator("momentum")
    @classmethod
    def _of_sgd(cls, momentum: float, info: ValidationInfo) -> float:
        if momentum and info.data.get("kind") != "sgd":
            raise ValueError("momentum belongs to sgd")
        return momentum


class ScheduleSettings(_Part):
    """Epochs, early stopping on val mR after `patience` epochs without a gain, and the rate's course."""

    epochs: int = Field(30, gt=0)
    patience: int | None = Field(None, gt=0)
    shape: Literal["constant", "cosine", "step"] = "constant"
    step_epoch: int = Field(15, gt=0)


class RegionSettings(_Part):
    """Phrase localization: what a phrase is matched with.

    Attributes:
        proposals: how many an image has.
        positives: the true box alone, or also proposals that overlap it with IoU >= 0.7.
        negatives: at most so many proposals with IoU < 0.3 a phrase, drawn anew each time; all without it.
        geometry: whether a region's place and size stand beside its features.
    """

    proposals: int = Field(200, gt=0)
    positives: Literal["single", "augmented"] = "augmented"
    negatives: int | None = Field(None, gt=0)
    geometry: bool = False


class Recipe(_Part):
    """One row of one table.

    Attributes:
        encoders: image encoders by name; their features are joined.
        arrays: which of the encoders' arrays the matcher takes.
        sentence_encoder: the frozen sentence encoder, if any; all but `minilm` are fitted on the train split.
        sentence_dim: to how many principal components a fitted one is reduced, at most.
        least: how often a word must occur in the train split to be in the vocabulary.
        sampler: `rounds` deals each image's sentences into different batches, `random` shuffles the pairs,
            `neighbourhood` shuffles them and sees to two sentences of each image in the batch.
        regions: set where the recipe grounds phrases; its encoder then is a region encoder.
        system: the name of the published row that stands beside the measured one.
        departures: how the recipe differs from that paper, a line each.
        changes: what the command line changed (`--set`); it tells the rows of a table apart.
    """

    name: str
    corpus: str
    about: str
    system: str | None = None
    encoders: tuple[str, ...] = Field(min_length=1)
    arrays: tuple[Literal["pooled", "logits"], ...] = Field(("pooled",), min_length=1)
    sentence_encoder: (
        Literal["minilm", "hglmm", "gmm", "lmm", "gmm+hglmm", "mean", "tfidf", "skip-thought"] | None
    ) = None
    sentence_dim: int = Field(6000, gt=0)
    least: int = Field(1, gt=0)
    matcher: MatcherSettings
    objective: ObjectiveSettings
    optimiser: OptimiserSettings = Field(default_factory=OptimiserSettings)
    schedule: ScheduleSettings = Field(default_factory=ScheduleSettings)
    batch: int = Field(128, gt=1)
    sampler: Literal["rounds", "random", "neighbourhood"] = "rounds"
    regions: RegionSettings | None = None
    seed: int = 1
    departures: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()

    @field_validator("matcher")
    @classmethod
    def _sentences_are_read(cls, matcher: MatcherSettings, info: ValidationInfo) -> MatcherSettings:
        by_vectors = isinstance(matcher, CcaSettings | UncommonVseSettings) or (
            isinstance(matcher, _BranchSettings) and not matcher.lstm
        )
        if by_vectors and info.data.get("sentence_encoder") is None:
            raise ValueError(f"{matcher.kind} takes a sentence's vector; name a sentence_encoder")
        return matcher

    @field_validator("objective")
    @classmethod
    def _concepts_have_their_own(
        cls, objective: ObjectiveSettings, info: ValidationInfo
    ) -> ObjectiveSettings:
        labels = isinstance(objective, MultiLabelSettings)
        if isinstance(info.data.get("matcher"), ConceptSettings) != labels:
            raise ValueError("multi-label is what concepts are learned with, and they alone")
        if labels and len(info.data.get("encoders", ())) > 1:
            raise ValueError("concepts are predicted from the features of one encoder; name a single one")
        return objective

    @field_validator("regions")
    @classmethod
    def _one_region_encoder(
        cls, regions: RegionSettings | None, info: ValidationInfo
    ) -> RegionSettings | None:
        if regions is not None and len(info.data.get("encoders", ())) > 1:
            raise ValueError("a grounding recipe takes one region encoder; name a single one in encoders")
        return regions
