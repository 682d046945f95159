"""What a recipe may say. Unknown keys are errors; every value's type is checked."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import (
    Field,
    NonNegativeFloat,
    PositiveFloat,
    ValidationInfo,
    field_validator,
)

from seesay.encoders.names import SENTENCE_ENCODERS
from seesay.errors import did_you_mean
from seesay.recipes.matchers import (
    FineTunedSettings,
    MatcherSettings,
    concept_settings,
    reads_no_words,
)
from seesay.registry import Settings


class MarginSettings(Settings):
    """Bidirectional ranking loss over all negatives of the batch."""

    kind: Literal["margin"] = "margin"
    margin: float = Field(0.5, gt=0)


class SoftMarginSettings(MarginSettings):
    """The same over the `top_k` largest violations of each query; C of IRMatch's soft margin."""

    kind: Literal["soft-margin"] = "soft-margin"  # type: ignore[assignment]
    top_k: int = Field(5, gt=0)


class HingeRankSettings(Settings):
    """Hinge rank loss of DeViSE: all sentences of the batch against each image; sentences do not ask."""

    kind: Literal["hinge-rank"] = "hinge-rank"
    margin: float = Field(0.1, gt=0)


class ContrastiveSettings(Settings):
    """Cross-entropy over the batch in both directions, scores times `scale`."""

    kind: Literal["contrastive"] = "contrastive"
    scale: float = Field(20.0, gt=0)


class DistillationSettings(Settings):
    """A teacher's scores of the batch, times `scale`, as the shares that each pair is to have in it.

    `teacher` is a run of an embedding matcher that was trained on the same corpus.
    """

    kind: Literal["distillation"] = "distillation"
    teacher: str
    scale: float = Field(30.0, gt=0)


class TripletSettings(Settings):
    """Ranking and neighbourhood constraints of the two-branch networks, eq. 6.

    `weights` are λ1 (the query is an image), λ2 (a sentence), λ3 (images among themselves) and
    λ4 (sentences among themselves); `top_k` is K, the hardest triplets of each pair.
    """

    kind: Literal["triplet"] = "triplet"
    margin: float = Field(0.05, gt=0)
    top_k: int = Field(10, gt=0)
    weights: tuple[NonNegativeFloat, NonNegativeFloat, NonNegativeFloat, NonNegativeFloat] = (1, 1.5, 0, 0)


class LogisticSettings(Settings):
    """Logistic loss on pairs, eq. 7: as many that match as pairs that do not."""

    kind: Literal["logistic"] = "logistic"


class MultiLabelSettings(Settings):
    """Logistic loss on each concept of each image, SCO's eq. 1."""

    kind: Literal["multi-label"] = "multi-label"


class PairMarginSettings(Settings):
    """Contrastive sampling of m-CNN, eq. 10: each pair against one negative of its batch, in both directions.

    `negatives` are drawn at random, as in the paper, or are the hardest, those with the highest scores.
    """

    kind: Literal["pair-margin"] = "pair-margin"
    margin: float = Field(0.5, gt=0)
    negatives: Literal["random", "hardest"] = "random"


class CorrelationSettings(Settings):
    """The correlation of CCA, in closed form; the ridge is the one of these with the best val measure."""

    kind: Literal["correlation"] = "correlation"
    ridges: tuple[PositiveFloat, ...] = Field((0.01, 0.1, 1.0), min_length=1)


class TotalCorrelationSettings(Settings):
    """The correlation of a mini-batch, which deep CCA trains by; `ridge` is added to each variance."""

    kind: Literal["total-correlation"] = "total-correlation"
    ridge: float = Field(1e-4, gt=0)


LossSettings = Annotated[
    MarginSettings
    | SoftMarginSettings
    | HingeRankSettings
    | ContrastiveSettings
    | DistillationSettings
    | TripletSettings
    | LogisticSettings
    | MultiLabelSettings
    | PairMarginSettings
    | CorrelationSettings
    | TotalCorrelationSettings,
    Field(discriminator="kind"),
]


class OptimizerSettings(Settings):
    """Adam (AdamW if `weight_decay` is not zero) or SGD; `grad_clip` is the largest norm of the gradients."""

    kind: Literal["adam", "sgd"] = "adam"
    lr: float = Field(1e-3, gt=0)
    weight_decay: float = Field(0.0, ge=0)
    momentum: float = Field(0.0, ge=0, lt=1)
    grad_clip: float | None = Field(None, gt=0)

    @field_validator("momentum")
    @classmethod
    def _of_sgd(cls, momentum: float, info: ValidationInfo) -> float:
        if momentum and info.data.get("kind") != "sgd":
            raise ValueError("momentum belongs to sgd")
        return momentum


class ScheduleSettings(Settings):
    """Epochs, early stopping on val mR after `patience` epochs without a gain, and the rate's course."""

    epochs: int = Field(30, gt=0)
    patience: int | None = Field(None, gt=0)
    shape: Literal["constant", "cosine", "step"] = "constant"
    step_epoch: int = Field(15, gt=0)


class RegionSettings(Settings):
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


class Recipe(Settings):
    """One row of one table.

    Attributes:
        encoders: image encoders by name; their features are joined.
        arrays: which of the encoders' arrays the matcher takes.
        sentence_encoder: the frozen sentence encoder, if any; all but `minilm` are fitted on the train split.
        sentence_dim: to how many principal components a fitted one is reduced, at most.
        min_count: how often a word must occur in the train split to be in the vocabulary.
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
    sentence_encoder: str | None = None
    sentence_dim: int = Field(6000, gt=0)
    min_count: int = Field(1, gt=0)
    matcher: MatcherSettings
    loss: LossSettings
    optimizer: OptimizerSettings = Field(default_factory=OptimizerSettings)
    schedule: ScheduleSettings = Field(default_factory=ScheduleSettings)
    batch_size: int = Field(128, gt=1)
    sampler: Literal["rounds", "random", "neighbourhood"] = "rounds"
    regions: RegionSettings | None = None
    seed: int = 1
    departures: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()

    @field_validator("sentence_encoder")
    @classmethod
    def _registered(cls, name: str | None) -> str | None:
        if name is not None and name not in SENTENCE_ENCODERS:
            near = did_you_mean(name, SENTENCE_ENCODERS) or "."
            known = ", ".join(sorted(SENTENCE_ENCODERS))
            raise ValueError(f"no sentence encoder '{name}'{near} There are: {known}")
        return name

    @field_validator("matcher")
    @classmethod
    def _sentences_are_read(cls, matcher: MatcherSettings, info: ValidationInfo) -> MatcherSettings:
        if reads_no_words(matcher) and info.data.get("sentence_encoder") is None:
            raise ValueError(f"{matcher.kind} takes a sentence's vector; name a sentence_encoder")
        return matcher

    @field_validator("loss")
    @classmethod
    def _concepts_have_their_own(cls, loss: LossSettings, info: ValidationInfo) -> LossSettings:
        labels, matcher = isinstance(loss, MultiLabelSettings), info.data.get("matcher")
        unresolved = isinstance(matcher, FineTunedSettings) and not matcher.matchers
        if matcher and not unresolved and labels != (concept_settings(matcher) is not None):
            raise ValueError("multi-label is what concepts are learned with, and they alone")
        if labels and len(info.data.get("encoders", ())) > 1:
            raise ValueError("concepts are predicted from the features of one encoder; name a single one")
        return loss

    @field_validator("regions")
    @classmethod
    def _one_region_encoder(
        cls, regions: RegionSettings | None, info: ValidationInfo
    ) -> RegionSettings | None:
        if regions is not None and len(info.data.get("encoders", ())) > 1:
            raise ValueError("a grounding recipe takes one region encoder; name a single one in encoders")
        return regions
