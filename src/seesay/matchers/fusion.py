"""GVSE's gated metric fusion (Huang, Long, Wang, AAAI 2019): two metrics, weighed by what the query holds.

Eq. 4: m = t ⊙ m₀ + (1 - t) ⊙ m₁ with t = σ(f(x)), where m₀ and m₁ are a query's scores by either member
and x its two vectors, one behind the other. So the fused score is the inner product of [t·q₀ ; (1 - t)·q₁]
with [g₀ ; g₁], and candidates can be indexed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seesay.matchers.base import EmbeddingMatcher
from seesay.matchers.sentences import Sentences

_AT_ONCE = 512  # images or sentences that a gate sees at a time


class Gate(nn.Module):
    """The classifier f of eq. 4, an MLP: whether a query's two vectors tell of uncommon content.

    Args:
        dims: widths of the two vectors.
        hidden: of the MLP's hidden layer.
    """

    scale: Tensor

    def __init__(self, dims: Sequence[int], hidden: int) -> None:
        super().__init__()
        # Numbers of unit vectors are small; times this they have about variance 1.
        self.register_buffer("scale", torch.cat([torch.full((dim,), dim**0.5) for dim in dims]))
        self.hidden = nn.Linear(sum(dims), hidden)
        self.score = nn.Linear(hidden, 1)
        self.reset()

    def reset(self) -> None:
        """Initial weights, drawn anew: all logits are zero, t = 1/2."""
        self.hidden.reset_parameters()
        nn.init.zeros_(self.score.weight)
        nn.init.zeros_(self.score.bias)

    def forward(self, vectors: Tensor) -> Tensor:
        """Logits f(x), (n,), of vectors laid side by side, (n, d₀ + d₁)."""
        logits: Tensor = self.score(torch.relu(self.hidden(vectors * self.scale)))
        return logits[:, 0]


class MetricFusion(EmbeddingMatcher):
    """The metrics of two embedding matchers, summed, or weighed by the gate of the query.

    Only the gates are ever trained here; the members are, each alone.

    Args:
        members: for uncommon content, and for common.
        widths: of the image's arrays.
        parts: for each member the positions of the arrays that it takes.
        sentence_dim: width of the sentence vectors.
        hidden: of the gates, which images and sentences have one each; None for the sum.
    """

    def __init__(
        self,
        members: Sequence[EmbeddingMatcher],
        widths: Sequence[int],
        parts: Sequence[Sequence[int]],
        sentence_dim: int,
        hidden: int | None,
    ) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.asks = hidden is not None
        self._widths, self._parts = list(widths), [list(some) for some in parts]
        # What one word becomes tells how wide the members' vectors are.
        one = torch.ones(1, dtype=torch.int64)
        word = Sentences(one - 1, one, torch.zeros(1, sentence_dim))
        with torch.no_grad():
            self.dims = [member.eval().embed_sentences(word).shape[1] for member in members]
        self.image_gate = Gate(self.dims, hidden) if hidden is not None else None
        self.sentence_gate = Gate(self.dims, hidden) if hidden is not None else None

    def embed_images(self, images: Tensor) -> Tensor:
        """The members' image vectors side by side, (n, d₀ + d₁)."""
        arrays = torch.split(images, self._widths, dim=1)
        theirs = (torch.cat([arrays[i] for i in some], dim=1) for some in self._parts)
        members = zip(self._matchers(), theirs, strict=True)
        return torch.cat([member.embed_images(mine) for member, mine in members], dim=1)

    def embed_sentences(self, sentences: Sentences) -> Tensor:
        """The members' sentence vectors side by side, (m, d₀ + d₁)."""
        return torch.cat([member.embed_sentences(sentences) for member in self._matchers()], dim=1)

    def query_images(self, images: Tensor) -> Tensor:
        """As `embed_images`, weighed: [t·q₀ ; (1 - t)·q₁]."""
        return self._weighed(self.embed_images(images), self.image_gate)

    def query_sentences(self, sentences: Sentences) -> Tensor:
        """As `embed_sentences`, weighed by the sentences' own gate."""
        return self._weighed(self.embed_sentences(sentences), self.sentence_gate)

    def image_weights(self, images: Tensor) -> Tensor:
        """The gate's t of images, (n,): how likely they hold uncommon content; 1/2 without gates."""
        return _weights(self.embed_images(images), self.image_gate)

    def sentence_weights(self, sentences: Sentences) -> Tensor:
        """The gate's t of sentences, (m,)."""
        return _weights(self.embed_sentences(sentences), self.sentence_gate)

    def _weighed(self, vectors: Tensor, gate: Gate | None) -> Tensor:
        if gate is None:
            return vectors
        t = _weights(vectors, gate)[:, None]
        first, second = torch.split(vectors, self.dims, dim=1)
        return torch.cat([t * first, (1 - t) * second], dim=1)

    def _matchers(self) -> list[EmbeddingMatcher]:
        return [member for member in self.members if isinstance(member, EmbeddingMatcher)]


@torch.inference_mode()
def gate_values(
    matcher: MetricFusion, images: Tensor, sentences: Sentences, device: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The gates' t of all images, (n,) from joined features (n, d), and of all m sentences, (m,)."""
    of_images = [matcher.image_weights(part.to(device)) for part in torch.split(images, _AT_ONCE)]
    rows = torch.split(torch.arange(len(sentences)), _AT_ONCE)
    of_sentences = [matcher.sentence_weights(sentences.take(some).to(device)) for some in rows]
    both = [torch.cat(t).double().cpu().numpy() for t in (of_images, of_sentences)]
    return both[0], both[1]


def _weights(vectors: Tensor, gate: Gate | None) -> Tensor:
    """T of eq. 4, (n,)."""
    return (
        torch.sigmoid(gate(vectors).float()) if gate is not None else vectors.new_full((len(vectors),), 0.5)
    )
