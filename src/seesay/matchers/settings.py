"""Settings of matchers in recipes, readable without PyTorch, and their registry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

from pydantic import BeforeValidator, Field, SerializeAsAny

from seesay.errors import SeesayError
from seesay.settings import Settings, SettingsRegistry

if TYPE_CHECKING:
    from torch import nn

_INPUTS = ("image_dim", "image_dims", "vocabulary_size", "sentence_dim", "concepts")


@dataclass(frozen=True)
class MatcherInputs:
    """The inputs that a matcher is built for.

    Attributes:
        image_dims: widths of the arrays that the image features are joined from.
        vocabulary_size: rows of a word embedding, the unknown word's included.
        sentence_dim: width of the sentence encoder's vectors; 0 without one.

    Example:
        >>> from seesay.matchers import MatcherInputs
        >>> MatcherInputs(image_dims=(1280, 1000), vocabulary_size=8000).image_dim
        2280
    """

    image_dims: tuple[int, ...]
    vocabulary_size: int
    sentence_dim: int = 0

    @property
    def image_dim(self) -> int:
        """Width of the joined image features."""
        return sum(self.image_dims)

    @property
    def concepts(self) -> int:
        """The number of concepts, if these are the vocabulary; the unknown word is not one."""
        return self.vocabulary_size - 1


class MatcherSettings(Settings):
    """Base of the settings of matchers, which `register_matcher` generates from a matcher's constructor.

    They also describe the matcher to other code. Its class declares these properties as attributes or, if
    they depend on the settings, as static methods that take the settings; see `Matcher`.

    Example:
        >>> from seesay.matchers.settings import MATCHERS
        >>> MATCHERS.parse({"kind": "cca", "dim": 64}).reads_words
        False
    """

    kind: str
    is_composed: ClassVar[bool] = False

    def build(self, inputs: MatcherInputs) -> nn.Module:
        """Return the matcher with its initial weights.

        Its constructor receives these settings by name, and those of `inputs` that it has an argument for.
        """
        implementation = self.implementation
        wanted = signature(implementation).parameters
        given = {name: getattr(inputs, name) for name in _INPUTS if name in wanted}
        return cast("nn.Module", implementation(**given, **self.arguments_for(implementation)))

    @property
    def matcher_class(self) -> type:
        """The class that `build` instantiates; without PyTorch `object`, so that all defaults apply."""
        return getattr(self, "implementation", object)

    @property
    def indexable(self) -> bool:
        """True if it embeds images and sentences in one space."""
        return all(hasattr(self.matcher_class, name) for name in ("embed_images", "embed_sentences"))

    @property
    def tunable(self) -> bool:
        """True if an image encoder can be fine-tuned together with it."""
        return bool(getattr(self.matcher_class, "tunable", False))

    @property
    def reads_words(self) -> bool:
        """True if it reads the words of sentences."""
        return bool(self._declared("reads_words", True))

    @property
    def reads_vectors(self) -> bool:
        """True if it requires sentence-encoder vectors."""
        return bool(self._declared("reads_vectors", False))

    @property
    def generates(self) -> bool:
        """True if it also learns to generate sentences (`generation_loss`)."""
        return bool(self._declared("generates", False))

    @property
    def max_words(self) -> int | None:
        """The number of words of a sentence that it reads: `max_length`, or a constant; None for all."""
        most: int | None = getattr(self, "max_length", None) or self._declared("max_words", None)
        return most

    @property
    def instances_per_image(self) -> int | None:
        """The number of instances in an image's features, `instances`; None for a single vector."""
        return getattr(self, "instances", None)

    @property
    def concept_count(self) -> int | None:
        """The maximum number of concepts that it predicts; None if it matches sentences."""
        return None

    @property
    def predicts_concepts(self) -> bool:
        """True if it classifies images by concepts instead of matching them with sentences."""
        return self.concept_count is not None

    def _declared(self, name: str, default: Any) -> Any:
        """A declaration of the matcher's class: an attribute, or a function of these settings."""
        declared = getattr(self.matcher_class, name, default)
        return declared(self) if callable(declared) else declared


MATCHERS = SettingsRegistry(
    "matcher",
    "seesay.matchers",
    base=MatcherSettings,
    inputs=_INPUTS,
    modules={
        "seesay.matchers.cca": ["cca"],
        "seesay.matchers.vsepp": ["vse++"],
        "seesay.matchers.composed": ["fine-tuned", "ensemble"],
        "seesay.matchers.cosine": ["cosine"],
        "seesay.matchers.gvse": ["uncommon-vse", "metric-fusion"],
        "seesay.matchers.irmatch": ["irmatch"],
        "seesay.matchers.mcnn": ["mcnn"],
        "seesay.matchers.projection": ["projection", "joint-projection"],
        "seesay.matchers.sco": ["sco", "concepts"],
        "seesay.matchers.two_branch": ["embedding-network", "similarity-network"],
    },
)
register_matcher = MATCHERS.register_class

# Settings of any matcher, in a field of other settings.
AnyMatcherSettings = Annotated[SerializeAsAny[MatcherSettings], BeforeValidator(MATCHERS.validate)]


class ComposedSettings(MatcherSettings):
    """Base of the settings of composed matchers, whose members are trained by their own recipes.

    `members` names those recipes. Once the recipe is resolved, `matchers` holds their settings in the same
    order.

    Attributes:
        rule: what its members must be, for error messages.
        together: what error messages call its members.
    """

    is_composed: ClassVar[bool] = True
    joins_inputs: ClassVar[bool] = False  # True if members may read only a part, which `parts` then holds
    rule: ClassVar[str]
    together: ClassVar[str]

    members: tuple[str, ...] = Field(min_length=2)
    matchers: tuple[AnyMatcherSettings, ...] = ()

    def accepts(self, member: MatcherSettings) -> bool:
        """Return whether that matcher can be a member."""
        raise NotImplementedError

    def with_members(
        self, matchers: Sequence[MatcherSettings], places: Sequence[tuple[int, ...]]
    ) -> ComposedSettings:
        """Fill in the members' settings; `places` are the positions of their image arrays in the recipe."""
        parts = {"parts": tuple(places)} if self.joins_inputs else {}
        return self.model_copy(update={"matchers": tuple(matchers), **parts})

    @property
    def instances_per_image(self) -> int | None:
        """The number of instances in the members' image features; None for a single vector."""
        found = (member.instances_per_image for member in self.matchers)
        return next((count for count in found if count is not None), None)

    def check_resolved(self, filled: int) -> None:
        """Raise `SeesayError` unless the settings of all members have been filled in."""
        if filled != len(self.members):
            raise SeesayError(
                f"The members {', '.join(self.members)} come with the settings of {filled} matchers; "
                "`seesay train` fills them in from the members' recipes."
            )

    @property
    def reads_words(self) -> bool:
        """True if a member reads words, or none is known yet."""
        return not self.matchers or any(member.reads_words for member in self.matchers)

    @property
    def reads_vectors(self) -> bool:
        """True if a member needs vectors."""
        return any(member.reads_vectors for member in self.matchers)

    @property
    def max_words(self) -> int | None:
        """The number of words of a sentence that all members read; None for all words."""
        found = (member.max_words for member in self.matchers)
        return min((words for words in found if words is not None), default=None)
