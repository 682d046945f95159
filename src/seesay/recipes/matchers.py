"""What a recipe may say of its matcher: settings a kind, their defaults those of the papers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt, ValidationInfo, field_validator

from seesay.registry import Settings


class IRMatchSettings(Settings):
    """IRMatch: a linear image map and a sentence CNN into R^dim."""

    kind: Literal["irmatch"] = "irmatch"
    dim: int = Field(1200, gt=0)
    word_dim: int = Field(300, gt=0)
    widths: tuple[PositiveInt, ...] = Field((1, 2, 3, 4, 5, 6), min_length=1)
    dropout: float = Field(0.0, ge=0, lt=1)


class VsePlusPlusSettings(Settings):
    """VSE++: a linear image map and a GRU into R^dim."""

    kind: Literal["vse++"] = "vse++"
    dim: int = Field(1024, gt=0)
    word_dim: int = Field(300, gt=0)


class ProjectionSettings(Settings):
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


class BranchSettings(Settings):
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


class EmbeddingNetworkSettings(BranchSettings):
    """The embedding network: both branches end in R^dim, on the unit sphere."""

    kind: Literal["embedding-network"] = "embedding-network"


class SimilarityNetworkSettings(BranchSettings):
    """The similarity network: the branches' product, then layers of these widths and a score."""

    kind: Literal["similarity-network"] = "similarity-network"
    head: tuple[PositiveInt, ...] = (512, 256)


class CcaSettings(Settings):
    """Normalised CCA: `dim` canonical directions, scaled by eigenvalue (1 + correlation) to this power."""

    kind: Literal["cca"] = "cca"
    dim: int = Field(512, gt=0)
    power: float = Field(4.0, ge=0)


class McnnSettings(Settings):
    """m-CNN: the level at which the image meets the sentence, and the widths of Table 1.

    `image` is the width of the image vector, `maps` are the feature maps of the three convolutions and
    `hidden` the width of the MLP's hidden layer. `image_dropout` acts on the image features, which
    `standardise` brings to mean 0 and variance 1, as training sees them. Words start from `word_vectors`, and
    with `start: product` the score starts near an inner product of image and windows.
    """

    kind: Literal["mcnn"] = "mcnn"
    level: Literal["wd", "phs", "phl", "st"] = "wd"
    image: int = Field(256, gt=0)
    maps: tuple[PositiveInt, PositiveInt, PositiveInt] = (200, 300, 300)
    hidden: int = Field(400, gt=0)
    dropout: float = Field(0.1, ge=0, lt=1)
    image_dropout: float = Field(0.0, ge=0, lt=1)
    standardise: bool = False
    word_vectors: Literal["glove", "minilm"] = "glove"
    start: Literal["random", "product"] = "random"

    @field_validator("start")
    @classmethod
    def _in_four(cls, start: str, info: ValidationInfo) -> str:
        widths = (*info.data.get("maps", ()), info.data.get("hidden", 0))
        if start == "product" and any(width % 4 for width in widths):
            raise ValueError("product needs maps and hidden that are divisible by four")
        return start


class GenerationSettings(Settings):
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


class ScoSettings(Settings):
    """SCO: an image vector in R^dim of context and concept scores, and an LSTM over the words.

    `fusion` is what the image vector is of: both by the gated fusion unit (eq. 2) or their sum, or one of
    them. Concept scores are the last of the image's arrays. Sentences are cut after `max_length` words.
    """

    kind: Literal["sco"] = "sco"
    dim: int = Field(1024, gt=0)
    word_dim: int = Field(300, gt=0)
    max_length: int = Field(50, gt=0)
    fusion: Literal["gate", "sum", "context", "concepts"] = "gate"
    generation: GenerationSettings | None = None


class ConceptSettings(Settings):
    """The multi-label CNN of SCO: which of `count` concepts an image shows (eq. 1).

    It is a layer on the features of one encoder; `hidden` is the width of one before it, 0 for none.
    """

    kind: Literal["concepts"] = "concepts"
    count: int = Field(256, gt=0)
    hidden: int = Field(0, ge=0)
    dropout: float = Field(0.0, ge=0, lt=1)


class InstanceSettings(Settings):
    """A matcher of `instances` vectors an image, which the encoder lays end to end."""

    instances: int = Field(36, gt=0)


class UncommonVseSettings(InstanceSettings):
    """GVSE's uncommon VSE: an attentional LSTM over instances, and a linear map of a frozen sentence vector.

    `dim` is H, `instances` I and `steps` T; 0 steps average the instances, without relation. `attention` is
    the width of the hidden layer of f (eq. 1).
    """

    kind: Literal["uncommon-vse"] = "uncommon-vse"
    dim: int = Field(1024, gt=0)
    steps: int = Field(3, ge=0)
    attention: int = Field(512, gt=0)


class DeviseSettings(Settings):
    """DeViSE: a linear map of image features into the space of the sentence encoder's vectors."""

    kind: Literal["devise"] = "devise"


class OrderSettings(Settings):
    """Order embeddings: a linear image map and a GRU into the non-negative part of R^dim's unit sphere."""

    kind: Literal["order-embeddings"] = "order-embeddings"
    dim: int = Field(1024, gt=0)
    word_dim: int = Field(300, gt=0)


class DccaSettings(Settings):
    """Deep CCA: a perceptron a side, its hidden layers of these widths, and CCA of what they give, R^dim.

    `power` is that of the eigenvalues (1 + correlation) by which projections are scaled, as in `CcaSettings`.
    """

    kind: Literal["dcca"] = "dcca"
    hidden: tuple[PositiveInt, ...] = (1024,)
    dim: int = Field(128, gt=0)
    dropout: float = Field(0.0, ge=0, lt=1)
    power: float = Field(0.0, ge=0)


class DvsaSettings(InstanceSettings):
    """DVSA: regions and words of a bidirectional network into R^dim.

    `hidden` is the width of the recurrent states. Sentences are cut after `max_length` words.
    """

    kind: Literal["dvsa"] = "dvsa"
    dim: int = Field(1000, gt=0)
    hidden: int = Field(300, gt=0)
    max_length: int = Field(30, gt=0)
    dropout: float = Field(0.0, ge=0, lt=1)


TunableSettings = VsePlusPlusSettings | IRMatchSettings | ScoSettings | ConceptSettings
PairSettings = McnnSettings | SimilarityNetworkSettings


class ComposedSettings(Settings):
    """A matcher put together of others, its members, each trained alone by its own recipe.

    `members` names those recipes. Their settings stand in `matchers` once the recipe is resolved, in the
    same order.
    """

    members: tuple[str, ...] = Field(min_length=2)


class FineTunedSettings(ComposedSettings):
    """The second step of learning (GVSE, section on the common VSE): the CNN and the matcher end to end.

    Or, of concepts, the CNN and its output layer (SCO, section 3.2).

    The one member is the first step's recipe, which holds the CNN fixed. The recipe's loss, optimizer,
    schedule and batch are the second step's; `at_once` images have their activations in memory at a time.
    """

    kind: Literal["fine-tuned"] = "fine-tuned"
    members: tuple[str, ...] = Field(min_length=1, max_length=1)
    at_once: int = Field(32, gt=0)
    matchers: tuple[Annotated[TunableSettings, Field(discriminator="kind")], ...] = ()


EmbeddingSettings = (
    IRMatchSettings
    | VsePlusPlusSettings
    | ProjectionSettings
    | EmbeddingNetworkSettings
    | CcaSettings
    | ScoSettings
    | UncommonVseSettings
    | DeviseSettings
    | DccaSettings
    | FineTunedSettings
)


class EnsembleSettings(ComposedSettings):
    """An ensemble sums the scores of pair matchers.

    Nothing is trained but the members: the recipe's own loss, optimizer and schedule are not used.
    """

    kind: Literal["ensemble"] = "ensemble"
    matchers: tuple[Annotated[PairSettings, Field(discriminator="kind")], ...] = ()


class GateSettings(Settings):
    """The gates of GVSE's metric fusion, which tell queries with uncommon content from others.

    Attributes:
        uncommon: a word is uncommon that occurs at most so often in the other folds of the train split.
        folds: how many there are.
        hidden: width of the hidden layer of f (eq. 4).
    """

    uncommon: int = Field(3, ge=0)
    folds: int = Field(5, gt=1)
    hidden: int = Field(512, gt=0)


class FusionSettings(ComposedSettings):
    """GVSE's fusion of the metrics of two embedding matchers: their sum, or weighed by a gate (eq. 4).

    The first member is the one for uncommon content. `parts` are the positions, among the recipe's image
    arrays, of those that each member takes; they are filled in as `matchers` are. The recipe's optimizer,
    schedule and batch are those of the gates.
    """

    kind: Literal["metric-fusion"] = "metric-fusion"
    members: tuple[str, ...] = Field(min_length=2, max_length=2)
    gate: GateSettings | None = None
    matchers: tuple[Annotated[EmbeddingSettings, Field(discriminator="kind")], ...] = ()
    parts: tuple[tuple[int, ...], ...] = ()


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
    | DeviseSettings
    | OrderSettings
    | DccaSettings
    | DvsaSettings
    | EnsembleSettings
    | FusionSettings
    | FineTunedSettings,
    Field(discriminator="kind"),
]


def concept_settings(matcher: MatcherSettings) -> ConceptSettings | None:
    """Those of a matcher that predicts concepts, its CNN fine-tuned or not; None of any other."""
    one = next(iter(matcher.matchers), None) if isinstance(matcher, FineTunedSettings) else matcher
    return one if isinstance(one, ConceptSettings) else None


def reads_no_words(matcher: MatcherSettings) -> bool:
    """Whether it takes a sentence's vector alone."""
    by_branch = isinstance(matcher, BranchSettings) and not matcher.lstm
    return by_branch or isinstance(matcher, CcaSettings | UncommonVseSettings | DeviseSettings | DccaSettings)
