"""GVSE (Huang, Long, Wang, AAAI 2019): uncommon VSE, and its gated fusion with a common VSE.

The uncommon VSE only learns to combine frozen features: the class probabilities of an image's instances by an
attentional LSTM, and the vector of a sentence encoder by a linear map. It can therefore match things that
never occurred in its training pairs.

The fusion weights two metrics by the content of the query. Eq. 4: m = t ⊙ m₀ + (1 - t) ⊙ m₁ with t = σ(f(x)),
where m₀ and m₁ are the query's scores by the two members, and x is the concatenation of its two vectors. The
fused score is the inner product of [t·q₀ ; (1 - t)·q₁] and [g₀ ; g₁], so candidates can be indexed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

import torch
from pydantic import Field, NonNegativeInt, PositiveInt
from torch import Tensor, nn

from seesay.errors import SeesayError
from seesay.matchers.base import EmbeddingMatcher, Pretrained, check_images
from seesay.matchers.layers import (
    instance_width,
    missing_instances,
    normalised_instances,
    unit_vectors,
    xavier,
)
from seesay.matchers.projection import CLASSES
from seesay.matchers.sentences import Sentences, SentencesLike, read_vectors
from seesay.matchers.settings import ComposedSettings, MatcherInputs, MatcherSettings, register_matcher
from seesay.settings import Dropout, Settings

NAME_DIM = 384  # width of the vectors of class names


class GateSettings(Settings):
    """Settings of the gates of `GVSE`, which separate queries with uncommon content from others.

    Attributes:
        uncommon: a word is uncommon if it occurs at most this often in the other folds of the train split.
        folds: the number of folds.
        hidden: width of the hidden layer of f (eq. 4).
    """

    uncommon: NonNegativeInt = 3
    folds: int = Field(5, gt=1)
    hidden: PositiveInt = 512


class GVSESettings(ComposedSettings):
    """Settings of `GVSE`; the first member is the one for uncommon content.

    `parts` are the positions of each member's image arrays among those of the recipe, and are filled in like
    `matchers`. The recipe's optimizer, schedule and batch size are those of the gates.
    """

    joins_inputs: ClassVar[bool] = True
    rule: ClassVar[str] = "a fusion is of embedding matchers (sco, uncommon-vse, vse++)"
    together: ClassVar[str] = "members of a fusion"

    members: tuple[str, ...] = Field(min_length=2, max_length=2)
    gate: GateSettings | None = None
    parts: tuple[tuple[int, ...], ...] = ()

    def accepts(self, member: MatcherSettings) -> bool:
        """Return whether that matcher can be a member."""
        return member.indexable and not issubclass(member.matcher_class, GVSE)

    def build(self, inputs: MatcherInputs) -> GVSE:
        """Return the fusion of new members."""
        self.check_resolved(min(len(self.matchers), len(self.parts)))
        own = [tuple(inputs.image_dims[i] for i in parts) for parts in self.parts]
        members = [
            settings.build(MatcherInputs(dims, inputs.vocabulary_size, inputs.sentence_dim))
            for settings, dims in zip(self.matchers, own, strict=True)
        ]
        return GVSE(members, inputs.image_dims, self.parts, inputs.sentence_dim, self.gate)


class AttentionalLSTM(nn.Module):
    """Eq. 1: each of T steps attends to the instances by the LSTM's state, and feeds it their weighted mean.

    f is a two-way MLP: one matrix for the instance and one for the state, the tanh of the sum, and a score.
    """

    def __init__(self, width: int, dim: int, hidden: int, steps: int) -> None:
        super().__init__()
        self.image_map = xavier(width, hidden)
        self.state_map = nn.Linear(dim, hidden, bias=False)
        self.saliency = nn.Linear(hidden, 1, bias=False)
        self.lstm = nn.LSTMCell(width, dim)
        nn.init.xavier_uniform_(self.lstm.weight_ih)
        nn.init.zeros_(self.lstm.bias_ih)
        nn.init.zeros_(self.lstm.bias_hh)
        self.dim, self.steps = dim, steps

    def forward(self, instances: Tensor, missing: Tensor) -> Tensor:
        """Return the state h_T, (n, H), of instances (n, I, F); `missing`, (n, I), marks padding."""
        mapped = self.image_map(instances)
        hidden = memory = instances.new_zeros(instances.shape[0], self.dim)
        for _ in range(self.steps):
            scores = self.saliency(torch.tanh(mapped + self.state_map(hidden)[:, None]))[..., 0]
            saliencies = scores.masked_fill(missing, -torch.inf).softmax(dim=1)
            attended = torch.bmm(saliencies[:, None], instances)[:, 0]
            hidden, memory = self.lstm(attended, (hidden, memory))
        return hidden


@register_matcher("uncommon-vse")
class UncommonVSE(EmbeddingMatcher):
    """The score is the cosine of image vector v and sentence vector s, both in R^H.

    Instances are replaced by the square roots of their components and normalised: √p for probabilities p, so
    that small ones count too. Instances of zeros are padding, for images with fewer than I.

    Args:
        image_dim: I·F, the width of the concatenated instances.
        sentence_dim: width of the sentence encoder's vectors.
        instances: I.
        dim: H.
        steps: T; with 0, the image vector is a linear map of the instances' mean.
        attention: width of the hidden layer of f (eq. 1).
        dropout: on the instances and the sentence vectors in training.
        class_names: whether each instance, probabilities of ImageNet's classes, is joined with the mean of
            the class names' sentence vectors, weighted by them: what the instance may be called, including
            words that never occur in training.

    Example:
        >>> import torch
        >>> from seesay.matchers import UncommonVSE
        >>> matcher = UncommonVSE(image_dim=3 * 6, sentence_dim=8, instances=3, dim=16)
        >>> sentences = torch.rand(2, 8)  # vectors of a sentence encoder
        >>> matcher(torch.rand(4, 3 * 6), sentences).shape
        torch.Size([4, 2])
    """

    reads_words, reads_vectors = False, True

    def __init__(
        self,
        image_dim: PositiveInt,
        sentence_dim: PositiveInt,
        instances: PositiveInt = 36,
        dim: PositiveInt = 1024,
        steps: NonNegativeInt = 3,
        attention: PositiveInt = 512,
        dropout: Dropout = 0.0,
        class_names: bool = False,
    ) -> None:
        super().__init__()
        self.image_dim, self.instances = image_dim, instances
        width = instance_width(image_dim, instances)
        self.names = ClassNames(width) if class_names else None
        width += NAME_DIM if class_names else 0
        self.dropout = nn.Dropout(dropout)
        self.relation = AttentionalLSTM(width, dim, attention, steps) if steps else None
        self.image_map = None if steps else xavier(width, dim)
        self.sentence_map = xavier(sentence_dim, dim)

    def embed_images(self, images: Tensor) -> Tensor:
        """Return unit image vectors, (n, H), from concatenated instances, (n, I·F)."""
        instances = self._instances(images)
        missing = missing_instances(instances)
        if self.relation is not None:
            return unit_vectors(self.relation(self.dropout(instances), missing))
        assert self.image_map is not None
        there = (~missing).to(instances.dtype)
        mean = (self.dropout(instances) * there[..., None]).sum(dim=1) / there.sum(dim=1, keepdim=True)
        return unit_vectors(self.image_map(mean))

    def embed_sentences(self, sentences: SentencesLike) -> Tensor:
        """Return unit sentence vectors, (m, H)."""
        vectors = read_vectors(sentences, self.sentence_map.in_features, self.sentence_map.weight)
        return unit_vectors(self.sentence_map(self.dropout(vectors)))

    def prepare(self, pretrained: Pretrained) -> None:
        """Set the vectors of the classes, which are saved with the weights."""
        if self.names is not None:
            self.names.prepare(torch.from_numpy(pretrained.class_vectors()))

    def _instances(self, images: Tensor) -> Tensor:
        check_images(images, self.image_dim)
        dtype = self.sentence_map.weight.dtype
        instances = normalised_instances(images, self.instances, dtype)
        if self.names is None:
            return instances
        named: Tensor = self.names(images.view(instances.shape).to(dtype), instances)
        return named


class ClassNames(nn.Module):
    """Vectors of class names, weighted by class probabilities; nothing is learned.

    ConSE (Norouzi et al. 2014): an instance becomes the mean of the vectors of ImageNet's classes, weighted
    by their probabilities.
    """

    classes: Tensor

    def __init__(self, classes: int) -> None:
        super().__init__()
        if classes != CLASSES:
            raise SeesayError(
                f"matcher.class_names: instances are {classes} numbers, not the probabilities of the "
                f"{CLASSES} ImageNet classes; leave it out."
            )
        self.register_buffer("classes", torch.zeros(classes, NAME_DIM))

    def prepare(self, vectors: Tensor) -> None:
        """Set the vectors of ImageNet's classes, (1000, 384)."""
        self.classes.copy_(unit_vectors(vectors - vectors.mean(dim=0)))

    def forward(self, weights: Tensor, instances: Tensor) -> Tensor:
        """Join instances (n, I, F) with the class names of weights (n, I, F), as unit vectors."""
        names = unit_vectors(weights @ self.classes, dim=2)
        joined: Tensor = torch.cat([instances, names], dim=2) * 0.5**0.5
        return joined


class Gate(nn.Module):
    """The classifier f of eq. 4: an MLP that detects uncommon content from vectors of widths `dims`."""

    scale: Tensor

    def __init__(self, dims: Sequence[int], hidden: int) -> None:
        super().__init__()
        # Scaled by this, the components of unit vectors have a variance of about 1.
        self.register_buffer("scale", torch.cat([torch.full((dim,), dim**0.5) for dim in dims]))
        self.hidden = nn.Linear(sum(dims), hidden)
        self.score = nn.Linear(hidden, 1)
        self.reset()

    def reset(self) -> None:
        """Draw new initial weights, with which all logits are zero and t = 1/2."""
        self.hidden.reset_parameters()
        nn.init.zeros_(self.score.weight)
        nn.init.zeros_(self.score.bias)

    def forward(self, vectors: Tensor) -> Tensor:
        """Return the logits f(x), (n,), of concatenated vectors, (n, d₀ + d₁)."""
        logits: Tensor = self.score(torch.relu(self.hidden(vectors * self.scale)))
        return logits[:, 0]


@register_matcher("metric-fusion", GVSESettings)
class GVSE(EmbeddingMatcher):
    """The metrics of two embedding matchers, summed or weighted by the gate of the query.

    Only the gates are trained here; the members have been trained separately before.

    Args:
        members: the one for uncommon content, and the one for common content.
        image_dims: widths of the image's arrays.
        parts: for each member, the positions of its arrays.
        sentence_dim: width of the sentence encoder's vectors.
        gate: settings of the gates; None for the sum.

    Example:
        >>> import torch
        >>> from seesay.matchers import CCA, GVSE, VSEPlusPlus, Sentences
        >>> uncommon = CCA(image_dim=6, sentence_dim=8, dim=4)
        >>> common = VSEPlusPlus(image_dim=5, vocabulary_size=10, dim=16)
        >>> matcher = GVSE([uncommon, common], image_dims=(6, 5), parts=[(0,), (1,)], sentence_dim=8)
        >>> ids, lengths, vectors = torch.tensor([[5, 2], [7, 1]]), torch.tensor([2, 2]), torch.rand(2, 8)
        >>> matcher(torch.rand(4, 6 + 5), Sentences.from_padded(ids, lengths, vectors)).shape
        torch.Size([4, 2])
    """

    def __init__(
        self,
        members: Sequence[nn.Module],
        image_dims: Sequence[PositiveInt],
        parts: Sequence[Sequence[int]],
        sentence_dim: NonNegativeInt,
        gate: GateSettings | None = None,
    ) -> None:
        super().__init__()
        self.members = cast(Sequence[EmbeddingMatcher], nn.ModuleList(members))
        self.gate, self.asymmetric = gate, gate is not None
        self.image_dims, self._parts = list(image_dims), [list(some) for some in parts]
        self.eval()
        with torch.no_grad():
            word = Sentences.of_one_word(sentence_dim)
            self.dims = [member.embed_sentences(word).shape[1] for member in self.members]
        self.image_gate, self.sentence_gate = (
            Gate(self.dims, gate.hidden) if gate is not None else None for _ in range(2)
        )

    def embed_images(self, images: Tensor) -> Tensor:
        """Return the members' image vectors, concatenated, (n, d₀ + d₁)."""
        check_images(images, sum(self.image_dims))
        arrays = torch.split(images, self.image_dims, dim=1)
        theirs = (torch.cat([arrays[i] for i in some], dim=1) for some in self._parts)
        members = zip(self.members, theirs, strict=True)
        return torch.cat([member.embed_images(mine) for member, mine in members], dim=1)

    def embed_sentences(self, sentences: SentencesLike) -> Tensor:
        """Return the members' sentence vectors, concatenated, (m, d₀ + d₁)."""
        return torch.cat([member.embed_sentences(sentences) for member in self.members], dim=1)

    def query_images(self, images: Tensor) -> Tensor:
        """Return `embed_images`, weighted: [t·q₀ ; (1 - t)·q₁]."""
        return self._weighted(self.embed_images(images), self.image_gate)

    def query_sentences(self, sentences: SentencesLike) -> Tensor:
        """Return `embed_sentences`, weighted by the gate of sentences."""
        return self._weighted(self.embed_sentences(sentences), self.sentence_gate)

    def _weighted(self, vectors: Tensor, gate: Gate | None) -> Tensor:
        if gate is None:
            return vectors
        t = torch.sigmoid(gate(vectors).float())[:, None]
        first, second = torch.split(vectors, self.dims, dim=1)
        return torch.cat([t * first, (1 - t) * second], dim=1)
