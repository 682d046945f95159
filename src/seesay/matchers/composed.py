"""Composed matchers: the ensemble of m-CNN (section 3.2), and matchers fine-tuned with their CNN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

import torch
from pydantic import Field, NonNegativeInt, PositiveInt
from torch import Tensor, nn

from seesay.matchers.base import Matcher, PairMatcher, check_images
from seesay.matchers.sentences import Sentences, SentencesLike, as_sentences
from seesay.matchers.settings import ComposedSettings, MatcherInputs, MatcherSettings, register_matcher


class EnsembleSettings(ComposedSettings):
    """Settings of `Ensemble`; the recipe's own loss, optimizer and schedule are not used."""

    rule: ClassVar[str] = "an ensemble is of pair matchers (mcnn, similarity-network)"
    together: ClassVar[str] = "members of an ensemble"

    def accepts(self, member: MatcherSettings) -> bool:
        """Return whether that matcher can be a member."""
        return issubclass(member.matcher_class, PairMatcher) and not member.is_composed

    def build(self, inputs: MatcherInputs) -> Ensemble:
        """Return the ensemble of new members."""
        self.check_resolved(len(self.matchers))
        members = [cast(PairMatcher, member.build(inputs)) for member in self.matchers]
        return Ensemble(members, inputs.image_dim, inputs.sentence_dim)


class FineTunedSettings(ComposedSettings):
    """Settings of the second step of learning: the CNN and the matcher end to end (GVSE, common VSE).

    For concepts, these are the CNN and its output layer (SCO, section 3.2). The only member is the recipe of
    the first step, in which the CNN is fixed. Loss, optimizer, schedule and batch size are those of the
    second step. The activations of `at_once` images are in memory at a time.

    With `views`, only the blocks after stride 16 are tuned, and each epoch shows one of `views` crops of an
    image: those of its encoder, and random ones. Without, the whole CNN is tuned on new random crops.
    With `frozen`, the CNN is not tuned: a control that trains the matcher in the same way for as long.
    """

    rule: ClassVar[str] = "fine-tuning goes on with mcnn, sco, vse++, irmatch, projection or concepts"
    together: ClassVar[str] = "both steps"

    members: tuple[str, ...] = Field(min_length=1, max_length=1)
    at_once: PositiveInt = 32
    views: PositiveInt | None = None
    frozen: bool = False

    def accepts(self, member: MatcherSettings) -> bool:
        """Return whether that matcher can be fine-tuned."""
        return member.tunable and not member.is_composed

    def build(self, inputs: MatcherInputs) -> nn.Module:
        """Return the member's matcher."""
        self.check_resolved(len(self.matchers))
        return self.matchers[0].build(inputs)

    @property
    def matcher_class(self) -> type:
        """The class of the member; `Matcher` while it is not known."""
        return self.matchers[0].matcher_class if self.matchers else Matcher

    @property
    def generates(self) -> bool:
        """True if the member also learns to generate sentences."""
        return self.matchers[0].generates

    @property
    def concept_count(self) -> int | None:
        """The maximum number of concepts that the member predicts; None for a matcher."""
        return self.matchers[0].concept_count if self.matchers else None


register_matcher("fine-tuned", FineTunedSettings)(Matcher)


@register_matcher("ensemble", EnsembleSettings)
class Ensemble(PairMatcher):
    """Sums the scores of pair matchers, whose encodings are flattened and concatenated.

    It is not trained itself; its members are trained separately.

    Args:
        members: matchers that read the same features and sentences.
        image_dim: width of the image features.
        sentence_dim: width of the sentence encoder's vectors; 0 without one.

    Example:
        >>> import torch
        >>> from seesay.matchers import Ensemble, MatchingCNN
        >>> members = [MatchingCNN(image_dim=6, vocabulary_size=10, level=level) for level in ("wd", "st")]
        >>> sentences = (torch.tensor([[5, 2, 9], [7, 1, 0]]), torch.tensor([3, 2]))  # padded ids, lengths
        >>> Ensemble(members, image_dim=6)(torch.rand(4, 6), sentences).shape
        torch.Size([4, 2])
    """

    def __init__(
        self, members: Sequence[PairMatcher], image_dim: PositiveInt, sentence_dim: NonNegativeInt = 0
    ) -> None:
        super().__init__()
        self.image_dim, self.members = image_dim, cast(Sequence[PairMatcher], nn.ModuleList(members))
        # The shapes of one encoded image and one encoded sentence, by which encodings are split again.
        word = Sentences.of_one_word(sentence_dim)
        self.eval()
        with torch.no_grad():
            self._image_shapes = [m.encode_images(torch.zeros(1, image_dim)).shape[1:] for m in members]
            self._sentence_shapes = [m.encode_sentences(word).shape[1:] for m in members]

    def encode_images(self, images: Tensor) -> Tensor:
        """Return the members' encodings, (n, sum of their sizes)."""
        check_images(images, self.image_dim)
        return torch.cat([member.encode_images(images).flatten(1) for member in self.members], dim=1)

    def encode_sentences(self, sentences: SentencesLike) -> Tensor:
        """Return the members' encodings, (m, sum of their sizes)."""
        sentences = as_sentences(sentences)
        encoded = [member.encode_sentences(sentences).flatten(1) for member in self.members]
        return torch.cat(encoded, dim=1)

    def score_encoded(self, images: Tensor, sentences: Tensor) -> Tensor:
        """Return the sum of the members' score matrices, (n, m)."""
        parts = zip(self.members, *self._apart(images, sentences), strict=True)
        return torch.stack([member.score_encoded(x, y) for member, x, y in parts]).sum(dim=0)

    def score_pairs(self, images: Tensor, sentences: Tensor) -> Tensor:
        """Return the sums of the members' scores (n,) of n encoded images, each with one sentence."""
        parts = zip(self.members, *self._apart(images, sentences), strict=True)
        return torch.stack([member.score_pairs(x, y) for member, x, y in parts]).sum(dim=0)

    def _apart(self, images: Tensor, sentences: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        return take_apart(images, self._image_shapes), take_apart(sentences, self._sentence_shapes)


def take_apart(rows: Tensor, shapes: Sequence[torch.Size]) -> list[Tensor]:
    """Return views of rows (n, sum of sizes) as (n, *shape) each; nothing is copied."""
    sizes = [shape.numel() for shape in shapes]
    parts = zip(torch.split(rows, sizes, dim=1), shapes, strict=True)
    return [part.view(part.shape[0], *shape) for part, shape in parts]
