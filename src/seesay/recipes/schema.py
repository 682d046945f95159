"""The keys of a recipe and their types. Unknown keys are errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    SerializeAsAny,
    field_validator,
    model_validator,
)

from seesay.encoders import SENTENCE_ENCODERS
from seesay.encoders.settings import PRECOMPUTED, EncoderSettings, checked_encoder, role_of
from seesay.errors import SeesayError
from seesay.losses.settings import LOSSES, LossSettings
from seesay.matchers.settings import AnyMatcherSettings, ComposedSettings
from seesay.samplers import SAMPLERS
from seesay.settings import Settings

if TYPE_CHECKING:
    from seesay.losses.base import Loss


@contextmanager
def _for_pydantic() -> Iterator[None]:
    try:
        yield
    except SeesayError as failure:
        raise ValueError(str(failure)) from failure


@_for_pydantic()
def _image_encoder(values: object) -> EncoderSettings:
    return checked_encoder(values).absolute


@_for_pydantic()
def _sentence_encoder(values: object) -> EncoderSettings | None:
    return None if values is None else SENTENCE_ENCODERS.checked(values).absolute


def _dumped(encoder: EncoderSettings | None) -> str | dict[str, str] | None:
    return None if encoder is None else encoder.dump()


AnyImageEncoder = Annotated[EncoderSettings, PlainValidator(_image_encoder), PlainSerializer(_dumped)]
AnySentenceEncoder = Annotated[
    EncoderSettings | None, PlainValidator(_sentence_encoder), PlainSerializer(_dumped)
]
AnyLossSettings = Annotated[SerializeAsAny[LossSettings], BeforeValidator(LOSSES.validate)]


class OptimizerSettings(Settings):
    """Adam (AdamW if `weight_decay` is not zero) or SGD.

    Attributes:
        grad_clip: gradients whose norm is larger are scaled down to it; None for no clipping.
    """

    kind: Literal["adam", "sgd"] = "adam"
    lr: float = Field(1e-3, gt=0, allow_inf_nan=False)
    weight_decay: float = Field(0.0, ge=0)
    momentum: float = Field(0.0, ge=0, lt=1)
    grad_clip: float | None = Field(None, gt=0, allow_inf_nan=False)


class ScheduleSettings(Settings):
    """How long training takes, early stopping, and the learning rate.

    Either a number of `epochs`, by default 30, or of `steps`, each of a mini-batch: as many epochs as they
    fill, the last of which may be a part of one. Training ends after `patience` epochs without improvement on
    val. The rate is constant, falls along a cosine to zero, or is a tenth after `step_epoch` epochs.

    With `average`, such as 0.99, an exponential moving average of the weights with this decay (less in the
    first steps) is measured and kept instead of the weights.
    """

    epochs: int | None = Field(None, gt=0)
    steps: int | None = Field(None, gt=0)
    patience: int | None = Field(None, gt=0)
    shape: Literal["constant", "cosine", "step"] = "constant"
    step_epoch: int = Field(15, gt=0)
    average: float | None = Field(None, gt=0, lt=1)

    @model_validator(mode="before")
    @classmethod
    def _has_an_end(cls, values: Any) -> Any:
        named = [
            key for key in ("epochs", "steps") if isinstance(values, dict) and values.get(key) is not None
        ]
        if len(named) > 1:
            raise ValueError("epochs and steps both say how long training takes; name one of them")
        return values if named or not isinstance(values, dict) else {**values, "epochs": 30}

    def epochs_of(self, batches: int) -> int:
        """Return the number of epochs, the last of which may be a part of one, of so many mini-batches."""
        return self.epochs or ceil((self.steps or 0) / max(batches, 1))

    def share(self, epochs: float, steps: int) -> float:
        """Return the share of training that is over after so many epochs, which took so many steps."""
        return steps / self.steps if self.steps is not None else epochs / (self.epochs or 1)


class WordSettings(Settings):
    """Pretrained vectors that a matcher's word embedding starts from.

    Attributes:
        vectors: `glove`, `minilm` or `minilm-int8`, which read each word as a sentence, or a text file of
            word2vec or GloVe, FILE.txt or FILE.vec.
        std: the standard deviation to which the vectors are scaled.
    """

    vectors: Annotated[str, Field(pattern=r"^(glove|minilm|minilm-int8|.+\.(txt|vec))$")]
    std: float = Field(0.1, gt=0)


class RegionSettings(Settings):
    """Phrase localization: the regions to match phrases with.

    Attributes:
        proposals: the number of proposals per image.
        train_nms: the IoU above which two proposals of the train split are one; None for the threshold of the
            other splits, which leaves few proposals near a true box.
        positives: the true box only, or also proposals with IoU >= 0.7, or also boxes drawn around it with
            IoU >= 0.7.
        negatives: the maximum number of random proposals with IoU < 0.3 per phrase, drawn for each batch;
            None for all. Losses of pairs take as many as there are positives.
        geometry: whether region features include position and size.
        box_voting: the best box of a phrase becomes the mean of the boxes with at least this IoU, weighted by
            their odds (which needs the logistic loss); None for no voting. `seesay ground` moves every box
            that it returns; measured rankings move only the best one.
    """

    proposals: int = Field(200, gt=0)
    train_nms: float | None = Field(None, gt=0, lt=1)
    positives: Literal["single", "augmented", "jittered"] = "augmented"
    negatives: int | None = Field(None, gt=0)
    geometry: bool = False
    box_voting: float | None = Field(None, gt=0, lt=1)


class Recipe(Settings):
    """The settings of one training, and so of one row of a table.

    Attributes:
        corpus: the corpus for training; by default the given one.
        settings_of: the corpus whose settings these are; None if the recipe has the same for all.
        about: a line for `seesay recipes`.
        encoders: image encoders; their features are joined.
        arrays: which of the encoders' arrays the matcher takes.
        sentence_encoder: the frozen sentence encoder, if any; all but `minilm`, `minilm-int8`, `vectors` and
            the text towers of two-tower models are fitted on the train split.
        sentence_dim: the maximum number of principal components of a fitted sentence encoder.
        min_count: the minimum count of a word in the train split for the vocabulary.
        lemmas: whether words are lemmatised.
        words: the initial word embedding; None for random numbers.
        word_dropout: the share of words that are randomly replaced by the unknown word in training.
        sampler: `rounds` puts each image's sentences into different batches, `random` shuffles the pairs,
            `neighbourhood` shuffles them and adds a second sentence of each image in the batch, `images`
            shuffles the images and takes all sentences of each. Phrases are always shuffled;
            `neighbourhood` adds a second phrase of each region and a second region of each phrase.
        shared_sentences: whether a sentence is a positive, or at least not a negative, of every image that
            carries the same text; by default if more than a tenth of the train sentences are shared, as the
            names in a table of products are. In the papers only its own image counts.
        losses: further losses, which are added to `loss` in each mini-batch of images and sentences.
        regions: settings of grounding recipes, whose encoder is a region encoder.
        val_images: the epoch is chosen on this many images of val; None for all. On a CPU, a pair matcher may
            take longer for all pairs of val than for an epoch.
        system: the name of the published row for comparison.
        departures: how the recipe differs from the paper, one line each.
        changes: the changes to it (`--set`), which distinguish rows of a table with the same recipe.
    """

    name: str
    corpus: str
    settings_of: str | None = None
    about: str = ""
    system: str | None = None
    encoders: tuple[AnyImageEncoder, ...] = Field(min_length=1)
    arrays: tuple[Literal["pooled", "logits"], ...] = Field(("pooled",), min_length=1)
    sentence_encoder: AnySentenceEncoder = None
    sentence_dim: int = Field(6000, gt=0)
    min_count: int = Field(1, gt=0)
    lemmas: bool = False
    words: WordSettings | None = None
    word_dropout: float = Field(0.0, ge=0, lt=1)
    matcher: AnyMatcherSettings
    loss: AnyLossSettings
    losses: tuple[AnyLossSettings, ...] = ()
    optimizer: OptimizerSettings = Field(default_factory=OptimizerSettings)
    schedule: ScheduleSettings = Field(default_factory=ScheduleSettings)
    batch_size: int = Field(128, gt=1)
    sampler: str = "rounds"
    shared_sentences: bool | None = None
    regions: RegionSettings | None = None
    val_images: int | None = Field(None, gt=0)
    seed: int = Field(1, ge=0, lt=1 << 32)
    departures: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()

    @field_validator("encoders")
    @classmethod
    def _each_once(cls, encoders: tuple[EncoderSettings, ...]) -> tuple[EncoderSettings, ...]:
        if len({each.replaced(**{"is": ""}) for each in encoders}) < len(encoders):
            raise ValueError("an encoder is named twice; name each once")
        return encoders

    @field_validator("sampler")
    @classmethod
    @_for_pydantic()
    def _is_registered(cls, sampler: str) -> str:
        SAMPLERS[sampler]
        return sampler

    @model_validator(mode="after")
    def _keys_fit(self) -> Recipe:
        for key, problem in misfits(self):
            raise ValueError(f"key '{key}': {problem}")
        return self

    @property
    def composition(self) -> ComposedSettings:
        """Its matcher, which is composed (`is_composed`)."""
        assert isinstance(self.matcher, ComposedSettings)
        return self.matcher


def misfits(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """Iterate over the keys of a recipe that do not fit the others or have no effect, and say why."""
    matcher, regions, loss = recipe.matcher, recipe.regions, recipe.loss
    if matcher.reads_vectors and recipe.sentence_encoder is None:
        yield "matcher", f"{matcher.kind} takes a sentence's vector; name a sentence_encoder"
    yield from _misfits_of_roles(recipe)
    if regions is not None and len(recipe.encoders) > 1:
        yield "regions", "a grounding recipe takes one region encoder; name a single one in encoders"
    if isinstance(loss, LOSSES.unchecked):  # without PyTorch, but then nothing can be trained
        return
    labels, solved = loss.loss_class.learns_concepts, loss.loss_class.closed_form
    if not matcher.is_composed or recipe.composition.matchers:  # else its members are not known yet
        if labels != matcher.predicts_concepts:
            yield "loss", "the multi-label loss is for matchers that predict concepts; they take no other"
        if labels and len(recipe.encoders) > 1:
            yield "loss", "concepts are predicted from the features of one encoder; name a single one"
        for key, each in (("loss", loss), *(("losses", further) for further in recipe.losses)):
            missing = [name for name in each.loss_class.needs if not hasattr(matcher.matcher_class, name)]
            if missing:
                needed = ", ".join(missing)
                yield key, f"{each.kind} needs a matcher with {needed}, which {matcher.kind} lacks"
    if regions is not None:
        if not _learns_phrases(loss.loss_class):
            every = {kind: cast("type[Loss]", LOSSES[kind].implementation) for kind in LOSSES}
            listed = ", ".join(sorted(kind for kind, other in every.items() if _learns_phrases(other)))
            yield "regions", f"phrases are learned with the losses {listed}, not with {loss.kind}"
        if recipe.encoders[0].kind == PRECOMPUTED and regions.positives == "jittered":
            yield "regions.positives", "boxes of a file have features, but no boxes can be drawn near them"
        if recipe.encoders[0].kind == PRECOMPUTED and regions.train_nms is not None:
            yield "regions.train_nms", "the boxes of a file are the proposals; leave it out"
        if regions.box_voting is not None and loss.loss_class.phrases != "pairs":
            why = f"box_voting takes odds, which the logistic loss learns; {loss.kind} does not: leave it out"
            yield "regions", why
    if recipe.word_dropout and (regions is not None or not matcher.reads_words):
        what = "phrases are learned with all their words" if regions else f"{matcher.kind} reads none"
        yield "word_dropout", f"no words are left out, as {what}; leave it out"
    if recipe.optimizer.momentum and recipe.optimizer.kind != "sgd":
        yield "optimizer.momentum", "momentum belongs to sgd"
    if recipe.schedule.average is not None and solved:
        yield "schedule.average", f"{loss.kind} is solved, not trained; leave it out"
    if recipe.schedule.steps is not None and recipe.schedule.shape == "step":
        yield "schedule.shape", "its step_epoch counts epochs; name epochs instead of steps, or shape: cosine"
    if matcher.predicts_concepts or solved or regions is not None:
        if recipe.losses:
            why = "they are added to a loss of mini-batches of images and sentences; leave them out"
            yield "losses", why
        if recipe.shared_sentences is not None:
            why = f"{loss.kind} learns from a sentence's own image alone; leave it out"
            yield "shared_sentences", why
    if recipe.val_images is not None and (matcher.predicts_concepts or regions is not None):
        yield "val_images", "concepts and phrases are measured on all of val; leave it out"


def _misfits_of_roles(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """Iterate over what encoders give that the matcher does not take, or lacks."""
    matcher, encoders = recipe.matcher, recipe.encoders
    if recipe.arrays != ("pooled",) or matcher.is_composed or recipe.regions is not None:
        return  # other arrays say what they are, and members have encoders of their own
    fusion = getattr(matcher, "fusion", None)
    first, *others = (role_of(encoder) == "concepts" for encoder in encoders)
    if fusion == "context" and any((first, *others)):
        yield "encoders", "the fusion 'context' reads the context alone; leave out the concepts"
    if fusion == "concepts" and not all((first, *others)):
        yield "encoders", "the fusion 'concepts' reads concepts alone; leave out the context"
    if fusion in ("sum", "gate", "scaled-gate") and (first or not others or not all(others)):
        why = "joins one encoder of the context and concepts, in this order: encoders=[CONTEXT, CONCEPTS]"
        yield "encoders", f"the fusion '{fusion}' {why}"


def unread(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """Iterate over the keys of a recipe for training whose values its matcher does not read, and say why.

    Runs of earlier versions may have been trained with them.
    """
    matcher, encoders = recipe.matcher, recipe.encoders
    if matcher.is_composed and not recipe.composition.matchers:
        return  # its members are not known yet
    if recipe.sentence_encoder is not None and not matcher.reads_vectors:
        yield "sentence_encoder", f"{matcher.kind} reads no vectors of sentences; leave it out"
    if matcher.is_composed or recipe.regions is not None or recipe.arrays != ("pooled",):
        return  # members have encoders of their own, and other arrays say what they are
    if matcher.instances_per_image is not None and len(encoders) > 1:
        yield "encoders", f"{matcher.kind} takes the instances of one encoder; name a single one"
    takes = {"concepts": hasattr(matcher, "fusion"), "instances": matcher.instances_per_image is not None}
    for role, taken in takes.items():
        if not taken and role in {encoder.get("role") for encoder in encoders}:
            yield "encoders", f"{matcher.kind} takes no {role}; leave out the encoder with the role {role}"


def _learns_phrases(loss: type[Loss]) -> bool:
    """Return whether a loss learns phrases of regions, by mini-batches or from all pairs at once."""
    return loss.phrases is not None or loss.closed_form
