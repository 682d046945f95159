"""What a recipe may say. Unknown keys are errors; every value's type is checked."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt


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


MatcherSettings = Annotated[
    IRMatchSettings | VsePlusPlusSettings | ProjectionSettings, Field(discriminator="kind")
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


ObjectiveSettings = Annotated[MarginSettings | ContrastiveSettings, Field(discriminator="kind")]


class OptimiserSettings(_Part):
    """Adam, with decoupled weight decay when `decay` is not zero, and gradients clipped by norm."""

    rate: float = Field(1e-3, gt=0)
    decay: float = Field(0.0, ge=0)
    clip: float | None = Field(None, gt=0)


class ScheduleSettings(_Part):
    """Epochs, early stopping on val mR after `patience` epochs without a gain, and the rate's course."""

    epochs: int = Field(30, gt=0)
    patience: int | None = Field(None, gt=0)
    shape: Literal["constant", "cosine", "step"] = "constant"
    step_epoch: int = Field(15, gt=0)


class Recipe(_Part):
    """One row of one table.

    Attributes:
        encoders: image encoders by name; their features are joined.
        arrays: which of the encoders' arrays the matcher takes.
        sentence_encoder: the frozen sentence encoder, if any.
        least: how often a word must occur in the train split to be in the vocabulary.
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
    sentence_encoder: Literal["minilm"] | None = None
    least: int = Field(1, gt=0)
    matcher: MatcherSettings
    objective: ObjectiveSettings
    optimiser: OptimiserSettings = Field(default_factory=OptimiserSettings)
    schedule: ScheduleSettings = Field(default_factory=ScheduleSettings)
    batch: int = Field(128, gt=1)
    seed: int = 1
    departures: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
