"""The ensemble of pair matchers: their scores are summed (m-CNN, section 3.2)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from seesay.matchers.base import PairMatcher
from seesay.matchers.sentences import Sentences


class Ensemble(PairMatcher):
    """Sums its members' scores; their encodings lie side by side, each flattened to one row.

    It is never trained: its members are, each alone.

    Args:
        members: matchers that read the same features and sentences.
        image_dim: width of the image features.
        sentence_dim: width of the sentence vectors.
    """

    def __init__(self, members: Sequence[PairMatcher], image_dim: int, sentence_dim: int) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        # What one image and one word become tells how to take encodings apart again.
        one = torch.ones(1, dtype=torch.int64)
        word = Sentences(one - 1, one, torch.zeros(1, sentence_dim))
        self.eval()
        with torch.no_grad():
            self._image_shapes = [m.encode_images(torch.zeros(1, image_dim)).shape[1:] for m in members]
            self._sentence_shapes = [m.encode_sentences(word).shape[1:] for m in members]

    def encode_images(self, images: Tensor) -> Tensor:
        """The members' encodings, (n, sum of their widths)."""
        return torch.cat([member.encode_images(images).flatten(1) for member in self.pair_matchers()], dim=1)

    def encode_sentences(self, sentences: Sentences) -> Tensor:
        """The members' encodings, (m, sum of their sizes)."""
        encoded = [member.encode_sentences(sentences).flatten(1) for member in self.pair_matchers()]
        return torch.cat(encoded, dim=1)

    def score_encoded(self, images: Tensor, sentences: Tensor) -> Tensor:
        """The sum of the members' score matrices, (n, m)."""
        parts = zip(self.pair_matchers(), *self._apart(images, sentences), strict=True)
        return torch.stack([member.score_encoded(x, y) for member, x, y in parts]).sum(dim=0)

    def score_pairs(self, images: Tensor, sentences: Tensor) -> Tensor:
        """The sums of the members' scores (n,) of encoded images and sentences side by side."""
        parts = zip(self.pair_matchers(), *self._apart(images, sentences), strict=True)
        return torch.stack([member.score_pairs(x, y) for member, x, y in parts]).sum(dim=0)

    def pair_matchers(self) -> list[PairMatcher]:
        """The members."""
        return [member for member in self.members if isinstance(member, PairMatcher)]

    def _apart(self, images: Tensor, sentences: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        return take_apart(images, self._image_shapes), take_apart(sentences, self._sentence_shapes)


def take_apart(rows: Tensor, shapes: Sequence[torch.Size]) -> list[Tensor]:
    """Views of rows (n, sum of sizes) as (n, *shape) each; nothing is copied."""
    sizes = [shape.numel() for shape in shapes]
    parts = zip(torch.split(rows, sizes, dim=1), shapes, strict=True)
    return [part.view(len(part), *shape) for part, shape in parts]
